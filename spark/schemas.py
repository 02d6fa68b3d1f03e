"""The columns that rows of several jobs share, and how Arrow schemas become Spark's.

Every row carries its window, how well that window was observed and what computed it (`STAMP`), so that a figure can be
judged without its page. Null is unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

KEY = (
    pa.field("cluster", pa.string()),
    pa.field("kind", pa.string()),
    pa.field("group", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("broker_name", pa.string()),
    pa.field("queue_id", pa.int32()),
    pa.field("incarnation", pa.int32()),
)
WINDOW = (
    pa.field("window_start_ms", pa.int64()),
    pa.field("window_end_ms", pa.int64()),
    pa.field("interval_ms", pa.int32()),
    pa.field("coverage_pct", pa.float64()),
    pa.field("max_gap_ms", pa.int64()),
)
# Of the spec, so that the same spec gives the same bytes: the time of the report is `as_of_ms`.
STAMP = (
    pa.field("generated_at_ms", pa.int64()),
    pa.field("job_id", pa.string()),
    pa.field("code_version", pa.string()),
)
# Besides rows a task yields what it could not read: a `spark.notes.Note` as JSON, of stores a sentence.
WARNING = pa.field("warning", pa.string())

SQL_TYPES = {
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.list_(pa.int32()): "array<int>",
    pa.list_(pa.int64()): "array<bigint>",
}


def row_schema(*fields: pa.Field | Sequence[pa.Field]) -> pa.Schema:
    """Return a schema of fields and groups of fields, all of them nullable, `grain` first and `warning` last."""
    flat: list[pa.Field] = [pa.field("grain", pa.string())]
    for field in fields:
        flat += [field] if isinstance(field, pa.Field) else list(field)
    return pa.schema([*flat, WARNING])


def ddl(schema: pa.Schema) -> str:
    """Return the schema as Spark DDL."""
    return ", ".join(f"`{field.name}` {SQL_TYPES[field.type]}" for field in schema)


def warning_rows(schema: pa.Schema, warnings: Sequence[str]) -> pa.Table:
    """Return warnings as rows in which everything else is null."""
    return pa.Table.from_pylist([{"warning": text} for text in warnings], schema=schema)


def report_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a report's rows: all but `warning`."""
    return [name for name in schema.names if name != WARNING.name]
