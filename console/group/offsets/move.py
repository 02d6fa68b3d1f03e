"""One queue of an offset change during a job: its states, and its row in the job's result."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import structs

from console.brokers.mqadmin import MessageQueue
from console.group.offsets.change import Change
from console.group.offsets.state import GroupState
from console.group.offsets.stored import OffsetBefore
from console.operation.models import Job
from console.operation.plan.job_run import JobRun
from console.operation.rules import Transitions
from console.text import Text
from console.text.stored import Stored, of_json


class MoveState(enum.StrEnum):
    """State of a move; the values are stored in the results of jobs."""

    WAITING = "waiting"
    APPLIED = "applied"
    PASSED = "passed"  # the group passed the target by itself: left alone
    FAILED = "failed"
    VERIFIED = "verified"


class MoveEvent(enum.Enum):
    """Event of a move."""

    OVERTAKEN = "an online group read past the target before the job began"
    ACCEPTED = "the broker took the request"
    REFUSED = "the broker refused it"
    IGNORED = "the broker took it, and drops it while an earlier reset waits for a member"
    SHOWN = "the broker reports the target"


MOVE = Transitions[MoveState, MoveEvent](
    {
        (MoveState.WAITING, MoveEvent.OVERTAKEN): MoveState.PASSED,
        (MoveState.WAITING, MoveEvent.ACCEPTED): MoveState.APPLIED,
        (MoveState.WAITING, MoveEvent.REFUSED): MoveState.FAILED,
        (MoveState.APPLIED, MoveEvent.IGNORED): MoveState.WAITING,
        (MoveState.APPLIED, MoveEvent.SHOWN): MoveState.VERIFIED,
    }
)
DONE = frozenset({MoveState.APPLIED, MoveState.VERIFIED})  # the committed offset was changed


class MemberPosition(NamedTuple):
    """What a member reports of a queue: the next offset it will commit, and whether it has dropped it."""

    offset: int
    is_dropped: bool = False


class QueueMove(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """Move one queue from ``before`` (None: never committed; what an undo restores) to ``target``.

    ``planned`` is the target of the plan; a broker that resets to a time looks the offset up itself.
    ``resumed``: whether members read on from the target; None: not known yet. ``was_reset``: broker or member
    shows that the reset took place, whatever was read again since; ``is_dropped``: a member dropped the queue
    to start again.
    """

    topic: str
    broker_name: str
    queue_id: int
    before: int | None
    target: int
    planned: int
    max_offset: int
    how: str
    state: MoveState = MoveState.WAITING
    error: Text = Text()
    took_ms: int | None = None
    reported: int | None = None
    verified_at_ms: int | None = None
    committed_now: int | None = None
    resumed: bool | None = None
    was_reset: bool = False
    is_dropped: bool = False

    @property
    def queue(self) -> MessageQueue:
        """The queue as a key."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    def on(self, event: MoveEvent, **changes: Any) -> QueueMove:
        """Return the move after an event, with other changes. Raises IllegalTransition."""
        return self.with_(state=MOVE.next(self.state, event), **changes)

    def with_(self, **changes: Any) -> QueueMove:
        """Return the same move with changes."""
        return structs.replace(self, **changes)

    @property
    def is_waiting(self) -> bool:
        return self.state is MoveState.WAITING

    @property
    def is_done(self) -> bool:
        """Whether the committed offset was changed."""
        return self.state in DONE

    @property
    def is_unseen(self) -> bool:
        """Whether a queue that was moved back was first read at its earlier offset or after it.

        Its messages were read again since, or a second owner of the queue stored that offset over the reset: after a
        broker has started again it does not know all members for up to 30 s, and one of them may take queues of others.
        """
        if self.state is not MoveState.VERIFIED or self.before is None or self.reported is None:
            return False
        return not self.is_dropped and self.target < self.before <= self.reported

    @property
    def name(self) -> str:
        """``orders · broker-a · 3``."""
        return f"{self.topic} · {self.broker_name} · {self.queue_id}"

    def observed(self, now: int | None, *, online: bool, now_ms: int) -> QueueMove:
        """Return the move after reading the committed offset; ``now`` None: there is none."""
        move = self.with_(committed_now=now)
        if move.state is MoveState.APPLIED and now is not None and move.is_at_target(now, online=online):
            move = move.on(MoveEvent.SHOWN, reported=now, verified_at_ms=now_ms, error=Text())
        if move.state is MoveState.VERIFIED and online and not move.resumed:
            nothing_to_read = move.target >= move.max_offset
            move = move.with_(resumed=nothing_to_read or (now is not None and now > move.target))
        return move

    def with_member(self, position: MemberPosition | None) -> QueueMove:
        """Return the move after reading its member's position.

        A member that holds the queue at the target, or a little further, has resumed, long before it commits.
        One that dropped it since the reset has been reset.
        """
        if position is None:
            return self
        if position.is_dropped:
            return self.with_(is_dropped=True)
        at_target = self.is_at_target(position.offset, online=True)
        if not self.is_dropped and not at_target:
            return self
        # it holds the queue again, from the offset of the reset
        move = self.with_(was_reset=self.was_reset or self.is_dropped)
        if move.resumed is False and move.is_at_target(position.offset, online=True):
            return move.with_(resumed=True)
        return move

    def is_at_target(self, now: int, *, online: bool) -> bool:
        """Return whether ``now`` is the target or, online, an offset reached by consuming from it."""
        if now == self.target:
            return True
        if not online or now < self.target:
            return False
        moved_back = self.before is not None and self.target < self.before
        return not moved_back or now < (self.before or 0) or self.was_reset


