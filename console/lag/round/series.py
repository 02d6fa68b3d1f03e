"""Hold the brokers' answers for every queue of a round as parallel arrays, from which rows are made. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from console.brokers.mqadmin import is_system_topic
from console.lag.round.broker_reads import BrokerAnswers
from spark.lag.codes import NO_FLAGS, SampleFlag
from spark.lag.round import round_arrays
from spark.lag.round.window import LagWindow
from spark.lag.snapshot import (
    UNKNOWN_OFFSET,
    UNKNOWN_TIME,
    BoolArray,
    BrokerRead,
    CommitKey,
    HeadKey,
    Int64Array,
    Snapshot,
)

# Below this a broker's clock counts as equal to the collector's (lag.md 1.3, clock skew).
CLOCK_TOLERANCE_MS = 1_000


class QueueKey(NamedTuple):
    """The key of a `queue_row.QueueRow` inside its cluster."""

    group: str
    topic: str
    broker_name: str
    queue_id: int


class TopicQueueKey(NamedTuple):
    """The key of a `queue_row.TopicQueueRow` inside its cluster."""

    topic: str
    broker_name: str
    queue_id: int


@dataclass(frozen=True, slots=True, eq=False)
class TopicQueues:
    """Hold every queue that was read.

    `heads` is its series in history, None for a topic of RocketMQ's own that no group consumes; `read_ms` is by the
    collector's clock, `last_write_ms` by the broker's, 0 when nothing was written. `before` is the max offset of the
    previous reading, `UNKNOWN_OFFSET` at the first. `brokers`: the slice of each broker.
    """

    keys: list[TopicQueueKey]
    heads: Sequence[HeadKey | None]
    min_offset: Int64Array
    max_offset: Int64Array
    last_write_ms: Int64Array
    read_ms: Int64Array
    before: Int64Array
    brokers: Mapping[str, slice]


@dataclass(frozen=True, slots=True, eq=False)
class GroupQueues:
    """Hold every queue that was read as every group consumes it, by key.

    `place` is its index in `TopicQueues`; offsets are `UNKNOWN_OFFSET` where nothing was committed, or the pulled one
    was not read.
    """

    keys: list[QueueKey]
    place: Int64Array
    committed: Int64Array
    pulled: Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class RoundSeries:
    """Hold one round; `unread`: queues with committed offsets whose topic's offsets were not returned."""

    topics: TopicQueues
    groups: GroupQueues
    unread: Sequence[QueueKey]


class OldestAges(NamedTuple):
    """Hold estimated ages of the oldest messages of queues; the least possible where `lower_bound`."""

    ms: Int64Array
    lower_bound: BoolArray
    is_wanted: BoolArray


class Retention(NamedTuple):
    """Hold the age at which messages of queues are deleted, -1 where unknown; at least that where `lower_bound`.

    The age of the oldest message once the queue has lost one; before that what its broker is configured to keep.
    """

    ms: Int64Array
    lower_bound: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class RoundColumns:
    """Map the queues of a round to the window, once the window has the round.

    `heads` is parallel to `TopicQueues`, -1 for what is not in history; `commits` to those of `GroupQueues` that have a
    committed offset. `oldest`, parallel to `TopicQueues`, are the ages of the oldest messages; 0 of an empty queue.
    `retention` is parallel to them.
    """

    heads: Int64Array
    commits: Int64Array
    oldest: OldestAges
    retention: Retention


def columns_of(
    window: LagWindow, series: RoundSeries, kept_ms: Mapping[str, int] = MappingProxyType({})
) -> RoundColumns:
    """Return the columns of the round that was last added to `window`.

    `kept_ms`: for how long each broker is configured to keep messages (fileReservedTime), where that is known.
    """
    topics = series.topics
    heads = np.full(len(topics.keys), -1, dtype=np.int64)
    heads[[head is not None for head in topics.heads]] = window.newest_heads
    holds = np.flatnonzero((heads >= 0) & (topics.min_offset < topics.max_offset))
    found = round_arrays.ages(window, heads[holds], topics.min_offset[holds])
    nothing = np.zeros(len(heads), dtype=np.bool_)
    oldest = OldestAges(np.zeros_like(heads), nothing, nothing.copy())
    is_known = found.estimate_ms != round_arrays.NO_AGE
    oldest.ms[holds] = np.where(is_known, found.estimate_ms, found.ms)
    oldest.lower_bound[holds], oldest.is_wanted[holds] = ~is_known, found.is_wanted
    return RoundColumns(heads, window.newest_commits, oldest, _retention(topics, oldest, kept_ms))


