"""Give one dead letter to one member of the group (CONSUME_MESSAGE_DIRECTLY, 309) and keep its answer.

The broker that stores the message relays it, so the client must be connected to that broker. A client passes
the stored topic to its listener: for a dead letter that is the dead-letter topic, which many listeners do not
expect. So the original message is given while it is still stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MessageProperty,
    MessageQueue,
    MessageRecord,
    MQBrokerError,
    RemotingTimeout,
)
from console.brokers.queues import ask_each, masters
from console.deadletter import selectors
from console.deadletter.dead_letters import original_topic
from console.deadletter.models import LedgerState
from console.deadletter.replay.copy import replay_key
from console.deadletter.replay.ledger import LedgerEntry, insert_entries, pending_entries, write_outcomes
from console.operation.errors import PlanRejected
from console.operation.job.runner import JobRun
from console.text import Text, text_of

SUCCESS = "CR_SUCCESS"
REASON_LENGTH_MAX = 300
NAMED_MAX = 5  # clients in a refusal; the others are counted
NO_ANSWER = Text(
    "the client was asked, and the worker died before it answered: it may have consumed the message"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """The stored message to give and its broker; ``is_original``: the message the letter was made from."""

    addr: str
    broker_name: str
    offset_message_id: str
    topic: str
    is_original: bool


def message_to_give(admin: BlockingMQAdmin, queue: MessageQueue, letter: MessageRecord) -> Asked:
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
    if found:
        _, name, record = min(found, key=lambda each: (each[0], each[1]))
        return Asked(addrs[name], name, record.offset_message_id, topic, True)
    return Asked(addrs[queue.broker_name], queue.broker_name, letter.offset_message_id, queue.topic, False)


def require_member(admin: BlockingMQAdmin, asked: Asked, group: str, client_id: str) -> None:
    """Raise PlanRejected unless the client is connected to the broker that holds the message."""
    connection = admin.consumer_connection(asked.addr, group)
    online = sorted(each.client_id for each in connection.connection_set) if connection else []
    if client_id not in online:
        there = Text.of_names(online, NAMED_MAX) or Text("nobody")
        raise PlanRejected(
            Text(
                "%(client)s is not connected to %(broker)s, which holds the message; %(names)s is.",
                client=client_id,
                broker=asked.broker_name,
                names=there,
            ),
            field="client_id",
        )


def give(run: JobRun, admin: BlockingMQAdmin) -> None:
    """Send the request to the client at most once.

    A worker that died in the middle leaves an UNKNOWN letter; there is no second try.
    """
    before = run.plan.before
    left = pending_entries(run.plan.id)
    if left:
        left[0].state, left[0].reason = LedgerState.UNKNOWN, NO_ANSWER
        _finish(run, left[0], {"consume_result": "", "remark": NO_ANSWER})
        return
    if sum(selectors.ledger_counts(run.plan.id).values()):
        return
    entry = _entry(run, before)
    with transaction.atomic():
        insert_entries([entry])
        run.save()
    asked = before["asked"]
    try:
        answer = admin.consume_message_directly(
            asked["addr"], run.plan.subject, run.plan.params["client_id"], asked["offset_message_id"]
        )
    except MQBrokerError as error:
        entry.state, entry.reason = LedgerState.FAILED, text_of(error)
        _finish(run, entry, {"consume_result": "", "remark": text_of(error)})
        return
    except (BrokerUnavailable, RemotingTimeout) as error:
        remark = Text("no answer: %(why)s", why=text_of(error))
        entry.state, entry.reason = LedgerState.UNKNOWN, remark
        _finish(run, entry, {"consume_result": "", "remark": remark})
        return
    result = str(answer.consume_result)
    entry.state = LedgerState.SENT if result == SUCCESS else LedgerState.FAILED
    entry.reason = Text("%(result)s in %(number)s ms", result=result, number=answer.spent_time_mills)
    if answer.remark:
        entry.reason = Text("%(what)s: %(why)s", what=entry.reason, why=answer.remark[:REASON_LENGTH_MAX])
    _finish(
        run,
        entry,
        {
            "consume_result": result,
            "remark": answer.remark or "",
            "spent_ms": answer.spent_time_mills,
            "order": answer.order,
            "auto_commit": answer.auto_commit,
        },
    )


def _entry(run: JobRun, before: Mapping[str, Any]) -> LedgerEntry:
    place = before["ranges"][0]
    queue = MessageQueue(before["topic"], place["broker_name"], place["queue_id"])
    return LedgerEntry(
        run.plan.id,
        run.plan.cluster,
        run.plan.subject,
        queue.topic,
        queue.broker_name,
        queue.queue_id,
        place["from_offset"],
        before["asked"]["message_id"],
        before["asked"]["keys"],
        LedgerState.PENDING,
        replay_key(run.plan.id, queue, place["from_offset"]),
        run.now_ms(),
    )


def _finish(run: JobRun, entry: LedgerEntry, result: dict[str, Any]) -> None:
    entry.updated_at_ms = run.now_ms()
    is_sent, is_unknown = entry.state == LedgerState.SENT, entry.state == LedgerState.UNKNOWN
    figures = {
        "matched": 1,
        "sent": int(is_sent),
        "skipped": 0,
        "failed": int(not is_sent),
        "unknown": int(is_unknown),
        "handled": 0,
        "pending": 0,
    }
    with transaction.atomic():
        write_outcomes([entry])
        run.progress |= {**figures, "done": 1, "total": 1}
        run.result |= {**figures, "client": {"client_id": run.plan.params["client_id"], **result}}
        run.save()
