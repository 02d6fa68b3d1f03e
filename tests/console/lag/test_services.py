"""Rounds against a real brokerd: true figures, honest unknowns, one lease, restarts."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from redis import Redis

from console.access.services import record_audit
from console.brokers.mqadmin import close_admins
from console.cluster.models import Cluster
from console.lag import services
from console.lag.collect import sweep
from console.lag.history.log import file_location, wal_folder
from console.lag.models import (
    BrokerRow,
    CollectorLease,
    GroupMembers,
    GroupRow,
    HistoryFile,
    HistoryGap,
    LagEvent,
    Round,
    TopicRow,
)
from console.lag.rows.queue_row import QueueRow
from console.live import hub as live
from spark.lag.history import wal
from tests.console.lag.conftest import CollectedCluster
from tests.console.lag.running_consumers import RunningConsumers, eventually
from tests.support import plain_window, sample_queues
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def queue(group: str, queue_id: int = 0, broker_name: str = "broker-a") -> QueueRow:
    (row,) = sample_queues.find(group=group, topic="orders", broker_name=broker_name, queue_id=queue_id)
    return row


def group(name: str = "billing") -> GroupRow:
    return GroupRow.objects.get(group=name)


@pytest.fixture
def orders(collected: CollectedCluster) -> CollectedCluster:
    """Topic orders: 10 messages in queue 0, 4 in queue 1; billing committed 7 and 4."""
    collected.make_topic("orders")
    collected.make_group("billing")
    collected.send("orders", 10, 0)
    collected.send("orders", 4, 1)
    collected.commit("billing", "orders", 7, 0)
    collected.commit("billing", "orders", 4, 1)
    return collected


def test_it_writes_rows_that_say_what_the_broker_holds(orders: CollectedCluster) -> None:
    done = orders.collect()
    assert (done.number, done.brokers_answered, done.brokers_total, done.error) == (1, 1, 1, "")
    row = queue("billing")
    assert (row.min_offset, row.max_offset, row.committed_offset, row.lag) == (0, 10, 7, 3)
    assert queue("billing", 1).lag == 0
    billing = group()
    assert (billing.lag, billing.lag_lower_bound, billing.partial) == (3, False, False)
    assert billing.status == "UNKNOWN"  # nobody was swept yet: who reads is not known
    assert [(one["topic"], one["queues"], one["lag"]) for one in billing.topics] == [("orders", 2, 3)]
    assert (billing.retry_lag, billing.dlq_count, billing.trend, billing.known_lag) == (0, 0, [3], 3)
    topic = TopicRow.objects.get(topic="orders")
    assert (topic.kind, topic.read_queues, topic.messages, topic.worst_group) == ("NORMAL", 2, 14, "billing")
    assert [row.max_offset for row in sample_queues.find_topic_queues(topic="orders", queue_id=1)] == [4]
    broker = BrokerRow.objects.get()
    assert (broker.answered, broker.addr, broker.version) == (True, orders.broker.address, "V5_3_3")
    assert "assignment" in broker.capabilities


def test_it_measures_rates_and_ages_between_rounds(orders: CollectedCluster) -> None:
    orders.collect()
    orders.send("orders", 20, 0)
    orders.commit("billing", "orders", 12, 0)
    orders.collect()
    assert (queue("billing").lag, queue("billing").committed_offset) == (18, 12)
    assert (group().in_rate, group().out_rate) == (4.0, 1.0)
    assert 0 < (group().time_lag_ms or 0) <= 5_000
    assert TopicRow.objects.get(topic="orders").in_rate == 4.0
    assert queue("billing").last_commit_ms == orders.now_ms


def test_it_looks_up_the_age_of_a_message_older_than_its_history(orders: CollectedCluster) -> None:
    slack_ms = 300_000  # between the cluster's clock and the broker's own, on however slow a machine
    orders.collect(step_ms=3_600_000)  # an hour after the messages came
    assert queue("billing").time_lag_lower_bound
    assert (queue("billing").time_lag_ms or 0) >= 3_600_000 - slack_ms
    orders.collect()
    row = queue("billing")
    assert not row.time_lag_lower_bound
    assert 3_600_000 - slack_ms <= (row.time_lag_ms or 0) <= 3_600_000 + slack_ms
    orders.collect()
    retained = TopicRow.objects.get(topic="orders").retained_ms
    assert retained is not None
    assert retained >= 3_600_000 - slack_ms


def test_it_does_not_call_never_committed_zero(orders: CollectedCluster) -> None:
    orders.make_group("newcomer")
    orders.make_group("half")
    orders.commit("half", "orders", 10, 0)
    orders.collect()
    newcomer = group("newcomer")
    assert (newcomer.status, newcomer.lag, newcomer.topics) == ("NEVER_COMMITTED", None, [])
    assert (queue("half", 1).status, queue("half", 1).lag) == ("NEVER_COMMITTED", None)
    half = group("half")  # it is level on one queue, and on the other lies what it may have to read
    assert (half.status, half.lag, half.topics[0]["never_committed_lag"]) == ("NEVER_COMMITTED", 0, 4)
    assert half.reason == "orders · broker-a · 1: no committed offset yet, the queue holds 4 messages"


def test_it_keeps_retries_and_dead_letters_apart(orders: CollectedCluster) -> None:
    orders.make_topic("%RETRY%billing", 1)
    orders.make_topic("%DLQ%billing", 1)
    orders.send("%RETRY%billing", 5)
    orders.send("%DLQ%billing", 2)
    orders.commit("billing", "%RETRY%billing", 1)
    orders.collect()
    assert (group().lag, group().retry_lag, group().dlq_count) == (3, 4, 2)
    assert TopicRow.objects.get(topic="%DLQ%billing").kind == "DLQ"


def test_it_says_unknown_since_when_the_broker_is_gone(orders: CollectedCluster) -> None:
    orders.collect()
    orders.broker.stop()
    done = orders.collect()
    silent_ms = orders.now_ms
    assert (done.brokers_answered, done.brokers_total) == (0, 1)
    row = queue("billing")
    assert (row.status, row.lag, row.time_lag_ms, row.committed_offset) == ("UNKNOWN", None, None, 7)
    assert "broker-a has not answered since" in row.reason
    assert (group().status, group().lag, group().partial) == ("UNKNOWN", None, True)
    assert (group().unknown_since_ms, group().known_lag) == (silent_ms, 3)
    assert group().dlq_count is None
    broker = BrokerRow.objects.get()
    assert (broker.answered, broker.since_ms) == (False, silent_ms)
    assert "no name server answers" in orders.collect().error
    assert (group().unknown_since_ms, BrokerRow.objects.get().since_ms) == (silent_ms, silent_ms)
    orders.broker.start()
    orders.collect_until_answered(1)
    assert (group().lag, group().partial, group().unknown_since_ms) == (3, False, None)
    assert BrokerRow.objects.get().since_ms == orders.now_ms


@pytest.fixture
def second_broker(orders: CollectedCluster, tmp_path: Path) -> Iterator[BrokerProcess]:
    """broker-b, registered with broker-a's name server."""
    process = BrokerProcess(
        tmp_path / "second", brokerName="broker-b", namesrvAddr=orders.broker.namesrv
    ).start()
    yield process
    process.stop()


