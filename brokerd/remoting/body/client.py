"""Bodies about clients: heartbeats, connections, running state (protocol sections 3.2 and 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import msgspec

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.json_body import JsonBody, wire
from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.queue import MessageQueue

TAG = "TAG"
# CMResult.java, by the ordinal that Go sends
DIRECT_RESULTS = (
    "CR_SUCCESS",
    "CR_LATER",
    "CR_ROLLBACK",
    "CR_COMMIT",
    "CR_THROW_EXCEPTION",
    "CR_RETURN_NULL",
)
Part = TypeVar("Part", bound=JsonBody)


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
        """Raise BodyError."""
        if isinstance(value, dict) and "dropped" in value and "droped" not in value:
            value = {**value, "droped": value["dropped"]}
        # Without arguments super() would look at the class before `slots` made another one of it.
        return super(ProcessQueueInfo, cls).from_value(value)


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
class SubscriptionData(JsonBody):
    """What a group reads of a topic. `code_set`: Java hashes of the tags (Go sends them as text)."""

    topic: str = ""
    sub_string: str = "*"
    tags_set: list[str] = field(default_factory=list)
    code_set: list[int] = field(default_factory=list)
    sub_version: int = 0
    expression_type: str = TAG
    class_filter_mode: bool = False


@dataclass(slots=True)
class ProducerData(JsonBody):
    """A producer group in a heart beat."""

    group_name: str = ""


@dataclass(slots=True)
class ConsumerData(JsonBody):
    """A consumer group in a heart beat."""

    group_name: str = ""
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


@dataclass(slots=True)
class HeartbeatData(JsonBody):
    """34."""

    client_id: str = wire("clientID", "")
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


class _Heartbeat(msgspec.Struct):
    clientID: str | None = None  # noqa: N815
    producerDataSet: list[msgspec.Raw] | None = None  # noqa: N815
    consumerDataSet: list[msgspec.Raw] | None = None  # noqa: N815


@dataclass(frozen=True, slots=True)
class HeartbeatParts:
    """34 as a broker takes it in, a group at a time: those of a large one are still JSON."""

    client_id: str
    producers: list[Any]
    consumers: list[Any]

    @classmethod
    def from_request(cls, body: bytes) -> HeartbeatParts:
        """Raise BodyError."""
        if len(body) <= fastjson.DIALECT_REQUEST_BYTES_MAX:
            small = HeartbeatData.from_request(body)
            return cls(small.client_id, small.producer_data_set, small.consumer_data_set)
        fastjson.refuse_references(body)
        try:
            large = msgspec.json.decode(body, type=_Heartbeat)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BodyError(
                f"HeartbeatData of {len(body)} bytes: {error}; more than "
                f"{fastjson.DIALECT_REQUEST_BYTES_MAX} are read as strict JSON only"
            ) from None
        return cls(large.clientID or "", large.producerDataSet or [], large.consumerDataSet or [])


def part_from(cls: type[Part], part: Any) -> Part:
    """Read a part of HeartbeatParts. Raises BodyError."""
    return cls.from_request(bytes(part)) if isinstance(part, msgspec.Raw) else part


@dataclass(slots=True)
class Connection(JsonBody):
    """One connected client; `client_addr` is ip:port, `version` an MQVersion ordinal."""

    client_id: str = ""
    client_addr: str = ""
    language: str = ""
    version: int = 0


@dataclass(slots=True)
class ConsumerConnection(JsonBody):
    """203."""

    connection_set: list[Connection] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""


@dataclass(slots=True)
class ProducerConnection(JsonBody):
    """204."""

    connection_set: list[Connection] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerListBody(JsonBody):
    """38."""

    consumer_id_list: list[str] = field(default_factory=list)


@dataclass(slots=True)
class CheckClientRequestBody(JsonBody):
    """46."""

    client_id: str = ""
    group: str = ""
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


@dataclass(slots=True)
class QuerySubscriptionResponseBody(JsonBody):
    """345."""

    group: str = ""
    topic: str = ""
    subscription_data: SubscriptionData | None = None


@dataclass(slots=True)
class PopProcessQueueInfo(JsonBody):
    """What a client that pops has taken of one queue and not acknowledged. `droped` is spelt so on the wire."""

    wait_ack_count: int = 0
    dropped: bool = wire("droped", False)
    last_pop_timestamp: int = 0


@dataclass(slots=True)
class ConsumerRunningInfo(JsonBody):
    """307."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    mq_pop_table: dict[MessageQueue, Any] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    user_consumer_info: dict[str, str] = field(default_factory=dict)
    jstack: str | None = None


@dataclass(slots=True)
class ConsumeMessageDirectlyResult(JsonBody):
    """309."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str = "CR_SUCCESS"
    remark: str | None = None
    spent_time_mills: int = 0

    def __post_init__(self) -> None:
        if self.consume_result.isdigit() and int(self.consume_result) < len(DIRECT_RESULTS):
            self.consume_result = DIRECT_RESULTS[int(self.consume_result)]
