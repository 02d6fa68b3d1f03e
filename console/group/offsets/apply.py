"""Moving the offsets of a group and watching until the brokers show it.

``result["queues"]`` has one row per queue that moves. Its ``before`` is read again just before the change
(an online group goes on between plan and apply) and is what undo puts back. States of a row: waiting →
applied | failed → verified.

A client that is fast may have read everything again before it is looked at: its committed offset is then past the place
it stood at before, as if nothing had happened. So a row keeps ``was_reset``: a 5.x broker says itself that it moved the
offset (222 per queue); a member that was told by an older broker is seen to drop the queue for the ten seconds in which
it starts again (307).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MQAdmin,
    MQBrokerError,
    RemotingTimeout,
)
from console.brokers.queues import ask_each, masters
from console.group.offsets.change import RESET_BY_TIME, RESET_PER_QUEUE, UPDATE_PER_QUEUE
from console.group.offsets.state import GroupState
from console.lag.collect.reset import note_moves
from console.operation.errors import VerificationFailed
from console.operation.job.runner import JobRun
from console.text import Text, text_of

CHUNK_QUEUES = 32  # changed at once and saved together: what a crash may make us ask for a second time
CALL_DEADLINE_MS = 10_000
VERIFY_MS = 60_000  # a 4.x member stops for 10 s before it takes a new offset, and commits every 5 s
RESUME_MS = (
    30_000  # how long to wait for members after the brokers show the target; then it is a remark, no failure
)
POLL_S = 0.5
MEMBERS_EVERY_S = 2.0
MEMBERS_ASKED_MAX = (
    20  # each answer is relayed by the broker and may hold up to 10 s; larger groups commit soon enough
)
CONSUMER_NOT_ONLINE = 206  # ResponseCode.CONSUMER_NOT_ONLINE: the last member left between the plan and now
TIME_OF_TARGET = {"earliest": 0, "latest": -1}  # what 222 by time wants; -1 is the end

Row = dict[str, Any]
Key = tuple[str, str, int]


def key_of(row: Mapping[str, Any]) -> Key:
    """(topic, broker name, queue id) of a row."""
    return row["topic"], row["broker_name"], row["queue_id"]


def result_rows(diff: Iterable[Mapping[str, Any]], state: GroupState) -> list[Row]:
    """The rows to work on, with the offsets to put back on undo.

    A queue that an online group has meanwhile brought past a target ahead of it is left alone (``passed``):
    moving it would take it back.
    """
    rows = [
        {
            "topic": row["topic"],
            "broker_name": row["broker_name"],
            "queue_id": row["queue_id"],
            "before": state.committed.get(key_of(row)),
            "target": row["after"],
            "max_offset": row["max_offset"],
            "how": row["how"],
            "state": "waiting",
            "error": "",
            "took_ms": None,
            "reported": None,
            "verified_at_ms": None,
            "committed_now": None,
            "resumed": None,
            "planned": row["after"],
            "was_reset": False,
        }
        for row in diff
        if row["moves"]
    ]
    planned = {key_of(row): row["before"] for row in diff}
    for row in rows:
        start, now = planned[key_of(row)], row["before"]
        if state.online and start is not None and now is not None and start < row["target"] <= now:
            row |= {"state": "passed", "reported": now, "committed_now": now, "resumed": True}
    return rows


def apply_rows(run: JobRun, admin: BlockingMQAdmin, group: str) -> None:
    """Change every waiting row. Raises BrokerUnavailable when a broker is silent: the job comes back for the
    rest."""
    rows: list[Row] = run.result["queues"]
    addrs = row_addrs(admin, rows)
    if run.job.attempts > 1:
        _recognise_done(rows, _committed(admin, addrs, group))
    # 15 first: 222 by time refuses a topic of which one queue has no stored offset.
    # 15 last again: for queues whose last member left in between (206).
    for how in (UPDATE_PER_QUEUE, RESET_PER_QUEUE, RESET_BY_TIME, UPDATE_PER_QUEUE):
        if how == RESET_PER_QUEUE:
            _replace_pending_resets(run, rows, _committed(admin, addrs, group))
        waiting = [row for row in rows if row["how"] == how and row["state"] == "waiting"]
        for start in range(0, len(waiting), CHUNK_QUEUES):
            run.beat()
            chunk = waiting[start : start + CHUNK_QUEUES]
            _apply_chunk(run, admin, addrs, group, how, chunk)
            run.progress["done"] = sum(row["state"] != "waiting" for row in rows)
            run.save()
    run.progress["done"] = sum(
        row["state"] != "waiting" for row in rows
    )  # also where nothing was left to change
    observe(
        rows, _committed(admin, addrs, group), online=bool(run.plan.before.get("online")), now_ms=run.now_ms()
    )
    run.save()


def row_addrs(admin: BlockingMQAdmin, rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Broker name → address of the brokers whose queues move. Raises BrokerUnavailable for one that left the cluster:
    the job waits for it.
    """
    addrs = masters(admin)
    wanted = {row["broker_name"] for row in rows if row["state"] != "passed"}
    for name in sorted(wanted - set(addrs)):
        raise BrokerUnavailable(name, Text("no name server lists a master of it"))
    return {name: addrs[name] for name in sorted(wanted)}


