"""Rows of hours and days against plain Python, literal cases, and however the same history lies in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from spark import histogram
from spark.job import Promise
from spark.lag import chunk
from tests.spark import lag_oracle
from tests.spark.history_files import AS_OF, HOUR, START, STEP, History, generated
from tests.spark.work_of import day_rows, hour_rows, queue_chunk, spec

MINUTE = 60_000
NAMES = ("window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")


@pytest.fixture(scope="module")
def history() -> History:
    return generated()


def by_key(rows: list[dict[str, Any]]) -> dict[lag_oracle.Key, dict[str, Any]]:
    return {tuple(row[name] for name in NAMES): row for row in rows}


@pytest.mark.parametrize("seed", [7, 11, 23])
def test_it_agrees_with_plain_python_in_every_column(seed: int, tmp_path: Path) -> None:
    made = generated(seed)
    files = [made.write_chunk(tmp_path), *made.write_log(tmp_path)]
    rows, warnings = hour_rows(spec(files, START, 2, as_of_ms=AS_OF))
    expected = lag_oracle.rows(
        [one for one in made.samples if one.t < AS_OF], [(START, START + HOUR), (START + HOUR, AS_OF)], STEP
    )
    found = by_key(rows)
    assert (warnings, set(found)) == ([], set(expected))
    for key, figures in expected.items():
        assert {name: found[key][name] for name in figures} == figures, key


def test_it_makes_the_same_rows_however_history_is_cut_into_files(history: History, tmp_path: Path) -> None:
    asked = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    rows = by_key(hour_rows(spec(asked, START, 2, as_of_ms=AS_OF))[0])
    over = [one for one in history.snapshots if one.ts_ms < START + HOUR]
    parts = []
    for number, (first, last) in enumerate(((0, 11), (11, 12), (12, len(over)))):
        path = tmp_path / f"part-{number}.parquet"
        before = over[first - 1] if first else None
        chunk.write_chunk(chunk.compact(over[first:last], interval_ms=STEP, previous=before), str(path))
        parts.append(str(path))
    assert by_key(hour_rows(spec([*parts[::-1], *asked[1:]], START, 2, as_of_ms=AS_OF))[0]) == rows
    # an hour whose past is told apart, as the console's manifest does
    one = spec(asked[1:], START + HOUR, 1, as_of_ms=AS_OF)
    hour = msgspec.structs.replace(one.hours[0], older=(asked[0],))
    later = by_key(hour_rows(msgspec.structs.replace(one, hours=(hour,)))[0])
    assert later == {key: row for key, row in rows.items() if key[0] == START + HOUR}


def test_it_adds_hours_up_to_a_day(history: History, tmp_path: Path) -> None:
    files = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    hours = hour_rows(spec(files, START, 2, as_of_ms=AS_OF))[0]
    asked = spec(files, START, 2, as_of_ms=AS_OF, from_ms=0, to_ms=24 * HOUR)
    days = [row for row in day_rows(asked)[0] if row["grain"] == "topic"]
    samples = [one for one in history.samples if one.t < AS_OF]
    whole = lag_oracle.rows(samples, [(START, AS_OF)], STEP)
    assert len(days) == 5
    for day in days:
        own = [row for row in hours if all(row[name] == day[name] for name in NAMES[1:])]
        exact = whole[START, *(day[name] for name in NAMES[1:])]
        for name in (
            "produced",
            "consumed",
            "lost",
            "rewinds",
            "samples",
            "lag_max",
            "lag_last",
        ):
            assert day[name] == exact[name], name
        # the first interval of an hour counts with the age at its end: the age before it is another hour's
        assert abs(day["consumed_within_slo"] - exact["consumed_within_slo"]) <= 80
        for name in ("lag", "time_lag"):
            for share in (50, 95, 99):
                figure = f"{name}_p{share}" + ("_ms" if name == "time_lag" else "")
                assert exact[figure] <= day[figure] <= exact[figure] * 1.008
        assert (day["window_start_ms"], day["window_end_ms"]) == (0, AS_OF)
        assert sum(day["status_ms"]) == AS_OF
        assert day["max_gap_ms"] == START  # nobody looked before
        assert day["coverage_pct"] == round(100 * day["samples"] / (AS_OF // STEP), 2) < 15
        assert day["breach_ms"] == sum(row["breach_ms"] for row in own)


def test_it_knows_when_a_queue_stood_still_and_when_it_catches_up(tmp_path: Path) -> None:
    heads = [1_000 + 100 * i for i in range(60)]
    commits = [1_000] + [1_000 + 100 * i for i in range(1, 10)] + [1_900] * 20
    commits += [1_900 + 190 * i for i in range(1, 31)]
    (topic, queue), _ = hour_rows(spec([queue_chunk(tmp_path / "a.parquet", heads, commits)], 0, 1))
    spent = dict(
        zip(("LOST", "STALLED", "STOPPED", "OFFLINE", "FALLING_BEHIND"), topic["status_ms"], strict=False)
    )
    # still since minute 9: said from minute 11 (more than a minute) to minute 29
    assert (spent["STOPPED"], topic["stall_ms_max"], topic["status_worst"]) == (
        19 * MINUTE,
        20 * MINUTE,
        "STOPPED",
    )
    # it read past the head of the last round, which no consumer does: that round has no lag and is not complete
    assert (topic["lag_first"], topic["worst_queue"]) == (0, "broker-a · 0")
    assert queue["stall_ms_max"] == topic["stall_ms_max"]


def test_it_measures_each_group_by_its_own_promise(tmp_path: Path) -> None:
    heads = [1_000 + 100 * i for i in range(60)]
    commits = heads[:10] + [heads[9]] * 20 + heads[30:]  # from minute 10 to 29 nobody reads
    files = [queue_chunk(tmp_path / "a.parquet", heads, commits)]
    (row, _), _ = hour_rows(spec(files, 0, 1))
    # minute 10 is half a minute old: late by the installation's minute from 11 to 29
    assert (row["slo_ms"], row["breach_ms"], row["consumed_within_slo"]) == (MINUTE, 19 * MINUTE, 38 * 100)
    own = {"billing": Promise(10 * MINUTE, 0.5), "somebody else": Promise(1, 0.0)}
    asked = spec(files, 0, 1, slos=own)
    (topic, queue), _ = hour_rows(asked)
    for found in (topic, queue):
        assert (found["slo_ms"], found["breach_ms"]) == (10 * MINUTE, 10 * MINUTE)
        assert found["breach_weighted_ms"] == found["breach_ms"]
        assert found["burn_rate"] == round(10 / 59 / 0.5, 6)
    assert (topic["within_slo_pct"], row["within_slo_pct"]) == (64.4068, 64.4068)
    (day, _), _ = day_rows(msgspec.structs.replace(asked, to_ms=24 * HOUR))
    assert (day["slo_ms"], day["burn_rate"]) == (10 * MINUTE, round(10 / 59 / 0.5, 6))


def test_it_forecasts_the_end_from_busy_minutes(tmp_path: Path) -> None:
    heads = [10_000 + 60 * i for i in range(60)]
    commits = [160 * i for i in range(60)]
    (topic, _), _ = hour_rows(spec([queue_chunk(tmp_path / "a.parquet", heads, commits)], 0, 1))
    lag = heads[-1] - commits[-1]
    assert (topic["lag_last"], topic["drain_never"]) == (lag, False)
    assert topic["drain_ms"] == topic["drain_lo_ms"] == topic["drain_hi_ms"] == round(lag / 100 * MINUTE)
    slow = [40 * i for i in range(60)]
    (topic, _), _ = hour_rows(spec([queue_chunk(tmp_path / "b.parquet", heads, slow)], 0, 1))
    assert (topic["drain_ms"], topic["drain_never"]) == (None, True)


def test_it_counts_a_skip_apart_from_consumption(tmp_path: Path) -> None:
    heads = [100_000 + 60 * i for i in range(60)]
    commits = [60 * i for i in range(30)] + [90_000 + 60 * i for i in range(30)]
    (topic, _), _ = hour_rows(spec([queue_chunk(tmp_path / "a.parquet", heads, commits)], 0, 1))
    assert (topic["skipped"], topic["consumed"]) == (90_000 - 29 * 60, 58 * 60)


def test_histograms_add_up_and_never_understate() -> None:
    values = np.random.default_rng(3).integers(0, 10**7, 5_000)
    parts = [histogram.bucket_of(part) for part in np.array_split(values, 7)]
    buckets, counts = histogram.merged(np.concatenate(parts), np.ones(5_000, dtype=np.int64))
    whole, ones = histogram.merged(histogram.bucket_of(values), np.ones(5_000, dtype=np.int64))
    assert buckets.tolist() == whole.tolist() and counts.tolist() == ones.tolist() and counts.sum() == 5_000
    found = histogram.percentiles(buckets, counts, np.array([0, len(buckets)]), (50, 95, 99))
    ordered = np.sort(values)
    for share, one in found.items():
        exact = int(ordered[-(-share * 5_000 // 100) - 1])
        assert exact <= one.values[0] <= exact * 1.008
    huge = np.array([2**40, 2**40], dtype=np.int64), np.array([2**50, 1], dtype=np.int64)
    assert [part.tolist() for part in histogram.merged(*huge)] == [[2**40], [2**50 + 1]]


def test_histograms_add_up_the_same_with_and_without_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(5)
    rows, buckets = chance.integers(0, 9, 4_000), chance.integers(0, 300, 4_000).astype(np.int32)
    rows[rows == 4] = 5  # a row of nothing
    counts = chance.integers(1, 2**40, 4_000)
    found = [part.tolist() for part in histogram.added(rows, buckets, counts, 9)]
    assert found[2][4] == found[2][5] and sum(found[1]) == counts.sum()
    monkeypatch.setattr(histogram, "DENSE_MAX", 0)
    assert [part.tolist() for part in histogram.added(rows, buckets, counts, 9)] == found
    nothing = np.empty(0, dtype=np.int64)
    assert histogram.added(nothing, nothing.astype(np.int32), nothing, 2)[2].tolist() == [0, 0, 0]


def test_it_tells_the_members_of_a_group_by_the_hour_and_of_the_day(history: History, tmp_path: Path) -> None:
    files = [history.write_chunk(tmp_path), *history.write_log(tmp_path)]
    group = history.samples[0].group
    changes = {group: ((START - HOUR, 2), (START + MINUTE, 5), (START + HOUR + MINUTE, 3))}
    asked = msgspec.structs.replace(spec(files, START, 2, as_of_ms=AS_OF), client_changes=changes)
    found = {
        (row["window_start_ms"], row["grain"], row["group"] == group): (
            row["clients_min"],
            row["clients_max"],
        )
        for row in hour_rows(asked)[0]
    }
    assert found[START, "topic", True] == (2, 5)
    assert found[START + HOUR, "topic", True] == (3, 5)
    # nobody counted the others, and a queue has none of its own
    assert found[START, "topic", False] == found[START, "queue", True] == (None, None)
    days = day_rows(msgspec.structs.replace(asked, from_ms=0, to_ms=24 * HOUR))[0]
    assert {
        (row["clients_min"], row["clients_max"])
        for row in days
        if row["group"] == group and row["grain"] == "topic"
    } == {(2, 5)}
