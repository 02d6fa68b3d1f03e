"""What a task writes, without Spark: files whose names are in the order of their rows, however work is dealt."""

from __future__ import annotations

from pathlib import Path

import fsspec
import msgspec
import pyarrow as pa
import pytest

from spark.job import HourFiles, JobFailed, JobSpec, Promise
from spark.jobs import lag_hour
from spark.lag.local_time import HOUR_MS
from spark.notes import Note
from spark.output import part_files
from spark.output.lag_rows import hour_rows, period_rows
from spark.output.part_files import ORDER, ItemRows, Written
from spark.sources import work
from tests.spark.history_files import AS_OF, START, STEP, generated
from tests.spark.hours import Hour, an_hour
from tests.spark.work_of import rows_of, spec
from tests.support.lag_reference import START_MS


def written(asked: JobSpec, period_ms: int, rows_of_item: ItemRows, folder: Path) -> list[Written]:
    """Every task of the job, the last one first; what they report."""
    tasks = part_files.dealt(work.work_items(asked, period_ms=period_ms))
    return [one for task in tasks[::-1] for one in part_files.write_task(task, str(folder), rows_of_item)]


def two_hours(folder: Path, **changes: object) -> JobSpec:
    first = an_hour(1)
    hours: list[Hour] = [first, an_hour(2, START_MS + HOUR_MS, first)]
    hours[1].read[7, 40:60] = False
    paths = [hour.write(folder / f"{number}.parquet") for number, hour in enumerate(hours)]
    asked = spec([], START_MS, 2, interval_ms=15_000)
    files = [
        HourFiles("local", START_MS + i * HOUR_MS, (path,), tuple(paths[:i])) for i, path in enumerate(paths)
    ]
    return msgspec.structs.replace(asked, hours=tuple(files[::-1]), **changes)


def test_names_of_files_are_in_the_order_of_their_rows_however_work_is_dealt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = two_hours(tmp_path)
    counts = written(asked, HOUR_MS, hour_rows, tmp_path / "whole")
    rows = rows_of(tmp_path / "whole")
    keys = [tuple(row[name] for name in ORDER) for row in rows]
    assert keys == sorted(keys) and len(set(keys)) == len(keys) == sum(one.rows for one in counts) > 40
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == [
        "part-00000-queue-000.parquet",
        "part-00000-topic-000.parquet",
        "part-00001-queue-000.parquet",
        "part-00001-topic-000.parquet",
    ]
    ranges = [("", "group-0"), ("group-0", "group-2"), ("group-2", "\U0010ffff")]
    monkeypatch.setattr(work, "_group_ranges", lambda hours, wanted: ranges)
    monkeypatch.setattr(part_files, "TASKS_MAX", 4)
    written(asked, HOUR_MS, hour_rows, tmp_path / "cut")
    assert len(list((tmp_path / "cut").iterdir())) == 12
    assert rows_of(tmp_path / "cut") == rows
    written(asked, 24 * HOUR_MS, period_rows, tmp_path / "day")
    assert [row["grain"] for row in rows_of(tmp_path / "day")] == sorted(
        row["grain"] for row in rows_of(tmp_path / "day")
    )


@pytest.mark.parametrize(
    ("cores", "periods", "expected"),
    [(2, 1, 4), (8, 1, 16), (400, 1, 20), (8, 2, 8), (8, 24, 4), (1, 1, 4)],
)
def test_few_periods_are_cut_into_as_many_ranges_as_the_cluster_has_cores_for(
    monkeypatch: pytest.MonkeyPatch, cores: int, periods: int, expected: int
) -> None:
    """100,000 series: at least 5,000 a task, at most 25,000."""
    monkeypatch.setattr(
        work, "_ends_of", lambda path: [(f"group-{number:04}", 50) for number in range(2_000)]
    )
    asked = spec(["a.parquet"], 0, periods, slos={"group-0001": (Promise(1, 0.5),)})
    items = work.work_items(asked, period_ms=HOUR_MS, cores=cores)
    assert len(items) == expected * periods
    own = [item for item in items if item.from_ms == 0]
    assert [own[0].after, own[-1].upto] == ["", "\U0010ffff"]
    assert [item.after for item in own[1:]] == [item.upto for item in own[:-1]]
    # an item has the promises of its own groups
    assert [len(JobSpec.from_json(item.spec).slos) for item in own] == [1] + [0] * (len(own) - 1)