def _recognise_done(rows: list[Row], committed: Mapping[Key, int]) -> None:
    """After a crash: a waiting row whose queue stands at its target was changed by the attempt that died."""
    for row in rows:
        if row["state"] == "waiting" and committed.get(key_of(row)) == row["target"] != row["before"]:
            row["state"] = "applied"


def _replace_pending_resets(run: JobRun, rows: list[Row], committed: Mapping[Key, int]) -> None:
    """A 5.x broker ignores 15, with success, while an earlier 222 waits for a member: such a queue needs 222
    too."""
    able = set(run.plan.before.get("server_side_reset", []))
    for row in rows:
        ignored = row["how"] == UPDATE_PER_QUEUE and row["state"] == "applied"
        if ignored and row["broker_name"] in able and committed.get(key_of(row)) != row["target"]:
            row["how"], row["state"] = RESET_PER_QUEUE, "waiting"


def _apply_chunk(
    run: JobRun, admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str, how: str, chunk: list[Row]
) -> None:
    calls: dict[Any, Callable[[MQAdmin], Awaitable[dict[Key, int] | None]]]
    of_row: dict[Key, Any]
    if how == RESET_BY_TIME:
        calls = _calls_by_time(run, addrs, group, chunk)
        of_row = {key_of(row): (row["topic"], row["broker_name"]) for row in chunk}
    else:
        make = _update_call if how == UPDATE_PER_QUEUE else _reset_call
        calls = {key_of(row): make(addrs, group, row) for row in chunk}
        of_row = {key_of(row): key_of(row) for row in chunk}
    planned = {key_of(row): row["target"] for row in chunk}
    _note(run, group, chunk)
    run.hold_lease()
    ends_s = run.lease_ends_s
    answers = admin.gather({key: _timed(call, ends_s) for key, call in calls.items()}, CALL_DEADLINE_MS)
    for row in chunk:
        _take(row, answers[of_row[key_of(row)]])
    _note(run, group, [row for row in chunk if row["target"] != planned[key_of(row)]])
    silent = [
        answer for answer in answers.values() if isinstance(answer, BrokerUnavailable | RemotingTimeout)
    ]
    if silent:
        run.save()
        raise silent[0]


def _note(run: JobRun, group: str, rows: Iterable[Row]) -> None:
    """Write down what is about to move, for the collector: what it passes over is not consumed."""
    moved = [(*key_of(row), row["before"], row["target"]) for row in rows]
    note_moves(run.plan.cluster, group, moved, now_ms=run.now_ms())


def _take(row: Row, answer: Any) -> None:
    """Note one answer. A silent broker leaves the row waiting; a member that just left turns 222 into 15."""
    if isinstance(answer, BrokerUnavailable | RemotingTimeout):
        row["error"] = text_of(answer)
    elif isinstance(answer, MQBrokerError) and answer.code == CONSUMER_NOT_ONLINE:
        row["how"], row["error"] = UPDATE_PER_QUEUE, text_of(answer)
    elif isinstance(answer, Exception):
        row["state"], row["error"] = "failed", text_of(answer)
    else:
        row["state"], row["error"], row["took_ms"] = "applied", "", answer[0]
        moved = None if answer[1] is None else answer[1].get(key_of(row))
        if moved is not None:
            row["was_reset"] = row["how"] == RESET_PER_QUEUE
            row["target"] = moved  # 222 by time: the broker's own lookup decides, and a member is told that


def _update_call(
    addrs: Mapping[str, str], group: str, row: Row
) -> Callable[[MQAdmin], Awaitable[dict[Key, int] | None]]:
    async def call(client: MQAdmin) -> None:
        await client.update_consumer_offset(
            addrs[row["broker_name"]], group, row["topic"], row["queue_id"], row["target"]
        )

    return call


def _reset_call(
    addrs: Mapping[str, str], group: str, row: Row
) -> Callable[[MQAdmin], Awaitable[dict[Key, int] | None]]:
    async def call(client: MQAdmin) -> dict[Key, int]:
        body = await client.reset_offset(
            addrs[row["broker_name"]], group, row["topic"], -1, queue_id=row["queue_id"], offset=row["target"]
        )
        return _targets(body)

    return call


