"""Make the rows of groups: sums and worst cases of their queues, rates, forecast, trend. Pure."""

from collections.abc import Mapping

from console.brokers.mqadmin import dead_letter_topic, is_system_group, retry_topic
from console.lag.round.view import Members, RoundView, RowDict
from console.lag.rows import broadcast
from console.lag.rows.group_sums import NO_QUEUES, SUMMED, group_sums
from console.lag.rows.popped import POP_MODE, pop_figures
from console.lag.rows.queue_rows import QueueTable
from console.lag.rows.reasons import NOT_A_COUNT, about, joined, reason_text
from console.text import Text
from spark.lag.forecast import consumers_needed
from spark.lag.local_time import MINUTE_MS
from spark.lag.round.filter_ratio import filtered_lag, wilson
from spark.lag.round.status import Evidence, LagStatus, Reason, attention, worst

TREND_POINTS = 60
NO_MEMBERS = Members()
NO_TOPIC: RowDict = {"in_rate": None}
# 208 is read for some groups in each round, for all of them within 20 rounds; an older value is out of date.
IN_FLIGHT_KEPT_MS = 5 * MINUTE_MS


def group_rows(view: RoundView, queues: QueueTable, topics: Mapping[str, RowDict]) -> dict[str, RowDict]:
    """Return the row of every group that has offsets, a configuration or a connected client."""
    sums = group_sums(view, queues)
    names = {*sums, *(name for table in view.groups.values() for name in table)}
    names |= {name for name, members in view.members.items() if members.clients}
    coverage = {"coverage_pct": view.window.coverage_pct()}
    return {name: _row(view, name, sums.get(name, NO_QUEUES), topics) | coverage for name in sorted(names)}


def _row(view: RoundView, group: str, sums: RowDict, topics: Mapping[str, RowDict]) -> RowDict:
    members = view.members.get(group, NO_MEMBERS)
    previous = view.previous_groups.get(group)
    partial = sums["partial"] or bool(view.blind)
    lag, time_lag_ms = sums["lag"], sums["time_lag_ms"]
    in_rate, out_rate = sums["in_rate"], sums["out_rate"]
    status = _group_status(sums, members, is_blind=bool(view.blind))
    lag_known = lag is not None and not partial
    row: RowDict = {
        **{name: sums[name] for name in SUMMED},
        **_in_flight(sums, previous, view.now_ms),
        "status": status.value,
        "partial": partial,
        "model": members.model or (previous["model"] if previous else ""),
        "consume_mode": members.consume_mode or (previous["consume_mode"] if previous else ""),
        "clients": members.clients,
        "offline_since_ms": members.offline_since_ms,
        "topics": sums["topics"] or _subscribed(members),
        "lag_lower_bound": partial and lag is not None,
        "offset_is_not_count": sums["offset_is_not_count"],
        "time_lag_lower_bound": sums["time_lag_lower_bound"] or (partial and time_lag_ms is not None),
        "consumers_needed": None
        if status is LagStatus.OK
        else consumers_needed(members.clients, in_rate, out_rate, lag, sums["queues"]),
        "dlq_count": _dead_letters(view, group, topics),
        "dlq_in_rate": topics.get(dead_letter_topic(group), NO_TOPIC)["in_rate"],
        "retry_in_rate": _retry_in_rate(group, sums, topics),
        **_filtered(view, group, lag),
        **trend(previous, lag if lag_known else None, view.now_ms),
        "reason": joined(_reason(view, sums, status), _no_count(view, sums)),
        "unknown_since_ms": _unknown_since(view, partial, previous),
        "since_ms": _since(status, sums, members, previous, view.now_ms),
        "known_lag": lag if lag_known else (previous["known_lag"] if previous else None),
        "known_at_ms": view.now_ms if lag_known else (previous["known_at_ms"] if previous else None),
        "is_system": is_system_group(group),
        "attention": attention(status, lag=lag),
        "read_at_ms": view.now_ms if sums["read_at_ms"] is None else sums["read_at_ms"],
        "clients_told": None,
        "client_progress": [],
    }
    if row["model"] == broadcast.BROADCASTING:
        return row | _broadcast(view, group, members, topics, previous)
    if row["consume_mode"] == POP_MODE:
        return row | pop_figures(row, members.popped, taken_ms=sums["last_commit_ms"], now_ms=view.now_ms)
    return row


