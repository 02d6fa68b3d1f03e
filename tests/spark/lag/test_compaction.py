"""Hours from rounds and days from hours: the same samples whichever way, in bounded pieces."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag import chunk, compaction
from spark.lag.compaction import MergeInput
from spark.lag.samples import Samples, from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.history import rounds, snapshot
from tests.spark.lag.test_chunk import HISTORY, MOVES, as_dict, previous_of
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
@given(st.lists(MOVES, min_size=1, max_size=4))
def test_it_makes_the_same_hour_of_any_history(moves: list[list[tuple[int, int, int] | None]]) -> None:
    width = max(len(one) for one in moves)
    padded = [[*one, *[None] * (width - len(one))] for one in moves]
    history = rounds(
        {HEAD._replace(queue_id=q): [m and (m[0], m[1]) for m in one] for q, one in enumerate(padded)},
        {
            COMMIT._replace(queue_id=q % 2, group=f"g{q}"): [m and m[2] for m in one]
            for q, one in enumerate(padded)
        },
    )
    assert as_dict(read(hour_file(history))) == as_dict(from_snapshots(history))


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
    written = compaction.merge_files(inputs, sink)
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
    compaction.merge_files(
        [MergeInput(pa.BufferReader(files[n]), n * HOUR, (n + 1) * HOUR) for n in range(2)], day
    )
    again = io.BytesIO()
    compaction.merge_files(
        [
            MergeInput(pa.BufferReader(day.getvalue()), 0, 24 * HOUR),
            MergeInput(pa.BufferReader(files[2]), HOUR, 2 * HOUR),
        ],
        again,
    )
    assert as_dict(read(again)) == as_dict(from_snapshots([*first, *repaired]))
