"""What happened, and what the reports say of it: the cases in which they once were wrong, on small histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spark.lag.codes import WORST_FIRST, LagStatus, SampleFlag
from spark.lag.history import chunk
from spark.lag.samples import Samples, SeriesKey
from tests.spark.lag.judged import queue, together
from tests.spark.work_of import day_rows, hour_rows, spec
from tests.support.plain_forecast import time_to_loss

STEP, MINUTE, HOUR = 5_000, 60_000, 3_600_000
A = SeriesKey("billing", "orders", "broker-a", 0, 0)
B = A._replace(broker_name="broker-b")
Row = dict[str, Any]


def rounds(hours: float = 1.0) -> np.ndarray:
    return np.arange(int(hours * HOUR / STEP)) * STEP


def write(folder: Path, samples: Samples) -> list[str]:
    """An hour a file, as the collector leaves them."""
    paths = []
    for start_ms in range(int(samples.t_ms.min()), int(samples.t_ms.max()) + 1, HOUR):
        path = str(folder / f"{start_ms}.parquet")
        own = samples.window(start_ms, start_ms + HOUR)
        chunk.write_chunk(chunk.encode_table(own, interval_ms=STEP), path)
        paths.append(path)
    return paths


def topics(folder: Path, samples: Samples, *, by_day: bool = False) -> list[Row]:
    """The rows of group-topics, hour by hour or of the day."""
    files = write(folder, samples)
    begin_ms = int(samples.t_ms.min())
    asked = spec(files, begin_ms, len(files), interval_ms=STEP, to_ms=begin_ms + 24 * HOUR)
    rows, warnings = day_rows(asked) if by_day else hour_rows(asked)
    assert warnings == []
    return [row for row in rows if row["grain"] == "topic"]


def minutes(row: Row) -> dict[str, float]:
    named = zip(WORST_FIRST, row["status_ms"], strict=True)
    return {word.value: ms / MINUTE for word, ms in named if ms}


def test_a_broker_that_is_silent_for_hours_is_unknown_and_not_well(tmp_path: Path) -> None:
    t_ms = rounds(8)
    is_read = t_ms < HOUR
    words = [LagStatus.OK if one else LagStatus.UNKNOWN for one in is_read]
    age = np.where(is_read, 0, -1)
    first, *silent = topics(
        tmp_path, queue(A, t_ms=t_ms, high=500, committed=500, time_lag_ms=age, status=words)
    )
    assert (minutes(first), first["coverage_pct"], first["burn_rate"]) == ({"OK": 60}, 100.0, 0.0)
    assert len(silent) == 7
    for row in silent[1:]:
        assert (minutes(row), row["coverage_pct"]) == ({"UNKNOWN": 60}, 0.0)
        # the whole budget may be spent, or nothing of it
        assert (row["burn_rate"], row["burn_lo"], row["burn_hi"]) == (None, 0.0, 100.0)
        assert (row["lag_last"], row["lag_max"], row["time_lag_max_ms"]) == (None, None, None)


def test_one_of_two_silent_brokers_makes_a_group_unknown_for_exactly_that_time(tmp_path: Path) -> None:
    t_ms = rounds()
    is_silent = (t_ms >= 20 * MINUTE) & (t_ms < 27 * MINUTE)
    words = [LagStatus.UNKNOWN if one else LagStatus.OK for one in is_silent]
    (row,) = topics(
        tmp_path,
        together(
            queue(A, t_ms=t_ms, high=900, committed=860, time_lag_ms=2_000),
            queue(
                B, t_ms=t_ms, high=500, committed=500, time_lag_ms=np.where(is_silent, -1, 0), status=words
            ),
        ),
    )
    assert minutes(row) == {"OK": 53, "UNKNOWN": 7}
    assert row["coverage_pct"] == round(100 * 53 / 60, 2)
    # at least 40 waited all the time: so many are known
    assert (row["lag_max"], row["partial_samples"], row["samples"]) == (40, 84, 636)


def test_a_standstill_of_five_hours_is_one_of_five_hours(tmp_path: Path) -> None:
    t_ms = rounds(7)
    is_still = (t_ms >= HOUR) & (t_ms < 6 * HOUR)
    high = 20 * np.arange(len(t_ms))
    at = int(np.argmax(is_still)) - 1
    samples = queue(
        A,
        t_ms=t_ms,
        high=high,
        committed=np.where(is_still, high[at], high),
        time_lag_ms=np.where(is_still, t_ms - t_ms[at], 0),
        status=[LagStatus.STOPPED if one else LagStatus.OK for one in is_still],
    )
    hours = topics(tmp_path, samples)
    assert [minutes(row) for row in hours] == [{"OK": 60}, *[{"STOPPED": 60}] * 5, {"OK": 60}]
    assert [row["stall_ms_max"] // MINUTE for row in hours] == [0, 59, 60, 60, 60, 60, 0]
    (day,) = topics(tmp_path, samples, by_day=True)
    # from the first to the last round in which it was seen to stand
    assert day["stall_ms_max"] == 5 * HOUR - STEP


def test_time_to_loss_goes_by_the_age_of_the_oldest_message_in_every_hour(tmp_path: Path) -> None:
    """Three hours are kept; a consumer that stands still reaches the edge, one that keeps pace never does."""
    t_ms = 24 * HOUR + rounds(2)
    still = queue(
        A,
        t_ms=t_ms,
        high=10_000 + np.arange(len(t_ms)),
        committed=9_000,
        time_lag_ms=t_ms - 24 * HOUR,
        status=LagStatus.STALLED,
        oldest_ms=t_ms - 3 * HOUR,
    )
    first, second = topics(tmp_path, still)
    assert abs(first["time_to_loss_ms"] - 2 * HOUR) <= STEP
    assert abs(second["time_to_loss_ms"] - HOUR) <= STEP
    level = queue(
        A, t_ms=t_ms, high=np.arange(len(t_ms)), committed=np.arange(len(t_ms)), time_lag_ms=0, oldest_ms=0
    )
    assert [row["time_to_loss_ms"] for row in topics(tmp_path, level)] == [None, None]
    # one that commits every half minute: its age rises from commit to commit, and it is well
    waits = t_ms - t_ms // 30_000 * 30_000
    n = np.arange(len(t_ms))
    well = queue(
        A, t_ms=t_ms, high=n, committed=n - waits // STEP, time_lag_ms=waits, oldest_ms=t_ms - 3 * HOUR
    )
    assert [row["time_to_loss_ms"] for row in topics(tmp_path, well)] == [None, None]


def test_a_loss_that_is_out_of_sight_on_the_page_is_so_in_a_report(tmp_path: Path) -> None:
    """It loses 5 s in 100 s: retention of three days would reach it in sixty, more than four times as late."""
    t_ms = 24 * HOUR + rounds(2)
    n = np.arange(len(t_ms))
    age = 60_000 + n * STEP // 20
    slow = queue(
        A,
        t_ms=t_ms,
        high=10_000 + n,
        committed=9_000 + n,
        time_lag_ms=age,
        status=LagStatus.FALLING_BEHIND,
        oldest_ms=t_ms - 72 * HOUR,
    )
    _, row = topics(tmp_path, slow)
    live = time_to_loss(72 * HOUR - 60_000, 0.95, kept_ms=72 * HOUR)
    assert (live.never, row["time_to_loss_ms"]) == (True, None)


def test_a_skip_is_no_consumption_and_no_speed(tmp_path: Path) -> None:
    """The group handles 25 a second, falls behind, and is set to the newest message after half an hour."""
    t_ms = rounds()
    n = np.arange(len(t_ms))
    high = 10_000 + 150 * n
    skipped_at = len(n) // 2
    committed = 10_000 + 125 * n
    committed[skipped_at:] = high[skipped_at] + 125 * (n[skipped_at:] - skipped_at)
    age = (
        np.where(n < skipped_at, t_ms - t_ms * 125 // 150, (t_ms - t_ms[skipped_at]) * 25 // 150) // 100 * 100
    )
    flags = np.where(n == skipped_at, int(SampleFlag.MOVED), 0)
    (row,) = topics(
        tmp_path, queue(A, t_ms=t_ms, high=high, committed=committed, time_lag_ms=age, flags=flags)
    )
    assert row["consumed"] == 125 * (len(n) - 2)
    assert row["skipped"] == high[skipped_at] - (10_000 + 125 * (skipped_at - 1))
    assert row["out_rate"] == row["consumed"] * 1000 / row["counted_ms"] < 25.0
    # at 25 a second while 30 come it is never level again, whatever the skip looked like
    assert (row["drain_ms"], row["drain_never"]) == (None, True)


def test_a_healthy_group_with_fifty_waiting_is_level_again_in_seconds(tmp_path: Path) -> None:
    t_ms = rounds()
    high = 10_000 + 150 * np.arange(len(t_ms))
    (row,) = topics(tmp_path, queue(A, t_ms=t_ms, high=high, committed=high - 50, time_lag_ms=1_700))
    assert (row["lag_last"], row["drain_ms"], row["drain_never"]) == (50, 1_700, False)


def test_what_is_no_ordinary_offset_is_as_the_row_of_the_page_has_it(tmp_path: Path) -> None:
    t_ms = rounds()
    high = 1_000 + 10 * np.arange(len(t_ms))
    never = queue(A, t_ms=t_ms, high=high, committed=-1, time_lag_ms=-1, status=LagStatus.NEVER_COMMITTED)
    (row,) = topics(tmp_path, never)
    assert minutes(row) == {"NEVER_COMMITTED": 60}
    assert (row["consumed"], row["lost"], row["lag_max"], row["produced"]) == (0, 0, 0, 7_190)
    # POP without its counter: as many as offsets show, at least; beyond max: nothing is known of it
    popped = queue(
        A, t_ms=t_ms, high=high, committed=high - 7, time_lag_ms=500, flags=int(SampleFlag.LAG_BOUND)
    )
    (row,) = topics(tmp_path, popped)
    assert (row["lag_max"], row["lag_last"], row["samples"], row["partial_samples"]) == (7, None, 0, 720)
    beyond = queue(A, t_ms=t_ms, high=high, committed=high + 9, time_lag_ms=-1, status=LagStatus.INVALID)
    (row,) = topics(tmp_path, beyond)
    assert (minutes(row), row["consumed"], row["lag_last"]) == ({"INVALID": 60}, 0, None)
    # a member that noticed after a while that its topic was made again went back from nowhere
    is_stale = t_ms < 30 * MINUTE
    noticed = queue(
        A,
        t_ms=t_ms,
        high=high,
        committed=np.where(is_stale, 90_000, high - 7),
        time_lag_ms=np.where(is_stale, -1, 500),
        status=[LagStatus.INVALID if one else LagStatus.OK for one in is_stale],
        flags=np.where(t_ms == 30 * MINUTE, int(SampleFlag.MOVED), 0),
    )
    (row,) = topics(tmp_path, noticed)
    assert (minutes(row), row["rewinds"], row["skipped"]) == ({"INVALID": 30, "OK": 30}, 0, 0)
    assert row["consumed"] == 10 * 359


def test_what_came_and_was_read_in_a_gap_is_counted_at_its_end(tmp_path: Path) -> None:
    t_ms = rounds()
    away = (t_ms >= 20 * MINUTE) & (t_ms < 30 * MINUTE)
    high = 1_000 + 10 * np.arange(len(t_ms))
    whole = queue(A, t_ms=t_ms[~away], high=high[~away], committed=high[~away], time_lag_ms=0)
    (row,) = topics(tmp_path, whole)
    assert (row["produced"], row["consumed"]) == (7_190, 7_190)
    # how long those of the gap had waited is not known; those of the other rounds were read at once
    assert row["consumed_within_slo"] == 7_190 - 10 * 121
    # the round before the gap holds for four intervals
    assert minutes(row) == {"OK": 60 - 10 + 15 / 60, "UNKNOWN": 10 - 15 / 60}


def test_waits_by_age_and_by_offsets_agree_unless_one_of_them_is_wrong(tmp_path: Path) -> None:
    """30 a second come, 25 are handled; then everything twice as old as it is, by a clock that is wrong."""
    t_ms = rounds()
    n = np.arange(len(t_ms))
    high, committed = 10_000 + 150 * n, 10_000 + 125 * n
    age = (t_ms - t_ms * 125 // 150) // 100 * 100
    (row,) = topics(tmp_path, queue(A, t_ms=t_ms, high=high, committed=committed, time_lag_ms=age))
    assert row["little_agrees"] is True
    # what waits at the end explains much of an hour in which the lag only grew, not of one in which it stays
    steady = queue(A, t_ms=t_ms, high=high, committed=high - 1_500, time_lag_ms=50_000)
    (row,) = topics(tmp_path, steady)
    assert (row["little_mean_ms"] // 1_000, row["latency_mean_ms"] // 1_000) == (50, 50)
    assert row["little_agrees"] is True
    wrong = queue(A, t_ms=t_ms, high=high, committed=high - 1_500, time_lag_ms=100_000)
    (row,) = topics(tmp_path, wrong)
    assert (row["little_mean_ms"] // 1_000, row["little_agrees"]) == (50, False)
    flags = np.where(n == 300, int(SampleFlag.MOVED), 0)
    moved = queue(A, t_ms=t_ms, high=high, committed=high - 1_500, time_lag_ms=100_000, flags=flags)
    (row,) = topics(tmp_path, moved)
    assert row["little_agrees"] is None
