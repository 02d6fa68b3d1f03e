"""Resolve sends without a recorded outcome after a crash.

A worker that dies between writing PENDING rows and recording the answers leaves them PENDING. The next run
first searches the target queues for their replay keys, from the recorded end on. A copy that is found is
SENT.

A copy that is not found was not sent, and is sent now, provided that every earlier run is certainly over
(``JobRun.is_alone``). Otherwise a frozen run could still send it: the letter becomes UNKNOWN, as does one
whose queue no longer holds that offset (retention). UNKNOWN counts as failed and is never sent again by this
plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from console.brokers.mqadmin import BrokerUnavailable, MessageQueue, MessageRecord
from console.brokers.queues import with_offsets
from console.deadletter.dead_letters import LetterReader, read_window
from console.deadletter.models import LedgerState
from console.deadletter.replay import copy as replay_copy
from console.deadletter.replay.batches import BATCH_MAX, Replay
from console.deadletter.replay.ledger import LedgerEntry, LetterEvent, pending_entries, write_outcomes
from console.deadletter.replay.targets import Outgoing, missing
from console.deadletter.replay.token_bucket import batch_size
from console.text import Text, text_of

MAY_BE_FROZEN = Text(
    "a worker was suspended longer than its lease while it sent this dead letter: it may have been sent"
)
SETTLE_S = 2.0  # by then, data left in a dead worker's socket has reached the broker


def begin(replay: Replay) -> None:
    """Resolve the open sends of an earlier run before sending anything new."""
    replay.recount()
    if replay.counts[LedgerState.PENDING]:
        replay.run.note(
            Text("%(number)s sends have no answer yet", number=replay.counts[LedgerState.PENDING]),
            level="info",
        )
        replay.run.sleep(SETTLE_S)
        _resolve(replay, resend=True)
    replay.publish_progress()


def settle(replay: Replay) -> None:
    """Turn every PENDING row into SENT, FAILED (not sent) or UNKNOWN before a cancel."""
    replay.recount()
    if replay.counts[LedgerState.PENDING]:
        replay.run.sleep(SETTLE_S)
        _resolve(replay, resend=False)
    replay.publish_result()


def _resolve(replay: Replay, *, resend: bool) -> None:
    """Resolve every PENDING row by searching its target queue for its key."""
    pending = pending_entries(replay.run.plan.id)
    by_queue: dict[MessageQueue, list[LedgerEntry]] = {}
    for entry in pending:
        by_queue.setdefault(entry.target_queue, []).append(entry)
    lost: list[LedgerEntry] = []
    for queue, entries in by_queue.items():
        lost += _resolve_queue(replay, queue, entries)
    replay.run.note(
        Text(
            "%(arrived)s of %(number)s open sends had arrived",
            arrived=len(pending) - len(lost),
            number=len(pending),
        ),
        level="info",
    )
    if not replay.run.is_alone:
        for entry in lost:
            entry.on(LetterEvent.LOST, MAY_BE_FROZEN)
        replay.note(lost)
    elif resend:
        _send_lost(replay, lost)
    else:
        for entry in lost:
            entry.on(LetterEvent.WITHDRAWN, Text("not sent: cancelled"))
        replay.note(lost)


def _resolve_queue(replay: Replay, queue: MessageQueue, entries: list[LedgerEntry]) -> list[LedgerEntry]:
    """Mark rows whose copies are in the queue as SENT; return those whose copies are certainly missing."""
    target = replay.targets.of(queue.topic).get(queue)
    if target is None:
        why = missing(replay.admin, queue)
        if isinstance(why, BrokerUnavailable):
            raise why
        for entry in entries:
            entry.on(LetterEvent.LOST, Text("%(why)s: it may have been sent", why=text_of(why)))
        replay.note(entries)
        return []
    place = with_offsets(replay.admin, {queue: target.addr})[0]
    start = min(entry.target_from_offset or 0 for entry in entries)
    keys = {entry.replay_key: entry for entry in entries}
    decided: list[LedgerEntry] = []
    reader = LetterReader(replay.admin, dataclasses.replace(place, min_offset=max(start, place.min_offset)))
    for window in reader:
        replay.run.beat()
        for record in window.letters:
            if isinstance(record, MessageRecord):
                found = keys.pop(record.properties.get(replay_copy.REPLAY_KEY, ""), None)
                if found is not None:
                    found.on(LetterEvent.STORED)
                    found.target_offset = record.queue_offset
                    decided.append(found)
    target.end = max(target.end, place.max_offset)
    lost: list[LedgerEntry] = []
    for entry in keys.values():
        if place.min_offset <= (entry.target_from_offset or 0) <= place.max_offset:
            lost.append(entry)
            continue
        reason = Text(
            "%(topic)s no longer holds offset %(offset)s: it may have been sent",
            topic=queue.topic,
            offset=entry.target_from_offset or 0,
        )
        entry.on(LetterEvent.LOST, reason)
        decided.append(entry)
    replay.note(decided)
    return lost


def _send_lost(replay: Replay, lost: list[LedgerEntry]) -> None:
    """Send copies that never left, made again from their letters.

    Their rows are PENDING with a fresh end of the target queue.
    """
    places = {place.queue: place for place in replay.places()}
    by_queue: dict[MessageQueue, list[LedgerEntry]] = {}
    for entry in sorted(lost, key=lambda entry: entry.queue_offset):
        queue = MessageQueue(entry.topic, entry.broker_name, entry.queue_id)
        by_queue.setdefault(queue, []).append(entry)
    for queue, entries in by_queue.items():
        while entries:
            size = batch_size(replay.run.rate_per_s, BATCH_MAX)
            chunk, rest = entries[:size], entries[size:]
            if not replay.allowed(len(chunk)):
                continue
            entries = rest
            first, last = chunk[0].queue_offset, chunk[-1].queue_offset
            window = read_window(replay.admin, places[queue], first, last + 1)
            letters = {each.queue_offset: each for each in window if isinstance(each, MessageRecord)}
            replay.send_now(_remade(replay, queue, chunk, letters))


def _remade(
    replay: Replay, queue: MessageQueue, entries: Sequence[LedgerEntry], letters: Mapping[int, MessageRecord]
) -> list[Outgoing]:
    """Make copies of these rows' letters again; rows whose letter has expired become FAILED."""
    outgoing: list[Outgoing] = []
    expired: list[LedgerEntry] = []
    for entry in entries:
        record = letters.get(entry.queue_offset)
        if record is None:
            entry.on(LetterEvent.UNSENDABLE, Text("expired before it was sent"))
            expired.append(entry)
            continue
        target = replay.targets.of(entry.target_topic)[entry.target_queue]
        entry.target_from_offset = target.end
        message = replay_copy.copy_of(
            record, entry.target_topic, entry.replay_key, replay.params.target, queue
        )
        outgoing.append(Outgoing(entry, message, target))
    replay.note(expired)
    with replay.run.atomic():
        write_outcomes([copy.entry for copy in outgoing])
    return outgoing
