"""The edge cases of lag, one test a row (lag.md 1.3), against a running brokerd unless the row says otherwise.

None of these may ever look healthy, and none of them may look worse than it is. Rows that a running broker cannot be
brought into here are literal: `spark/lag/round/test_status.py` (the same words from histories), `test_window.py` (lost
tails, incarnations), `test_rows.py` (clock skew, broadcasting). Born times of producers are read nowhere.

POP, the timer wheel, half messages and topics whose offsets do not count messages take an Apache broker:
`tests/peers/test_apache_edges.py`; delay levels are in `tests/console/broker/survey/test_held_back.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from console.brokers.mqadmin import (
    Connection,
    Message,
    MQAdmin,
    SubscriptionGroupConfig,
    TopicConfig,
    close_admins,
    with_admin,
)
from console.cluster.models import Cluster
from console.group import findings
from console.lag import selectors, services
from console.lag.collect import filter_sampling, reset, sweep
from console.lag.models import BrokerRow, ClientRow, CollectorLease, GroupRow, LagEvent, TopicRow
from console.lag.past import marks
from console.lag.round import broker_reads
from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.queue_row import QueueRow
from console.text import Duration
from tests.console.lag.conftest import CollectedCluster
from tests.console.lag.running_consumers import RunningConsumers, eventually
from tests.support import sample_queues
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def queue(group: str = "billing", queue_id: int = 0, topic: str = "orders") -> QueueRow:
    (row,) = sample_queues.find(group=group, topic=topic, queue_id=queue_id)
    return row


def group(name: str = "billing") -> GroupRow:
    return GroupRow.objects.get(group=name)


def event(kind: str) -> LagEvent:
    return LagEvent.objects.get(kind=kind)


@pytest.fixture
def orders(collected: CollectedCluster) -> CollectedCluster:
    """Topic orders with one queue of 10 messages; billing committed 7."""
    collected.make_topic("orders", 1)
    collected.make_group("billing")
    collected.send("orders", 10)
    collected.commit("billing", "orders", 7)
    return collected


def set_offset(cluster: CollectedCluster, offset: int) -> None:
    """Move a committed offset by hand, also beyond what the queue holds: nothing in the protocol forbids it."""
    cluster.admin.update_consumer_offset(cluster.broker.address, "billing", "orders", 0, offset)


def sweep_now(cluster: CollectedCluster) -> int | None:
    CollectorLease.objects.update(sweep_until_ms=0)
    return sweep.sweep_clients("local", now_ms=cluster.now_ms)


@pytest.fixture
def short_lived(
    tmp_path: Path, redis_url: str, local_history: Path, transactional_metrics: None
) -> Iterator[CollectedCluster]:
    """A broker whose commit log files hold a handful of messages each, so that retention can be made to strike."""
    process = BrokerProcess(tmp_path / "short", mappedFileSizeCommitLog=128 * 1024).start()
    Cluster.objects.create(name="local", namesrv_addrs=process.namesrv)
    now_ms = services.system_now_ms() // 5_000 * 5_000 - 5_000
    yield CollectedCluster(process, with_admin(Connection(process.namesrv)), now_ms)
    services.collectors.clear()
    close_admins()
    process.stop()


def delete_oldest_file(cluster: CollectedCluster) -> None:
    """What retention does, while the broker is down."""
    cluster.broker.stop()
    files = sorted((cluster.broker.data / "commitlog").iterdir())
    assert len(files) > 2
    files[0].unlink()
    cluster.broker.start()


def test_row_retention_passed_the_consumer(short_lived: CollectedCluster) -> None:
    short_lived.make_topic("orders", 1)
    short_lived.make_group("billing")
    body = Message(topic="orders", body=b"x" * 20_000, properties={})
    for _ in range(20):
        short_lived.admin.send(short_lived.broker.address, body, queue_id=0)
    short_lived.commit("billing", "orders", 2)
    short_lived.collect_until_answered(1)
    assert (queue().lag, queue().lost) == (18, 0)
    delete_oldest_file(short_lived)
    short_lived.collect_until_answered(1)
    row = queue()
    low = row.min_offset
    assert low is not None
    assert low > 2
    assert (row.status, row.lag, row.lost) == ("LOST", 20 - low, low - 2)
    assert row.reason == f"{low - 2} messages were deleted by retention before they were consumed"
    assert row.time_to_loss_ms == 0
    assert (event("LOST").messages, event("LOST").to_offset) == (low - 2, low)
    assert (group().status, group().lost, group().attention) == ("LOST", low - 2, 7)
    short_lived.collect()
    assert (queue().lost, LagEvent.objects.filter(kind="LOST").count()) == (low - 2, 1)  # counted once
    short_lived.commit("billing", "orders", low + 1)
    short_lived.collect()
    assert queue().status != "LOST"


def test_row_never_committed(orders: CollectedCluster) -> None:
    orders.make_topic("unread", 1)
    orders.send("unread", 5)
    orders.make_group("newcomer")
    orders.commit("billing", "unread", 0)
    orders.collect()
    assert (queue(topic="unread").lag, group("newcomer").lag) == (5, None)
    assert (group("newcomer").status, group("newcomer").drain_ms) == ("NEVER_COMMITTED", None)


def test_row_reset_backwards(orders: CollectedCluster) -> None:
    orders.collect()
    set_offset(orders, 2)
    orders.collect()
    assert (queue().status, queue().lag) == ("REWOUND", 8)
    assert queue().reason == "went back from 7 to 2, nothing was confirmed since"
    assert (event("REWIND").from_offset, event("REWIND").to_offset, event("REWIND").cause) == (7, 2, "")
    assert group().out_rate == 0.0  # a rewind is not negative consumption
    assert queue().speed is None


def test_row_reset_forward(orders: CollectedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("spark.lag.round.status", "console.lag.rows.queue_rows"):
        monkeypatch.setattr(f"{module}.SPAN_MESSAGES", 50)  # so that 100 messages are many
    orders.send("orders", 90)
    for offset in range(7, 18):  # late for half a minute, it shows how fast it is
        set_offset(orders, offset)
        orders.collect()
    set_offset(orders, 100)
    orders.collect()
    assert (queue().status, queue().lag) == ("SKIPPED", 0)
    assert queue().reason == "jumped ahead by 83 messages"
    assert (event("SKIPPED").from_offset, event("SKIPPED").to_offset) == (17, 100)
    assert (group().out_rate or 0) < 1  # a skip is not consumption
    window = orders.now_ms - 60_000, orders.now_ms + 1
    assert selectors.latency("local", "billing", *window, slo_ms=1_000, target=0.9).messages == 10


def test_row_topic_deleted_and_made_again(orders: CollectedCluster) -> None:
    orders.collect()
    orders.admin.delete_topic(orders.broker.address, "orders")
    orders.make_topic("orders", 1)
    orders.send("orders", 2)
    orders.commit("billing", "orders", 1)
    orders.collect()
    row = queue()
    assert row.max_offset == 2
    assert (row.status, row.lag, row.lost) != ("INVALID", None, None)
    assert (row.lag, row.lost) == (1, 0)
    assert event("RECREATED").to_offset == 2
    assert group().in_rate == 0.0 or group().in_rate is None  # a fall of max is not traffic
    samples = selectors.history_reads.load("local", "billing", orders.now_ms - 60_000, orders.now_ms + 1)
    assert [key.incarnation for key in samples.keys] == [0, 1]


def test_row_lost_tail(orders: CollectedCluster) -> None:
    orders.send("orders", 90)
    set_offset(orders, 100)
    orders.collect()
    # A master switch that loses messages looks like this: the group is ahead of the queue.
    set_offset(orders, 103)
    orders.collect()
    assert (queue().status, queue().lag, queue().time_lag_ms) == ("INVALID", None, None)
    assert queue().reason == "committed offset 103 is beyond max offset 100"
    assert group().status == "INVALID"


def test_a_broker_that_restarted_is_marked(orders: CollectedCluster) -> None:
    orders.send("orders", 1)
    set_offset(orders, 1)
    orders.collect()
    orders.collect()
    assert not LagEvent.objects.filter(kind="BROKER_RESTART").exists()
    orders.broker.stop()
    orders.collect()
    orders.broker.start()
    orders.collect_until_answered(1)
    orders.collect()
    found = selectors.markers("local", "billing", 0, orders.now_ms + 1)
    assert [(one.kind, one.group) for one in found] == [("BROKER_RESTART", "")]
    said = marks.of_group("local", "billing", [found[0].broker_name], 0, orders.now_ms + 1, 9)
    assert [one.kind for one in said.marks] == ["SILENT", "BROKER_RESTART"]
    assert said.marks[0].to_ms is not None


def test_row_queues_expand_and_shrink(orders: CollectedCluster) -> None:
    address = orders.broker.address
    orders.admin.create_topic(
        address, TopicConfig(topic_name="orders", read_queue_nums=3, write_queue_nums=1)
    )
    services.request_refresh("local")
    orders.collect(step_ms=1_000)
    assert len(sample_queues.find_topic_queues(topic="orders")) == 3  # max(read, write)
    orders.admin.create_topic(
        address, TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=3)
    )
    services.request_refresh("local")
    orders.collect(step_ms=1_000)
    assert len(sample_queues.find_topic_queues(topic="orders")) == 3
    assert group().lag == 3


def test_a_topic_has_its_message_type(orders: CollectedCluster) -> None:
    orders.collect()
    assert TopicRow.objects.get(topic="orders").message_type == ""
    config = TopicConfig("orders", read_queue_nums=2, write_queue_nums=2, attributes={"message.type": "FIFO"})
    orders.admin.create_topic(orders.broker.address, config)
    services.request_refresh("local")
    orders.collect(step_ms=1_000)
    assert TopicRow.objects.get(topic="orders").message_type == "FIFO"


def test_row_consumer_offline(orders: CollectedCluster) -> None:
    orders.collect()
    assert sweep_now(orders) == 0
    orders.collect()
    assert (group().status, group().lag, group().clients) == ("OFFLINE", 3, 0)
    assert (group().drain_never, group().drain_ms, queue().drain_never) == (True, None, True)
    assert group().stall_ms is not None


def test_row_group_removed_from_the_offset_table(orders: CollectedCluster) -> None:
    orders.collect()
    orders.admin.delete_subscription_group(orders.broker.address, "billing", clean_offset=True)
    orders.collect()
    assert (queue().status, queue().lag, group().lag) == ("UNKNOWN", None, None)
    orders.collect()
    orders.collect()
    assert sample_queues.find(group="billing") == []
    history = selectors.lag_history("local", "billing", orders.now_ms - 60_000, orders.now_ms + 1)
    assert history.lag == [3]  # what was, stays


@pytest.mark.parametrize(
    ("expression", "kind", "share"),
    [
        ("gold", "TAG", 0.25),
        ("gold || lead", "TAG", 1.0),
        ("*", "TAG", None),
        ("TAGS = 'gold' AND amount > 5", "SQL92", 0.25),
        ("amount > 5", "SQL92", 1.0),
    ],
)
def test_row_tag_filter(orders: CollectedCluster, expression: str, kind: str, share: float | None) -> None:
    """Old messages are all lead, new ones half gold: a look at the oldest alone would say "none"."""
    orders.admin.update_broker_config(orders.broker.address, {"enablePropertyFilter": "true"})
    set_offset(orders, 10)
    for number in range(80):
        properties = {"TAGS": "gold" if number >= 40 and number % 2 else "lead", "amount": "6"}
        orders.admin.send(
            orders.broker.address, Message(topic="orders", body=b"x", properties=properties), queue_id=0
        )
    ClientRow.objects.create(
        cluster="local",
        group="billing",
        client_id="a",
        subscription={"orders": {"expression": expression, "type": kind}},
    )
    orders.collect()
    assert group().filter_ratio is None
    sampled = filter_sampling.sample_filters("local", now_ms=orders.now_ms)
    assert sampled == ([] if share is None else ["billing"])
    orders.collect()
    row = group()
    assert (row.lag, row.filter_ratio) == (80, share)
    if share is not None:
        assert row.filtered_lag == round(80 * share)
        assert (row.filter_ratio_low or 0) < share + 1e-9 < (row.filter_ratio_high or 0) + 2e-9
        assert (row.filter_sampled, row.filter_sampled_at_ms) == (80, orders.now_ms - 5_000)
    assert filter_sampling.sample_filters("local", now_ms=orders.now_ms) == []  # not again so soon
    later_ms = orders.now_ms + filter_sampling.SAMPLE_EVERY_MS
    assert filter_sampling.sample_filters("local", now_ms=later_ms) == sampled  # but the mix drifts
    kept = filter_sampling.samples_between("local", 0, later_ms + 1)
    assert [looked for _, _, looked in kept.get("billing", [])] == [80] * 2 * len(
        sampled
    )  # of each, for reports
    assert list(filter_sampling.samples("local", later_ms)) == sampled


@pytest.mark.parametrize("retry", ["%RETRY%billing", "%RETRY%billing_orders"])
def test_row_retry_topics(orders: CollectedCluster, retry: str) -> None:
    """The classic name and that of POP: each is the group's, and in no lag but its own. No request makes a topic with
    the name of POP v2: `test_rows.py`.
    """
    orders.make_topic(retry, 1)
    orders.commit("billing", retry, 0)
    orders.collect()
    orders.send(retry, 5)
    orders.collect()
    assert (group().lag, group().retry_lag, group().retry_in_rate) == (3, 5, 1.0)
    assert 0 < (group().retry_time_lag_ms or 0) <= 5_000
    assert TopicRow.objects.get(topic=retry).kind == "RETRY"
    window = orders.now_ms - 60_000, orders.now_ms + 1
    assert selectors.lag_history("local", "billing", *window).lag == [3, 3]
    assert selectors.lag_history("local", "billing", *window, topic=retry).lag == [0, 5]


def test_row_orderly_head_blocked(orders: CollectedCluster, running: RunningConsumers) -> None:
    """One bad message holds the queue: its member hangs in it, with the queue's lock."""
    member = running.start("billing", {"orders": "*"}, orderly=True, hangs=True)
    eventually(lambda: any(one.cached_msg_count == 3 for one in member.running_info().mq_table.values()))
    orders.collect()
    eventually(lambda: sweep_now(orders) == 1)
    for _ in range(20):  # 100 s without progress while it is connected
        orders.collect()
    assert (queue().status, queue().speed) == ("STALLED", 0.0)
    assert (queue().in_flight, queue().available) == (3, 0)  # taken, and not one of them done
    assert group().consume_mode == "ORDERLY" and queue().owner == member.client.client_id
    (found,) = [
        one
        for one in findings.findings(group(), ColumnRows.of(QueueRow, [queue()]), [])
        if one.status == "STALLED"
    ]
    assert (found.head_place, found.head and found.head.owner) == ("broker-a:0:7", member.client.client_id)
    assert (queue().drain_never, group().drain_never) == (True, True)
    assert group().attention == 6
    first = queue().time_lag_ms
    orders.collect()
    assert (queue().time_lag_ms or 0) - (first or 0) == 5_000  # T grows a second a second


