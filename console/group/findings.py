"""What is wrong with a group: what, since when, evidence, next step. Pure; worst first."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from console.brokers.mqadmin import RETRY_TOPIC_PREFIX
from console.group.pauses import WHOLE_GROUP, GroupPauses
from console.group.selectors import member_figures
from console.lag.models import ClientRow, GroupRow
from console.lag.round.figures import ClientFigures
from console.lag.rows.broadcast import BROADCASTING
from console.lag.rows.queue_row import QueueRow
from console.text import Duration, Text
from console.text.figures import percent

NOT_PAUSED = GroupPauses()
STANDING = frozenset({"STALLED", "STOPPED"})  # statuses that a pause alone can cause
FINISHING_MS = 300_000  # time for members to handle and commit what they held when the pause began
CLIENT_WORDS = {
    "LOST": Text("lost messages"),
    "STALLED": Text("has stalled"),
    "STOPPED": Text("stopped consuming"),
    "INVALID": Text("contradictory"),
    "FALLING_BEHIND": Text("falls behind"),
    "SKIPPED": Text("jumped ahead"),
    "REWOUND": Text("moved back"),
}
NAMED_MAX = 3  # queues or clients that are named; the others are counted
SLOWER_SHARE = 0.95  # report an out rate below this share of the in rate
SEVERITY = (
    "LOST",
    "STALLED",
    "STOPPED",
    "INVALID",
    "OFFLINE",
    "FALLING_BEHIND",
    "SKIPPED",
    "REWOUND",
    "UNKNOWN",
    "NEVER_COMMITTED",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    `status` selects the icon, `since_ms` is shown as an age beside the title, `action` names a link of the
    page. `head` is a queue that stands still: its next message and its owner are worth a look.
    """

    status: str
    title: Text
    text: Text
    since_ms: int | None = None
    action: str = ""
    head: QueueRow | None = None

    @property
    def head_place(self) -> str:
        """Position as in the URL of a message page, `broker-a:3:1204`; "" without one."""
        row = self.head
        return "" if row is None else f"{row.broker_name}:{row.queue_id}:{row.committed_offset}"

    @property
    def head_name(self) -> str:
        """The same position as part of an element name."""
        return self.head_place.replace(":", "-")


def findings(
    group: GroupRow,
    queues: Sequence[QueueRow],
    clients: Sequence[ClientRow],
    pauses: GroupPauses = NOT_PAUSED,
    promised_ms: int | None = None,
) -> list[Finding]:
    """Return all findings; [] for a healthy group.

    A queue that stands still because its group is paused there is not reported for standing still. `promised_ms`: the
    longest time lag that the group promises.
    """
    if group.model == BROADCASTING:
        found = [
            *_broadcast(group),
            *_offline(group),
            *_promise(group, promised_ms),
            *_subscriptions(clients),
        ]
        return _in_order(found)
    held = [row for row in queues if pauses.holds(row.topic, row.broker_name)]
    standing = [row for row in queues if row not in held or row.status not in STANDING]
    found = [*_paused(held, pauses), *_by_queue_status(standing), *_unknown(queues, group)]
    found += [*_resets(standing), *_popped(group, standing), *_offline(group), *_retention(group)]
    found += _never_committed(queues)
    if not held:
        found += [*_pace(group), *_skew(queues, group)]
        found += _status(group, found)
    found += [*_promise(group, promised_ms), *_subscriptions(clients), *_ownership(queues, clients)]
    return _in_order([*found, *_failures(group)])


def _in_order(found: Iterable[Finding]) -> list[Finding]:
    order = {status: place for place, status in enumerate(SEVERITY)}
    return sorted(found, key=lambda finding: order.get(finding.status, len(order)))


def _status(group: GroupRow, found: Sequence[Finding]) -> Iterable[Finding]:
    """Report the status of the group where no finding does: the badge and the findings agree."""
    if group.status in CLIENT_WORDS and all(one.status != group.status for one in found):
        title = Text("The group %(state)s", state=CLIENT_WORDS[group.status])
        text = _sentence(group.reason) if group.reason else Text()
        yield Finding(group.status, title, text, group.since_ms or None, "queues")


