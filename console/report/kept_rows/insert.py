"""Insert rows of reports from their Parquet files into the database; rows of single queues stay in files.

See `console.report.kept_rows.queue_files`. Rows of lag reports go in as columns, not as instances of the model: a day
of 1,000 groups has 24,000 rows, which took 6 s as instances, in a transaction that blocks all other writers of
SQLite.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from console.report.kept_rows.queue_rows import named_status_ms
from console.report.models import LagRow, ReportRow, Stamp
from console.text import JsonObject

ROWS_AT_ONCE = 5_000  # 10 MB of them
REPORT_ROWS_AT_ONCE = 1_000
SHARED_COLUMNS = frozenset(field.attname for field in ReportRow._meta.concrete_fields) - {"figures"}
# In files beside the rows: what the run's stamp replaces, and the job's id.
ONLY_OF_JOBS = frozenset((*Stamp._fields, "job_id"))
# Histograms stay in the Parquet file, for days and weeks to add up.
ONLY_IN_FILES = ("_buckets", "_counts")
# A null is an empty field, an empty text is "".
AS_CSV = pacsv.WriteOptions(include_header=False, quoting_style="all_valid")


def insert_lag_rows(file: pq.ParquetFile, stamp: Stamp) -> int:
    """Insert the rows of a file and return how many.

    `stamp`: columns that replace the file's in every row. Raises ValueError for a column that the table
    lacks.
    """
    into = connections[router.db_for_write(LagRow)]
    write = _copy if into.vendor == "postgresql" else _insert
    count = 0
    for table in _tables(file, stamp):
        write(into, table)
        count += table.num_rows
    return count


def insert_report_rows(table: pa.Table | None, stamp: Stamp) -> int:
    """Insert the few rows of other reports: shared columns as columns, the known figures as JSON."""
    if table is None:
        return 0
    for batch in table.to_batches(REPORT_ROWS_AT_ONCE):
        ReportRow.objects.bulk_create([_report_row(row, stamp) for row in batch.to_pylist()])
    return int(table.num_rows)


def _report_row(row: JsonObject, stamp: Stamp) -> ReportRow:
    own = {name: value for name, value in row.items() if name not in ONLY_OF_JOBS and value is not None}
    shared = {name: own.pop(name) for name in SHARED_COLUMNS & own.keys()}
    return ReportRow(**stamp._asdict(), **shared, figures=own)


def _tables(file: pq.ParquetFile, stamp: Stamp) -> Iterator[pa.Table]:
    """The rows as the table of the model has them, column for column."""
    known = [field for field in LagRow._meta.concrete_fields if not field.primary_key]
    in_file = {
        name
        for name in file.schema_arrow.names
        if name not in ONLY_OF_JOBS and not name.endswith(ONLY_IN_FILES)
    }
    strange = in_file - {field.attname for field in known}
    if strange:
        raise ValueError(f"a report's file has columns that its table lacks: {', '.join(sorted(strange))}")
    for batch in file.iter_batches(ROWS_AT_ONCE, columns=sorted(in_file), use_threads=False):
        arrays = []
        for field in known:
            if field.attname in in_file:
                column = batch.column(field.attname)
            else:
                value = getattr(stamp, field.attname, field.get_default())
                column = pa.repeat(json.dumps(value) if isinstance(value, dict) else value, batch.num_rows)
            arrays.append(_status_ms(column) if pa.types.is_list(column.type) else column)
        yield pa.Table.from_arrays(arrays, names=[field.column for field in known])


def _status_ms(column: pa.Array) -> pa.Array:
    """{status: milliseconds} as JSON, of lists in the order of WORST_FIRST; most of them are the same few."""
    texts: dict[tuple[int, ...], str] = {}
    found = []
    for spent in column.to_pylist():
        key = tuple(spent or ())
        if key not in texts:
            texts[key] = json.dumps(named_status_ms(key))
        found.append(texts[key])
    return pa.array(found, pa.string())


def _columns(into: BaseDatabaseWrapper, names: Sequence[str]) -> tuple[str, str]:
    quote = into.ops.quote_name
    return quote(LagRow._meta.db_table), ", ".join(quote(name) for name in names)


def _copy(into: BaseDatabaseWrapper, table: pa.Table) -> None:
    name, columns = _columns(into, table.column_names)
    text = io.BytesIO()
    pacsv.write_csv(table, text, AS_CSV)
    with (
        into.wrap_database_errors,  # Django's cursor has no COPY
        into.cursor() as cursor,
        cursor.copy(f"COPY {name} ({columns}) FROM STDIN (FORMAT csv)") as rows,
    ):
        rows.write(text.getbuffer())


def _insert(into: BaseDatabaseWrapper, table: pa.Table) -> None:
    name, columns = _columns(into, table.column_names)
    places = ", ".join(["%s"] * table.num_columns)
    with into.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {name} ({columns}) VALUES ({places})",
            list(zip(*(column.to_pylist() for column in table.columns), strict=True)),
        )
