"""Read rows of single queues from the files that `rows.queue_files` publishes: the only reader.

A query (`QueueRows`) works like one of the database: filtered, counted, paged in any order, summed up, streamed.
Only the columns that a query needs are read, file by file, so memory does not grow with the time range. A file
that cannot be read is a gap with a reason (`QueueRows.gaps`); its rows are missing, never zero.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import fsspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from console.access.name_scope import EVERYTHING, NameScope
from console.lists.page import Page
from console.report.kept_rows.queue_files import UNREADABLE, State, location, what_is_wrong
from console.report.models import LagRow, QueueRowFile
from console.text import Text
from spark.lag.round.status import WORST_FIRST

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
# Of one query. Two weeks of hours of 1,000 groups are 1,350 files, two years of days 2,900.
FILES_MAX = 3_000
# How far a list can be paged through; rows beyond need a download, or a narrower query.
ROWS_REACHED_MAX = 20_000
DEFAULTS = {each.attname: each.get_default() for each in LagRow._meta.concrete_fields if not each.primary_key}
COLUMNS = tuple(DEFAULTS)
SUMS = ("produced", "consumed", "breach_ms")
HIGHEST = ("time_lag_max_ms", "lag_max", "slo_ms", "interval_ms")
LOWEST = ("coverage_pct", "slo_ms")
SUMMED = tuple(dict.fromkeys([*SUMS, *HIGHEST, *LOWEST]))


@dataclass(frozen=True, slots=True)
class Gap:
    """A window, some of whose rows cannot be shown, and why."""

    window_start_ms: int
    window_end_ms: int
    group_first: str
    group_last: str
    reason: Text

    @property
    def sentence(self) -> str:
        """Return a sentence for files and shells; pages have their own texts."""
        start = dt.datetime.fromtimestamp(self.window_start_ms / 1000, dt.UTC)
        groups = f"groups {self.group_first} to {self.group_last}"
        return f"The file of {start:%Y-%m-%d %H:%M} UTC, {groups}, is not read: {self.reason}"


class Cell(NamedTuple):
    """The largest time lag of a queue in a window."""

    topic: str
    broker_name: str
    queue_id: int
    window_start_ms: int
    time_lag_max_ms: int | None


class Row(NamedTuple):
    """The position of a row: the file in the query's list, and the index in it."""

    file: int
    place: int