def _promise(group: GroupRow, promised_ms: int | None) -> Iterable[Finding]:
    """Report a time lag above the promise, whatever the status: a group that catches up is late too."""
    late_ms = group.time_lag_ms
    if promised_ms is None or late_ms is None or late_ms <= promised_ms:
        return
    title = Text("Time lag exceeds the promise of %(promise)s", promise=Duration(promised_ms))
    text = Text("The oldest unread message has waited %(time)s.", time=Duration(late_ms))
    if group.worst_queue:
        text = Text(
            "The oldest unread message, on %(queue)s, has waited %(time)s.",
            queue=group.worst_queue,
            time=Duration(late_ms),
        )
    yield Finding("FALLING_BEHIND", title, text, None, "report")


def _broadcast(group: GroupRow) -> Iterable[Finding]:
    """Report members with problems, and how many members did not report their offsets."""
    by_status: dict[str, list[ClientFigures]] = {}
    for one in member_figures(group):
        by_status.setdefault(one.status, []).append(one)
    for status, found in by_status.items():
        if status not in SEVERITY:
            continue
        names = _names([one.client_id for one in found])
        title = Text("%(names)s: %(state)s", names=names, state=CLIENT_WORDS[status])
        text = Text("%(queue)s: %(reason)s.", queue=found[0].worst_queue, reason=found[0].reason)
        yield Finding(status, title, text, min(one.since_ms for one in found), "clients")
    if group.partial and group.clients != 0:
        text = Text("Clients that do not report may be further behind: figures are shown as “at least”.")
        title = Text(
            "%(reporting)s of %(number)s clients reported their offsets",
            reporting=group.clients_told or 0,
            number="?" if group.clients is None else group.clients,
        )
        yield Finding("UNKNOWN", title, text, group.unknown_since_ms, "clients")


def _popped(group: GroupRow, queues: Sequence[QueueRow]) -> Iterable[Finding]:
    """Report members that pop messages and acknowledge none: no queue shows that."""
    is_standing = group.consume_mode == "POP" and group.status == "STALLED"
    if is_standing and not any(row.status == "STALLED" for row in queues):
        advice = Text(
            "Check the clients. After its invisible time, a message is delivered to the group again."
        )
        title = Text("Messages are delivered but not acknowledged")
        yield Finding(
            "STALLED", title, Text.of_parts([_sentence(group.reason), advice]), group.since_ms, "clients"
        )


def _paused(held: Sequence[QueueRow], pauses: GroupPauses) -> Iterable[Finding]:
    """Report what is paused, how much waits there, and queues whose offsets move nevertheless."""
    if not pauses.paused:
        return
    waiting = sum(row.lag or 0 for row in held)
    text = Text("%(number)s message(s) {waits|wait} until the group is resumed.", number=waiting)
    if any(row.lag is None for row in held):
        text = Text("At least %(number)s message(s) {waits|wait} until the group is resumed.", number=waiting)
    people = ", ".join(sorted({pause.by for pause in pauses.paused if pause.by}))
    who = Text("Done by %(person)s.", person=people) if people else Text("Not done by this console.")
    title = Text("The whole group is stopped")
    if pauses.whole_group is None:
        title = Text("Paused on %(topic)s", topic=_names(pauses.topics))
    since_ms = min((pause.since_ms for pause in pauses.paused if pause.since_ms), default=None)
    yield Finding("STOPPED", title, Text.of_parts([text, who]), since_ms)
    moved = [row for row in held if _moves_though_paused(row, pauses)]
    if moved:
        text = Text(
            "Their offsets have moved since. Brokers do not check the permission for clients that pull "
            "themselves or send their filter with each pull; consumeEnable = false in the group's "
            "settings stops all clients."
        )
        title = _are(moved, Text("consumed although paused"))
        yield Finding("INVALID", title, text, None, "queues")


def _moves_though_paused(row: QueueRow, pauses: GroupPauses) -> bool:
    began = [
        pause.since_ms or pause.read_at_ms
        for pause in pauses.paused
        if pause.topic in (row.topic, WHOLE_GROUP) and row.broker_name in pause.brokers
    ]
    return row.last_commit_ms is not None and row.last_commit_ms > min(began) + FINISHING_MS


def _names(names: Sequence[str]) -> Text:
    return Text.of_names(names, NAMED_MAX)


def _queue_names(rows: Sequence[QueueRow]) -> Text:
    """Name queues; with their topic where the group reads several, or messages that come again."""
    topics = {row.topic for row in rows}
    several = len({topic for topic in topics if not topic.startswith(RETRY_TOPIC_PREFIX)}) > 1
    return _names([_queue_name(row, with_topic=several) for row in rows])


