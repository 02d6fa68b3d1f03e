"""Episodes, capacity and the scorecard of forecasts, from histories small enough to see through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from spark import capacity, episodes, forecast_scorecard
from spark.job import HOUR_MS, JobSpec, Promise
from spark.line_job import item_batches
from spark.timeline import late_queue_lines
from spark.work import work_items
from tests.spark.work_of import queue_chunk, spec

MINUTE = 60_000


def rows_of(module: Any, rows: Any, asked: JobSpec, *lines: Any) -> list[dict[str, Any]]:
    (item,) = work_items(asked, period_ms=24 * HOUR_MS)
    return [row for batch in item_batches(item, rows, module.SCHEMA, *lines) for row in batch.to_pylist()]


def stuck_then_back(folder: Path) -> JobSpec:
    """100 arrive a minute; nobody reads from minute 10 to 20, then 300 a minute are read until all is."""
    heads = [1_000 + 100 * i for i in range(60)]
    commits = []
    for minute in range(60):
        if minute < 10:
            commits.append(heads[minute])
        elif minute < 20:
            commits.append(commits[9])
        else:
            commits.append(min(heads[minute], commits[-1] + 300))
    return spec([queue_chunk(folder / "a.parquet", heads, commits)], 0, 1)


def test_it_tells_an_episode_from_start_to_end(tmp_path: Path) -> None:
    found = rows_of(episodes, episodes.episode_rows, stuck_then_back(tmp_path))
    breach, stall = found
    assert [row["kind"] for row in found] == ["breach", "stall"]
    # minute 10 is the first with a message waiting, half a minute old; at 12 it is older than a minute
    assert (stall["start_ms"], stall["end_ms"], stall["cause"]) == (11 * MINUTE, 20 * MINUTE, "queue stuck")
    assert (breach["start_ms"], breach["cause"], breach["is_ongoing"], breach["began_before"]) == (
        11 * MINUTE,
        "queue stuck",
        False,
        False,
    )
    assert (breach["peak_lag"], breach["worst_queue"]) == (1_000, "broker-a · 0")
    assert (breach["committed_offset"], breach["max_offset"]) == (1_900, 2_100)
    # 200 a minute are gained on 1,000: five minutes from minute 19
    assert breach["forecast_ms"] is not None
    assert breach["forecast_at_ms"] + breach["drained_ms"] == 24 * MINUTE
    assert breach["messages_late"] == 4 * 300
    assert (breach["window_start_ms"], breach["window_end_ms"], breach["coverage_pct"]) == (0, HOUR_MS, 100.0)


def test_it_begins_a_breach_where_the_group_says(tmp_path: Path) -> None:
    asked = msgspec.structs.replace(stuck_then_back(tmp_path), slos={"billing": Promise(5 * MINUTE, 0.9)})
    breach = rows_of(episodes, episodes.episode_rows, asked)[0]
    # the first message that waits came half a minute before minute 10: older than five minutes at 15
    assert (breach["kind"], breach["start_ms"], breach["slo_ms"]) == ("breach", 15 * MINUTE, 5 * MINUTE)


def test_it_says_that_the_window_cuts_an_episode(tmp_path: Path) -> None:
    heads = [1_000 + 100 * i for i in range(60)]
    path = queue_chunk(tmp_path / "a.parquet", heads, [0] * 60)
    found = rows_of(episodes, episodes.episode_rows, spec([path], 0, 1))
    assert {row["kind"]: (row["is_ongoing"], row["duration_ms"]) for row in found}["breach"][0] is True
    assert all(row["forecast_ms"] is None for row in found)


def test_it_measures_what_a_group_can_do(tmp_path: Path) -> None:
    (row,) = rows_of(capacity, capacity.capacity_rows, stuck_then_back(tmp_path))
    # it reads 300 a minute when messages wait, 100 a minute arrive
    assert row["mu_max"] == 5.0
    assert abs(row["lambda_peak"] - 100 / 60) < 1e-9
    assert row["utilisation_pct"] == 33.33
    assert row["consumers_factor"] == round((100 / 60 + 1_000 * 1000 / HOUR_MS) / 5.0, 4)
    assert (row["queues"], row["lag_max"], row["dead_weight"]) == (1, 1_000, None)
    heads = [1_000 + 100 * i for i in range(60)]
    stopped = spec([queue_chunk(tmp_path / "b.parquet", heads, [500] * 60)], 0, 1)
    (row,) = rows_of(capacity, capacity.capacity_rows, stopped)
    assert (row["dead_weight"], row["mu_max"], row["utilisation_pct"]) == ("no progress", 0.0, None)
    paced = spec([queue_chunk(tmp_path / "d.parquet", heads, [head - 20 for head in heads])], 0, 1)
    (row,) = rows_of(capacity, capacity.capacity_rows, paced)
    # it always has some waiting and reads just what comes: that says nothing about what it could read
    assert (row["mu_max"], row["utilisation_pct"], row["busy_minutes"]) == (None, None, 0)
    quiet = spec([queue_chunk(tmp_path / "c.parquet", [1_000] * 60, [1_000] * 60)], 0, 1)
    (row,) = rows_of(capacity, capacity.capacity_rows, quiet)
    assert (row["dead_weight"], row["busy_minutes"], row["mu_max"]) == ("idle", 0, None)


def test_it_judges_forecasts_by_what_came(tmp_path: Path) -> None:
    """10,000 wait and 100 fewer every minute for 100 minutes: each forecast is right to the minute."""
    heads = [20_000] * 120
    commits = [10_000 + 100 * i for i in range(100)] + [20_000] * 20
    asked = spec([queue_chunk(tmp_path / "a.parquet", heads, commits)], 0, 2)
    (row,) = rows_of(forecast_scorecard, forecast_scorecard.score_rows, asked, late_queue_lines)
    assert row["backlogs"] == 1
    # the first one is made of too few minutes for a band
    assert row["judged"] - 1 == row["banded"] == row["covered"] > 10
    assert (row["backlogs_covered"], row["never_wrong"]) == (1, 0)
    assert row["error_sum"] / row["judged"] < 0.05


def test_it_does_not_judge_what_nobody_saw_end(tmp_path: Path) -> None:
    heads = [20_000] * 60
    commits = [100 * i for i in range(60)]
    asked = spec([queue_chunk(tmp_path / "a.parquet", heads, commits)], 0, 1)
    (row,) = rows_of(forecast_scorecard, forecast_scorecard.score_rows, asked, late_queue_lines)
    assert row["forecasts"] == row["unseen"] > 5
    assert (row["judged"], row["covered"]) == (0, 0)
