"""Texts and figures of a pause or resumption plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from console.brokers.mqadmin import retry_topic
from console.group.pause.facts import Arriving, PauseFacts, Waiting
from console.operation.config.row import ConfigRow, ImpactRow
from console.operation.plan.kinds import PlanWarning
from console.text import Duration, Text

NAMED_MAX = 3  # topics in a sentence; the others are counted
SOON_MS = 24 * 3_600_000  # retention within a day is urgent


def summary(group: str, rows: Sequence[ConfigRow], is_closing: bool) -> Text:
    """Return the plan in a sentence. ``rows``: those that change."""
    if not rows:
        return Text("Nothing would change for %(group)s.", group=group)
    topics = Text.of_names(list(dict.fromkeys(row.name for row in rows)), NAMED_MAX)
    brokers = Text.of_names(list(dict.fromkeys(row.broker_name for row in rows)))
    if is_closing:
        return Text(
            "Pause %(group)s on %(topics)s at %(brokers)s. Its clients stop receiving messages. Its "
            "offsets stay, and messages wait until the group is resumed.",
            group=group,
            topics=topics,
            brokers=brokers,
        )
    return Text(
        "Resume %(group)s on %(topics)s at %(brokers)s. Its clients continue from their offsets within "
        "seconds.",
        group=group,
        topics=topics,
        brokers=brokers,
    )


def closing_warnings(
    group: str, topics: Sequence[str], facts: PauseFacts, rate: Arriving, kept_ms: int | None
) -> list[PlanWarning]:
    """Warn who is stopped and who is not, how much will wait, and for how long it is kept."""
    warnings = []
    members = facts.members
    if members.not_held:
        how = " and ".join(members.not_held)
        text = Text(
            "Brokers check this permission only when push clients pull. consumeEnable = false in the "
            "group's settings stops all clients."
        )
        warnings.append(PlanWarning("danger", Text("Its %(how)s clients are not paused", how=how), text))
    if members.client_ids:
        text = Text(
            "Their next pull is refused (NO_PERMISSION, 16) and retried every few seconds. Messages "
            "already pulled are still consumed."
        )
        warnings.append(
            PlanWarning(
                "warn", Text("%(number)s client(s) {is|are} online", number=len(members.client_ids)), text
            )
        )
    else:
        warnings.append(
            PlanWarning(
                "info", Text("No client is online"), Text("Clients that connect later are paused too.")
            )
        )
    warnings.append(_growth(rate))
    warnings.append(_retention(kept_ms))
    if retry_topic(group) not in topics and not _is_retry_paused(group, facts):
        text = Text(
            "%(topic)s is not paused: failed messages are delivered again after their delay.",
            topic=retry_topic(group),
        )
        warnings.append(PlanWarning("warn", Text("Retries continue"), text))
    return warnings


def opening_warnings(
    facts: PauseFacts, waits: Waiting, others: Mapping[str, Sequence[str]]
) -> list[PlanWarning]:
    """Warn what will be handled now, and what stays paused."""
    warnings = []
    if waits.messages:
        title = (
            Text("At least %(number)s message(s) waiting", number=waits.messages)
            if waits.is_lower_bound
            else Text("%(number)s message(s) waiting", number=waits.messages)
        )
        text = Text("Clients consume them as fast as they can: consider the systems that they call.")
        warnings.append(PlanWarning("info", title, text))
    if not facts.members.client_ids:
        warnings.append(
            PlanWarning("warn", Text("No client is online"), Text("Nothing is consumed until one connects."))
        )
    for broker_name, topics in others.items():
        text = Text(
            "Apache brokers resume all of these topics with the first one. The others are paused again "
            "at once, but a pull may happen in between."
        )
        names = Text.of_names(topics, NAMED_MAX)
        title = (
            Text("%(topic)s at %(broker)s stays paused", topic=names, broker=broker_name)
            if len(topics) == 1
            else Text("%(topics)s at %(broker)s stay paused", topics=names, broker=broker_name)
        )
        warnings.append(PlanWarning("info", title, text))
    return warnings


def impact(
    facts: PauseFacts, rate: Arriving, waits: Waiting, kept_ms: int | None, is_closing: bool
) -> list[ImpactRow]:
    """Return who feels a pause or its end."""
    members = facts.members.client_ids
    now, read_at_ms = Text("brokers"), facts.read_at_ms
    last, round_at_ms = Text("last round"), None if facts.row is None else facts.row.read_at_ms
    shown = Text.of_names(members, NAMED_MAX)
    rows = [
        ImpactRow(
            name=Text("Clients online"),
            value=len(members),
            words=shown or Text("no client is online"),
            source=now,
            at_ms=read_at_ms,
        ),
        ImpactRow(
            name=Text("Waiting there"),
            value=waits.messages,
            is_lower_bound=waits.is_lower_bound and waits.messages is not None,
            words=Text("messages not consumed yet"),
            source=last,
            at_ms=round_at_ms,
        ),
        ImpactRow(
            name=Text("Arriving"),
            value=None if rate.per_minute is None else round(rate.per_minute),
            is_lower_bound=rate.is_lower_bound,
            words=Text("messages a minute, at all brokers"),
            source=last,
            at_ms=round_at_ms,
        ),
    ]
    if is_closing:
        hours = sorted(set(facts.reserved_hours.values()))
        rows.append(
            ImpactRow(
                name=Text("Kept unread, hours"),
                value=None if kept_ms is None else kept_ms // 3_600_000,
                words=Text(
                    "fileReservedTime %(hours)s h less the age of the oldest unread message",
                    hours=" and ".join(map(str, hours)),
                )
                if hours
                else Text("fileReservedTime could not be read"),
                source=now,
                at_ms=read_at_ms,
            )
        )
    return rows


def _is_retry_paused(group: str, facts: PauseFacts) -> bool:
    return all(retry_topic(group) in topics for topics in facts.forbidden.values())


def _growth(rate: Arriving) -> PlanWarning:
    if rate.per_minute is None:
        return PlanWarning(
            "warn",
            Text("How fast the lag will grow is unknown"),
            Text("The rates of these topics are unknown so far."),
        )
    per_minute = round(rate.per_minute)
    if not per_minute:
        return PlanWarning(
            "info", Text("Nothing is written there at present"), Text("The lag would stay the same.")
        )
    title = (
        Text("The lag will grow by at least %(number)s message(s) a minute", number=per_minute)
        if rate.is_lower_bound
        else Text("The lag will grow by %(number)s message(s) a minute", number=per_minute)
    )
    text = Text(
        "That is %(number)s per hour at the current rate of the producers.",
        number=round(rate.per_minute * 60),
    )
    return PlanWarning("warn", title, text)


def _retention(kept_ms: int | None) -> PlanWarning:
    if kept_ms is None:
        return PlanWarning(
            "warn",
            Text("How long unread messages are kept is unknown"),
            Text("The age of the oldest, or fileReservedTime of a broker, is not known."),
        )
    text = Text(
        "After that, brokers may delete messages unread (fileReservedTime), or sooner if a disk fills up."
    )
    title = Text("Retention reaches the oldest unread message in about %(time)s", time=Duration(kept_ms))
    return PlanWarning("danger" if kept_ms < SOON_MS else "info", title, text)
