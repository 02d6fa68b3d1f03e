"""Store queues as sheets: columns of the queues of many groups (or topics) as one database value.

No page lists all queues of a cluster; pages need those of a group, a topic or a broker. So a cluster has at most
`SHEETS` sheets of either kind, a round writes some dozens of values instead of a row for each of 40,000 queues, and the
page of a group decodes one of them. A sheet is an Arrow IPC stream of one record batch with LZ4 buffers: the key's
fields first, then the others of `queue_row`; unknown is stored as in `columns` (`NULL`, NaN). A column that a sheet of
an older version lacks is unknown, one that no longer exists is ignored: a new figure needs no migration of sheets.
"""

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from console.lag.models import QueueSheet, SheetModel, TopicQueueSheet
from console.lag.round.columns import NULL, texts, values_of
from console.lag.round.keyed_columns import UNKNOWNS, Column, KeyedColumns
from console.lag.round.series import QueueKey, TopicQueueKey
from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.queue_row import QueueRow, TopicQueueRow, kinds_of
from console.text import Text
from console.text.columns import as_stored, of_stored
from spark.lag.snapshot import Int64Array

# 20,000 queues: 25 KB each; reading all of them takes some milliseconds.
SHEETS = 64
ARROW_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string(), Text: pa.string()}
Key = TypeVar("Key", bound=QueueKey | TopicQueueKey)
Row = TypeVar("Row", bound=QueueRow | TopicQueueRow)


@dataclass(frozen=True, slots=True)
class SheetKind(Generic[Key, Row]):
    """Describe the sheets of a model: rows by key, the first field of which determines the sheet."""

    model: type[SheetModel]
    key: type[Key]
    row: type[Row]

    @property
    def kinds(self) -> dict[str, type]:
        """Return field → kind of the key and of the rest, in the order of the sheet."""
        return kinds_of(self.row)

    @property
    def missing(self) -> dict[str, object]:
        """Return field → its value where a sheet does not have it, as columns hold it."""
        kinds = self.kinds
        return {
            one.name: UNKNOWNS[kinds[one.name]] if one.default in (None, MISSING) else one.default
            for one in fields(self.row)
        }


QUEUES = SheetKind(QueueSheet, QueueKey, QueueRow)
TOPIC_QUEUES = SheetKind(TopicQueueSheet, TopicQueueKey, TopicQueueRow)


def sheet_number(name: str) -> int:
    """Return the number of the sheet that has the queues of a group (or topic)."""
    return zlib.crc32(name.encode()) % SHEETS


class SheetStore(Generic[Key, Row]):
    """Keep the sheets of one cluster.

    `load` once, then `replace` per round inside a transaction of the metrics database.
    """

    def __init__(self, kind: SheetKind[Key, Row], cluster: str) -> None:
        self.kind, self.cluster = kind, cluster
        self.rows: KeyedColumns[Key] = KeyedColumns.nothing()
        self._laid_out: _Layout | None = None

    def load(self) -> None:
        """Load the sheets from the database."""
        found = read_columns(self.kind, self.cluster, list(self.kind.kinds))
        lists = [values_of(found.pop(name)) for name in self.kind.key._fields]
        self.rows = KeyedColumns([self.kind.key(*values) for values in zip(*lists, strict=True)], found)

    def replace(self, rows: KeyedColumns[Key]) -> None:
        """Make the database hold exactly these rows."""
        layout, kinds = self._layout(rows.keys), self.kind.kinds
        arrays = [
            *layout.keys,
            *(_stored(column[layout.order], kinds[name]) for name, column in rows.columns.items()),
        ]
        assert [*self.kind.key._fields, *rows.columns] == list(kinds), "a column for every field"
        batch = pa.RecordBatch.from_arrays(arrays, schema=_schema(kinds))
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
        model = self.kind.model
        sheets = [
            model(
                cluster=self.cluster,
                number=number,
                data=_encoded(batch.slice(start, end - start), options),
            )
            for number, start, end in layout.sheets
        ]
        every = model._default_manager
        every.bulk_create(
            sheets, update_conflicts=True, unique_fields=["cluster", "number"], update_fields=["data"]
        )
        every.filter(cluster=self.cluster).exclude(number__in=[one.number for one in sheets]).delete()
        self.rows = rows

    def _layout(self, keys: list[Key]) -> "_Layout":
        known = self._laid_out
        if known is None or known.laid_out is not keys:
            known = self._laid_out = _layout(keys, self.kind)
        return known


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Map rows to sheets: `sheets` are (number, first, after the last) in `order`."""

    laid_out: Sequence[Any]
    order: Int64Array
    sheets: Sequence[tuple[int, int, int]]
    keys: Sequence[pa.Array]


def _layout(keys: list[Key], kind: SheetKind[Key, Row]) -> _Layout:
    names = [key[0] for key in keys]
    numbers = {name: sheet_number(name) for name in dict.fromkeys(names)}
    number_of = np.array([numbers[name] for name in names], dtype=np.int64)
    order = np.argsort(number_of, kind="stable")
    bounds = np.searchsorted(number_of[order], np.arange(SHEETS + 1)).tolist()
    spans = zip(range(SHEETS), bounds, bounds[1:], strict=False)
    columns = list(zip(*(keys[at] for at in order.tolist()), strict=True)) or [()] * len(kind.key._fields)
    return _Layout(
        keys,
        order,
        [(number, start, end) for number, start, end in spans if end > start],
        [
            pa.array(column, type=ARROW_TYPES[kind.kinds[name]])
            for name, column in zip(kind.key._fields, columns, strict=True)
        ],
    )


def _schema(kinds: Mapping[str, type]) -> pa.Schema:
    return pa.schema([pa.field(name, ARROW_TYPES[kind]) for name, kind in kinds.items()])


def _stored(column: Column, kind: type) -> pa.Array:
    """Return a column as a sheet stores it: a text as its JSON."""
    if kind is not Text:
        return pa.array(column)
    values = column.tolist()
    stored = {value: as_stored(value) for value in set(values)}
    return pa.array([stored[value] for value in values], type=pa.string())


def _restored(column: Column, kind: type) -> Column:
    """Return a sheet's column as rows hold it."""
    if kind is not Text:
        return column
    values = column.tolist()
    restored = {value: of_stored(value) for value in set(values)}
    return texts([restored[value] for value in values])