@pytest.mark.parametrize("way", ["consumeEnable", "forbidden"])
def test_a_paused_group_stands_because_somebody_paused_it(orders: CollectedCluster, way: str) -> None:
    if way == "forbidden":
        forbid = partial(MQAdmin.group_forbidden, addr=orders.broker.address, group="billing", topic="orders")
        answers = orders.admin.gather({"": partial(forbid, readable=False)}, deadline_ms=10_000)
        assert not isinstance(answers[""], Exception), answers
    else:
        config = SubscriptionGroupConfig(group_name="billing", consume_enable=False)
        orders.admin.create_subscription_group(orders.broker.address, config)
    for _ in range(20):
        orders.collect()
    words = "paused, the broker gives the group nothing of this topic; no progress for"
    assert (queue().status, queue().reason[: len(words)]) == ("STOPPED", words)
    assert group().reason.startswith(f"orders · broker-a · 0: {words}")


@pytest.mark.one_database("rounds, each written as in the tests above")
def test_a_standstill_lasts_longer_than_the_window_that_shows_it(orders: CollectedCluster) -> None:
    config = SubscriptionGroupConfig(group_name="billing", consume_enable=False)
    orders.admin.create_subscription_group(orders.broker.address, config)
    Cluster.objects.update(poll_interval_s=60)  # a window of ten minutes has twelve rounds, not 122
    for _ in range(13):
        orders.collect(60_000)
    row = queue()
    assert row.status == "STOPPED"  # no client was seen that could hang
    lasted = Duration(orders.now_ms - row.since_ms).local()
    assert lasted.startswith("12 m")
    assert f"no progress for {lasted} while" in row.reason


