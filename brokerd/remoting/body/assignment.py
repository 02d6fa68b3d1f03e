"""Bodies of rebalancing: queue locks, assignments, request modes (protocol section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.remoting.body.json_body import JsonBody, wire
from brokerd.remoting.message.queue import MessageQueue


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
    """None: the broker has no assignment; the client keeps what it has."""

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
