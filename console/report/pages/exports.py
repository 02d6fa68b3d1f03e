"""Rows of reports as files: CSV line by line, Parquet by row groups, HTML as one page that needs nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from console.lists.export_size import SAMPLE_ROWS_MAX, ExportSize, estimated
from console.lists.page import Page
from console.report import selectors
from console.report.pages import html_report
from console.report.selectors import AnyRows
from console.text import Text


class Format(NamedTuple):
    """A kind of file, and its name for people."""

    content_type: str
    label: str


FORMATS = {
    "csv": Format("text/csv; charset=utf-8", "CSV"),
    "parquet": Format("application/vnd.apache.parquet", "Parquet"),
    "html": Format("text/html; charset=utf-8", "HTML"),
}
ROWS_A_GROUP = 5_000
CHUNK_BYTES = 64 * 1024


def export(fmt: str, rows: AnyRows, *, job: str, cluster: str, now_ms: int) -> Iterator[Any]:
    """The rows in one of FORMATS, in pieces; memory does not grow with their number."""
    if fmt == "parquet":
        return _parquet(rows)
    if fmt == "html":
        return iter([html_report.page(rows, job, cluster, now_ms)])
    return selectors.csv_lines(rows)


def export_size(fmt: str, page: Page[Any]) -> ExportSize:
    """Return the size of a file, by the page's rows; not known for rows of files, and for other formats than CSV."""
    if fmt == "html":
        scope = Text("the rows that match the filter, at most %(most)s per table", most=html_report.ROWS_MAX)
        return ExportSize(page.total, None, scope=scope)
    total = min(page.total, selectors.EXPORT_ROWS_MAX)
    guess = None
    keys = [row.pk for row in page.rows[:SAMPLE_ROWS_MAX] if row.pk is not None]
    if fmt == "csv" and keys:
        head, *lines = selectors.csv_lines(type(page.rows[0])._default_manager.filter(pk__in=keys))
        guess = estimated(total, lines, head)
    return ExportSize(total, guess, scope=Text("the rows that match the filter"))


def _parquet(rows: AnyRows) -> Iterator[bytes]:
    """Row groups go to a temporary file; its bytes come out once the footer is written."""
    names, lines = selectors.table_rows(rows)
    with tempfile.TemporaryFile(prefix="tidemark-report-") as file:
        _write_parquet(file, names, lines)
        file.seek(0)
        while piece := file.read(CHUNK_BYTES):
            yield piece


def _write_parquet(file: IO[bytes], names: list[str], lines: Iterator[Sequence[Any]]) -> None:
    batch: list[Sequence[Any]] = []
    writer: pq.ParquetWriter | None = None
    types: list[pa.DataType] = []

    def flush() -> None:
        nonlocal writer, types
        columns = [[selectors.flat(line[place]) for line in batch] for place in range(len(names))]
        if writer is None:
            types = [_type(name, column) for name, column in zip(names, columns, strict=True)]
            schema = pa.schema(list(zip(names, types, strict=True)))
            writer = pq.ParquetWriter(file, schema, compression="zstd")
        arrays = [
            pa.array([_as(kind, value) for value in column], kind)
            for kind, column in zip(types, columns, strict=True)
        ]
        writer.write_table(pa.Table.from_arrays(arrays, schema=writer.schema))
        batch.clear()

    for line in lines:
        batch.append(line)
        if len(batch) >= ROWS_A_GROUP:
            flush()
    if batch or writer is None:
        flush()
    assert writer is not None
    writer.close()


def _type(name: str, column: Sequence[Any]) -> pa.DataType:
    """Of the first row group: what is text is text, whole numbers stay whole unless a rate could be a fraction."""
    kinds = {type(value) for value in column if value is not None}
    if kinds <= {bool} and kinds:
        return pa.bool_()
    if kinds <= {int} and kinds and not name.endswith(("_pct", "_rate", "_mean", "per_s", "max", "_factor")):
        return pa.int64()
    if kinds and kinds <= {int, float}:
        return pa.int64() if kinds == {int} and name.endswith("_ms") else pa.float64()
    return pa.string()


def _as(kind: pa.DataType, value: Any) -> Any:
    """A value of a later row group in the column's type."""
    if value is None:
        return None
    cast: dict[pa.DataType, Callable[[Any], Any]] = {
        pa.string(): str,
        pa.int64(): int,
        pa.float64(): float,
        pa.bool_(): bool,
    }
    return cast[kind](value)