@dataclass(slots=True)
class QueueRows:
    """A query for the rows of single queues of one lag report.

    `group` keeps names that contain it, `only_group` is one name, `scope` the names that the person may see.
    `gaps` fills while rows are read.
    """

    cluster: str
    job: str
    group: str = ""
    only_group: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    scope: NameScope = EVERYTHING
    run_id: str = ""
    _gaps: dict[int, Gap] = field(default_factory=dict)
    _included: dict[str, bool] = field(default_factory=dict)
    _files: list[QueueRowFile] | None = None

    @property
    def gaps(self) -> list[Gap]:
        """Return what could not be read so far, newest first."""
        return sorted(
            self._gaps.values(), key=lambda gap: (-gap.window_start_ms, gap.group_first, gap.group_last)
        )

    def files(self) -> list[QueueRowFile]:
        """Return the files that may hold matching rows, newest window first, then in the order of groups."""
        if self._files is None:
            self._files = self._listed()
        return self._files

    def _listed(self) -> list[QueueRowFile]:
        found = QueueRowFile.objects.filter(
            cluster=self.cluster, job=self.job, state__in=[State.LIVE, State.DAMAGED]
        )
        if self.from_ms is not None:
            found = found.filter(window_start_ms__gte=self.from_ms)
        if self.to_ms is not None:
            found = found.filter(window_start_ms__lt=self.to_ms)
        if self.run_id:
            found = found.filter(run_id=self.run_id)
        files = list(found.order_by("-window_start_ms", "path")[: FILES_MAX + 1])
        is_cut = len(files) > FILES_MAX
        if self.only_group:
            # not in SQL: PostgreSQL may order names by a language's rules, files are by code points
            files = [file for file in files if file.group_first <= self.only_group <= file.group_last]
        for file in files:
            if file.state == State.DAMAGED:
                self.miss(file, file.reason)
        if is_cut and files:
            self.miss(
                files.pop(),
                Text("the requested time is longer than one request reads; choose a shorter one"),
            )
        return [file for file in files if file.state == State.LIVE]

    def miss(self, file: QueueRowFile, reason: Text) -> None:
        """Record that the rows of a file are missing."""
        self._gaps[file.pk] = Gap(
            file.window_start_ms, file.window_end_ms, file.group_first, file.group_last, reason
        )

    @property
    def is_everybody(self) -> bool:
        """Return whether no row of a file is left out."""
        return not self.group and not self.only_group and self.scope.is_everything

    def includes(self, group: str) -> bool:
        return (
            self.group.lower() in group.lower()
            and self.only_group in ("", group)
            and self.scope.covers(group)
        )

    def count(self) -> int:
        if self.is_everybody:
            return sum(file.rows for file in self.files())
        return sum(len(rows.places) for rows in self.read(()))

    def read(self, columns: Sequence[str]) -> Iterator[Found]:
        """Yield the rows of file after file, newest first, with some columns."""
        for number, file in enumerate(self.files()):
            if file.pk in self._gaps:  # found by an earlier reading of the same query
                continue
            try:
                rows = self._read(number, file, columns)
            except UNREADABLE as error:
                self.miss(file, what_is_wrong(file, error))
                continue
            if len(rows.places):
                yield rows

    def _read(self, number: int, file: QueueRowFile, columns: Sequence[str]) -> Found:
        if self.is_everybody and not columns:
            return Found(number, file, np.arange(file.rows), pa.table({}))
        with _Opened(file) as opened:
            groups = opened.row_groups_of(self.only_group)
            wanted = columns if self.is_everybody else [*columns, "group"]
            table, places = opened.rows(groups, wanted)
        if not self.is_everybody:
            kept = self.kept(table["group"])
            table, places = table.select(columns).take(kept), places[kept]
        return Found(number, file, places, table)

    def kept(self, groups: pa.ChunkedArray) -> IntArray:
        """Return the indexes of the matching rows."""
        coded = groups.unify_dictionaries().combine_chunks()
        names = coded.dictionary.to_pylist()
        for name in names:
            if name not in self._included:  # most names are in every file
                self._included[name] = self.includes(name)
        is_included = np.array([self._included[name] for name in names], dtype=np.bool_)
        return np.flatnonzero(is_included[coded.indices.to_numpy()])

    def rows_at(self, wanted: Sequence[Row]) -> list[LagRow]:
        """Return whole rows in the given order; those that cannot be read are left out, as gaps."""
        by_file: dict[int, list[int]] = {}
        for row in wanted:
            by_file.setdefault(row.file, []).append(row.place)
        found: dict[Row, LagRow] = {}
        for number, places in by_file.items():
            file = self.files()[number]
            try:
                with _Opened(file) as opened:
                    table = opened.at(sorted(places), COLUMNS)
            except UNREADABLE as error:
                self.miss(file, what_is_wrong(file, error))
                continue
            found |= zip((Row(number, place) for place in sorted(places)), _models(table, file), strict=True)
        return [found[row] for row in wanted if row in found]


@dataclass(frozen=True, slots=True)
class Found:
    """The matching rows of one file: their indexes and their columns."""

    number: int
    file: QueueRowFile
    places: IntArray
    table: pa.Table


# --- Queries ------------------------------------------------------------------------------------------------


