"""Reports whose rows never pass through Spark: each task writes those of its work items under `output` itself.

A queue's row has 70 columns; carrying a hundred thousand of them through the JVM, sorting and writing them there took
ten times as long as making them. An item's rows are complete and in order where they are made, so its file needs
nothing of another: the names of the files are in the order of their rows, and the same spec writes the same bytes.
`output` is storage that every executor writes to and the driver reads: tasks report the files they wrote, and a job
whose files are not there fails.
"""

from __future__ import annotations

import os
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark.job import JobFailed, JobResult, JobSpec
from spark.notes import Note, with_losses
from spark.output.publish import emptied, result
from spark.process.job_process import report_step
from spark.process.session import context_of, cores_of
from spark.sources.work import TASKS_MAX, TASKS_PER_CORE, WorkItem

ItemRows = Callable[[WorkItem, list[Note]], Iterator[pa.Table]]
ORDER = ("cluster", "window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
KEY = ORDER[3:]  # inside of a period and a grain
# Rows of single queues are read from these files: those of one group, or a few columns of all. A row group has the
# queues of dozens of groups; by the statistics of their names a reader finds which ones to open.
ROW_GROUP_ROWS = 8_000
STATISTICS = ["group", "window_start_ms"]


class Part(msgspec.Struct, frozen=True):
    """A work item and the number of its period and of itself in it, in the order of rows."""

    item: WorkItem
    period: int
    number: int

    def name(self, grain: str) -> str:
        return f"part-{self.period:05}-{grain}-{self.number:03}.parquet"


class Written(msgspec.Struct, frozen=True):
    """What a task reports of a part: the bytes of each file by its name, how many rows, and what is missing in them."""

    files: dict[str, int]
    rows: int
    notes: list[Note]


def publish_parts(
    spark: SparkSession | SparkContext,
    spec: JobSpec,
    items: Sequence[WorkItem],
    rows_of: ItemRows,
    *,
    finish: Callable[[Any, str], object] = lambda files, folder: None,
) -> JobResult:
    """Let tasks write the items' rows into `spec.output`, replacing its contents. Raises JobFailed.

    `finish(file system, folder)` may make small tables of them, in folders below.
    """
    started = time.monotonic()
    written: list[Written] = []
    if items:
        hours = sum(len(item.hours) for item in items if not item.after)
        report_step("hours", hours)
        files, folder = emptied(spec.output)
        written = _written(spark, dealt(items, cores_of(spark)), files.unstrip_protocol(folder), rows_of)
        require_there(files, folder, written)
        finish(files, folder)
    notes = [note for one in written for note in one.notes]
    return result(spark, spec, started=started, rows=sum(one.rows for one in written), notes=notes)


def require_there(files: Any, folder: str, written: Sequence[Written]) -> None:
    """Raise JobFailed unless every file that a task reports is in the folder, as long as it was."""
    claimed = {name: size for one in written for name, size in one.files.items()}
    if not claimed:
        return
    files.invalidate_cache()
    try:
        found = {entry["name"].rpartition("/")[2]: entry["size"] for entry in files.ls(folder, detail=True)}
    except OSError:
        found = {}
    absent = sorted(name for name, size in claimed.items() if found.get(name) != size)
    if absent:
        raise JobFailed(
            f"The tasks wrote {len(claimed)} files, and {len(absent)} of them are not in {folder} (the first is "
            f"{absent[0]}). Set REPORTS_URL to storage that the console and every Spark worker share."
        )


def _written(
    spark: SparkSession | SparkContext, tasks: Sequence[bytes], output: str, rows_of: ItemRows
) -> list[Written]:
    """Run the tasks in one stage and return what they report.

    Spark SQL, where it would be one column, costs six seconds of CPU to start; only Spark Connect has no other way.
    """
    context = context_of(spark)
    if context is not None:
        work = context.parallelize(tasks, len(tasks))
        answers = work.flatMap(lambda task: map(_encoded, write_task(task, output, rows_of))).collect()
        return [_decoded(answer) for answer in answers]

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                answers = [_encoded(one) for one in write_task(tasks[task], output, rows_of)]
                yield pa.record_batch({"answer": pa.array(answers, pa.string())})

    # a range has the requested number of partitions, a number in each: no shuffle
    numbers = cast(SparkSession, spark).range(0, len(tasks), 1, len(tasks))
    return [_decoded(row[0]) for row in numbers.mapInArrow(write, "answer string").collect()]


def _encoded(one: Written) -> str:
    return msgspec.json.encode(one).decode()


def _decoded(answer: str) -> Written:
    return msgspec.json.decode(answer, type=Written)


def dealt(items: Sequence[WorkItem], cores: int = 2) -> list[bytes]:
    """Return the items of each task, packed; dealt out one by one, so that a long period is shared by all tasks."""
    periods = sorted({(item.cluster, item.from_ms) for item in items})
    number = {period: place for place, period in enumerate(periods)}
    parts, seen = [], dict.fromkeys(periods, 0)
    for item in sorted(items, key=lambda item: (item.cluster, item.from_ms, item.after)):
        period = item.cluster, item.from_ms
        parts.append(Part(item, number[period], seen[period]))
        seen[period] += 1
    tasks = min(len(parts), max(TASKS_MAX, TASKS_PER_CORE * cores))
    return [zlib.compress(msgspec.json.encode(parts[task::tasks]), 1) for task in range(tasks)]


def write_task(packed: bytes, output: str, rows_of: ItemRows) -> Iterator[Written]:
    """Write the files of some items, on an executor."""
    files, folder = fsspec.core.url_to_fs(output)
    files.makedirs(folder, exist_ok=True)
    for part in msgspec.json.decode(zlib.decompress(packed), type=list[Part]):
        notes: list[Note] = []
        grains: dict[str, list[pa.Table]] = {}
        for table in rows_of(part.item, notes):
            for grain, own in _by_grain(table):
                grains.setdefault(grain, []).append(own)
        sizes = {
            part.name(grain): _write(files, f"{folder}/{part.name(grain)}", _in_order(tables))
            for grain, tables in grains.items()
        }
        own_files = (path for hour in part.item.hours for path in hour.files)
        rows = sum(table.num_rows for tables in grains.values() for table in tables)
        yield Written(sizes, rows, with_losses(notes, own_files, part.item.from_ms))


def _by_grain(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Return the rows of each grain, without the column of warnings."""
    table = table.drop_columns("warning")
    for grain in pc.unique(table["grain"]).to_pylist():
        is_own = pc.equal(table["grain"], grain)
        yield grain, table if pc.all(is_own).as_py() else table.filter(is_own)


def _in_order(tables: Sequence[pa.Table]) -> pa.Table:
    """Merge tables that are each in the order of their keys into one in that order."""
    joined = pa.concat_tables(tables)
    ends = [(_key(table, 0), _key(table, table.num_rows - 1)) for table in tables]
    if all(before[1] < after[0] for before, after in zip(ends, ends[1:], strict=False)):
        return joined
    return joined.sort_by([(name, "ascending") for name in KEY])


def _key(table: pa.Table, row: int) -> tuple[Any, ...]:
    return tuple(table[name][row].as_py() for name in KEY)


def _write(files: Any, path: str, table: pa.Table) -> int:
    """Write a whole file or none, as a task may be cut short or run twice; return its bytes.

    On a local disk that takes a draft, made durable and renamed. Object storage shows a file when it is complete.
    """
    if not isinstance(files, LocalFileSystem):
        with files.open(path, "wb") as sink:
            _write_table(table, sink)
        return int(files.size(path))
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.{uuid.uuid4().hex}"
    with open(draft, "wb") as sink:
        _write_table(table, sink)
        sink.flush()
        os.fsync(sink.fileno())
        size = sink.tell()
    os.replace(draft, path)
    _sync(folder)
    return size


def _write_table(table: pa.Table, sink: Any) -> None:
    # numbers hardly repeat: dictionaries of them take a third of the time of writing, and a fifth more room
    words = [field.name for field in table.schema if pa.types.is_string(field.type)]
    pq.write_table(
        table.combine_chunks(),
        sink,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=words,
        write_statistics=STATISTICS,
        write_page_checksum=True,
    )


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
