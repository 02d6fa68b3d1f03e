"""Bodies of rebalancing: queue locks, assignments, request modes (protocol section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.remoting.body.json_body import JsonBody, wire
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.placement import Placement


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
class Pin(JsonBody):
    """A queue that is to be read by one client."""

    message_queue: MessageQueue
    client_id: str


@dataclass(slots=True)
class PlacementBody(JsonBody):
    """What an assignment was computed by, for brokers that divide anew when members change."""

    pins: list[Pin] = field(default_factory=list)
    drained: list[str] = field(default_factory=list)
    weights: dict[str, int] = field(default_factory=dict)
    canary_version: int = 0
    canary_percent: int = 0

    @classmethod
    def of(cls, placement: Placement) -> PlacementBody:
        """Return the body of a placement."""
        return cls(
            pins=[Pin(queue, client_id) for queue, client_id in sorted(placement.pins.items())],
            drained=sorted(placement.drained),
            weights=dict(placement.weights),
            canary_version=placement.canary_version,
            canary_percent=placement.canary_percent,
        )

    def to_placement(self) -> Placement:
        """Return the placement of a body. Raises ValueError for weights and shares that cannot be."""
        if any(weight < 1 for weight in self.weights.values()):
            raise ValueError("a weight is not positive")
        if self.canary_version and not 1 <= self.canary_percent <= 99:
            raise ValueError(f"a canary of {self.canary_percent} %: takes 1 to 99")
        return Placement(
            {pin.message_queue: pin.client_id for pin in self.pins},
            frozenset(self.drained),
            dict(self.weights),
            self.canary_version,
            self.canary_percent,
        )


@dataclass(slots=True)
class AssignmentBody(JsonBody):
    """TIDEMARK_PUT_ASSIGNMENT (75001): {client id: its queues}, numbered by who computed it."""

    group: str = ""
    topic: str = ""
    assignments: dict[str, list[MessageQueue]] = field(default_factory=dict)
    version: int = 0
    placement: PlacementBody | None = None
