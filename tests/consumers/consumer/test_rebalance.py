"""The rebalancer against a fake broker: which queues it takes, where it begins, and what it tells the
broker."""

from __future__ import annotations

import pytest

from brokerd.remoting.body.assignment import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueueAssignment,
    QueryAssignmentResponseBody,
)
from brokerd.remoting.message.queue import MessageQueue
from consumers.client.client_instance import ClientInstance
from consumers.config import ConsumeFromWhere, InvalidClientConfig, PushConsumerConfig, RebalanceMode
from consumers.consumer.offset_store import RemoteOffsetStore
from consumers.consumer.process_queue import ProcessQueueTable
from consumers.consumer.rebalance import RebalanceContext, Rebalancer
from tests.consumers.fake_broker import wait_until
from tests.consumers.fake_cluster import route_to


class Owner:
    def __init__(self) -> None:
        self.began: list[tuple[int, int]] = []
        self.is_idle = True
        self.changed: list[str] = []

    def begin(self, queue, next_offset) -> None:
        self.began.append((queue.message_queue.queue_id, next_offset))

    async def wait_idle(self, queue, wait_ms) -> bool:
        return self.is_idle

    def queues_changed(self, topic) -> None:
        self.changed.append(topic)


class Bench:
    def __init__(self, client, *, orderly=False, **settings) -> None:
        self.client = client
        self.owner = Owner()
        self.table = ProcessQueueTable()
        self.offsets = RemoteOffsetStore("billing", client)
        self.topics = ["orders"]
        self.now_ms = 0
        context = RebalanceContext(
            group="billing",
            config=PushConsumerConfig(**settings),
            client=client,
            offset_store=self.offsets,
            table=self.table,
            orderly=orderly,
            owner=self.owner,
            topics=lambda: self.topics,
            clock=lambda: self.now_ms,
        )
        self.rebalancer = Rebalancer(context)

    def owned(self) -> list[int]:
        return [queue.queue_id for queue in self.table]


@pytest.fixture
async def client(cluster):
    cluster.routes["orders"] = route_to(cluster.broker.addr)
    async with ClientInstance(cluster.broker.addr) as made:
        cluster.client_ids = [made.client_id]
        yield made


async def test_it_takes_all_queues_when_it_is_alone(client):
    bench = Bench(client)
    assert await bench.rebalancer.rebalance()
    assert bench.owned() == [0, 1, 2, 3]
    assert bench.owner.changed == ["orders"]


async def test_it_gives_up_half_when_another_member_comes(cluster, client):
    bench = Bench(client)
    await bench.rebalancer.rebalance()
    bench.offsets.update_offset(MessageQueue("orders", "broker-a", 0), 7, increase_only=True)
    cluster.client_ids = ["0.0.0.0@first", client.client_id]
    await bench.rebalancer.rebalance()
    assert bench.owned() == [2, 3]
    await wait_until(lambda: cluster.offsets.get(("orders", 0)) == 7)
    assert bench.offsets.read_memory(MessageQueue("orders", "broker-a", 0)) is None


async def test_it_keeps_what_it_has_when_no_members_are_known(cluster, client):
    bench = Bench(client)
    await bench.rebalancer.rebalance()
    cluster.client_ids = []
    await bench.rebalancer.rebalance()
    assert bench.owned() == [0, 1, 2, 3]


async def test_it_gives_up_everything_when_it_is_no_member(cluster, client):
    bench = Bench(client)
    await bench.rebalancer.rebalance()
    cluster.client_ids = ["somebody-else"]
    await bench.rebalancer.rebalance()
    assert bench.owned() == []


async def test_it_gives_up_topics_that_are_not_subscribed_any_more(client):
    bench = Bench(client)
    await bench.rebalancer.rebalance()
    bench.topics = []
    await bench.rebalancer.rebalance()
    assert bench.owned() == []


