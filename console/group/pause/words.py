"""What a pause or its end means, in words and figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from console.brokers.mqadmin import retry_topic
from console.group.pause.facts import Arriving, PauseFacts, Waiting
from console.operation.config.change import ConfigRow, brokers_in_words, counted
from console.operation.plan.kinds import PlanWarning
from console.text.figures import duration

NAMED_MAX = 3  # topics in a sentence; the others are counted
SOON_MS = 24 * 3_600_000  # nearer than a day, retention is a matter of today


def names_in_words(names: Sequence[str]) -> str:
    """``orders and refunds``, ``a, b, c and 4 more``."""
    if len(names) <= NAMED_MAX:
        return brokers_in_words(names)
    return f"{', '.join(names[:NAMED_MAX])} and {len(names) - NAMED_MAX} more"


def summary(group: str, rows: Sequence[ConfigRow], is_closing: bool) -> str:
    """The plan in a sentence. ``rows``: those that change."""
    if not rows:
        return f"This would change nothing for {group}."
    topics = names_in_words(list(dict.fromkeys(row.name for row in rows)))
    brokers = brokers_in_words(list(dict.fromkeys(row.broker_name for row in rows)))
    if is_closing:
        return (
            f"This will pause {group} on {topics}, at {brokers}: its members are given nothing more of it. "
            "Its offsets stay, and messages wait until it is resumed."
        )
    return (
        f"This will let {group} read {topics} again, at {brokers}: "
        "its members go on where they stood, within seconds."
    )


def closing_warnings(
    group: str, topics: Sequence[str], facts: PauseFacts, rate: Arriving, kept_ms: int | None
) -> list[PlanWarning]:
    """Who is stopped and who is not, how much will wait, and for how long it may."""
    warnings = []
    members = facts.members
    if members.not_held:
        how = " and ".join(members.not_held)
        text = (
            "Brokers ask for this permission only when push members pull. consumeEnable = false, in the group's "
            "settings, stops all."
        )
        warnings.append(PlanWarning("danger", f"Its {how} members are not held", text))
    if members.client_ids:
        text = (
            "Their next pull is refused (NO_PERMISSION, 16) and tried again every few seconds; what they hold by then "
            "is still handled."
        )
        warnings.append(
            PlanWarning("warn", f"{counted(len(members.client_ids), 'member', 'are')} online", text)
        )
    else:
        warnings.append(PlanWarning("info", "No member is online", "Those that come are held too."))
    warnings.append(_growth(rate))
    warnings.append(_retention(kept_ms))
    if retry_topic(group) not in topics and not _is_retry_paused(group, facts):
        text = f"{retry_topic(group)} is not among these topics: what failed comes again after its delay."
        warnings.append(PlanWarning("warn", "Retries go on", text))
    return warnings


def opening_warnings(
    facts: PauseFacts, waits: Waiting, others: Mapping[str, Sequence[str]]
) -> list[PlanWarning]:
    """What will be handled now, and what stays paused."""
    warnings = []
    if waits.messages:
        least = "at least " if waits.is_lower_bound else ""
        title = f"{least}{counted(waits.messages, 'message')} waiting"
        text = "Members take them as fast as they can: think of what they call."
        warnings.append(PlanWarning("info", title[:1].upper() + title[1:], text))
    if not facts.members.client_ids:
        warnings.append(PlanWarning("warn", "No member is online", "Nothing is read until one comes."))
    for broker_name, topics in others.items():
        text = (
            "Apache's brokers let them be read with the first that is resumed: they are paused again at once, and a "
            "pull may come between."
        )
        title = f"{names_in_words(topics)} at {broker_name} {'stays' if len(topics) == 1 else 'stay'} paused"
        warnings.append(PlanWarning("info", title, text))
    return warnings


def impact(
    facts: PauseFacts, rate: Arriving, waits: Waiting, kept_ms: int | None, is_closing: bool
) -> list[dict[str, Any]]:
    """Rows of "who feels it": [{name, value, words, is_lower_bound, source, at_ms}]; value None = unknown."""
    members = facts.members.client_ids
    now = {"source": "brokers", "at_ms": facts.read_at_ms}
    last = {"source": "last round", "at_ms": None if facts.row is None else facts.row.read_at_ms}
    shown = ", ".join(members[:NAMED_MAX]) + (
        f" and {len(members) - NAMED_MAX} more" if len(members) > NAMED_MAX else ""
    )
    rows: list[dict[str, Any]] = [
        {"name": "Members online", "value": len(members), "words": shown or "nobody is online", **now},
        {
            "name": "Waiting there",
            "value": waits.messages,
            "is_lower_bound": waits.is_lower_bound and waits.messages is not None,
            "words": "messages not handled yet",
            **last,
        },
        {
            "name": "Arriving",
            "value": None if rate.per_minute is None else round(rate.per_minute),
            "is_lower_bound": rate.is_lower_bound,
            "words": "messages a minute, at all brokers",
            **last,
        },
    ]
    if is_closing:
        hours = sorted(set(facts.reserved_hours.values()))
        rows.append(
            {
                "name": "Kept unread, hours",
                "value": None if kept_ms is None else kept_ms // 3_600_000,
                "words": f"fileReservedTime {' and '.join(map(str, hours))} h less the age of the oldest unread message"
                if hours
                else "fileReservedTime could not be read",
                **now,
            }
        )
    return rows


def _is_retry_paused(group: str, facts: PauseFacts) -> bool:
    return all(retry_topic(group) in topics for topics in facts.forbidden.values())


def _growth(rate: Arriving) -> PlanWarning:
    if rate.per_minute is None:
        return PlanWarning(
            "warn", "How fast the lag will grow is unknown", "The rates of these topics are not known yet."
        )
    per_minute = round(rate.per_minute)
    if not per_minute:
        return PlanWarning("info", "Nothing is written there at present", "So the lag would stay as it is.")
    least = "at least " if rate.is_lower_bound else ""
    return PlanWarning(
        "warn",
        f"The lag will grow by {least}{counted(per_minute, 'message')} a minute",
        f"That is {round(rate.per_minute * 60):,} in an hour, at the present rate of the producers.",
    )


def _retention(kept_ms: int | None) -> PlanWarning:
    if kept_ms is None:
        return PlanWarning(
            "warn",
            "How long unread messages are kept is unknown",
            "The age of the oldest, or fileReservedTime of a broker, is not known.",
        )
    text = "Then a broker may delete them unread (fileReservedTime); a disk that fills deletes sooner."
    title = f"Retention reaches the oldest unread message in about {duration(kept_ms)}"
    return PlanWarning("danger" if kept_ms < SOON_MS else "info", title, text)
