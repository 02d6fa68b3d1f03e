"""A push consumer against a fake cluster: what brokers push to it, and what it does when they refuse."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from brokerd.remoting.body.assignment import LockBatchRequestBody, LockBatchResponseBody
from brokerd.remoting.body.client import ConsumeMessageDirectlyResult, ConsumerRunningInfo, HeartbeatData
from brokerd.remoting.body.client import ConsumeStatus as ConsumeStatistics
from brokerd.remoting.body.offset import GetConsumerStatusBody, ResetOffsetBody
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.queue import MessageQueue
from consumers import (
    ClientInstance,
    ConsumeFromWhere,
    ConsumeStatus,
    InvalidClientConfig,
    MessageModel,
    PushConsumer,
    PushConsumerConfig,
)
from tests.consumers.fake_broker import wait_until
from tests.consumers.fake_cluster import route_to
from tests.consumers.records import record
from tests.support.broker_process import BrokerProcess
from tests.support.documented import example
from tests.support.plain_record import encode_record

CONFIG = PushConsumerConfig(
    consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
    persist_consumer_offset_interval_ms=20,
    pull_delay_when_exception_ms=20,
    broker_suspend_max_ms=100,
)
QUEUE = MessageQueue("orders", "broker-a", 0)


class Stored:
    """One queue with messages at the fake broker, and its pull answers."""

    def __init__(self, cluster, count: int) -> None:
        self.count = count
        self.min_offset = 0
        self.pulls: list[int] = []
        cluster.routes["orders"] = route_to(cluster.broker.addr, queues=1)
        cluster.broker.answers[11] = self.pull

    async def pull(self, command: RemotingCommand) -> RemotingCommand:
        offset = int(command.ext_fields["queueOffset"])
        self.pulls.append(offset)
        fields = {
            "suggestWhichBrokerId": "0",
            "minOffset": str(self.min_offset),
            "maxOffset": str(self.count),
        }
        if offset < self.min_offset:
            return command.response(21, ext_fields=fields | {"nextBeginOffset": str(self.min_offset)})
        if offset >= self.count:
            await asyncio.sleep(0.05)
            return command.response(19, ext_fields=fields | {"nextBeginOffset": str(offset)})
        last = min(self.count, offset + 32)
        body = b"".join(encode_record(record(n, b"%d" % n)) for n in range(offset, last))
        return command.response(0, ext_fields=fields | {"nextBeginOffset": str(last)}, body=body)


@pytest.fixture
def stored(cluster):
    return Stored(cluster, 3)


@pytest.fixture
async def started(cluster):
    """Starts a consumer whose handler notes bodies in `seen`; closed after the test."""
    consumers = []

    async def start(config=CONFIG, handler=None, **options):
        seen: list[bytes] = []

        async def note(messages, context):
            seen.extend(message.body for message in messages)
            return ConsumeStatus.CONSUME_SUCCESS

        consumer = PushConsumer(
            "billing", cluster.broker.addr, handler or note, {"orders": "*"}, config=config, **options
        )
        cluster.client_ids = [consumer.client.client_id]
        consumers.append(consumer)
        await consumer.start()
        return consumer, seen

    yield start
    for consumer in consumers:
        await consumer.close()


async def test_it_consumes_and_stores_its_progress(cluster, stored, started):
    _, seen = await started()
    await wait_until(lambda: cluster.offsets.get(("orders", 0)) == 3)
    assert seen == [b"0", b"1", b"2"]


async def test_it_says_what_it_subscribes_to(cluster, stored, started):
    consumer, _ = await started()
    heartbeat = next(command for command in cluster.broker.received if command.code == 34)
    data = HeartbeatData.from_body(heartbeat.body)
    assert data.client_id == consumer.client.client_id
    (group,) = data.consumer_data_set
    assert (group.group_name, group.consume_type, group.message_model) == (
        "billing",
        "CONSUME_PASSIVELY",
        "CLUSTERING",
    )
    assert [(s.topic, s.sub_string) for s in group.subscription_data_set] == [
        ("%RETRY%billing", "*"),
        ("orders", "*"),
    ]


async def test_it_follows_the_broker_to_an_offset_that_exists(cluster, stored, started):
    stored.min_offset = 2
    _, seen = await started()
    await wait_until(lambda: seen == [b"2"])
    await wait_until(lambda: cluster.offsets.get(("orders", 0)) == 3)
    assert stored.pulls[:2] == [0, 2]


async def test_it_heartbeats_when_the_broker_does_not_know_it(cluster, stored, started):
    pull = stored.pull
    refused = [24, 25]
    cluster.broker.answers[11] = lambda c: c.response(refused.pop(), "subscription") if refused else pull(c)
    _, seen = await started()
    await wait_until(lambda: len(seen) == 3)
    assert cluster.broker.codes().count(34) >= 3


async def test_it_goes_on_when_a_pull_fails(cluster, stored, started):
    pull = stored.pull
    failures = [lambda c: c.response(2, "busy"), lambda c: c.response(0, ext_fields={})]
    cluster.broker.answers[11] = lambda c: failures.pop()(c) if failures else pull(c)
    _, seen = await started()
    await wait_until(lambda: len(seen) == 3)


async def test_it_rebalances_when_members_change(cluster, stored, started):
    consumer, seen = await started()
    await wait_until(lambda: len(seen) == 3)
    cluster.client_ids = ["somebody-else"]
    cluster.broker.push(RemotingCommand.request(40, {"consumerGroup": "billing"}, oneway=True))
    await wait_until(lambda: len(consumer.table) == 0)


async def test_it_moves_when_the_broker_pushes_a_reset(cluster, stored, started):
    consumer, seen = await started()
    await wait_until(lambda: cluster.offsets.get(("orders", 0)) == 3)
    body = ResetOffsetBody({QUEUE: 1}).to_body()
    cluster.broker.push(
        RemotingCommand.request(220, {"topic": "orders", "group": "billing"}, body, oneway=True)
    )
    await wait_until(lambda: seen == [b"0", b"1", b"2", b"1", b"2"])
    assert consumer.table.get(QUEUE) is not None


async def test_it_tells_its_offsets(cluster, stored, started):
    await started()
    await wait_until(lambda: cluster.offsets.get(("orders", 0)) == 3)
    cluster.broker.push(RemotingCommand.request(221, {"topic": "orders", "group": "billing"}))
    await wait_until(lambda: len(cluster.broker.responses) == 1)
    status = GetConsumerStatusBody.from_body(cluster.broker.responses[0].body)
    assert status.message_queue_table == {QUEUE: 3}


async def test_it_tells_about_itself(cluster, stored, started):
    await started()
    await wait_until(lambda: cluster.offsets.get(("orders", 0)) == 3)
    cluster.broker.push(RemotingCommand.request(307, {"consumerGroup": "billing"}))
    await wait_until(lambda: len(cluster.broker.responses) == 1)
    info = ConsumerRunningInfo.from_body(cluster.broker.responses[0].body)
    assert info.mq_table[QUEUE].commit_offset == 3
    assert info.status_table["orders"].consume_ok_tps == pytest.approx(3 / 60)
    assert info.status_table["%RETRY%billing"] == ConsumeStatistics()
    assert info.jstack is None
    assert info.properties["PROP_CONSUMEORDERLY"] == "false"
    settings = (
        "consumeThreadMax",
        "pullThresholdSizeForQueue",
        "consumeTimeout",
        "maxReconsumeTimes",
        "pause",
    )
    assert [info.properties[name] for name in settings] == ["20", "100", "15", "-1", "false"]


async def test_it_shows_its_tasks_on_request(cluster, stored, started):
    await started()
    cluster.broker.push(RemotingCommand.request(307, {"consumerGroup": "billing", "jstackEnable": "true"}))
    await wait_until(lambda: len(cluster.broker.responses) == 1)
    stacks = ConsumerRunningInfo.from_body(cluster.broker.responses[0].body).jstack
    assert "STATE: WAITING" in stacks
    assert "consumers.consumer.worker_line.WorkerLine._run(worker_line.py:" in stacks


@pytest.mark.parametrize(
    ("answer", "result", "remark"),
    [
        (ConsumeStatus.CONSUME_SUCCESS, "CR_SUCCESS", None),
        (ConsumeStatus.RECONSUME_LATER, "CR_LATER", None),
        (None, "CR_RETURN_NULL", None),
        (ValueError("no"), "CR_THROW_EXCEPTION", "ValueError: no"),
    ],
)
async def test_it_consumes_one_message_on_request(cluster, started, answer, result, remark):
    Stored(cluster, 0)

    async def handle(messages, context):
        if isinstance(answer, Exception):
            raise answer
        return answer

    consumer, _ = await started(handler=handle)
    request = RemotingCommand.request(
        309, {"consumerGroup": "billing", "brokerName": "broker-a"}, encode_record(record(7))
    )
    cluster.broker.push(request)
    await wait_until(lambda: len(cluster.broker.responses) == 1)
    outcome = ConsumeMessageDirectlyResult.from_body(cluster.broker.responses[0].body)
    assert (outcome.consume_result, outcome.remark) == (result, remark)
    # It is no delivery to the group.
    assert consumer.running_info().status_table["orders"] == ConsumeStatistics()


@pytest.mark.parametrize("code", [307, 309])
async def test_it_says_that_it_is_not_in_a_group(cluster, stored, started, code):
    await started()
    cluster.broker.push(RemotingCommand.request(code, {"consumerGroup": "other"}))
    await wait_until(lambda: len(cluster.broker.responses) == 1)
    assert cluster.broker.responses[0].code == 1


async def test_it_sends_back_and_falls_back_to_a_copy(cluster, stored, started):
    stored.count = 1
    cluster.routes["%RETRY%billing"] = route_to(cluster.broker.addr, queues=1)
    fields = {"msgId": "ID", "queueId": "0", "queueOffset": "0"}
    cluster.broker.answers[36] = lambda command: command.response(1, "look message by offset failed")
    cluster.broker.answers[310] = lambda command: command.response(0, ext_fields=fields)

    async def handle(messages, context):
        return ConsumeStatus.RECONSUME_LATER

    await started(handler=handle)
    await wait_until(lambda: cluster.offsets.get(("orders", 0)) == 1)
    copy = next(command for command in cluster.broker.received if command.code == 310)
    assert (copy.ext_fields["b"], copy.ext_fields["j"], copy.body) == ("%RETRY%billing", "1", b"0")
    assert "RECONSUME_TIME" not in copy.ext_fields["i"]


async def test_it_asks_for_its_locks_again_when_the_connection_broke(cluster, stored, started):
    granted = [True]

    def lock(command: RemotingCommand) -> RemotingCommand:
        asked = LockBatchRequestBody.from_body(command.body).mq_set
        return command.response(0, body=LockBatchResponseBody(asked if granted[0] else []).to_body())

    cluster.broker.answers[41] = lock
    consumer, seen = await started(orderly=True)
    await wait_until(lambda: len(seen) == 3)
    granted[0] = False
    cluster.broker.drop_connections()
    stored.count = 4
    await asyncio.sleep(0.3)
    assert len(seen) == 3
    granted[0] = True
    await wait_until(lambda: len(seen) == 4)


async def test_it_consumes_no_more_while_it_is_suspended(cluster, stored, started, monkeypatch):
    monkeypatch.setattr("consumers.consumer.pull_message.SUSPENDED_DELAY_MS", 10)
    consumer, seen = await started()
    await wait_until(lambda: len(seen) == 3)
    consumer.suspend()
    await asyncio.sleep(0.1)
    stored.count = 5
    await asyncio.sleep(0.1)
    assert len(seen) == 3
    consumer.resume()
    await wait_until(lambda: len(seen) == 5)


async def test_it_suspends_single_queues(cluster, stored, started, monkeypatch):
    monkeypatch.setattr("consumers.consumer.pull_message.SUSPENDED_DELAY_MS", 20)
    consumer, seen = await started()
    await wait_until(lambda: len(seen) == 3)
    consumer.suspend([MessageQueue("orders", "broker-a", 7)])
    stored.count = 5
    await wait_until(lambda: len(seen) == 5)
    consumer.suspend([QUEUE])
    pulls = len(stored.pulls)
    await asyncio.sleep(0.2)
    assert len(stored.pulls) <= pulls + 1, "the pull that was on its way"
    stored.count = 8
    consumer.resume([QUEUE])
    await wait_until(lambda: len(seen) == 8)


@pytest.mark.parametrize("orderly", [False, True])
async def test_it_keeps_to_a_rate(cluster, stored, started, orderly):
    cluster.broker.answers[41] = lambda command: command.response(
        0, body=LockBatchResponseBody(LockBatchRequestBody.from_body(command.body).mq_set).to_body()
    )
    stored.count = 5
    began = []

    async def note(messages, context):
        began.append(asyncio.get_running_loop().time())
        return ConsumeStatus.CONSUME_SUCCESS

    consumer, _ = await started(replace(CONFIG, consume_rate_max=20), handler=note, orderly=orderly)
    await wait_until(lambda: len(began) == 5)
    # at 20 a second; the clock that counts is the loop's
    assert all(later - earlier > 0.049 for earlier, later in pairwise(began))
    consumer.limit_rate(None)
    stored.count = 300
    await wait_until(lambda: len(began) == 300)


async def test_it_adds_and_drops_topics_while_it_runs(cluster, stored, started):
    consumer, seen = await started()
    await wait_until(lambda: len(seen) == 3)
    cluster.routes["clicks"] = route_to(cluster.broker.addr, queues=2)
    consumer.subscribe("clicks", "view")
    await wait_until(lambda: len(consumer.table) == 3)
    consumer.unsubscribe("orders")
    await wait_until(lambda: {queue.topic for queue in consumer.table} == {"clicks"})


async def test_it_keeps_broadcast_offsets_in_a_file(cluster, stored, started, tmp_path):
    config = PushConsumerConfig(
        message_model=MessageModel.BROADCASTING,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        persist_consumer_offset_interval_ms=20,
        local_offset_store_dir=str(tmp_path),
    )
    consumer, seen = await started(config=config)
    await wait_until(lambda: len(seen) == 3)
    await consumer.close()
    (file,) = tmp_path.glob("*/billing/offsets.json")
    assert b'"topic":"orders"}:3' in file.read_bytes()
    assert cluster.offsets == {}
    assert 38 not in cluster.broker.codes()


async def test_it_stores_offsets_and_leaves_when_it_closes(cluster, stored, started):
    slow = PushConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer, seen = await started(config=slow)
    await wait_until(lambda: len(seen) == 3)
    await consumer.close()
    assert cluster.offsets == {("orders", 0): 3}
    assert cluster.broker.codes()[-1] == 35
    assert cluster.broker.received[-1].ext_fields["consumerGroup"] == "billing"


async def test_it_starts_without_a_broker():
    consumer = PushConsumer(
        "billing", "127.0.0.1:1", lambda m, c: ConsumeStatus.CONSUME_SUCCESS, {"orders": "*"}
    )
    await consumer.start()
    await consumer.close()


async def test_it_is_once_in_a_group_per_client(cluster, stored):
    def handler(messages, context):
        return ConsumeStatus.CONSUME_SUCCESS

    async with ClientInstance(cluster.broker.addr) as client:
        cluster.client_ids = [client.client_id]
        first = PushConsumer("billing", "", handler, {"orders": "*"}, client=client)
        second = PushConsumer("billing", "", handler, {"orders": "*"}, client=client)
        async with first:
            with pytest.raises(InvalidClientConfig, match="has a consumer of group billing"):
                await second.start()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"consume_concurrency": 0}, "consume_concurrency"),
        ({"pull_batch_size": 1025}, "pull_batch_size"),
        ({"delay_level_when_next_consume": 19}, "delay_level_when_next_consume"),
        ({"consume_from_where": ConsumeFromWhere.TIMESTAMP}, "consume_timestamp_ms"),
    ],
)
def test_it_refuses_settings_out_of_range(settings, name):
    with pytest.raises(InvalidClientConfig, match=name):
        PushConsumerConfig(**settings)


async def test_the_example_of_the_docs_runs(brokerd: BrokerProcess, capsys) -> None:
    await asyncio.wait_for(example("consumers.md", "Consuming")(brokerd.namesrv), 60)
    assert capsys.readouterr().out == "A-0 A-1 A-2\n"


def test_it_refuses_names_that_rocketmq_refuses():
    with pytest.raises(ValueError):
        PushConsumer("no such group name", "127.0.0.1:1", lambda m, c: None, {"orders": "*"})
    with pytest.raises(ValueError):
        PushConsumer("billing", "127.0.0.1:1", lambda m, c: None, {"no topic": "*"})
