"""Render marks as sentences in the reader's language; only pages call it, when they are rendered."""

from __future__ import annotations

from django.utils.translation import gettext, ngettext

from console.lag.models import LagEvent
from console.lag.past.marks import SILENT, Mark, Who

Kind = LagEvent.Kind
OFFSETS, LOST, QUEUES, MEMBERS, BROKER = "R", "L", "Q", "M", "B"
LETTERS = {
    Kind.REWIND: OFFSETS,
    Kind.SKIPPED: OFFSETS,
    Kind.LOST: LOST,
    Kind.RECREATED: QUEUES,
    Kind.HEAD_REGRESSION: QUEUES,
    Kind.MEMBERS: MEMBERS,
    Kind.BROKER_RESTART: BROKER,
    SILENT: BROKER,
}


def words(mark: Mark) -> str:
    """Return one sentence without its time."""
    return _members(mark) if mark.kind == Kind.MEMBERS else _other(mark)


def _other(mark: Mark) -> str:
    places = {
        "topic": mark.topic,
        "broker": mark.broker_name,
        "messages": f"{mark.messages:,}",
        "by": mark.cause.local() or gettext("outside this console"),
        "reason": mark.cause.local(),
    }
    if mark.kind == SILENT and mark.to_ms is None:
        return gettext("%(broker)s does not answer: %(reason)s") % places
    return _SENTENCES[mark.kind]() % places


# Called when a page is rendered: then the reader's language is known.
_SENTENCES = {
    Kind.REWIND: lambda: gettext("offsets of %(topic)s set back by %(messages)s messages, %(by)s"),
    Kind.SKIPPED: lambda: gettext("%(messages)s messages of %(topic)s skipped, %(by)s"),
    Kind.LOST: lambda: gettext("%(messages)s unread messages of %(topic)s deleted by retention"),
    Kind.RECREATED: lambda: gettext("%(topic)s deleted and created again"),
    Kind.HEAD_REGRESSION: lambda: gettext("%(broker)s lost the last %(messages)s messages of %(topic)s"),
    Kind.BROKER_RESTART: lambda: gettext("%(broker)s restarted"),
    SILENT: lambda: gettext("%(broker)s did not answer: %(reason)s"),
}


def _members(mark: Mark) -> str:
    parts = []
    if mark.restarted:
        parts.append(
            _named(
                mark.restarted,
                ngettext("%(count)s client restarted", "%(count)s clients restarted", mark.restarted.count),
            )
        )
    if mark.joined:
        parts.append(
            _named(
                mark.joined,
                ngettext("%(count)s client joined", "%(count)s clients joined", mark.joined.count),
            )
        )
    if mark.left:
        parts.append(
            _named(mark.left, ngettext("%(count)s client left", "%(count)s clients left", mark.left.count))
        )
    if mark.clients_before != mark.clients or not parts:
        parts.append(
            gettext("%(before)s → %(after)s clients") % {"before": mark.clients_before, "after": mark.clients}
        )
    return gettext("; ").join(parts)


def _named(who: Who, counted: str) -> str:
    names = ", ".join(who.names)
    more = "" if len(who.names) == who.count else ", …"
    return f"{counted % {'count': who.count}} ({names}{more})"