def page(
    found: QueueRows,
    column: str,
    *,
    descending: bool,
    page: int,
    per_page: int,
    whole: QueueRows | None,
    sums: Sums | None = None,
) -> Page[LagRow]:
    """Return one page in the order of a column, unknown figures last, then newest window, then name.

    `whole`: the number of rows without a scope. Pages beyond ROWS_REACHED_MAX cannot be reached. `sums` receives the
    rows of all pages, so that their files are read once for both.
    """
    best = _Best(min(max(page, 1) * per_page, ROWS_REACHED_MAX), descending)
    total = 0
    for rows in found.read([column] if sums is None else list(dict.fromkeys([column, *SUMMED]))):
        total += len(rows.places)
        best.add(rows, column)
        if sums is not None:
            sums.add(rows)
    pages = max(1, -(-min(total, ROWS_REACHED_MAX) // per_page))
    page = max(1, min(page, pages))
    order = best.order()
    return Page(
        rows=found.rows_at(order[(page - 1) * per_page : page * per_page]),
        total=total,
        page=page,
        pages=pages,
        per_page=per_page,
        all_total=total,
        not_shown=0 if whole is None else whole.count() - total,
    )


@dataclass(frozen=True, slots=True)
class LagSummary:
    """What rows have in common: worst figures, sums, the least coverage; None if nothing is known."""

    time_lag_max_ms: int | None
    lag_max: int | None
    produced: int | None
    consumed: int | None
    breach_ms: int | None
    coverage_pct: float | None
    from_ms: int | None
    to_ms: int | None
    generated_at_ms: int | None
    slo_least_ms: int | None
    slo_ms: int | None
    interval_ms: int | None
    worst: LagRow | None


def summary(found: QueueRows) -> LagSummary:
    """As `selectors.summary`."""
    sums = Sums()
    for rows in found.read(SUMMED):
        sums.add(rows)
    return sums.summary(found)


class Sums:
    """What the rows of a query have in common, while its files are read."""

    def __init__(self) -> None:
        self._sums, self._low, self._high = dict.fromkeys(SUMS), dict.fromkeys(LOWEST), dict.fromkeys(HIGHEST)
        self._files: list[QueueRowFile] = []
        self._worst: Row | None = None
        self._worst_ms = 0

    def add(self, rows: Found) -> None:
        """Add the rows of a file, which have the columns SUMMED."""
        self._files.append(rows.file)
        for name in SUMS:
            self._sums[name] = _known(sum, self._sums[name], pc.sum(rows.table[name]).as_py())
        for best, function in ((self._high, max), (self._low, min)):
            for name in best:
                value = pc.min_max(rows.table[name])[function.__name__].as_py()
                best[name] = _known(function, best[name], value)
        highest_ms = self._high["time_lag_max_ms"]
        if highest_ms and highest_ms > self._worst_ms:
            self._worst_ms = highest_ms
            place = pc.index(rows.table["time_lag_max_ms"], highest_ms).as_py()
            self._worst = Row(rows.number, int(rows.places[place]))

    def summary(self, found: QueueRows) -> LagSummary:
        """Return the summary; `found` reads the worst row as a whole."""
        return LagSummary(
            **self._sums,
            **self._high,
            coverage_pct=self._low["coverage_pct"],
            slo_least_ms=self._low["slo_ms"],
            from_ms=min((file.window_start_ms for file in self._files), default=None),
            to_ms=max((file.window_end_ms for file in self._files), default=None),
            generated_at_ms=max((file.created_at_ms for file in self._files), default=None),
            worst=next(iter(found.rows_at([self._worst])), None) if self._worst is not None else None,
        )


def by_window(found: QueueRows, most: int) -> Iterator[list[Any] | Gap]:
    """Yield the values of COLUMNS of at most `most` rows, oldest window first; then the gaps."""
    left = most
    for file in sorted(found.files(), key=lambda file: (file.window_start_ms, file.path)):
        try:
            for row in _streamed(found, file):
                if left <= 0:
                    return
                left -= 1
                yield row
        except UNREADABLE as error:
            found.miss(file, what_is_wrong(file, error))
    yield from found.gaps


def _streamed(found: QueueRows, file: QueueRowFile) -> Iterator[list[Any]]:
    with _Opened(file) as opened:
        for row_group in opened.row_groups_of(found.only_group):
            table, _ = opened.rows([row_group], COLUMNS)
            yield from _lines(table if found.is_everybody else table.take(found.kept(table["group"])), file)


def cells(found: QueueRows, kind: str) -> list[Cell]:
    """Return the cells of the rows of a kind."""
    read: list[Cell] = []
    for rows in found.read([*Cell._fields, "kind"]):
        own = rows.table.filter(pc.equal(rows.table["kind"], kind))
        read += map(Cell._make, zip(*(own[name].to_pylist() for name in Cell._fields), strict=True))
    return read


def _known(function: Any, one: Any, other: Any) -> Any:
    known = [value for value in (one, other) if value is not None]
    return function(known) if known else None


class _Best:
    """The first rows of a query in the order of a column, while its files are read."""

    def __init__(self, most: int, descending: bool) -> None:
        self._most, self._descending = most, descending
        self._values: list[Any] = []
        self._rows: list[IntArray] = []
        self._waiting = 0

    def add(self, found: Found, column: str) -> None:
        values = found.table[column]
        is_text = pa.types.is_string(values.type) or pa.types.is_dictionary(values.type)
        known = np.array(values.to_pylist(), dtype=object) if is_text else _numbers(values)
        first = self._first(known)
        self._values.append(known[first])
        self._rows.append(np.column_stack([np.full(len(first), found.number), found.places[first]]))
        self._waiting += len(first)
        if self._waiting > 8 * self._most + 10_000:
            self._reduce()

    def order(self) -> list[Row]:
        """Return the rows in order."""
        if not self._rows:
            return []
        self._reduce()
        keys = self._keys(self._values[0])
        places = np.argsort(keys, kind="stable")[: self._most]
        return [Row(*row) for row in self._rows[0][places].tolist()]

    def _reduce(self) -> None:
        values, rows = np.concatenate(self._values), np.concatenate(self._rows)
        first = self._first(values)
        self._values, self._rows, self._waiting = [values[first]], [rows[first]], len(first)

    def _keys(self, values: Any) -> FloatArray:
        """Return numbers that ascend in the requested order; unknown is NaN, which sorts last."""
        if values.dtype == object:
            values = np.unique(values, return_inverse=True)[1].astype(np.float64)
        keys: FloatArray = -values if self._descending else values
        return keys

    def _first(self, values: Any) -> IntArray:
        """Return the indexes of the first rows in file order; of equal rows the earlier."""
        keys = self._keys(values)
        if len(keys) <= self._most:
            return np.arange(len(keys))
        keys = np.where(np.isnan(keys), np.inf, keys)
        last = np.partition(keys, self._most - 1)[self._most - 1]
        before = np.flatnonzero(keys < last)
        equal = np.flatnonzero(keys == last)[: self._most - len(before)]
        return np.sort(np.concatenate([before, equal]))


def _numbers(values: pa.ChunkedArray) -> FloatArray:
    """Return floats, exact up to 2**53; NaN if unknown."""
    return np.asarray(values.cast(pa.float64()).to_numpy(), dtype=np.float64)


# --- One file -----------------------------------------------------------------------------------------------


class _Opened:
    """An open file. Its pages have checksums, so damage is detected on reading."""

    def __init__(self, file: QueueRowFile) -> None:
        path = location(file)
        self._source = fsspec.open(path, "rb").open() if "://" in path else pa.OSFile(path)
        size_bytes = self._source.seek(0, os.SEEK_END)
        self._source.seek(0)
        if size_bytes != file.bytes:
            raise pa.ArrowInvalid(f"{size_bytes} bytes, not {file.bytes}")
        self._parquet = pq.ParquetFile(
            self._source, read_dictionary=["group"], page_checksum_verification=True
        )
        self._metadata = self._parquet.metadata
        schema = self._metadata.schema  # a column each, and of a list that of its items
        self._names = [schema.column(each).path.partition(".")[0] for each in range(len(schema.names))]
        sizes = [self._metadata.row_group(each).num_rows for each in range(self._metadata.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *exception: object) -> None:
        self._parquet.close()
        self._source.close()

    def row_groups_of(self, group: str) -> list[int]:
        """Return the row groups that may hold rows of a group; all without a group."""
        everything = range(self._metadata.num_row_groups)
        if not group:
            return list(everything)
        column = self._names.index("group")
        found = []
        for each in everything:
            known = self._metadata.row_group(each).column(column).statistics
            if known is None or not known.has_min_max or known.min <= group <= known.max:
                found.append(each)
        return found

    def rows(self, row_groups: Sequence[int], columns: Sequence[str]) -> tuple[pa.Table, IntArray]:
        """Return columns of whole row groups, missing ones as unknown, and the rows' indexes in the file."""
        there = [name for name in dict.fromkeys(columns) if name in self._names]
        table = self._parquet.read_row_groups(list(row_groups), columns=there, use_threads=False)
        for name in dict.fromkeys(columns):
            if name not in self._names:
                table = table.append_column(name, pa.nulls(table.num_rows))
        spans = [np.arange(self._starts[each], self._starts[each + 1]) for each in row_groups]
        return table, np.concatenate([np.zeros(0, dtype=np.int64), *spans])

    def at(self, places: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return the rows at ascending indexes."""
        of_groups = np.searchsorted(self._starts, places, side="right") - 1
        table, known = self.rows(sorted(set(of_groups.tolist())), columns)
        return table.take(np.searchsorted(known, places))


def _models(table: pa.Table, file: QueueRowFile) -> list[LagRow]:
    """Return rows as model instances that are not saved."""
    return [LagRow(**dict(zip(COLUMNS, values, strict=True))) for values in _lines(table, file)]


def _lines(table: pa.Table, file: QueueRowFile) -> Iterator[list[Any]]:
    """Yield the values of COLUMNS, row by row."""
    shared = {
        "run_id": file.run_id,
        "job": file.job,
        "generated_at_ms": file.created_at_ms,
        "code_version": file.code_version,
        "zone": file.zone,
    }
    columns = [
        [shared[name]] * table.num_rows if name in shared else _column(table[name], name) for name in COLUMNS
    ]
    return map(list, zip(*columns, strict=True))


def _column(values: pa.ChunkedArray, name: str) -> list[Any]:
    """Return the file's values, or the database's default for a missing column."""
    if name == "status_ms":
        return [named_status_ms(each) for each in values.to_pylist()]
    return [DEFAULTS[name] if value is None else value for value in values.to_pylist()]


def named_status_ms(spent: Sequence[int] | None) -> dict[str, int]:
    """{status: milliseconds} of a list in the order of WORST_FIRST, as files have it."""
    key = tuple(spent or ())
    named = zip(WORST_FIRST, key, strict=bool(key))
    return {status.value: ms for status, ms in named if ms}