def test_it_gives_a_lower_bound_when_one_of_two_brokers_is_silent(
    orders: CollectedCluster, second_broker: BrokerProcess
) -> None:
    orders.make_topic("orders", 1, addr=second_broker.address)
    orders.make_group("billing", addr=second_broker.address)
    orders.send("orders", 50, addr=second_broker.address)
    orders.commit("billing", "orders", 0, addr=second_broker.address)
    assert orders.collect().brokers_answered == 2
    assert (group().lag, group().lag_lower_bound) == (53, False)
    second_broker.stop()
    done = orders.collect()
    assert (done.brokers_answered, done.brokers_total) == (1, 2)
    assert (group().lag, group().lag_lower_bound, group().partial) == (3, True, True)
    assert group().reason.startswith("1 of 3 queues unknown: broker-b has not answered since")
    assert queue("billing", 0, "broker-b").status == "UNKNOWN"
    assert queue("billing", 0, "broker-a").lag == 3
    topic = TopicRow.objects.get(topic="orders")
    assert (topic.partial, topic.messages, topic.messages_lower_bound) == (True, 64, True)
    assert topic.trend[-1] is None
    second_broker.start()
    orders.collect_until_answered(2)
    assert (group().lag, group().lag_lower_bound) == (53, False)


@pytest.fixture
def deaf_addr() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield "{}:{}".format(*server.getsockname())


