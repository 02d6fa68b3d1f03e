"""What the jobs have in common that read rows off timelines: a work item is a period of some groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark.job import HOUR_MS, JobResult, JobSpec
from spark.lag.samples import RETRY_TOPIC_PREFIX
from spark.notes import with_losses
from spark.publish import publish
from spark.rounds import Matrix
from spark.schemas import ddl, report_columns, warning_rows
from spark.timeline import Key, Timeline, topic_lines
from spark.work import HistoryReader, WorkItem, work_items

DAY_MS = 24 * HOUR_MS
ORDER = ("cluster", "window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
Row = dict[str, Any]
# (line, its key, the item, the spec) → rows without what every row has
Lines = Callable[[Iterable[Matrix]], dict[Key, Timeline]]
Rows = Callable[[Timeline, Key, WorkItem, JobSpec], Iterator[Row]]


def transform(work: DataFrame, rows: Rows, schema: pa.Schema, lines: Lines) -> DataFrame:
    """The rows of every line of every item, and warnings (all else null)."""

    def read_off(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                yield from item_batches(WorkItem.from_json(text), rows, schema, lines)

    return work.mapInArrow(read_off, ddl(schema)).select(*report_columns(schema), "warning")


def item_batches(
    item: WorkItem, rows: Rows, schema: pa.Schema, lines: Lines = topic_lines
) -> Iterator[pa.RecordBatch]:
    """The executor's side of one work item."""
    reader = HistoryReader(item)
    for blocks in reader.blocks():
        matrices = (
            Matrix.of(block.samples, block.figures, block.from_ms, block.to_ms, reader.spec.interval_ms)
            for block in blocks
        )
        found = [
            {**shared(line, key, item, reader.spec), **row}
            for key, line in sorted(lines(matrices).items())
            for row in rows(line, key, item, reader.spec)
        ]
        if found:
            yield from pa.Table.from_pylist(found, schema=schema).to_batches()
    reader.close()
    own_files = (path for hour in item.hours for path in hour.files)
    notes = with_losses(reader.notes, own_files, item.from_ms)
    yield from warning_rows(schema, [note.to_json() for note in notes]).to_batches()


def shared(line: Timeline, key: Key, item: WorkItem, spec: JobSpec) -> Row:
    """What every row says of its line and window."""
    complete = line.t_ms[line.complete]
    edges = np.concatenate([[item.from_ms], complete, [item.to_ms]])
    expected = max(1, (item.to_ms - item.from_ms) // spec.interval_ms)
    return {
        "cluster": item.cluster,
        "kind": "RETRY" if key.topic.startswith(RETRY_TOPIC_PREFIX) else "GROUP",
        **key._asdict(),
        "incarnation": line.incarnation,
        "window_start_ms": item.from_ms,
        "window_end_ms": item.to_ms,
        "interval_ms": spec.interval_ms,
        "coverage_pct": round(100 * min(1.0, len(complete) / expected), 2),
        "max_gap_ms": int(np.diff(edges).max()),
        **spec.stamp,
    }


def run_lines(
    spark: SparkSession,
    spec: JobSpec,
    rows: Rows,
    schema: pa.Schema,
    *,
    order: tuple[str, ...] = ORDER,
    lines: Lines = topic_lines,
    finish: Callable[[DataFrame], DataFrame] | None = None,
) -> JobResult:
    """Read, transform, write; `finish` may make other rows from all of them."""
    items = work_items(spec, period_ms=DAY_MS)
    return publish(
        spark,
        spec,
        items,
        lambda work: transform(work, rows, schema, lines),
        schema,
        order,
        finish=finish,
    )
