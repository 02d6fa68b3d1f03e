"""Reports whose rows never pass through Spark: each task writes those of its work items, the driver is told how many.

A queue's row has 70 columns; carrying a hundred thousand of them through the JVM, sorting and writing them there took
ten times as long as making them. An item's rows are complete and in order where they are made, so its file needs
nothing of another: the names of the files are in the order of their rows, and the same spec writes the same bytes.
`output` must be the same folder for every executor, as Spark's own writers ask too.
"""

from __future__ import annotations

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
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark.job import JobResult, JobSpec
from spark.job_process import say
from spark.publish import WARNINGS_MAX, result
from spark.session import context_of
from spark.work import TASKS_MAX, WorkItem

ItemRows = Callable[[WorkItem, list[str]], Iterator[pa.Table]]
ANSWER = pa.schema([pa.field("rows", pa.int64()), pa.field("warning", pa.string())])
ORDER = ("cluster", "window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
KEY = ORDER[3:]  # inside of a period and a grain
# Rows of single queues are read from these files: those of one group, or a few columns of all. A row group has the
# queues of dozens of groups; by the statistics of their names a reader knows which ones to open.
ROW_GROUP_ROWS = 8_000
STATISTICS = ["group", "window_start_ms"]


class Part(msgspec.Struct, frozen=True):
    """A work item and the number of its period and of itself in it, in the order of rows."""

    item: WorkItem
    period: int
    number: int

    def name(self, grain: str) -> str:
        return f"part-{self.period:05}-{grain}-{self.number:03}.parquet"


def publish_parts(
    spark: SparkSession | SparkContext,
    spec: JobSpec,
    items: Sequence[WorkItem],
    rows_of: ItemRows,
    *,
    finish: Callable[[Any, str], object] = lambda files, folder: None,
) -> JobResult:
    """Have the items' rows written into `spec.output`, in place of whatever is there.

    `finish(file system, folder)` may make small tables of them, in folders below.
    """
    started = time.monotonic()
    found: list[tuple[int, str | None]] = []
    if items:
        hours = sum(len(item.hours) for item in items if not item.after)
        say(f"computing {hours} hour{'' if hours == 1 else 's'}")
        files, folder = fsspec.core.url_to_fs(spec.output)
        if files.exists(folder):
            files.rm(folder, recursive=True)
        files.makedirs(folder)
        output = files.unstrip_protocol(folder)
        found = _written(spark, dealt(items), output, rows_of)
        finish(files, folder)
    warnings = sorted({text for _, text in found if text})[:WARNINGS_MAX]
    return result(spark, spec, started=started, rows=sum(count for count, _ in found), warnings=warnings)


def _written(
    spark: SparkSession | SparkContext, tasks: Sequence[bytes], output: str, rows_of: ItemRows
) -> list[tuple[int, str | None]]:
    """(rows, None) and (0, warning) of the tasks, run in one stage. Spark SQL, for which it would be two columns, costs
    six seconds of CPU to begin with; only Spark Connect has no other way.
    """
    context = context_of(spark)
    if context is not None:
        work = context.parallelize(tasks, len(tasks))
        return work.flatMap(lambda task: _answers(write_task(task, output, rows_of))).collect()

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from write_task(tasks[task], output, rows_of)

    # a range has as many partitions as it is told, a number in each: no shuffle
    numbers = cast(SparkSession, spark).range(0, len(tasks), 1, len(tasks))
    return [(row[0], row[1]) for row in numbers.mapInArrow(write, "rows bigint, warning string").collect()]


def _answers(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, str | None]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def dealt(items: Sequence[WorkItem]) -> list[bytes]:
    """The items of each task, packed; dealt out one by one, so that a long period is everybody's work."""
    periods = sorted({(item.cluster, item.from_ms) for item in items})
    number = {period: place for place, period in enumerate(periods)}
    parts, seen = [], dict.fromkeys(periods, 0)
    for item in sorted(items, key=lambda item: (item.cluster, item.from_ms, item.after)):
        period = item.cluster, item.from_ms
        parts.append(Part(item, number[period], seen[period]))
        seen[period] += 1
    tasks = min(len(parts), TASKS_MAX)
    return [zlib.compress(msgspec.json.encode(parts[task::tasks]), 1) for task in range(tasks)]


def write_task(packed: bytes, output: str, rows_of: ItemRows) -> Iterator[pa.RecordBatch]:
    """The executor's side: the files of some items."""
    for part in msgspec.json.decode(zlib.decompress(packed), type=list[Part]):
        warnings: list[str] = []
        grains: dict[str, list[pa.Table]] = {}
        for table in rows_of(part.item, warnings):
            for grain, own in _by_grain(table):
                grains.setdefault(grain, []).append(own)
        files, folder = fsspec.core.url_to_fs(output)
        for grain, tables in grains.items():
            _write(files, f"{folder}/{part.name(grain)}", _in_order(tables))
        counts = [sum(table.num_rows for tables in grains.values() for table in tables)]
        answer = {"rows": counts + [0] * len(warnings), "warning": [None, *warnings]}
        yield from pa.table(answer, schema=ANSWER).to_batches()


def _by_grain(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each grain, without the column of warnings."""
    table = table.drop_columns("warning")
    for grain in pc.unique(table["grain"]).to_pylist():
        is_own = pc.equal(table["grain"], grain)
        yield grain, table if pc.all(is_own).as_py() else table.filter(is_own)


def _in_order(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables that are each in the order of their keys as one that is."""
    joined = pa.concat_tables(tables)
    ends = [(_key(table, 0), _key(table, table.num_rows - 1)) for table in tables]
    if all(before[1] < after[0] for before, after in zip(ends, ends[1:], strict=False)):
        return joined
    return joined.sort_by([(name, "ascending") for name in KEY])


def _key(table: pa.Table, row: int) -> tuple[Any, ...]:
    return tuple(table[name][row].as_py() for name in KEY)


def _write(files: Any, path: str, table: pa.Table) -> None:
    """A whole file or none: a task may be cut short, or run twice."""
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.{uuid.uuid4().hex}"
    # numbers hardly repeat: dictionaries of them take a third of the time of writing, and a fifth more room
    words = [field.name for field in table.schema if pa.types.is_string(field.type)]
    with files.open(draft, "wb") as sink:
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
    files.mv(draft, path)
