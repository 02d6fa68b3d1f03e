"""The fast way of the hourly rows against the plain one: the same rows to the last bit, whatever happened."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark import histogram
from spark.hour_tables import HourTables, period_rows
from spark.job import HOUR_MS, HourFiles, JobSpec, Promise
from spark.lag import chunk
from spark.notes import Note
from spark.part_files import ORDER
from spark.periods import merge
from spark.work import HistoryReader, HourBlock, HourGrid, WorkItem, work_items
from tests.spark.hours import STEP, WIDTH, Hour, an_hour
from tests.support.lag_reference import SIZES, START_MS, write_history


def nothing(hour: Hour) -> None:
    pass


def rewinds(hour: Hour) -> None:
    hour.committed[3, 100:] -= 400
    hour.committed[5, 10:12] -= 50


def skips(hour: Hour) -> None:
    hour.high[8] += np.arange(WIDTH) * 20 + np.where(np.arange(WIDTH) >= 50, 40_000, 0)
    hour.committed[8] = hour.high[8] - 30
    hour.committed[8, :120] -= np.arange(WIDTH)[:120] * 4
    hour.high[9] += np.arange(WIDTH) * 15_000  # consumed, and no skip
    hour.committed[9] = hour.high[9] - 7


def retention(hour: Hour) -> None:
    hour.low[2, 60:] = hour.committed[2, 60:] + 10
    hour.high[2] = np.maximum(hour.high[2], hour.low[2])
    hour.low[4, 30:] += 4_000  # nothing unread


def falling_heads(hour: Hour) -> None:
    hour.high[6, 77:] -= 3
    hour.committed[6] = np.minimum(hour.committed[6], hour.high[6].min())


def beyond_max(hour: Hour) -> None:
    hour.committed[1, 20] = hour.high[1, 20] + 5


def pulled_offsets(hour: Hour) -> None:
    chance = np.random.default_rng(1)
    ahead = np.minimum(hour.committed + chance.poisson(2, hour.high.shape), hour.high)
    hour.pulled[:] = np.where(chance.random(WIDTH) < 0.1, ahead, -1)
    hour.pulled[12] = -1
    hour.pulled[20:] = -1


def pulled_while_rewound(hour: Hour) -> None:
    pulled_offsets(hour)
    rewinds(hour)


def a_gap_of_all(hour: Hour) -> None:
    hour.read[:, 40:60] = False
    hour.read[:, 100:103] = False


def a_silent_queue(hour: Hour) -> None:
    hour.read[7, 40:60] = False
    rewinds(hour)


def only_one_round(hour: Hour) -> None:
    hour.read[:, :-1] = False


def a_new_life(hour: Hour) -> None:
    key = hour.keys[4]
    hour.read[4, 100:] = False
    hour.keys[5] = key._replace(incarnation=1)
    hour.high[5] %= 1_000
    hour.low[5], hour.committed[5] = 0, hour.high[5]
    hour.read[5, :100] = False


def a_huge_backlog(hour: Hour) -> None:
    hour.high[10] += 3 << 31
    hour.high[11, 1:] += 1 << 30


def unread_since_long_ago(hour: Hour) -> None:
    hour.committed[:7] = hour.committed[:7, :1] - 4_000


BENT: list[Callable[[Hour], None]] = [
    nothing, rewinds, skips, retention, falling_heads, beyond_max, pulled_offsets, pulled_while_rewound, a_gap_of_all,
    a_silent_queue, only_one_round, a_new_life, a_huge_backlog, unread_since_long_ago,
]  # fmt: skip


def spec(files: list[str], **changes: object) -> JobSpec:
    """The last file's hour, the others before it."""
    start_ms = START_MS + (len(files) - 1) * HOUR_MS
    values = {
        "job": "lag_hour",
        "job_id": "report-1",
        "from_ms": start_ms,
        "to_ms": start_ms + HOUR_MS,
        "hours": (HourFiles("local", start_ms, (files[-1],), tuple(files[:-1])),),
        "output": "/nowhere",
        "as_of_ms": start_ms + HOUR_MS,
        "interval_ms": STEP,
        "slos": {"group-1": Promise(5_000, 0.5)},
        **changes,
    }
    return JobSpec(**values)  # type: ignore[arg-type]


def both_ways(asked: JobSpec) -> tuple[pa.Table, int]:
    """The rows, made twice and found alike; and how many queues the fast way looked at."""
    plain, fast, seen = [], [], 0
    for item in work_items(asked, period_ms=HOUR_MS):
        reader = HistoryReader(item)
        hours = HourTables(reader)
        for blocks in reader.blocks():
            plain += [table for block in blocks for table in hours.of(block)]
        for part in chain.from_iterable(reader.parts()):
            fast += hours.of(part)
            seen += part.grid.names.num_rows if isinstance(part, HourGrid) else 0
        fast += hours.rest()
        assert reader.notes == []
    order = [(name, "ascending") for name in ORDER]
    expected, found = (pa.concat_tables(one).sort_by(order).combine_chunks() for one in (plain, fast))
    for name in expected.schema.names:
        assert found[name].equals(expected[name]), (name, found[name].to_pylist(), expected[name].to_pylist())
    return found, seen


