"""The rows of groups: sums and worst cases of their queues, rates, forecast, trend. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from console.lag.queue_rows import drain_columns, drain_of
from console.lag.round_view import Members, QueueKey, RoundView, RowDict
from console.mqadmin import dead_letter_topic, is_system_group, retry_topic
from spark.lag.filter_ratio import filtered_lag, wilson
from spark.lag.forecast import consumers_needed
from spark.lag.skew import skew
from spark.lag.snapshot import CommitKey
from spark.lag.status import GroupFigures, LagStatus, QueueFigures, attention, combine

MINUTE_MS = 60_000
TREND_POINTS = 60
NO_MEMBERS = Members()
NO_TOPIC: RowDict = {"in_rate": None}
# 208 is read for some groups in each round, for all of them within 20 rounds; older than this it says nothing
IN_FLIGHT_KEPT_MS = 5 * MINUTE_MS


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
    own_retry = retry_topic(group)
    main = [key for key in keys if key.topic != own_retry]
    members = view.members.get(group, NO_MEMBERS)
    previous = view.previous_groups.get(group)
    figures = combine([_queue_figures(key, queues[key]) for key in main])
    partial = figures.partial or bool(view.blind)
    in_rate, out_rate = _rates(view, main)
    status = _group_status(figures, members, out_rate)
    rows = [queues[key] for key in main]
    retry_rows = [(key, queues[key]) for key in keys if key.topic == own_retry]
    lag_known = figures.lag is not None and not partial
    return {
        "status": status.value,
        "partial": partial,
        "model": members.model or (previous["model"] if previous else ""),
        "consume_mode": members.consume_mode or (previous["consume_mode"] if previous else ""),
        "clients": members.clients,
        "offline_since_ms": members.offline_since_ms,
        "topics": _topics(main, queues) or _subscribed(members),
        "lag": figures.lag,
        "lag_lower_bound": partial and figures.lag is not None,
        "time_lag_ms": figures.time_lag_ms,
        "time_lag_lower_bound": figures.time_lag_lower_bound or (partial and figures.time_lag_ms is not None),
        "in_rate": in_rate,
        "out_rate": out_rate,
        **drain_columns(figures.drain),
        **headline(main, rows, previous, view.now_ms),
        "consumers_needed": None
        if status is LagStatus.OK
        else consumers_needed(members.clients, in_rate, out_rate, figures.lag, len(main)),
        "dlq_count": _dead_letters(view, group, topics),
        "dlq_in_rate": topics.get(dead_letter_topic(group), NO_TOPIC)["in_rate"],
        "retry_lag": _retry_lag([row for _, row in retry_rows], main),
        "retry_in_rate": topics.get(own_retry, NO_TOPIC)["in_rate"],
        "retry_time_lag_ms": _largest(row["time_lag_ms"] for _, row in retry_rows),
        "coverage_pct": view.window.coverage_pct(),
        **_filtered(view, group, figures.lag),
        **trend(previous, figures.lag if lag_known else None, view.now_ms),
        "reason": _reason(view, figures, status, members, rows),
        "unknown_since_ms": _unknown_since(view, partial, previous),
        "since_ms": _since(status, figures, members, previous, view.now_ms),
        "known_lag": figures.lag if lag_known else (previous["known_lag"] if previous else None),
        "known_at_ms": view.now_ms if lag_known else (previous["known_at_ms"] if previous else None),
        "is_system": is_system_group(group),
        "attention": attention(status, lag=figures.lag),
        "worst_queue": figures.worst_queue,
        "read_at_ms": view.now_ms if not keys else max(queues[key]["read_at_ms"] for key in keys),
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
    }


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


def _filtered(view: RoundView, group: str, lag: int | None) -> RowDict:
    """Return what of the lag the group's filter lets through, as last sampled; null: no filter, or not sampled."""
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


def queue_name(key: QueueKey) -> str:
    """Return a queue as reasons name it: "topic · broker · 3"."""
    return f"{key.topic} · {key.broker_name} · {key.queue_id}"