def test_it_is_not_held_up_by_a_broker_that_accepts_and_never_answers(
    orders: CollectedCluster, deaf_addr: str
) -> None:
    orders.collect()
    BrokerRow.objects.create(
        cluster="local", broker_name="broker-x", addr=deaf_addr, answered=True, since_ms=1, read_at_ms=1
    )
    services.collectors.clear()
    done = orders.collect()
    assert (done.brokers_answered, done.brokers_total) == (1, 2)
    assert (group().lag, group().lag_lower_bound, group().partial) == (3, True, True)
    assert "broker-x has not answered" in group().reason
    assert "no name server lists it" in BrokerRow.objects.get(broker_name="broker-x").reason


def test_it_is_offline_only_when_nobody_is_connected_for_sure(orders: CollectedCluster) -> None:
    orders.collect()
    assert group().clients is None
    GroupMembers.objects.create(
        cluster="local", group="billing", clients=0, offline_since_ms=5, read_at_ms=orders.now_ms
    )
    orders.collect()
    assert (group().status, group().clients, group().offline_since_ms) == ("OFFLINE", 0, 5)
    assert group().attention == 3
    assert group().reason == "no client is connected, 3 messages wait"
    orders.collect(step_ms=600_000)  # the sweep is ten minutes old: who is connected is unknown again
    assert group().clients is None


def test_it_buries_a_group_three_rounds_after_its_broker_left_it_out(orders: CollectedCluster) -> None:
    orders.collect()
    orders.admin.delete_subscription_group(orders.broker.address, "billing", clean_offset=True)
    orders.collect()
    assert (queue("billing").status, queue("billing").missed_rounds) == ("UNKNOWN", 1)
    assert "no longer lists" in queue("billing").reason
    orders.collect()
    orders.collect()
    assert sample_queues.find(group="billing") == []
    for _ in range(4):  # until the table of groups is read again
        orders.collect()
    assert not GroupRow.objects.filter(group="billing").exists()


def test_it_reads_tables_at_once_when_asked(orders: CollectedCluster) -> None:
    orders.collect()
    orders.make_topic("fresh", 3)
    services.request_refresh("local")
    orders.collect(step_ms=1_000)
    assert TopicRow.objects.get(topic="fresh").read_queues == 3
    orders.admin.delete_topic(orders.broker.address, "fresh")
    services.request_refresh("local")
    orders.collect(step_ms=1_000)
    assert not TopicRow.objects.filter(topic="fresh").exists()


