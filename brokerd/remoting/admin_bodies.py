"""Bodies of administration: topics, groups, offsets, statistics, clients (protocol section 3.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Self

from brokerd.remoting import fastjson
from brokerd.remoting.errors import BodyError
from brokerd.remoting.json_body import JsonBody, queue_from, wire
from brokerd.remoting.message_queue import MessageQueue

TOPIC_GROUP_SEPARATOR = "@"
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
# The body of 43 as brokers print it: `topic@group` as text, queues as bare numbers.
_OFFSETS_BEGIN = b'"offsetTable":{'
_OFFSETS_ENTRY = re.compile(
    rb'"([ !#-\[\]-~]*+)":\{((?:\d{1,9}+:-?\d{1,18}+(?:,(?=\d)|(?=\})))*+)\}(?:,(?=")|(?=\}))'
)
_CONSUMER = re.compile(rb'"([^"\\@]++)@([^"\\]++)":')


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
class TopicConfigSerializeWrapper(JsonBody):
    """21 and config/topics.json. `topic_queue_mapping_detail_map` (5.x): static topics, how their queues are mapped."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    topic_queue_mapping_detail_map: dict[str, Any] | None = None


@dataclass(slots=True)
class CreateTopicListRequestBody(JsonBody):
    """18."""

    topic_config_list: list[TopicConfig] = field(default_factory=list)


@dataclass(slots=True)
class SubscriptionGroupConfig(JsonBody):
    """A group's settings; `retry_max_times` redeliveries, then the dead-letter topic."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: dict[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[Any] | None = None
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class SubscriptionGroupWrapper(JsonBody):
    """201 and config/subscriptionGroup.json."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(slots=True)
class GroupForbidden(JsonBody):
    """353 (5.x): whether the group may read the topic here."""

    topic: str = ""
    group: str = ""
    readable: bool = True


@dataclass(slots=True)
class SubscriptionGroupList(JsonBody):
    """225."""

    group_config_list: list[SubscriptionGroupConfig] = field(default_factory=list)


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
        """Raises BodyError. What brokers print is cut by a pattern: a console reads tens of thousands at once."""
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
    """(queue id, min offset, max offset, last write) of each queue of a 202, by queue id; a console reads tens of
    thousands at once. Raises BodyError.
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
        """Raises BodyError. What brokers print is cut by a pattern: it is all offsets of all groups."""
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
        """Raises BodyError."""
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
        """Takes the list form that C++ clients get as well. Raises BodyError."""
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

    def to_body_for_c(self) -> bytes:
        """The list form: a client that announces itself as CPP reads no object keys."""
        return fastjson.dumps(
            {
                "offsetTable": [
                    {"brokerName": q.broker_name, "offset": offset, "queueId": q.queue_id, "topic": q.topic}
                    for q, offset in self.offset_table.items()
                ]
            }
        )


@dataclass(slots=True)
class GetConsumerStatusBody(JsonBody):
    """221 and 223: offsets as a client, or every client, has them."""

    message_queue_table: dict[MessageQueue, int] = field(default_factory=dict)
    consumer_table: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)


@dataclass(slots=True)
class QueryCorrectionOffsetBody(JsonBody):
    """308."""

    correction_offsets: dict[int, int] = field(default_factory=dict)


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
class TopicList(JsonBody):
    """206, 224, 304, 305, 343."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None


@dataclass(slots=True)
class GroupList(JsonBody):
    """300."""

    group_list: list[str] = field(default_factory=list)


@dataclass(slots=True)
class DelayOffsetWrapper(JsonBody):
    """45 and config/delayOffset.json: delay level (from 1) → offset of the next message to deliver. A level that never
    delivered anything may be missing (4.x): that is not "nothing waits".
    """

    offset_table: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class TimerMetric(JsonBody):
    """How many messages of one topic wait in the timer wheel, and when that changed last (ms)."""

    count: int = 0
    time_stamp: int = 0


@dataclass(slots=True)
class TimerMetricsWrapper(JsonBody):
    """61 (5.x): by real topic; RocketMQ's own topics are among them."""

    timing_count: dict[str, TimerMetric] = field(default_factory=dict)


@dataclass(slots=True)
class KVTable(JsonBody):
    """28, 219."""

    table: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ConsumeStatus(JsonBody):
    """What a client measures of one topic; times in ms, rates per second, failures of the last hour."""

    pull_rt: float = wire("pullRT", 0.0)
    pull_tps: float = wire("pullTPS", 0.0)
    consume_rt: float = wire("consumeRT", 0.0)
    consume_ok_tps: float = wire("consumeOKTPS", 0.0)
    consume_failed_tps: float = wire("consumeFailedTPS", 0.0)
    consume_failed_msgs: int = 0


@dataclass(slots=True)
class ProcessQueueInfo(JsonBody):
    """What a client holds of one queue. `droped` is spelt so on the wire; Go writes it right."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = wire("cachedMsgSizeInMiB", 0)
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    dropped: bool = wire("droped", False)
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Raises BodyError."""
        if isinstance(value, dict) and "dropped" in value and "droped" not in value:
            value = {**value, "droped": value["dropped"]}
        # Without arguments super() would look at the class before `slots` made another one of it.
        return super(ProcessQueueInfo, cls).from_value(value)


@dataclass(slots=True)
class QueryConsumeQueueResponseBody(JsonBody):
    """321."""

    subscription_data: Any = None
    filter_data: str | None = None
    queue_data: list[Any] = field(default_factory=list)
    max_queue_index: int = 0
    min_queue_index: int = 0


@dataclass(slots=True)
class BrokerStatsItem(JsonBody):
    """A statistic over a minute, an hour or a day: average per call, sum, per second."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


@dataclass(slots=True)
class BrokerStatsData(JsonBody):
    """315."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


@dataclass(slots=True)
class ProducerInfo(JsonBody):
    """One connected producer; `last_update_timestamp` is ms, `remote_ip` is ip:port."""

    client_id: str = ""
    remote_ip: str = wire("remoteIP", "")
    language: str = ""
    version: int = 0
    last_update_timestamp: int = 0


@dataclass(slots=True)
class ProducerTableInfo(JsonBody):
    """328: {group: its producers}."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


@dataclass(slots=True)
class HAConnectionInfo(JsonBody):
    """A slave as its master sees it: `diff` bytes behind, `slave_ack_offset` of the commit log."""

    addr: str = ""
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


@dataclass(slots=True)
class HARuntimeInfo(JsonBody):
    """907: how far the slaves of a master are."""

    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionInfo] = field(default_factory=list)