async def test_it_tries_again_soon_when_there_is_no_route(client):
    bench = Bench(client)
    bench.topics = ["unknown"]
    assert not await bench.rebalancer.rebalance()


@pytest.mark.parametrize(
    ("where", "topic", "offset"),
    [
        (ConsumeFromWhere.LAST_OFFSET, "orders", 100),
        (ConsumeFromWhere.LAST_OFFSET, "%RETRY%billing", 0),
        (ConsumeFromWhere.FIRST_OFFSET, "orders", 0),
        (ConsumeFromWhere.FIRST_OFFSET, "%RETRY%billing", 0),
        (ConsumeFromWhere.TIMESTAMP, "orders", 1234),
        (ConsumeFromWhere.TIMESTAMP, "%RETRY%billing", 100),
    ],
)
async def test_it_finds_where_a_new_group_begins(client, where, topic, offset):
    await client.route("orders")
    bench = Bench(client, consume_from_where=where, consume_timestamp_ms=1234)
    assert await bench.rebalancer.start_offset(MessageQueue(topic, "broker-a", 0)) == offset


async def test_it_goes_on_from_the_stored_offset(cluster, client):
    cluster.offsets["orders", 2] = 42
    bench = Bench(client)
    await bench.rebalancer.rebalance()
    assert bench.owner.began == [(0, 100), (1, 100), (2, 42), (3, 100)]


async def test_it_skips_a_queue_whose_offset_cannot_be_known_now(cluster, client):
    known = cluster.broker.answers[14]
    cluster.broker.answers[14] = lambda c: (
        c.response(1, "error") if c.ext_fields["queueId"] == "1" else known(c)
    )
    bench = Bench(client)
    assert not await bench.rebalancer.rebalance()
    assert bench.owned() == [0, 2, 3]
    cluster.broker.answers[14] = known
    assert await bench.rebalancer.rebalance()
    assert bench.owned() == [0, 1, 2, 3]


async def test_it_asks_the_broker_when_the_broker_assigns(cluster, client):
    queue = MessageQueue("orders", "broker-a", 3)
    body = QueryAssignmentResponseBody([MessageQueueAssignment(queue, "PULL", {})]).to_body()
    cluster.broker.answers[400] = lambda command: command.response(0, body=body)
    bench = Bench(client, rebalance_mode=RebalanceMode.SERVER)
    await bench.rebalancer.rebalance()
    assert bench.owned() == [3]


async def test_it_keeps_what_it_has_when_the_broker_has_no_assignment(cluster, client):
    bench = Bench(client, rebalance_mode=RebalanceMode.SERVER)
    cluster.broker.answers[400] = lambda command: command.response(0, body=b"{}")
    assert await bench.rebalancer.rebalance()
    assert bench.owned() == []


async def test_it_reads_the_route_again_when_it_is_assigned_a_new_broker(cluster, client):
    bench = Bench(client, rebalance_mode=RebalanceMode.SERVER)
    cluster.broker.answers[400] = lambda command: command.response(0, body=b"{}")
    await bench.rebalancer.rebalance()
    cluster.routes["orders"] = route_to(cluster.broker.addr, broker_name="broker-b")
    queue = MessageQueue("orders", "broker-b", 2)
    body = QueryAssignmentResponseBody([MessageQueueAssignment(queue, "PULL", {})]).to_body()
    cluster.broker.answers[400] = lambda command: command.response(0, body=body)
    assert await bench.rebalancer.rebalance()
    assert [one.broker_name for one in bench.table] == ["broker-b"]


async def test_it_finds_out_who_assigns(cluster, client):
    queue = MessageQueue("orders", "broker-a", 1)
    body = QueryAssignmentResponseBody([MessageQueueAssignment(queue, "PULL", {})]).to_body()
    cluster.broker.answers[400] = lambda command: command.response(0, body=body)
    cluster.broker.answers[75002] = lambda c: c.response(0, ext_fields={"capabilities": "assignment"})
    bench = Bench(client)
    await bench.rebalancer.rebalance()
    await bench.rebalancer.rebalance()
    assert bench.owned() == [1]
    assert cluster.broker.codes().count(75002) == 1
    orderly = Bench(client, orderly=True)
    cluster.broker.answers[41] = grant_all
    await orderly.rebalancer.rebalance()
    assert orderly.owned() == [0, 1, 2, 3]