def _encoded(batch: pa.RecordBatch, options: pa.ipc.IpcWriteOptions) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


# ---- reading ----


def read_columns(
    kind: SheetKind[Key, Row],
    cluster: str,
    names: Sequence[str],
    *,
    where: str = "",
    values: Collection[str] = (),
) -> dict[str, Column]:
    """Return some columns of all queues, or of those whose text field `where` has one of `values`. One query."""
    sheets = kind.model._default_manager.filter(cluster=cluster)
    if where == kind.key._fields[0]:
        sheets = sheets.filter(number__in={sheet_number(value) for value in values})
    kinds, missing = kind.kinds, kind.missing
    place = list(kinds).index(where) if where else 0  # the key's fields are first on every sheet
    wanted = pa.array(sorted(values), type=pa.string())
    found: list[dict[str, Column]] = []
    for data in sheets.order_by("number").values_list("data", flat=True):
        buffer = pa.py_buffer(data)
        chosen = None
        if where:
            chosen = pc.is_in(_decoded(buffer, [place]).column(0), value_set=wanted)
            if not chosen.true_count:
                continue
        with pa.ipc.open_stream(buffer) as sheet:
            places = [at for at, name in enumerate(sheet.schema.names) if name in names]
        batch = _decoded(buffer, places)
        batch = batch if chosen is None else batch.filter(chosen)
        known = dict(zip(batch.schema.names, batch.columns, strict=True))
        found.append(
            {
                name: _restored(known[name].to_numpy(zero_copy_only=False), kinds[name])
                if name in known
                else np.full(len(batch), missing[name])
                for name in names
            }
        )
    if not found:
        return {name: np.array([], dtype=ARROW_TYPES[kinds[name]].to_pandas_dtype()) for name in names}
    return {name: np.concatenate([one[name] for one in found]) for name in names}


def read_table(
    kind: SheetKind[Key, Row], cluster: str, names: Sequence[str], values: Collection[str] | None = None
) -> pa.Table:
    """Return columns that every sheet has of all queues, or of those whose first key field is one of `values`.

    As Arrow's, unknown numbers are null: for sums over tens of thousands of queues. One query.
    """
    sheets = kind.model._default_manager.filter(cluster=cluster)
    first = kind.key._fields[0]
    if values is not None:
        sheets = sheets.filter(number__in={sheet_number(value) for value in values})
    kinds = {name: kind.kinds[name] for name in names}
    batches = []
    for data in sheets.order_by("number").values_list("data", flat=True):
        buffer = pa.py_buffer(data)
        with pa.ipc.open_stream(buffer) as sheet:
            places = [sheet.schema.get_field_index(name) for name in names]
        batches.append(_decoded(buffer, places).select(list(names)))
    table = pa.Table.from_batches(batches, schema=_schema(kinds))
    if values is not None:
        table = table.filter(pc.field(first).isin(pa.array(sorted(values), type=pa.string())))
    for at, name in enumerate(names):
        if kinds[name] is int:
            column = table.column(name)
            known = pc.if_else(pc.equal(column, NULL), pa.scalar(None, pa.int64()), column)
            table = table.set_column(at, name, known)
    return table


def read_rows(
    kind: SheetKind[Key, Row], cluster: str, where: str, values: Collection[str]
) -> ColumnRows[Row]:
    """Return the queues whose text field `where` has one of `values`, in the order of their keys. One query."""
    rows = ColumnRows(kind.row, read_columns(kind, cluster, list(kind.kinds), where=where, values=values))
    keys = list(zip(*(rows.values(name) for name in kind.key._fields), strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return rows if order == list(range(len(keys))) else rows.part(order)


def _decoded(sheet: pa.Buffer, places: Sequence[int]) -> pa.RecordBatch:
    """Return the columns at these indexes."""
    options = pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
    with pa.ipc.open_stream(sheet, options=options) as stream:
        return stream.read_next_batch()
