"""From the brokers' answers to one snapshot: which series they speak of, and what their clocks say. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np

from console.lag.broker_reads import BrokerAnswers
from console.lag.round_view import TopicQueueKey
from console.mqadmin import is_system_topic
from spark.lag.snapshot import UNKNOWN_OFFSET, BrokerRead, CommitKey, HeadKey, Snapshot
from spark.lag.window import LagWindow

CLOCK_TOLERANCE_MS = 1_000  # below this a broker's clock counts as ours (lag.md 1.3, clock skew)


def heads_of(answers: Sequence[BrokerAnswers], window: LagWindow) -> dict[TopicQueueKey, HeadKey]:
    """Return the series of every queue that was read; RocketMQ's own topics only when a group consumes them."""
    heads = {}
    for answer in answers:
        consumed = {topic for topic, _ in answer.offsets}
        for topic, queues in answer.stats.items():
            if topic in consumed or not is_system_topic(topic):
                broker = answer.address.broker_name
                for queue in queues:
                    key = TopicQueueKey(topic, broker, queue.queue_id)
                    heads[key] = HeadKey(*key, window.incarnation(*key, queue.min_offset, queue.max_offset))
    return heads


def snapshot_of(
    answers: Sequence[BrokerAnswers], heads: Mapping[TopicQueueKey, HeadKey], *, ts_ms: int, number: int
) -> Snapshot:
    """Return the round as history keeps it."""
    offsets: dict[HeadKey, tuple[int, int]] = {}
    commits: dict[CommitKey, tuple[int, int]] = {}
    for answer in answers:
        broker = answer.address.broker_name
        for topic, queues in answer.stats.items():
            for queue in queues:
                head = heads.get(TopicQueueKey(topic, broker, queue.queue_id))
                if head is not None:
                    offsets[head] = queue.max_offset, queue.min_offset
        for (topic, group), committed in answer.offsets.items():
            for queue_id, offset in committed.items():
                head = heads.get(TopicQueueKey(topic, broker, queue_id))
                if head is not None:
                    pulled = answer.pulled.get((group, topic, queue_id), UNKNOWN_OFFSET)
                    commits[CommitKey(group, *head)] = offset, pulled
    high_low = np.array(list(offsets.values()), dtype=np.int64).reshape(-1, 2)
    committed_pulled = np.array(list(commits.values()), dtype=np.int64).reshape(-1, 2)
    return Snapshot(
        ts_ms=ts_ms,
        number=number,
        brokers=[_broker_read(answer) for answer in answers],
        head_keys=list(offsets),
        max_offset=high_low[:, 0].copy(),
        min_offset=high_low[:, 1].copy(),
        commit_keys=list(commits),
        committed=committed_pulled[:, 0].copy(),
        pulled=committed_pulled[:, 1].copy(),
    )


def _broker_read(answer: BrokerAnswers) -> BrokerRead:
    return BrokerRead(
        answer.address.broker_name,
        answer.answered,
        answer.read_committed_ms,
        answer.read_max_ms,
        answer.rpc_ms,
        answer.error,
    )


def clock_offset_ms(
    answer: BrokerAnswers, before: Mapping[TopicQueueKey, int], *, interval_ms: int, known_ms: int
) -> int:
    """Return broker clock - our clock, as far as its store times betray it.

    `before` maps queues to their max offset of the round before: a queue that grew got a message since, so
    its newest store time lies between the two rounds by a good clock. `known_ms` stays when nothing arrived.
    """
    broker = answer.address.broker_name
    ages = [
        queue.last_write_ms - answer.read_max_ms
        for topic, queues in answer.stats.items()
        for queue in queues
        if queue.last_write_ms
        and queue.max_offset > before.get(TopicQueueKey(topic, broker, queue.queue_id), queue.max_offset)
    ]
    if not ages:
        return known_ms
    newest = max(ages)
    in_time = -(interval_ms + CLOCK_TOLERANCE_MS) <= newest <= CLOCK_TOLERANCE_MS
    return 0 if in_time else newest


def learn_store_times(
    window: LagWindow, answers: Sequence[BrokerAnswers], offsets_ms: Mapping[str, int]
) -> None:
    """Teach the window the store times it cannot know from history: a new queue's newest message, and
    lookups.
    """
    for answer in answers:
        broker = answer.address.broker_name
        skew_ms = offsets_ms.get(broker, 0)
        for topic, queues in answer.stats.items():
            for queue in queues:
                head = window.newest(topic, broker, queue.queue_id)
                if queue.last_write_ms and head is not None and not window.has_known_times(head):
                    window.add_known_time(head, queue.max_offset - 1, queue.last_write_ms - skew_ms)
        for lookup, stored_ms in answer.stored_ms.items():
            head = window.newest(lookup.topic, broker, lookup.queue_id)
            if head is not None:
                window.add_known_time(head, lookup.offset, stored_ms - skew_ms)
