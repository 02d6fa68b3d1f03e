"""Move the committed offsets of a group, queue by queue, each by the request that its broker understands.

The job's result has a `QueueMove` per queue. Its ``before`` is read again just before the change, since an
online group moves on between plan and apply; it is what undo restores.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MessageQueue,
    MQAdmin,
    MQBrokerError,
    RemotingTimeout,
)
from console.brokers.queues import ask_each, masters
from console.group.offsets.change import RESET_BY_TIME, RESET_PER_QUEUE, UPDATE_PER_QUEUE
from console.group.offsets.move import MoveEvent, Moves, MoveState, QueueMove
from console.group.offsets.stored import OffsetBefore, OffsetParams
from console.lag.collect.reset import note_moves
from console.operation.plan.job_run import JobRun, LeaseLost
from console.text import Text, text_of

CHUNK_QUEUES = 32  # changed in parallel and saved together: a crash repeats at most these
CALL_DEADLINE_MS = 10_000
CONSUMER_NOT_ONLINE = 206  # ResponseCode.CONSUMER_NOT_ONLINE: the last member left between the plan and now
TIME_OF_TARGET = {"earliest": 0, "latest": -1}  # the time of 222 by time; -1 is the end
AWAY = (BrokerUnavailable, RemotingTimeout)

# Returns the offsets by queue that the broker set; None: it set the requested one.
Call = Callable[[MQAdmin], Awaitable[Mapping[MessageQueue, int] | None]]


def apply_moves(run: JobRun, admin: BlockingMQAdmin, group: str) -> None:
    """Change every waiting queue.

    Raises BrokerUnavailable when a broker does not answer: the job resumes with the rest.
    """
    moves = Moves(run)
    addrs = move_addrs(admin, moves)
    if run.job.attempts > 1:
        moves.put(_done_before(moves, committed_offsets(admin, addrs, group)))
    # 15 first: 222 by time refuses a topic of which one queue has no stored offset.
    # 15 again at the end: for queues whose last member left in between (206).
    for how in (UPDATE_PER_QUEUE, RESET_PER_QUEUE, RESET_BY_TIME, UPDATE_PER_QUEUE):
        if how == RESET_PER_QUEUE:
            moves.put(_ignored_updates(run, moves, committed_offsets(admin, addrs, group)))
        waiting = [move for move in moves if move.how == how and move.is_waiting]
        for start in range(0, len(waiting), CHUNK_QUEUES):
            run.beat()
            _apply_chunk(run, admin, addrs, moves, how, waiting[start : start + CHUNK_QUEUES])
            run.count(done=moves.handled)
            run.save()
    run.count(done=moves.handled)  # also where nothing was left to change
    moves.look(committed_offsets(admin, addrs, group))
    run.save()


def move_addrs(admin: BlockingMQAdmin, moves: Iterable[QueueMove]) -> dict[str, str]:
    """Return broker name → address of the brokers whose queues move.

    Raises BrokerUnavailable for one that left the cluster: the job waits for it.
    """
    addrs = masters(admin)
    names = sorted({move.queue.broker_name for move in moves if move.state is not MoveState.PASSED})
    for name in names:
        if name not in addrs:
            raise BrokerUnavailable(name, Text("no name server lists a master of it"))
    return {name: addrs[name] for name in names}


def committed_offsets(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str
) -> dict[MessageQueue, int]:
    """Read all committed offsets of the group, one call (43) per broker. Raises BrokerUnavailable."""
    answers = ask_each(admin, addrs, lambda client, addr: client.all_consumer_offsets(addr))
    found: dict[MessageQueue, int] = {}
    for name, answer in answers.items():
        if isinstance(answer, Exception):
            raise BrokerUnavailable(addrs[name], text_of(answer))
        for (topic, owner), queues in answer.offset_table.items():
            if owner == group:
                found |= {MessageQueue(topic, name, queue_id): offset for queue_id, offset in queues.items()}
    return found


def _done_before(moves: Iterable[QueueMove], committed: Mapping[MessageQueue, int]) -> list[QueueMove]:
    """Return, after a crash, the waiting queues that the previous attempt moved to their target."""
    return [
        move.on(MoveEvent.ACCEPTED)
        for move in moves
        if move.is_waiting and committed.get(move.queue) == move.target != move.before
    ]


def _ignored_updates(
    run: JobRun, moves: Iterable[QueueMove], committed: Mapping[MessageQueue, int]
) -> list[QueueMove]:
    """Return queues that need 222 too: a 5.x broker accepts and ignores 15 while a 222 waits for a member."""
    able = set(OffsetBefore.of(run.plan).server_side_reset)
    return [
        move.on(MoveEvent.IGNORED, how=RESET_PER_QUEUE)
        for move in moves
        if move.how == UPDATE_PER_QUEUE
        and move.state is MoveState.APPLIED
        and move.queue.broker_name in able
        and committed.get(move.queue) != move.target
    ]


def _apply_chunk(
    run: JobRun,
    admin: BlockingMQAdmin,
    addrs: Mapping[str, str],
    moves: Moves,
    how: str,
    chunk: list[QueueMove],
) -> None:
    calls: dict[Hashable, Call] = {}
    call_of: dict[MessageQueue, Hashable] = {}
    for move in chunk:
        key, call = CALLS[how](run, addrs, move)
        call_of[move.queue] = key
        calls.setdefault(key, call)
    _note(run, chunk)
    # A whole lease, which outlasts the deadline of the calls.
    run.save()
    lease_ends_s = run.lease_ends_s
    answers = admin.gather({key: _timed(call) for key, call in calls.items()}, CALL_DEADLINE_MS)
    if time.monotonic() >= lease_ends_s:
        _save_late(run, len(chunk))
    after = [answered(move, answers[call_of[move.queue]]) for move in chunk]
    moves.put(after)
    _note(run, [now for was, now in zip(chunk, after, strict=True) if now.target != was.target])
    silent = [answer for answer in answers.values() if isinstance(answer, AWAY)]
    if silent:
        run.save()
        raise silent[0]


def _save_late(run: JobRun, queues: int) -> None:
    """Save after the lease's end. Raises LeaseLost, and records then what may have come after the successor's work.

    No check can prevent it: the worker may freeze between its last look at the clock and the socket.
    """
    try:
        run.save()
    except LeaseLost:
        text = Text(
            "A worker was suspended for longer than its lease while it sent requests for %(number)s "
            "queue(s). They may have reached the broker after all later requests: check the committed "
            "offsets",
            number=queues,
        )
        run.note(text, level="danger")
        raise


def _note(run: JobRun, moves: Iterable[QueueMove]) -> None:
    """Record the moves for the collector: messages that they pass over are not consumed."""
    moved = [
        (move.queue.topic, move.queue.broker_name, move.queue.queue_id, move.before, move.target)
        for move in moves
    ]
    note_moves(run.plan.cluster, run.plan.subject, moved, now_ms=run.now_ms())


def answered(move: QueueMove, answer: Any) -> QueueMove:
    """Return the move after an answer.

    Without an answer it stays waiting; when the last member just left, 222 becomes 15.
    """
    if isinstance(answer, AWAY):
        return move.with_(error=text_of(answer))
    if isinstance(answer, MQBrokerError) and answer.code == CONSUMER_NOT_ONLINE:
        return move.with_(how=UPDATE_PER_QUEUE, error=text_of(answer))
    if isinstance(answer, Exception):
        return move.on(MoveEvent.REFUSED, error=text_of(answer))
    took_ms, targets = answer
    done = move.on(MoveEvent.ACCEPTED, error=Text(), took_ms=took_ms)
    target = (targets or {}).get(move.queue)
    if target is None:
        return done
    # 222 by time: the broker looks up the offset and sends it to members
    return done.with_(target=target, was_reset=move.how == RESET_PER_QUEUE)


# --- Requests -----------------------------------------------------------------------------------------------


def _update(run: JobRun, addrs: Mapping[str, str], move: QueueMove) -> tuple[Hashable, Call]:
    """Return the call that writes the offset (15)."""
    queue, group = move.queue, run.plan.subject

    async def call(client: MQAdmin) -> None:
        await client.update_consumer_offset(
            addrs[queue.broker_name],
            group,
            queue.topic,
            queue.queue_id,
            move.target,
            send_until_s=run.lease_ends_s,
        )

    return queue, call


def _reset_queue(run: JobRun, addrs: Mapping[str, str], move: QueueMove) -> tuple[Hashable, Call]:
    """Return the call that lets the broker move the offset and notify the members (222)."""
    queue, group = move.queue, run.plan.subject

    async def call(client: MQAdmin) -> Mapping[MessageQueue, int]:
        body = await client.reset_offset(
            addrs[queue.broker_name],
            group,
            queue.topic,
            -1,
            queue_id=queue.queue_id,
            offset=move.target,
            send_until_s=run.lease_ends_s,
        )
        return body.offset_table

    return queue, call


def _reset_to_time(run: JobRun, addrs: Mapping[str, str], move: QueueMove) -> tuple[Hashable, Call]:
    """Return the call for all queues of a topic on a broker by time (222): one call for all of them."""
    topic, name, params = move.queue.topic, move.queue.broker_name, OffsetParams.of(run.plan)
    time_ms = TIME_OF_TARGET.get(params.target, -1 if params.time_ms is None else params.time_ms)

    async def call(client: MQAdmin) -> Mapping[MessageQueue, int]:
        body = await client.reset_offset(
            addrs[name], run.plan.subject, topic, time_ms, send_until_s=run.lease_ends_s
        )
        return body.offset_table

    return (topic, name), call


# None is sent once the lease has ended: by then another worker may have finished the job, and a person undone it.
CALLS: Mapping[str, Callable[[JobRun, Mapping[str, str], QueueMove], tuple[Hashable, Call]]] = {
    UPDATE_PER_QUEUE: _update,
    RESET_PER_QUEUE: _reset_queue,
    RESET_BY_TIME: _reset_to_time,
}


def _timed(call: Call) -> Callable[[MQAdmin], Awaitable[tuple[int, Any]]]:
    """Return a call that returns (milliseconds it took, answer)."""

    async def timed(client: MQAdmin) -> tuple[int, Any]:
        started = time.monotonic()
        answer = await call(client)
        return round((time.monotonic() - started) * 1000), answer

    return timed
