"""consumers.MQAdmin against Apache RocketMQ: every call the console makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.errors import MQBrokerError
from brokerd.remoting.message.ids import decode_offset_message_id
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.queue import MessageQueue
from consumers import (
    BrokerUnavailable,
    ConsumeFromWhere,
    ConsumeStatus,
    MQAdmin,
    Producer,
    PushConsumer,
    PushConsumerConfig,
)
from tests.support.apache_cluster import ApacheCluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
CONFIG = PushConsumerConfig(
    consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
    persist_consumer_offset_interval_ms=200,
    rebalance_interval_ms=1_000,
)


@pytest.fixture
async def admin(apache: ApacheCluster) -> AsyncIterator[MQAdmin]:
    async with MQAdmin([apache.namesrv]) as made:
        yield made


@pytest.fixture
def addr(apache: ApacheCluster) -> str:
    return apache.addrs["broker-a"]


async def eventually(holds: Callable[[], Awaitable[bool]], within_s: float = 20) -> None:
    async with asyncio.timeout(within_s):
        while not await holds():
            await asyncio.sleep(0.1)


async def create(admin: MQAdmin, addr: str, topic: str, queues: int = 2) -> None:
    await admin.create_topic(
        addr, TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues, perm=6)
    )

    async def is_routed() -> bool:
        return topic in await admin.topic_list()

    await eventually(is_routed)


async def consume(messages: object, context: object) -> ConsumeStatus:
    return ConsumeStatus.CONSUME_SUCCESS


async def test_it_knows_the_cluster_its_tables_and_figures(
    apache: ApacheCluster, admin: MQAdmin, addr: str
) -> None:
    await asyncio.to_thread(apache.wait_for_figures)
    cluster = await admin.cluster_info()
    assert {name: data.broker_addrs for name, data in cluster.broker_addr_table.items()} == {
        name: {0: each} for name, each in apache.addrs.items()
    }
    assert {data.cluster for data in cluster.broker_addr_table.values()} == {"apache"}
    assert (await admin.runtime_info(addr))["brokerVersion"] == "479"
    config = await admin.broker_config(addr)
    assert (config["brokerName"], config["useServerSideResetOffset"]) == ("broker-a", "true")
    await admin.update_broker_config(addr, {"flushConsumerOffsetInterval": "900"})
    assert (await admin.broker_config(addr))["flushConsumerOffsetInterval"] == "900"
    former = config["flushConsumerOffsetInterval"]  # others compare the two brokers of this cluster
    await admin.update_broker_config(addr, {"flushConsumerOffsetInterval": former})
    assert "TBW102" in (await admin.all_topic_config(addr)).topic_config_table
    assert "TOOLS_CONSUMER" in (await admin.all_subscription_groups(addr)).subscription_group_table
    assert await admin.capabilities(addr) == frozenset()
    await admin.broker_consume_stats(addr)


async def test_it_creates_changes_and_deletes_topics_and_groups(admin: MQAdmin, addr: str) -> None:
    await create(admin, addr, "admin-topic", queues=3)
    config = await admin.topic_config(addr, "admin-topic")
    assert (config.read_queue_nums, config.write_queue_nums, int(config.perm)) == (3, 3, 6)
    route = await admin.topic_route("admin-topic")
    assert [(queue.broker_name, queue.read_queue_nums) for queue in route.queue_datas] == [("broker-a", 3)]
    await admin.create_topic(addr, TopicConfig("admin-topic", read_queue_nums=4, write_queue_nums=2, perm=4))
    config = await admin.topic_config(addr, "admin-topic")
    assert (config.read_queue_nums, config.write_queue_nums, int(config.perm)) == (4, 2, 4)
    await admin.create_subscription_group(
        addr, SubscriptionGroupConfig(group_name="admin-group", retry_max_times=3)
    )
    groups = (await admin.all_subscription_groups(addr)).subscription_group_table
    assert groups["admin-group"].retry_max_times == 3
    await admin.delete_subscription_group(addr, "admin-group", clean_offset=True)
    assert "admin-group" not in (await admin.all_subscription_groups(addr)).subscription_group_table
    await admin.delete_topic(addr, "admin-topic")
    await admin.delete_topic_in_namesrv("admin-topic")
    assert "admin-topic" not in await admin.topic_list()
    for call in (admin.topic_stats(addr, "admin-topic"), admin.topic_config(addr, "admin-topic")):
        with pytest.raises(MQBrokerError) as caught:
            await call
        assert caught.value.code == 17
    with pytest.raises(MQBrokerError) as caught:
        await admin.topic_route("admin-topic")
    assert caught.value.code == 17


async def test_it_sends_and_finds_messages(admin: MQAdmin, addr: str) -> None:
    await create(admin, addr, "admin-find")
    properties = {"KEYS": "A-1 B-2", "TAGS": "paid", "UNIQ_KEY": "7F000001000018B4AAC2000000000001"}
    sent = await admin.send(addr, Message("admin-find", b"hello", properties), queue_id=1)
    assert (sent.queue.queue_id, sent.queue_offset, sent.message_id) == (1, 0, properties["UNIQ_KEY"])
    host, port, commit_log_offset = decode_offset_message_id(sent.offset_message_id)
    assert f"{host}:{port}" == addr
    record = await admin.view_message(addr, commit_log_offset)
    assert (record.topic, record.body, record.tags, record.keys) == (
        "admin-find",
        b"hello",
        "paid",
        "A-1 B-2",
    )

    async def is_indexed() -> bool:
        return bool(await admin.query_message(addr, "admin-find", "B-2"))

    await eventually(is_indexed)
    found = await admin.query_message(addr, "admin-find", sent.message_id, unique_key=True)
    assert [(each.body, each.message_id) for each in found] == [(b"hello", sent.message_id)]
    assert await admin.query_message(addr, "admin-find", "C-3") == []
    with pytest.raises(MQBrokerError):
        await admin.view_message(addr, 15_000_000)
    results = await admin.send_many(
        addr,
        [(Message("admin-find", b"%d" % n, {"TAGS": "odd" if n % 2 else "even"}), 0) for n in range(100)],
    )
    # Apache's broker works on the requests of one connection in several threads: pipelined sends lose order.
    assert sorted(getattr(result, "queue_offset", -1) for result in results) == list(range(100))

    async def is_dispatched() -> bool:
        return await admin.max_offset(addr, "admin-find", 0) == 100

    await eventually(is_dispatched)
    pulled = await admin.pull(addr, "admin-find", 0, 98)
    assert (len(pulled.messages), pulled.next_begin_offset, pulled.max_offset) == (2, 100, 100)
    placed = {getattr(result, "queue_offset", -1): b"%d" % number for number, result in enumerate(results)}
    assert [each.body for each in pulled.messages] == [placed[98], placed[99]]
    odd = await admin.pull(addr, "admin-find", 0, 0, 8, "odd")
    assert {each.tags for each in odd.messages} == {"odd"}
    assert await admin.min_offset(addr, "admin-find", 0) == 0
    stored_ms = pulled.messages[0].store_timestamp_ms
    assert await admin.search_offset(addr, "admin-find", 0, 0) == 0
    assert await admin.search_offset(addr, "admin-find", 0, stored_ms) <= 98
    assert await admin.search_offset(addr, "admin-find", 0, stored_ms + 3_600_000) == 100
    stats = await admin.topic_stats_many(addr, ["admin-find", "admin-missing"])
    table = stats["admin-find"]
    assert not isinstance(table, Exception)
    assert {
        queue.queue_id: (each.min_offset, each.max_offset) for queue, each in table.offset_table.items()
    } == {
        0: (0, 100),
        1: (0, 1),
    }
    assert getattr(stats["admin-missing"], "code", None) == 17


async def test_it_reads_and_moves_offsets_of_a_group_that_is_offline(admin: MQAdmin, addr: str) -> None:
    await create(admin, addr, "admin-offsets")
    await admin.create_subscription_group(addr, SubscriptionGroupConfig(group_name="admin-offline"))
    await admin.send_many(addr, [(Message("admin-offsets", b"x", {}), 0)] * 10)

    async def is_dispatched() -> bool:
        return await admin.max_offset(addr, "admin-offsets", 0) == 10

    await eventually(is_dispatched)
    assert await admin.query_consumer_offset(addr, "admin-offline", "admin-offsets", 1) in (None, 0)
    await admin.update_consumer_offset(addr, "admin-offline", "admin-offsets", 0, 4)
    assert await admin.query_consumer_offset(addr, "admin-offline", "admin-offsets", 0) == 4
    table = (await admin.all_consumer_offsets(addr)).offset_table
    assert table["admin-offsets", "admin-offline"] == {0: 4}
    stats = (await admin.consume_stats(addr, "admin-offline", "admin-offsets")).offset_table
    (queue,) = [queue for queue in stats if queue.queue_id == 0]
    assert (stats[queue].broker_offset, stats[queue].consumer_offset) == (10, 4)
    assert "admin-offline" in await admin.topic_consumed_by(addr, "admin-offsets")
    assert await admin.consumer_connection(addr, "admin-offline") is None
    assert await admin.consumer_ids(addr, "admin-offline") == []
    assert await admin.producer_connection(addr, "admin-nobody", "admin-offsets") is None
    queue_0 = MessageQueue("admin-offsets", "broker-a", 0)
    body = await admin.reset_offset(addr, "admin-offline", "admin-offsets", -1, queue_id=0, offset=2)
    assert body.offset_table == {queue_0: 2}
    assert await admin.query_consumer_offset(addr, "admin-offline", "admin-offsets", 0) == 2


async def test_it_asks_members_through_the_broker(apache: ApacheCluster, admin: MQAdmin, addr: str) -> None:
    await create(admin, addr, "admin-members")
    async with (
        Producer("admin-shop", apache.namesrv) as producer,
        PushConsumer(
            "admin-online", apache.namesrv, consume, {"admin-members": "paid"}, config=CONFIG
        ) as member,
    ):
        sent = await producer.send(Message("admin-members", b"x", {"TAGS": "paid", "KEYS": "k"}))

        async def is_read() -> bool:
            return member.offset_store.read_memory(sent.queue) == sent.queue_offset + 1

        await eventually(is_read, 40)
        client_id = member.client.client_id
        connection = await admin.consumer_connection(addr, "admin-online")
        assert connection is not None
        assert [each.client_id for each in connection.connection_set] == [client_id]
        assert connection.subscription_table["admin-members"].sub_string == "paid"
        assert await admin.consumer_ids(addr, "admin-online") == [client_id]
        info = await admin.consumer_running_info(addr, "admin-online", client_id)
        assert info.mq_table[sent.queue].commit_offset == sent.queue_offset + 1
        status = await admin.consumer_status(addr, "admin-online", "admin-members")
        assert status.consumer_table[client_id][sent.queue] == sent.queue_offset + 1
        direct = await admin.consume_message_directly(addr, "admin-online", client_id, sent.offset_message_id)
        assert direct.consume_result == "CR_SUCCESS"
        producers = await admin.producer_connection(addr, "admin-shop", "admin-members")
        assert producers is not None
        assert [each.client_id for each in producers.connection_set] == [producer.client.client_id]
        await admin.set_message_request_mode(addr, "admin-members", "admin-online", "PULL", 0)


async def test_it_tells_a_broker_that_has_no_extensions_apart(admin: MQAdmin, addr: str) -> None:
    with pytest.raises(MQBrokerError) as caught:
        await admin.put_assignment(addr, "g", "t", {"c": [MessageQueue("t", "broker-a", 0)]}, 1)
    assert caught.value.code == 3
    with pytest.raises(BrokerUnavailable):
        await admin.runtime_info("127.0.0.1:1")
