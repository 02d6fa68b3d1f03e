"""The plain twin of `console.lag.rows.group_rows` and `console.lag.rows.group_sums`: a group at a time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from console.brokers.mqadmin import dead_letter_topic, is_system_group
from console.lag.round.series import QueueKey
from console.lag.round.view import Members, RoundView
from console.lag.rows.group_rows import IN_FLIGHT_KEPT_MS
from console.lag.rows.group_sums import queue_name
from console.lag.rows.reasons import NOT_A_COUNT
from spark.lag.forecast import consumers_needed
from spark.lag.round.filter_ratio import wilson
from spark.lag.round.status import LagStatus, attention
from tests.support import plain_window
from tests.support.plain_group_figures import GroupFigures, QueueFigures, combine, skew
from tests.support.plain_queue_rows import RowDict, commit_key, drain_of, drain_row, trend


def group_rows(
    view: RoundView, queues: Mapping[QueueKey, RowDict], topics: Mapping[str, RowDict]
) -> dict[str, RowDict]:
    """Return the row of every group that has offsets, a configuration or a connected client."""
    by_group: dict[str, list[QueueKey]] = defaultdict(list)
    for key in queues:
        by_group[key.group].append(key)
    names = {*by_group, *(name for table in view.groups.values() for name in table)}
    names |= {name for name, members in view.members.items() if members.clients}
    return {name: _row(view, name, sorted(by_group.get(name, ())), queues, topics) for name in sorted(names)}


def _row(
    view: RoundView,
    group: str,
    keys: Sequence[QueueKey],
    queues: Mapping[QueueKey, RowDict],
    topics: Mapping[str, RowDict],
) -> RowDict:
    main = [key for key in keys if not key.topic.startswith("%RETRY%")]
    members = view.members.get(group, Members())
    before = view.previous_groups.get(group)
    previous = None if before is None else structs.asdict(before)
    figures = combine([_queue_figures(key, queues[key]) for key in main])
    partial = figures.partial or bool(view.blind)
    in_rate, out_rate = _rates(view, main)
    status = _group_status(figures, members, out_rate, bool(view.blind))
    rows = [queues[key] for key in main]
    retry_rows = [(key, queues[key]) for key in keys if key.topic.startswith("%RETRY%")]
    lag_known = figures.lag is not None and not partial
    return {
        "group": group,
        "status": status.value,
        "clients_told": None,
        "client_progress": [],
        "partial": partial,
        "model": members.model or (previous["model"] if previous else ""),
        "consume_mode": members.consume_mode or (previous["consume_mode"] if previous else ""),
        "clients": members.clients,
        "offline_since_ms": members.offline_since_ms,
        "topics": _topics(view, main, queues) or _subscribed(members),
        "lag": figures.lag,
        "lag_lower_bound": partial and figures.lag is not None,
        "offset_is_not_count": any(key.topic in view.offset_kinds for key in main),
        "time_lag_ms": figures.time_lag_ms,
        "time_lag_lower_bound": figures.time_lag_lower_bound or (partial and figures.time_lag_ms is not None),
        "in_rate": in_rate,
        "out_rate": out_rate,
        **drain_row(figures.drain),
        **headline(main, rows, previous, view.now_ms),
        "consumers_needed": None
        if status is LagStatus.OK
        else consumers_needed(members.clients, in_rate, out_rate, figures.lag, len(main)),
        "dlq_count": _dead_letters(view, group, topics),
        "dlq_in_rate": topics[dead_letter_topic(group)]["in_rate"]
        if dead_letter_topic(group) in topics
        else {0: 0.0}.get(_dead_letters(view, group, topics)),
        "retry_lag": _retry_lag([row for _, row in retry_rows], main),
        "retry_in_rate": topics.get(f"%RETRY%{group}", {"in_rate": None})["in_rate"],
        "retry_time_lag_ms": _largest(row["time_lag_ms"] for _, row in retry_rows),
        "coverage_pct": view.window.coverage_pct(),
        **_filtered(view, group, figures.lag),
        **trend(previous, figures.lag if lag_known else None, view.now_ms),
        "reason": _with_offset_kind(view, main, _reason(view, figures, status, members, rows)),
        "unknown_since_ms": _unknown_since(view, partial, previous),
        "since_ms": _since(status, figures, members, previous, view.now_ms),
        "known_lag": figures.lag if lag_known else (previous["known_lag"] if previous else None),
        "known_at_ms": view.now_ms if lag_known else (previous["known_at_ms"] if previous else None),
        "is_system": is_system_group(group),
        "attention": attention(status, lag=figures.lag),
        "worst_queue": figures.worst_queue,
        "read_at_ms": view.now_ms
        if not keys or set(keys) & set(view.series.groups.keys)
        else max(queues[key]["read_at_ms"] for key in keys),
    }


def _queue_figures(key: QueueKey, row: RowDict) -> QueueFigures:
    return QueueFigures(
        name=queue_name(key),
        status=LagStatus(row["status"]),
        lag=row["lag"],
        time_lag_ms=row["time_lag_ms"],
        time_lag_lower_bound=row["time_lag_lower_bound"],
        since_ms=row["since_ms"],
        reason=row["reason"],
        drain=drain_of(row),
    )


def headline(
    keys: Sequence[QueueKey], rows: Sequence[RowDict], previous: RowDict | None, now_ms: int
) -> RowDict:
    """Return what a group's queues say together beyond lag and time lag."""
    named = list(zip(keys, rows, strict=True))
    timed = [row for row in rows if row["time_lag_ms"] is not None]
    oldest = max(timed, key=lambda row: int(row["time_lag_ms"]), default=None)
    spread = skew(
        [row["lag"] for row in rows if row["lag"] is not None], [row["time_lag_ms"] for row in timed]
    )
    losing = [(key, row) for key, row in named if row["time_to_loss_ms"] is not None]
    first = min(losing, key=lambda one: int(one[1]["time_to_loss_ms"]), default=None)
    known = [row for row in rows if row["lag"]]
    return {
        **_in_flight(rows, previous, now_ms),
        "speed": None if oldest is None else oldest["speed"],
        "queueing_ms": _largest(row["queueing_ms"] for row in rows),
        "stall_ms": _largest(_stalled_ms(row, now_ms) for row in known),
        "lost": _sum_of(row["lost"] for row in rows),
        "time_to_loss_ms": None if first is None else first[1]["time_to_loss_ms"],
        "time_to_loss_never": bool(rows) and all(row["time_to_loss_never"] for row in rows),
        "time_to_loss_lower_bound": first is not None and first[1]["time_to_loss_lower_bound"],
        "time_to_loss_queue": "" if first is None else queue_name(first[0]),
        "skew_gini": None if spread is None else round(spread.gini, 3),
        "skew_max_over_mean": None if spread is None else round(spread.max_over_mean, 2),
        "effective_queues": None if spread is None else round(spread.effective_queues, 1),
        "drain_known_ms": _largest(row["drain_ms"] for row in rows if row["status"] not in UNJUDGED),
    }


