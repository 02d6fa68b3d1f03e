"""Every admin call against a real brokerd, and what a consumer answers when the broker asks it."""

from __future__ import annotations

import pytest

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.errors import MQBrokerError
from brokerd.remoting.message.ids import decode_offset_message_id
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.queue import MessageQueue
from consumers import ConsumeFromWhere, ConsumeStatus, MQAdmin, Producer, PushConsumer, PushConsumerConfig
from tests.consumers.fake_broker import wait_until

CONFIG = PushConsumerConfig(
    consume_from_where=ConsumeFromWhere.FIRST_OFFSET, persist_consumer_offset_interval_ms=100
)


@pytest.fixture
async def admin(brokerd):
    async with MQAdmin(brokerd.namesrv) as made:
        await made.create_topic(
            brokerd.address, TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2, perm=6)
        )
        yield made


async def consume(messages, context) -> ConsumeStatus:
    return ConsumeStatus.CONSUME_SUCCESS


async def test_it_knows_the_cluster_and_its_topics(brokerd, admin):
    cluster = await admin.cluster_info()
    (broker,) = cluster.broker_addr_table.values()
    assert broker.broker_addrs == {0: brokerd.address}
    assert "orders" in await admin.topic_list()
    route = await admin.topic_route("orders")
    assert [(q.read_queue_nums, q.perm) for q in route.queue_datas] == [(2, 6)]
    assert (await admin.all_topic_config(brokerd.address)).topic_config_table["orders"].read_queue_nums == 2
    assert (await admin.topic_config(brokerd.address, "orders")).write_queue_nums == 2
    assert (await admin.runtime_info(brokerd.address))["brokerVersion"] == "479"
    assert (await admin.broker_config(brokerd.address))["brokerName"] == broker.broker_name


async def test_it_sends_and_finds_messages(brokerd, admin):
    sent = await admin.send(
        brokerd.address, Message("orders", b"hello", {"KEYS": "A-1 B-2", "UNIQ_KEY": "U-1"}), queue_id=1
    )
    assert (sent.queue.queue_id, sent.queue_offset, sent.message_id) == (1, 0, "U-1")
    _, _, commit_log_offset = decode_offset_message_id(sent.offset_message_id)
    assert (await admin.view_message(brokerd.address, commit_log_offset)).body == b"hello"
    for key in ("A-1", "B-2"):
        assert [m.body for m in await admin.query_message(brokerd.address, "orders", key)] == [b"hello"]
    assert [m.body for m in await admin.query_message(brokerd.address, "orders", "U-1", unique_key=True)] == [
        b"hello"
    ]
    assert await admin.query_message(brokerd.address, "orders", "C-3") == []
    pulled = await admin.pull(brokerd.address, "orders", 1, 0)
    assert ([m.body for m in pulled.messages], pulled.next_begin_offset, pulled.max_offset) == (
        [b"hello"],
        1,
        1,
    )
    assert await admin.max_offset(brokerd.address, "orders", 1) == 1
    assert await admin.min_offset(brokerd.address, "orders", 1) == 0
    assert await admin.search_offset(brokerd.address, "orders", 1, 0) == 0
    stats = await admin.topic_stats_many(brokerd.address, ["orders"])
    assert {queue.queue_id: s.max_offset for queue, s in stats["orders"].offset_table.items()} == {0: 0, 1: 1}


async def test_it_sends_many_in_order(brokerd, admin):
    results = await admin.send_many(
        brokerd.address, [(Message("orders", b"%d" % n, {}), 0) for n in range(300)]
    )
    assert [result.queue_offset for result in results] == list(range(300))
    pulled = await admin.pull(brokerd.address, "orders", 0, 298)
    assert [message.body for message in pulled.messages] == [b"298", b"299"]


async def test_it_keeps_groups_and_offsets(brokerd, admin):
    addr = brokerd.address
    await admin.create_subscription_group(
        addr, SubscriptionGroupConfig(group_name="billing", retry_max_times=3)
    )
    groups = await admin.all_subscription_groups(addr)
    assert groups.subscription_group_table["billing"].retry_max_times == 3
    await admin.send_many(addr, [(Message("orders", b"", {}), 0)] * 10)
    await admin.update_consumer_offset(addr, "billing", "orders", 0, 4)
    assert await admin.query_consumer_offset(addr, "billing", "orders", 0) == 4
    assert (await admin.all_consumer_offsets(addr)).offset_table["orders", "billing"] == {0: 4}
    stats = await admin.consume_stats(addr, "billing", "orders")
    (queue,) = [queue for queue in stats.offset_table if queue.queue_id == 0]
    assert stats.offset_table[queue].broker_offset - stats.offset_table[queue].consumer_offset == 6
    reset = await admin.reset_offset(addr, "billing", "orders", -1, queue_id=0, offset=2)
    assert list(reset.offset_table.values()) == [2]
    assert await admin.query_consumer_offset(addr, "billing", "orders", 0) == 2
    assert await admin.consumer_connection(addr, "billing") is None
    await admin.delete_subscription_group(addr, "billing", clean_offset=True)
    assert "billing" not in (await admin.all_subscription_groups(addr)).subscription_group_table


