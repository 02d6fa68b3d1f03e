"""Make the rows of groups: sums and worst cases of their queues, rates, forecast, trend. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from console.brokers.mqadmin import dead_letter_topic, is_system_group, retry_topic
from console.lag.round.figures import ClientSums, GroupFigures, GroupTopic, Summed, Sums, TopicFigures, Trend
from console.lag.round.view import Members, RoundView
from console.lag.rows import broadcast
from console.lag.rows.group_sums import NO_QUEUES, group_sums
from console.lag.rows.popped import POP_MODE, pop_figures
from console.lag.rows.queue_rows import QueueTable
from console.lag.rows.reasons import NOT_A_COUNT, about, joined, reason_text
from console.text import Names, Text
from spark.lag.forecast import consumers_needed
from spark.lag.local_time import MINUTE_MS
from spark.lag.round.filter_ratio import filtered_lag, wilson
from spark.lag.round.status import Evidence, LagStatus, Reason, attention, worst

NO_MEMBERS = Members()
# In place of a group that the round before did not have.
NEW = GroupFigures(group="", status="")
# 208 is read for some groups in each round, for all of them within 20 rounds; an older value is out of date.
IN_FLIGHT_KEPT_MS = 5 * MINUTE_MS


class InFlight(NamedTuple):
    """Hold messages that members have pulled and not confirmed, and those that none has pulled yet."""

    in_flight: int | None = None
    available: int | None = None
    in_flight_at_ms: int | None = None


class Filtered(NamedTuple):
    """Hold how much of the lag passes the group's filter, as last sampled; null: no filter or sample."""

    filter_ratio: float | None = None
    filter_ratio_low: float | None = None
    filter_ratio_high: float | None = None
    filter_sampled: int | None = None
    filter_sampled_at_ms: int | None = None
    filtered_lag: int | None = None


class Known(NamedTuple):
    """Hold what depends on whether the lag is known in full, and the round before."""

    unknown_since_ms: int | None
    known_lag: int | None
    known_at_ms: int | None
    trend: tuple[float | None, ...]
    trend_minute: int


def group_rows(
    view: RoundView, queues: QueueTable, topics: Mapping[str, TopicFigures]
) -> dict[str, GroupFigures]:
    """Return the row of every group that has offsets, a configuration or a connected client."""
    sums = group_sums(view, queues)
    names = {*sums, *(name for table in view.groups.values() for name in table)}
    names |= {name for name, members in view.members.items() if members.clients}
    coverage_pct = view.window.coverage_pct()
    return {name: _row(view, name, sums.get(name, NO_QUEUES), topics, coverage_pct) for name in sorted(names)}


def _row(
    view: RoundView, group: str, sums: Sums, topics: Mapping[str, TopicFigures], coverage_pct: float | None
) -> GroupFigures:
    members = view.members.get(group, NO_MEMBERS)
    before = view.previous_groups.get(group, NEW)
    partial = sums.partial or bool(view.blind)
    lag = sums.lag
    status = _group_status(sums, members, is_blind=bool(view.blind))
    dead_letters = topics.get(dead_letter_topic(group))
    row = GroupFigures(
        **{name: getattr(sums, name) for name in Summed.__struct_fields__},
        **_in_flight(sums, before, view.now_ms)._asdict(),
        **_filtered(view, group, lag)._asdict(),
        **_known(view, before, lag, partial=partial, at_ms=view.now_ms)._asdict(),
        group=group,
        status=status.value,
        partial=partial,
        model=members.model or before.model,
        consume_mode=members.consume_mode or before.consume_mode,
        clients=members.clients,
        offline_since_ms=members.offline_since_ms,
        topics=sums.topics or _subscribed(members),
        lag_lower_bound=partial and lag is not None,
        offset_is_not_count=sums.offset_is_not_count,
        time_lag_lower_bound=sums.time_lag_lower_bound or (partial and sums.time_lag_ms is not None),
        consumers_needed=None
        if status is LagStatus.OK
        else consumers_needed(members.clients, sums.in_rate, sums.out_rate, lag, sums.queues),
        dlq_count=_dead_letters(view, dead_letters),
        dlq_in_rate=_dead_letter_rate(view, dead_letters),
        retry_in_rate=_retry_in_rate(group, sums, topics),
        coverage_pct=coverage_pct,
        reason=joined(_reason(view, sums, status), _no_count(view, sums)),
        since_ms=_since(status, sums, members, before, view.now_ms),
        is_system=is_system_group(group),
        attention=attention(status, lag=lag),
        read_at_ms=view.now_ms if sums.read_at_ms is None else sums.read_at_ms,
    )
    if row.model == broadcast.BROADCASTING:
        return _broadcast(view, row, members, topics, before)
    if row.consume_mode == POP_MODE:
        return pop_figures(row, members.popped, taken_ms=sums.last_commit_ms, now_ms=view.now_ms)
    return row


def _broadcast(
    view: RoundView,
    row: GroupFigures,
    members: Members,
    topics: Mapping[str, TopicFigures],
    before: GroupFigures,
) -> GroupFigures:
    """Return a broadcasting group's row: its clients report what the brokers report of others."""
    found = broadcast.broadcast_figures(view, row.group, members, topics, before)
    row = msgspec.structs.replace(
        row, **{name: getattr(found, name) for name in ClientSums.__struct_fields__}
    )
    return msgspec.structs.replace(
        row,
        **InFlight()._asdict(),
        **_filtered(view, row.group, found.lag)._asdict(),
        **_known(view, before, found.lag, partial=found.partial, at_ms=found.read_at_ms)._asdict(),
        consumers_needed=None,
        offset_is_not_count=False,
        # What fails is dropped: such a group has no retry topic.
        retry_lag=0,
        since_ms=before.since_ms if before.status == found.status else found.since_ms,
    )


