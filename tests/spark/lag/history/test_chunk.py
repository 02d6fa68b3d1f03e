"""Chunks: what a row holds, exact round trips, joining files, and sizes."""

import io
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.history import chunk, wal
from spark.lag.samples import SAMPLE_COLUMNS, Previous, Samples, SeriesKey, from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey, Snapshot
from tests.spark.lag.sample_history import judged, rounds, snapshot
from tests.support.lag_reference import SIZES, Reference

HEAD = HeadKey("orders", "broker-a", 0)
COMMIT = CommitKey("billing", "orders", "broker-a", 0)
DEAD = HeadKey("%DLQ%billing", "broker-a", 0)
RETRY = CommitKey("billing", "%RETRY%billing", "broker-a", 0)


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def codes(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint8)


HISTORY = rounds(
    {
        HEAD: [(10, 100), (10, 130), None, (40, 130)],
        DEAD: [None, None, None, (0, 3)],
        RETRY.head: [(0, 5)] * 4,
    },
    {COMMIT: [90, 100, 100, 35], RETRY: [5, 5, 5, 7]},
    start_ms=3_600_000,
)
# of the rounds of billing: waits, catches up, not read, rewound; of the queue: its oldest message is of 1,000 s
HISTORY[0] = replace(
    HISTORY[0], time_lag_ms=array(4_200, 0), status=codes(2, 1), oldest_ms=array(1_000_000, -1)
)
HISTORY[1] = replace(
    HISTORY[1], time_lag_ms=array(90_000, 0), status=codes(2, 1), oldest_ms=array(1_000_000, -1)
)
HISTORY[3] = replace(
    HISTORY[3],
    time_lag_ms=array(100, -1),
    status=codes(6, 11),
    flags=codes(33, 0),
    oldest_ms=array(1_900_000, -1, -1),
)


def as_dict(samples: Samples) -> dict[SeriesKey, dict[str, list[int]]]:
    return {
        key: {name: getattr(samples, name)[place].tolist() for name in SAMPLE_COLUMNS}
        for key, place in samples.slices()
    }


def previous_of(samples: Samples) -> dict[SeriesKey, tuple[int, ...]]:
    columns = (getattr(samples.previous, name).tolist() for name in SAMPLE_COLUMNS)
    return dict(zip(samples.keys, zip(*columns, strict=True), strict=True))


def test_it_writes_the_documented_row() -> None:
    earlier = snapshot(3_595_000, {HEAD: (10, 99)}, {COMMIT: 80}, pulled={COMMIT: 95})
    table = chunk.compact(HISTORY, interval_ms=5_000, previous=earlier)
    rows = {(row["kind"], row["topic"]): row for row in table.to_pylist()}
    assert list(rows) == [
        ("DLQ", "%DLQ%billing"),
        ("HEAD", "%RETRY%billing"),
        ("HEAD", "orders"),
        ("RETRY", "%RETRY%billing"),
        ("GROUP", "orders"),
    ]
    assert rows["GROUP", "orders"] == {
        "kind": "GROUP",
        "group": "billing",
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": 0,
        "incarnation": 0,
        "interval_ms": 5000,
        "t0_ms": 3_600_000,
        "n": 3,
        "prev_t_ms": 3_595_000,
        "prev_max": 99,
        "prev_min": 10,
        "prev_committed": 80,
        "prev_pulled": 95,
        "prev_time_lag": None,
        "prev_status": 1,
        "prev_flags": 0,
        "prev_oldest": None,
        "max0": 100,
        "min0": 10,
        "max_last": 130,
        "min_last": 40,
        "committed_last": 35,
        "lag_base": 0,
        "dt_ms": struct.pack("<3i", 0, 5000, 15000),
        "dmax": [0, 30, 0],
        "dmin": [0, 0, 30],
        "lag": [10, 30, 95],
        "in_flight": None,
        "time_lag_base": 0,
        "time_lag": [42, 900, 1],
        "status_base": 0,
        "status": [2, 2, 6],
        "flags_base": 0,
        "flags": [0, 0, 33],
        "oldest_base": 19_000,
        "oldest": [-9_000, -9_000, 0],
    }
    assert rows["DLQ", "%DLQ%billing"]["lag"] is None
    # what never changed takes no items
    assert [rows["HEAD", "%RETRY%billing"][name] for name in ("dmax", "dmin", "lag_base")] == [None, None, 0]
    # committed beyond max is kept, not clamped
    assert rows["RETRY", "%RETRY%billing"]["lag"] == [0, 0, 0, -2]
    # what did not change takes a number and no list
    head = rows["HEAD", "orders"]
    assert [head[name] for name in ("status_base", "status", "flags_base", "flags")] == [1, None, 0, None]
    assert [head[name] for name in ("time_lag_base", "time_lag", "oldest_base")] == [None, None, 19_000]