def test_row_concurrent_push_commits_late(orders: CollectedCluster, running: RunningConsumers) -> None:
    orders.collect()
    running.start("billing", {"orders": "*"})
    eventually(lambda: sweep_now(orders) == 1, 30)

    def has_read_everything() -> bool:
        orders.collect()
        return queue().lag == 0

    eventually(has_read_everything, 60)
    assert (group().status, group().drain_ms, group().speed) == ("OK", 0, 1.0)
    orders.send("orders", 1)
    orders.collect()
    assert group().status == "OK"  # a message that waits for the next commit is no alarm


def test_row_idle_topic(orders: CollectedCluster) -> None:
    set_offset(orders, 10)
    orders.collect()
    orders.collect(step_ms=3_600_000)
    assert (queue().status, queue().lag, queue().time_lag_ms, queue().speed) == ("OK", 0, 0, 1.0)
    assert queue().time_to_loss_never


def test_a_round_that_stood_still_is_of_the_time_when_it_asked(
    orders: CollectedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what came meanwhile is older by the time for which the process was stopped, and the broker's clock off."""
    orders.collect()
    orders.send("orders", 5, 0)
    with monkeypatch.context() as stopped:
        stopped.setattr(broker_reads, "_now_ms", lambda: services.system_now_ms() + 60_000)
        done = orders.collect()
    assert 60_000 <= done.started_at_ms - orders.now_ms < 90_000
    assert BrokerRow.objects.get().clock_offset_ms == 0
    orders.commit("billing", "orders", 12, 0)
    orders.now_ms = done.started_at_ms
    orders.collect()
    row = queue("billing")
    assert (row.lag, row.time_lag_ms, row.time_lag_lower_bound) == (3, 5_000, True)


def test_row_collector_gap_and_restart(orders: CollectedCluster) -> None:
    orders.collect()
    orders.collect()
    services.collectors.clear()
    orders.send("orders", 50)
    orders.collect(step_ms=600_000)
    window = orders.now_ms - 700_000, orders.now_ms + 1
    history = selectors.lag_history("local", "billing", *window)
    assert history.lag == [3, 3, None, 53]
    assert [(one.to_ms - one.from_ms) for one in history.gaps] == [600_000]
    found = selectors.throughput("local", "billing", *window, 20)
    # what came in the ten minutes is known, only not when: it counts at their end
    assert found.produced[-1] == sum(value or 0 for value in found.produced) == 50
    assert group().coverage_pct is not None
    assert group().coverage_pct < 10


def test_row_bursts_between_rounds(orders: CollectedCluster) -> None:
    orders.collect()
    orders.send("orders", 40)
    set_offset(orders, 50)
    orders.collect()
    history = selectors.lag_history("local", "billing", orders.now_ms - 60_000, orders.now_ms + 1)
    assert (history.lag, history.interval_ms) == ([3, 0], 5_000)  # not seen; the interval is stated
    assert (group().in_rate, group().out_rate) == (8.0, 8.6)  # but counted


def move_by_plan(cluster: CollectedCluster, target: int) -> None:
    """What a job of ours does: set an offset, and write down that it did."""
    before = queue().committed_offset
    set_offset(cluster, target)
    moved = [("orders", "broker-a", 0, before, target)]
    reset.note_moves("local", "billing", moved, now_ms=cluster.now_ms)


def test_an_offset_that_was_set_is_a_target_until_a_member_commits(orders: CollectedCluster) -> None:
    """A reset pending in the broker: forward by less than a skip, which no history could tell from progress."""
    orders.collect()
    orders.collect()
    assert not queue().reset_pending and group().out_rate == 0
    move_by_plan(orders, 9)
    orders.collect()
    row = queue()
    assert (row.lag, row.moved, row.reset_pending, row.reset_at_ms) == (1, True, True, orders.now_ms)
    assert (row.status, row.reason) == ("SKIPPED", "jumped ahead by 2 messages, nothing was confirmed since")
    assert (event("SKIPPED").from_offset, event("SKIPPED").to_offset) == (7, 9)
    assert group().out_rate == 0  # two messages were passed over, none was consumed
    set_ms = orders.now_ms
    orders.collect()
    assert (queue().reset_pending, queue().reset_at_ms) == (True, set_ms)
    assert not queue().moved
    (found,) = [
        one
        for one in findings.findings(group(), ColumnRows.of(QueueRow, [queue()]), [])
        if one.status == "SKIPPED"
    ]
    assert found.title == "broker-a · 0 jumped ahead" and found.since_ms == set_ms
    orders.commit("billing", "orders", 10)
    orders.collect()
    assert (queue().reset_pending, queue().reset_at_ms, queue().lag) == (False, set_ms, 0)
    rate = group().out_rate
    assert rate is not None and 0 < rate < 1  # one message in so many seconds, not three


def test_a_move_that_members_went_on_from_is_none_of_their_work(orders: CollectedCluster) -> None:
    """The round sees the offset behind the target: the members were faster."""
    orders.send("orders", 90)
    orders.collect()
    reset.note_moves("local", "billing", [("orders", "broker-a", 0, 7, 60)], now_ms=orders.now_ms)
    set_offset(orders, 65)
    orders.collect()
    assert (queue().moved, queue().lag, group().out_rate) == (True, 35, 0)
    orders.commit("billing", "orders", 75)
    orders.collect()
    assert (queue().moved, group().out_rate) == (False, 1.0)  # 10 messages in 10 s
    set_offset(orders, 50)
    orders.collect()
    orders.commit("billing", "orders", 65)
    orders.collect()
    assert not queue().moved  # what it reads a second time it reads


def test_an_offset_that_rises_without_a_member_was_set(
    orders: CollectedCluster, running: RunningConsumers
) -> None:
    orders.collect()
    sweep_now(orders)
    orders.collect()
    assert (group().status, group().clients) == ("OFFLINE", 0)
    orders.commit("billing", "orders", 9)
    orders.collect()
    assert (queue().moved, group().out_rate, event("SKIPPED").messages) == (True, 0, 2)
    running.start("billing", {"orders": "*"})  # no sweep has found it yet

    def has_read_everything() -> bool:
        orders.collect()
        return queue().lag == 0

    eventually(has_read_everything, 60)
    assert (queue().committed_offset, queue().moved, LagEvent.objects.count()) == (10, False, 1)
    assert (group().status, group().clients) == ("SKIPPED", None)  # not OFFLINE; the next sweep counts them


def test_what_lies_beyond_the_end_was_not_consumed(orders: CollectedCluster) -> None:
    orders.collect()
    set_offset(orders, 500)
    orders.collect()
    assert (queue().status, queue().moved, group().out_rate) == ("INVALID", True, 0)


def test_somebody_else_s_reset_is_pending_too(orders: CollectedCluster) -> None:
    orders.collect()
    set_offset(orders, 3)
    orders.collect()
    assert (queue().status, queue().reset_pending) == ("REWOUND", True)
    orders.commit("billing", "orders", 8)
    orders.collect()
    assert not queue().reset_pending