def _queue_name(row: QueueRow, *, with_topic: bool) -> str:
    name = f"{row.broker_name} · {row.queue_id}"
    if row.topic.startswith(RETRY_TOPIC_PREFIX):
        return f"{RETRY_TOPIC_PREFIX} {name}"
    return f"{row.topic} {name}" if with_topic else name


def _are(rows: Sequence[QueueRow], state: Text) -> Text:
    """Return `broker-a · 3 is stalled`, or `broker-a · 3 and broker-b · 1 are stalled`."""
    if len(rows) == 1:
        return Text("%(queue)s is %(state)s", queue=_queue_names(rows), state=state)
    return Text("%(queues)s are %(state)s", queues=_queue_names(rows), state=state)


def _sentence(reason: Text) -> Text:
    return Text("Reason: %(reason)s.", reason=reason)


def _reasons(rows: Sequence[QueueRow]) -> Text:
    """Return the reason of the queues, or, where they differ, those of the first two by name; "" without one."""
    found = {row.reason: row for row in rows if row.reason}
    if not found:
        return Text()
    if len(found) == 1:
        return _sentence(next(iter(found)))
    several = [
        Text("%(subject)s: %(reason)s", subject=_queue_names([row]), reason=reason)
        for reason, row in list(found.items())[:2]
    ]
    return _sentence(Text.of_parts(several))


# status → (state or verb of the title, what it means)
QUEUE_WORDS = {
    "LOST": (
        Text("lost messages"),
        Text("Retention deleted messages before the group read them. They cannot be read any more."),
    ),
    "STALLED": (
        Text("stalled"),
        Text("Clients are online but the committed offset does not move. Check the client."),
    ),
    "STOPPED": (
        Text("stopped committing"),
        Text("Messages arrived, but nothing was committed for longer than the window."),
    ),
    "REWOUND": (
        Text("moved back"),
        Text(
            "The committed offset went backwards: a reset, here or elsewhere. The group has not caught "
            "up yet."
        ),
    ),
    "SKIPPED": (
        Text("jumped ahead"),
        Text("The committed offset skipped messages that were not consumed."),
    ),
    "INVALID": (
        Text("contradictory"),
        Text(
            "The committed offset is outside the range of the queue, for example because the topic was "
            "recreated."
        ),
    ),
    "UNKNOWN": (Text("unknown"), Text("There have been no figures since then.")),
}


def _by_queue_status(queues: Sequence[QueueRow]) -> Iterable[Finding]:
    for status, (verb, meaning) in QUEUE_WORDS.items():
        rows = [row for row in queues if row.status == status]
        if not rows:
            continue
        title = _are(rows, verb)
        if status in ("LOST", "STOPPED", "REWOUND", "SKIPPED"):
            title = Text("%(queues)s %(did)s", queues=_queue_names(rows), did=verb)
        reasons = {row.reason for row in rows if row.reason}
        # The reason of a queue that stands still counts what waits there.
        facts = [_waiting(rows)] if status in ("STALLED", "STOPPED") and len(rows) > len(reasons) else []
        owners = sorted({row.owner for row in rows if row.owner})
        if status == "STALLED" and owners:
            facts.append(Text("Owner: %(names)s.", names=", ".join(owners[:NAMED_MAX])))
        since = min((row.since_ms for row in rows if row.since_ms), default=None)
        text = Text.of_parts([*facts, _reasons(rows), meaning])
        standing = [row for row in rows if row.committed_offset is not None and row.lag]
        head = max(standing, key=lambda row: row.time_lag_ms or 0, default=None)
        yield Finding(
            status,
            title,
            text,
            since,
            "queues" if status in ("STALLED", "INVALID") else "",
            head if status in ("STALLED", "STOPPED") else None,
        )


def _waiting(rows: Sequence[QueueRow]) -> Text:
    """Return how many messages wait on these queues; an empty text for none."""
    waiting = sum(row.lag or 0 for row in rows)
    if not waiting:
        return Text()
    if any(row.lag is None for row in rows):
        return Text("At least %(number)s message(s) waiting there.", number=waiting)
    return Text("%(number)s message(s) waiting there.", number=waiting)


