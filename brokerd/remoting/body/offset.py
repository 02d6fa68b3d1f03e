"""Bodies about consumption progress: committed offsets, resets, time spans (protocol section 3.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Self

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.json_body import JsonBody, queue_from
from brokerd.remoting.body.topic import DataVersion
from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.queue import MessageQueue

TOPIC_GROUP_SEPARATOR = "@"
# The body of 43 as brokers print it: `topic@group` as text, queues as bare numbers.
_OFFSETS_BEGIN = b'"offsetTable":{'
_OFFSETS_ENTRY = re.compile(
    rb'"([ !#-\[\]-~]*+)":\{((?:\d{1,9}+:-?\d{1,18}+(?:,(?=\d)|(?=\})))*+)\}(?:,(?=")|(?=\}))'
)
_CONSUMER = re.compile(rb'"([^"\\@]++)@([^"\\]++)":')


@dataclass(slots=True)
class OffsetWrapper(JsonBody):
    """Where a group stands in a queue. `last_timestamp`: store time (ms) of the message before consumer_offset."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int | None = None
    last_timestamp: int = 0


@dataclass(slots=True)
class ConsumeStats(JsonBody):
    """208."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


@dataclass(slots=True)
class ConsumeStatsList(JsonBody):
    """317: one {group: [ConsumeStats]} after the other."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str = ""
    total_diff: int = 0
    total_inflight_diff: int = 0


@dataclass(slots=True)
class ConsumerOffsetWrapper(JsonBody):
    """43 and config/consumerOffset.json: {(topic, group): {queue id: committed offset}}; on the wire `topic@group`."""

    data_version: DataVersion = field(default_factory=DataVersion)
    offset_table: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)

    @classmethod
    def from_body(cls, body: bytes | memoryview) -> Self:
        """Raise BodyError. What brokers print is cut by a pattern: it is all offsets of all groups."""
        data = bytes(body)
        begin = position = data.find(_OFFSETS_BEGIN) + len(_OFFSETS_BEGIN)
        table = {}
        while begin >= len(_OFFSETS_BEGIN) and (entry := _OFFSETS_ENTRY.match(data, position)):
            key, offsets = entry.groups()
            position = entry.end()
            topic, separator, group = key.decode().partition(TOPIC_GROUP_SEPARATOR)
            if separator:  # a third part, of releases that keep offsets per client, stays with the group
                numbers = list(map(int, offsets.replace(b":", b",").split(b","))) if offsets else []
                table[(topic, group)] = dict(zip(numbers[::2], numbers[1::2], strict=True))
        if position > begin and data[position : position + 1] == b"}":
            rest = fastjson.loads(data[:begin] + data[position:])
            if isinstance(rest, dict) and rest.get("offsetTable") == {}:
                return cls(cls.from_value(rest).data_version, table)
        return cls.from_value(fastjson.loads(data))

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Raise BodyError."""
        if not isinstance(value, dict):
            raise BodyError(f"ConsumerOffsetSerializeWrapper is not a JSON object but {type(value).__name__}")
        members = value.get("offsetTable")
        table = {}
        try:
            for key, offsets in ({} if members is None else members).items():
                topic, separator, group = key.partition(TOPIC_GROUP_SEPARATOR)
                if separator:  # a third part, of releases that keep offsets per client, stays with the group
                    table[(topic, group)] = {
                        int(queue_id): int(offset) for queue_id, offset in offsets.items()
                    }
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise BodyError(f"ConsumerOffsetSerializeWrapper.offsetTable: {error}") from None
        version = value.get("dataVersion")
        return cls(DataVersion() if version is None else DataVersion.from_value(version), table)

    def to_value(self) -> dict[str, Any]:
        table = {
            f"{topic}{TOPIC_GROUP_SEPARATOR}{group}": dict(q)
            for (topic, group), q in self.offset_table.items()
        }
        return {"offsetTable": table, "dataVersion": self.data_version.to_value()}


def consumers_in(body: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """(topics, groups) that a 43 names, found without reading its offsets. Raises BodyError."""
    if b"\\" in body:  # names may be written in more than one way
        table = ConsumerOffsetWrapper.from_body(body).offset_table
        return frozenset(topic for topic, _ in table), frozenset(group for _, group in table)
    found = _CONSUMER.findall(body)
    try:
        topics = frozenset(topic.decode() for topic in {topic for topic, _ in found})
        return topics, frozenset(group.decode() for group in {group for _, group in found})
    except UnicodeDecodeError as error:
        raise BodyError(f"body is not UTF-8: {error.object[:40]!r}") from None


@dataclass(slots=True)
class ResetOffsetBody(JsonBody):
    """220 and the answer to 222."""

    offset_table: dict[MessageQueue, int] = field(default_factory=dict)

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Take the list form that C++ clients get as well. Raises BodyError."""
        if not isinstance(value, dict):
            raise BodyError(f"ResetOffsetBody is not a JSON object but {type(value).__name__}")
        table = value.get("offsetTable")
        try:
            if isinstance(table, list):
                return cls({queue_from(item): int(item["offset"]) for item in table})
            pairs = ({} if table is None else table).items()
            return cls({queue_from(key): int(offset) for key, offset in pairs})
        except (TypeError, ValueError, OverflowError, KeyError, AttributeError) as error:
            raise BodyError(f"ResetOffsetBody.offsetTable: {error}") from None


@dataclass(slots=True)
class GetConsumerStatusBody(JsonBody):
    """221 and 223: offsets as a client, or every client, has them."""

    message_queue_table: dict[MessageQueue, int] = field(default_factory=dict)
    consumer_table: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)


@dataclass(slots=True)
class QueueTimeSpan(JsonBody):
    """Times in ms: of the first and last message, of the next to be consumed, and its delay."""

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0


@dataclass(slots=True)
class QueryConsumeTimeSpanBody(JsonBody):
    """303."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


@dataclass(slots=True)
class QueryCorrectionOffsetBody(JsonBody):
    """308: {queue id: offset}."""

    correction_offsets: dict[int, int] = field(default_factory=dict)
