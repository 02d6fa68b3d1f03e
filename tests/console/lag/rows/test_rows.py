"""Rows of a round from literal answers: the cases a single real broker does not show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from console.lag.round.broker_reads import (
    BrokerAddress,
    BrokerAnswers,
    QueueOffsets,
    TopicFacts,
    topics_to_read,
)
from console.lag.round.figures import GroupFigures, TopicFigures, Trend
from console.lag.round.keyed_columns import KeyedColumns
from console.lag.round.series import (
    QueueKey,
    TopicQueueKey,
    clock_offset_ms,
    columns_of,
    newest_writes_ms,
    series_of,
    snapshot_of,
)
from console.lag.round.view import Members, RoundView, Silence
from console.lag.rows.group_rows import IN_FLIGHT_KEPT_MS, group_rows
from console.lag.rows.queue_row import QueueRow, TopicQueueRow, kinds_of
from console.lag.rows.queue_rows import queue_table
from console.lag.rows.topic_rows import broker_row, topic_kind, topic_queue_table, topic_rows
from console.text import Text
from spark.lag.round.window import LagWindow

A, B = BrokerAddress("broker-a", 0, "a:1", "C"), BrokerAddress("broker-b", 0, "b:1", "C")
KEY = QueueKey("billing", "orders", "broker-a", 0)


def answer(
    address: BrokerAddress = A,
    high: int = 100,
    committed: int | None = 90,
    low: int = 0,
    last_write_ms: int = 0,
) -> BrokerAnswers:
    offsets = {("orders", "billing"): {} if committed is None else {0: committed}}
    stats = {"orders": [QueueOffsets(0, low, high, last_write_ms)]}
    return BrokerAnswers(address, answered=True, offsets=offsets, stats=stats, read_max_ms=1)


def silent(address: BrokerAddress) -> BrokerAnswers:
    return BrokerAnswers(address, error=Text("connection refused"))


def view(answers: list[BrokerAnswers], window: LagWindow | None = None, now_ms: int = 60_000) -> RoundView:
    window = window or LagWindow(5_000)
    series = series_of(answers, window)
    window.append(snapshot_of(answers, series, ts_ms=now_ms, number=1))
    columns = columns_of(window, series)
    facts = {"orders": TopicFacts(1, 1, 6)}
    return RoundView("local", now_ms, window, answers, series, columns, topics={"broker-a": facts})


def queue_rows(one: RoundView) -> Mapping[QueueKey, QueueRow]:
    return queue_table(one).rows(QueueRow)


def topics_of(one: RoundView) -> dict[str, TopicFigures]:
    return topic_rows(one, topic_queue_table(one), queue_table(one))


def groups_of(one: RoundView) -> dict[str, GroupFigures]:
    return group_rows(one, queue_table(one), topics_of(one))


def test_it_marks_every_group_partial_while_a_broker_was_never_heard_of() -> None:
    blind = replace(
        view([answer(), silent(B)]),
        silences={"broker-b": Silence(60_000, Text.foreign("timed out"))},
        blind=frozenset({"broker-b"}),
    )
    row = groups_of(blind)["billing"]
    assert (row.lag, row.lag_lower_bound, row.partial, row.status) == (10, True, True, "UNKNOWN")
    assert "; broker-b has not answered since this console started" in row.reason
    assert row.dlq_count is None


def test_it_shows_a_committed_offset_beyond_max_as_invalid() -> None:
    row = queue_rows(view([answer(committed=150)]))[KEY]
    assert (row.status, row.lag, row.time_lag_ms) == ("INVALID", None, None)


def test_it_shows_lost_messages() -> None:
    row = queue_rows(view([answer(committed=20, low=50)]))[KEY]
    assert (row.status, row.lag) == ("LOST", 50)
    assert row.reason == "30 messages were deleted by retention before they were consumed"


def test_it_calls_an_empty_queue_well_though_nobody_committed() -> None:
    found = queue_rows(view([answer(high=7, low=7, committed=None)]))[KEY]
    assert (found.status, found.lag, found.committed_offset) == ("OK", 0, None)


def test_it_says_which_topic_was_not_read() -> None:
    one = answer()
    one.stats, one.unread = {}, {"orders": "no answer within 3000 ms"}
    row = queue_rows(view([one]))[KEY]
    assert (row.status, row.lag, row.max_offset) == ("UNKNOWN", None, None)
    assert row.reason == "broker-a did not return the offsets of orders: no answer within 3000 ms"


def test_it_keeps_a_group_offline_even_when_nothing_waits() -> None:
    one = replace(view([answer(committed=100)]), members={"billing": Members(clients=0, offline_since_ms=5)})
    row = groups_of(one)["billing"]
    assert (row.status, row.since_ms, row.attention, row.lag) == ("OFFLINE", 5, 0, 0)


@pytest.mark.parametrize(
    ("members", "status"),
    [(Members(), "UNKNOWN"), (Members(clients=1), "OK"), (Members(clients=0), "OFFLINE")],
)
def test_it_does_not_call_a_backlog_well_before_it_knows_who_reads(members: Members, status: str) -> None:
    row = groups_of(replace(view([answer()]), members={"billing": members}))["billing"]
    assert (row.status, row.lag, row.lag_lower_bound) == (status, 10, False)


def test_it_calls_a_backlog_well_that_is_seen_to_be_read() -> None:
    window = LagWindow(5_000)
    view([answer(committed=90)], window, now_ms=55_000)
    row = groups_of(view([answer(high=105, committed=95)], window))["billing"]
    assert (row.status, row.lag, row.out_rate) == ("OK", 10, 1.0)


def test_it_calls_a_group_well_that_has_read_everything_before_it_knows_who_reads() -> None:
    assert groups_of(view([answer(committed=100)]))["billing"].status == "OK"


def test_it_lists_what_a_group_without_commits_subscribes_to() -> None:
    one = replace(view([answer()]), members={"fresh": Members(clients=1, topics=("orders",))})
    row = groups_of(one)["fresh"]
    assert (row.status, row.lag, [topic.topic for topic in row.topics]) == (
        "NEVER_COMMITTED",
        None,
        ["orders"],
    )


def test_it_forgets_queues_of_a_topic_that_shrank_but_not_of_a_silent_broker() -> None:
    keys = [TopicQueueKey("orders", "broker-a", 1), TopicQueueKey("orders", "broker-b", 0)]
    old = {key: TopicQueueRow(**key._asdict(), max_offset=4, read_at_ms=1) for key in keys}
    kinds = {name: kind for name, kind in kinds_of(TopicQueueRow).items() if name not in keys[0]._fields}
    one = replace(view([answer(), silent(B)]), previous_topic_queues=KeyedColumns.of_rows(kinds, old))
    assert sorted(topic_queue_table(one).keys) == [
        TopicQueueKey("orders", "broker-a", 0),
        TopicQueueKey("orders", "broker-b", 0),
    ]


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("orders", "NORMAL"),
        ("%RETRY%billing", "RETRY"),
        ("%DLQ%billing", "DLQ"),
        ("TBW102", "SYSTEM"),
        ("broker-a", "SYSTEM"),
    ],
)
def test_it_tells_kinds_of_topics(topic: str, kind: str) -> None:
    assert topic_kind(topic, {"broker-a"}) == kind


def test_it_has_no_figures_of_a_broker_that_did_not_tell_them() -> None:
    row = broker_row(answer(), None, 7)
    assert (row.in_rate, row.disk_ratio, row.answered, row.since_ms) == (None, None, True, 7)
    young = answer()
    young.runtime = {"putTps": "", "getTransferredTps": "2.5 2.0 ", "commitLogDiskRatio": "0.41"}
    row = broker_row(young, row, 9)
    assert (row.in_rate, row.out_rate, row.disk_ratio, row.since_ms) == (None, 2.0, 0.41, 7)
    young.runtime = {"putTps": "0.0  ", "getTransferredTps": "351.0  "}  # the burst after it was away
    row = broker_row(young, row, 9)
    assert (row.in_rate, row.out_rate) == (None, None)
    assert broker_row(silent(A), row, 11).since_ms == 11


def test_it_keeps_an_hour_of_minutes_with_gaps() -> None:
    row = Trend()
    for at_s, value in ((0, 1), (5, 2), (60, 3), (65, 4), (240, 5)):
        row = row.after(value, at_s * 1000)
    assert row == ((2, 4, None, None, 5), 4)
    assert row.after(9, 10 * 3_600_000).trend == (*[None] * 59, 9)


@pytest.mark.parametrize(
    ("last_write_ms", "expected"),
    [
        (100_000, 0),  # written when it was read
        (95_500, 0),  # within the interval
        (130_000, 30_000),  # the broker is half a minute ahead
        (60_000, -40_000),  # ... or behind
    ],
)
def test_it_notices_a_broker_whose_clock_is_off(last_write_ms: int, expected: int) -> None:
    window = LagWindow(5_000)
    view([answer(high=90)], window, now_ms=55_000)
    one = answer(high=100, last_write_ms=last_write_ms)
    one.read_max_ms = 100_000
    ahead_ms = newest_writes_ms(series_of([one], window))["broker-a"]
    assert clock_offset_ms(ahead_ms, since_ms=5_000) == expected
    assert clock_offset_ms(-40_000, since_ms=40_000) == 0  # after a gap of that length between rounds
    # What arrived long ago tells nothing.
    assert not newest_writes_ms(series_of([answer(high=90, last_write_ms=last_write_ms)], window))


def test_it_reads_consumed_topics_always_and_the_others_by_turns() -> None:
    quiet = [f"quiet-{i}" for i in range(600)]
    rounds = [topics_to_read({"orders"}, ["orders", *quiet, "BenchmarkTest"], number) for number in range(6)]
    assert all("orders" in one for one in rounds)
    assert sorted(topic for one in rounds for topic in one if topic.startswith("quiet")) == sorted(quiet)
    assert sum("BenchmarkTest" in one for one in rounds) == 1
    few = topics_to_read({"orders"}, ["orders", *quiet[:200]], 3)
    assert len(few) == 201


def test_a_retry_topic_of_pop_s_second_version_is_its_group_s() -> None:
    told = answer()
    retry = "%RETRY%billing+orders"
    told.offsets = {**told.offsets, (retry, "billing"): {0: 2}}
    told.stats[retry] = [QueueOffsets(0, 0, 6, 0)]
    one = view([told])
    row = groups_of(one)["billing"]
    assert (row.lag, row.retry_lag) == (10, 4)
    assert topics_of(one)[retry].kind == "RETRY"


def test_it_says_why_a_broadcasting_group_has_no_lag() -> None:
    one = replace(
        view([answer()]), members={"banner": Members(clients=2, model="BROADCASTING", topics=("orders",))}
    )
    row = groups_of(one)["banner"]
    assert (row.status, row.lag) == ("UNKNOWN", None)
    assert row.reason == "broadcasting: each client keeps its own offsets, brokers do not store them"


def later(
    low: int,
    high: int,
    committed: int,
    before: RoundView,
    pulled: int | None = None,
    kept_ms: int | None = None,
) -> RoundView:
    """The next round of the same queue, five minutes on, with the rows of the one before."""
    answers = [answer(low=low, high=high, committed=committed)]
    if pulled is not None:
        answers[0].pulled["billing", "orders", 0] = pulled
    queues, groups, window = queue_table(before), groups_of(before), before.window
    series = series_of(answers, window)
    now_ms = before.now_ms + 5_000
    window.append(snapshot_of(answers, series, ts_ms=now_ms, number=window.number + 1))
    return replace(
        before,
        answers=answers,
        series=series,
        columns=columns_of(window, series, {} if kept_ms is None else {"broker-a": kept_ms}),
        now_ms=now_ms,
        previous_queues=queues,
        previous_groups=groups,
    )


def test_it_counts_lost_messages_once_and_keeps_the_sum() -> None:
    one = view([answer(high=100, committed=10)])
    assert queue_rows(one)[KEY].lost == 0
    one = later(30, 100, 10, one)
    assert queue_rows(one)[KEY].lost == 20
    one = later(50, 100, 10, one)
    assert queue_rows(one)[KEY].lost == 40
    one = later(50, 100, 90, one)
    assert (queue_rows(one)[KEY].lost, groups_of(one)["billing"].lost) == (40, 40)
    one = later(0, 5, 5, one)  # made again
    assert queue_rows(one)[KEY].lost == 0


def test_it_says_when_retention_reaches_a_group_that_does_not_keep_pace() -> None:
    one = view([answer(high=0, committed=0)], now_ms=0)
    for number in range(1, 60):
        one = later(0, 10 * number, 0, one)
    row = queue_rows(one)[KEY]
    assert (row.speed, row.drain_never) == (0.0, True)
    # No retention was seen yet, and the broker has not reported how long it keeps messages.
    assert (row.time_to_loss_ms, row.time_to_loss_never) == (None, False)
    row = queue_rows(later(0, 600, 0, one, kept_ms=3_600_000))[KEY]
    assert row.time_to_loss_ms == pytest.approx(3_600_000 - 300_000, abs=10_000)
    assert row.time_to_loss_lower_bound  # it keeps them for at least that long
    one = later(100, 600, 300, one)
    row = queue_rows(one)[KEY]
    # message 300 is 150 s old, message 100 250 s
    assert row.time_lag_ms == pytest.approx(150_000, abs=5_000)
    for _ in range(30):
        one = later(100, 600, 300, one)
    row, group = queue_rows(one)[KEY], groups_of(one)["billing"]
    assert row.time_to_loss_ms == pytest.approx(100_000, abs=5_000)
    assert not row.time_to_loss_lower_bound
    assert (group.time_to_loss_ms, group.time_to_loss_queue) == (
        row.time_to_loss_ms,
        "orders · broker-a · 0",
    )
    topic = topics_of(one)["orders"]
    assert (topic.time_to_loss_ms, topic.time_to_loss_group) == (row.time_to_loss_ms, "billing")


def test_it_remembers_what_is_in_flight_for_a_while() -> None:
    one = later(0, 100, 80, view([answer(committed=80)]), pulled=95)
    row = groups_of(one)["billing"]
    assert (row.in_flight, row.available, row.in_flight_at_ms) == (15, 5, one.now_ms)
    read_ms = one.now_ms
    one = later(0, 100, 80, one)
    row = groups_of(one)["billing"]
    assert (row.in_flight, row.in_flight_at_ms) == (15, read_ms)
    much_later = replace(later(0, 100, 80, one), now_ms=read_ms + IN_FLIGHT_KEPT_MS + 1)
    assert groups_of(much_later)["billing"].in_flight is None


def test_it_never_says_catching_up_and_never() -> None:
    one = view([answer(high=1_000, committed=0)], now_ms=0)
    for number in range(1, 40):
        one = later(0, 1_000 + 10 * number, 25 * number, one)
    row = groups_of(one)["billing"]
    assert (row.status, row.drain_never) == ("CATCHING_UP", False)
    # 415 wait, 3 a second fewer
    assert row.drain_ms == pytest.approx(415 / 3 * 1000, rel=0.05)
    assert row.drain_low_ms <= row.drain_ms <= row.drain_high_ms
    assert row.speed is None  # the first unread message predates the history: no age, no speed


def test_a_backlog_that_drains_is_catching_up_long_before_it_is_gone() -> None:
    """8 messages a second come; none is handled for five minutes, then 20 a second."""
    one = view([answer(high=0, committed=0)], now_ms=0)
    words: list[tuple[str, bool]] = []
    for number in range(1, 96):
        committed = max(0, number - 60) * 100
        one = later(0, number * 40, min(committed, number * 40), one)
        row = groups_of(one)["billing"]
        words.append((row.status, row.drain_never))
        if 78 <= number < 94 and row.status == "CATCHING_UP":
            assert row.drain_ms == pytest.approx(row.lag / 12 * 1000, rel=0.01)
            assert row.drain_low_ms is None or row.drain_low_ms <= row.drain_ms <= row.drain_high_ms
    assert words[59] == ("STOPPED", True)
    assert words[78:94] == [("CATCHING_UP", False)] * 16
    assert not {("CATCHING_UP", True), ("FALLING_BEHIND", False)} & set(words)


def test_a_backlog_that_just_began_to_drain_is_not_said_to_stay() -> None:
    """The trend of ten minutes still rises while, for a minute, half as much again leaves as arrives."""
    one, committed = view([answer(high=0, committed=0)], now_ms=0), 0
    for number in range(1, 67):
        committed += 20 if number < 60 else 60
        one = later(0, number * 40, committed, one)
        row = groups_of(one)["billing"]
        if number == 59:
            assert (row.status, row.drain_never) == ("FALLING_BEHIND", True)
    assert row.status == "FALLING_BEHIND" and row.out_rate > row.in_rate
    assert (row.drain_ms, row.drain_never) == (None, False)