def _resets(queues: Sequence[QueueRow]) -> Iterable[Finding]:
    """Report resets that members have not confirmed by a commit yet."""
    described = ("REWOUND", "SKIPPED", "UNKNOWN")  # these have findings of their own
    rows = [row for row in queues if row.reset_pending and row.lag and row.status not in described]
    if rows:
        text = Text(
            "%(number)s message(s) waiting there. The offset was set by a change, not by consumption: "
            "online clients apply it with their next pull, others when they return.",
            number=sum(row.lag or 0 for row in rows),
        )
        since = min((row.reset_at_ms for row in rows if row.reset_at_ms), default=None)
        title = Text("A reset is pending on %(queues)s", queues=_queue_names(rows))
        yield Finding("REWOUND", title, text, since, "queues")


def _never_committed(queues: Sequence[QueueRow]) -> Iterable[Finding]:
    """Report messages in queues without a committed offset: no lag includes them."""
    rows = [row for row in queues if row.status == "NEVER_COMMITTED" and _stored(row)]
    if rows:
        text = Text(
            "At least %(number)s message(s) stored there, not part of any lag. Where a client starts is "
            "its own setting (ConsumeFromWhere).",
            number=sum(map(_stored, rows)),
        )
        title = Text("No offset is committed on %(queues)s", queues=_queue_names(rows))
        yield Finding("NEVER_COMMITTED", title, text, None, "queues")


def _stored(row: QueueRow) -> int:
    return (row.max_offset or 0) - (row.min_offset or 0)


def _unknown(queues: Sequence[QueueRow], group: GroupRow) -> Iterable[Finding]:
    """Report a group that is UNKNOWN although its queues are read: its members are not known yet."""
    if group.status == "UNKNOWN" and group.reason and not any(row.status == "UNKNOWN" for row in queues):
        text = Text.of_parts([_sentence(group.reason), Text("Clients are queried about every 30 s.")])
        yield Finding("UNKNOWN", Text("The status is not known yet"), text, group.since_ms or None)


def _offline(group: GroupRow) -> Iterable[Finding]:
    if group.clients == 0 and group.status != "NEVER_COMMITTED":
        waiting = Text()
        if group.lag:
            waiting = Text("%(number)s {message waits|messages wait}.", number=group.lag)
            if group.lag_lower_bound:
                waiting = Text("At least %(number)s {message waits|messages wait}.", number=group.lag)
        text = Text(
            "No client of this group is online. Messages that retention deletes before a client returns "
            "are lost to the group."
        )
        title = Text("No client is online")
        yield Finding("OFFLINE", title, Text.of_parts([waiting, text]), group.offline_since_ms)


def _pace(group: GroupRow) -> Iterable[Finding]:
    if group.status != "FALLING_BEHIND":
        return
    entering, leaving = group.in_rate, group.out_rate
    if entering and leaving is not None and leaving < SLOWER_SHARE * entering:
        text = Text(
            "%(in)s messages/s arrive and %(out)s messages/s are consumed: the lag grows by "
            "%(growth)s/s. Make the listener faster, or add clients (up to the number of queues).",
            **{"in": round(entering), "out": round(leaving), "growth": round(entering - leaving)},
        )
        title = Text("The group consumes %(share)s less than arrives", share=percent(1 - leaving / entering))
        yield Finding(
            "FALLING_BEHIND", title, Text.of_parts([text, _clients_needed(group)]), group.since_ms or None
        )
    else:
        text = Text(
            "The group consumes as much as arrives, but the lag of its slowest queue does not fall steadily."
        )
        title = Text("The group falls behind")
        yield Finding("FALLING_BEHIND", title, text, group.since_ms or None, "queues")


def _clients_needed(group: GroupRow) -> Text:
    needed = group.consumers_needed
    if needed is None or group.clients is None or needed <= group.clients:
        return Text()
    return Text(
        "At the current speed, %(number)s client(s) {is|are} needed to keep up and to clear the lag "
        "within 15 min.",
        number=needed,
    )


LOSS_SOON_MS = 24 * 3_600_000  # retention within a day is urgent
# A lag spread over less than half of the queues is a matter of the key, not of the number of clients.
SKEW_SHARE = 0.5


