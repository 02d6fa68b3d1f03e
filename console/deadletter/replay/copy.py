"""Make the copy of a dead letter to send: properties, replay key, target queue. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from console.brokers.mqadmin import Message, MessageProperty, MessageQueue, MessageRecord
from console.deadletter.dead_letters import group_of, original_topic

REPLAY_KEY = "TIDEMARK_REPLAY_KEY"
DEAD_LETTER_OF = "TIDEMARK_DEAD_LETTER_OF"  # the group it died in
DEAD_LETTER = "TIDEMARK_DEAD_LETTER"  # broker/queue/offset in that group's dead-letter topic
DIED_IN_TOPIC = "TIDEMARK_ORIGINAL_TOPIC"  # the topic it was first sent to, for copies sent to another topic

FAILED_GROUP, ORIGINAL_TOPIC, CLIENT, OTHER_TOPIC = "failed_group", "original_topic", "client", "other_topic"
NOWHERE = "nowhere"  # nothing is sent: the letters are marked as handled
TARGETS = (FAILED_GROUP, ORIGINAL_TOPIC, CLIENT, OTHER_TOPIC, NOWHERE)

# Properties of the dead letter that would affect the copy: delay and timer (it would be delayed again), retry
# counts (it would die at once), the broker's own properties, transaction and POP state, an earlier replay's key.
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
        DEAD_LETTER_OF,
        DEAD_LETTER,
        DIED_IN_TOPIC,
    }
)


def replay_key(plan_id: str, queue: MessageQueue, queue_offset: int) -> str:
    """Return a key that is always the same for a dead letter and a plan: ``op-x7k2m9qa:1f0c…`` (64 bits)."""
    place = f"{plan_id}|{queue.topic}|{queue.broker_name}|{queue.queue_id}|{queue_offset}"
    return f"{plan_id}:{hashlib.sha256(place.encode()).hexdigest()[:16]}"


def copy_of(record: MessageRecord, target_topic: str, key: str, target: str, place: MessageQueue) -> Message:
    """Return the message to send; ``place`` is the dead letter's queue.

    To the failed group, RETRY_TOPIC names the topic that the client passes to its listener. To other targets,
    properties name the group and the dead letter. Keys, tags, unique key and all of the producer's properties
    stay. Raises BodyError when the body does not decompress.
    """
    properties = {name: value for name, value in record.properties.items() if name not in DROPPED}
    if target == FAILED_GROUP:
        properties[MessageProperty.RETRY_TOPIC] = original_topic(record)
        properties.setdefault(MessageProperty.ORIGIN_MESSAGE_ID, record.message_id)
    else:
        properties.pop(MessageProperty.RETRY_TOPIC, None)
        properties[DEAD_LETTER_OF] = group_of(place.topic)
        properties[DEAD_LETTER] = f"{place.broker_name}/{place.queue_id}/{record.queue_offset}"
    if target == OTHER_TOPIC:
        properties[DIED_IN_TOPIC] = original_topic(record)
    properties[REPLAY_KEY] = key
    return Message(topic=target_topic, body=record.decoded_body(), properties=properties, flag=record.flag)


def target_queue(queues: Sequence[MessageQueue], letter: MessageQueue, queue_offset: int) -> MessageQueue:
    """Return the writable queue for a letter, always the same one.

    Queues of the letter's own broker come first; the offset spreads letters over them.
    """
    own = [queue for queue in queues if queue.broker_name == letter.broker_name] or list(queues)
    return own[queue_offset % len(own)]
