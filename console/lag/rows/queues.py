"""Read queues for pages and REST from the last round: of a group, a topic, a broker.

No function here calls a broker; each makes one query.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from console.brokers.mqadmin import RETRY_TOPIC_PREFIX
from console.lag.round.columns import values_of
from console.lag.round.keyed_columns import Column
from console.lag.rows import sheets
from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.queue_row import QueueRow, TopicQueueRow
from console.lag.rows.sheets import QUEUES, TOPIC_QUEUES
from console.text import Text
from spark.lag.round.status import LagStatus

NEVER_COMMITTED = LagStatus.NEVER_COMMITTED.value
BEHIND: Mapping[str, Sequence[str]] = {"lag": ("sum", "count"), "time_lag_ms": ("max", "count")}


def of_groups(cluster_name: str, groups: Collection[str]) -> ColumnRows[QueueRow]:
    """Return the queues of some groups by (group, topic, broker, queue), including their `%RETRY%` topics."""
    return sheets.read_rows(QUEUES, cluster_name, "group", groups)


def of_topics(cluster_name: str, topics: Collection[str]) -> ColumnRows[QueueRow]:
    """Return the queues of some topics as every group consumes them, by group. Reads the topics of every sheet."""
    return sheets.read_rows(QUEUES, cluster_name, "topic", topics)


class TooManyQueues(Exception):
    """There are more queues than the caller reads."""


def keys_of_groups(
    cluster_name: str, groups: Collection[str], *, most: int | None = None
) -> list[tuple[str, str, str, int]]:
    """Return (group, topic, broker, queue) of the queues of `of_groups`, in its order. Raise TooManyQueues."""
    names = "group", "topic", "broker_name", "queue_id"
    found = sheets.read_columns(QUEUES, cluster_name, names, where="group", values=groups)
    if most is not None and len(found["group"]) > most:
        raise TooManyQueues(f"{len(found['group'])} queues, at most {most} are read at once")
    return sorted(_tuples(found, names))


def on_broker(cluster_name: str, broker_name: str, *names: str) -> Iterable[tuple[Any, ...]]:
    """Return some fields of each queue of a broker as each group consumes it, unordered. Reads every sheet."""
    found = sheets.read_columns(QUEUES, cluster_name, names, where="broker_name", values=[broker_name])
    return _tuples(found, names)


def topic_queues(cluster_name: str, topics: Collection[str]) -> ColumnRows[TopicQueueRow]:
    """Return the queues of some topics by (topic, broker, queue)."""
    return sheets.read_rows(TOPIC_QUEUES, cluster_name, "topic", topics)


def topic_queues_on_broker(cluster_name: str, broker_name: str, *names: str) -> Iterable[tuple[Any, ...]]:
    """Return some fields of each queue of each topic on a broker, unordered. Reads every sheet."""
    found = sheets.read_columns(TOPIC_QUEUES, cluster_name, names, where="broker_name", values=[broker_name])
    return _tuples(found, names)


def every(cluster_name: str, *names: str) -> Iterable[tuple[Any, ...]]:
    """Return some fields of each queue of each group, unordered, for sums. Reads every sheet."""
    return _tuples(sheets.read_columns(QUEUES, cluster_name, names), names)


def every_topic_queue(cluster_name: str, *names: str) -> Iterable[tuple[Any, ...]]:
    """Return some fields of each queue of each topic, unordered. Reads every sheet."""
    return _tuples(sheets.read_columns(TOPIC_QUEUES, cluster_name, names), names)


def brokers_of(cluster_name: str, groups: Collection[str]) -> dict[str, set[str]]:
    """Return the brokers of the queues of some groups; a group without queues is left out."""
    names = "group", "broker_name"
    found: dict[str, set[str]] = {}
    columns = sheets.read_columns(QUEUES, cluster_name, names, where="group", values=groups)
    for group, broker_name in _tuples(columns, names):
        found.setdefault(group, set()).add(broker_name)
    return found


def _tuples(columns: Mapping[str, Column], names: Iterable[str]) -> Iterable[tuple[Any, ...]]:
    return zip(*(values_of(columns[name]) for name in names), strict=True)


@dataclass(slots=True)
class Behind:
    """Sum how far queues are behind; sums are of what is known, None where nothing is."""

    queues: int = 0
    known: int = 0
    lag: int | None = None
    timed: int = 0
    time_lag_ms: int | None = None

    def add(self, lag: int | None, time_lag_ms: int | None) -> None:
        """Count a queue."""
        self.queues += 1
        if lag is not None:
            self.known, self.lag = self.known + 1, (self.lag or 0) + lag
        if time_lag_ms is not None:
            self.timed, self.time_lag_ms = self.timed + 1, max(self.time_lag_ms or 0, time_lag_ms)

    @property
    def lag_lower_bound(self) -> bool:
        """Return whether more than `lag` may wait."""
        return 0 < self.known < self.queues

    @property
    def time_lag_lower_bound(self) -> bool:
        """Return whether a queue may be later than `time_lag_ms`."""
        return 0 < self.timed < self.queues


def by_owner(cluster_name: str, groups: Collection[str]) -> dict[tuple[str, str], Behind]:
    """Return how far the queues of each (group, owner) are behind.

    Without retry topics, queues never committed and those without a known owner.
    """
    sums = _owned(cluster_name, groups, BEHIND)
    owners = zip(sums.column("group").to_pylist(), sums.column("owner").to_pylist(), strict=True)
    return dict(zip(owners, _behind(sums), strict=True))


def by_reader(cluster_name: str, topic: str) -> tuple[dict[str, Behind], set[str]]:
    """Return how far the queues of each group that consumes a topic are behind, and which groups have unknown ones.

    Reads every sheet, and makes no object of a queue: a topic may have 10,000 readers.
    """
    names = "topic", "group", "status", *BEHIND
    table = sheets.read_table(QUEUES, cluster_name, names).filter(pc.field("topic") == topic)
    unknown = table.filter(pc.field("status") == LagStatus.UNKNOWN.value).column("group")
    sums = _sums(table, ["group"], BEHIND)
    return dict(zip(sums.column("group").to_pylist(), _behind(sums), strict=True)), set(unknown.to_pylist())


class WorstReader(NamedTuple):
    """The group that is furthest behind on one queue of a topic; read by cells.

    `status` is the group's on this queue. `time_lag_lower_bound`: it, or a group whose time lag is unknown, may be
    later. Null time lag: no group's is known.
    """

    group: str
    status: str
    lag: int | None
    lag_lower_bound: bool
    time_lag_ms: int | None
    time_lag_lower_bound: bool
    reason: Text = Text("the position of a group that reads it is not known")


def worst_readers(
    cluster_name: str, topic: str, groups: Collection[str] | None = None
) -> dict[tuple[str, int], WorstReader]:
    """Return (broker, queue) → the group with the largest time lag there, of some groups or of all.

    A group that never committed on a queue has no time lag there and is left out. Makes no object of a queue: a topic
    may have 10,000 readers.
    """
    key = "broker_name", "queue_id"
    names = "topic", *key, "group", "status", "lag", "lag_lower_bound", "time_lag_ms", "time_lag_lower_bound"
    table = sheets.read_table(QUEUES, cluster_name, names, groups)
    table = table.filter((pc.field("topic") == topic) & (pc.field("status") != NEVER_COMMITTED))
    worst_first = [("time_lag_ms", "descending"), ("lag", "descending"), ("group", "ascending")]
    table = table.sort_by(worst_first)
    table = table.append_column("at", pa.array(range(len(table)), type=pa.int64()))
    counts = [("at", "min"), ("time_lag_ms", "count"), ([], "count_all")]
    found = table.group_by(list(key), use_threads=False).aggregate(counts)
    firsts = table.take(found.column("at_min")).select([*key, *names[3:]])
    columns = [*firsts.columns, found.column("time_lag_ms_count"), found.column("count_all")]
    readers = {}
    for row in zip(*(column.to_pylist() for column in columns), strict=True):
        broker_name, queue_id, group, status, lag, is_more, time_lag_ms, is_later, timed, every = row
        is_later = is_later or 0 < timed < every
        readers[broker_name, queue_id] = WorstReader(group, status, lag, is_more, time_lag_ms, is_later)
    return readers


def _behind(sums: pa.Table) -> Iterable[Behind]:
    columns = "count_all", "lag_count", "lag_sum", "time_lag_ms_count", "time_lag_ms_max"
    lists = (sums.column(name).to_pylist() for name in columns)
    return (Behind(*one) for one in zip(*lists, strict=True))


def lag_by_owner(cluster_name: str) -> dict[tuple[str, str], int | None]:
    """Return the lag of every (group, owner), as `by_owner`. Reads every sheet."""
    sums = _owned(cluster_name, None, {"lag": ("sum",)})
    group, owner, lag = (sums.column(name).to_pylist() for name in ("group", "owner", "lag_sum"))
    return dict(zip(zip(group, owner, strict=True), lag, strict=True))


def _owned(
    cluster_name: str, groups: Collection[str] | None, figures: Mapping[str, Sequence[str]]
) -> pa.Table:
    names = "group", "owner", "topic", "status", *figures
    table = sheets.read_table(QUEUES, cluster_name, names, groups)
    counted = (pc.field("owner") != "") & (pc.field("status") != NEVER_COMMITTED)
    table = table.filter(counted & ~pc.starts_with(pc.field("topic"), RETRY_TOPIC_PREFIX))
    return _sums(table, ["group", "owner"], figures)


def _sums(table: pa.Table, names: Sequence[str], figures: Mapping[str, Sequence[str]]) -> pa.Table:
    sums = [(name, kind) for name, kinds in figures.items() for kind in kinds]
    return table.group_by(list(names), use_threads=False).aggregate([*sums, ([], "count_all")])


def worst_first(row: QueueRow | Behind) -> tuple[int, int]:
    """Return a sort key: the largest time lag first, then the largest lag, unknown last."""
    return 1 if row.time_lag_ms is None else -row.time_lag_ms, 1 if row.lag is None else -row.lag