class KeptMoves(Stored, frozen=True, kw_only=True):
    """The moves in a job's result; None: it has not begun."""

    queues: tuple[QueueMove, ...] | None = None


class MovedCount(Stored, frozen=True, kw_only=True):
    """How many queues were moved, in a job's result."""

    moved: int


class Moves:
    """The moves of one job; ``put`` writes them into its result, which the next save stores."""

    def __init__(self, run: JobRun) -> None:
        self._run = run
        self._of_queue = {move.queue: move for move in moves_of(run)}

    def __iter__(self) -> Iterator[QueueMove]:
        return iter(self._of_queue.values())

    def __len__(self) -> int:
        return len(self._of_queue)

    def put(self, moves: Iterable[QueueMove]) -> None:
        """Replace the moves of these queues."""
        self._of_queue |= {move.queue: move for move in moves}
        self._run.put_result(KeptMoves(queues=tuple(self)))

    def look(self, committed: Mapping[MessageQueue, int]) -> None:
        """Compare the committed offsets with the targets."""
        online, now_ms = OffsetBefore.of(self._run.plan).online, self._run.now_ms()
        self.put([move.observed(committed.get(move.queue), online=online, now_ms=now_ms) for move in self])

    def count(self, *states: MoveState) -> int:
        """Return how many moves are in one of these states."""
        return sum(move.state in states for move in self)

    @property
    def handled(self) -> int:
        """Number of moves that need no further request."""
        return len(self) - self.count(MoveState.WAITING)


def moves_of(job: Job | JobRun) -> list[QueueMove]:
    """Return the moves in a job's result; none before it began."""
    kept = job.result_as(KeptMoves) if isinstance(job, JobRun) else of_json(KeptMoves, job.result)
    return list(kept.queues or ())


def planned_moves(changes: Iterable[Change], state: GroupState) -> list[QueueMove]:
    """Return the queues to move, each with its committed offset of now, which an undo restores.

    Where an online group has meanwhile passed a target that was ahead of it, the queue is left alone: a move
    would take it back.
    """
    return [_planned_move(change, state) for change in changes if change.moves]


def _planned_move(change: Change, state: GroupState) -> QueueMove:
    assert change.after is not None
    start, target, now = change.before, change.after, state.committed.get(change.queue)
    move = QueueMove(
        topic=change.queue.topic,
        broker_name=change.queue.broker_name,
        queue_id=change.queue.queue_id,
        before=now,
        target=target,
        planned=target,
        max_offset=change.max_offset,
        how=change.how,
    )
    if state.online and start is not None and now is not None and start < target <= now:
        return move.on(MoveEvent.OVERTAKEN, reported=now, committed_now=now, resumed=True)
    return move