def _retention(group: GroupRow) -> Iterable[Finding]:
    """Report retention that will soon reach unread messages."""
    left = group.time_to_loss_ms
    if left is not None and not group.time_to_loss_lower_bound and left < LOSS_SOON_MS:
        text = Text(
            "At the current rate, retention deletes messages of %(queue)s before the group reads them. "
            "Speed up the group or extend the retention (fileReservedTime).",
            queue=group.time_to_loss_queue,
        )
        title = Text("Unread messages will be lost in about %(time)s", time=Duration(left))
        yield Finding("LOST", title, text, None, "queues")


def _skew(queues: Sequence[QueueRow], group: GroupRow) -> Iterable[Finding]:
    """Report a lag that is on few queues: more clients would not help."""
    spread = group.effective_queues
    count = sum(row.lag is not None and not row.topic.startswith("%RETRY%") for row in queues)
    if group.status != "FALLING_BEHIND" or spread is None or count < 2 or spread >= SKEW_SHARE * count:
        return
    text = Text(
        "The lag is on about %(spread)s of %(number)s queues, most on %(queue)s. More clients do not "
        "help: use a key that spreads better, or make the listener of that queue faster.",
        spread=f"{spread:.1f}",
        number=count,
        queue=group.worst_queue,
    )
    yield Finding("FALLING_BEHIND", Text("The lag is uneven"), text, None, "queues")


def _subscriptions(clients: Sequence[ClientRow]) -> Iterable[Finding]:
    if len(subscription_kinds(clients)) > 1:
        text = Text(
            "RocketMQ keeps only the subscription it received last, so delivery changes with every "
            "heartbeat. All clients of a group must subscribe to the same topics and tags."
        )
        kinds = len(subscription_kinds(clients))
        title = Text("Clients subscribe in %(number)s different ways", number=kinds)
        yield Finding("FALLING_BEHIND", title, text, None, "clients")


def subscription_kinds(clients: Iterable[ClientRow]) -> Counter[str]:
    """Return how many clients have each subscription, as words; more than one key is a mismatch."""
    return Counter(subscription_words(client) for client in clients if client.subscription)


def subscription_words(client: ClientRow) -> str:
    """Return `orders: paid || refunded, clicks: *`, without the group's own retry topic."""
    parts = [
        f"{topic}: {(value or {}).get('expression') or '*'}"
        for topic, value in sorted(client.subscription.items())
        if not topic.startswith("%RETRY%")
    ]
    return ", ".join(parts)


def _ownership(queues: Sequence[QueueRow], clients: Sequence[ClientRow]) -> Iterable[Finding]:
    if not clients or any(client.queues is None for client in clients):
        return  # a client that did not answer may own queues that look free
    owned = [one for client in clients for one in client.queues or ()]
    popped = {(one["topic"], one["broker_name"]) for one in owned if "popped" in one}
    # Clients are read between rounds: what one reports to hold has an owner before the row of the queue names it.
    held = {(one.get("topic"), one.get("broker_name"), one.get("queue_id")) for one in owned}
    free = [
        row
        for row in queues
        if not row.owner
        and (row.topic, row.broker_name, row.queue_id) not in held
        and row.status != "UNKNOWN"
        and not row.topic.startswith("%RETRY%")
        and (row.topic, row.broker_name) not in popped  # members that pop share all queues
    ]
    if free:
        text = Text(
            "No client of the group reports that it holds them: their messages wait until the next rebalance."
        )
        title = Text("%(queues)s without an owner", queues=_queue_names(free))
        yield Finding("STOPPED", title, text, None, "queues")
    idle = [client for client in clients if not client.queues]
    if idle:
        text = Text(
            "There are more clients than queues, or the last rebalance assigned them none. They are idle."
        )
        title = Text("%(number)s client(s) without a queue", number=len(idle))
        yield Finding("OFFLINE", title, text, None, "clients")


def _failures(group: GroupRow) -> Iterable[Finding]:
    if group.retry_lag:
        text = Text(
            "They failed at least once and are delivered again after a delay. They do not count in the "
            "lag above."
        )
        yield Finding(
            "REWOUND", Text("%(number)s message(s) in the retry topic", number=group.retry_lag), text
        )
    if group.dlq_count:
        text = Text("They failed all their retries. Check a sample, then replay them to this group only.")
        title = Text("%(number)s dead letter(s)", number=group.dlq_count)
        yield Finding("SKIPPED", title, text, None, "dead-letters")
