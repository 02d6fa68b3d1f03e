"""Light queues (LMQ): a record is in the queues that its property INNER_MULTI_DISPATCH names too, beside its own.

    INNER_MULTI_DISPATCH      %LMQ%a,%LMQ%b   of the producer
    INNER_MULTI_QUEUE_OFFSET  17,4            of the broker: the message's numbers there

A light queue is queue 0 of a topic of its name. Source: `MultiDispatchUtils.java`, `LmqDispatch.java` of 5.3.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from brokerd.remoting.message.names import (
    CHECK_MAX_TIME_TOPIC,
    DLQ_TOPIC_PREFIX,
    HALF_TOPIC,
    LIGHT_QUEUE_ID,
    RETRY_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    MessageProperty,
    is_light,
)
from brokerd.remoting.message.properties import encode_properties, parse_properties
from brokerd.store.errors import MessageIllegal
from brokerd.store.log.record import StoredRecord, find_property
from brokerd.store.queue.consume_queue import ConsumeQueue
from brokerd.store.queue.consume_queue_table import check_name, is_name

# As they lie in a record.
DISPATCH = MessageProperty.INNER_MULTI_DISPATCH.encode() + b"\x01"
OFFSETS = MessageProperty.INNER_MULTI_QUEUE_OFFSET.encode() + b"\x01"
NAMES_MAX = 512  # a file, a note and a unit each; an ordinary message has one of each
DIGITS_MAX = 18
# How far a number may be ahead of its queue: it comes from the log, where a producer may have put it.
GAP_MAX = 300_000

# A message that waits gets its light queues when it is delivered. Apache puts half messages there before their
# transaction has ended, and dead letters once more.
WAITING_TOPICS = frozenset({SCHEDULE_TOPIC, HALF_TOPIC, CHECK_MAX_TIME_TOPIC})


def takes_light(topic: str) -> bool:
    """Return whether messages put into the topic go to light queues too."""
    return topic not in WAITING_TOPICS and not topic.startswith(
        (RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX, SYSTEM_TOPIC_PREFIX)
    )


def has_units(topic: str) -> bool:
    """Return whether a broker, ours or Apache's, has put the topic's records into light queues."""
    return topic != SCHEDULE_TOPIC and not topic.startswith((RETRY_TOPIC_PREFIX, SYSTEM_TOPIC_PREFIX))


def goes_behind(end: int, topic: str, number: int) -> bool:
    """Return whether a stored record gets its unit in a light queue that ends at `end`.

    4.9.7 puts a delayed message there at once; any other in that topic was sent back, with its number of then.
    """
    return has_units(topic) or (topic == SCHEDULE_TOPIC and number == end)


def light_names(topic: str, properties: bytes) -> list[str]:
    """Return the light queues that a message goes to: none when one of its names is not right.

    A sender is told so; what waited while they were off, or came from elsewhere, must not be refused for ever.
    """
    try:
        return checked_names(topic, find_property(properties, DISPATCH).decode(errors="replace"))
    except MessageIllegal:
        return []


def checked_names(topic: str, text: str) -> list[str]:
    """Return the names in INNER_MULTI_DISPATCH. Raises MessageIllegal."""
    text = text.rstrip(",")
    if not text.strip():
        return []
    names = text.split(",")
    if len(names) > NAMES_MAX:
        raise MessageIllegal(f"INNER_MULTI_DISPATCH names {len(names)} light queues, at most {NAMES_MAX}")
    for name in names:
        if not is_light(name):
            raise MessageIllegal(f"INNER_MULTI_DISPATCH names {name!r}; light queues begin with %LMQ%")
        check_name(name, LIGHT_QUEUE_ID)
    if len(set(names)) < len(names) or topic in names:
        raise MessageIllegal(f"INNER_MULTI_DISPATCH names a queue twice, or the message's own topic: {text}")
    return names


def with_offsets(properties: bytes, offsets: Iterable[int]) -> bytes:
    """Return the properties with the message's numbers in its light queues."""
    properties = without_offsets(properties)
    separator = b"" if properties.endswith(b"\x02") else b"\x02"
    return b"%b%b%b%b\x02" % (properties, separator, OFFSETS, ",".join(map(str, offsets)).encode())


def without_offsets(properties: bytes) -> bytes:
    """Drop the numbers that came with a message: of where it was before, or of the producer's own making."""
    if OFFSETS not in properties:
        return properties
    decoded = parse_properties(properties.decode(errors="replace"))
    decoded.pop(MessageProperty.INNER_MULTI_QUEUE_OFFSET, None)
    return encode_properties(decoded)


def light_units(properties: bytes) -> list[tuple[str, int]]:
    """(light queue, number there) of a stored record; [] for most."""
    if OFFSETS not in properties:
        return []
    names = find_property(properties, DISPATCH).decode(errors="replace").rstrip(",").split(",")
    numbers = find_property(properties, OFFSETS).decode(errors="replace").rstrip(",").split(",")
    if len(names) != len(numbers):
        return []
    return [
        (name, int(number))
        for name, number in zip(names, numbers, strict=True)
        if is_light(name) and is_name(name, LIGHT_QUEUE_ID) and is_number(number)
    ]


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX


def is_record_of(queue: ConsumeQueue, number: int, record: StoredRecord) -> bool:
    """Return whether a unit of the queue may point to the record."""
    if (record.topic, record.queue_id) == (queue.topic, queue.queue_id):
        return record.queue_offset == number
    return is_light(queue.topic) and number_in(queue.topic, record.properties) == number


def number_in(light_queue: str, properties: bytes) -> int | None:
    """Return the number of a record in one of its light queues; None where it is not in it."""
    return dict(light_units(properties)).get(light_queue)
