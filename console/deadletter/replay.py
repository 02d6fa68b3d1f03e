"""One replay at work: letters in, copies out, a ledger row for each, nothing twice.

For each batch:
1. read a window of letters, keep those that match the filter;
2. wait for the rate; pause and cancel are obeyed here, between batches;
3. in one transaction: a ledger row per letter (SKIPPED, FAILED, or PENDING with the end of its target
   queue), the cursor behind the batch, the renewed lease;
4. send the PENDING copies, pipelined; each once;
5. in one transaction: SENT with the offset the broker gave, or FAILED with its reason.

A broker may put a copy for the failed group among the dead letters again (`_buried`): the first copy goes
alone, and the job stops there.

A worker that dies between 3 and 5 leaves PENDING rows. Whoever comes next first looks for their replay keys
in the target queues, from the recorded end on: found means SENT, not found means that it is sent now. A
queue that no longer holds that place (retention) makes the letter UNKNOWN: it is counted as failed and never
sent again by this plan.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence

from django.db import transaction

from console.deadletter import replay_copy, selectors
from console.deadletter.dead_letters import Filter, Unreadable, original_topic, read_filter, read_window
from console.deadletter.ledger import insert_rows, write_outcomes
from console.deadletter.models import LedgerState, ReplayLedger
from console.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    Message,
    MessageQueue,
    MessageRecord,
    MQBrokerError,
    RemotingTimeout,
    SendResult,
    dead_letter_topic,
    decode_offset_message_id,
    retry_topic,
)
from console.operation.broker_queues import (
    BrokerQueue,
    ask_each,
    route_queues,
    topic_route,
    with_offsets,
)
from console.operation.errors import VerificationFailed
from console.operation.runner import JobRun

WINDOW = 1_024  # letters read at once: 32 pulls of 32 in flight on one connection
BATCH_MAX = 512  # copies in flight at once, and ledger rows per transaction
ATTEMPTS_MAX = 3  # per copy, for answers that say "not now"
RETRY_PAUSE_S = 0.5
SETTLE_S = 2.0  # what a dead worker's socket still held has reached the broker after this
REASON_LENGTH_MAX = 300
BURIED = "the broker made a dead letter of it again: members of the group hold queue locks"
COUNTED = (LedgerState.SENT, LedgerState.SKIPPED, LedgerState.FAILED, LedgerState.UNKNOWN)
Letter = MessageRecord | Unreadable


@dataclasses.dataclass(slots=True)
class Target:
    """One writable queue and its end as far as we know: a copy sent from now on lies at or behind it."""

    queue: MessageQueue
    addr: str
    end: int


@dataclasses.dataclass(slots=True)
class Outgoing:
    """One copy on its way."""

    row: ReplayLedger
    message: Message
    target: Target


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Letters of one queue that are decided together; ``cursor`` is behind them.

    ``earlier``: offset → plan that sent this letter before.
    """

    letters: list[Letter]
    earlier: dict[int, str]
    cursor: int