# OK: what waits is no backlog
UNJUDGED = frozenset({LagStatus.OK.value, LagStatus.UNKNOWN.value, LagStatus.NEVER_COMMITTED.value})


def _in_flight(rows: Sequence[RowDict], previous: RowDict | None, now_ms: int) -> RowDict:
    """Return messages in flight: of this round where every pulled offset was read, else the last known, with its
    age, for a few minutes.
    """
    names = ("in_flight", "available")
    read = [row for row in rows if row["lag"] is not None]
    if read and all(row["in_flight"] is not None for row in read):
        return {**{name: sum(row[name] for row in read) for name in names}, "in_flight_at_ms": now_ms}
    if previous is not None and now_ms - (previous["in_flight_at_ms"] or 0) <= IN_FLIGHT_KEPT_MS:
        return {name: previous[name] for name in (*names, "in_flight_at_ms")}
    return {"in_flight": None, "available": None, "in_flight_at_ms": None}


def _stalled_ms(row: RowDict, now_ms: int) -> int | None:
    """Return how long a queue with messages has made no progress, null where no progress was ever seen or needed."""
    if row["last_commit_ms"] is not None:
        return now_ms - int(row["last_commit_ms"])
    return now_ms - int(row["since_ms"]) if row["status"] in STANDING else None


