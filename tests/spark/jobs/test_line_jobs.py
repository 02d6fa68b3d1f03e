"""Capacity and the scorecard of forecasts, from histories small enough to see through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spark.job import JobSpec
from spark.jobs import capacity, forecast_scorecard
from spark.jobs.line_job import item_batches
from spark.lag.history import chunk
from spark.lag.local_time import HOUR_MS
from spark.lag.samples import SeriesKey
from spark.sources.work import work_items
from tests.spark.lag import judged
from tests.spark.work_of import queue_chunk, spec

MINUTE = 60_000


def rows_of(module: Any, rows: Any, asked: JobSpec) -> list[dict[str, Any]]:
    (item,) = work_items(asked, period_ms=24 * HOUR_MS)
    return [row for batch in item_batches(item, rows, module.SCHEMA) for row in batch.to_pylist()]


def stuck_then_back(folder: Path) -> JobSpec:
    """100 arrive a minute; nothing is read from minute 10 to 20, then 300 a minute are read until all is."""
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


def test_it_measures_what_a_group_can_do(tmp_path: Path) -> None:
    (row,) = rows_of(capacity, capacity.capacity_rows, stuck_then_back(tmp_path))
    # it reads 300 a minute when messages wait, 100 a minute arrive
    assert row["mu_max"] == 5.0
    assert abs(row["lambda_peak"] - 100 / 60) < 1e-9
    assert row["utilisation_pct"] == 33.33
    assert (row["queues"], row["lag_max"], row["dead_weight"]) == (1, 1_000, None)
    # half of what one consumer can do: one is enough
    assert row["consumers_factor"] == 1.0
    heads = [1_000 + 100 * i for i in range(60)]
    stopped = spec([queue_chunk(tmp_path / "b.parquet", heads, [500] * 60)], 0, 1)
    (row,) = rows_of(capacity, capacity.capacity_rows, stopped)
    assert (row["dead_weight"], row["mu_max"], row["utilisation_pct"]) == ("no progress", None, None)
    paced = spec([queue_chunk(tmp_path / "d.parquet", heads, [head - 20 for head in heads])], 0, 1)
    (row,) = rows_of(capacity, capacity.capacity_rows, paced)
    # it always has some waiting and reads just what comes: that says nothing about what it could read
    assert (row["mu_max"], row["busy_minutes"], row["consumers_factor"]) == (None, 0, 1.0)
    quiet = spec([queue_chunk(tmp_path / "c.parquet", [1_000] * 60, [1_000] * 60)], 0, 1)
    (row,) = rows_of(capacity, capacity.capacity_rows, quiet)
    assert (row["dead_weight"], row["busy_minutes"], row["mu_max"]) == ("idle", 0, None)


def test_one_rule_says_how_many_consumers_a_slow_and_a_healthy_group_need(tmp_path: Path) -> None:
    """30 a second come: the slow group handles 25, the healthy one was behind for a minute after a restart."""
    t_ms = np.arange(720) * 5_000
    high = 10_000 + 150 * np.arange(720)
    slow = 10_000 + 125 * np.arange(720)
    age = np.maximum(t_ms - t_ms * 125 // 150, 0) // 100 * 100
    healthy = np.where(np.arange(720) < 12, 10_000 + 40 * np.arange(720), high - 50)
    young = np.where(np.arange(720) < 12, np.maximum(np.arange(720) - 3, 0) * 4_000, 300)
    samples = judged.together(
        judged.queue(
            SeriesKey("slow", "orders", "b", 0, 0), t_ms=t_ms, high=high, committed=slow, time_lag_ms=age
        ),
        judged.queue(
            SeriesKey("well", "orders", "b", 0, 0), t_ms=t_ms, high=high, committed=healthy, time_lag_ms=young
        ),
    )
    path = str(tmp_path / "a.parquet")
    chunk.write_chunk(chunk.encode_table(samples, interval_ms=5_000), path)
    found = rows_of(capacity, capacity.capacity_rows, spec([path], 0, 1, interval_ms=5_000))
    by_group = {row["group"]: row for row in found}
    assert by_group["slow"]["mu_max"] == 25.0
    assert by_group["slow"]["consumers_factor"] == round((30 + 25 * 719 / HOUR_MS * 1000) / 25, 4)  # 2 of 1
    assert by_group["well"]["consumers_factor"] == 1.0


def test_it_judges_forecasts_by_what_came(tmp_path: Path) -> None:
    """10,000 wait and 100 fewer every minute for 100 minutes: each forecast is right to the minute."""
    heads = [20_000] * 120
    commits = [10_000 + 100 * i for i in range(100)] + [20_000] * 20
    asked = spec([queue_chunk(tmp_path / "a.parquet", heads, commits)], 0, 2)
    (row,) = rows_of(forecast_scorecard, forecast_scorecard.score_rows, asked)
    assert row["backlogs"] == 1
    # the first one is made of too few minutes for a band
    assert row["judged"] - 1 == row["banded"] == row["covered"] > 10
    assert (row["backlogs_covered"], row["never_wrong"]) == (1, 0)
    assert row["error_sum"] / row["judged"] < 0.05


def test_it_does_not_judge_what_was_not_seen_to_end(tmp_path: Path) -> None:
    heads = [20_000] * 60
    commits = [100 * i for i in range(60)]
    asked = spec([queue_chunk(tmp_path / "a.parquet", heads, commits)], 0, 1)
    (row,) = rows_of(forecast_scorecard, forecast_scorecard.score_rows, asked)
    assert row["forecasts"] == row["unseen"] > 5
    assert (row["judged"], row["covered"]) == (0, 0)
