"""A day in buckets tells the same as a day in one file."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.lag.history import buckets, compaction
from spark.lag.history.compaction import DayMerge, MergeInput
from spark.lag.snapshot import CommitKey, HeadKey
from spark.sources.chunk_buckets import ChunkBuckets, open_chunk
from spark.sources.chunk_file import LAST_NAME, ChunkFile
from tests.spark.lag.sample_history import rounds

HOUR = 3_600_000
HEADS = [HeadKey(topic, "broker-a", 0) for topic in ("%DLQ%group-1", "orders")]
RANGES = [("", LAST_NAME), ("", "group-1"), ("group-0", "group-3"), ("group-3", "group-4"), ("x", LAST_NAME)]


def inputs() -> list[MergeInput]:
    found = []
    for hour in range(3):
        made = rounds(
            {head: [(0, hour), (0, hour + 1)] for head in HEADS},
            {CommitKey(f"group-{number}", *HEADS[1]): [0, number % 2] for number in range(6)},
            start_ms=hour * HOUR,
        )
        sink = io.BytesIO()
        compaction.write_hour(made, sink, interval_ms=5_000)
        found.append(MergeInput(pa.BufferReader(sink.getvalue()), hour * HOUR, (hour + 1) * HOUR))
    return found


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ChunkFile, ChunkBuckets]:
    monkeypatch.setattr(compaction, "MERGE_ROWS", 1)
    whole = tmp_path / "whole.parquet"
    compaction.DayMerge(inputs()).write_bucket(str(whole))
    merge = DayMerge(inputs(), 3)
    paths = [str(tmp_path / f"b={number}-g1.parquet") for number in range(3)]
    for path in paths:
        merge.write_bucket(path)
    assert merge.is_done
    one, several = open_chunk(str(whole)), open_chunk(buckets.joined_path(paths))
    assert isinstance(one, ChunkFile) and isinstance(several, ChunkBuckets)
    return one, several


@pytest.mark.parametrize(("from_ms", "to_ms"), [(0, 3 * HOUR), (HOUR, 2 * HOUR), (9 * HOUR, 10 * HOUR)])
def test_it_reads_the_rows_of_a_range_of_groups(
    both: tuple[ChunkFile, ChunkBuckets], from_ms: int, to_ms: int
) -> None:
    one, several = both
    for after, upto in RANGES:
        for columns in (None, ["group", "topic", "t0_ms", "lag"]):
            wanted = one.rows(after, upto, from_ms, to_ms, columns)
            found = several.rows(after, upto, from_ms, to_ms, columns)
            assert found.to_pylist() == wanted.to_pylist()
            assert found.schema == wanted.schema
    assert (
        several.heads("%DLQ%", from_ms, to_ms).to_pylist() == one.heads("%DLQ%", from_ms, to_ms).to_pylist()
    )
    assert several.is_whole_in(from_ms, to_ms) == one.is_whole_in(from_ms, to_ms)
    several.release()


def test_its_row_groups_are_those_of_all_files(both: tuple[ChunkFile, ChunkBuckets]) -> None:
    one, several = both
    ends = several.group_ends()
    assert [end for end, _ in ends] == sorted(end for end, _ in ends)
    assert ends[-1][0] == one.group_ends()[-1][0] == "group-5"


def test_a_file_of_an_earlier_version_has_nulls_for_later_columns(
    tmp_path: Path, both: tuple[ChunkFile, ChunkBuckets]
) -> None:
    later = ("flags", "flags_base", "prev_flags")
    old = tmp_path / "old.parquet"
    pq.write_table(pq.read_table(both[0].path).drop_columns(later), old)
    file = ChunkFile(str(old))
    found = file.rows("", LAST_NAME, 0, 3 * HOUR)
    assert found.num_rows == both[0].rows("", LAST_NAME, 0, 3 * HOUR).num_rows
    assert {name: found[name].null_count for name in later} == dict.fromkeys(later, found.num_rows)
    file.close()
    pq.write_table(pq.read_table(both[0].path).drop_columns(["max0"]), old)
    with pytest.raises(pa.ArrowInvalid, match="lacks the column max0"):
        ChunkFile(str(old))


def test_a_day_that_lacks_a_bucket_is_not_a_day(both: tuple[ChunkFile, ChunkBuckets]) -> None:
    several = both[1]
    several.close()
    Path(buckets.split_path(several.path)[1]).unlink()
    with pytest.raises(FileNotFoundError):
        open_chunk(several.path)


def test_a_path_stands_for_buckets() -> None:
    paths = [f"s3://history/date=2026-11-21/b={number}-g12.parquet" for number in (0, 1, 3, 10)]
    joined = "s3://history/date=2026-11-21/b=0,1,3,10-g12.parquet"
    assert buckets.joined_path(paths) == joined
    assert buckets.split_path(joined) == paths
    for path in (paths[0], "/data/day.parquet", "/data/1700.wal", "b=0-g1.parquet"):
        assert buckets.split_path(path) == [path]
    assert buckets.joined_path(["b=0-g1.parquet", "b=1-g1.parquet"]) == "b=0,1-g1.parquet"