def grant_all(command):
    return command.response(
        0, body=LockBatchResponseBody(LockBatchRequestBody.from_body(command.body).mq_set).to_body()
    )


async def test_it_locks_before_it_begins(cluster, client):
    cluster.broker.answers[41] = lambda command: (
        grant_all(command)
        if b'"queueId":1' in command.body
        else command.response(0, body=b'{"lockOKMQSet":[]}')
    )
    bench = Bench(client, orderly=True)
    assert not await bench.rebalancer.rebalance()
    assert bench.owned() == [1]
    assert bench.table.values()[0].is_locked(0)


async def test_it_unlocks_what_it_gives_up(cluster, client):
    cluster.broker.answers[41] = grant_all
    bench = Bench(client, orderly=True)
    await bench.rebalancer.rebalance()
    cluster.client_ids = ["somebody-else"]
    await bench.rebalancer.rebalance()
    await wait_until(lambda: cluster.broker.codes().count(42) == 4)
    assert bench.owned() == []


async def test_it_keeps_a_queue_whose_batch_still_runs_for_20_seconds(cluster, client):
    cluster.broker.answers[41] = grant_all
    bench = Bench(client, orderly=True)
    await bench.rebalancer.rebalance()
    cluster.client_ids = ["somebody-else"]
    bench.owner.is_idle = False
    assert not await bench.rebalancer.rebalance()
    assert bench.owned() == [0, 1, 2, 3]
    assert {queue.try_unlock_times for queue in bench.table.values()} == {1}
    assert 42 not in cluster.broker.codes()
    bench.now_ms = 20_001
    assert await bench.rebalancer.rebalance()
    assert bench.owned() == []


async def test_a_queue_that_returns_while_its_batch_runs_begins_after_it(cluster, client):
    cluster.broker.answers[41] = grant_all
    bench = Bench(client, orderly=True)
    await bench.rebalancer.rebalance()
    cluster.client_ids = ["another-member"]
    bench.owner.is_idle = False
    await bench.rebalancer.rebalance()
    cluster.client_ids = [client.client_id]
    assert not await bench.rebalancer.rebalance()
    assert len(bench.owner.began) == 4
    bench.owner.is_idle = True
    assert await bench.rebalancer.rebalance()
    assert bench.owned() == [0, 1, 2, 3]
    assert len(bench.owner.began) == 8


async def test_it_renews_locks_and_loses_those_of_others(cluster, client):
    cluster.broker.answers[41] = grant_all
    bench = Bench(client, orderly=True)
    await bench.rebalancer.rebalance()
    bench.now_ms = 25_000
    only_first = LockBatchResponseBody([MessageQueue("orders", "broker-a", 0)]).to_body()
    cluster.broker.answers[41] = lambda command: command.response(0, body=only_first)
    await bench.rebalancer.lock_all()
    assert [queue.lock_ms for queue in bench.table.values()] == [25_000, None, None, None]


async def test_it_keeps_old_locks_when_the_broker_does_not_answer(cluster, client):
    cluster.broker.answers[41] = grant_all
    bench = Bench(client, orderly=True)
    await bench.rebalancer.rebalance()
    cluster.broker.answers[41] = lambda command: command.response(1, "shutting down")
    await bench.rebalancer.lock_all()
    assert [queue.lock_ms for queue in bench.table.values()] == [0, 0, 0, 0]


async def test_it_refuses_a_strategy_it_does_not_know(client):
    with pytest.raises(InvalidClientConfig, match="AVG_BY_LUCK"):
        Bench(client, allocate_strategy="AVG_BY_LUCK")