def _calls_by_time(
    run: JobRun, addrs: Mapping[str, str], group: str, chunk: list[Row]
) -> dict[Any, Callable[[MQAdmin], Awaitable[dict[Key, int] | None]]]:
    """One call per topic and broker, however many of its queues are in the chunk."""
    params = run.plan.params
    time_ms = TIME_OF_TARGET.get(params["target"], params.get("time_ms", -1))

    def make(topic: str, name: str) -> Callable[[MQAdmin], Awaitable[dict[Key, int] | None]]:
        async def call(client: MQAdmin) -> dict[Key, int]:
            return _targets(await client.reset_offset(addrs[name], group, topic, time_ms))

        return call

    pairs = {(row["topic"], row["broker_name"]) for row in chunk}
    return {(topic, name): make(topic, name) for topic, name in sorted(pairs)}


def _targets(body: Any) -> dict[Key, int]:
    """Offsets out of a ResetOffsetBody."""
    return {
        (queue.topic, queue.broker_name, queue.queue_id): offset
        for queue, offset in body.offset_table.items()
    }


def _timed(
    call: Callable[[MQAdmin], Awaitable[Any]], lease_ends_s: float
) -> Callable[[MQAdmin], Awaitable[tuple[int, Any]]]:
    """Return a call that answers (milliseconds it took, answer) and asks nothing once the lease has ended: another
    worker may have finished the job, and a person undone it.
    """

    async def timed(client: MQAdmin) -> tuple[int, Any]:
        started = time.monotonic()
        if started >= lease_ends_s:
            raise TimeoutError("the worker stood still for longer than its lease")
        answer = await call(client)
        return round((time.monotonic() - started) * 1000), answer

    return timed


# --- Watching -----------------------------------------------------------------------------------------------


def watch_rows(run: JobRun, admin: BlockingMQAdmin, group: str) -> None:
    """Poll until all rows are verified and the members read on. Raises VerificationFailed with the queues
    that are not."""
    rows: list[Row] = run.result["queues"]
    addrs = row_addrs(admin, rows)
    online = bool(run.plan.before.get("online"))
    started_ms = run.progress.setdefault("verify_started_ms", run.now_ms())
    looked_s = 0.0
    while True:
        observe(rows, _committed(admin, addrs, group), online=online, now_ms=run.now_ms())
        if time.monotonic() - looked_s >= MEMBERS_EVERY_S and any(map(_awaits_members, rows)):
            looked_s = time.monotonic()
            hear_members(rows, _members_stand(admin, addrs, group))
        open_rows = [row for row in rows if row["state"] == "applied"]
        asleep = [row for row in rows if row["state"] == "verified" and row["resumed"] is False]
        run.progress["verified"] = sum(row["state"] == "verified" for row in rows)
        run.progress["resumed"] = sum(row["resumed"] is True for row in rows)
        waited_ms = run.now_ms() - started_ms
        if not open_rows and (not asleep or waited_ms > RESUME_MS):
            break
        if open_rows and waited_ms > VERIFY_MS:
            break
        run.sleep(POLL_S)
    _conclude(run, admin, addrs, group, open_rows, asleep)


def observe(rows: list[Row], committed: Mapping[Key, int], *, online: bool, now_ms: int) -> None:
    """Compare what brokers report with the targets; pure apart from the rows it updates."""
    for row in rows:
        now = committed.get(key_of(row))
        row["committed_now"] = now
        if row["state"] == "applied" and now is not None and at_target(row, now, online=online):
            row["state"], row["reported"], row["verified_at_ms"] = "verified", now, now_ms
            row["error"] = ""
        if row["state"] == "verified" and online and not row["resumed"]:
            nothing_to_read = row["target"] >= row["max_offset"]
            row["resumed"] = bool(nothing_to_read or (now is not None and now > row["target"]))


def _awaits_members(row: Mapping[str, Any]) -> bool:
    """Whether what members say of this queue matters still."""
    return row["resumed"] is False or (row["state"] == "applied" and row["how"] == RESET_BY_TIME)


def hear_members(rows: list[Row], stands: Mapping[Key, Stand]) -> None:
    """A member that holds a queue at the target, or a little further, has resumed, long before it commits. One that
    dropped it since the reset was told has been reset.
    """
    for row in rows:
        stand = stands.get(key_of(row))
        if stand is None:
            continue
        if stand.is_dropped:
            row["is_dropped"] = True
        elif row.get("is_dropped") or at_target(row, stand.offset, online=True):
            # it holds the queue again, from the offset of the reset
            row["was_reset"] = row["was_reset"] or bool(row.get("is_dropped"))
            if row["resumed"] is False and at_target(row, stand.offset, online=True):
                row["resumed"] = True


