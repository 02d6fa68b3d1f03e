"""What plans of offset changes keep: their parameters, and the state they are computed from."""

from __future__ import annotations

from console.operation.models import Plan
from console.operation.plan.params import Params
from console.operation.plan.places import QueuePlace
from console.text.stored import Stored, of_json


class QueueOffset(QueuePlace, frozen=True, kw_only=True):
    """Target of one queue; with ``or_beyond`` a queue at this offset or further on is left alone."""

    offset: int
    or_beyond: bool = False

    @classmethod
    def at(cls, place: QueuePlace, offset: int, or_beyond: bool = False) -> QueueOffset:
        """Return the target of a queue."""
        return cls(
            topic=place.topic,
            broker_name=place.broker_name,
            queue_id=place.queue_id,
            offset=offset,
            or_beyond=or_beyond,
        )


class FileOrigin(Stored, frozen=True, kw_only=True):
    """What a file of offsets says of itself; ``without_offset``: queues that were never committed, or unknown."""

    cluster: str
    group: str
    read_at_ms: int
    without_offset: int = 0


class OffsetParams(Params, frozen=True, kw_only=True):
    """A target, its value, and the queues to move; see ``targets.TARGETS``.

    ``topics`` None: all topics of the group. Without ``queues``: all of the topics. A plan keeps ``undo`` as the
    ``exact`` offsets that it means. ``origin``: of the offsets of the target ``file``.
    """

    target: str
    topics: tuple[str, ...] | None = None
    queues: tuple[QueuePlace, ...] = ()
    time_ms: int | None = None
    offset: int | None = None
    shift: int | None = None
    like_group: str = ""
    undo_plan: str = ""
    clone_of: str = ""
    offsets: tuple[QueueOffset, ...] = ()
    origin: FileOrigin | None = None

    @classmethod
    def of(cls, plan: Plan) -> OffsetParams:
        """Return the parameters of a plan."""
        return of_json(cls, plan.params)


class OffsetBefore(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """The group as the plan found it; ``queues``: topic, broker, queue, committed offset.

    ``server_side_reset``: brokers that move the offsets of online members themselves.
    """

    online: bool = False
    clients: tuple[str, ...] = ()
    server_side_reset: tuple[str, ...] = ()
    read_at_ms: int = 0
    queues: tuple[tuple[str, str, int, int | None], ...] = ()

    @classmethod
    def of(cls, plan: Plan) -> OffsetBefore:
        """Return the state that a plan was computed from."""
        return of_json(cls, plan.before)
