"""What producers trace, on a real brokerd; and that a failed trace disturbs no send."""

from __future__ import annotations

import pytest

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.message.trace import EndTransactionTrace, PubTrace, TracedMessageType
from consumers import (
    LocalTransactionState,
    Message,
    MessageRecord,
    MQAdmin,
    Producer,
    ProducerConfig,
    SendResult,
    TransactionProducer,
)
from tests.consumers.fake_cluster import FakeCluster
from tests.consumers.producer.test_producer import SEND, route_to, stored
from tests.consumers.traces import read_traces
from tests.support.broker_process import BrokerProcess

TRACING = ProducerConfig(enable_msg_trace=True, trace_topic="traces")


async def create(brokerd: BrokerProcess, admin: MQAdmin, topic: str) -> None:
    config = TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1, perm=6)
    await admin.create_topic(brokerd.address, config)


async def test_each_send_is_traced_until_the_broker_wants_none(brokerd: BrokerProcess) -> None:
    async with MQAdmin(brokerd.namesrv) as admin, Producer("shop", brokerd.namesrv, TRACING) as producer:
        for topic in ("orders", "traces"):
            await create(brokerd, admin, topic)
        one = await producer.send(Message("orders", b"A-1", {"TAGS": "paid", "KEYS": "A-1"}))
        long = await producer.send(Message("orders", b"x" * 10_000))
        late = await producer.send(Message("orders", b"A-2"), delay_ms=60_000)
        batch = [Message("orders", b"1"), Message("orders", b"22", {"TAGS": "b"})]
        await producer.send_batch(batch)
        await producer.send_oneway(Message("orders", b"A-3"))
        await producer.send(Message("traces", b"no trace of traces"))
        await admin.update_broker_config(brokerd.address, {"traceOn": "false"})
        await producer.send(Message("orders", b"A-4"))
    assert producer.traces is not None and producer.traces.sent_records == 5
    records = [each for each in await read_traces(brokerd.namesrv, "traces") if isinstance(each, PubTrace)]
    ids = [each.properties["UNIQ_KEY"] for each in batch]
    assert [each.message_id for each in records] == [
        *(each.message_id for each in (one, long, late)),
        *ids,
    ]
    first = records[0]
    assert (first.group, first.topic, first.tags, first.keys) == ("shop", "orders", "paid", "A-1")
    assert (first.region, first.store_host) == ("DefaultRegion", brokerd.address)
    assert (first.offset_message_id, first.is_success) == (one.offset_message_id, True)
    assert first.cost_ms is not None and 0 <= first.cost_ms < 60_000
    assert records[1].body_bytes is not None and 0 < records[1].body_bytes < 1_000
    assert [each.body_bytes for each in (first, *records[3:])] == [3, 1, 2]
    assert [each.message_type for each in records] == [
        TracedMessageType.NORMAL,
        TracedMessageType.NORMAL,
        TracedMessageType.DELAY,
        TracedMessageType.NORMAL,
        TracedMessageType.NORMAL,
    ]


async def test_ends_of_transactions_are_traced(brokerd: BrokerProcess) -> None:
    async def check(message: MessageRecord) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    async def commit(half: SendResult) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    async def roll_back(half: SendResult) -> LocalTransactionState:
        return LocalTransactionState.ROLLBACK

    async with MQAdmin(brokerd.namesrv) as admin:
        for topic in ("orders", "traces"):
            await create(brokerd, admin, topic)
    async with TransactionProducer("shop", brokerd.namesrv, check, TRACING) as producer:
        done = await producer.send_in_transaction(Message("orders", b"1", {"KEYS": "A-1"}), commit)
        undone = await producer.send_in_transaction(Message("orders", b"2"), roll_back)
    records = await read_traces(brokerd.namesrv, "traces")
    halves = [each for each in records if isinstance(each, PubTrace)]
    ends = [each for each in records if isinstance(each, EndTransactionTrace)]
    assert {each.message_type for each in halves} == {TracedMessageType.TRANSACTION_HALF}
    assert [(each.message_id, each.state) for each in ends] == [
        (done.message_id, "COMMIT_MESSAGE"),
        (undone.message_id, "ROLLBACK_MESSAGE"),
    ]
    first = ends[0]
    assert (first.transaction_id, first.message_type) == (
        done.message_id,
        TracedMessageType.TRANSACTION_COMMIT,
    )
    assert (first.group, first.topic, first.keys, first.is_from_check) == ("shop", "orders", "A-1", False)
    assert first.store_host == brokerd.address


async def test_a_send_succeeds_when_its_trace_fails(cluster: FakeCluster) -> None:
    cluster.routes["orders"] = route_to(cluster.broker.addr)
    cluster.broker.answers[SEND] = stored
    producer = Producer("shop", cluster.broker.addr, ProducerConfig(enable_msg_trace=True))
    async with producer:
        await producer.send(Message("orders", b"x"))
    assert producer.traces is not None
    assert (producer.traces.failed_records, producer.traces.sent_records) == (1, 0)


async def test_nothing_is_traced_without_the_setting(cluster: FakeCluster) -> None:
    async with Producer("shop", cluster.broker.addr) as producer:
        assert producer.traces is None


async def test_a_trace_topic_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="topic name"):
        Producer("shop", "127.0.0.1:1", ProducerConfig(enable_msg_trace=True, trace_topic="a b"))
