"""Read brokers and queues as they were last seen, including those that do not answer. Calls no broker.

Three sources, each with what the one before may have lost: the rows of the last round (a silent broker's queues
stay there), the rows of brokers, and the history of committed offsets, which survives a new metrics database.
"""

from collections.abc import Collection
from dataclasses import dataclass

from console.brokers.mqadmin import MessageQueue
from console.lag import selectors as lag_selectors
from console.lag.past import history_reads
from console.lag.rows import queues
from console.text import Moment, Names, Text
from spark.lag.local_time import HOUR_MS

# How far back history is searched for queues that no row has; each step reads about a quarter of an hour.
LOOKED_BACK_MS = (HOUR_MS, 24 * HOUR_MS, 7 * 24 * HOUR_MS)


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """Describe a broker the collector has recorded.

    `silent_since_ms` None: it answered the last round. `was_read` false: it never answered, so what it holds is
    unknown.
    """

    silent_since_ms: int | None
    last_read_ms: int
    reason: str
    was_read: bool


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """Describe a queue as it was last read; None: unknown."""

    min_offset: int | None
    max_offset: int | None
    committed_offset: int | None
    read_at_ms: int


def brokers_seen(cluster: str) -> dict[str, BrokerSeen]:
    """Return every broker name of the cluster that the collector has recorded."""
    found: dict[str, BrokerSeen] = {}
    for row in lag_selectors.broker_rows(cluster):
        since_ms = None if row.answered else row.since_ms
        found.setdefault(
            row.broker_name, BrokerSeen(since_ms, row.read_at_ms, row.reason, row.read_at_ms > 0)
        )
    return found


def may_lie_on_silent(cluster: str) -> Text:
    """Return a sentence for what no row has: it may be on a silent broker; empty while all answer."""
    silent = lag_selectors.silent_brokers(cluster)
    if not silent:
        return Text()
    names = Names(sorted({row.broker_name for row in silent}))
    since = Moment(min(row.since_ms for row in silent))
    return Text("It may lie on %(names)s, silent since %(time)s.", names=names, time=since)


def group_queues_seen(cluster: str, group: str, now_ms: int) -> dict[MessageQueue, QueueSeen]:
    """Return the queues a group had committed offsets on: from the last rows, else from a week of history."""
    found: dict[MessageQueue, QueueSeen] = {}
    for row in queues.of_groups(cluster, [group]):
        queue = MessageQueue(row.topic, row.broker_name, row.queue_id)
        found[queue] = QueueSeen(row.min_offset, row.max_offset, row.committed_offset, row.read_at_ms)
    for back_ms in LOOKED_BACK_MS:
        then = history_reads.offsets_at(cluster, group, now_ms - back_ms)
        for queue, reading in then.items():
            found.setdefault(queue, QueueSeen(None, None, reading.offset, reading.read_at_ms))
    return found


def topic_queues_seen(cluster: str, topics: Collection[str]) -> dict[MessageQueue, QueueSeen]:
    """Return the queues of some topics from the last rows, with or without consumers."""
    return {
        MessageQueue(row.topic, row.broker_name, row.queue_id): QueueSeen(
            row.min_offset, row.max_offset, None, row.read_at_ms
        )
        for row in queues.topic_queues(cluster, topics)
    }