def at_target(row: Mapping[str, Any], now: int, *, online: bool) -> bool:
    """Whether ``now`` is the target, or for an online group a place it reached by consuming on from it."""
    if now == row["target"]:
        return True
    if not online or now < row["target"]:
        return False
    moved_back = row["before"] is not None and row["target"] < row["before"]
    return not moved_back or now < row["before"] or bool(row.get("was_reset"))


def _conclude(
    run: JobRun,
    admin: BlockingMQAdmin,
    addrs: Mapping[str, str],
    group: str,
    open_rows: list[Row],
    asleep: list[Row],
) -> None:
    rows: list[Row] = run.result["queues"]
    failed = [row for row in rows if row["state"] == "failed"]
    run.result |= {
        "moved": sum(row["state"] != "passed" for row in rows),
        "verified": sum(row["state"] in ("verified", "passed") for row in rows),
        "failed": len(failed) + len(open_rows),
        "resumed": sum(row["resumed"] is True for row in rows),
        "clients": _client_count(admin, addrs, group),
    }
    run.save()
    for row in failed[:3]:
        run.note(Text("%(queue)s: %(why)s", queue=_name(row), why=row["error"]), level="danger")
    if failed or open_rows:
        reasons = [Text("%(queue)s: %(why)s", queue=_name(row), why=row["error"]) for row in failed[:2]]
        reasons += [
            Text(
                "%(queue)s stands at %(offset)s, not at %(target)s",
                queue=_name(row),
                offset=Text("never committed") if row["committed_now"] is None else row["committed_now"],
                target=row["target"],
            )
            for row in open_rows[:2]
        ]
        raise VerificationFailed(
            Text(
                "%(number)s of %(rows)s queues: %(reasons)s",
                number=len(failed) + len(open_rows),
                rows=len(rows),
                reasons=Text.of_parts(reasons),
            )
        )
    run.note(Text("%(verified)s of %(rows)s queues verified", verified=len(rows), rows=len(rows)))
    for row in [row for row in rows if row["target"] != row["planned"]][:3]:
        led = Text(
            "%(queue)s stands at %(target)s, where the broker's own search led, not at %(planned)s",
            queue=_name(row),
            target=row["target"],
            planned=row["planned"],
        )
        run.note(led, level="warn")
    if asleep:
        run.note(
            Text(
                "%(number)s queues stand at the target, but no member has read on from there yet",
                number=len(asleep),
            ),
            level="warn",
        )


def _committed(admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str) -> dict[Key, int]:
    """All committed offsets of the group, one call (43) per broker. Raises BrokerUnavailable."""
    answers = ask_each(admin, addrs, lambda client, addr: client.all_consumer_offsets(addr))
    found: dict[Key, int] = {}
    for name, answer in answers.items():
        if isinstance(answer, Exception):
            raise BrokerUnavailable(addrs[name], text_of(answer))
        for (topic, owner), queues in answer.offset_table.items():
            if owner == group:
                found |= {(topic, name, queue_id): offset for queue_id, offset in queues.items()}
    return found


class Stand(NamedTuple):
    """What a member says of a queue: the next offset it will confirm, and whether it has let go of it."""

    offset: int
    is_dropped: bool = False


def _members_stand(admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str) -> dict[Key, Stand]:
    """Where members say they stand (307), for small groups; members that do not answer are left out."""
    online = ask_each(admin, addrs, lambda client, addr: client.consumer_connection(addr, group))
    where = {
        client.client_id: addrs[name]
        for name, each in online.items()
        if each is not None and not isinstance(each, Exception)
        for client in each.connection_set
    }
    if len(where) > MEMBERS_ASKED_MAX:
        return {}
    answers = ask_each(
        admin,
        {client_id: (addr, group, client_id) for client_id, addr in where.items()},
        lambda client, asked: client.consumer_running_info(*asked),
        CALL_DEADLINE_MS,
    )
    return {
        (queue.topic, queue.broker_name, queue.queue_id): Stand(info.commit_offset, info.dropped)
        for answer in answers.values()
        if not isinstance(answer, Exception)
        for queue, info in answer.mq_table.items()
    }


def _client_count(admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str) -> int | None:
    """Members online now; None when no broker could say."""
    answers = ask_each(admin, addrs, lambda client, addr: client.consumer_connection(addr, group))
    known = [answer for answer in answers.values() if not isinstance(answer, Exception)]
    if not known:
        return None
    return len({client.client_id for each in known if each is not None for client in each.connection_set})


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['topic']} · {row['broker_name']} · {row['queue_id']}"
