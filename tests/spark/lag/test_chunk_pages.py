"""A group's rows out of the pages of a file are the rows that a general reader finds."""

import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag import chunk, chunk_pages
from spark.lag.chunk_rows import CHUNK_SCHEMA, FILE_SCHEMA, LISTS, PRESENT, with_present

ROUNDS = 4
HOUR_MS = 3_600_000


def row_of(group: str, queue: int, lists: dict[str, list[int] | None]) -> dict[str, Any]:
    n = next((len(one) for one in lists.values() if one is not None), ROUNDS)
    row: dict[str, Any] = {field.name: 0 for field in CHUNK_SCHEMA}
    names = {"kind": "GROUP" if group else "HEAD", "group": group, "topic": "orders", "broker_name": "a"}
    times = np.arange(n, dtype="<i4").tobytes()
    return row | names | {"queue_id": queue, "n": n, "dt_ms": times} | dict.fromkeys(LISTS) | lists


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Build chunk rows, in the order of groups."""
    return pa.Table.from_pylist(sorted(rows, key=lambda row: str(row["group"])), schema=CHUNK_SCHEMA)


def general(table: pa.Table, group: str) -> list[dict[str, Any]]:
    """Filter a table that no file has seen."""
    found: list[dict[str, Any]] = table.filter(pc.equal(table["group"], group)).to_pylist()
    return found


def file_of(table: pa.Table, **options: Any) -> bytes:
    """Write a table as `ChunkWriter` does, but for the options."""
    sink = io.BytesIO()
    usual = {
        "compression": "zstd",
        "use_dictionary": ["group", "dt_ms"],
        "use_byte_stream_split": [f"{name}.list.element" for name in LISTS],
        "write_page_index": True,
        "store_schema": False,
    }
    split = options.pop("row_group_size", None)
    with pq.ParquetWriter(sink, table.schema, **(usual | options)) as writer:
        writer.write_table(table, row_group_size=split)
    return sink.getvalue()


lists_of = st.integers(1, 5).flatmap(
    lambda n: st.fixed_dictionaries(
        {
            name: st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), min_size=n, max_size=n)
            for name in LISTS
        }
    )
)
some_rows = st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), lists_of), min_size=1, max_size=40)


@given(rows=some_rows, split=st.integers(1, 40), page_bytes=st.sampled_from([1, 64, 2**20]))
@settings(max_examples=150, deadline=None)
def test_it_finds_the_rows_of_a_group(
    rows: list[tuple[str, dict[str, Any]]], split: int, page_bytes: int
) -> None:
    table = table_of([row_of(group, at, lists) for at, (group, lists) in enumerate(rows)])
    data = file_of(with_present(table), row_group_size=split, data_page_size=page_bytes, write_batch_size=1)
    for group in ("", "a", "b", "c", "d"):
        found = chunk.read_chunk(io.BytesIO(data), group=group)
        assert found.schema.equals(CHUNK_SCHEMA)
        found.validate(full=True)
        assert found.to_pylist() == general(table, group)


def ordinary(groups: int = 4, queues: int = 3, rounds: int = 240) -> pa.Table:
    random = np.random.default_rng(7)

    def one(group: str, queue: int) -> dict[str, Any]:
        lists: dict[str, list[int] | None] = {
            name: random.integers(-300, 300, rounds).tolist() for name in LISTS if random.random() < 0.7
        }
        return row_of(group, queue, {"dmax": [0] * rounds} | lists)

    return table_of([one(f"group-{group}", queue) for group in range(groups) for queue in range(queues)])


@pytest.fixture
def is_read_by_pages(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[bool]]:
    """Say of each column that was asked for whether its pages told."""
    told: list[bool] = []
    real = chunk_pages.read_lists

    def noted(*arguments: Any) -> pa.Array | None:
        found = real(*arguments)
        told.append(found is not None)
        return found

    monkeypatch.setattr(chunk, "read_lists", noted)
    return lambda: told


def test_it_reads_what_the_writer_writes_page_by_page(
    tmp_path: Path, is_read_by_pages: Callable[[], list[bool]]
) -> None:
    path = str(tmp_path / "chunk.parquet")
    table = ordinary(groups=8, queues=90, rounds=720)  # 2 MB a list: several pages
    chunk.write_chunk(table, path)
    assert pq.read_metadata(path).row_group(0).column(0).num_values > 90
    for group in ("group-0", "group-3", "group-7"):
        assert chunk.read_chunk(path, group=group).to_pylist() == general(table, group)
    assert is_read_by_pages() == [True] * 12


def test_it_takes_only_the_lists_that_are_asked_for(is_read_by_pages: Callable[[], list[bool]]) -> None:
    table = ordinary()
    found = chunk.read_chunk(
        io.BytesIO(file_of(with_present(table))), group="group-2", columns=["queue_id", "lag"]
    )
    assert found.to_pylist() == [
        {"queue_id": row["queue_id"], "lag": row["lag"]} for row in general(table, "group-2")
    ]
    assert is_read_by_pages() == [True]


def test_a_file_of_before_is_read_as_it_was(is_read_by_pages: Callable[[], list[bool]]) -> None:
    table = ordinary()
    data = file_of(table)
    assert PRESENT not in pq.read_schema(io.BytesIO(data)).names
    assert chunk.read_chunk(io.BytesIO(data), group="group-1").to_pylist() == general(table, "group-1")
    assert is_read_by_pages() == []


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "snappy"},
        {"use_byte_stream_split": False},
        {"use_byte_stream_split": False, "use_dictionary": True},
        {"data_page_version": "2.0"},
    ],
    ids=str,
)
def test_a_file_of_another_writer_is_read_in_general(
    options: dict[str, Any], is_read_by_pages: Callable[[], list[bool]]
) -> None:
    table = ordinary()
    data = file_of(with_present(table), **options)
    assert chunk.read_chunk(io.BytesIO(data), group="group-1").to_pylist() == general(table, "group-1")
    assert is_read_by_pages() == [False]


def test_a_damaged_page_is_an_error_or_harmless_but_never_another_one() -> None:
    table = ordinary(groups=2, queues=2, rounds=30)
    data = file_of(with_present(table), write_page_checksum=False)
    metadata = pq.read_metadata(io.BytesIO(data))
    names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    place = metadata.row_group(0).column(names.index("lag.list.element"))
    for at in range(place.data_page_offset, place.data_page_offset + place.total_compressed_size):
        for bit in (1, 8, 128):
            broken = bytearray(data)
            broken[at] ^= bit
            with suppress(pa.ArrowException, OSError):
                chunk.read_chunk(io.BytesIO(bytes(broken)), group="group-1")


def test_a_file_that_is_cut_is_an_error(tmp_path: Path) -> None:
    data = file_of(with_present(ordinary(groups=2, queues=2, rounds=30)))
    for cut in range(0, len(data), 97):
        path = tmp_path / f"{cut}.parquet"
        path.write_bytes(data[:cut])
        with pytest.raises((pa.ArrowException, OSError)):
            chunk.read_chunk(str(path), group="group-1")


def test_a_page_that_ends_too_early_is_not_filled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ordinary(groups=1, queues=40)
    data = file_of(with_present(table), data_page_size=1, write_batch_size=1)
    whole = chunk_pages._pages
    monkeypatch.setattr(chunk_pages, "_pages", lambda pages: list(whole(pages))[:-1])
    assert chunk.read_chunk(io.BytesIO(data), group="group-0").to_pylist() == general(table, "group-0")


def test_the_note_of_a_file_says_which_lists_are_there() -> None:
    table = table_of(
        [
            row_of("a", 0, {}),
            row_of("a", 1, {"dmax": [0, 1], "lag": [3, 4]}),
            row_of("b", 0, {"in_flight": [1]}),
        ]
    )
    assert with_present(table)[PRESENT].to_pylist() == [0, 1 + 4, 8]
    assert with_present(table).schema.equals(FILE_SCHEMA)
