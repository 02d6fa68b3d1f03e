"""The handle of a popped message, and the fields a client makes it of: texts as Java writes them.

    POP_CK / extraInfo   <start> <popTime> <invisibleTime> <reviveQueue> <retry> <broker> <queueId> <queueOffset>
    startOffsetInfo      <retry> <queueId> <start>;…
    msgOffsetInfo        <retry> <queueId> <offset>,<offset>,…;…
    orderCountInfo       <retry> <queueId> <count>;…  and  <retry> qo<queueId>%<offset> <count>;…

Source: `ExtraInfoUtil.java`, `KeyBuilder.java`, protocol §3.9. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brokerd.remoting.errors import HeaderFieldError
from brokerd.remoting.message.names import RETRY_TOPIC_PREFIX

ORDER_REVIVE_QUEUE = 999  # of an orderly pop: it has no checkpoint
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
SEPARATOR_V1, SEPARATOR_V2 = "_", "+"
PARTS_MIN = 7  # an eighth, the message's own offset, is in the request too


@dataclass(frozen=True, slots=True)
class Handle:
    """What a client sends back of one popped message."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    retry: str
    broker_name: str
    queue_id: int

    @property
    def is_order(self) -> bool:
        return self.revive_queue_id == ORDER_REVIVE_QUEUE

    def text(self, queue_offset: int) -> str:
        """Return the property POP_CK of one message."""
        return (
            f"{self.start_offset} {self.pop_time_ms} {self.invisible_ms} {self.revive_queue_id} {self.retry}"
            f" {self.broker_name} {self.queue_id} {queue_offset}"
        )


def parse_handle(text: str) -> Handle:
    """Raise HeaderFieldError naming what is wrong."""
    parts = text.split(" ")
    if len(parts) < PARTS_MIN:
        raise HeaderFieldError("extraInfo", text, f"takes at least {PARTS_MIN} parts")
    start, pop_time, invisible, revive_queue, retry, broker_name, queue_id = parts[:PARTS_MIN]
    try:
        return Handle(
            int(start), int(pop_time), int(invisible), int(revive_queue), retry, broker_name, int(queue_id)
        )
    except ValueError:
        raise HeaderFieldError("extraInfo", text, "takes whole numbers but for the broker's name") from None


def pop_retry_topic(topic: str, group: str, *, is_v2: bool) -> str:
    """Return where messages of `topic` go that a POP group did not acknowledge."""
    return f"{RETRY_TOPIC_PREFIX}{group}{SEPARATOR_V2 if is_v2 else SEPARATOR_V1}{topic}"


def both_retry_topics(topic: str, group: str) -> tuple[str, str]:
    """Return its names in both forms."""
    return pop_retry_topic(topic, group, is_v2=False), pop_retry_topic(topic, group, is_v2=True)


def retry_flag(topic: str) -> str:
    """Return the flag of the topic that a message lies in."""
    if not topic.startswith(RETRY_TOPIC_PREFIX):
        return NORMAL
    return RETRY_V2 if SEPARATOR_V2 in topic else RETRY_V1


def topic_of_flag(topic: str, group: str, flag: str) -> str:
    """Return the topic that a batch acknowledgement means. Raises HeaderFieldError for an unknown flag."""
    if flag == NORMAL:
        return topic
    if flag not in (RETRY_V1, RETRY_V2):
        raise HeaderFieldError("r", flag, "takes 0, 1 or 2")
    return pop_retry_topic(topic, group, is_v2=flag == RETRY_V2)


def normal_topic(topic: str, group: str) -> str:
    """Return the topic that messages of a POP retry topic came from; any other topic itself."""
    for separator in (SEPARATOR_V2, SEPARATOR_V1):
        prefix = f"{RETRY_TOPIC_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


def start_offset_info(topic: str, queue_id: int, start_offset: int) -> str:
    return f"{retry_flag(topic)} {queue_id} {start_offset}"


def message_offset_info(topic: str, queue_id: int, offsets: Sequence[int]) -> str:
    return f"{retry_flag(topic)} {queue_id} {','.join(map(str, offsets))}"


def queue_count_info(topic: str, queue_id: int, count: int) -> str:
    """How often the messages of a queue were consumed: the least of them."""
    return f"{retry_flag(topic)} {queue_id} {count}"


def message_count_info(topic: str, queue_id: int, offset: int, count: int) -> str:
    return f"{retry_flag(topic)} qo{queue_id}%{offset} {count}"
