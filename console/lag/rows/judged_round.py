"""Make the snapshot that history keeps: every queue by its row, every series of the round before. Pure.

A series in history is in every round until its tombstone: one that was not read keeps its offsets, with the status
UNKNOWN; one that is gone is ABSENT once. The rows decide which is which: `queue_rows` and `topic_rows` keep the row of
a queue that may exist.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from console.brokers.mqadmin import is_system_topic
from console.lag.round.columns import NULL
from console.lag.round.keyed_columns import Column
from console.lag.round.series import QueueKey, TopicQueueKey
from console.lag.round.view import RoundView
from console.lag.rows.queue_rows import QueueTable
from console.lag.rows.topic_rows import TopicQueueTable
from spark.lag.codes import ABSENT, CODE_OF, NO_FLAGS, OK_CODE, UNKNOWN_CODE, ByteArray, SampleFlag
from spark.lag.snapshot import (
    UNKNOWN_OFFSET,
    UNKNOWN_TIME,
    CommitKey,
    HeadKey,
    Int64Array,
    Snapshot,
)

CODES = {status.value: code for status, code in CODE_OF.items()}
STANDING = np.uint8(SampleFlag.NOT_COUNT | SampleFlag.PAUSED | SampleFlag.RESET_PENDING)


@dataclass(frozen=True, slots=True)
class _Series:
    """Hold some series and their figures, by the names of `Snapshot`."""

    keys: Sequence[Any]
    figures: Mapping[str, Column]

    def __add__(self, other: "_Series") -> "_Series":
        if not other.keys:
            return self
        figures = {name: np.concatenate([one, other.figures[name]]) for name, one in self.figures.items()}
        return _Series([*self.keys, *other.keys], figures)


def judged_round(
    read: Snapshot, view: RoundView, queues: QueueTable, topic_queues: TopicQueueTable, before: Snapshot
) -> Snapshot:
    """Return the round as history keeps it.

    `read` is what was read; `before` the last round in history, without any series where there is none: then the rows
    of the round before define the series.
    """
    heads = _read_heads(read, view)
    heads += _carried_heads(view, topic_queues, before, heads.keys)
    if before.number < 0:
        heads += _heads_of_rows(view, queues, topic_queues)
    is_absent = heads.figures["head_status"] == ABSENT
    gone = {heads.keys[at] for at in np.flatnonzero(is_absent).tolist()}
    commits = _read_commits(view, queues)
    commits += _carried_commits(view, queues, before, commits.keys, gone)
    if before.number < 0:
        commits += _commits_of_rows(view, queues)
    return Snapshot(
        ts_ms=read.ts_ms,
        number=read.number,
        brokers=read.brokers,
        head_keys=_same(heads.keys, before.head_keys),
        commit_keys=_same(commits.keys, before.commit_keys),
        **heads.figures,
        **commits.figures,
    )


def _same(keys: Sequence[Any], before: Sequence[Any]) -> Sequence[Any]:
    """Return the same list as in the round before if it is equal: the log then looks up no key."""
    return before if keys == before else keys


def _read_heads(read: Snapshot, view: RoundView) -> _Series:
    known = view.columns.heads >= 0
    topics, oldest, retention = view.series.topics, view.columns.oldest, view.columns.retention
    holds = topics.min_offset < topics.max_offset
    is_known = holds & (retention.ms != UNKNOWN_TIME) & ((topics.min_offset == 0) | ~oldest.lower_bound)
    stored_ms = np.where(is_known, view.now_ms - retention.ms, UNKNOWN_TIME)[known]
    status = np.full(len(stored_ms), OK_CODE, dtype=np.uint8)
    return _Series(
        read.head_keys,
        {
            "max_offset": read.max_offset,
            "min_offset": read.min_offset,
            "head_status": status,
            "oldest_ms": stored_ms,
        },
    )


def _carried_heads(
    view: RoundView, table: TopicQueueTable, before: Snapshot, read: Sequence[HeadKey]
) -> _Series:
    """Return the queues of the round before that were not read: unknown, or gone."""
    at = _not_among(before.head_keys, before.head_status, read)
    unread = {table.keys[row] for row in np.flatnonzero(table.place < 0).tolist()}
    known = set(view.previous_topic_queues.keys) if len(at) else set()
    keys = [before.head_keys[one] for one in at.tolist()]
    status = [_carried_status(view, TopicQueueKey(*key[:3]), unread, known) for key in keys]
    return _Series(
        keys,
        {
            "max_offset": before.max_offset[at],
            "min_offset": before.min_offset[at],
            "head_status": np.array(status, dtype=np.uint8),
            "oldest_ms": before.oldest_ms[at],
        },
    )


def _carried_commits(
    view: RoundView, table: QueueTable, before: Snapshot, read: Sequence[CommitKey], gone: Collection[HeadKey]
) -> _Series:
    """Return the groups' queues of the round before that were not read: unknown, or gone with their queue."""
    at = _not_among(before.commit_keys, before.status, read)
    unread = {table.keys[row] for row in np.flatnonzero(table.place < 0).tolist()}
    known = set(view.previous_queues.keys) if len(at) else set()
    keys = [before.commit_keys[one] for one in at.tolist()]
    status = [
        ABSENT if key.head in gone else _carried_status(view, QueueKey(*key[:4]), unread, known)
        for key in keys
    ]
    return _Series(
        keys,
        {
            "committed": before.committed[at],
            "pulled": before.pulled[at],
            "time_lag_ms": np.full(len(at), UNKNOWN_TIME, dtype=np.int64),
            "status": np.array(status, dtype=np.uint8),
            "flags": before.flags[at] & STANDING,
        },
    )