def _retry_in_rate(group: str, sums: Sums, topics: Mapping[str, TopicFigures]) -> float | None:
    names = {retry_topic(group), *sums.retry_topics}
    rates = [topics[name].in_rate for name in names if name in topics]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _in_flight(sums: Sums, before: GroupFigures, now_ms: int) -> InFlight:
    """Return messages in flight: of this round if every pulled offset was read, else the last known ones.

    They are kept for a few minutes, with their time.
    """
    if sums.in_flight is not None:
        return InFlight(sums.in_flight, sums.available, now_ms)
    if now_ms - (before.in_flight_at_ms or 0) <= IN_FLIGHT_KEPT_MS:
        return InFlight(before.in_flight, before.available, before.in_flight_at_ms)
    return InFlight()


def _filtered(view: RoundView, group: str, lag: int | None) -> Filtered:
    """Return how much of a lag passes the group's filter."""
    sampled = view.filters.get(group)
    if sampled is None:
        return Filtered()
    ratio = wilson(sampled.sample)
    expected = filtered_lag(lag, ratio)
    return Filtered(
        None if ratio is None else round(ratio.value, 4),
        None if ratio is None else round(ratio.low, 4),
        None if ratio is None else round(ratio.high, 4),
        sampled.sample.scanned,
        sampled.at_ms,
        None if expected is None else expected[0],
    )


def _known(view: RoundView, before: GroupFigures, lag: int | None, *, partial: bool, at_ms: int) -> Known:
    """Return the lag that was last known in full, its trend, and since when it is not; `at_ms`: as of then."""
    is_known = lag is not None and not partial
    trend = Trend(before.trend, before.trend_minute).after(lag if is_known else None, view.now_ms)
    unknown_since_ms = None
    if partial:
        silent = (silence.since_ms for silence in view.silences.values())
        unknown_since_ms = before.unknown_since_ms
        if unknown_since_ms is None:
            unknown_since_ms = min(silent, default=view.now_ms)
    return Known(
        unknown_since_ms,
        lag if is_known else before.known_lag,
        at_ms if is_known else before.known_at_ms,
        *trend,
    )


def _group_status(sums: Sums, members: Members, *, is_blind: bool) -> LagStatus:
    """Return a group's status; a group without clients is offline even while nothing waits.

    While messages wait, no client was seen to read and no sweep has read the members, the group may be well or offline:
    its status is unknown, its lag is not.
    """
    status = sums.status
    if status in (LagStatus.OK, LagStatus.UNKNOWN) and members.clients == 0:
        return LagStatus.OFFLINE
    # Any group may have queues on a broker that never answered.
    if is_blind:
        return worst((status, LagStatus.UNKNOWN))
    is_unwatched = members.clients is None and sums.lag and not sums.out_rate
    return LagStatus.UNKNOWN if status is LagStatus.OK and is_unwatched else status


def _since(status: LagStatus, sums: Sums, members: Members, before: GroupFigures, now_ms: int) -> int:
    if before.status == status.value:
        return before.since_ms
    if status is LagStatus.OFFLINE and members.offline_since_ms is not None:
        return members.offline_since_ms
    return sums.since_ms or now_ms


def _subscribed(members: Members) -> tuple[GroupTopic, ...]:
    """Return the topics of a group that has not committed anything yet."""
    return tuple(
        GroupTopic(topic=topic, queues=0, status=LagStatus.NEVER_COMMITTED.value)
        for topic in sorted(members.topics)
    )


def _dead_letters(view: RoundView, topic: TopicFigures | None) -> int | None:
    """Return how many dead letters are stored: 0 without a topic, null while a broker may have it unseen."""
    if topic is not None:
        return topic.messages
    return None if view.silences or not view.topics else 0


def _dead_letter_rate(view: RoundView, topic: TopicFigures | None) -> float | None:
    """Return dead letters a second; where it is certain that there is no topic for them, none arrive."""
    if topic is not None:
        return topic.in_rate
    return None if _dead_letters(view, None) is None else 0.0


def _reason(view: RoundView, sums: Sums, status: LagStatus) -> Text:
    """Return what is wrong with the known part, then what is unknown and why."""
    known = sums.reason
    if status is LagStatus.OFFLINE:
        known = reason_text(Reason(Evidence.NO_CLIENT, {"lag": sums.lag or 0}))
    elif status is LagStatus.UNKNOWN and sums.status is LagStatus.OK:
        known = Text(
            "messages wait, nothing was consumed yet, and the clients are not reported yet: healthy or "
            "offline"
        )
    if view.blind and not sums.partial:
        blind = Text(
            "%(names)s has not answered since this console started; its share is unknown",
            names=Names(sorted(view.blind)),
        )
        return joined(known, blind)
    if not sums.partial:
        return known
    unknown = Text(
        "%(number)s of %(total)s queues unknown: %(reason)s",
        number=sums.unknown,
        total=sums.queues,
        reason=sums.unknown_reason,
    )
    return unknown if sums.status is LagStatus.UNKNOWN else joined(known, unknown)


def _no_count(view: RoundView, sums: Sums) -> Text:
    """Return why the lag is not a count of messages, for the first such topic; empty when it is one."""
    if not sums.offset_is_not_count:
        return Text()
    topics = (one.topic for one in sums.topics)
    kinds = ((topic, view.offset_kinds.get(topic)) for topic in topics)
    return next((about(topic, NOT_A_COUNT[kind]) for topic, kind in kinds if kind), Text())
