"""Queues of the last round for tests of what reads them: put there, looked up, changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from console.lag.round.columns import values_of
from console.lag.round.keyed_columns import KeyedColumns
from console.lag.rows import sheets
from console.lag.rows.queue_row import QueueRow, TopicQueueRow, kinds_of
from console.lag.rows.sheets import QUEUES, TOPIC_QUEUES, SheetKind, SheetStore

Row = TypeVar("Row", QueueRow, TopicQueueRow)


def save(cluster: str, *rows: Row) -> None:
    """Add queues to those of the cluster, or put them in the place of the same ones."""
    kind: SheetKind[Any, Any] = QUEUES if isinstance(rows[0], QueueRow) else TOPIC_QUEUES
    known = {_key(kind, row): row for row in _every(kind, cluster)}
    write(kind, cluster, {**known, **{_key(kind, row): row for row in rows}})


def write(kind: SheetKind[Any, Any], cluster: str, rows: Mapping[Any, Any]) -> None:
    """Let the cluster have exactly these queues, by key."""
    kinds = {name: one for name, one in kinds_of(kind.row).items() if name not in kind.key._fields}
    SheetStore(kind, cluster).replace(KeyedColumns.of_rows(kinds, rows))


def find(cluster: str = "local", **wanted: Any) -> list[QueueRow]:
    """Return queues as groups consume them that have these values, in the order of their keys."""
    return [row for row in _every(QUEUES, cluster) if _has(row, wanted)]


def find_topic_queues(cluster: str = "local", **wanted: Any) -> list[TopicQueueRow]:
    """Return queues of topics that have these values, in the order of their keys."""
    return [row for row in _every(TOPIC_QUEUES, cluster) if _has(row, wanted)]


def change(wanted: Mapping[str, Any], *, cluster: str = "local", **fields: Any) -> None:
    """Give queues that have these values other ones."""
    save(cluster, *(replace(row, **fields) for row in find(cluster, **wanted)))


def _every(kind: SheetKind[Any, Any], cluster: str) -> list[Any]:
    names = list(kind.kinds)
    columns = sheets.read_columns(kind, cluster, names)
    lists = (values_of(columns[name]) for name in names)
    rows = [kind.row(**dict(zip(names, values, strict=True))) for values in zip(*lists, strict=True)]
    return sorted(rows, key=lambda row: tuple(_key(kind, row)))


def _key(kind: SheetKind[Any, Any], row: Any) -> Any:
    return kind.key(*(getattr(row, name) for name in kind.key._fields))


def _has(row: object, wanted: Mapping[str, Any]) -> bool:
    return all(getattr(row, name) == value for name, value in wanted.items())
