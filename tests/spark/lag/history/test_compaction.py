"""Hours from rounds and days from hours: the same samples whichever way, in bounded pieces."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.history import chunk, compaction
from spark.lag.history.compaction import MergeInput
from spark.lag.samples import Samples, from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.history.test_chunk import HISTORY, MOVES, as_dict, previous_of
from tests.spark.lag.sample_history import judged, rounds, snapshot
from tests.support.lag_reference import SIZES, Reference

HEAD, COMMIT = HeadKey("orders", "broker-a", 0), CommitKey("billing", "orders", "broker-a", 0)
HOUR = 3_600_000


def read(sink: io.BytesIO) -> Samples:
    return chunk.decode_table(chunk.read_chunk(pa.BufferReader(sink.getvalue())))


def hour_file(history: list[Snapshot], previous: Snapshot | None = None) -> io.BytesIO:
    sink = io.BytesIO()
    compaction.write_hour(history, sink, interval_ms=5_000, previous=previous)
    return sink


@pytest.mark.parametrize("block", [1, 7, 10**6])
def test_it_makes_the_same_hour_block_by_block(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(compaction, "BLOCK_SAMPLES", block)
    earlier = snapshot(3_595_000, {HEAD: (10, 99)}, {COMMIT: 80}, pulled={COMMIT: 95})
    found = read(hour_file(HISTORY, earlier))
    wanted = from_snapshots(HISTORY, earlier)
    assert as_dict(found) == as_dict(wanted)
    assert previous_of(found) == previous_of(wanted)


@settings(max_examples=60, deadline=None)
@given(st.lists(MOVES, min_size=1, max_size=4), st.integers(0, 99), st.booleans())
def test_it_makes_the_same_hour_of_any_history(
    moves: list[list[tuple[int, int, int] | None]], chance: int, is_later: bool
) -> None:
    width = max(len(one) for one in moves)
    padded = [[*one, *[None] * (width - len(one))] for one in moves]
    history = rounds(
        {HEAD._replace(queue_id=q): [m and (m[0], m[1]) for m in one] for q, one in enumerate(padded)},
        {
            COMMIT._replace(queue_id=q % 2, group=f"g{q}"): [m and m[2] for m in one]
            for q, one in enumerate(padded)
        },
    )
    history = [judged(one, chance) for one in history]
    before, own = (history[0], history[1:]) if is_later else (None, history)
    found, wanted = read(hour_file(own, before)), from_snapshots(own, before)
    assert as_dict(found) == as_dict(wanted)
    assert previous_of(found) == previous_of(wanted)


def test_it_takes_the_last_of_two_rounds_of_one_time() -> None:
    twice = [snapshot(5, {HEAD: (0, 1)}, {}), snapshot(5, {HEAD: (0, 2)}, {})]
    assert read(hour_file(twice)).max_offset.tolist() == [2]
    assert compaction.write_hour([], io.BytesIO(), interval_ms=5_000).rows == 0


def reference_hours(count: int) -> tuple[list[io.BytesIO], Samples]:
    reference = Reference(SIZES["small"])
    files, parts = [], []
    for _ in range(count):
        own = [part for pair in zip(*reference.hour(), strict=True) for part in pair]
        sink = io.BytesIO()
        chunk.write_blocks(own, sink, interval_ms=15_000)
        files.append(sink)
        parts += own
    return files, chunk.merge(parts)


@pytest.mark.parametrize("rows_at_once", [1, 50, 10**6])
def test_it_puts_the_hours_of_a_series_side_by_side(
    monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    monkeypatch.setattr(compaction, "MERGE_ROWS", rows_at_once)
    files, wanted = reference_hours(3)
    start = Reference(SIZES["small"]).start_ms
    inputs = [
        MergeInput(pa.BufferReader(file.getvalue()), start + n * HOUR, start + (n + 1) * HOUR)
        for n, file in enumerate(files)
    ]
    sink = io.BytesIO()
    written = compaction.DayMerge(inputs).write_bucket(sink).written
    table = chunk.read_chunk(pa.BufferReader(sink.getvalue()))
    assert (written.rows, table.num_rows) == (3 * 192, 3 * 192)
    places = list(zip(*(table[name].to_pylist() for name in compaction.KEY_COLUMNS), strict=True))
    assert places == sorted(places)
    assert as_dict(chunk.decode_table(table)) == as_dict(wanted)
    assert previous_of(chunk.decode_table(table)) == previous_of(wanted)


def test_it_replaces_an_hour_of_a_day_that_was_repaired() -> None:
    first = rounds({HEAD: [(0, 1), (0, 2)]}, {COMMIT: [1, 1]}, start_ms=0)
    second = rounds({HEAD: [(0, 3), (0, 4)]}, {COMMIT: [3, 3]}, start_ms=HOUR)
    repaired = rounds({HEAD: [(0, 7), (0, 8), (0, 9)]}, {COMMIT: [7, 7, 7]}, start_ms=HOUR)
    files = [hour_file(one).getvalue() for one in (first, second, repaired)]
    day = io.BytesIO()
    compaction.DayMerge(
        [MergeInput(pa.BufferReader(files[n]), n * HOUR, (n + 1) * HOUR) for n in range(2)]
    ).write_bucket(day)
    again = io.BytesIO()
    compaction.DayMerge(
        [
            MergeInput(pa.BufferReader(day.getvalue()), 0, 24 * HOUR),
            MergeInput(pa.BufferReader(files[2]), HOUR, 2 * HOUR),
        ]
    ).write_bucket(again)
    assert as_dict(read(again)) == as_dict(from_snapshots([*first, *repaired]))


def many_groups(start_ms: int, groups: int = 7, extra: int = 0) -> io.BytesIO:
    """An hour of groups of different sizes."""
    heads = [HeadKey("orders", "broker-a", number) for number in range(groups)]
    own = rounds(
        {head: [(0, 5 + extra), (0, 9 + extra)] for head in heads},
        {
            CommitKey(f"group-{number}", *head): [number, number + extra]
            for number in range(groups)
            for head in heads[: number + 1]
        },
        start_ms=start_ms,
    )
    return hour_file(own)


def day_inputs(hours: int) -> list[MergeInput]:
    return [
        MergeInput(pa.BufferReader(many_groups(n * HOUR).getvalue()), n * HOUR, (n + 1) * HOUR)
        for n in range(hours)
    ]


def buckets_of(inputs: list[MergeInput], count: int) -> list[tuple[compaction.Bucket, bytes]]:
    merge = compaction.DayMerge(inputs, count)
    found = []
    while not merge.is_done:
        sink = io.BytesIO()
        found.append((merge.write_bucket(sink), sink.getvalue()))
    return found


@pytest.mark.parametrize("rows_at_once", [1, 20, 10**6])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 50])
def test_the_buckets_of_a_day_are_whole_groups_in_their_order(
    monkeypatch: pytest.MonkeyPatch, count: int, rows_at_once: int
) -> None:
    monkeypatch.setattr(compaction, "MERGE_ROWS", rows_at_once)
    whole = io.BytesIO()
    compaction.DayMerge(day_inputs(3)).write_bucket(whole)
    found = buckets_of(day_inputs(3), count)
    assert 1 <= len(found) <= min(count, 8)
    tables = [chunk.read_chunk(pa.BufferReader(data)) for _, data in found]
    assert pa.concat_tables(tables).to_pylist() == chunk.read_chunk(whole).to_pylist()
    for (bucket, _), table in zip(found, tables, strict=True):
        groups = table["group"].to_pylist()
        assert (bucket.group_lo, bucket.group_hi) == (groups[0], groups[-1])
        assert bucket.written.rows == table.num_rows
    assert all(one.group_hi < after.group_lo for (one, _), (after, _) in zip(found, found[1:], strict=False))
    if rows_at_once == 1 and count in (2, 3):
        assert len(found) == count
        assert max(table.num_rows for table in tables) < 2 * 105 / count  # 28 + 7 series of 3 hours


def test_a_day_in_buckets_takes_a_repaired_hour() -> None:
    repaired = MergeInput(pa.BufferReader(many_groups(HOUR, extra=3).getvalue()), HOUR, 2 * HOUR)
    plain = io.BytesIO()
    compaction.DayMerge([day_inputs(3)[0], repaired, day_inputs(3)[2]]).write_bucket(plain)
    day = [MergeInput(pa.BufferReader(data), 0, 24 * HOUR) for _, data in buckets_of(day_inputs(3), 3)]
    assert len(day) == 3
    again = [chunk.read_chunk(pa.BufferReader(data)) for _, data in buckets_of([*day, repaired], 2)]
    assert pa.concat_tables(again).to_pylist() == chunk.read_chunk(plain).to_pylist()


def test_the_heads_of_a_large_cluster_are_not_merged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MERGE_ROWS", 10)
    heads = [HeadKey(f"topic-{number:02}", "broker-a", 0) for number in range(40)]
    file = hour_file(rounds({head: [(0, 1)] for head in heads}, {}, start_ms=0))
    taken: list[int] = []
    real = compaction.DayMerge._taken

    def noted(merge: compaction.DayMerge, batch: Any) -> pa.Table:
        table = real(merge, batch)
        taken.append(table.num_rows)
        return table

    monkeypatch.setattr(compaction.DayMerge, "_taken", noted)
    sink = io.BytesIO()
    compaction.DayMerge([MergeInput(pa.BufferReader(file.getvalue()), 0, HOUR)]).write_bucket(sink)
    assert taken == [10, 10, 10, 10]
    assert chunk.read_chunk(sink)["topic"].to_pylist() == [head.topic for head in heads]
