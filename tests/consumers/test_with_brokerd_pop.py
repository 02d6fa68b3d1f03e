"""PushConsumer in a group whose mode is POP, against a real brokerd process."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.errors import MQBrokerError
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import dead_letter_topic
from consumers import ConsumeStatus, MQAdmin, Producer, PullConsumer, PullConsumerConfig, PushConsumer
from consumers.config import ConsumeFromWhere
from consumers.consumer.pop import consume_pop
from tests.consumers.fake_broker import wait_until
from tests.consumers.test_with_brokerd import FROM_FIRST, Seen, create_topic, send_numbered
from tests.support.broker_process import BrokerProcess
from tests.support.documented import example

GROUP = "poppers"


async def prepare(
    brokerd: BrokerProcess, mode: str = "POP", topic: str = "orders", group: str = GROUP
) -> None:
    await create_topic(brokerd, topic)
    async with MQAdmin(brokerd.namesrv) as admin:
        await admin.create_subscription_group(brokerd.address, SubscriptionGroupConfig(group_name=group))
        await admin.set_message_request_mode(brokerd.address, topic, group, mode)


async def test_members_pop_every_queue_and_acknowledge(brokerd: BrokerProcess) -> None:
    await prepare(brokerd)
    first, second = Seen(), Seen()
    async with (
        MQAdmin(brokerd.namesrv) as admin,
        Producer("shop", brokerd.namesrv) as producer,
        PushConsumer(GROUP, brokerd.namesrv, first, {"orders": "*"}, config=FROM_FIRST) as one,
        PushConsumer(GROUP, brokerd.namesrv, second, {"orders": "*"}, config=FROM_FIRST) as two,
    ):
        await wait_until(lambda: len(one.poppers.queues) == len(two.poppers.queues) == 1)
        assert one.poppers.queues[0].queue_id == -1
        assert [queue.topic for queue in [*one.table, *two.table]] == [f"%RETRY%{GROUP}"]
        await send_numbered(producer, 500)
        await wait_until(lambda: sum((first.bodies + second.bodies).values()) == 500)
        info = await admin.consumer_running_info(brokerd.address, GROUP, one.client.client_id)
        (popped,) = info.mq_pop_table.values()
        assert popped["lastPopTimestamp"] > 0 and not popped["droped"]
        assert info.status_table["orders"].pull_tps > 0
    assert first.bodies and second.bodies
    assert set((first.bodies + second.bodies).values()) == {1}


async def test_failures_come_again_and_end_as_dead_letters(
    brokerd: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_pop, "POP_DELAYS_S", (2,))
    await prepare(brokerd)
    seen = Seen()

    async def handle(messages, context):
        await seen(messages, context)
        if messages[0].body != b"bad":
            return ConsumeStatus.CONSUME_SUCCESS
        assert messages[0].topic == "orders"
        if messages[0].reconsume_times == 2:
            context.delay_level_when_next_consume = -1
        return ConsumeStatus.RECONSUME_LATER

    # What is not acknowledged comes again after 5 s and the broker's 2 s: before the dead letter, 8 s after the send.
    config = dataclasses.replace(FROM_FIRST, pop_invisible_time_ms=5_000)
    async with (
        MQAdmin(brokerd.namesrv) as admin,
        Producer("shop", brokerd.namesrv) as producer,
        PushConsumer(GROUP, brokerd.namesrv, handle, {"orders": "Aa"}, config=config),
    ):
        for number in range(10):
            # The hash of both tags is the same: the broker gives both, and the consumer is done with the second.
            await producer.send(Message("orders", b"%d" % number, {"TAGS": ["Aa", "BB"][number % 2]}))
        await producer.send(Message("orders", b"bad", {"TAGS": "Aa", "KEYS": "A-1"}))
        letter = await first_message(admin, brokerd, dead_letter_topic(GROUP))
        assert (letter.body, letter.keys) == (b"bad", "A-1")
    assert seen.times.pop(b"bad") == [0, 1, 2]
    assert seen.times == {b"%d" % number: [0] for number in range(0, 10, 2)}


async def first_message(admin: MQAdmin, brokerd: BrokerProcess, topic: str):
    async with asyncio.timeout(60):
        while True:
            try:
                found = (await admin.pull(brokerd.address, topic, 0, 0)).messages
            except MQBrokerError:
                found = []  # the topic is made with its first message
            if found:
                return found[0]
            await asyncio.sleep(0.1)


async def test_a_member_that_leaves_gives_back_what_it_has_not_begun(brokerd: BrokerProcess) -> None:
    await prepare(brokerd)
    hanging = asyncio.Event()

    async def hang(messages, context):
        hanging.set()
        await asyncio.sleep(600)

    seen = Seen()
    one_by_one = dataclasses.replace(FROM_FIRST, consume_concurrency=1, await_termination_ms=0)
    async with Producer("shop", brokerd.namesrv) as producer:
        await send_numbered(producer, 8)
        async with PushConsumer(GROUP, brokerd.namesrv, hang, {"orders": "*"}, config=one_by_one) as first:
            await asyncio.wait_for(hanging.wait(), 20)
            await wait_until(lambda: sum(one.wait_ack_count for one in first.poppers.infos().values()) == 8)
        async with PushConsumer(GROUP, brokerd.namesrv, seen, {"orders": "*"}, config=FROM_FIRST):
            # Of 60 s that they are popped for; only the one whose handler was cancelled is still the first's.
            await wait_until(lambda: len(seen.bodies) == 7)
    assert set(seen.bodies.values()) == {1}


async def test_a_change_of_mode_changes_how_members_read(brokerd: BrokerProcess) -> None:
    await prepare(brokerd, "PULL")
    seen = Seen()
    config = dataclasses.replace(FROM_FIRST, broker_suspend_max_ms=1_000)
    async with (
        MQAdmin(brokerd.namesrv) as admin,
        Producer("shop", brokerd.namesrv) as producer,
        PushConsumer(GROUP, brokerd.namesrv, seen, {"orders": "*"}, config=config) as consumer,
    ):
        await wait_until(lambda: sum(queue.topic == "orders" for queue in consumer.table) == 4)
        await send_numbered(producer, 40)
        await wait_until(lambda: len(seen.bodies) == 40)
        for mode, popped, first in (("POP", 1, 40), ("PULL", 0, 80)):
            await admin.set_message_request_mode(brokerd.address, "orders", GROUP, mode)
            await wait_until(lambda popped=popped: len(consumer.poppers.queues) == popped)
            assert sum(queue.topic == "orders" for queue in consumer.table) == (0 if popped else 4)
            await send_numbered(producer, 40, first=first)
            await wait_until(lambda first=first: len(seen.bodies) == first + 40)
    # The poll that a broker holds at the change from POP to PULL may bring what is pulled as well.
    assert {body for body, times in seen.bodies.items() if times > 1} <= {b"%d" % n for n in range(80, 120)}


async def test_a_pull_consumer_of_such_a_group_pulls(brokerd: BrokerProcess) -> None:
    await prepare(brokerd)
    config = PullConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    async with (
        Producer("shop", brokerd.namesrv) as producer,
        PullConsumer(GROUP, brokerd.namesrv, {"orders": "*"}, config=config) as consumer,
    ):
        await producer.send(Message("orders", b"pulled"))
        assert [message.body for message in await consumer.poll(20_000)] == [b"pulled"]
        # Queues are taken one by one: the message may come before the last of them.
        await wait_until(lambda: sorted(queue.queue_id for queue in consumer.assignment) == [0, 1, 2, 3])


async def test_the_example_of_the_documentation_runs(
    brokerd: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    await prepare(brokerd, topic="parcels", group="packers")
    await example("consumers.md", "POP")(brokerd.namesrv)
    assert capsys.readouterr().out == "A-1\n"
