"""Ways to consume with our consumers; scenarios that the Java peers have too bear the names they have there."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from consumers import (
    ClientConfig,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    MessageModel,
    MessageNotSent,
    MessageRecord,
    MQAdmin,
    MQBrokerError,
    Producer,
    ProducerConfig,
    PullConsumer,
    PushConsumer,
    RebalanceMode,
)
from tests.peers.our_client.world import (
    Place,
    Reader,
    committed,
    config,
    create_topic,
    expected,
    numbered,
    pull_config,
    read_all,
    send_numbered,
    set_pop,
    until,
)
from tests.support.apache_server import OLD_APACHE, Server, server_kind


async def test_it_delivers_ten_thousand_to_two_consumers_of_a_group(broker: Place) -> None:
    await create_topic(broker, "Many")
    first, second = Reader(), Reader()
    async with (
        Producer("senders", broker.namesrv) as producer,
        PushConsumer("two", broker.namesrv, first, {"Many": "*"}, config=config()) as one,
    ):

        def owned(member: PushConsumer) -> int:
            return sum(queue.topic == "Many" for queue in member.table)

        # One after the other: of members that join at once one may own everything for a moment.
        await until(lambda: owned(one) == 4)
        async with PushConsumer("two", broker.namesrv, second, {"Many": "*"}, config=config()) as two:
            await until(lambda: owned(one) == owned(two) == 2)
            await send_numbered(producer, "Many", 10_000, ("a", "b"))
            await until(lambda: len({*first.keys, *second.keys}) == 10_000)
    assert Counter(first.keys + second.keys) == dict.fromkeys(expected(10_000), 1)
    messages = first.messages + second.messages
    assert all(each.body == f"body-{each.keys[1:]} ".encode() for each in messages)
    assert len(first.offsets) == len(second.offsets) == 2
    assert await committed(broker, "Many", "two") == 10_000


async def test_it_filters_by_tag(broker: Place) -> None:
    await create_topic(broker, "Tagged")
    async with Producer("senders", broker.namesrv) as producer:
        await send_numbered(producer, "Tagged", 300, ("red", "green", "blue"))
    reader = Reader()
    async with PushConsumer("greens", broker.namesrv, reader, {"Tagged": "green || blue"}, config=config()):
        await until(lambda: len(set(reader.keys)) == 200)
    assert Counter(message.tags for message in reader.messages) == {"green": 100, "blue": 100}


async def test_it_filters_by_properties(broker: Place) -> None:
    await create_topic(broker, "Sold")
    reader = Reader()

    def consumer(group: str, expression: str) -> PushConsumer:
        made = PushConsumer(group, broker.namesrv, reader, {}, config=config())
        made.subscribe("Sold", expression, "SQL92")
        return made

    with pytest.raises(MQBrokerError, match="does not support consumer to filter message by SQL92"):
        await consumer("sql-refused", "n > 1").start()
    async with MQAdmin([broker.namesrv]) as admin:
        await admin.update_broker_config(broker.address, {"enablePropertyFilter": "true"})
    with pytest.raises(MQBrokerError, match="line 1, column 5"):
        await consumer("sql-wrong", "n > > 1").start()
    selecting = consumer("sql", "n BETWEEN 100 AND 149 AND TAGS <> 'red' OR n = 299")
    async with selecting, Producer("senders", broker.namesrv) as producer:
        await send_numbered(producer, "Sold", 300, ("red", "green"))
        wanted = {f"k{n}" for n in [*range(101, 150, 2), 299]}
        await until(lambda: set(reader.keys) >= wanted)
    assert sorted(reader.keys) == sorted(wanted), "none else, none twice"


async def test_it_retries_a_failing_message_and_then_keeps_it_as_dead_letter(broker: Place) -> None:
    await create_topic(broker, "Fails")
    reader = Reader("k3")
    settings = config(max_reconsume_times=2, delay_level_when_next_consume=1)  # level 1 is a second
    async with (
        PushConsumer("failing", broker.namesrv, reader, {"Fails": "*"}, config=settings),
        Producer("senders", broker.namesrv) as producer,
    ):
        await send_numbered(producer, "Fails", 5)
        await until(lambda: reader.times("k3") == [0, 1, 2] and set(reader.keys) == expected(5))
        (letter,) = await read_all(broker, "%DLQ%failing", 1)
    assert (letter.keys, letter.body, letter.reconsume_times) == ("k3", b"body-3 ", 3)
    assert {message.topic for message in reader.messages} == {"Fails"}
    assert len(reader.keys) == 7


async def test_it_keeps_the_order_of_each_queue_for_orderly_consumers(broker: Place) -> None:
    await create_topic(broker, "Ordered")
    first, second = Reader(), Reader()
    async with (
        PushConsumer("orderly", broker.namesrv, first, {"Ordered": "*"}, orderly=True, config=config()),
        PushConsumer("orderly", broker.namesrv, second, {"Ordered": "*"}, orderly=True, config=config()),
        Producer("senders", broker.namesrv) as producer,
    ):

        async def send_shard(shard: int) -> None:
            for number in range(shard, 2_000, 8):
                await producer.send(numbered("Ordered", number), sharding_key=f"shard-{shard}")

        await asyncio.gather(*map(send_shard, range(8)))
        await until(lambda: len({*first.keys, *second.keys}) == 2_000)
    for reader in (first, second):
        for offsets in reader.offsets.values():
            assert offsets == sorted(offsets)


async def test_an_orderly_queue_waits_for_its_failing_message(broker: Place) -> None:
    await create_topic(broker, "Waiting", queues=1)
    reader = Reader("k1")

    async def handle(messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        if await reader(messages, context) is ConsumeStatus.CONSUME_SUCCESS or len(reader.times("k1")) == 3:
            return ConsumeStatus.CONSUME_SUCCESS
        context.suspend_current_queue_time_ms = 100
        return ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    async with (
        PushConsumer("waiting", broker.namesrv, handle, {"Waiting": "*"}, orderly=True, config=config()),
        Producer("senders", broker.namesrv) as producer,
    ):
        for number in range(3):
            await producer.send(numbered("Waiting", number))
        await until(lambda: "k2" in reader.keys)
    assert reader.keys == ["k0", "k1", "k1", "k1", "k2"]


async def test_it_loses_nothing_over_a_kill_and_restart_in_the_middle(broker: Server) -> None:
    await create_topic(broker, "Killed")
    reader, acknowledged = Reader(), set[str]()

    async def produce(producer: Producer) -> None:
        for number in range(1_000):
            try:
                await producer.send(numbered("Killed", number))
                acknowledged.add(f"k{number}")
            except MessageNotSent:
                await asyncio.sleep(0.1)

    async with (
        PushConsumer("survivors", broker.namesrv, reader, {"Killed": "*"}, config=config()),
        Producer("senders", broker.namesrv, ProducerConfig(send_timeout_ms=500)) as producer,
    ):
        producing = asyncio.create_task(produce(producer))
        await until(lambda: len(set(reader.keys)) >= 200)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        await producing
        await until(lambda: acknowledged <= set(reader.keys))
    assert len(acknowledged) > 300


async def test_each_broadcasting_consumer_gets_everything_once(broker: Place, tmp_path: Path) -> None:
    await create_topic(broker, "News")
    settings = config(message_model=MessageModel.BROADCASTING, local_offset_store_dir=str(tmp_path))
    first, second = Reader(), Reader("k3")  # failures are not tried again
    async with (
        PushConsumer("news", broker.namesrv, first, {"News": "*"}, config=settings),
        PushConsumer("news", broker.namesrv, second, {"News": "*"}, config=settings),
        Producer("senders", broker.namesrv) as producer,
    ):
        await send_numbered(producer, "News", 100)
        await until(lambda: set(first.keys) == set(second.keys) == expected(100))
    assert len(first.keys) == len(second.keys) == 100
    assert await committed(broker, "News", "news") == 0


async def test_a_plain_function_gets_batches_in_threads(broker: Place) -> None:
    await create_topic(broker, "Batched", queues=1)
    sizes, names, lock = list[int](), set[str](), threading.Lock()

    def handle(messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        with lock:
            sizes.append(len(messages))
            names.add(threading.current_thread().name)
        return ConsumeStatus.CONSUME_SUCCESS

    async with Producer("senders", broker.namesrv) as producer:
        await send_numbered(producer, "Batched", 200)
    settings = config(consume_message_batch_max_size=16)
    async with PushConsumer("batched", broker.namesrv, handle, {"Batched": "*"}, config=settings):
        await until(lambda: sum(sizes) == 200)
    assert max(sizes) == 16
    assert threading.main_thread().name not in names


@pytest.mark.parametrize("where", ConsumeFromWhere)
async def test_it_begins_where_it_says(broker: Place, where: ConsumeFromWhere) -> None:
    """Without a group: brokers have new groups of a short queue begin at 0 in any case."""
    topic = f"Begun-{where}"
    await create_topic(broker, topic, queues=1)
    async with Producer("senders", broker.namesrv) as producer:
        for number in range(4):
            await asyncio.sleep(0.02)
            await producer.send(numbered(topic, number))
        third = (await read_all(broker, topic, 4))[2]
        settings = pull_config(consume_from_where=where, consume_timestamp_ms=third.store_timestamp_ms)
        async with PullConsumer(None, broker.namesrv, config=settings) as consumer:
            await consumer.assign(await consumer.queues(topic))
            await producer.send(numbered(topic, 4))
            keys: list[str] = []
            while "k4" not in keys:
                keys += [message.keys for message in await consumer.poll()]
    first = {"FIRST_OFFSET": 0, "LAST_OFFSET": 4, "TIMESTAMP": 2}[where.name]
    assert keys == [f"k{number}" for number in range(first, 5)]


async def test_a_pull_consumer_assigns_commits_and_seeks(broker: Place) -> None:
    await create_topic(broker, "Pulled", queues=2)
    async with Producer("senders", broker.namesrv) as producer:
        await send_numbered(producer, "Pulled", 100)
    by_hand = pull_config(auto_commit=False)
    async with PullConsumer("pullers", broker.namesrv, {"Pulled": "*"}, config=by_hand) as consumer:
        keys: list[str] = []
        while len(keys) < 100:
            keys += [message.keys for message in await consumer.poll()]
        assert Counter(keys) == dict.fromkeys(expected(100), 1)
        await consumer.commit()
        assert await committed(broker, "Pulled", "pullers") == 100
        queue = consumer.assignment[0]
        await consumer.seek(queue, 10)
        assert (await consumer.poll(max_messages=1))[0].queue_offset == 10
        await consumer.seek_to_end(queue)
        assert await consumer.poll(timeout_ms=200) == []
        await consumer.seek_to_time(queue, 0)
        assert (await consumer.poll(max_messages=1))[0].queue_offset == 0
    async with PullConsumer("pullers", broker.namesrv, config=by_hand) as second:
        await second.assign([queue])
        assert second.position(queue) == await second.committed(queue) != 0


async def test_pull_consumers_of_a_group_share_the_queues(broker: Place) -> None:
    await create_topic(broker, "Halved")
    keys = list[str]()
    async with (
        Producer("senders", broker.namesrv) as producer,
        PullConsumer("halves", broker.namesrv, {"Halved": "a"}, config=pull_config()) as one,
    ):
        # One after the other, as above.
        await until(lambda: len(one.assignment) == 4)
        async with PullConsumer("halves", broker.namesrv, {"Halved": "a"}, config=pull_config()) as two:
            await until(lambda: len(one.assignment) == len(two.assignment) == 2)
            assert not {*one.assignment} & {*two.assignment}
            await send_numbered(producer, "Halved", 100, ("a", "b"))
            async with asyncio.timeout(60):
                while len(keys) < 50:
                    for consumer in (one, two):
                        keys += [message.keys for message in await consumer.poll(timeout_ms=500)]
    assert sorted(keys) == sorted(f"k{n}" for n in range(0, 100, 2))
    assert await committed(broker, "Halved", "halves") >= 50


@pytest.mark.skipif(server_kind() == OLD_APACHE, reason="4.9.7 has no POP")
async def test_it_pops_acknowledges_and_gets_again_what_failed(broker: Place) -> None:
    await create_topic(broker, "Popped")
    await set_pop(broker, "Popped", "poppers")
    reader = Reader("k7")
    settings = config(rebalance_mode=RebalanceMode.SERVER)
    async with (
        PushConsumer("poppers", broker.namesrv, reader, {"Popped": "*"}, config=settings) as consumer,
        Producer("senders", broker.namesrv) as producer,
    ):
        await until(lambda: len(consumer.poppers.queues) == 1)
        await send_numbered(producer, "Popped", 300)
        await until(lambda: set(reader.keys) == expected(300))
        # It is given 10 s more; then it is in the retry topic.
        await until(lambda: len(reader.times("k7")) == 2)
    assert reader.times("k7") == [0, 1]
    assert Counter(reader.keys) == dict.fromkeys(expected(300), 1) | {"k7": 2}


@pytest.mark.parametrize("orderly", [False, True], ids=["shared", "orderly"])
async def test_it_moves_members_that_run(broker: Place, orderly: bool) -> None:
    topic, group = f"Moved-{orderly}", f"moved-{orderly}"
    await create_topic(broker, topic)
    reader = Reader()
    async with (
        PushConsumer(group, broker.namesrv, reader, {topic: "*"}, orderly=orderly, config=config()),
        Producer("senders", broker.namesrv) as producer,
        MQAdmin([broker.namesrv]) as admin,
    ):
        await send_numbered(producer, topic, 200)
        await until(lambda: len(reader.keys) == 200)
        targets = await admin.reset_offset(broker.address, group, topic, 0)
        assert set(targets.offset_table.values()) == {0}
        await until(lambda: len(reader.keys) == 400)
    assert Counter(reader.keys) == dict.fromkeys(expected(200), 2)
    assert await committed(broker, topic, group) == 200


async def test_it_keeps_to_its_namespace(broker: Place) -> None:
    await create_topic(broker, "emea%Named")
    client = ClientConfig(namespace="emea", namespace_v2="emea")
    reader = Reader("k1")
    settings = config(client=client, max_reconsume_times=1, delay_level_when_next_consume=1)
    async with (
        PushConsumer("named", broker.namesrv, reader, {"Named": "*"}, config=settings),
        Producer("senders", broker.namesrv, ProducerConfig(client=client)) as producer,
    ):
        await send_numbered(producer, "Named", 10)
        await until(lambda: set(reader.keys) == expected(10) and reader.times("k1") == [0, 1])
    assert {message.topic for message in reader.messages} == {"Named"}
    assert await committed(broker, "emea%Named", "emea%named") == 10
    (dead,) = await read_all(broker, "%DLQ%emea%named", 1)
    assert dead.keys == "k1"


async def test_it_shows_what_it_does_to_an_operator(broker: Place) -> None:
    await create_topic(broker, "Shown")
    reader = Reader()
    async with (
        PushConsumer("shown", broker.namesrv, reader, {"Shown": "*"}, config=config()) as consumer,
        Producer("senders", broker.namesrv) as producer,
        MQAdmin([broker.namesrv]) as admin,
    ):
        await send_numbered(producer, "Shown", 10)
        await until(lambda: len(reader.keys) == 10)
        client_id = consumer.client.client_id
        info = await admin.consumer_running_info(broker.address, "shown", client_id, jstack=True)
        assert info.jstack is not None and "PullLoop.run(" in info.jstack
        assert info.status_table["Shown"].consume_ok_tps > 0
        assert {queue.queue_id for queue in info.mq_table if queue.topic == "Shown"} == {0, 1, 2, 3}
        connection = await admin.consumer_connection(broker.address, "shown")
        assert connection is not None
        assert [each.client_id for each in connection.connection_set] == [consumer.client.client_id]