def _retention(topics: TopicQueues, oldest: OldestAges, kept_ms: Mapping[str, int]) -> Retention:
    configured = np.full(len(topics.keys), UNKNOWN_TIME, dtype=np.int64)
    for broker_name, queues in topics.brokers.items():
        configured[queues] = kept_ms.get(broker_name, UNKNOWN_TIME)
    has_lost = topics.min_offset > 0
    return Retention(np.where(has_lost, oldest.ms, configured), ~has_lost | oldest.lower_bound)


def series_of(answers: Sequence[BrokerAnswers], window: LagWindow) -> RoundSeries:
    """Return the round as arrays; the incarnation of each queue's series follows from `window`."""
    topics = _topic_queues(answers, window)
    # Broker → topic → (queue id, index).
    places: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for place, key in enumerate(topics.keys):
        places.setdefault(key.broker_name, {}).setdefault(key.topic, []).append((key.queue_id, place))
    rows: list[tuple[QueueKey, int, int, int]] = []
    unread: list[QueueKey] = []
    for answer in answers:
        if not answer.answered:
            continue
        broker, pulled = answer.address.broker_name, answer.pulled
        own = places.get(broker, {})
        for (topic, group), committed in answer.offsets.items():
            if topic in answer.unread:
                unread += [QueueKey(group, topic, broker, queue_id) for queue_id in committed]
            for queue_id, place in own.get(topic, ()):
                rows.append(
                    (
                        QueueKey(group, topic, broker, queue_id),
                        place,
                        committed.get(queue_id, UNKNOWN_OFFSET),
                        pulled.get((group, topic, queue_id), UNKNOWN_OFFSET) if pulled else UNKNOWN_OFFSET,
                    )
                )
    rows.sort()
    keys, place_of, committed_of, pulled_of = zip(*rows, strict=True) if rows else ((), (), (), ())
    groups = GroupQueues(
        list(keys),
        np.array(place_of, dtype=np.int64),
        np.array(committed_of, dtype=np.int64),
        np.array(pulled_of, dtype=np.int64),
    )
    return RoundSeries(topics, groups, unread)


def _topic_queues(answers: Sequence[BrokerAnswers], window: LagWindow) -> TopicQueues:
    keys: list[TopicQueueKey] = []
    in_history: list[bool] = []
    read_ms: list[int] = []
    brokers: dict[str, slice] = {}
    for answer in answers:
        broker = answer.address.broker_name
        consumed = {topic for topic, _ in answer.offsets}
        for topic, queues in answer.stats.items():
            keys += [TopicQueueKey(topic, broker, queue.queue_id) for queue in queues]
            in_history += [topic in consumed or not is_system_topic(topic)] * len(queues)
        brokers[broker] = slice(len(read_ms), len(keys))
        read_ms += [answer.read_max_ms] * (len(keys) - len(read_ms))
    read = chain.from_iterable(
        queue for answer in answers for queues in answer.stats.values() for queue in queues
    )
    table = np.fromiter(read, dtype=np.int64, count=4 * len(keys)).reshape(-1, 4)
    low, high, written = (table[:, column].copy() for column in (1, 2, 3))
    incarnations, before = window.incarnations(keys, low, high)
    heads = [
        HeadKey(*key, incarnation) if wanted else None
        for key, incarnation, wanted in zip(keys, incarnations, in_history, strict=True)
    ]
    return TopicQueues(keys, heads, low, high, written, np.array(read_ms, dtype=np.int64), before, brokers)