def test_it_gives_back_what_was_compacted() -> None:
    samples = from_snapshots(HISTORY)
    decoded = chunk.decode_table(chunk.compact(HISTORY, interval_ms=5_000))
    assert as_dict(decoded) == as_dict(samples)
    assert as_dict(decoded)[SeriesKey(*COMMIT)]["committed"] == [90, 100, 35]
    assert previous_of(decoded) == previous_of(samples)


@pytest.mark.parametrize("jump", [2**31 - 1, 2**31, 2**40])
def test_it_starts_a_new_row_where_32_bits_do_not_suffice(jump: int) -> None:
    history = rounds(
        {HEAD: [(0, 100), (0, 100 + jump), (0, 101 + jump)]}, {COMMIT: [100, 100, 100 + jump]}, start_ms=7
    )
    table = chunk.compact(history, interval_ms=5_000)
    assert table.num_rows > 2 if jump >= 2**31 else table.num_rows == 2
    assert as_dict(chunk.decode_table(table)) == as_dict(from_snapshots(history))
    assert previous_of(chunk.decode_table(table)) == previous_of(from_snapshots(history))


def test_it_survives_parquet_and_reads_one_group(tmp_path: Path) -> None:
    table = chunk.compact(HISTORY, interval_ms=5_000)
    path = str(tmp_path / "hour.parquet")
    chunk.write_chunk(table, path)
    assert chunk.read_chunk(path).equals(table)
    assert chunk.read_chunk(path, group="billing")["kind"].to_pylist() == ["RETRY", "GROUP"]
    assert chunk.read_chunk(path, group="nobody").num_rows == 0
    column = (
        pq.ParquetFile(path).metadata.row_group(0).column(pq.ParquetFile(path).schema.names.index("element"))
    )
    assert "BYTE_STREAM_SPLIT" in column.encodings
    assert column.compression == "ZSTD"


def test_a_row_group_of_a_day_holds_one_group_unless_groups_are_small_or_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunk, "GROUP_ROWS_MIN", 4)
    monkeypatch.setattr(chunk, "ROW_GROUP_ROWS", 8)
    row = chunk.compact(HISTORY, interval_ms=5_000).slice(0, 1)
    names = [name for name, rows in {"a": 6, "b": 2, "c": 3, "d": 20, "e": 1}.items() for _ in range(rows)]
    table = pa.concat_tables([row] * len(names)).unify_dictionaries()
    at = table.schema.get_field_index("group")
    table = table.set_column(at, table.schema.field("group"), [pa.array(names)])
    sink = io.BytesIO()
    with chunk.ChunkWriter(sink, whole_groups=True) as writer:
        writer.write(table)
    file = pq.ParquetFile(sink)
    groups = [
        sorted(set(file.read_row_group(number, columns=["group"])["group"].to_pylist()))
        for number in range(file.num_row_groups)
    ]
    assert groups == [["a"], ["b", "c"], ["d"], ["d"], ["e"]]
    assert chunk.read_chunk(sink, group="d").num_rows == 20