def test_a_few_series_are_one_item_however_large_the_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_ends_of", lambda path: [("a", 2_000), ("b", 2_000)])
    assert len(work.work_items(spec(["a.parquet"], 0, 1), period_ms=HOUR_MS, cores=400)) == 1


def test_a_task_that_runs_twice_writes_the_same_files(tmp_path: Path) -> None:
    asked = two_hours(tmp_path)
    written(asked, HOUR_MS, hour_rows, tmp_path / "out")
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    (task, *_) = part_files.dealt(work.work_items(asked, period_ms=HOUR_MS))
    list(part_files.write_task(task, str(tmp_path / "out"), hour_rows))
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == first


def test_a_period_of_which_nothing_can_be_read_is_reported_as_lost(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.parquet")
    (one,) = written(spec([gone], 0, 1), HOUR_MS, hour_rows, tmp_path / "out")
    unread, lost = one.notes
    assert (one.files, one.rows) == ({}, 0)
    assert (unread.path, unread.text.partition(":")[0]) == (gone, "FileNotFoundError")
    assert lost == Note(lost_ms=0)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_period_with_one_readable_file_is_not_lost(tmp_path: Path) -> None:
    asked = two_hours(tmp_path)
    gone = str(tmp_path / "gone.parquet")
    early, late = sorted(asked.hours, key=lambda hour: hour.hour_ms)
    hours = (early, msgspec.structs.replace(late, files=(gone,), older=()))
    day = msgspec.structs.replace(asked, hours=hours)
    found = written(day, 24 * HOUR_MS, period_rows, tmp_path / "day")
    assert [(note.path, note.lost_ms) for one in found for note in one.notes] == [(gone, -1)]
    assert sum(one.rows for one in found) > 0
    found = written(day, HOUR_MS, hour_rows, tmp_path / "hours")
    lost = [note.lost_ms for one in found for note in one.notes if not note.path]
    assert lost == [START_MS + HOUR_MS]


def test_a_job_fails_whose_files_are_not_where_the_driver_looks(tmp_path: Path) -> None:
    """Executors with folders of their own, or an output that was lost: never a report without rows."""
    out = tmp_path / "out"
    reported = written(two_hours(tmp_path), HOUR_MS, hour_rows, out)
    files = fsspec.filesystem("file")
    part_files.require_there(files, str(out), reported)
    (out / "part-00001-queue-000.parquet").write_bytes(b"short")
    with pytest.raises(JobFailed, match=r"wrote 4 files, and 1 of them are not in .*part-00001-queue-000"):
        part_files.require_there(files, str(out), reported)
    with pytest.raises(JobFailed, match="Set REPORTS_URL to storage that the console and every Spark worker"):
        part_files.require_there(files, str(tmp_path / "elsewhere"), reported)


def test_the_worst_of_an_hour_are_ranked_by_each_figure(tmp_path: Path) -> None:
    made = generated()
    files = [made.write_chunk(tmp_path), *made.write_log(tmp_path)]
    written(spec(files, START, 2, as_of_ms=AS_OF, interval_ms=STEP), HOUR_MS, hour_rows, tmp_path / "out")
    lag_hour.write_top(fsspec.filesystem("file"), str(tmp_path / "out"))
    found = rows_of(tmp_path / "out" / "topn")
    topics = [row for row in rows_of(tmp_path / "out") if row["grain"] == "topic" and row["kind"] == "GROUP"]
    expected = set()
    for hour_ms in {row["window_start_ms"] for row in topics}:
        own = [row for row in topics if row["window_start_ms"] == hour_ms]
        for word, (name, sign) in {
            "time_lag": ("time_lag_max_ms", -1),
            "burn": ("burn_rate", -1),
            "time_to_loss": ("time_to_loss_ms", 1),
        }.items():
            bad = [row for row in own if row[name] is not None and (row[name] > 0 or sign > 0)]
            bad.sort(key=lambda row: (sign * row[name], row["group"], row["topic"]))
            expected |= {
                (hour_ms, word, rank, row["group"], row["topic"], float(row[name]))
                for rank, row in enumerate(bad, 1)
            }
    names = ("window_start_ms", "by", "rank", "group", "topic", "value")
    assert {tuple(row[n] for n in names) for row in found if row["by"] != "growth"} == expected
    assert {row["grain"] for row in found} == {"topn"} and len(expected) > 5
    columns = pa.Table.from_pylist(found).column_names
    assert columns == lag_hour.TOP_COLUMNS
    assert found == sorted(
        found, key=lambda row: [str(row["group"]), row["topic"], row["window_start_ms"], row["by"]]
    )