@pytest.mark.parametrize("bend", BENT, ids=lambda bend: bend.__name__)
@pytest.mark.parametrize("has_past", [False, True])
def test_both_ways_make_the_same_rows(bend: Callable[[Hour], None], has_past: bool, tmp_path: Path) -> None:
    for seed in range(3):
        files = []
        before = None
        if has_past:
            before = an_hour(seed + 100)
            unread_since_long_ago(before)
            files.append(before.write(tmp_path / f"before-{seed}.parquet"))
        hour = an_hour(seed, START_MS + len(files) * HOUR_MS, before)
        bend(hour)
        files.append(hour.write(tmp_path / f"{seed}.parquet"))
        rows, _ = both_ways(spec(files))
        assert rows.num_rows > 8


def a_silent_old_queue(hour: Hour) -> None:
    hour.read[3, 40:60] = False


def old_heads_fall(hour: Hour) -> None:
    hour.high[2:4, 30:] -= 900
    hour.committed[2:4] = np.minimum(hour.committed[2:4], hour.high[2:4])


@pytest.mark.parametrize("bend", [nothing, a_silent_old_queue, old_heads_fall, a_gap_of_all])
@pytest.mark.parametrize("lookback_ms", [6 * HOUR_MS, 2 * HOUR_MS - 20 * STEP, HOUR_MS // 2])
def test_messages_from_hours_before_are_as_old_by_both_ways(
    bend: Callable[[Hour], None], lookback_ms: int, tmp_path: Path
) -> None:
    """Whatever the hours in between were like, and though the files know more than may be looked at."""
    hours = [an_hour(21)]
    for number in (1, 2, 3):
        hours.append(an_hour(number + 21, START_MS + number * HOUR_MS, hours[-1]))
    hours[3].committed[:7] = hours[1].committed[:7, 20:21]
    bend(hours[2])
    files = [hour.write(tmp_path / f"{number}.parquet") for number, hour in enumerate(hours)]
    rows, seen = both_ways(spec(files, lookback_ms=lookback_ms))
    assert seen == len(hours[3].keys)
    assert max(rows["time_lag_max_ms"].to_pylist()) > HOUR_MS


def test_the_fast_way_is_taken_for_all_but_the_groups_that_need_the_plain_one(tmp_path: Path) -> None:
    for bend, expected in (
        (nothing, 28), (rewinds, 28), (skips, 28), (a_gap_of_all, 28), (a_silent_queue, 21), (beyond_max, 21),
        (a_new_life, 21), (a_huge_backlog, 21),
    ):  # fmt: skip
        hour = an_hour(5)
        bend(hour)
        _, seen = both_ways(spec([hour.write(tmp_path / "hour.parquet")]))
        assert seen == expected, bend.__name__


def test_a_series_that_came_or_went_takes_the_plain_way(tmp_path: Path) -> None:
    before = an_hour(1)
    hour = an_hour(2, START_MS + HOUR_MS, before)
    kept = [number for number in range(len(hour.keys)) if number != 9]
    gone = Hour(
        [hour.keys[number] for number in kept],
        hour.times,
        *(one[kept] for one in (hour.high, hour.low, hour.committed, hour.pulled, hour.read)),
        previous=before.last().take(np.array(kept)),
    )
    files = [before.write(tmp_path / "a.parquet"), gone.write(tmp_path / "b.parquet")]
    rows, seen = both_ways(spec(files))
    assert seen == 0
    partial = [row["partial_samples"] for row in rows.to_pylist() if row["grain"] == "topic"]
    assert WIDTH in partial  # the queue that went is missing in every round


def test_both_ways_read_the_hours_of_a_day_out_of_one_file(tmp_path: Path) -> None:
    first = an_hour(1)
    hour = an_hour(2, START_MS + HOUR_MS, first)
    files = [one.write(tmp_path / f"{number}.parquet") for number, one in enumerate((first, hour))]
    day = a_day_of(files, tmp_path / "day.parquet")
    start_ms = START_MS + HOUR_MS
    one_file = spec([day], from_ms=start_ms, to_ms=start_ms + HOUR_MS, as_of_ms=start_ms + HOUR_MS,
                    hours=(HourFiles("local", start_ms, (day,)),))  # fmt: skip
    found, seen = both_ways(one_file)
    assert seen == len(hour.keys)
    assert found.equals(both_ways(spec(files))[0])


def a_day_of(files: list[str], path: Path) -> str:
    """The hours of each series side by side, as the nightly merge leaves them."""
    rows = pa.concat_tables([chunk.read_chunk(file) for file in files]).unify_dictionaries()
    order = np.arange(rows.num_rows).reshape(len(files), -1).T.reshape(-1)
    chunk.write_chunk(rows.take(order), str(path))
    return str(path)


def day_item(paths: list[str], older: list[tuple[str, ...]]) -> WorkItem:
    """The day that begins with these files, an hour each."""
    files = [
        HourFiles("local", START_MS + number * HOUR_MS, (path,), older[number])
        for number, path in enumerate(paths)
    ]
    day_ms = START_MS - START_MS % (24 * HOUR_MS)
    window = {"from_ms": day_ms, "to_ms": day_ms + 24 * HOUR_MS, "as_of_ms": START_MS + len(paths) * HOUR_MS}
    (item,) = work_items(spec([""], hours=tuple(files), **window), period_ms=24 * HOUR_MS)
    return item


def day_both_ways(item: WorkItem) -> pa.Table:
    """The rows of a day, made twice and found alike."""
    reader = HistoryReader(item)
    plain = HourTables(reader, for_period=True)
    hours = [one for blocks in reader.blocks() for block in blocks for one in plain.rows_of(block)]
    assert all(one.codes is None for one in hours)
    expected = merge(hours, item.from_ms, item.to_ms, reader.spec)
    notes: list[Note] = []
    found = pa.concat_tables(period_rows(item, notes)).sort_by([(name, "ascending") for name in ORDER])
    assert notes == []
    for name in expected.schema.names:
        assert found[name].combine_chunks().equals(expected[name].combine_chunks()), name
    return found


@pytest.mark.parametrize("in_one_file", [False, True])
@pytest.mark.parametrize("is_folded", [False, True])
def test_a_day_adds_up_the_same_hours_by_both_ways(
    in_one_file: bool, is_folded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_folded:  # as if the hours were too many to keep every sample of
        monkeypatch.setattr("spark.hour_tables.CODES_KEPT", 1)
    hours = [an_hour(1)]
    for number in (1, 2):
        hours.append(an_hour(number + 1, START_MS + number * HOUR_MS, hours[-1]))
    rewinds(hours[1])
    unread_since_long_ago(hours[2])
    paths = [one.write(tmp_path / f"{number}.parquet") for number, one in enumerate(hours)]
    older = [() if in_one_file else tuple(paths[:number]) for number in range(3)]
    if in_one_file:
        paths = [a_day_of(paths, tmp_path / "day.parquet")] * 3
    assert day_both_ways(day_item(paths, older)).num_rows > 20


@pytest.mark.parametrize("bend", BENT, ids=lambda bend: bend.__name__)
def test_a_day_has_the_same_rows_whatever_happened_in_one_of_its_hours(
    bend: Callable[[Hour], None], tmp_path: Path
) -> None:
    hours = [an_hour(11)]
    for number in (1, 2, 3):
        hours.append(an_hour(number + 11, START_MS + number * HOUR_MS, hours[-1]))
    bend(hours[1])
    unread_since_long_ago(hours[3])
    paths = [one.write(tmp_path / f"{number}.parquet") for number, one in enumerate(hours)]
    assert day_both_ways(day_item(paths, [tuple(paths[:number]) for number in range(4)])).num_rows > 20


def test_a_day_has_one_row_of_each_key_when_a_broker_was_silent_in_one_of_its_hours(tmp_path: Path) -> None:
    """The silent hour goes the plain way, the other one as a grid: both are hours of the same group-topics."""
    files = [str(tmp_path / row.path) for row in write_history(SIZES["small"], tmp_path, 2)]
    item = day_item(files, [(), tuple(files[:1])])
    parts = [type(part) for each in HistoryReader(item).parts() for part in each]
    assert {HourBlock, HourGrid} == set(parts)
    keys = [
        tuple(row[name] for name in ("grain", "group", "topic", "broker_name", "queue_id"))
        for table in period_rows(item, [])
        for row in table.to_pylist()
    ]
    assert len(keys) == len(set(keys))
    assert sum(grain == "topic" for grain, *_ in keys) == SIZES["small"].groups


def test_both_ways_agree_on_the_reference_history(tmp_path: Path) -> None:
    files = [str(tmp_path / row.path) for row in write_history(SIZES["small"], tmp_path, 2)]
    for asked in (files[:1], files):
        assert both_ways(spec(asked))[0].num_rows > 50


def test_buckets_of_narrow_values_are_those_of_wide_ones() -> None:
    chance = np.random.default_rng(3)
    edges = np.concatenate([2**bits + np.arange(-3, 4) for bits in range(2, 31)])
    for highest in (2**8, 2**24 - 1, 2**24, 2**31 - 1):
        values = np.concatenate([edges[edges <= highest], chance.integers(0, highest, 5_000)])
        narrow = histogram.narrow_bucket_of(values.astype(np.int32))
        assert narrow.tolist() == histogram.bucket_of(values.astype(np.int64)).tolist()