def write_files(folder: Path, history: list[Snapshot], cuts: list[int]) -> list[str]:
    """Split a history at `cuts` into files, chunk and log by turns."""
    paths = []
    bounds = [0, *cuts, len(history)]
    for number, (start, stop) in enumerate(zip(bounds, bounds[1:], strict=False)):
        path = folder / f"{number}.{'parquet' if number % 2 else 'wal'}"
        if number % 2:
            previous = history[start - 1] if start else None
            chunk.write_chunk(
                chunk.compact(history[start:stop], interval_ms=5_000, previous=previous), str(path)
            )
        else:
            state = wal.SegmentState()
            frames = [wal.encode_frame(state, one) for one in history[start:stop]]
            path.write_bytes(wal.encode_header("local", 0) + b"".join(frames))
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("cuts", [[], [1], [2, 3], [1, 2, 3], [0, 4]])
def test_it_loads_a_window_from_any_mix_of_files(tmp_path: Path, cuts: list[int]) -> None:
    paths = write_files(tmp_path, HISTORY, cuts)
    loaded = chunk.load_samples(reversed(paths), 3_600_000, 7_200_000)
    assert as_dict(loaded) == as_dict(from_snapshots(HISTORY))
    twice = chunk.load_samples(paths + paths, 3_600_000, 7_200_000)
    assert as_dict(twice) == as_dict(from_snapshots(HISTORY))


@pytest.mark.parametrize("cuts", [[], [2], [1, 2, 3]])
def test_it_reads_one_group_or_the_heads_of_any_mix_of_files(tmp_path: Path, cuts: list[int]) -> None:
    paths = write_files(tmp_path, HISTORY, cuts)
    wanted = as_dict(from_snapshots(HISTORY))
    for group in ("billing", "", "nobody"):
        found = chunk.load_samples(paths, 3_600_000, 7_200_000, group=group)
        assert as_dict(found) == {key: one for key, one in wanted.items() if key.group == group}


def test_it_cuts_a_window_and_remembers_the_sample_before(tmp_path: Path) -> None:
    paths = write_files(tmp_path, HISTORY, [2])
    loaded = chunk.load_samples(paths, 3_605_000, 3_615_000, group="billing")
    found = as_dict(loaded)
    assert found[SeriesKey(*RETRY)]["t_ms"] == [3_605_000, 3_610_000]
    assert found[SeriesKey(*COMMIT)] == {
        "t_ms": [3_605_000],
        "max_offset": [130],
        "min_offset": [10],
        "committed": [100],
        "pulled": [-1],
        "time_lag_ms": [90_000],
        "status": [2],
        "flags": [0],
        "oldest_ms": [1_000_000],
    }
    assert previous_of(loaded)[SeriesKey(*COMMIT)] == (3_600_000, 100, 10, 90, -1, 4_200, 2, 0, 1_000_000)


def test_a_log_that_was_begun_ahead_has_the_sample_before_it(tmp_path: Path) -> None:
    first = wal.SegmentState()
    wal.encode_frame(first, HISTORY[0])
    state = first.successor()
    data = wal.encode_beginning(state, "local", 3_605_000, HISTORY[0]) + wal.encode_frame(state, HISTORY[1])
    (tmp_path / "begun.wal").write_bytes(data)
    for group in (None, "billing", ""):
        found = chunk.load_samples([str(tmp_path / "begun.wal")], 3_605_000, 7_200_000, group=group)
        wanted = from_snapshots([HISTORY[1]], HISTORY[0])
        assert previous_of(found) == {
            key: one for key, one in previous_of(wanted).items() if group is None or key.group == group
        }
        assert set(found.t_ms.tolist()) == {3_605_000}


def test_it_makes_a_table_of_nothing(tmp_path: Path) -> None:
    assert chunk.compact([], interval_ms=5_000).num_rows == 0
    assert chunk.compact([snapshot(1, {}, {})], interval_ms=5_000).schema == chunk.CHUNK_SCHEMA
    assert len(chunk.load_samples([], 0, 1).t_ms) == 0
    (tmp_path / "torn.wal").write_bytes(b"TMLAG")
    assert len(chunk.load_samples([str(tmp_path / "torn.wal")], 0, 1).t_ms) == 0