def _not_among(keys: Sequence[Any], status: ByteArray, read: Sequence[Any]) -> Int64Array:
    """Return the indexes of the series of the round before that are not in this one yet."""
    if keys == read and bool((status != ABSENT).all()):
        return np.empty(0, dtype=np.int64)
    present = set(read)
    exist = np.flatnonzero(status != ABSENT).tolist()
    return np.array([at for at in exist if keys[at] not in present], dtype=np.int64)


def _carried_status(
    view: RoundView,
    key: QueueKey | TopicQueueKey,
    unread: Collection[QueueKey | TopicQueueKey],
    known: Collection[QueueKey | TopicQueueKey],
) -> int:
    """Return UNKNOWN for a series that was not read but may exist, else ABSENT.

    It may exist while its queue has a row, or while its broker is silent and it had no row: rows may have been lost.
    """
    was_lost = key not in known and key.broker_name in view.silences
    return UNKNOWN_CODE if key in unread or was_lost else ABSENT


def _heads_of_rows(view: RoundView, queues: QueueTable, table: TopicQueueTable) -> _Series:
    """Return the queues that were not read, by their rows, where history begins anew."""
    consumed = {key.topic for key in queues.keys}
    at = [
        row
        for row in np.flatnonzero(table.place < 0).tolist()
        if table.keys[row].topic in consumed or not is_system_topic(table.keys[row].topic)
    ]
    unknown = np.full(len(at), UNKNOWN_TIME, dtype=np.int64)
    return _Series(
        [_newest(view, table.keys[row]) for row in at],
        {
            "max_offset": table.columns["max_offset"][at],
            "min_offset": table.columns["min_offset"][at],
            "head_status": np.full(len(at), UNKNOWN_CODE, dtype=np.uint8),
            "oldest_ms": unknown,
        },
    )


def _commits_of_rows(view: RoundView, table: QueueTable) -> _Series:
    """Return the groups' queues that were not read, by their rows, where history begins anew."""
    at = np.flatnonzero((table.place < 0) & (table.columns["max_offset"] != NULL))
    committed = table.columns["committed_offset"][at]
    return _Series(
        [
            CommitKey(key.group, *_newest(view, TopicQueueKey(*key[1:])))
            for key in (table.keys[row] for row in at.tolist())
        ],
        {
            "committed": np.where(committed == NULL, UNKNOWN_OFFSET, committed),
            "pulled": np.full(len(at), UNKNOWN_OFFSET, dtype=np.int64),
            "time_lag_ms": np.full(len(at), UNKNOWN_TIME, dtype=np.int64),
            "status": np.full(len(at), UNKNOWN_CODE, dtype=np.uint8),
            "flags": np.full(len(at), NO_FLAGS, dtype=np.uint8),
        },
    )


def _newest(view: RoundView, key: TopicQueueKey) -> HeadKey:
    return view.window.newest(*key) or HeadKey(*key)


def _read_commits(view: RoundView, table: QueueTable) -> _Series:
    """Return the groups' queues that were read, as their rows have them."""
    at = np.flatnonzero(table.place >= 0)
    heads = view.series.topics.heads
    keys = []
    for row, place in zip(at.tolist(), table.place[at].tolist(), strict=True):
        head = heads[place]
        assert head is not None, "a consumed topic is in history"
        keys.append(CommitKey(table.keys[row].group, *head))
    columns = {name: table.columns[name][at] for name in ("committed_offset", "pulled_offset", "time_lag_ms")}
    committed, pulled, time_lag_ms = (
        np.where(one == NULL, UNKNOWN_OFFSET, one).astype(np.int64) for one in columns.values()
    )
    words = table.columns["status"][at].tolist()
    return _Series(
        keys,
        {
            "committed": committed,
            "pulled": pulled,
            "time_lag_ms": time_lag_ms,
            "status": np.fromiter((CODES[word] for word in words), dtype=np.uint8, count=len(at)),
            "flags": _flags(table, at),
        },
    )


def _flags(table: QueueTable, at: Int64Array) -> ByteArray:
    held = table.columns["lag_lower_bound"][at]
    has_age = table.columns["time_lag_ms"][at] != NULL
    found = np.zeros(len(at), dtype=np.uint8)
    for flag, holds in (
        (SampleFlag.TIME_LAG_BOUND, has_age & (held | table.columns["time_lag_lower_bound"][at])),
        (SampleFlag.LAG_BOUND, held),
        (SampleFlag.NOT_COUNT, table.columns["offset_is_not_count"][at]),
        (SampleFlag.PAUSED, table.columns["paused"][at]),
        (SampleFlag.RESET_PENDING, table.columns["reset_pending"][at]),
        (SampleFlag.MOVED, table.columns["moved"][at]),
        (SampleFlag.SWITCHED, table.switched[at]),
    ):
        found |= holds.astype(np.uint8) * np.uint8(flag)
    return found
