"""Keep rows of one cluster in the metrics database and in memory; write only what a round changed."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter, ne
from typing import Any, Generic, TypeVar

import msgspec
import orjson
from django.db import connections, models
from django.db.models import Q

from console.lag.database_router import METRICS
from console.text.columns import TextColumn, as_stored
from console.text.encoding import encoded
from console.text.value import kept_text

Key = TypeVar("Key", bound=Hashable)
Row = TypeVar("Row", bound=msgspec.Struct)
# Changes every round: it is written, but a row that differs only in it is not news.
READ_AT = "read_at_ms"
# Of one JSON document: about 3 MB of groups.
ROWS_AT_ONCE = 2_000
# Conditions in one DELETE; SQLite allows an expression depth of 1,000.
KEYS_AT_ONCE = 200
# Statements that update the age of many rows; the remaining rows are written one by one.
AGED_AT_ONCE_MAX = 20


@dataclass(frozen=True, slots=True)
class Changes(Generic[Key, Row]):
    """Hold what a round changed: rows whose content is new, rows that are gone."""

    changed: Mapping[Key, Row]
    removed: frozenset[Key]


class RowStore(Generic[Key, Row]):
    """Keep the rows of one model, as values with a field for each of its columns.

    `load` once, then `replace` per round inside a transaction of the metrics database. `ages` are columns with the time
    of a reading: a row that differs only in them is not news.
    """

    def __init__(
        self,
        model: type[models.Model],
        row: type[Row],
        cluster: str,
        key_fields: tuple[str, ...],
        make_key: Callable[..., Key],
        ages: tuple[str, ...] = (READ_AT,),
    ) -> None:
        self.model = model
        self.row = row
        self.cluster = cluster
        self.key_fields = key_fields
        self.make_key = make_key
        self.ages = ages
        skipped = {"id", "cluster", *key_fields}
        columns = [one for one in model._meta.concrete_fields if one.attname not in skipped]
        self.fields = [one.attname for one in columns]
        self.json_fields = {one.attname for one in columns if isinstance(one, models.JSONField)}
        self.text_fields = {one.attname for one in columns if isinstance(one, TextColumn)}
        # Indexes are written anew for every row whose statement names their columns, changed or not.
        self.indexed = {name.lstrip("-") for index in model._meta.indexes for name in index.fields}
        self.rows: dict[Key, Row] = {}
        self._values = attrgetter(*self.fields)
        self._ages = _getter(ages)

    def load(self) -> None:
        """Load the rows from the database."""
        stored = self._objects().values(*self.key_fields, *self.fields)
        rows = msgspec.convert(list(stored), list[self.row], dec_hook=lambda _, found: kept_text(found))  # type: ignore[name-defined]
        key = _getter(self.key_fields)
        self.rows = {self.make_key(*key(row)): row for row in rows}

    def replace(self, rows: Mapping[Key, Row]) -> Changes[Key, Row]:
        """Make the database hold exactly these rows; return what changed.

        For an existing row only columns are written that changed, in it or in other rows; rows that differ only in
        their age are updated together.
        """
        kinds, aged, new = self._sorted_out(rows)
        exceptions = self._age(rows, aged)
        changed = {key: rows[key] for kind in kinds for key in kind.keys} | new
        for kind in kinds:
            self._update({key: rows[key] for key in kind.keys}, kind.columns)
        self._update(exceptions, self.ages)
        self._insert(new)
        removed = frozenset(self.rows.keys() - rows.keys())
        self._delete(removed)
        self.rows = dict(rows)
        return Changes(changed, removed)

    def _sorted_out(self, rows: Mapping[Key, Row]) -> "tuple[list[_Kind[Key]], list[Key], dict[Key, Row]]":
        """Return changed rows, those that differ at most in their age, and new ones.

        Changed rows are of two kinds, with or without a changed column of an index.
        """
        values, before = self._values, self.rows
        aged: list[Key] = []
        new: dict[Key, Row] = {}
        by_columns: dict[tuple[bool, ...], list[Key]] = {}
        for key, row in rows.items():
            was = before.get(key)
            if was is None:
                new[key] = row
            else:
                by_columns.setdefault(tuple(map(ne, values(was), values(row))), []).append(key)
        kinds: dict[bool, _Kind[Key]] = {}
        for differs, keys in by_columns.items():
            columns = {name for name, differ in zip(self.fields, differs, strict=True) if differ}
            if columns <= set(self.ages):
                aged += keys
                continue
            # A changed row has its ages written too: they may have been updated together with others.
            kind = kinds.setdefault(bool(columns & self.indexed), _Kind([], set(self.ages)))
            kind.keys.extend(keys)
            kind.columns.update(columns)
        return list(kinds.values()), aged, new

    def _age(self, rows: Mapping[Key, Row], aged: Sequence[Key]) -> dict[Key, Row]:
        """Give unchanged rows of one age the new age of most of them; return the rows that have another.

        Such as those that were not read this time.
        """
        ages, before = self._ages, self.rows
        alike: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Key]]] = {}
        for key in aged:
            alike.setdefault(ages(before[key]), {}).setdefault(ages(rows[key]), []).append(key)
        usual = {was: max(moves, key=lambda now: len(moves[now])) for was, moves in alike.items()}
        moving = [was for was, now in usual.items() if now != was]
        together = sorted(moving, key=lambda was: -len(alike[was][usual[was]]))[:AGED_AT_ONCE_MAX]
        for was in together:
            rows_alike = self._objects().filter(**dict(zip(self.ages, was, strict=True)))
            rows_alike.update(**dict(zip(self.ages, usual[was], strict=True)))
        is_done = {was: usual[was] if was in together else was for was in alike}
        return {
            key: rows[key]
            for was, moves in alike.items()
            for now, keys in moves.items()
            if now != is_done[was]
            for key in keys
        }

    def _insert(self, rows: Mapping[Key, Row]) -> None:
        """Insert rows; overwrite one that exists already (another process wrote it)."""
        quote = connections[METRICS].ops.quote_name
        columns = self._columns(quote)
        names = ["cluster", *self.key_fields, *self.fields]
        listed = ", ".join(columns[name] for name in names)
        key = ", ".join(columns[name] for name in ("cluster", *self.key_fields))
        updates = ", ".join(f"{columns[name]} = excluded.{columns[name]}" for name in self.fields)
        table = quote(self.model._meta.db_table)
        places = ", ".join(["%s"] * len(names))
        tail = f"ON CONFLICT ({key}) DO UPDATE SET {updates}"
        self._execute(
            rows,
            names,
            f"INSERT INTO {table} ({listed}) VALUES ({places}) {tail}",
            f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {self._document()} {tail}",
        )

    def _update(self, rows: Mapping[Key, Row], written: Collection[str]) -> None:
        """Write some columns of existing rows."""
        quote = connections[METRICS].ops.quote_name
        columns, table = self._columns(quote), quote(self.model._meta.db_table)
        keys = ["cluster", *self.key_fields]
        names = [name for name in self.fields if name in written]
        self._execute(
            rows,
            [*names, *keys],
            f"UPDATE {table} SET {', '.join(f'{columns[name]} = %s' for name in names)} "
            f"WHERE {' AND '.join(f'{columns[name]} = %s' for name in keys)}",
            f"UPDATE {table} AS kept SET {', '.join(f'{columns[name]} = given.{columns[name]}' for name in names)} "
            f"FROM {self._document()} AS given "
            f"WHERE {' AND '.join(f'kept.{columns[name]} = given.{columns[name]}' for name in keys)}",
        )

    def _execute(self, rows: Mapping[Key, Row], names: Sequence[str], one_by_one: str, at_once: str) -> None:
        """Run a statement for rows.

        SQLite takes one with many sets of parameters, PostgreSQL one with the rows as a JSON document, in a quarter of
        the time of many. Names in it come from the model, values are parameters.

        Plain SQL: a round of 4,000 changed rows takes 0.1 s this way and 0.9 s through model objects and
        `bulk_create(update_conflicts=True)`; a test checks the limit.
        """
        if not rows:
            return
        connection = connections[METRICS]
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                for document in self._documents(rows, names):
                    cursor.execute(at_once, [document])
            else:
                cursor.executemany(one_by_one, list(self._parameters(rows, names)))

    def _parameters(self, rows: Mapping[Key, Row], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the values of these columns of each row."""
        own = [name for name in names if name != "cluster"]
        values = _getter(own)
        documents = [place for place, name in enumerate(own) if name in self.json_fields]
        texts = [place for place, name in enumerate(own) if name in self.text_fields]
        cluster = names.index("cluster")
        for row in rows.values():
            found = list(values(row))
            for place in documents:
                found[place] = encoded(found[place]).decode()
            for place in texts:
                found[place] = as_stored(found[place])
            found.insert(cluster, self.cluster)
            yield tuple(found)

    def _documents(self, rows: Mapping[Key, Row], names: Sequence[str]) -> Iterator[str]:
        """Yield JSON arrays of rows under their columns' names, `ROWS_AT_ONCE` each."""
        own = [name for name in names if name != "cluster"]
        every = iter(rows.values())
        while part := list(islice(every, ROWS_AT_ONCE)):
            found = [
                {"cluster": self.cluster, **{name: self._stored(name, getattr(row, name)) for name in own}}
                for row in part
            ]
            yield orjson.dumps(found).decode()

    def _stored(self, name: str, value: Any) -> Any:
        if name in self.text_fields:
            return as_stored(value)
        return orjson.Fragment(encoded(value)) if name in self.json_fields else value

    def _document(self) -> str:
        quote = connections[METRICS].ops.quote_name
        return f"json_populate_recordset(NULL::{quote(self.model._meta.db_table)}, %s)"

    def _columns(self, quote: Callable[[str], str]) -> dict[str, str]:
        """Return name → quoted column."""
        return {one.attname: quote(one.column or "") for one in self.model._meta.concrete_fields}

    def _delete(self, keys: frozenset[Key]) -> None:
        gone = sorted(keys, key=repr)
        for start in range(0, len(gone), KEYS_AT_ONCE):
            condition = Q()
            for key in gone[start : start + KEYS_AT_ONCE]:
                condition |= self._is_row(key)
            self._objects().filter(condition).delete()

    def _objects(self) -> "models.QuerySet[Any]":
        return self.model._default_manager.filter(cluster=self.cluster)

    def _is_row(self, key: Key) -> Q:
        values = key if isinstance(key, tuple) else (key,)
        return Q(*zip(self.key_fields, values, strict=True))


@dataclass(slots=True)
class _Kind(Generic[Key]):
    """Hold rows that are written by one statement, and the columns it writes."""

    keys: list[Key]
    columns: set[str]


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that returns fields of a row as a tuple; `attrgetter` returns a single one bare."""
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda row: (one(row),)
    return attrgetter(*names)