MOVES = st.lists(
    st.one_of(st.none(), st.tuples(st.integers(0, 2**33), st.integers(0, 2**33), st.integers(0, 2**33))),
    min_size=1,
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(st.lists(MOVES, min_size=1, max_size=4), st.integers(0, 12), st.integers(0, 99))
def test_it_round_trips_any_history(
    moves: list[list[tuple[int, int, int] | None]], cut: int, chance: int
) -> None:
    width = max(len(one) for one in moves)
    cut = min(cut, width)
    padded = [[*one, *[None] * (width - len(one))] for one in moves]
    history = [
        judged(one, chance)
        for one in rounds(
            {HEAD._replace(queue_id=q): [m and (m[0], m[1]) for m in one] for q, one in enumerate(padded)},
            {COMMIT._replace(queue_id=q): [m and m[2] for m in one] for q, one in enumerate(padded)},
        )
    ]
    whole = from_snapshots(history)
    sink = io.BytesIO()
    chunk.write_chunk(chunk.compact(history, interval_ms=5_000), sink)
    read = chunk.decode_table(chunk.read_chunk(pa.BufferReader(sink.getvalue())))
    assert as_dict(read) == as_dict(whole)
    before = history[cut - 1] if cut else None
    parts = [from_snapshots(history[:cut]), from_snapshots(history[cut:], before)]
    assert as_dict(chunk.merge(parts)) == as_dict(whole)
    later = chunk.decode_table(chunk.compact(history[cut:], interval_ms=5_000, previous=before))
    assert previous_of(later) == previous_of(parts[1])


NEWER = pa.field("filter_ratio", pa.list_(pa.float32()))


def test_it_reads_a_file_of_a_later_version_without_what_that_added() -> None:
    table = chunk.compact(HISTORY, interval_ms=5_000)
    newer, sink = table.append_column(NEWER, pa.nulls(table.num_rows, NEWER.type)), io.BytesIO()
    pq.write_table(newer, sink)
    chunk.check_format(pa.BufferReader(sink.getvalue()))
    for group in (None, "billing"):
        read = chunk.read_chunk(pa.BufferReader(sink.getvalue()), group=group)
        assert read.schema == chunk.CHUNK_SCHEMA
        assert as_dict(chunk.decode_table(read)) == {
            key: one
            for key, one in as_dict(from_snapshots(HISTORY)).items()
            if group is None or key.group == group
        }


def test_it_reads_an_older_file_that_kept_no_judgements() -> None:
    table, sink = chunk.compact(HISTORY, interval_ms=5_000), io.BytesIO()
    names = [field.name for field in table.schema if not field.nullable]
    pq.write_table(table.select([*names, "prev_t_ms", "dmax", "dmin", "lag"]), sink)
    chunk.check_format(pa.BufferReader(sink.getvalue()))
    found = as_dict(chunk.decode_table(chunk.read_chunk(pa.BufferReader(sink.getvalue()), group="billing")))
    assert found[SeriesKey(*COMMIT)] == {
        "t_ms": [3_600_000, 3_605_000, 3_615_000],
        "max_offset": [100, 130, 130],
        "min_offset": [10, 10, 40],
        "committed": [90, 100, 35],
        "pulled": [-1, -1, -1],
        "time_lag_ms": [-1, -1, -1],
        "status": [12, 12, 12],
        "flags": [0, 0, 0],
        "oldest_ms": [-1, -1, -1],
    }
    heads = chunk.decode_table(chunk.read_chunk(pa.BufferReader(sink.getvalue()), group=""))
    assert as_dict(heads)[SeriesKey("", *HEAD)]["status"] == [1, 1, 1]


@pytest.mark.parametrize("lacking", ["group", "max0", "lag_base", "dt_ms"])
def test_it_refuses_a_file_without_offsets(lacking: str) -> None:
    sink = io.BytesIO()
    pq.write_table(chunk.compact(HISTORY, interval_ms=5_000).drop_columns([lacking]), sink)
    for read in (chunk.check_format, chunk.read_chunk):
        with pytest.raises(pa.ArrowInvalid, match=f"lacks the column {lacking}"):
            read(pa.BufferReader(sink.getvalue()))


def test_it_needs_less_than_a_byte_a_sample_of_ordinary_traffic() -> None:
    rng = np.random.default_rng(11)
    queues, times = 400, 240
    active = rng.random(queues) < 0.55
    rates = np.where(active, rng.lognormal(3, 1.5, queues), 0)
    heads = np.cumsum(rng.poisson(rates, (times, queues)), axis=0) + 1000
    lags = rng.poisson(np.minimum(rates, 50), (times, queues))
    history = [
        Snapshot(
            i * 15_000,
            i,
            (),
            [HEAD._replace(queue_id=q) for q in range(queues)],
            heads[i],
            np.zeros(queues, dtype=np.int64),
            [COMMIT._replace(queue_id=q) for q in range(queues)],
            heads[i] - lags[i],
            np.full(queues, -1),
        )
        for i in range(times)
    ]
    sink = io.BytesIO()
    chunk.write_chunk(chunk.compact(history, interval_ms=15_000), sink)
    assert len(sink.getvalue()) / (2 * queues * times) < 1.2


def test_it_reads_what_it_wrote_block_by_block() -> None:
    reference = Reference(SIZES["small"])
    heads, groups = zip(*reference.hour(), strict=True)
    sink = io.BytesIO()
    written = chunk.write_blocks([*heads, *groups], sink, interval_ms=15_000)
    read = chunk.decode_table(chunk.read_chunk(pa.BufferReader(sink.getvalue())))
    assert (written.rows, written.samples) == (len(read.keys), len(read.t_ms)) == (192, 46_080)
    assert list(read.keys) == sorted(read.keys)
    assert as_dict(read) == {key: one for part in [*heads, *groups] for key, one in as_dict(part).items()}


def test_it_makes_the_same_reference_data_again() -> None:
    first, second = (Reference(SIZES["small"]) for _ in range(2))
    for _ in range(2):
        for (_, one), (_, other) in zip(first.hour(), second.hour(), strict=True):
            assert as_dict(one) == as_dict(other)
            assert previous_of(one) == previous_of(other)


def test_it_joins_hours_without_sorting_what_is_in_order() -> None:
    reference = Reference(SIZES["small"])
    hours = [[groups for _, groups in reference.hour()] for _ in range(3)]
    joined = chunk.merge([chunk.merge(hour) for hour in hours])
    assert as_dict(joined) == as_dict(chunk.merge([part for hour in reversed(hours) for part in hour]))
    tables = [chunk.encode_table(chunk.merge(hour), interval_ms=15_000) for hour in hours]
    by_series = pa.concat_tables(tables).sort_by(
        [
            (name, "ascending")
            for name in ("group", "topic", "broker_name", "queue_id", "incarnation", "t0_ms")
        ]
    )
    assert as_dict(chunk.decode_table(by_series)) == as_dict(joined)  # rows as a day file holds them
    assert previous_of(chunk.decode_table(by_series)) == previous_of(joined)


def test_groups_that_share_a_topic_take_little_more_room_than_one(tmp_path: Path) -> None:
    """As many rows as a row group has: their lists are longer than a page of Parquet's usual size."""
    chance = np.random.default_rng(7)
    high = np.cumsum(chance.poisson(100, (400, 240)), axis=1)
    sizes = []
    for groups in (1, 5):
        parts = [
            SeriesKey(f"group-{group}", "orders", "broker-a", queue, 0)
            for group in range(groups)
            for queue in range(400)
        ]
        count = len(parts)
        own = np.tile(high, (groups, 1)).reshape(-1)
        samples = Samples(
            parts,
            np.arange(count + 1, dtype=np.int64) * 240,
            np.tile(np.arange(240, dtype=np.int64) * 15_000, count),
            own,
            np.zeros(len(own), dtype=np.int64),
            own,
            np.full(len(own), -1, dtype=np.int64),
            Previous.none(count),
        )
        path = tmp_path / f"{groups}.parquet"
        chunk.write_chunk(chunk.encode_table(samples, interval_ms=15_000), str(path))
        sizes.append(path.stat().st_size)
    assert sizes[1] < 1.1 * sizes[0]