class Replay:
    """Works on one claimed job of kind ``dead_letter_replay``."""

    def __init__(self, run: JobRun, admin: BlockingMQAdmin) -> None:
        self.run = run
        self.admin = admin
        params = run.plan.params
        self.group: str = run.plan.subject
        self.wanted: Filter = read_filter(params.get("filter") or {})
        self.to_group = params["target"] == replay_copy.FAILED_GROUP
        self.skip_replayed = bool(params.get("skip_replayed", True))
        self.bucket = replay_copy.TokenBucket()
        self.targets: dict[str, dict[MessageQueue, Target]] = {}
        self.counts: dict[str, int] = {}
        self.buried = 0  # copies of this run that became dead letters again

    # --- The job --------------------------------------------------------------------------------------------

    def execute(self) -> None:
        """Send what is left. Raises JobInterrupted, LeaseLost, BrokerUnavailable."""
        self.begin()
        for place in self._places():
            for batch in self._batches(place):
                self._send_batch(place.queue, batch)
        self._publish_result()

    def begin(self) -> None:
        """Resolve what an earlier attempt left open, and count from the ledger, never from memory."""
        self.counts = selectors.ledger_counts(self.run.plan.id)
        if self.counts[LedgerState.PENDING]:
            self.run.note(f"{self.counts[LedgerState.PENDING]} sends have no answer yet", level="info")
            self.run.sleep(SETTLE_S)
            self._resolve(resend=True)
            self._stop_if_buried()
        self._publish_progress()

    def settle(self) -> None:
        """Before a cancel: every PENDING row becomes SENT or FAILED (not sent)."""
        self.counts = selectors.ledger_counts(self.run.plan.id)
        if self.counts[LedgerState.PENDING]:
            self.run.sleep(SETTLE_S)
            self._resolve(resend=False)
        self._publish_result()

    def _places(self) -> list[BrokerQueue]:
        """The ranges of the plan: letters that died after it was made are not part of it."""
        addrs = route_queues_of(self.admin, self.run.plan.before["topic"])
        found = []
        for each in self.run.plan.before["ranges"]:
            queue = MessageQueue(self.run.plan.before["topic"], each["broker_name"], each["queue_id"])
            if queue not in addrs:
                raise BrokerUnavailable("", f"{queue.broker_name} holds {queue.topic} but is not there")
            cursor = self._cursors().get(_place_name(queue), each["from_offset"])
            found.append(BrokerQueue(queue, addrs[queue], cursor, each["to_offset"]))
        return found

    def _cursors(self) -> dict[str, int]:
        cursors: dict[str, int] = self.run.progress.setdefault("cursors", {})
        return cursors

    def _batches(self, place: BrokerQueue) -> Iterator[Batch]:
        """Matching letters, batch by batch; a window without a match moves the cursor too."""
        for low in range(place.min_offset, place.max_offset, WINDOW):
            high = min(low + WINDOW, place.max_offset)
            window = read_window(self.admin, place, low, high)
            matching = [each for each in window if isinstance(each, Unreadable) or self.wanted.matches(each)]
            earlier = self._sent_before(place.queue, matching)
            if not matching:
                yield Batch([], {}, high)
            while matching:
                count = self._batch_end(matching, earlier)
                batch, matching = matching[:count], matching[count:]
                yield Batch(batch, earlier, matching[0].queue_offset if matching else high)

    def _sent_before(self, queue: MessageQueue, letters: Sequence[Letter]) -> dict[int, str]:
        if not self.skip_replayed:
            return {}
        ids = {each.queue_offset: each.message_id for each in letters if isinstance(each, MessageRecord)}
        return selectors.sent_before(self.run.plan.cluster, queue, ids)

    def _batch_end(self, letters: Sequence[Letter], earlier: Mapping[int, str]) -> int:
        """How many letters make a batch: the rate counts what is sent, not what is skipped."""
        is_first = self.to_group and not self.counts[LedgerState.SENT]
        size = 1 if is_first else replay_copy.batch_size(self.run.rate_per_s, BATCH_MAX)
        to_send = 0
        for index, letter in enumerate(letters[:BATCH_MAX]):
            to_send += letter.queue_offset not in earlier
            if to_send == size:
                return index + 1
        return min(len(letters), BATCH_MAX)

    def _wait(self, count: int) -> None:
        """Beat once, and until the rate allows ``count`` more; a changed rate counts at once."""
        self.run.beat()
        while (wait_s := self.bucket.take(count, self.run.rate_per_s, time.monotonic())) > 0:
            self.run.sleep(min(wait_s, 0.1))

    # --- A batch --------------------------------------------------------------------------------------------

    def _send_batch(self, queue: MessageQueue, batch: Batch) -> None:
        rows, outgoing = self._prepare(queue, batch)
        self._wait(len(outgoing))
        with transaction.atomic():
            insert_rows(rows)
            self._cursors()[_place_name(queue)] = batch.cursor
            self._count(rows)
            self.run.save()
        self._send(outgoing)
        self._stop_if_buried()
        self._publish_progress()

    def _prepare(self, queue: MessageQueue, batch: Batch) -> tuple[list[ReplayLedger], list[Outgoing]]:
        """A ledger row for each letter, and the copies to send."""
        rows: list[ReplayLedger] = []
        outgoing: list[Outgoing] = []
        for letter in batch.letters:
            row = self._row(queue, letter)
            rows.append(row)
            if isinstance(letter, Unreadable):
                row.state, row.reason = LedgerState.FAILED, f"unreadable: {letter.reason}"[:REASON_LENGTH_MAX]
            elif letter.queue_offset in batch.earlier:
                row.state = LedgerState.SKIPPED
                row.reason = f"replayed already by {batch.earlier[letter.queue_offset]}"
            else:
                copy = self._outgoing(queue, letter, row)
                if copy is not None:
                    outgoing.append(copy)
        return rows, outgoing

    def _row(self, queue: MessageQueue, letter: Letter) -> ReplayLedger:
        record = letter if isinstance(letter, MessageRecord) else None
        return ReplayLedger(
            plan=self.run.plan,
            cluster=self.run.plan.cluster,
            group=self.group,
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            queue_offset=letter.queue_offset,
            message_id=record.message_id if record else "",
            keys=(record.keys or "")[:255] if record else "",
            state=LedgerState.PENDING,
            replay_key=replay_copy.replay_key(self.run.plan.id, queue, letter.queue_offset),
            updated_at_ms=self.run.now_ms(),
        )

    def _outgoing(self, queue: MessageQueue, record: MessageRecord, row: ReplayLedger) -> Outgoing | None:
        """The copy and its target queue; None with a FAILED row when there is none."""
        topic = retry_topic(self.group) if self.to_group else original_topic(record)
        targets = self._targets(topic) if topic else {}
        if not targets:
            row.state = LedgerState.FAILED
            row.reason = f"no writable queue of {topic}" if topic else "the letter does not name its topic"
            return None
        try:
            message = replay_copy.copy_of(record, topic, row.replay_key, to_group=self.to_group)
        except Exception as error:  # noqa: BLE001  whatever a decompressor raises about foreign bytes
            row.state = LedgerState.FAILED
            row.reason = f"unreadable: body does not decompress: {error}"[:REASON_LENGTH_MAX]
            return None
        target = targets[replay_copy.target_queue(list(targets), queue, record.queue_offset)]
        row.target_topic, row.target_broker_name = topic, target.queue.broker_name
        row.target_queue_id, row.target_from_offset = target.queue.queue_id, target.end
        return Outgoing(row, message, target)

    def _targets(self, topic: str) -> dict[MessageQueue, Target]:
        """Writable queues of a topic with the ends they have now; read once per run, then moved by our own
        sends."""
        if topic not in self.targets:
            queues = route_queues_of(self.admin, topic, write=True)
            self.targets[topic] = {
                place.queue: Target(place.queue, place.addr, place.max_offset)
                for place in (with_offsets(self.admin, queues) if queues else [])
            }
        return self.targets[topic]

    # --- Sending --------------------------------------------------------------------------------------------

    def _send(self, outgoing: list[Outgoing]) -> None:
        """Send every copy until each has an answer. Raises BrokerUnavailable with rows left PENDING."""
        left = outgoing
        for attempt in range(1, ATTEMPTS_MAX + 1):
            if not left:
                return
            if attempt > 1:
                self.run.sleep(RETRY_PAUSE_S)
            if not self.run.fresh_lease():
                self.run.save()  # raises LeaseLost instead of sending what another worker may be sending
            left = self._send_once(left, last=attempt == ATTEMPTS_MAX)

    def _send_once(self, outgoing: list[Outgoing], *, last: bool) -> list[Outgoing]:
        """Send, note the answers, return what the broker refused for the moment. Unknown outcomes raise."""
        answers = self._answers(outgoing)
        buried = self._buried(outgoing, answers)
        self.buried += len(buried)
        done: list[ReplayLedger] = []
        again: list[Outgoing] = []
        unknown: Exception | None = None
        for copy in outgoing:
            answer = answers[id(copy)]
            if id(copy) in buried:
                copy.row.state, copy.row.reason = LedgerState.FAILED, BURIED
            elif isinstance(answer, SendResult):
                copy.row.state, copy.row.target_offset = LedgerState.SENT, answer.queue_offset
                copy.target.end = max(copy.target.end, answer.queue_offset + 1)
            elif isinstance(answer, MQBrokerError) and answer.retriable and not last:
                again.append(copy)
                continue
            elif isinstance(answer, MQBrokerError):
                copy.row.state = LedgerState.FAILED
                copy.row.reason = f"{copy.target.queue.broker_name}: {answer}"[:REASON_LENGTH_MAX]
            else:
                unknown = answer
                continue
            done.append(copy.row)
        self._note(done)
        if unknown is not None:
            raise BrokerUnavailable(getattr(unknown, "addr", ""), f"some sends have no answer: {unknown}")
        return again

    def _answers(self, outgoing: list[Outgoing]) -> dict[int, SendResult | Exception]:
        """id of the copy → answer, one pipelined call per broker."""
        by_addr: dict[str, list[Outgoing]] = {}
        for copy in outgoing:
            by_addr.setdefault(copy.target.addr, []).append(copy)
        found: dict[int, SendResult | Exception] = {}
        for addr, copies in by_addr.items():
            batch = [(copy.message, copy.target.queue.queue_id) for copy in copies]
            try:
                answers: Sequence[SendResult | Exception] = self.admin.send_many(addr, batch)
            except (BrokerUnavailable, RemotingTimeout) as error:
                answers = [error] * len(copies)
            found |= {id(copy): answer for copy, answer in zip(copies, answers, strict=True)}
        return found

    def _buried(self, outgoing: list[Outgoing], answers: Mapping[int, SendResult | Exception]) -> set[int]:
        """Ids of copies that lie in the dead-letter topic instead of the retry topic, though the send
        succeeded.

        5.x brokers (AbstractSendMessageProcessor.handleRetryAndDLQ) do that while a lock on any queue of the
        group lives, up to 60 s after its holder died, and no request tells. One copy per broker is looked at
        (33); where that one is a dead letter, all are.
        """
        if not self.to_group:
            return set()
        sent = [copy for copy in outgoing if isinstance(answers[id(copy)], SendResult)]
        last = {copy.target.addr: copy for copy in sent}
        bad = {copy.target.addr for copy in last.values() if self._are_letters([copy], answers)}
        return self._are_letters([copy for copy in sent if copy.target.addr in bad], answers)

    def _are_letters(
        self, copies: Sequence[Outgoing], answers: Mapping[int, SendResult | Exception]
    ) -> set[int]:
        asked: dict[int, tuple[str, int]] = {}
        for copy in copies:
            answer = answers[id(copy)]
            if isinstance(answer, SendResult):
                asked[id(copy)] = copy.target.addr, decode_offset_message_id(answer.offset_message_id)[2]
        found = ask_each(self.admin, asked, lambda client, place: client.view_message(*place))
        return {
            key
            for key, record in found.items()
            if isinstance(record, MessageRecord) and record.topic == dead_letter_topic(self.group)
        }

    def _stop_if_buried(self) -> None:
        if not self.buried:
            return
        self._publish_result()
        raise VerificationFailed(
            f"Stopped: what is sent to {retry_topic(self.group)} becomes a dead letter again, because members "
            "of the group hold queue locks (orderly consumption), or held some until a minute ago. "
            f"{self.buried} of the copies ended so. Choose the original topic, or stop the members and try "
            "again a minute later."
        )

    def _note(self, rows: list[ReplayLedger]) -> None:
        """Write outcomes of rows that were PENDING, with the lease, in one transaction."""
        if not rows:
            return
        at_ms = self.run.now_ms()
        for row in rows:
            row.updated_at_ms = at_ms
        with transaction.atomic():
            write_outcomes(rows)
            self.counts[LedgerState.PENDING] -= len(rows)
            self._count(rows)
            self.run.save()

    # --- After a crash --------------------------------------------------------------------------------------

    def _resolve(self, *, resend: bool) -> None:
        """Decide every PENDING row by looking for its key in its target queue."""
        pending = list(ReplayLedger.objects.filter(plan=self.run.plan, state=LedgerState.PENDING))
        by_queue: dict[MessageQueue, list[ReplayLedger]] = {}
        for row in pending:
            assert row.target_queue_id is not None
            queue = MessageQueue(row.target_topic, row.target_broker_name, row.target_queue_id)
            by_queue.setdefault(queue, []).append(row)
        lost: list[ReplayLedger] = []
        for queue, rows in by_queue.items():
            lost += self._resolve_queue(queue, rows)
        self.run.note(f"{len(pending) - len(lost)} of {len(pending)} open sends had arrived", level="info")
        if resend:
            self._send_lost(lost)
        else:
            for row in lost:
                row.state, row.reason = LedgerState.FAILED, "not sent: cancelled"
            self._note(lost)

    def _resolve_queue(self, queue: MessageQueue, rows: list[ReplayLedger]) -> list[ReplayLedger]:
        """Mark the rows whose copies are in the queue SENT; return those that surely are not there."""
        target = self._targets(queue.topic).get(queue)
        if target is None:
            raise BrokerUnavailable("", f"{queue.broker_name} holds {queue.topic} but is not there")
        place = with_offsets(self.admin, {queue: target.addr})[0]
        start = min(row.target_from_offset or 0 for row in rows)
        keys = {row.replay_key: row for row in rows}
        for low in range(max(start, place.min_offset), place.max_offset, WINDOW):
            self.run.beat()
            for record in read_window(self.admin, place, low, min(low + WINDOW, place.max_offset)):
                if isinstance(record, MessageRecord):
                    found = keys.pop(record.properties.get(replay_copy.REPLAY_KEY, ""), None)
                    if found is not None:
                        found.state, found.target_offset = LedgerState.SENT, record.queue_offset
        target.end = max(target.end, place.max_offset)
        gone = [
            row
            for row in keys.values()
            if not place.min_offset <= (row.target_from_offset or 0) <= place.max_offset
        ]
        for row in gone:
            row.state = LedgerState.UNKNOWN
            row.reason = (
                f"{queue.topic} no longer holds offset {row.target_from_offset}: it may have been sent"
            )
        self._note([row for row in rows if row.state in (LedgerState.SENT, LedgerState.UNKNOWN)])
        return [row for row in keys.values() if row.state == LedgerState.PENDING]

    def _send_lost(self, lost: list[ReplayLedger]) -> None:
        """Send copies that never left, made anew of their letters, PENDING behind a fresh end of their
        target."""
        places = {place.queue: place for place in self._places()}
        by_queue: dict[MessageQueue, list[ReplayLedger]] = {}
        for row in sorted(lost, key=lambda row: row.queue_offset):
            by_queue.setdefault(MessageQueue(row.topic, row.broker_name, row.queue_id), []).append(row)
        for queue, rows in by_queue.items():
            size = replay_copy.batch_size(self.run.rate_per_s, BATCH_MAX)
            for start in range(0, len(rows), size):
                chunk = rows[start : start + size]
                window = read_window(
                    self.admin, places[queue], chunk[0].queue_offset, chunk[-1].queue_offset + 1
                )
                letters = {
                    letter.queue_offset: letter for letter in window if isinstance(letter, MessageRecord)
                }
                self._wait(len(chunk))
                self._send(self._remade(chunk, letters))

    def _remade(self, rows: Sequence[ReplayLedger], letters: Mapping[int, MessageRecord]) -> list[Outgoing]:
        """Copies of these rows' letters; rows whose letter is gone become FAILED."""
        outgoing: list[Outgoing] = []
        expired: list[ReplayLedger] = []
        for row in rows:
            record = letters.get(row.queue_offset)
            if record is None:
                row.state, row.reason = LedgerState.FAILED, "expired before it was sent"
                expired.append(row)
                continue
            queue = MessageQueue(row.target_topic, row.target_broker_name, row.target_queue_id or 0)
            target = self._targets(row.target_topic)[queue]
            row.target_from_offset = target.end
            message = replay_copy.copy_of(record, row.target_topic, row.replay_key, to_group=self.to_group)
            outgoing.append(Outgoing(row, message, target))
        self._note(expired)
        with transaction.atomic():
            write_outcomes([copy.row for copy in outgoing])
            self.run.save()
        return outgoing

    # --- Counts ---------------------------------------------------------------------------------------------

    def _count(self, rows: Sequence[ReplayLedger]) -> None:
        for row in rows:
            self.counts[row.state] = self.counts.get(row.state, 0) + 1
        self.run.progress |= self._figures()

    def _figures(self) -> dict[str, int]:
        """matched = sent + skipped + failed (+ pending while a batch is out); unknown is the part of failed
        that may have arrived.
        """
        sent, skipped = self.counts[LedgerState.SENT], self.counts[LedgerState.SKIPPED]
        unknown, pending = self.counts[LedgerState.UNKNOWN], self.counts[LedgerState.PENDING]
        failed = self.counts[LedgerState.FAILED] + unknown
        matched = sent + skipped + failed + pending
        return {
            "matched": matched,
            "sent": sent,
            "skipped": skipped,
            "failed": failed,
            "unknown": unknown,
            "pending": pending,
            "done": sent + skipped + failed,
            "total": max(matched, int(self.run.plan.before.get("matched") or 0)),
        }

    def _publish_progress(self) -> None:
        self.run.progress |= self._figures()
        self.run.beat()

    def _publish_result(self) -> None:
        self.run.progress |= self._figures()
        self.run.result |= {
            key: value for key, value in self._figures().items() if key not in ("done", "total")
        }
        self.run.save()


def route_queues_of(admin: BlockingMQAdmin, topic: str, *, write: bool = False) -> dict[MessageQueue, str]:
    """Queues of a topic that may not exist."""
    route = topic_route(admin, topic)
    return {} if route is None else route_queues(route, topic, write=write)


def _place_name(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"
