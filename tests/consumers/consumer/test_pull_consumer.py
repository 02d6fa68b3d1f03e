"""A pull consumer against a real brokerd: assigned and shared queues, seeking, committing, filters."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import msgspec
import pytest

from brokerd.remoting.body.client import ConsumerRunningInfo
from brokerd.remoting.body.offset import ResetOffsetBody
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.command import RemotingCommand
from consumers import (
    ClientClosed,
    ConsumeFromWhere,
    InvalidClientConfig,
    Message,
    MessageModel,
    MessageQueue,
    MQAdmin,
    MQBrokerError,
    NotAssigned,
    Producer,
    PullConsumer,
    PullConsumerConfig,
)
from tests.consumers.consumer.test_push_consumer import Stored
from tests.consumers.fake_broker import wait_until
from tests.consumers.fake_cluster import FakeCluster
from tests.support.broker_process import BrokerProcess
from tests.support.documented import example

FIRST = PullConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, rebalance_interval_ms=1_000)
MANUAL = dataclasses.replace(FIRST, auto_commit=False)
FAKE_QUEUE = MessageQueue("orders", "broker-a", 0)


async def fill(brokerd: BrokerProcess, count: int, queues: int = 2, **properties: str) -> list[MessageQueue]:
    """Topic `orders`; `m0` to … in turn into its queues, which are returned."""
    async with MQAdmin(brokerd.namesrv) as admin, Producer("shop", brokerd.namesrv) as producer:
        await admin.create_topic(brokerd.address, TopicConfig("orders", queues, queues, 6))
        places = await producer.publish_queues("orders")
        for number in range(count):
            message = Message("orders", b"m%d" % number, dict(properties))
            await producer.send(message, queue=places[number % queues])
    return places


async def polled(consumer: PullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    async with asyncio.timeout(60):
        while len(bodies) < count:
            bodies += [message.body for message in await consumer.poll()]
    return bodies


async def committed(brokerd: BrokerProcess, group: str) -> dict[int, int]:
    async with MQAdmin(brokerd.namesrv) as admin:
        return (await admin.all_consumer_offsets(brokerd.address)).offset_table.get(("orders", group), {})


async def test_it_reads_assigned_queues_from_the_first_message(brokerd: BrokerProcess) -> None:
    first, second = await fill(brokerd, 10)
    async with PullConsumer("audit", brokerd.namesrv, config=FIRST) as consumer:
        assert await consumer.queues("orders") == [first, second]
        await consumer.assign([second])
        assert await polled(consumer, 5) == [b"m1", b"m3", b"m5", b"m7", b"m9"]
        assert (consumer.assignment, consumer.position(second)) == ([second], 5)
        assert await consumer.poll(timeout_ms=0) == []
        with pytest.raises(NotAssigned, match="queue 0 of topic orders"):
            consumer.position(first)
        with pytest.raises(NotAssigned):
            await consumer.seek_to_end(first)
    assert await committed(brokerd, "audit") == {1: 5}


async def test_it_keeps_positions_of_queues_that_stay_assigned(brokerd: BrokerProcess) -> None:
    first, second = await fill(brokerd, 4)
    async with PullConsumer("audit", brokerd.namesrv, config=FIRST) as consumer:
        await consumer.assign([first])
        assert await polled(consumer, 2) == [b"m0", b"m2"]
        await consumer.assign([first, second])
        assert await polled(consumer, 2) == [b"m1", b"m3"]
        await consumer.assign([second])
        assert await committed(brokerd, "audit") == {0: 2}
        await consumer.assign([first, second])
        assert consumer.position(first) == 2
        with pytest.raises(NotAssigned, match="queue 7"):
            await consumer.assign([msgspec.structs.replace(first, queue_id=7)])


async def test_members_share_the_queues_of_a_subscription(brokerd: BrokerProcess) -> None:
    await fill(brokerd, 0)
    async with (
        PullConsumer("audit", brokerd.namesrv, {"orders": "*"}, config=FIRST) as one,
        PullConsumer("audit", brokerd.namesrv, {"orders": "*"}, config=FIRST) as two,
    ):
        await wait_until(lambda: len(one.assignment) == len(two.assignment) == 1)
        assert one.assignment != two.assignment
        await fill(brokerd, 20)
        bodies = await asyncio.gather(polled(one, 10), polled(two, 10))
        assert {*bodies[0], *bodies[1]} == {b"m%d" % number for number in range(20)}
        await two.close()
        await wait_until(lambda: len(one.assignment) == 2)
        await one.commit()
        assert await committed(brokerd, "audit") == {0: 10, 1: 10}


async def test_iterating_commits_only_messages_that_are_done_with(brokerd: BrokerProcess) -> None:
    await fill(brokerd, 6, queues=1)

    async def read_until(last: bytes, *, failing: bool) -> list[bytes]:
        seen = []
        async with PullConsumer("audit", brokerd.namesrv, {"orders": "*"}, config=FIRST) as consumer:
            async for message in consumer:
                seen.append(message.body)
                if message.body == last:
                    if failing:
                        raise OSError("disk full")
                    break
        return seen

    with pytest.raises(OSError, match="disk full"):
        await read_until(b"m2", failing=True)
    assert await committed(brokerd, "audit") == {0: 2}
    assert await read_until(b"m4", failing=False) == [b"m2", b"m3", b"m4"]
    assert await committed(brokerd, "audit") == {0: 5}


async def test_without_auto_commit_only_commit_stores_progress(brokerd: BrokerProcess) -> None:
    (queue,) = await fill(brokerd, 6, queues=1)
    async with PullConsumer("audit", brokerd.namesrv, config=MANUAL) as consumer:
        await consumer.assign([queue])
        await polled(consumer, 6)
        await consumer.poll(timeout_ms=0)
        assert await consumer.committed(queue) is None
        await consumer.commit({queue: 3})
        assert await consumer.committed(queue) == 3
        await consumer.commit()
        assert await consumer.committed(queue) == 6
        await consumer.commit({queue: 2})
        with pytest.raises(NotAssigned):
            await consumer.commit({msgspec.structs.replace(queue, queue_id=1): 1})
    assert await committed(brokerd, "audit") == {0: 2}
    async with PullConsumer("audit", brokerd.namesrv, {"orders": "*"}, config=MANUAL) as consumer:
        assert (await polled(consumer, 4))[0] == b"m2"


async def test_it_seeks_to_offsets_ends_and_times(brokerd: BrokerProcess) -> None:
    (queue,) = await fill(brokerd, 6, queues=1)
    async with PullConsumer("audit", brokerd.namesrv, config=MANUAL) as consumer:
        await consumer.assign([queue])
        messages = await consumer.poll()
        while len(messages) < 6:
            messages += await consumer.poll()
        await consumer.seek(queue, 4)
        assert await polled(consumer, 2) == [b"m4", b"m5"]
        await consumer.seek_to_begin(queue)
        assert (await polled(consumer, 6))[0] == b"m0"
        stored_ms = messages[5].store_timestamp_ms
        expected = next(each.queue_offset for each in messages if each.store_timestamp_ms == stored_ms)
        assert await consumer.offsets_for_times({queue: stored_ms}) == {queue: expected}
        await consumer.seek_to_time(queue, stored_ms)
        assert consumer.position(queue) == expected
        await consumer.seek_to_end(queue)
        assert await consumer.poll(timeout_ms=200) == []
        assert await consumer.begin_offsets([queue]) == {queue: 0}
        assert await consumer.end_offsets([queue]) == {queue: 6}
        with pytest.raises(ValueError, match="offset 7 is not stored: the queue has 0 to 6"):
            await consumer.seek(queue, 7)


async def test_paused_queues_give_nothing_until_they_are_resumed(brokerd: BrokerProcess) -> None:
    first, second = await fill(brokerd, 8)
    async with PullConsumer("audit", brokerd.namesrv, config=MANUAL) as consumer:
        await consumer.assign([first, second])
        consumer.pause([first])
        assert await polled(consumer, 4) == [b"m1", b"m3", b"m5", b"m7"]
        assert await consumer.poll(timeout_ms=100) == []
        assert consumer.paused == [first]
        consumer.resume([first])
        assert await polled(consumer, 4) == [b"m0", b"m2", b"m4", b"m6"]
        consumer.pause([first, second])
        await fill(brokerd, 2)
        # The pulls that the broker held bring one message each.
        await wait_until(lambda: all(queue.cached_count == 1 for queue in consumer.table.values()))
        assert await consumer.poll(timeout_ms=0) == []
        consumer.resume([first, second])
        assert sorted(await polled(consumer, 2)) == [b"m0", b"m1"]


async def test_a_poll_takes_queues_in_turn(brokerd: BrokerProcess) -> None:
    first, second = await fill(brokerd, 8)
    async with PullConsumer("audit", brokerd.namesrv, config=MANUAL) as consumer:
        await consumer.assign([first, second])
        await wait_until(lambda: all(queue.cached_count == 4 for queue in consumer.table.values()))
        bodies = [(await consumer.poll(max_messages=2))[0].body for _ in range(4)]
    assert sorted(bodies[:2]) == [b"m0", b"m1"]
    assert sorted(bodies[2:]) == [b"m4", b"m5"]


async def test_it_reads_without_a_group(brokerd: BrokerProcess) -> None:
    queues = await fill(brokerd, 4)
    async with PullConsumer(None, brokerd.namesrv, config=FIRST) as consumer:
        await consumer.assign(queues)
        assert sorted(await polled(consumer, 4)) == [b"m0", b"m1", b"m2", b"m3"]
        with pytest.raises(InvalidClientConfig, match="without a group"):
            await consumer.commit()
        with pytest.raises(InvalidClientConfig, match="needs a group"):
            consumer.subscribe("orders")
        async with MQAdmin(brokerd.namesrv) as admin:
            assert await admin.consumer_connection(brokerd.address, "TOOLS_CONSUMER") is None
    async with MQAdmin(brokerd.namesrv) as admin:
        assert (await admin.all_consumer_offsets(brokerd.address)).offset_table == {}


async def test_filters_leave_messages_out_and_move_on(brokerd: BrokerProcess) -> None:
    (queue,) = await fill(brokerd, 3, queues=1, TAGS="paid", n="7")
    await fill(brokerd, 3, queues=1, TAGS="open", n="1")
    async with PullConsumer("audit", brokerd.namesrv, config=FIRST) as consumer:
        await consumer.assign([queue], "paid || refunded")
        assert await polled(consumer, 3) == [b"m0", b"m1", b"m2"]
        assert consumer.position(queue) == 6
        with pytest.raises(MQBrokerError, match="SQL92"):
            await consumer.assign([queue], "n > 5", "SQL92")
    assert await committed(brokerd, "audit") == {0: 6}


async def test_assigning_and_subscribing_exclude_each_other(brokerd: BrokerProcess) -> None:
    queues = await fill(brokerd, 0)
    async with PullConsumer("audit", brokerd.namesrv) as consumer:
        await consumer.assign(queues)
        with pytest.raises(InvalidClientConfig, match="not by both"):
            consumer.subscribe("orders")
    async with PullConsumer("audit", brokerd.namesrv, {"orders": "*"}) as consumer:
        with pytest.raises(InvalidClientConfig, match="not by both"):
            await consumer.assign(queues)
    with pytest.raises(ClientClosed):
        await consumer.poll()


async def test_closing_ends_a_poll_and_an_iteration(brokerd: BrokerProcess) -> None:
    await fill(brokerd, 0)
    consumer = PullConsumer("audit", brokerd.namesrv, {"orders": "*"})
    await consumer.start()

    async def iterate() -> list[bytes]:
        return [message.body async for message in consumer]

    waiting, iterating = asyncio.create_task(consumer.poll(60_000)), asyncio.create_task(iterate())
    await wait_until(lambda: len(consumer.assignment) == 2)
    await consumer.close()
    with pytest.raises(ClientClosed):
        await waiting
    assert await iterating == []


async def test_broadcasting_keeps_offsets_in_a_file(brokerd: BrokerProcess, tmp_path: Path) -> None:
    (queue,) = await fill(brokerd, 3, queues=1)
    client = dataclasses.replace(FIRST.client, instance_name="one")
    config = dataclasses.replace(
        FIRST, message_model=MessageModel.BROADCASTING, local_offset_store_dir=str(tmp_path), client=client
    )
    async with PullConsumer("audit", brokerd.namesrv, {"orders": "*"}, config=config) as consumer:
        await polled(consumer, 3)
    async with PullConsumer("audit", brokerd.namesrv, {"orders": "*"}, config=config) as consumer:
        await wait_until(lambda: consumer.assignment == [queue])
        assert (consumer.position(queue), await consumer.committed(queue)) == (3, 3)
    assert await committed(brokerd, "audit") == {}


async def test_it_goes_on_where_the_broker_says_after_an_illegal_offset(cluster: FakeCluster) -> None:
    stored = Stored(cluster, 5)
    stored.min_offset = 3
    async with PullConsumer("audit", cluster.broker.addr, config=FIRST) as consumer:
        await consumer.assign([FAKE_QUEUE])
        assert await polled(consumer, 2) == [b"3", b"4"]
    assert stored.pulls[:2] == [0, 3]
    assert cluster.offsets == {("orders", 0): 5}


async def test_it_obeys_a_reset_and_reports_itself(cluster: FakeCluster) -> None:
    Stored(cluster, 5)
    async with PullConsumer("audit", cluster.broker.addr, config=MANUAL) as consumer:
        await consumer.assign([FAKE_QUEUE])
        await polled(consumer, 5)
        body = ResetOffsetBody(offset_table={FAKE_QUEUE: 2}).to_body()
        cluster.broker.push(RemotingCommand.request(220, {"group": "audit", "topic": "orders"}, body))
        assert await polled(consumer, 3) == [b"2", b"3", b"4"]
        assert cluster.offsets == {("orders", 0): 2}
        cluster.broker.push(RemotingCommand.request(307, {"consumerGroup": "audit"}))
        await wait_until(lambda: bool(cluster.broker.responses))
    info = ConsumerRunningInfo.from_body(cluster.broker.responses[0].body)
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    settings = ("consumerGroup", "autoCommit", "pullBatchSize", "pullThresholdSizeForQueue")
    assert [info.properties[name] for name in settings] == ["audit", "false", "32", "100"]
    assert info.mq_table[FAKE_QUEUE].commit_offset == 2
    assert info.status_table["orders"].pull_tps > 0


@pytest.mark.parametrize(
    ("setting", "value"), [("auto_commit_interval_ms", 999), ("poll_timeout_ms", -1), ("pull_batch_size", 0)]
)
def test_it_names_a_setting_that_is_out_of_range(setting: str, value: int) -> None:
    with pytest.raises(InvalidClientConfig, match=setting):
        dataclasses.replace(FIRST, **{setting: value})  # type: ignore[arg-type]


async def test_the_example_of_the_documentation_runs(
    brokerd: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    await example("consumers.md", "Pulling")(brokerd.namesrv)
    assert capsys.readouterr().out == "order 0\norder 1\norder 2\n3 3\n"
