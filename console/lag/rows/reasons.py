"""Explain the status of a queue, a topic or a group, as texts."""

from collections.abc import Callable, Mapping

from console.lag.round.offset_kind import BATCH, COMPACTION, LIGHT, STATIC
from console.text import Text
from console.text.value import Duration
from spark.lag.round.status import Evidence, Reason

Figures = Mapping[str, int]
# Offsets are written without separators.
EVIDENCE: Mapping[Evidence, Callable[[Figures], Text]] = {
    Evidence.BEYOND_END: lambda one: Text(
        "committed offset %(committed)s is beyond max offset %(high)s",
        committed=str(one["committed"]),
        high=str(one["high"]),
    ),
    Evidence.LOST: lambda one: Text(
        "%(number)s messages were deleted by retention before they were consumed", number=one["number"]
    ),
    Evidence.NO_CLIENT: lambda one: Text("no client is connected, %(lag)s messages wait", lag=one["lag"]),
    Evidence.NO_PROGRESS: lambda one: Text(
        "no progress for %(time)s while %(number)s messages wait",
        time=Duration(one["time_ms"]),
        number=one["number"],
    ),
    Evidence.TREND: lambda one: Text(
        "lag went from %(first)s to %(last)s in %(time)s",
        first=one["first"],
        last=one["last"],
        time=Duration(one["time_ms"]),
    ),
    Evidence.MOSTLY_FELL: lambda one: Text(
        "lag fell most of the time; it went from %(first)s to %(last)s in %(time)s",
        first=one["first"],
        last=one["last"],
        time=Duration(one["time_ms"]),
    ),
    Evidence.FALLS_UNSTEADILY: lambda one: Text(
        "lag does not fall steadily; it went from %(first)s to %(last)s in %(time)s",
        first=one["first"],
        last=one["last"],
        time=Duration(one["time_ms"]),
    ),
    Evidence.WENT_BACK: lambda one: Text(
        "went back from %(before)s to %(after)s", before=str(one["before"]), after=str(one["after"])
    ),
    Evidence.SET_BACK: lambda one: Text(
        "went back from %(before)s to %(after)s, nothing was confirmed since",
        before=str(one["before"]),
        after=str(one["after"]),
    ),
    Evidence.JUMPED_AHEAD: lambda one: Text("jumped ahead by %(number)s messages", number=one["number"]),
    Evidence.SET_AHEAD: lambda one: Text(
        "jumped ahead by %(number)s messages, nothing was confirmed since", number=one["number"]
    ),
}

# Why offsets of a topic do not count its messages, by its `round.offset_kind`.
NOT_A_COUNT = {
    COMPACTION: Text(
        "compaction keeps the newest message of each key: there are at most as many messages as offsets"
    ),
    BATCH: Text("its queues are kept in batches: there are at most as many messages to read as offsets"),
    STATIC: Text(
        "a static topic: its offsets leave gaps where a queue moved, so there are at most as many messages"
    ),
    LIGHT: Text("a light queue over other topics' messages: there are at most as many messages as offsets"),
}


def stood_since(reason: Reason | None, time_ms: int) -> Reason | None:
    """Return a standstill with the time it has lasted, which may be longer than the window that shows it."""
    if reason is None or reason.evidence is not Evidence.NO_PROGRESS:
        return reason
    return Reason(reason.evidence, {**reason.figures, "time_ms": max(time_ms, reason.figures["time_ms"])})


def reason_text(reason: Reason | None) -> Text:
    """Return the sentence for a judgement's evidence; empty without one."""
    if reason is None:
        return Text()
    return EVIDENCE[reason.evidence](reason.figures)


def about(subject: str, reason: Text) -> Text:
    """Return a reason with the name of its subject: a queue, a topic."""
    return Text("%(subject)s: %(reason)s", subject=subject, reason=reason)


def joined(*reasons: Text) -> Text:
    """Return reasons one after another."""
    known = [one for one in reasons if one]
    if len(known) < 2:
        return known[0] if known else Text()
    return Text("%(first)s; %(rest)s", first=known[0], rest=joined(*known[1:]))
