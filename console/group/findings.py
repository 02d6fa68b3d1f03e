"""What is wrong with a group: what, since when, evidence, next step. Pure; worst first."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from console.brokers.mqadmin import RETRY_TOPIC_PREFIX, is_retry_topic
from console.group.pauses import WHOLE_GROUP, GroupPauses
from console.group.selectors import Reported, member_figures
from console.lag.models import ClientRow, GroupRow
from console.lag.round.figures import ClientFigures
from console.lag.rows.broadcast import BROADCASTING
from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.queue_row import QueueRow
from console.text import Duration, Names, Text
from console.text.figures import percent
from spark.lag.snapshot import BoolArray

Queues = ColumnRows[QueueRow]

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


class OwnPlan(NamedTuple):
    """A plan of this console that changed offsets, and who applied it."""

    id: str
    person: str


PlanAt = Callable[[int], OwnPlan | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    `status` selects the icon, `since_ms` is shown as an age beside the title, `action` names a link of the
    page. `head` is a queue that stands still: its next message and its owner are worth a look. `plan` is the id of the
    plan of this console that caused it.
    """

    status: str
    title: Text
    text: Text
    since_ms: int | None = None
    action: str = ""
    head: QueueRow | None = None
    plan: str = ""

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
    queues: Queues,
    clients: Sequence[Reported],
    pauses: GroupPauses = NOT_PAUSED,
    promised_ms: int | None = None,
    plan_at: PlanAt = lambda _at_ms: None,
) -> list[Finding]:
    """Return all findings; [] for a healthy group.

    A queue that stands still because its group is paused there is not reported for standing still. `promised_ms`: the
    longest time lag that the group promises. `plan_at`: which plan had set the offsets that a round found set then.
    """
    if group.model == BROADCASTING:
        found = [
            *_broadcast(group),
            *_offline(group),
            *_promise(group, promised_ms),
            *_subscriptions(clients),
        ]
        return _in_order(found)
    is_held = _is_held(queues, pauses)
    held = queues.part(is_held)
    standing = queues.part(~(is_held & _is_among(queues, STANDING))) if held else queues
    found = [*_paused(held, pauses), *_by_queue_status(standing, plan_at), *_unknown(queues, group)]
    found += [*_resets(standing), *_popped(group, standing), *_offline(group), *_retention(group)]
    found += _never_committed(queues)
    if not held:
        found += [*_pace(group), *_skew(queues, group)]
        found += _status(group, found)
    found += [*_promise(group, promised_ms), *_subscriptions(clients), *_ownership(queues, clients)]
    return _in_order([*found, *_failures(group)])


def _is_held(queues: Queues, pauses: GroupPauses) -> BoolArray:
    """Mark the queues that are paused."""
    if not pauses.paused:
        return np.zeros(len(queues), dtype=np.bool_)
    places = list(zip(queues.values("topic"), queues.values("broker_name"), strict=True))
    holds = {place: pauses.holds(*place) for place in set(places)}
    return np.array([holds[place] for place in places], dtype=np.bool_)


def _is_among(queues: Queues, statuses: Collection[str]) -> BoolArray:
    """Mark the queues in one of some statuses."""
    return np.array([status in statuses for status in queues.values("status")], dtype=np.bool_)


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
    title = Text("Time lag exceeds the SLO of %(slo)s", slo=Duration(promised_ms))
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


def _popped(group: GroupRow, queues: Queues) -> Iterable[Finding]:
    """Report members that pop messages and acknowledge none: no queue shows that."""
    is_standing = group.consume_mode == "POP" and group.status == "STALLED"
    if is_standing and "STALLED" not in queues.values("status"):
        advice = Text(
            "Check the clients. After its invisible time, a message is delivered to the group again."
        )
        title = Text("Messages are delivered but not acknowledged")
        yield Finding(
            "STALLED", title, Text.of_parts([_sentence(group.reason), advice]), group.since_ms, "clients"
        )


