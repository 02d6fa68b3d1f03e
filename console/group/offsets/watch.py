"""Watch a group after its offsets were moved, until brokers show the targets and members read on.

A fast client may have read everything again before the next read: its committed offset is then past the
previous one, as if nothing had happened. So a `QueueMove` has ``was_reset``: a 5.x broker reports that it
moved the offset (222 per queue); a member that an older broker notified drops the queue for the ten seconds
until it starts again (307).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from console.brokers.mqadmin import BlockingMQAdmin, MessageQueue
from console.brokers.queues import ask_each
from console.group.offsets.apply import CALL_DEADLINE_MS, committed_offsets, move_addrs
from console.group.offsets.change import RESET_BY_TIME
from console.group.offsets.move import MemberPosition, MovedCount, Moves, MoveState, QueueMove
from console.operation.errors import VerificationFailed
from console.operation.plan.job_run import JobRun
from console.text import Text
from console.text.stored import Stored

VERIFY_MS = 60_000  # a 4.x member stops for 10 s before it takes a new offset, and commits every 5 s
# How long to wait for members after the brokers show the target; after that it is a warning, not a failure.
RESUME_MS = 30_000
POLL_S = 0.5
MEMBERS_EVERY_S = 2.0
# Each answer is relayed by the broker and may hold up to 10 s; larger groups commit soon enough.
MEMBERS_READ_MAX = 20
NAMED_MAX = 3


class WatchBegan(Stored, frozen=True, kw_only=True):
    """When the watch began, in the progress: a later run goes on with the same limits."""

    verify_started_ms: int | None = None


class WatchResult(MovedCount, frozen=True, kw_only=True, omit_defaults=False):
    """The sums of a watch, as the result keeps them; ``clients`` None: unknown, ``unseen``: see `QueueMove`."""

    verified: int
    failed: int
    resumed: int
    clients: int | None
    unseen: int = 0


def watch_moves(run: JobRun, admin: BlockingMQAdmin, group: str) -> None:
    """Poll until all queues are verified and members read on.

    Raises VerificationFailed with the queues that are not verified.
    """
    moves = Moves(run)
    addrs = move_addrs(admin, moves)
    started_ms = run.progress_as(WatchBegan).verify_started_ms or run.now_ms()
    run.put_progress(WatchBegan(verify_started_ms=started_ms))
    looked_s = 0.0
    while True:
        moves.look(committed_offsets(admin, addrs, group))
        if time.monotonic() - looked_s >= MEMBERS_EVERY_S and any(map(_awaits_members, moves)):
            looked_s = time.monotonic()
            positions = _member_positions(admin, addrs, group)
            moves.put([move.with_member(positions.get(move.queue)) for move in moves])
        missing = [move for move in moves if move.state is MoveState.APPLIED]
        asleep = [move for move in moves if move.state is MoveState.VERIFIED and move.resumed is False]
        run.count(verified=moves.count(MoveState.VERIFIED), resumed=_resumed(moves))
        waited_ms = run.now_ms() - started_ms
        if not missing and (not asleep or waited_ms > RESUME_MS):
            break
        if missing and waited_ms > VERIFY_MS:
            break
        run.sleep(POLL_S)
    run.put_result(
        WatchResult(
            moved=len(moves) - moves.count(MoveState.PASSED),
            verified=moves.count(MoveState.VERIFIED, MoveState.PASSED),
            unseen=sum(move.is_unseen for move in moves),
            failed=moves.count(MoveState.FAILED) + len(missing),
            resumed=_resumed(moves),
            clients=_client_count(admin, addrs, group),
        )
    )
    run.save()
    _conclude(run, moves, missing, asleep)


def _awaits_members(move: QueueMove) -> bool:
    """Return whether the members' report of this queue still matters."""
    return move.resumed is False or (move.state is MoveState.APPLIED and move.how == RESET_BY_TIME)


def _resumed(moves: Iterable[QueueMove]) -> int:
    return sum(move.resumed is True for move in moves)


def _conclude(run: JobRun, moves: Moves, missing: list[QueueMove], asleep: list[QueueMove]) -> None:
    """Record the outcome. Raises VerificationFailed."""
    failed = [move for move in moves if move.state is MoveState.FAILED]
    reasons = [Text("%(queue)s: %(why)s", queue=move.name, why=move.error) for move in failed]
    for reason in reasons[:NAMED_MAX]:
        run.note(reason, level="danger")
    if failed or missing:
        raise VerificationFailed(
            Text(
                "%(number)s of %(rows)s queues: %(reasons)s",
                number=len(failed) + len(missing),
                rows=len(moves),
                reasons=Text.of_parts([*reasons[:2], *map(_elsewhere, missing[:2])]),
            )
        )
    run.note(Text("%(verified)s of %(rows)s queues verified", verified=len(moves), rows=len(moves)))
    for move in [move for move in moves if move.target != move.planned][:NAMED_MAX]:
        found = Text(
            "%(queue)s is at %(target)s, as the broker's own search returned, not at %(planned)s",
            queue=move.name,
            target=move.target,
            planned=move.planned,
        )
        run.note(found, level="warn")
    if asleep:
        text = Text(
            "%(number)s queues are at the target, but no client has resumed from there yet",
            number=len(asleep),
        )
        run.note(text, level="warn")


def _elsewhere(move: QueueMove) -> Text:
    now = move.committed_now
    return Text(
        "%(queue)s is at %(offset)s, not at %(target)s",
        queue=move.name,
        offset=Text("never committed") if now is None else now,
        target=move.target,
    )


def _member_positions(
    admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str
) -> dict[MessageQueue, MemberPosition]:
    """Read the members' positions (307), in small groups only; members that do not answer are left out."""
    online = ask_each(admin, addrs, lambda client, addr: client.consumer_connection(addr, group))
    where = {
        client.client_id: addrs[name]
        for name, each in online.items()
        if each is not None and not isinstance(each, Exception)
        for client in each.connection_set
    }
    if len(where) > MEMBERS_READ_MAX:
        return {}
    answers = ask_each(
        admin,
        {client_id: (addr, group, client_id) for client_id, addr in where.items()},
        lambda client, member: client.consumer_running_info(*member),
        CALL_DEADLINE_MS,
    )
    return {
        queue: MemberPosition(info.commit_offset, info.dropped)
        for answer in answers.values()
        if not isinstance(answer, Exception)
        for queue, info in answer.mq_table.items()
    }


def _client_count(admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str) -> int | None:
    """Return how many members are online; None when no broker answered."""
    answers = ask_each(admin, addrs, lambda client, addr: client.consumer_connection(addr, group))
    known = [answer for answer in answers.values() if not isinstance(answer, Exception)]
    if not known:
        return None
    return len({client.client_id for each in known if each is not None for client in each.connection_set})
