"""The rows of queues as groups consume them: figures, status, owner, and honest unknowns. Pure."""

from collections.abc import Iterator

from console.lag.broker_reads import BrokerAnswers, QueueOffsets
from console.lag.round_view import QueueKey, RoundView, RowDict
from spark.lag.status import SKIP_MESSAGES, Judgement, LagStatus, judge
from spark.lag.window import QueueState

ROUNDS_TO_TOMBSTONE = 3  # a queue its answering broker left out so often is gone; one reply may be incomplete
NEVER_READ: RowDict = {
    "min_offset": None,
    "max_offset": None,
    "committed_offset": None,
    "pulled_offset": None,
    "status": "",
    "since_ms": 0,
    "last_commit_ms": None,
    "read_at_ms": 0,
    "missed_rounds": 0,
}


def queue_rows(view: RoundView) -> dict[QueueKey, RowDict]:
    """Return the row of every queue of every group: read in this round, or known from before and now unknown."""
    rows: dict[QueueKey, RowDict] = {}
    for answer in view.answers:
        if answer.answered:
            rows.update(_read_rows(view, answer))
    for key, previous in view.previous_queues.items():
        if key not in rows:
            row = _unknown_row(view, key, previous)
            if row["missed_rounds"] < ROUNDS_TO_TOMBSTONE:
                rows[key] = row
    return rows


def _read_rows(view: RoundView, answer: BrokerAnswers) -> Iterator[tuple[QueueKey, RowDict]]:
    broker_name = answer.address.broker_name
    for (topic, group), committed in answer.offsets.items():
        if topic in answer.unread:
            for queue_id in committed:
                key = QueueKey(group, topic, broker_name, queue_id)
                yield key, _unknown_row(view, key, view.previous_queues.get(key, NEVER_READ))
        for queue in answer.stats.get(topic, ()):
            key = QueueKey(group, topic, broker_name, queue.queue_id)
            yield key, _row(view, key, queue, committed.get(queue.queue_id), answer.read_max_ms)


def _row(
    view: RoundView, key: QueueKey, queue: QueueOffsets, committed: int | None, read_at_ms: int
) -> RowDict:
    previous = view.previous_queues.get(key)
    series = view.commit_key(key)
    state = None if committed is None or series is None else view.window.state(series)
    judgement = _never_committed(queue, view.now_ms) if state is None else _judge(view, state, previous)
    return {
        "min_offset": queue.min_offset,
        "max_offset": queue.max_offset,
        "committed_offset": committed,
        "pulled_offset": None if state is None else state.pulled,
        "lag": _lag(queue, state),
        "in_flight": None if state is None else state.in_flight,
        "available": None if state is None else state.available,
        "time_lag_ms": (0 if judgement.status is LagStatus.OK else None)
        if state is None
        else state.time_lag_ms,
        "time_lag_lower_bound": state is not None and state.time_lag_lower_bound,
        "status": judgement.status.value,
        "since_ms": since(previous, judgement.status, judgement.since_ms),
        "owner": view.owners.get(key, ""),
        "last_commit_ms": _last_commit_ms(view, committed, previous),
        "read_at_ms": read_at_ms,
        "reason": judgement.reason,
        "missed_rounds": 0,
    }


def _lag(queue: QueueOffsets, state: QueueState | None) -> int | None:
    """Return what waits: null where the group never committed or committed beyond max, 0 in an empty queue."""
    if state is None:
        return 0 if queue.max_offset == queue.min_offset else None
    return None if state.committed > state.max_offset else state.lag


def _never_committed(queue: QueueOffsets, now_ms: int) -> Judgement:
    """Never committed is not "all of it waits" and not zero; an empty queue is well either way."""
    if queue.max_offset == queue.min_offset:
        return Judgement(LagStatus.OK, now_ms)
    held = queue.max_offset - queue.min_offset
    return Judgement(
        LagStatus.NEVER_COMMITTED, now_ms, f"no committed offset yet, the queue holds {held} messages"
    )


def _judge(view: RoundView, state: QueueState, previous: RowDict | None) -> Judgement:
    before = None if previous is None else LagStatus(previous["status"])
    if state.committed == state.max_offset and not _may_have_jumped(state, previous):
        return Judgement(LagStatus.OK, view.now_ms)
    members = view.members.get(state.key.group)
    return judge(
        view.window.history(state.key),
        time_lag_ms=None if state.time_lag_lower_bound else state.time_lag_ms,
        clients=None if members is None else members.clients,
        previous=before,
    )


def _may_have_jumped(state: QueueState, previous: RowDict | None) -> bool:
    if previous is None or previous["committed_offset"] is None:
        return False
    moved: int = state.committed - previous["committed_offset"]
    return moved >= SKIP_MESSAGES or str(previous["status"]) == LagStatus.SKIPPED


def _last_commit_ms(view: RoundView, committed: int | None, previous: RowDict | None) -> int | None:
    """Return when the committed offset was last seen to move: now, or what the row said before."""
    if previous is None or previous["committed_offset"] is None or committed is None:
        return None
    return view.now_ms if previous["committed_offset"] != committed else previous["last_commit_ms"]


def _unknown_row(view: RoundView, key: QueueKey, previous: RowDict) -> RowDict:
    """Keep the offsets as last read, with their age; what follows from them now is unknown."""
    answer = next((one for one in view.answers if one.address.broker_name == key.broker_name), None)
    missed = 0
    if answer is None or not answer.answered:
        reason = view.silence_words(key.broker_name)
    elif key.topic in answer.unread:
        reason = f"{key.broker_name} did not tell the offsets of {key.topic}: {answer.unread[key.topic]}"
    else:
        missed = previous["missed_rounds"] + 1
        reason = f"{key.broker_name} no longer lists this queue for the group"
    silence = view.silences.get(key.broker_name)
    return {
        **previous,
        "lag": None,
        "in_flight": None,
        "available": None,
        "time_lag_ms": None,
        "time_lag_lower_bound": False,
        "status": LagStatus.UNKNOWN.value,
        "since_ms": since(previous, LagStatus.UNKNOWN, view.now_ms if silence is None else silence.since_ms),
        "owner": view.owners.get(key, ""),
        "reason": reason,
        "missed_rounds": missed,
    }


def since(previous: RowDict | None, status: LagStatus, began_ms: int) -> int:
    """Return when a status began: it is as old as the row before says while the word stays the same."""
    if previous is not None and previous["status"] == status.value:
        kept: int = previous["since_ms"]
        return kept
    return began_ms