def _paused(held: Queues, pauses: GroupPauses) -> Iterable[Finding]:
    """Report what is paused, how much waits there, and queues whose offsets move nevertheless."""
    if not pauses.paused:
        return
    lags = held.values("lag")
    waiting = sum(lag or 0 for lag in lags)
    text = Text("%(number)s message(s) {waits|wait} until the group is resumed.", number=waiting)
    if None in lags:
        text = Text("At least %(number)s message(s) {waits|wait} until the group is resumed.", number=waiting)
    people = Names(sorted({pause.by for pause in pauses.paused if pause.by}))
    who = Text("Done by %(person)s.", person=people) if people else Text("Not done by this console.")
    title = Text("The whole group is stopped")
    if pauses.whole_group is None:
        title = Text("Paused on %(topic)s", topic=_names(pauses.topics))
    since_ms = min((pause.since_ms for pause in pauses.paused if pause.since_ms), default=None)
    yield Finding("STOPPED", title, Text.of_parts([text, who]), since_ms)
    moved = held.part(_moves_though_paused(held, pauses))
    if moved:
        text = Text(
            "Their offsets have moved since. Brokers do not check the permission for clients that pull "
            "themselves or send their filter with each pull; consumeEnable = false in the group's "
            "settings stops all clients."
        )
        title = _are(moved, Text("consumed although paused"))
        yield Finding("INVALID", title, text, None, "queues")


def _moves_though_paused(held: Queues, pauses: GroupPauses) -> BoolArray:
    """Mark the queues that committed after what members held when the pause began."""
    places = held.values("topic"), held.values("broker_name"), held.values("last_commit_ms")
    began_ms = {place: _began_ms(pauses, *place) for place in set(zip(*places[:2], strict=True))}
    return np.array(
        [
            commit_ms is not None and commit_ms > began_ms[topic, broker_name] + FINISHING_MS
            for topic, broker_name, commit_ms in zip(*places, strict=True)
        ],
        dtype=np.bool_,
    )


def _began_ms(pauses: GroupPauses, topic: str, broker_name: str) -> int:
    return min(
        pause.since_ms or pause.read_at_ms
        for pause in pauses.paused
        if pause.topic in (topic, WHOLE_GROUP) and broker_name in pause.brokers
    )


def _names(names: Sequence[str]) -> Text:
    return Text.of_names(names, NAMED_MAX)


def _queue_names(queues: Queues) -> Text:
    """Name queues; with their topic where the group reads several, or messages that come again."""
    topics = {topic for topic in queues.values("topic") if not is_retry_topic(topic)}
    named = [_queue_name(row, with_topic=len(topics) > 1) for row in queues[:NAMED_MAX]]
    return Text.of_names(named, others=len(queues) - len(named))


def _queue_name(row: QueueRow, *, with_topic: bool) -> str:
    name = f"{row.broker_name} · {row.queue_id}"
    if is_retry_topic(row.topic):
        return f"{RETRY_TOPIC_PREFIX} {name}"
    return f"{row.topic} {name}" if with_topic else name


def _are(queues: Queues, state: Text) -> Text:
    """Return `broker-a · 3 is stalled`, or `broker-a · 3 and broker-b · 1 are stalled`."""
    if len(queues) == 1:
        return Text("%(queue)s is %(state)s", queue=_queue_names(queues), state=state)
    return Text("%(queues)s are %(state)s", queues=_queue_names(queues), state=state)


def _sentence(reason: Text) -> Text:
    return Text("Reason: %(reason)s.", reason=reason)


