"""The common part of jobs that read rows off lines (`folds.line`): a work item is a period of some groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark.job import JobResult, JobSpec
from spark.lag.folds.line import Line, LineKey
from spark.lag.local_time import DAY_MS
from spark.lag.samples import RETRY_TOPIC_PREFIX
from spark.notes import with_losses
from spark.output.publish import publish
from spark.process.session import cores_of
from spark.schemas import ddl, report_columns, warning_rows
from spark.sources.work import HistoryReader, Window, WorkItem, work_items

ORDER = ("cluster", "window_start_ms", "grain", "group", "topic", "broker_name", "queue_id")
Row = dict[str, Any]
# The hours of some groups, one after the other → their rows in the order of their keys
Rows = Callable[[Iterable[Window], HistoryReader], Iterator[Row]]


def transform(work: DataFrame, rows: Rows, schema: pa.Schema) -> DataFrame:
    """Return the rows of every item, and warnings (all else null)."""

    def read_off(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                yield from item_batches(WorkItem.from_json(text), rows, schema)

    return work.mapInArrow(read_off, ddl(schema)).select(*report_columns(schema), "warning")


def item_batches(item: WorkItem, rows: Rows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one work item, on an executor."""
    reader = HistoryReader(item)
    for windows in reader.blocks():
        found = list(rows(windows, reader))
        if found:
            yield from pa.Table.from_pylist(found, schema=schema).to_batches()
    reader.close()
    own_files = (path for hour in item.hours for path in hour.files)
    notes = with_losses(reader.notes, own_files, item.from_ms)
    yield from warning_rows(schema, [note.to_json() for note in notes]).to_batches()


def shared(line: Line, key: LineKey, item: WorkItem, spec: JobSpec) -> Row:
    """Return the columns of every row about its line and window."""
    there = line.exists > 0
    held = line.held_ms(item.from_ms, item.to_ms)
    whole = np.diff(np.append(np.maximum(line.t_ms, item.from_ms), item.to_ms))
    existed = int(whole[there].sum())
    counted = line.t_ms[line.is_counted & (line.t_ms >= item.from_ms)]
    begin = max(int(line.t_ms[0]), item.from_ms)
    return {
        "cluster": item.cluster,
        "kind": "RETRY" if key.topic.startswith(RETRY_TOPIC_PREFIX) else "GROUP",
        **key._asdict(),
        "incarnation": line.incarnation,
        "window_start_ms": item.from_ms,
        "window_end_ms": item.to_ms,
        "interval_ms": spec.interval_ms,
        "coverage_pct": round(100 * int(held[there & line.is_read].sum()) / existed, 2) if existed else None,
        "max_gap_ms": int(np.diff(np.concatenate([[begin], counted, [item.to_ms]])).max()),
        **spec.stamp,
    }


def run_lines(
    spark: SparkSession,
    spec: JobSpec,
    rows: Rows,
    schema: pa.Schema,
    *,
    order: tuple[str, ...] = ORDER,
    finish: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> JobResult:
    """Read, transform and write; `finish` may make other rows from all of them."""
    items = work_items(spec, period_ms=DAY_MS, cores=cores_of(spark))
    return publish(
        spark, spec, items, lambda work: transform(work, rows, schema), schema, order, finish=finish
    )
