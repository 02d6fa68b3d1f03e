"""The copy of a dead letter that is sent, and how fast: properties, replay key, target queue, token bucket.
Pure."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

from console.deadletter.dead_letters import original_topic
from console.mqadmin import Message, MessageProperty, MessageQueue, MessageRecord

REPLAY_KEY = "TIDEMARK_REPLAY_KEY"
FAILED_GROUP, ORIGINAL_TOPIC = "failed_group", "original_topic"
TARGETS = (FAILED_GROUP, ORIGINAL_TOPIC)
BURST_S = 0.25  # so much of a second's messages may go at once: a batch, and how fast a new rate is felt

# What belongs to the dead letter's past and would change the copy's future: delay and timer (it would be
# delayed again), retry counts (it would die at once), the broker's own marks, transaction and POP state, an
# earlier replay's key.
DROPPED = frozenset(
    {
        "DELAY",
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS",
        "TIMER_OUT_MS",
        "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS",
        "TIMER_ROLL_TIMES",
        "TIMER_DELAY_LEVEL",
        "RECONSUME_TIME",
        "MAX_RECONSUME_TIMES",
        "MAX_OFFSET",
        "MIN_OFFSET",
        "CONSUME_START_TIME",
        "REAL_TOPIC",
        "REAL_QID",
        "TRAN_MSG",
        "PGROUP",
        "WAIT",
        "CLUSTER",
        "MSG_REGION",
        "TRACE_ON",
        "POP_CK",
        "1ST_POP_TIME",
        REPLAY_KEY,
    }
)


def replay_key(plan_id: str, queue: MessageQueue, queue_offset: int) -> str:
    """The same for the same dead letter and plan, whoever computes it when: ``op-x7k2m9qa:1f0c…`` (64
    bits)."""
    place = f"{plan_id}|{queue.topic}|{queue.broker_name}|{queue.queue_id}|{queue_offset}"
    return f"{plan_id}:{hashlib.sha256(place.encode()).hexdigest()[:16]}"


def copy_of(record: MessageRecord, target_topic: str, key: str, *, to_group: bool) -> Message:
    """The message to send. To the failed group: RETRY_TOPIC tells the client which topic to show (semantics
    §4.2).

    Keys, tags, unique key and all of the producer's properties stay. Raises ValueError when the body does
    not decompress.
    """
    properties = {name: value for name, value in record.properties.items() if name not in DROPPED}
    if to_group:
        properties[MessageProperty.RETRY_TOPIC] = original_topic(record)
        properties.setdefault(MessageProperty.ORIGIN_MESSAGE_ID, record.message_id)
    else:
        properties.pop(MessageProperty.RETRY_TOPIC, None)
    properties[REPLAY_KEY] = key
    return Message(topic=target_topic, body=record.decoded_body(), properties=properties, flag=record.flag)


def target_queue(queues: Sequence[MessageQueue], letter: MessageQueue, queue_offset: int) -> MessageQueue:
    """A writable queue for this letter: on its own broker where there is one, spread by offset, always the
    same one."""
    own = [queue for queue in queues if queue.broker_name == letter.broker_name] or list(queues)
    return own[queue_offset % len(own)]


@dataclasses.dataclass(slots=True)
class TokenBucket:
    """How long to wait before the next messages. Holds at most BURST_S worth of tokens, at least one."""

    tokens: float = 1.0
    at_s: float | None = None

    def take(self, count: int, rate_per_s: int | None, now_s: float) -> float:
        """0.0 and the tokens are taken, or the seconds after which to ask again. No rate: never wait."""
        if rate_per_s is None:
            self.tokens, self.at_s = 1.0, now_s
            return 0.0
        elapsed = 0.0 if self.at_s is None else max(0.0, now_s - self.at_s)
        self.at_s = now_s
        burst = max(1.0, rate_per_s * BURST_S, float(count))
        self.tokens = min(burst, self.tokens + elapsed * rate_per_s)
        if self.tokens >= count:
            self.tokens -= count
            return 0.0
        return (count - self.tokens) / rate_per_s


def batch_size(rate_per_s: int | None, most: int) -> int:
    """Messages per batch: a quarter of a second's worth, so that pause and rate are felt at once."""
    return most if rate_per_s is None else max(1, min(most, int(rate_per_s * BURST_S)))
