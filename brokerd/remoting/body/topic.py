"""Bodies about topics: their settings, their offsets, lists of them (protocol section 3.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Self

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.json_body import JsonBody
from brokerd.remoting.message.queue import MessageQueue

# The body of 202 as brokers print it: queues as keys, members in alphabetical order, names of printable characters.
_STATS_BEGIN = b'{"offsetTable":{'
_STATS_ENTRY = re.compile(
    rb'\{"brokerName":"([ !#-\[\]-~]*)","queueId":(\d{1,9}),"topic":"([ !#-\[\]-~]*)"\}:'
    rb'\{"lastUpdateTimestamp":(-?\d{1,18}),"maxOffset":(-?\d{1,18}),"minOffset":(-?\d{1,18})\}(?:,(?=\{)|(?=\}))'
)
_STATS_END = re.compile(rb'\}(?:,"topicPutTps":(\d+(?:\.\d+)?))?\}')
_STATS_ENTRY_BYTES = len(
    b'{"brokerName":"","queueId":,"topic":""}:{"lastUpdateTimestamp":,"maxOffset":,"minOffset":}'
)


@dataclass(slots=True)
class DataVersion(JsonBody):
    """A table's version: it changed when the counter did."""

    timestamp: int = 0
    counter: int = 0
    state_version: int = 0


@dataclass(slots=True)
class TopicConfig(JsonBody):
    """`perm` is a sum of Permission."""

    topic_name: str = ""
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class TopicQueueMappingInfo(JsonBody):
    """Of a static topic (5.x): which of its queues a broker has; `curr_id_map` is {queue id of clients: its own}."""

    topic: str = ""
    scope: str = "__global__"
    total_queues: int = 0
    bname: str = ""
    epoch: int = 0
    dirty: bool = False
    curr_id_map: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class TopicConfigSerializeWrapper(JsonBody):
    """21, 103 and config/topics.json. Maps of 5.x: static topics, how their queues are mapped."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    topic_queue_mapping_detail_map: dict[str, Any] | None = None
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] | None = None


@dataclass(slots=True)
class CreateTopicListRequestBody(JsonBody):
    """18."""

    topic_config_list: list[TopicConfig] = field(default_factory=list)


@dataclass(slots=True)
class TopicOffset(JsonBody):
    """Range and last write (ms, 0 unknown) of a queue."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


@dataclass(slots=True)
class TopicStatsTable(JsonBody):
    """202."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float | None = None

    @classmethod
    def from_body(cls, body: bytes | memoryview) -> Self:
        """Raise BodyError. What brokers print is cut by a pattern: a console reads tens of thousands at once."""
        data, table = bytes(body), {}
        position = len(_STATS_BEGIN) if data.startswith(_STATS_BEGIN) else 0
        while position and (entry := _STATS_ENTRY.match(data, position)):
            broker, queue_id, topic, written, high, low = entry.groups()
            queue = MessageQueue(topic.decode(), broker.decode(), int(queue_id))
            table[queue] = TopicOffset(int(low), int(high), int(written))
            position = entry.end()
        end = _STATS_END.fullmatch(data, position)
        if end is None:
            return cls.from_value(fastjson.loads(data))
        return cls(table, None if end[1] is None else float(end[1]))


def queue_ranges(body: bytes) -> list[tuple[int, int, int, int]]:
    """Return (queue id, min offset, max offset, last write) of each queue of a 202, by queue id.

    A console reads tens of thousands at once. Raises BodyError.
    """
    found = _STATS_ENTRY.findall(body) if body.startswith(_STATS_BEGIN) else []
    if found:
        brokers, queue_ids, topics, written, high, low = zip(*found, strict=True)
        texts = sum(sum(map(len, column)) for column in (brokers, queue_ids, topics, written, high, low))
        end = len(_STATS_BEGIN) + len(found) * (_STATS_ENTRY_BYTES + 1) - 1 + texts
        if _STATS_END.fullmatch(body, end):  # nothing lies between the entries
            return sorted(
                zip(map(int, queue_ids), map(int, low), map(int, high), map(int, written), strict=True)
            )
    return sorted(
        (queue.queue_id, one.min_offset, one.max_offset, one.last_update_timestamp)
        for queue, one in TopicStatsTable.from_body(body).offset_table.items()
    )


@dataclass(slots=True)
class TopicList(JsonBody):
    """206, 224, 304, 305, 343."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None
