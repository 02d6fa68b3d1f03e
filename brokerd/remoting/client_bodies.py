"""Bodies between clients and brokers: routes, heart beats, locks, assignments (protocol sections 3.2, 5, 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from brokerd.remoting import fastjson
from brokerd.remoting.admin_bodies import ConsumeStatus, ProcessQueueInfo, TopicConfigSerializeWrapper
from brokerd.remoting.errors import BodyError
from brokerd.remoting.json_body import JsonBody, wire
from brokerd.remoting.message_queue import MessageQueue

MASTER_ID = 0
TAG = "TAG"
Part = TypeVar("Part", bound=JsonBody)


# Routes


@dataclass(slots=True)
class BrokerData(JsonBody):
    """A broker and its copies: {broker id: address}, 0 the master."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False
    zone_name: str | None = None

    @property
    def master_addr(self) -> str | None:
        return self.broker_addrs.get(MASTER_ID)


@dataclass(slots=True)
class QueueData(JsonBody):
    """How many queues of a topic a broker has. `perm` is a sum of Permission."""

    broker_name: str = ""
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


@dataclass(slots=True)
class TopicRouteData(JsonBody):
    """105."""

    broker_datas: list[BrokerData] = field(default_factory=list)
    queue_datas: list[QueueData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None

    def to_body(self, *, standard_json: bool = False) -> bytes:
        """With `standard_json` broker ids are quoted: what clients from 4.9.4 on ask for (protocol section 5.2)."""
        value = self.to_value()
        if standard_json:
            for broker in value["brokerDatas"]:
                broker["brokerAddrs"] = {
                    str(key): addr for key, addr in sorted(broker["brokerAddrs"].items())
                }
        return fastjson.dumps(value)


@dataclass(slots=True)
class ClusterInfo(JsonBody):
    """106."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class RegisterBrokerBody(JsonBody):
    """103."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = field(
        default_factory=TopicConfigSerializeWrapper
    )
    filter_server_list: list[str] = field(default_factory=list)


# Heart beats and membership


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
        """Raises BodyError."""
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
    """A part of HeartbeatParts, read. Raises BodyError."""
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


# Orderly consumption


@dataclass(slots=True)
class LockBatchRequestBody(JsonBody):
    """41."""

    consumer_group: str = ""
    client_id: str = ""
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool = False


@dataclass(slots=True)
class LockBatchResponseBody(JsonBody):
    """The queues that the client holds now."""

    lock_ok_mq_set: list[MessageQueue] = wire("lockOKMQSet", default_factory=list)


@dataclass(slots=True)
class UnlockBatchRequestBody(JsonBody):
    """42."""

    consumer_group: str = ""
    client_id: str = ""
    mq_set: list[MessageQueue] = field(default_factory=list)
    only_this_broker: bool = False


# Server-side rebalance


@dataclass(slots=True)
class QueryAssignmentRequestBody(JsonBody):
    """400."""

    topic: str = ""
    consumer_group: str = ""
    client_id: str = ""
    strategy_name: str = "AVG"
    message_model: str = "CLUSTERING"


@dataclass(slots=True)
class MessageQueueAssignment(JsonBody):
    """One queue of an assignment; `mode` PULL or POP."""

    message_queue: MessageQueue
    mode: str = "PULL"
    attachments: dict[str, str] | None = None


@dataclass(slots=True)
class QueryAssignmentResponseBody(JsonBody):
    """None: the broker knows nothing; the client keeps what it has."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


@dataclass(slots=True)
class SetMessageRequestModeRequestBody(JsonBody):
    """401."""

    topic: str = ""
    consumer_group: str = ""
    mode: str = "PULL"
    pop_share_queue_num: int = 0


@dataclass(slots=True)
class MessageRequestModeWrapper(JsonBody):
    """402 and config/messageRequestMode.json: topic → group → mode."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = field(
        default_factory=dict
    )


@dataclass(slots=True)
class AssignmentBody(JsonBody):
    """TIDEMARK_PUT_ASSIGNMENT (75001): {client id: its queues}, numbered by who computed it."""

    group: str = ""
    topic: str = ""
    assignments: dict[str, list[MessageQueue]] = field(default_factory=dict)
    version: int = 0


# What a client says of itself


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


# CMResult.java, by the ordinal that Go sends
DIRECT_RESULTS = (
    "CR_SUCCESS",
    "CR_LATER",
    "CR_ROLLBACK",
    "CR_COMMIT",
    "CR_THROW_EXCEPTION",
    "CR_RETURN_NULL",
)


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