def _group_status(figures: GroupFigures, members: Members, out_rate: float | None) -> LagStatus:
    """A group without clients is offline even while nothing waits. While messages wait, nobody was seen to
    read and no sweep has told the members, it may be well or offline: that is unknown, and its lag is not.
    """
    if figures.status is not LagStatus.OK:
        return figures.status
    # A silent broker is the nearer reason: it is told by `partial` and must not be hidden by this one.
    if members.clients is None and figures.lag and not out_rate and not figures.partial:
        return LagStatus.UNKNOWN
    return LagStatus.OFFLINE if members.clients == 0 else LagStatus.OK


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
        series = view.commit_key(key)
        if series is not None:
            produced.append(view.window.produce_rate(series.head))
            consumed.append(view.window.consume_rate(CommitKey(*series)))
    return _sum_known(produced), _sum_known(consumed)


def _sum_known(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return round(sum(known), 3) if known else None


def _topics(keys: Sequence[QueueKey], queues: Mapping[QueueKey, RowDict]) -> list[RowDict]:
    by_topic: dict[str, list[QueueKey]] = defaultdict(list)
    for key in keys:
        by_topic[key.topic].append(key)
    found = []
    for topic, own in by_topic.items():
        figures = combine([_queue_figures(key, queues[key]) for key in own])
        found.append(
            {
                "topic": topic,
                "queues": len(own),
                "lag": figures.lag,
                "lag_lower_bound": figures.lag_lower_bound,
                "time_lag_ms": figures.time_lag_ms,
                "time_lag_lower_bound": figures.time_lag_lower_bound,
                "status": figures.status.value,
                "partial": figures.partial,
            }
        )
    return sorted(found, key=lambda one: str(one["topic"]))


def _subscribed(members: Members) -> list[RowDict]:
    """Topics of a group that has not committed anything yet."""
    return [
        {
            "topic": topic,
            "queues": 0,
            "lag": None,
            "lag_lower_bound": False,
            "time_lag_ms": None,
            "time_lag_lower_bound": False,
            "status": LagStatus.NEVER_COMMITTED.value,
            "partial": False,
        }
        for topic in sorted(members.topics)
    ]


def _dead_letters(view: RoundView, group: str, topics: Mapping[str, RowDict]) -> int | None:
    """Return how many dead letters are stored: 0 when no broker has the topic, null while a broker may have
    it unseen.
    """
    row = topics.get(dead_letter_topic(group))
    if row is not None:
        count: int | None = row["messages"]
        return count
    return None if view.silences or not view.topics else 0


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
        known = f"no client is connected, {figures.lag or 0} messages wait"
    elif status is LagStatus.UNKNOWN and figures.status is LagStatus.OK:
        known = "messages wait, nothing was read yet, and who is connected has not been told: well or offline"
    elif members.model == "BROADCASTING" and figures.lag is None:
        known = "broadcasting: each client keeps its own offsets, brokers do not know them"
    if view.blind and not figures.partial:
        names = ", ".join(sorted(view.blind))
        return f"{names} has not answered since this console began to look; its share is unknown. {known}".strip()
    if not figures.partial:
        return known
    unknown = [row for row in rows if row["status"] == LagStatus.UNKNOWN]
    words = f"{len(unknown)} of {len(rows)} queues unknown: {unknown[0]['reason']}"
    return f"{words}. {known}" if known and figures.status is not LagStatus.UNKNOWN else words


def _unknown_since(view: RoundView, partial: bool, previous: RowDict | None) -> int | None:
    if not partial:
        return None
    if previous is not None and previous["unknown_since_ms"] is not None:
        kept: int = previous["unknown_since_ms"]
        return kept
    return min((silence.since_ms for silence in view.silences.values()), default=view.now_ms)


def trend(previous: RowDict | None, value: float | None, now_ms: int) -> RowDict:
    """Return the points of the last hour, one a minute, the newest standing for the running minute; gaps are
    null.
    """
    minute = now_ms // MINUTE_MS
    points = list(previous["trend"]) if previous is not None else []
    last = previous["trend_minute"] if previous is not None else minute
    missing = min(max(minute - last, 0), TREND_POINTS)
    if points and missing == 0:
        points[-1] = value
    else:
        points += [None] * (missing - 1) + [value]
    return {"trend": points[-TREND_POINTS:], "trend_minute": minute}