def _broadcast(
    view: RoundView, group: str, members: Members, topics: Mapping[str, RowDict], previous: RowDict | None
) -> RowDict:
    """Return every column that a broadcasting group's clients report instead of the brokers."""
    found = broadcast.broadcast_figures(view, group, members, topics, previous)
    lag, status = found["lag"], LagStatus(found["status"])
    is_known = lag is not None and not found["partial"]
    return {
        **found,
        **dict.fromkeys(("in_flight", "in_flight_at_ms", "available", "consumers_needed")),
        "offset_is_not_count": False,
        # What fails is dropped: such a group has no retry topic.
        "retry_lag": 0,
        **_filtered(view, group, lag),
        **trend(previous, lag if is_known else None, view.now_ms),
        "unknown_since_ms": _unknown_since(view, found["partial"], previous),
        "since_ms": previous["since_ms"]
        if previous is not None and previous["status"] == status.value
        else found["since_ms"],
        "known_lag": lag if is_known else (previous["known_lag"] if previous else None),
        "known_at_ms": found["read_at_ms"] if is_known else (previous["known_at_ms"] if previous else None),
    }


def _retry_in_rate(group: str, sums: RowDict, topics: Mapping[str, RowDict]) -> float | None:
    names = {retry_topic(group), *sums["retry_topics"]}
    rates = [topics.get(name, NO_TOPIC)["in_rate"] for name in names]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _in_flight(sums: RowDict, previous: RowDict | None, now_ms: int) -> RowDict:
    """Return messages in flight: of this round if every pulled offset was read, else the last known ones.

    They are kept for a few minutes, with their time.
    """
    names = ("in_flight", "available")
    if sums["in_flight"] is not None:
        return {**{name: sums[name] for name in names}, "in_flight_at_ms": now_ms}
    if previous is not None and now_ms - (previous["in_flight_at_ms"] or 0) <= IN_FLIGHT_KEPT_MS:
        return {name: previous[name] for name in (*names, "in_flight_at_ms")}
    return {"in_flight": None, "available": None, "in_flight_at_ms": None}


def _filtered(view: RoundView, group: str, lag: int | None) -> RowDict:
    """Return how much of the lag passes the group's filter, as last sampled; null: no filter or sample."""
    sampled = view.filters.get(group)
    ratio = None if sampled is None else wilson(sampled.sample)
    expected = filtered_lag(lag, ratio)
    return {
        "filter_ratio": None if ratio is None else round(ratio.value, 4),
        "filter_ratio_low": None if ratio is None else round(ratio.low, 4),
        "filter_ratio_high": None if ratio is None else round(ratio.high, 4),
        "filter_sampled": None if sampled is None else sampled.sample.scanned,
        "filter_sampled_at_ms": None if sampled is None else sampled.at_ms,
        "filtered_lag": None if expected is None else expected[0],
    }


def _group_status(sums: RowDict, members: Members, *, is_blind: bool) -> LagStatus:
    """Return a group's status; a group without clients is offline even while nothing waits.

    While messages wait, no client was seen to read and no sweep has read the members, the group may be well or offline:
    its status is unknown, its lag is not.
    """
    status: LagStatus = sums["status"]
    if status in (LagStatus.OK, LagStatus.UNKNOWN) and members.clients == 0:
        return LagStatus.OFFLINE
    # Any group may have queues on a broker that never answered.
    if is_blind:
        return worst((status, LagStatus.UNKNOWN))
    is_unwatched = members.clients is None and sums["lag"] and not sums["out_rate"]
    return LagStatus.UNKNOWN if status is LagStatus.OK and is_unwatched else status


