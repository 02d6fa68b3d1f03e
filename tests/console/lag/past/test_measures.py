"""Latency, promises and flow of a past window, from a history that was really written."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.lag import selectors
from console.lag.history import archive
from console.lag.history.log import HistoryLog
from console.lag.models import HistoryGap, LagEvent
from console.lag.past.measures import Latency
from console.text import Text
from spark.lag.history import chunk
from spark.lag.local_time import HOUR_MS
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.sample_history import rounds
from tests.spark.work_of import hour_rows, spec
from tests.support.judge import judged, with_judgements

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.usefixtures("local_history"),
    pytest.mark.one_database("history in files"),
]

START = 1_700_000_000_000 // HOUR_MS * HOUR_MS
HEADS = [HeadKey("orders", "broker-a", number) for number in range(2)]
COMMITS = [CommitKey("billing", *head) for head in HEADS]


def write(snapshots: list[Snapshot]) -> None:
    """What the collector would have judged, in its log."""
    snapshots = with_judgements(snapshots, judged(from_snapshots(snapshots)))
    log = HistoryLog("local")
    log.catch_up(0)
    for one in snapshots:
        log.append(one)


def a_slow_hour() -> list[Snapshot]:
    """5 s rounds. Queue 0 gets 10 messages a round and is read 60 s late, queue 1 gets 30 and is read at once."""
    return rounds(
        {HEADS[0]: [(0, 10 * i) for i in range(720)], HEADS[1]: [(0, 30 * i) for i in range(720)]},
        {COMMITS[0]: [10 * max(0, i - 12) for i in range(720)], COMMITS[1]: [30 * i for i in range(720)]},
        start_ms=START,
    )


def latency(slo_ms: int, **window: int) -> Latency:
    from_ms, to_ms = window.get("from_ms", START), window.get("to_ms", START + HOUR_MS)
    return selectors.latency("local", "billing", from_ms, to_ms, slo_ms=slo_ms, target=0.99)


def test_it_weighs_latency_by_message_and_agrees_with_little() -> None:
    write(a_slow_hour())
    found = latency(30_000, from_ms=START + 600_000)
    assert found.messages == 600 * 40
    assert found.within_slo_pct == 75.0  # queue 1 has three of four messages
    for name, wanted in (("p50_ms", 0), ("p95_ms", 60_000), ("max_ms", 60_000), ("mean_ms", 15_000)):
        assert abs(int(getattr(found, name)) - wanted) <= 300, name  # of the 5,000 ms that may be
    assert abs((found.little_mean_ms or 0) - 15_000) <= 100
    assert sum(one.messages for one in found.histogram) == 24_000
    assert (found.breach_ms, found.watched_ms) == (3_000_000, 3_000_000)
    assert found.breach_weighted_ms == 3_000_000  # all messages that wait are in the late queue
    assert found.budget_left == -99.0
    assert [one.long_burn for one in found.burn] == [100.0] * 3
    kept = latency(120_000, from_ms=START + 600_000)
    assert (kept.breach_ms, kept.budget_left, kept.within_slo_pct) == (0, 1.0, 100.0)


def test_it_says_the_same_from_a_chunk_as_from_the_log() -> None:
    write(a_slow_hour())
    before = latency(30_000), selectors.throughput("local", "billing", START, START + HOUR_MS, 60)
    archive.compact_hour("local", START, interval_ms=5_000, now_ms=START + HOUR_MS)
    assert (latency(30_000), selectors.throughput("local", "billing", START, START + HOUR_MS, 60)) == before


def test_it_counts_what_came_and_what_was_read_by_the_minute() -> None:
    past = a_slow_hour()
    write([one for number, one in enumerate(past) if not 120 <= number < 240])  # ten minutes are missing
    found = selectors.throughput("local", "billing", START, START + HOUR_MS, 60)
    assert (found.step_ms, len(found.times), found.times[0]) == (60_000, 60, START)
    assert found.produced[5] == 12 * 40
    assert found.committed[5] == 12 * 40
    assert found.committed[0] == 11 * 30
    # the last round before the gap holds for four intervals; what came in the gap counts at its end
    assert found.watched_ms[10] == 15_000
    assert found.produced[10:20] == [0] + [None] * 9
    assert found.produced[20] == (12 + 120) * 40
    assert found.watched_ms[5] == 60_000
    assert selectors.throughput("local", "billing", START, START + HOUR_MS, 4).step_ms == 900_000


def test_it_knows_nothing_of_a_window_without_data() -> None:
    found = latency(30_000)
    assert (found.messages, found.p50_ms, found.within_slo_pct, found.watched_ms) == (
        0,
        None,
        None,
        0,
    )
    assert (found.coverage_pct, found.budget_left, found.burn) == (0.0, None, ())
    assert selectors.throughput("local", "billing", START, START + 120_000, 60).produced == [None, None]


def test_it_bounds_the_time_lag_it_draws() -> None:
    write(a_slow_hour())
    found = selectors.lag_history("local", "billing", START, START + HOUR_MS, 2_000)
    at = found.times.index(START + 1_000_000)
    low, middle, high = (
        getattr(found, name)[at] for name in ("time_lag_low_ms", "time_lag_ms", "time_lag_high_ms")
    )
    assert (low, high) == (54_700, 64_700)  # an interval on both sides
    assert low <= middle <= high
    assert found.in_flight[at] is None


def test_it_puts_markers_and_gaps_beside_the_line() -> None:
    write(a_slow_hour()[:100])
    LagEvent.objects.create(cluster="local", group="billing", topic="orders", kind="REWIND", at_ms=START + 5)
    LagEvent.objects.create(cluster="local", group="other", topic="orders", kind="REWIND", at_ms=START + 5)
    LagEvent.objects.create(cluster="local", group="billing", topic="orders", kind="LOST", at_ms=START - 5)
    HistoryGap.objects.create(cluster="local", from_ms=START - 10, to_ms=START + 10, reason=Text("restart"))
    HistoryGap.objects.create(cluster="local", broker_name="broker-a", from_ms=START + 20)
    HistoryGap.objects.create(cluster="local", from_ms=START - 20, to_ms=START - 10)
    found = selectors.lag_history("local", "billing", START, START + HOUR_MS)
    assert [one.kind for one in found.markers] == ["REWIND"]
    assert [(one.from_ms - START, one.broker_name) for one in found.gaps] == [(-10, ""), (20, "broker-a")]


def test_page_rest_and_report_have_one_definition(tmp_path: Path) -> None:
    """The same hour through the measures of REST, the line of the chart and the row of the report."""
    past = a_slow_hour()
    write([one for number, one in enumerate(past) if not 120 <= number < 240])
    whole = with_judgements(past, judged(from_snapshots(past)))
    kept = [one for number, one in enumerate(whole) if not 120 <= number < 240]
    path = str(tmp_path / "hour.parquet")
    chunk.write_chunk(chunk.compact(kept, interval_ms=5_000), path)
    asked = spec([path], START, 1, interval_ms=5_000, slo_ms=30_000)
    (row,) = [row for row in hour_rows(asked)[0] if row["grain"] == "topic"]
    found = latency(30_000)
    for name in ("p50", "p95", "p99"):
        assert getattr(found, f"{name}_ms") == row[f"message_latency_{name}_ms"]
    assert (found.mean_ms, found.little_mean_ms) == (row["latency_mean_ms"], row["little_mean_ms"])
    assert (found.messages, found.within_slo) == (row["consumed"], row["consumed_within_slo"])
    shared = ("breach_ms", "breach_weighted_ms", "watched_ms")
    assert {name: getattr(found, name) for name in shared} == {name: row[name] for name in shared}
    # nine minutes and more are missing: too much to say how much of the budget is left
    assert (found.budget_left, row["burn_rate"]) == (None, None)
    line = selectors.lag_history("local", "billing", START, START + HOUR_MS, 2_000)
    assert max(lag for lag in line.lag if lag is not None) == row["lag_max"]
    assert max(age for age in line.time_lag_ms if age is not None) == row["time_lag_max_ms"]
    flow = selectors.throughput("local", "billing", START, START + HOUR_MS, 60)
    assert sum(value or 0 for value in flow.produced) == row["produced"]
    assert sum(value or 0 for value in flow.committed) == row["consumed"]