async def test_it_asks_a_consumer_through_the_broker(brokerd, admin):
    addr = brokerd.address
    async with (
        Producer("shop", brokerd.namesrv) as producer,
        PushConsumer("billing", brokerd.namesrv, consume, {"orders": "paid"}, config=CONFIG) as consumer,
    ):
        await wait_until(lambda: len([q for q in consumer.table if q.topic == "orders"]) == 2)
        sent = await producer.send(Message("orders", b"x", {"TAGS": "paid"}))
        queue = MessageQueue("orders", sent.queue.broker_name, sent.queue.queue_id)
        await wait_until(lambda: consumer.offset_store.read_memory(queue) == sent.queue_offset + 1)
        connection = await admin.consumer_connection(addr, "billing")
        assert connection is not None
        assert [c.client_id for c in connection.connection_set] == [consumer.client.client_id]
        assert connection.subscription_table["orders"].sub_string == "paid"
        info = await admin.consumer_running_info(addr, "billing", consumer.client.client_id)
        assert info.mq_table[queue].commit_offset == sent.queue_offset + 1
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        status = await admin.consumer_status(addr, "billing", "orders")
        assert status.consumer_table[consumer.client.client_id][queue] == sent.queue_offset + 1
        assert "billing" in await admin.topic_consumed_by(addr, "orders")
        producers = await admin.producer_connection(addr, "shop", "orders")
        assert producers is not None
        assert [c.client_id for c in producers.connection_set] == [producer.client.client_id]


async def test_it_says_what_does_not_exist(brokerd, admin):
    with pytest.raises(MQBrokerError) as caught:
        await admin.topic_stats(brokerd.address, "unknown")
    assert caught.value.code == 17
    with pytest.raises(MQBrokerError):
        await admin.view_message(brokerd.address, 999_999_999)


async def test_it_deletes_a_topic(brokerd, admin):
    await admin.delete_topic(brokerd.address, "orders")
    await admin.delete_topic_in_namesrv("orders")
    assert "orders" not in await admin.topic_list()


async def test_it_assigns_queues_from_outside(brokerd, admin):
    assert "assignment" in await admin.capabilities(brokerd.address)
    async with (
        PushConsumer("billing", brokerd.namesrv, consume, {"orders": "*"}, config=CONFIG) as one,
        PushConsumer("billing", brokerd.namesrv, consume, {"orders": "*"}, config=CONFIG) as two,
    ):
        await wait_until(lambda: owned(one) == [0] or owned(one) == [1])
        (name,) = {queue.broker_name for queue in one.table}
        both = [MessageQueue("orders", name, 0), MessageQueue("orders", name, 1)]
        assignment = {one.client.client_id: both, two.client.client_id: []}
        await admin.put_assignment(brokerd.address, "billing", "orders", assignment, version=1)
        await wait_until(lambda: (owned(one), owned(two)) == ([0, 1], []))


def owned(consumer: PushConsumer) -> list[int]:
    return [queue.queue_id for queue in consumer.table if queue.topic == "orders"]


async def test_it_forbids_a_group_to_read_a_topic(brokerd, admin):
    async def table() -> dict[str, dict[str, int]]:
        return (await admin.all_subscription_groups(brokerd.address)).forbidden_table

    asked = await admin.group_forbidden(brokerd.address, "readers", "orders")
    assert (asked.group, asked.topic, asked.readable, await table()) == ("readers", "orders", True, {})
    forbidden = await admin.group_forbidden(brokerd.address, "readers", "orders", readable=False)
    assert (forbidden.readable, await table()) == (False, {"readers": {"orders": 4}})
    assert (await admin.group_forbidden(brokerd.address, "readers", "orders", readable=True)).readable
    assert await table() == {}


async def test_it_reads_request_modes_back(brokerd, admin):
    config = SubscriptionGroupConfig(group_name="readers")
    await admin.create_subscription_group(brokerd.address, config)
    assert await admin.message_request_modes(brokerd.address) == {}
    await admin.set_message_request_mode(brokerd.address, "orders", "readers", "PULL", 3)
    mode = (await admin.message_request_modes(brokerd.address))["orders"]["readers"]
    assert (mode.mode, mode.pop_share_queue_num, mode.topic) == ("PULL", 3, "orders")