STANDING = frozenset({LagStatus.STALLED.value, LagStatus.STOPPED.value, LagStatus.OFFLINE.value})


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _sum_of(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _group_status(
    figures: GroupFigures, members: Members, out_rate: float | None, is_blind: bool
) -> LagStatus:
    """A group without clients is offline even while nothing waits. While messages wait, no client was seen to
    read and no sweep has found out about members, it may be well or offline: that is unknown, and its lag is not.
    """
    if figures.status.value in ("OK", "UNKNOWN") and members.clients == 0:
        return LagStatus.OFFLINE
    fine = ("REWOUND", "SKIPPED", "CATCHING_UP", "NEVER_COMMITTED", "OK")
    if is_blind and figures.status.value in fine:
        return LagStatus.UNKNOWN
    if figures.status is LagStatus.OK and members.clients is None and figures.lag and not out_rate:
        return LagStatus.UNKNOWN
    return figures.status


def _since(
    status: LagStatus, figures: GroupFigures, members: Members, previous: RowDict | None, now_ms: int
) -> int:
    if previous is not None and previous["status"] == status.value:
        kept: int = previous["since_ms"]
        return kept
    if status is LagStatus.OFFLINE and members.offline_since_ms is not None:
        return members.offline_since_ms
    return figures.since_ms or now_ms


def _rates(view: RoundView, keys: Iterable[QueueKey]) -> tuple[float | None, float | None]:
    """Return messages per second in and out over the queues that were read; null when none has a rate."""
    produced, consumed = [], []
    for key in keys:
        series = commit_key(view, key)
        if series is not None:
            produced.append(plain_window.produce_rate(view.window, series.head))
            if plain_window.state(view.window, series) is not None:
                consumed.append(plain_window.consume_rate(view.window, series))
    return _sum_known(produced), _sum_known(consumed)


def _sum_known(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return round(sum(known), 3) if known else None


def _with_offset_kind(view: RoundView, main: Sequence[QueueKey], reason: str) -> str:
    for key in main:
        if key.topic in view.offset_kinds:
            words = f"{key.topic}: {NOT_A_COUNT[view.offset_kinds[key.topic]]}"
            return f"{reason}; {words}" if reason else words
    return reason


def _topics(view: RoundView, keys: Sequence[QueueKey], queues: Mapping[QueueKey, RowDict]) -> list[RowDict]:
    by_topic: dict[str, list[QueueKey]] = defaultdict(list)
    for key in keys:
        by_topic[key.topic].append(key)
    found = []
    for topic, own in by_topic.items():
        figures = combine([_queue_figures(key, queues[key]) for key in own])
        in_rate, out_rate = _rates(view, own)
        losing = [queues[key]["time_to_loss_ms"] for key in own if queues[key]["time_to_loss_ms"] is not None]
        found.append(
            {
                "topic": topic,
                "queues": len(own),
                "lag": figures.lag,
                "lag_lower_bound": figures.lag_lower_bound,
                "never_committed_lag": sum(
                    queues[key]["max_offset"] - queues[key]["min_offset"]
                    for key in own
                    if queues[key]["status"] == LagStatus.NEVER_COMMITTED
                ),
                "offset_is_not_count": queues[own[0]]["offset_is_not_count"],
                "time_lag_ms": figures.time_lag_ms,
                "time_lag_lower_bound": figures.time_lag_lower_bound,
                "status": figures.status.value,
                "partial": figures.partial,
                "in_rate": in_rate,
                "out_rate": out_rate,
                "stall_ms": _largest(
                    _stalled_ms(queues[key], view.now_ms) for key in own if queues[key]["lag"]
                ),
                "time_to_loss_ms": min(losing, default=None),
                "time_to_loss_never": all(queues[key]["time_to_loss_never"] for key in own),
            }
        )
    return sorted(found, key=lambda one: str(one["topic"]))


def _retry_lag(rows: Sequence[RowDict], main: Sequence[QueueKey]) -> int | None:
    lags = [row["lag"] for row in rows]
    if any(lag is None for lag in lags):
        return None
    return sum(lags) if lags or main else None


def _reason(
    view: RoundView, figures: GroupFigures, status: LagStatus, members: Members, rows: Sequence[RowDict]
) -> str:
    """Return what is unknown and why, and what is wrong with the known part."""
    known = figures.reason
    if status is LagStatus.OFFLINE:
        known = f"no client is connected, {figures.lag or 0:,} messages wait"
    elif status is LagStatus.UNKNOWN and figures.status is LagStatus.OK:
        known = (
            "messages wait, nothing was consumed yet, and the clients are not reported yet: healthy or "
            "offline"
        )
    if view.blind and not figures.partial:
        names = ", ".join(sorted(view.blind))
        blind = f"{names} has not answered since this console started; its share is unknown"
        return f"{known}; {blind}" if known else blind
    if not figures.partial:
        return known
    unknown = [row for row in rows if row["status"] == LagStatus.UNKNOWN]
    words = f"{len(unknown)} of {len(rows)} queues unknown: {unknown[0]['reason']}"
    return f"{known}; {words}" if known and figures.status is not LagStatus.UNKNOWN else words


def _dead_letters(view: RoundView, group: str, topics: Mapping[str, RowDict]) -> int | None:
    row = topics.get(dead_letter_topic(group))
    if row is not None:
        count: int | None = row["messages"]
        return count
    return None if view.silences or not view.topics else 0


def _filtered(view: RoundView, group: str, lag: int | None) -> RowDict:
    names = (
        "filter_ratio",
        "filter_ratio_low",
        "filter_ratio_high",
        "filter_sampled",
        "filter_sampled_at_ms",
    )
    found: RowDict = dict.fromkeys((*names, "filtered_lag"))
    if group in view.filters:
        sample, at_ms = view.filters[group].sample, view.filters[group].at_ms
        ratio = wilson(sample)
        found |= {"filter_sampled": sample.scanned, "filter_sampled_at_ms": at_ms}
        if ratio is not None:
            values = (ratio.value, ratio.low, ratio.high)
            found |= {name: round(value, 4) for name, value in zip(names, values, strict=False)}
            found["filtered_lag"] = None if lag is None else round(lag * ratio.value)
    return found


def _subscribed(members: Members) -> list[RowDict]:
    """Return the topics of a group that has not committed anything yet."""
    unknown = dict.fromkeys(("in_rate", "out_rate", "stall_ms", "time_to_loss_ms", "time_to_loss_never"))
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
            "status": "NEVER_COMMITTED",
            "partial": False,
            **unknown,
        }
        for topic in sorted(members.topics)
    ]


def _unknown_since(view: RoundView, partial: bool, previous: RowDict | None) -> int | None:
    if not partial:
        return None
    if previous is not None and previous["unknown_since_ms"] is not None:
        kept: int = previous["unknown_since_ms"]
        return kept
    return min((silence.since_ms for silence in view.silences.values()), default=view.now_ms)