def snapshot_of(
    answers: Sequence[BrokerAnswers],
    series: RoundSeries,
    *,
    ts_ms: int,
    number: int,
    switched: BoolArray | np.bool_ = np.False_,
) -> Snapshot:
    """Return what was read, as the window takes it: no queue of a group without a committed offset.

    `switched`: queues of groups whose offsets are not comparable with those read before (`SampleFlag.SWITCHED`).
    """
    topics, groups = series.topics, series.groups
    known = np.array([head is not None for head in topics.heads], dtype=np.bool_)
    committed = np.flatnonzero(groups.committed != UNKNOWN_OFFSET)
    commit_keys = [
        CommitKey(groups.keys[at].group, *head)
        for at, place in zip(committed.tolist(), groups.place[committed].tolist(), strict=True)
        if (head := topics.heads[place]) is not None
    ]
    return Snapshot(
        ts_ms=ts_ms,
        number=number,
        brokers=[_broker_read(answer) for answer in answers],
        head_keys=[head for head in topics.heads if head is not None],
        max_offset=topics.max_offset[known],
        min_offset=topics.min_offset[known],
        commit_keys=commit_keys,
        committed=groups.committed[committed],
        pulled=groups.pulled[committed],
        flags=np.where(
            np.broadcast_to(switched, len(groups.keys))[committed], SampleFlag.SWITCHED, NO_FLAGS
        ).astype(np.uint8),
    )


def _broker_read(answer: BrokerAnswers) -> BrokerRead:
    return BrokerRead(
        answer.address.broker_name,
        answer.answered,
        answer.read_committed_ms,
        answer.read_max_ms,
        answer.rpc_ms,
        str.__str__(answer.error),
    )


def commit_key(series: RoundSeries, at: int) -> CommitKey:
    """Return the series of a queue of a group that was read."""
    head = series.topics.heads[int(series.groups.place[at])]
    assert head is not None, "a consumed topic is in history"
    return CommitKey(series.groups.keys[at].group, *head)


def clock_offset_ms(ahead_ms: int, *, since_ms: int) -> int:
    """Return the broker's clock minus the collector's, as far as store times show it.

    `ahead_ms` is the store time of the newest message that came since the broker was read before, `since_ms` ago,
    minus the time it was read: by a good clock it lies between the two.
    """
    in_time = -(since_ms + CLOCK_TOLERANCE_MS) <= ahead_ms <= CLOCK_TOLERANCE_MS
    return 0 if in_time else ahead_ms


def newest_writes_ms(series: RoundSeries) -> dict[str, int]:
    """Return broker → store time by its clock of the newest message since the last round, minus when it was read."""
    topics = series.topics
    is_new = (
        (topics.last_write_ms > 0) & (topics.before != UNKNOWN_OFFSET) & (topics.max_offset > topics.before)
    )
    ahead_ms = topics.last_write_ms - topics.read_ms
    return {
        broker: int(ahead_ms[own][is_new[own]].max())
        for broker, own in topics.brokers.items()
        if is_new[own].any()
    }


def learn_store_times(
    window: LagWindow, series: RoundSeries, answers: Sequence[BrokerAnswers], offsets_ms: Mapping[str, int]
) -> None:
    """Add to the window store times that history lacks: a new queue's newest message, and lookups."""
    topics = series.topics
    for broker, own in topics.brokers.items():
        skew_ms = offsets_ms.get(broker, 0)
        read = zip(
            topics.heads[own],
            topics.max_offset[own].tolist(),
            topics.last_write_ms[own].tolist(),
            strict=True,
        )
        for head, high, written_ms in read:
            if written_ms and head is not None and not window.has_known_times(head):
                window.add_known_time(head, high - 1, written_ms - skew_ms)
    for answer in answers:
        broker = answer.address.broker_name
        for lookup, stored_ms in answer.stored_ms.items():
            head = window.newest(lookup.topic, broker, lookup.queue_id)
            if head is not None:
                window.add_known_time(head, lookup.offset, stored_ms - offsets_ms.get(broker, 0))
