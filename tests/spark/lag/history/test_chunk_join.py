"""Files that follow each other are decoded in one go, and tell the same as one by one."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.grid import MATRICES, Grid, grid_of
from spark.lag.history import chunk
from spark.lag.history.chunk_join import decode_grid, decode_in_order, regular_rows
from spark.lag.samples import Samples, SeriesKey
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.history.test_chunk import as_dict, previous_of
from tests.spark.lag.judged import queue
from tests.spark.lag.sample_history import judged

QUEUES = [HeadKey("orders", "broker-a", number) for number in range(3)]
COMMITS = [CommitKey("billing", *head) for head in QUEUES]
INTERVAL_MS = 5_000

numbers = st.integers(-1, 3)
rounds = st.tuples(*[st.tuples(numbers, numbers, numbers, numbers) for _ in QUEUES])
files = st.lists(st.lists(rounds, min_size=1, max_size=4), min_size=1, max_size=5)


def tables_of(
    moves: Sequence[Sequence[Sequence[Sequence[int]]]], *, hours_each: int = 1, chance: int = 0
) -> tuple[list[pa.Table], list[Snapshot]]:
    """Make one chunk table of each list of rounds; a table holds them in so many rows a series."""
    high, low, done = (np.full(len(QUEUES), start, dtype=np.int64) for start in (100, 10, 90))
    tables: list[pa.Table] = []
    every: list[Snapshot] = []
    at_ms = 0
    for file in moves:
        hours = []
        for _ in range(hours_each):
            own = []
            for move in file:
                grown, cut, consumed, pulled = np.array(move, dtype=np.int64).T
                high, low, done = high + grown, low + np.maximum(cut, 0), done + consumed
                in_flight = np.where(pulled < 0, -1, done + pulled)
                one = Snapshot(at_ms, len(every), (), QUEUES, high, low, COMMITS, done.copy(), in_flight)
                own.append(judged(one, chance) if chance else one)
                at_ms += INTERVAL_MS
            hours.append(chunk.compact(own, interval_ms=INTERVAL_MS, previous=every[-1] if every else None))
            every += own
        whole = pa.concat_tables(hours).sort_by(
            [(name, "ascending") for name in ("group", "topic", "broker_name", "queue_id", "t0_ms")]
        )
        tables.append(whole.unify_dictionaries())
    return tables, every


def same(found: Samples, wanted: Samples) -> bool:
    return as_dict(found) == as_dict(wanted) and previous_of(found) == previous_of(wanted)


@given(moves=files, hours_each=st.integers(1, 2), chance=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_it_decodes_files_as_if_one_by_one(
    moves: Sequence[Sequence[Sequence[Sequence[int]]]], hours_each: int, chance: int
) -> None:
    tables, every = tables_of(moves, hours_each=hours_each, chance=chance)
    found = decode_in_order(tables)
    assert len(found) == 1
    assert same(found[0], chunk.merge([chunk.decode_table(table) for table in tables]))
    assert as_dict(found[0]) == as_dict(chunk.decode_table(chunk.compact(every, interval_ms=INTERVAL_MS)))


def test_it_decodes_hours_of_unlike_length() -> None:
    moves = [[((1, 0, 1, -1),) * 3] * 4, [((0, 0, 0, -1),) * 3] * 2, [((2, 1, 1, 2),) * 3] * 3]
    tables, every = tables_of(moves)
    day = pa.concat_tables(tables).sort_by(
        [(name, "ascending") for name in ("group", "topic", "broker_name", "queue_id", "t0_ms")]
    )
    (found,) = decode_in_order([day.unify_dictionaries()])
    assert as_dict(found) == as_dict(chunk.decode_table(chunk.compact(every, interval_ms=INTERVAL_MS)))


def overlapping(tables: list[pa.Table]) -> list[pa.Table]:
    return [tables[0], tables[0], tables[1]]


def backwards(tables: list[pa.Table]) -> list[pa.Table]:
    return [tables[1], tables[0]]


def without_a_queue(tables: list[pa.Table]) -> list[pa.Table]:
    return [tables[0], tables[1].filter(pa.compute.not_equal(tables[1]["queue_id"], 1))]


def of_unlike_rounds(tables: list[pa.Table]) -> list[pa.Table]:
    return [pa.concat_tables([tables[0].slice(0, 3), tables[1].slice(3)]).unify_dictionaries(), tables[1]]


@pytest.mark.parametrize("arrange", [overlapping, backwards, without_a_queue, of_unlike_rounds])
def test_it_leaves_what_does_not_follow_to_be_merged(
    arrange: Callable[[list[pa.Table]], list[pa.Table]],
) -> None:
    tables, _ = tables_of([[((1, 0, 1, -1),) * 3] * 4, [((2, 0, 1, 1),) * 3] * 4])
    arranged = arrange(tables)
    found = decode_in_order(arranged)
    assert len(found) > 1
    assert same(chunk.merge(found), chunk.merge([chunk.decode_table(table) for table in arranged]))


def test_it_sees_a_series_that_was_not_read_in_some_round() -> None:
    tables, _ = tables_of([[((1, 0, 1, -1),) * 3] * 4])
    assert regular_rows(tables[0]) is not None
    assert regular_rows(pa.concat_tables([tables[0], tables[0].slice(0, 1)]).unify_dictionaries()) is None


def shown(grid: Grid) -> dict[str, object]:
    names = ("t_ms", *MATRICES, "is_linked")
    return {"keys": list(grid.keys)} | {name: getattr(grid, name).tolist() for name in names}


@given(moves=files, hours_each=st.integers(1, 2), chance=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_it_decodes_a_grid_as_samples_make_it(
    moves: Sequence[Sequence[Sequence[Sequence[int]]]], hours_each: int, chance: int
) -> None:
    for table in tables_of(moves, hours_each=hours_each, chance=chance)[0]:
        found = decode_grid(table, INTERVAL_MS, 0, 10**9)
        assert found is not None
        assert shown(found) == shown(grid_of(chunk.decode_table(table), INTERVAL_MS))


def test_it_decodes_no_grid_of_what_is_not_one() -> None:
    tables, _ = tables_of([[((1, 0, 1, -1),) * 3] * 4, [((2, 0, 1, 1),) * 3] * 4])
    found = decode_grid(tables[1], INTERVAL_MS, 20_000, 40_000)
    assert found is not None
    assert found.t_ms.tolist() == [15_000, 20_000, 25_000, 30_000, 35_000]
    assert decode_grid(tables[1], INTERVAL_MS, 20_001, 40_000) is None
    assert decode_grid(tables[1], INTERVAL_MS, 20_000, 35_000) is None
    assert decode_grid(tables[1].slice(0, 0), INTERVAL_MS, 0, 40_000) is None
    again = tables[1].set_column(
        tables[1].schema.get_field_index("queue_id"), "queue_id", pa.array([0, 1, 1] * 2, pa.int32())
    )
    lives = again.set_column(
        again.schema.get_field_index("incarnation"), "incarnation", pa.array([0, 0, 1] * 2, pa.int32())
    )
    assert decode_grid(lives, INTERVAL_MS, 20_000, 40_000) is None


def test_a_lag_that_changes_above_32_bits_comes_back_exactly() -> None:
    samples = queue(
        SeriesKey("billing", "orders", "broker-a", 0, 0),
        t_ms=[0, 5_000, 10_000],
        high=[5_000_000_000, 5_000_000_010, 5_000_000_010],
        committed=[0, 1, 7],
        time_lag_ms=[100] * 3,
    )
    table = chunk.encode_table(samples, interval_ms=INTERVAL_MS)
    found = decode_grid(table, INTERVAL_MS, 0, 15_000)
    assert found is not None
    assert found.committed.tolist() == [[0, 1, 7]]
    assert decode_in_order([table])[0].committed.tolist() == [0, 1, 7]