def test_it_reads_in_flight_for_a_group_somebody_looks_at(
    orders: CollectedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.lag.collect.collector.SMALL_CLUSTER_GROUPS", 0)
    services.watch_group("local", "billing", now_ms=orders.now_ms)
    orders.collect()
    row = queue("billing")
    assert (row.pulled_offset, row.in_flight, row.available) == (7, 0, 3)
    orders.collect(step_ms=services.WATCH_MS)
    assert queue("billing").in_flight is None


def test_it_reads_in_flight_of_all_groups_of_a_small_cluster(orders: CollectedCluster) -> None:
    orders.collect()
    orders.collect()
    assert queue("billing").in_flight == 0


def test_it_runs_one_round_at_a_time(orders: CollectedCluster) -> None:
    orders.collect()
    CollectorLease.objects.update(owner="another", until_ms=orders.now_ms + 30_000)
    assert services.collect("local", now_ms=orders.now_ms + 5_000) is None
    assert services.due_clusters(orders.now_ms + 5_000) == []
    done = services.collect("local", now_ms=orders.now_ms + 30_000)  # its worker died: the lease ran out
    assert done is not None
    assert done.number == 2


def test_a_forked_process_owns_leases_from_its_start() -> None:
    """One that changed its name in its first round would not give that round's lease back: 30 s without figures."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, services.collectors.owner.encode())
        os._exit(0)
    os.wait()
    owner = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert owner and owner != services.collectors.owner


def test_it_runs_only_when_due(orders: CollectedCluster) -> None:
    assert services.due_clusters(orders.now_ms) == ["local"]
    orders.collect()
    assert services.collect("local", now_ms=orders.now_ms + 4_000) is None
    assert services.due_clusters(orders.now_ms + 4_000) == []
    assert services.due_clusters(orders.now_ms + 5_000) == ["local"]


def test_it_does_not_drift(orders: CollectedCluster) -> None:
    """Beat ticks every 1,012 ms here; in 60 s there are 12 rounds all the same."""
    start_ms = orders.now_ms + 5_000
    numbers = [services.collect("local", now_ms=start_ms + 1_012 * tick) for tick in range(60)]
    assert sum(one is not None for one in numbers) == 12


def test_it_survives_a_clock_that_was_set_back_a_little(orders: CollectedCluster) -> None:
    orders.now_ms += wal.SEGMENT_MS // 2 - orders.now_ms % wal.SEGMENT_MS
    orders.collect()
    CollectorLease.objects.update(started_at_ms=0)
    orders.collect(step_ms=-30_000)
    CollectorLease.objects.update(started_at_ms=0)
    orders.collect()
    assert [one.number for one in Round.objects.order_by("started_at_ms")] == [1, 2, 3]
    services.collectors.clear()
    assert services.collectors.get("local", 5_000, orders.now_ms).window.number == 3


def test_it_begins_anew_after_a_clock_that_was_far_ahead(orders: CollectedCluster) -> None:
    orders.collect()
    orders.collect(step_ms=30 * 3_600_000)
    at_ms = orders.now_ms
    assert services.due_clusters(at_ms - 30 * 3_600_000 + 10_000) == ["local"]
    orders.now_ms -= 30 * 3_600_000
    done = orders.collect(step_ms=10_000)
    assert (done.number, done.started_at_ms) == (3, orders.now_ms)
    ahead = HistoryFile.objects.get(state="quarantined", ts_lo_ms__gt=orders.now_ms)
    assert "the clock was ahead" in ahead.reason
    assert orders.collect().started_at_ms == orders.now_ms
    assert group().lag == 3
    services.collectors.clear()
    assert services.collectors.get("local", 5_000, orders.now_ms).window.number == 4


def test_it_shows_lag_while_the_disk_is_full(
    orders: CollectedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.now_ms -= orders.now_ms % wal.SEGMENT_MS
    orders.collect()

    def full(descriptor: int, data: bytes) -> int:
        real_write(descriptor, bytes(data)[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    real_write = os.write
    with monkeypatch.context() as patch:
        patch.setattr("console.lag.history.log.os.write", full)
        orders.send("orders", 5)
        assert orders.collect().error == "history not written: No space left on device"
    assert group().lag == 8
    gap = HistoryGap.objects.get(to_ms=None)
    assert (gap.broker_name, gap.reason) == ("", "history not written: No space left on device")
    orders.send("orders", 1)
    done = orders.collect()
    assert (done.error, group().lag, group().in_rate) == ("", 9, 0.6)
    gap.refresh_from_db()
    assert gap.to_ms == orders.now_ms
    (row,) = HistoryFile.objects.filter(kind="wal")
    segment = wal.read_segment(Path(file_location(row.path, row.kind)).read_bytes())
    assert ([one.number for one in segment.snapshots], segment.damaged) == ([1, 3], False)


def test_it_writes_down_when_nobody_looked(orders: CollectedCluster) -> None:
    first = orders.collect().started_at_ms
    orders.collect(step_ms=20_000)
    assert not HistoryGap.objects.exists()
    orders.collect(step_ms=20_001)
    gap = HistoryGap.objects.get()
    assert (gap.from_ms, gap.to_ms, gap.broker_name) == (first + 20_000, first + 40_001, "")


def test_it_writes_down_when_a_broker_was_silent(orders: CollectedCluster) -> None:
    orders.collect()
    read_ms = BrokerRow.objects.get().read_at_ms
    orders.broker.stop()
    orders.collect()
    orders.collect()
    gap = HistoryGap.objects.get()
    assert (gap.broker_name, gap.from_ms, gap.to_ms) == ("broker-a", read_ms, None)
    assert gap.reason
    services.collectors.clear()
    orders.collect()
    assert HistoryGap.objects.count() == 1
    orders.broker.start()
    orders.collect_until_answered(1)
    gap.refresh_from_db()
    assert gap.to_ms == orders.now_ms


def test_offsets_of_a_slave_that_is_read_for_its_master_are_no_rewind(orders: CollectedCluster) -> None:
    orders.collect()
    brokers = services.collectors.get("local", 5_000, orders.now_ms).brokers
    brokers.rows = {key._replace(broker_id=1): row for key, row in brokers.rows.items()}  # a slave was read
    orders.commit("billing", "orders", 2, 0)
    orders.collect()
    assert LagEvent.objects.count() == 0
    orders.commit("billing", "orders", 1, 0)
    orders.collect()
    assert LagEvent.objects.get().kind == "REWIND"


def test_it_explains_a_rewind_by_our_own_change(orders: CollectedCluster) -> None:
    orders.collect()
    moment = datetime.fromtimestamp((orders.now_ms + 4_000) / 1000, UTC)
    record_audit(
        actor="alice",
        verb="apply",
        cluster="local",
        subject="billing",
        plan_id="p7",
        after="replay",
        now=moment,
    )
    orders.commit("billing", "orders", 2, 0)
    orders.commit("billing", "orders", 1, 1)
    orders.collect()
    event = LagEvent.objects.get()
    assert (event.kind, event.group, event.topic, event.queues) == ("REWIND", "billing", "orders", 2)
    assert (event.messages, event.from_offset, event.to_offset) == (8, 7, 2)
    assert event.cause == "plan p7, applied by alice: replay"
    orders.collect(step_ms=120_000)
    orders.commit("billing", "orders", 0, 0)
    orders.collect()
    assert [(one.messages, one.cause) for one in LagEvent.objects.order_by("pk")][1:] == [(2, "")]


def test_it_notes_members_that_come_and_go(orders: CollectedCluster, running: RunningConsumers) -> None:
    orders.collect()
    first = running.start("billing", {"orders": "*"})

    def swept(clients: int) -> bool:
        CollectorLease.objects.update(sweep_until_ms=0)
        return sweep.sweep_clients("local", now_ms=orders.now_ms) == clients

    eventually(lambda: swept(1))
    running.stop(first)
    eventually(lambda: swept(0))
    assert [one.cause for one in LagEvent.objects.filter(kind="MEMBERS")] == ["1 → 0 clients"]


def test_it_reads_pulled_offsets_of_a_twentieth_of_the_groups_in_turn(
    orders: CollectedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.lag.collect.collector.SMALL_CLUSTER_GROUPS", 0)
    orders.commit("billing", "orders", 10, 0)  # nothing waits: nobody has reason to look closer
    seen = []
    for _ in range(20):
        orders.collect()
        seen.append(queue("billing").in_flight)
    assert len([one for one in seen if one is not None]) == 1
    assert (group().in_flight, group().available) == (0, 0)  # as of the round that read it
    assert (group().in_flight_at_ms or 0) < orders.now_ms


def test_it_knows_after_a_restart_what_it_knew_before(orders: CollectedCluster) -> None:
    for offset in (11, 13):
        orders.collect()
        orders.send("orders", 10)
        orders.commit("billing", "orders", offset)
    orders.collect()
    before = (group().in_rate, group().out_rate, group().since_ms, queue("billing").time_lag_ms)
    services.collectors.clear()
    collector = services.collectors.get("local", 5_000, orders.now_ms)
    key = next(iter(k for k in collector.window.commits.keys if k.queue_id == 0))
    state = plain_window.state(collector.window, key)
    assert state is not None
    assert (state.committed, state.lag, state.time_lag_ms) == (13, 17, before[3])
    assert plain_window.produce_rate(collector.window, key.head) == before[0]
    assert plain_window.consume_rate(collector.window, key) == before[1]
    assert orders.collect().number == 4
    assert group().since_ms == before[2]


def test_it_takes_over_rounds_of_another_process(orders: CollectedCluster) -> None:
    orders.collect()
    first = services.collectors._by_cluster["local"]
    services.collectors.clear()  # "another process"
    orders.send("orders", 10)
    orders.collect()
    services.collectors._by_cluster["local"] = first
    orders.send("orders", 10)
    assert orders.collect().number == 3
    assert (group().lag, group().in_rate) == (23, 2.0)
    assert Round.objects.count() == 3


def test_it_registers_each_log_segment(orders: CollectedCluster) -> None:
    orders.now_ms = orders.now_ms // wal.SEGMENT_MS * wal.SEGMENT_MS - 5_000
    orders.collect()
    orders.collect(step_ms=wal.SEGMENT_MS)
    rows = HistoryFile.objects.order_by("ts_lo_ms")
    assert [(row.kind, row.state, row.ts_hi_ms - row.ts_lo_ms) for row in rows] == [
        ("wal", "live", 300_000)
    ] * 2


def test_a_round_names_no_series_where_a_segment_begins(
    orders: CollectedCluster, local_history: Path
) -> None:
    boundary_ms = orders.now_ms // wal.SEGMENT_MS * wal.SEGMENT_MS
    orders.now_ms = boundary_ms - 10_000
    orders.collect()
    folder = wal_folder("local")
    assert [path.stem.partition("-")[0] for path in folder.glob("*.ahead")] == [str(boundary_ms)]
    orders.collect()
    assert list(folder.glob("*.ahead")) == []
    data = (folder / f"{boundary_ms}.wal").read_bytes()
    assert data[wal.decode_header(data)[2] :].startswith(wal.KEY_MAGIC)
    assert [one.number for one in wal.read_segment(data).snapshots] == [2]
    rows = HistoryFile.objects.order_by("ts_lo_ms")
    assert [row.ts_lo_ms for row in rows] == [boundary_ms - wal.SEGMENT_MS, boundary_ms]


def test_it_publishes_only_what_changed(orders: CollectedCluster, redis_url: str) -> None:
    orders.now_ms -= orders.now_ms % 60_000  # with a new minute every group's trend changes
    orders.collect()
    orders.collect()
    with Redis.from_url(redis_url) as client, client.pubsub() as pubsub:
        pubsub.subscribe(live.CHANNEL)
        orders.send("orders", 1, 1)
        orders.collect()
        told: dict[str, Any] = {}
        while (message := pubsub.get_message(timeout=0.2)) is not None:
            if message["type"] == "message":
                update = live.Update.from_channel(message["data"])
                told[update.subject] = update.rows
        last = client.hget("tidemark:live:last:c/local/groups", "billing")
    assert set(told["c/local/groups"]) == {"billing"}
    assert told["c/local/groups"]["billing"]["lag"] == 4
    assert "q/orders/broker-a/1" in told["c/local/group/billing"]
    assert told["c/local/group/billing"]["summary"]["lag"] == 4
    assert told["c/local/collector"]["round"]["number"] == 3
    assert last is not None
    assert orjson.loads(last)["lag"] == 4


def test_it_finishes_the_round_without_redis(orders: CollectedCluster, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert orders.collect().number == 1
    assert group().lag == 3


def test_it_forgets_a_removed_cluster(orders: CollectedCluster) -> None:
    orders.collect()
    Cluster.objects.all().delete()
    assert services.collect("local", now_ms=orders.now_ms + 5_000) is None
    assert not GroupRow.objects.exists()
    assert HistoryFile.objects.exists()
    Cluster.objects.create(name="local", namesrv_addrs=orders.broker.namesrv)
    assert orders.collect(step_ms=10_000).number >= 1
    Cluster.objects.all().delete()
    assert services.drop_removed_clusters() == ["local"]
    assert not Round.objects.exists()


def test_it_notices_a_topic_made_again(orders: CollectedCluster) -> None:
    orders.collect()
    orders.admin.delete_topic(orders.broker.address, "orders")
    orders.make_topic("orders")
    orders.send("orders", 2)
    orders.commit("billing", "orders", 1)
    orders.collect()
    head = services.collectors._by_cluster["local"].window.newest("orders", "broker-a", 0)
    assert head is not None
    if queue("billing").max_offset == 2:  # offsets began anew
        assert head.incarnation == 1
    assert queue("billing").status != "INVALID"


def test_it_writes_few_statements_for_a_round_without_news(
    orders: CollectedCluster, django_assert_max_num_queries: Any
) -> None:
    orders.now_ms -= orders.now_ms % 60_000  # with the first round of a minute come its episodes
    for _ in range(6):
        orders.collect()
    with django_assert_max_num_queries(25, using="metrics"):
        orders.collect()
    with django_assert_max_num_queries(3):
        orders.collect()


def test_it_survives_threads_that_all_want_the_same_round(orders: CollectedCluster) -> None:
    """The claim is one conditional update: of many workers that saw the same lease, one runs the round."""
    lease = CollectorLease.objects.create(cluster="local")
    won = [
        CollectorLease.objects.filter(cluster="local", owner=lease.owner, until_ms=0, started_at_ms=0).update(
            owner=str(number), until_ms=1, started_at_ms=1
        )
        for number in range(3)
    ]
    assert won == [1, 0, 0]
    assert threading.active_count() < 50
    close_admins()