def _since(status: LagStatus, sums: RowDict, members: Members, previous: RowDict | None, now_ms: int) -> int:
    if previous is not None and previous["status"] == status.value:
        kept: int = previous["since_ms"]
        return kept
    if status is LagStatus.OFFLINE and members.offline_since_ms is not None:
        return members.offline_since_ms
    began: int = sums["since_ms"] or now_ms
    return began


def _subscribed(members: Members) -> list[RowDict]:
    """Return the topics of a group that has not committed anything yet."""
    return [
        {
            "topic": topic,
            "queues": 0,
            "lag": None,
            "lag_lower_bound": False,
            "never_committed_lag": 0,
            "offset_is_not_count": False,
            "time_lag_ms": None,
            "time_lag_lower_bound": False,
            "status": LagStatus.NEVER_COMMITTED.value,
            "partial": False,
        }
        for topic in sorted(members.topics)
    ]


def _dead_letters(view: RoundView, group: str, topics: Mapping[str, RowDict]) -> int | None:
    """Return how many dead letters are stored: 0 without a topic, null while a broker may have it unseen."""
    row = topics.get(dead_letter_topic(group))
    if row is not None:
        count: int | None = row["messages"]
        return count
    return None if view.silences or not view.topics else 0


def _reason(view: RoundView, sums: RowDict, status: LagStatus) -> Text:
    """Return what is unknown and why, and what is wrong with the known part."""
    known: Text = sums["reason"]
    if status is LagStatus.OFFLINE:
        known = reason_text(Reason(Evidence.NO_CLIENT, {"lag": sums["lag"] or 0}))
    elif status is LagStatus.UNKNOWN and sums["status"] is LagStatus.OK:
        known = Text(
            "messages wait, nothing was read yet, and who is connected has not been told: well or offline"
        )
    if view.blind and not sums["partial"]:
        blind = Text(
            "%(names)s has not answered since this console began to look; its share is unknown.",
            names=", ".join(sorted(view.blind)),
        )
        return Text.of_parts([blind, known])
    if not sums["partial"]:
        return known
    unknown = Text(
        "%(number)s of %(total)s queues unknown: %(reason)s",
        number=sums["unknown"],
        total=sums["queues"],
        reason=sums["unknown_reason"],
    )
    return unknown if sums["status"] is LagStatus.UNKNOWN else joined(unknown, known)


def _no_count(view: RoundView, sums: RowDict) -> Text:
    """Return why the lag is not a count of messages, for the first such topic; empty when it is one."""
    if not sums["offset_is_not_count"]:
        return Text()
    topics = (one["topic"] for one in sums["topics"])
    kinds = ((topic, view.offset_kinds.get(topic)) for topic in topics)
    return next((about(topic, NOT_A_COUNT[kind]) for topic, kind in kinds if kind), Text())


def _unknown_since(view: RoundView, partial: bool, previous: RowDict | None) -> int | None:
    if not partial:
        return None
    if previous is not None and previous["unknown_since_ms"] is not None:
        kept: int = previous["unknown_since_ms"]
        return kept
    return min((silence.since_ms for silence in view.silences.values()), default=view.now_ms)


def trend(previous: RowDict | None, value: float | None, now_ms: int) -> RowDict:
    """Return the points of the last hour, one a minute, the last for the current minute; gaps are null."""
    minute = now_ms // MINUTE_MS
    points = list(previous["trend"]) if previous is not None else []
    last = previous["trend_minute"] if previous is not None else minute
    missing = min(max(minute - last, 0), TREND_POINTS)
    if points and missing == 0:
        points[-1] = value
    else:
        points += [None] * (missing - 1) + [value]
    return {"trend": points[-TREND_POINTS:], "trend_minute": minute}
