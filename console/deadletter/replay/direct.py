"""Give one dead letter to one member of the group (CONSUME_MESSAGE_DIRECTLY, 309) and keep its answer.

The broker that stores the message relays it, so the client must be connected to that broker. A client passes
the stored topic to its listener: for a dead letter that is the dead-letter topic, which many listeners do not
expect. So the original message is given while it is still stored.
"""

from __future__ import annotations

from django.db import transaction

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    ConsumeMessageDirectlyResult,
    MessageProperty,
    MessageQueue,
    MessageRecord,
    MQBrokerError,
    RemotingTimeout,
)
from console.brokers.queues import ask_each, masters
from console.deadletter import selectors
from console.deadletter.dead_letters import original_topic
from console.deadletter.models import NAME_LENGTH_MAX, LedgerState
from console.deadletter.replay.account import Figures
from console.deadletter.replay.before import GivenMessage, ReplayBefore
from console.deadletter.replay.copy import replay_key
from console.deadletter.replay.ledger import (
    LedgerEntry,
    LetterEvent,
    insert_entries,
    pending_entries,
    write_outcomes,
)
from console.deadletter.replay.params import ReplayParams
from console.operation.errors import PlanRejected
from console.operation.plan.job_run import JobRun
from console.text import Text, text_of
from console.text.storable import storable
from console.text.stored import Stored

SUCCESS = "CR_SUCCESS"
REASON_LENGTH_MAX = 300
NAMED_MAX = 5  # clients in a refusal; the others are counted
NO_ANSWER = Text(
    "the request was sent to the client, and the worker ended before the answer: the client may have "
    "consumed the message"
)


class ClientAnswer(Stored, frozen=True, kw_only=True):
    """What the client answered; without ``consume_result`` it gave none, and ``remark`` says why."""

    client_id: str
    consume_result: str
    remark: Text
    spent_ms: int | None = None
    order: bool | None = None
    auto_commit: bool | None = None

    @classmethod
    def of(cls, run: JobRun) -> ClientAnswer:
        """Return the answer that a job has recorded."""
        answer = run.result_as(ClientResult).client
        assert answer is not None
        return answer


class ClientResult(Stored, frozen=True, kw_only=True):
    """The answer in the job's result."""

    client: ClientAnswer | None = None


def message_to_give(admin: BlockingMQAdmin, queue: MessageQueue, letter: MessageRecord) -> GivenMessage:
    """Return the original message if its unique key still finds it (12), else the letter itself.

    With several matches (a replay to the original topic keeps the key) the oldest is the original. Raises
    BrokerUnavailable.
    """
    addrs = masters(admin)
    if queue.broker_name not in addrs:
        raise BrokerUnavailable("", Text("%(broker)s has no master now", broker=queue.broker_name))
    topic, key = original_topic(letter), letter.properties.get(MessageProperty.UNIQ_KEY, "")
    answers = ask_each(
        admin,
        addrs if topic and key else {},
        lambda client, addr: client.query_message(addr, topic, key, unique_key=True),
    )
    found = [
        (record.store_timestamp_ms, name, record)
        for name, records in answers.items()
        if not isinstance(records, Exception)
        for record in records
        if record.topic == topic and record.body == letter.body
    ]
    name, record, is_original = queue.broker_name, letter, False
    if found:
        _, name, record = min(found, key=lambda each: (each[0], each[1]))
        is_original = True
    return GivenMessage(
        addr=addrs[name],
        broker_name=name,
        offset_message_id=record.offset_message_id,
        topic=record.topic if is_original else queue.topic,
        is_original=is_original,
        message_id=storable(letter.message_id, NAME_LENGTH_MAX),
        keys=storable(letter.keys or "", NAME_LENGTH_MAX),
    )


def require_member(admin: BlockingMQAdmin, given: GivenMessage, group: str, client_id: str) -> None:
    """Raise PlanRejected unless the client is connected to the broker that holds the message."""
    connection = admin.consumer_connection(given.addr, group)
    online = sorted(each.client_id for each in connection.connection_set) if connection else []
    if client_id not in online:
        there = Text.of_names(online, NAMED_MAX) or Text("no client")
        raise PlanRejected(
            Text(
                "%(client)s is not connected to %(broker)s, which holds the message; %(names)s is.",
                client=client_id,
                broker=given.broker_name,
                names=there,
            ),
            field="client_id",
        )


def give(run: JobRun, admin: BlockingMQAdmin) -> None:
    """Send the request to the client at most once.

    A worker that died in the middle leaves an UNKNOWN letter; there is no second try.
    """
    left = pending_entries(run.plan.id)
    if left:
        left[0].on(LetterEvent.LOST, NO_ANSWER)
        _finish(run, left[0])
        return
    if sum(selectors.ledger_counts(run.plan.id).values()):
        return
    before, client_id = ReplayBefore.of(run.plan), ReplayParams.of(run.plan).client_id
    given = before.given
    assert given is not None
    entry = _entry(run, before, given)
    with transaction.atomic():
        insert_entries([entry])
        run.save()
    try:
        answer = admin.consume_message_directly(
            given.addr, run.plan.subject, client_id, given.offset_message_id
        )
    except MQBrokerError as error:
        entry.on(LetterEvent.REFUSED, text_of(error))
        _finish(run, entry)
        return
    except (BrokerUnavailable, RemotingTimeout) as error:
        entry.on(LetterEvent.LOST, Text("no answer: %(why)s", why=text_of(error)))
        _finish(run, entry)
        return
    result = str(answer.consume_result)
    reason = Text("%(result)s in %(number)s ms", result=result, number=answer.spent_time_mills)
    if answer.remark:
        reason = Text("%(what)s: %(why)s", what=reason, why=answer.remark[:REASON_LENGTH_MAX])
    entry.on(LetterEvent.STORED if result == SUCCESS else LetterEvent.REFUSED, reason)
    _finish(run, entry, answer)


def _entry(run: JobRun, before: ReplayBefore, given: GivenMessage) -> LedgerEntry:
    place = before.ranges[0]
    queue = MessageQueue(before.topic, place.broker_name, place.queue_id)
    return LedgerEntry(
        run.plan.id,
        run.plan.cluster,
        run.plan.subject,
        queue.topic,
        queue.broker_name,
        queue.queue_id,
        place.from_offset,
        given.message_id,
        given.keys,
        LedgerState.PENDING,
        replay_key(run.plan.id, queue, place.from_offset),
        run.now_ms(),
    )


def _finish(run: JobRun, entry: LedgerEntry, answer: ConsumeMessageDirectlyResult | None = None) -> None:
    """Write the outcome; without an answer the reason of the entry says why there is none."""
    entry.updated_at_ms = run.now_ms()
    counts = dict.fromkeys(LedgerState.values, 0) | {entry.state: 1}
    figures = Figures.of(counts, ReplayBefore.of(run.plan))
    client_id = ReplayParams.of(run.plan).client_id
    if answer is None:
        client_answer = ClientAnswer(client_id=client_id, consume_result="", remark=entry.reason)
    else:
        client_answer = ClientAnswer(
            client_id=client_id,
            consume_result=str(answer.consume_result),
            remark=Text.foreign(answer.remark or ""),
            spent_ms=answer.spent_time_mills,
            order=answer.order,
            auto_commit=answer.auto_commit,
        )
    with transaction.atomic():
        write_outcomes([entry])
        run.put_progress(figures)
        run.put_result(figures.sums)
        run.put_result(ClientResult(client=client_answer))
        run.save()