def _reasons(queues: Queues) -> Text:
    """Return the reason of the queues, or, where they differ, those of the first two by name; "" without one."""
    found = {reason: at for at, reason in enumerate(queues.values("reason")) if reason}
    if not found:
        return Text()
    if len(found) == 1:
        return _sentence(next(iter(found)))
    several = [
        Text("%(subject)s: %(reason)s", subject=_queue_names(queues.part([at])), reason=reason)
        for reason, at in list(found.items())[:2]
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


def _plan_of(queues: Queues, plan_at: PlanAt) -> OwnPlan | None:
    """Return the plan that set the offsets of all these queues last; None where another change did."""
    moments = queues.values("reset_at_ms")
    if not moments or None in moments:
        return None
    first, last = plan_at(min(moments)), plan_at(max(moments))
    return first if first == last else None


def _by_queue_status(queues: Queues, plan_at: PlanAt) -> Iterable[Finding]:
    present = set(queues.values("status"))
    for status, (verb, meaning) in QUEUE_WORDS.items():
        if status not in present:
            continue
        rows = queues.part(_is_among(queues, [status]))
        title = _are(rows, verb)
        if status in ("LOST", "STOPPED", "REWOUND", "SKIPPED"):
            title = Text("%(queues)s %(did)s", queues=_queue_names(rows), did=verb)
        reasons = set(filter(None, rows.values("reason")))
        # The reason of a queue that stands still counts what waits there.
        facts = [_waiting(rows)] if status in ("STALLED", "STOPPED") and len(rows) > len(reasons) else []
        plan = _plan_of(rows, plan_at) if status in ("REWOUND", "SKIPPED") else None
        if plan is not None:
            words = Text("Offsets changed by plan %(plan)s of %(person)s.", plan=plan.id, person=plan.person)
            facts.append(words)
        owners = sorted(set(filter(None, rows.values("owner"))))
        if status == "STALLED" and owners:
            facts.append(Text("Owner: %(names)s.", names=Names(owners[:NAMED_MAX])))
        yield Finding(
            status,
            title,
            Text.of_parts([*facts, _reasons(rows), meaning]),
            min(filter(None, rows.values("since_ms")), default=None),
            "queues" if status in ("STALLED", "INVALID") else "",
            _head(rows) if status in ("STALLED", "STOPPED") else None,
            "" if plan is None else plan.id,
        )


def _head(queues: Queues) -> QueueRow | None:
    """Return the queue whose next message waits longest; None where it is unknown which that is."""
    records = queues.records("committed_offset", "lag", "time_lag_ms")
    waiting = [one for one in records if one.committed_offset is not None and one.lag]
    return queues[max(waiting, key=lambda one: one.time_lag_ms or 0).at] if waiting else None


def _waiting(queues: Queues) -> Text:
    """Return how many messages wait on these queues; an empty text for none."""
    lags = queues.values("lag")
    waiting = sum(lag or 0 for lag in lags)
    if not waiting:
        return Text()
    if None in lags:
        return Text("At least %(number)s message(s) waiting there.", number=waiting)
    return Text("%(number)s message(s) waiting there.", number=waiting)


def _resets(queues: Queues) -> Iterable[Finding]:
    """Report resets that members have not confirmed by a commit yet."""
    described = ("REWOUND", "SKIPPED", "UNKNOWN")  # these have findings of their own
    pending = queues.part(queues.columns["reset_pending"])
    pending = pending.part(
        [one.at for one in pending.records("lag", "status") if one.lag and one.status not in described]
    )
    if pending:
        text = Text(
            "%(number)s message(s) waiting there. The offset was set by a change, not by consumption: "
            "online clients apply it with their next pull, others when they return.",
            number=sum(pending.values("lag")),
        )
        since = min(filter(None, pending.values("reset_at_ms")), default=None)
        title = Text("A reset is pending on %(queues)s", queues=_queue_names(pending))
        yield Finding("REWOUND", title, text, since, "queues")


def _never_committed(queues: Queues) -> Iterable[Finding]:
    """Report messages in queues without a committed offset: no lag includes them."""
    never = queues.part(_is_among(queues, ["NEVER_COMMITTED"]))
    bounds = never.records("min_offset", "max_offset")
    stored = {one.at: (one.max_offset or 0) - (one.min_offset or 0) for one in bounds}
    stored = {at: count for at, count in stored.items() if count}
    if stored:
        text = Text(
            "At least %(number)s message(s) stored there, not part of any lag. Where a client starts is "
            "its own setting (ConsumeFromWhere).",
            number=sum(stored.values()),
        )
        title = Text("No offset is committed on %(queues)s", queues=_queue_names(never.part(list(stored))))
        yield Finding("NEVER_COMMITTED", title, text, None, "queues")


def _unknown(queues: Queues, group: GroupRow) -> Iterable[Finding]:
    """Report a group that is UNKNOWN although its queues are read: its members are not known yet."""
    if group.status == "UNKNOWN" and group.reason and "UNKNOWN" not in queues.values("status"):
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
        texts = []
        if entering and leaving is not None:
            texts.append(Text("Its queues together are consumed about as fast as messages arrive."))
        if group.reason:
            texts.append(Text("The worst queue decides: %(reason)s.", reason=group.reason))
        title = Text("At least one queue falls behind")
        yield Finding("FALLING_BEHIND", title, Text.of_parts(texts), group.since_ms or None, "queues")


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


def _skew(queues: Queues, group: GroupRow) -> Iterable[Finding]:
    """Report a lag that is on few queues: more clients would not help."""
    spread = group.effective_queues
    if group.status != "FALLING_BEHIND" or spread is None:
        return
    places = zip(queues.values("topic"), queues.values("lag"), strict=True)
    count = sum(lag is not None and not is_retry_topic(topic) for topic, lag in places)
    if count < 2 or spread >= SKEW_SHARE * count:
        return
    text = Text(
        "The lag is on about %(spread)s of %(number)s queues, most on %(queue)s. More clients do not "
        "help: use a key that spreads better, or make the listener of that queue faster.",
        spread=f"{spread:.1f}",
        number=count,
        queue=group.worst_queue,
    )
    yield Finding("FALLING_BEHIND", Text("The lag is uneven"), text, None, "queues")


def _subscriptions(clients: Sequence[Reported]) -> Iterable[Finding]:
    if not subscribe_alike(clients) and (kinds := len(subscription_kinds(clients))) > 1:
        text = Text(
            "RocketMQ keeps only the subscription it received last, so delivery changes with every "
            "heartbeat. All clients of a group must subscribe to the same topics and tags."
        )
        title = Text("Clients subscribe in %(number)s different ways", number=kinds)
        yield Finding("FALLING_BEHIND", title, text, None, "clients")


def subscribe_alike(clients: Iterable[Reported]) -> bool:
    """Return whether all members that reported a subscription have the same, as those of nearly every group."""
    reported = [client.subscription for client in clients if client.subscription]
    return all(one is reported[0] or one == reported[0] for one in reported)


def subscription_kinds(clients: Iterable[Reported]) -> Counter[str]:
    """Return how many clients have each subscription, as words; more than one key is a mismatch."""
    return Counter(subscription_words(client) for client in clients if client.subscription)


def subscription_words(client: ClientRow | Reported) -> str:
    """Return `orders: paid || refunded, clicks: *`, without the group's own retry topic."""
    parts = [
        f"{topic}: {(value or {}).get('expression') or '*'}"
        for topic, value in sorted(client.subscription.items())
        if not topic.startswith("%RETRY%")
    ]
    return ", ".join(parts)


def _ownership(queues: Queues, clients: Sequence[Reported]) -> Iterable[Finding]:
    if not clients or any(client.queues is None for client in clients):
        return  # a client that did not answer may own queues that look free
    owned = [one for client in clients for one in client.queues or ()]
    popped = {(one.topic, one.broker_name) for one in owned if one.popped is not None}
    # Clients are read between rounds: what one reports to hold has an owner before the row of the queue names it.
    held = {(one.topic, one.broker_name, one.queue_id) for one in owned}
    free = queues.part(queues.columns["owner"] == "")
    free = free.part(
        [
            one.at
            for one in free.records("topic", "broker_name", "queue_id", "status")
            if (one.topic, one.broker_name, one.queue_id) not in held
            and one.status != "UNKNOWN"
            and not is_retry_topic(one.topic)
            and (one.topic, one.broker_name) not in popped  # members that pop share all queues
        ]
    )
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
