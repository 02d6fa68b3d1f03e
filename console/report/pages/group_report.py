"""One group's past as a page: findings from its report rows, and the series of its plots.

Nothing is computed from samples here: hours come from `LagRow` (job lag_hour) and `QueueRows`, episodes from
`ReportRow`. An hour without a row is a gap (None), never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from django.db.models import Max

from console.report import selectors
from console.report.kept_rows import queue_rows
from console.report.kept_rows.queue_rows import Gap, QueueRows
from console.report.models import EPISODE_STATUS, LagRow, ReportRow
from spark.lag.local_time import DAY_MS, HOUR_MS, UTC, hour_of_week

QUEUES_SHOWN = 40  # of the queue heat map: the worst ones
EPISODES_SHOWN = 50
SENTENCES_MAX = 4
# A daily tide is reported only if an hour of the day stands out on most of the observed days.
TIDE_DAYS_MIN, TIDE_FACTOR = 3, 3


@dataclass(frozen=True, slots=True)
class Hours:
    """A group's hours in [from_ms, to_ms), one entry per UTC hour; None: not observed. Times in milliseconds."""

    times: list[int]
    p50_ms: list[int | None]
    p95_ms: list[int | None]
    max_ms: list[int | None]
    # Time in breach and time watched of the topic that was worst in that hour.
    breach_ms: list[int | None]
    watched_ms: list[int | None]
    # The promised share of time by which each hour is judged.
    targets: list[float | None]
    slo_ms: int | None
    coverage_pct: float | None
    max_gap_ms: int | None
    interval_ms: int | None
    # Sums over the topics; `ends` is when each hour's figures end, `lag_last` what was left then.
    produced_by_hour: list[int | None]
    lag_last: list[int | None]
    ends: list[int]
    consumed: int
    is_censored: bool
    is_partial: bool

    @property
    def produced(self) -> int:
        return sum(value for value in self.produced_by_hour if value is not None)

    @property
    def first_seen(self) -> int | None:
        """Return the index of the first observed hour."""
        return next((place for place, value in enumerate(self.max_ms) if value is not None), None)

    @property
    def unseen(self) -> int:
        """Return how many hours between the first and the last observed one were not observed."""
        seen = [place for place, value in enumerate(self.max_ms) if value is not None]
        return seen[-1] - seen[0] + 1 - len(seen) if seen else 0

    @property
    def is_part(self) -> bool:
        """Return whether some time between the first and the last observed hour was not observed."""
        return bool(self.unseen) or (self.coverage_pct is not None and self.coverage_pct < 100)

    @property
    def first_seen_ms(self) -> int | None:
        return None if self.first_seen is None else self.times[self.first_seen]

    @property
    def seen(self) -> int:
        return sum(value is not None for value in self.max_ms)


def hours_of(cluster: str, group: str, from_ms: int, to_ms: int) -> Hours:
    """Return the worst topic's figures of each hour (time lag is a maximum) and the sums of all."""
    rows = selectors.group_hours(cluster, group, from_ms, to_ms)
    times = list(range(from_ms, to_ms, HOUR_MS))
    place = {time_ms: number for number, time_ms in enumerate(times)}
    names = ("time_lag_p50_ms", "time_lag_p95_ms", "time_lag_max_ms", "breach_ms", "watched_ms")
    columns: dict[str, list[int | None]] = {name: [None] * len(times) for name in names}
    targets: list[float | None] = [None] * len(times)
    found = list(rows)
    produced, left, ends = _added(found, place)
    for row in found:
        number = place[row.window_start_ms]
        targets[number] = row.slo_target
        for name, values in columns.items():
            value, known = getattr(row, name), values[number]
            if value is not None and (known is None or value > known):
                values[number] = value
    return Hours(
        times,
        columns["time_lag_p50_ms"],
        columns["time_lag_p95_ms"],
        columns["time_lag_max_ms"],
        columns["breach_ms"],
        columns["watched_ms"],
        targets,
        slo_ms=max((row.slo_ms for row in found), default=None),
        coverage_pct=_coverage(found),
        max_gap_ms=max((row.max_gap_ms for row in found), default=None),
        interval_ms=max((row.interval_ms for row in found), default=None),
        produced_by_hour=produced,
        lag_last=left,
        ends=ends,
        consumed=sum(row.consumed for row in found),
        is_censored=any(row.is_censored for row in found),
        is_partial=any(row.is_partial for row in found),
    )


def _added(
    rows: Sequence[LagRow], place: dict[int, int]
) -> tuple[list[int | None], list[int | None], list[int]]:
    """Return (produced, lag at the end, when that was) of each hour, summed over the topics.

    The lag of an hour is unknown if that of one of its topics is.
    """
    produced: list[int | None] = [None] * len(place)
    left: list[int | None] = [None] * len(place)
    ends = [start_ms + HOUR_MS for start_ms in place]
    unknown = set()
    for row in rows:
        number = place[row.window_start_ms]
        produced[number] = (produced[number] or 0) + row.produced
        left[number] = (left[number] or 0) + (row.lag_last or 0)
        ends[number] = min(ends[number], row.window_end_ms)
        if row.lag_last is None:
            unknown.add(number)
    return produced, [None if number in unknown else value for number, value in enumerate(left)], ends


@dataclass(frozen=True, slots=True)
class Flow:
    """Messages since the window began, by hour, for `Tide.flow`; None if unobserved.

    Committed is produced minus what was left, so the height between the lines is exactly the lag.
    """

    times: list[int]
    produced: list[int | None]
    committed: list[int | None]
    pulled: list[None]
    stored_from: list[None]


def flow_of(hours: Hours, drawn: slice = slice(None)) -> Flow:
    """Return the hourly cumulative flow of the drawn hours."""
    total = 0
    produced: list[int | None] = []
    committed: list[int | None] = []
    for came, left in zip(hours.produced_by_hour, hours.lag_last, strict=True):
        total += came or 0
        produced.append(None if came is None else total)
        committed.append(None if came is None or left is None else total - left)
    nothing = [None] * len(hours.times[drawn])
    return Flow(hours.ends[drawn], produced[drawn], committed[drawn], pulled=nothing, stored_from=nothing)


def _coverage(rows: Iterable[LagRow]) -> float | None:
    """Return the share of the time that was observed, from the first to the last hour with a row.

    Hours without a row between them count as not observed.
    """
    worst: dict[int, float] = {}
    for row in rows:
        worst[row.window_start_ms] = min(worst.get(row.window_start_ms, 100.0), row.coverage_pct)
    if not worst:
        return None
    return round(sum(worst.values()) / ((max(worst) - min(worst)) // HOUR_MS + 1), 1)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of the error budget of [from, to) is left, in per cent, after each hour; None until one was observed.

    The budget is the time in which some queue may be late: (1 - target) of each hour, by the promise of that hour. It
    can be overspent.
    """

    left_pct: list[float | None]
    even_pct: list[float]
    target: float

    @property
    def now_pct(self) -> float | None:
        return next((left for left in reversed(self.left_pct) if left is not None), None)

    @property
    def over_pct(self) -> float | None:
        """By how much it is overspent, None while it is not."""
        return -self.now_pct if self.now_pct is not None and self.now_pct < 0 else None


def budget_of(hours: Hours, target: float) -> Budget:
    """Return the budget of the hours; those without a row are allowed what `target` leaves."""
    allowed = [(1 - (target if own is None else own)) * HOUR_MS for own in hours.targets]
    allowed_ms = sum(allowed)
    left: list[float | None] = []
    spent_ms = 0
    for breach_ms in hours.breach_ms:
        spent_ms += breach_ms or 0
        # An unobserved hour spends nothing.
        left.append(None if breach_ms is None else round(100 * (1 - spent_ms / allowed_ms), 2))
    even = [round(100 * (1 - upto_ms / allowed_ms), 2) for upto_ms in accumulate(allowed)]
    return Budget(left, even, target)


@dataclass(frozen=True, slots=True)
class QueueHeat:
    """The largest time lag of each queue in each hour: `values` by queue and hour; the worst ones of `total`.

    The hourly report keeps no row of a queue that had neither backlog nor traffic: there the value is None, too.
    `gaps`: hours whose files cannot be read.
    """

    rows: list[str]
    times: list[int]
    values: list[list[int | None]]
    total: int
    gaps: Sequence[Gap]


def queue_heat(cluster: str, group: str, from_ms: int, to_ms: int) -> QueueHeat:
    """Return the heat map of a group's queues in [from_ms, to_ms)."""
    hour_rows = QueueRows(cluster, "lag_hour", only_group=group, from_ms=from_ms, to_ms=to_ms)
    found = queue_rows.cells(hour_rows, "GROUP")
    worst: dict[tuple[str, str, int], int] = {}
    for cell in found:
        queue = cell.topic, cell.broker_name, cell.queue_id
        worst_ms = -1 if cell.time_lag_max_ms is None else cell.time_lag_max_ms
        worst[queue] = max(worst.get(queue, -1), worst_ms)
    shown = sorted(worst, key=lambda queue: (-worst[queue], queue))[:QUEUES_SHOWN]
    times = list(range(from_ms, to_ms, HOUR_MS))
    place = {time_ms: number for number, time_ms in enumerate(times)}
    values: dict[tuple[str, str, int], list[int | None]] = {queue: [None] * len(times) for queue in shown}
    for cell in found:
        own = values.get((cell.topic, cell.broker_name, cell.queue_id))
        if own is not None:
            own[place[cell.window_start_ms]] = cell.time_lag_max_ms
    several = len({topic for topic, _, _ in shown}) > 1
    names = [f"{broker} · {queue}" + (f" · {topic}" if several else "") for topic, broker, queue in shown]
    return QueueHeat(names, times, list(values.values()), total=len(worst), gaps=hour_rows.gaps)


def episodes_of(cluster: str, group: str, from_ms: int, to_ms: int) -> Sequence[ReportRow]:
    """Return the group's episodes that touch the window, longest first."""
    found = ReportRow.objects.filter(
        cluster=cluster,
        job="episodes",
        group=group,
        kind__in=list(EPISODE_STATUS),
        figures__end_ms__gte=from_ms,
        figures__start_ms__lt=to_ms,
    )
    return list(found.order_by("-figures__duration_ms", "-figures__start_ms")[:EPISODES_SHOWN])


def runways_of(cluster: str, group: str) -> Sequence[LagRow]:
    """Return the newest hour of each topic: how far retention is from the first unread message."""
    newest: dict[str, LagRow] = {}
    rows = selectors.group_hours(cluster, group)
    last = rows.aggregate(at=Max("window_start_ms"))["at"]
    if last is not None:
        for row in rows.filter(window_start_ms__gt=last - DAY_MS).order_by("window_start_ms"):
            newest[row.topic] = row
    return sorted(newest.values(), key=lambda row: row.topic)


@dataclass(frozen=True, slots=True)
class Tide:
    """An hour of the day that stands out: the lowest and highest p95 of its `days`, against the usual one."""

    hour: int
    at_ms: int
    low_ms: int
    high_ms: int
    usual_ms: int
    days: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """One finding of the window, worded by the page. ``status`` gives its shape and colour.

    ``kind``: that of an episode, or "overspent", "tide", "unseen" (hours without figures between others).
    """

    status: str
    kind: str
    episode: ReportRow | None = None
    share_pct: float | None = None
    tide: Tide | None = None
    unseen: int = 0


def sentences(hours: Hours, budget: Budget, episodes: Sequence[ReportRow], zone: str = UTC) -> list[Sentence]:
    """Return what stands out, worst first, at most SENTENCES_MAX; empty if the window was quiet."""
    found: list[Sentence] = []
    for episode in episodes[:2]:
        share_pct = _share_of_breach(episode, hours) if episode.kind == "breach" else None
        found.append(Sentence(EPISODE_STATUS[episode.kind], episode.kind, episode, share_pct))
    if budget.over_pct is not None:
        found.append(Sentence("STOPPED", "overspent"))
    tide = daily_tide(hours, zone)
    if tide is not None:
        found.append(Sentence("CATCHING_UP", "tide", tide=tide))
    if hours.unseen:
        found.append(Sentence("UNKNOWN", "unseen", unseen=hours.unseen))
    return found[:SENTENCES_MAX]


def _share_of_breach(episode: ReportRow, hours: Hours) -> float | None:
    total_ms = sum(breach for breach in hours.breach_ms if breach)
    return round(min(100.0, 100 * episode.value("duration_ms") / total_ms), 1) if total_ms else None


def daily_tide(hours: Hours, zone: str = UTC) -> Tide | None:
    """Return the hour of day whose p95 is at least TIDE_FACTOR times the usual on most days, or None."""
    by_hour: dict[int, list[int]] = {}
    for time_ms, p95_ms in zip(hours.times, hours.p95_ms, strict=True):
        if p95_ms is not None:
            by_hour.setdefault(hour_of_week(time_ms, zone) % 24, []).append(p95_ms)
    known = sorted(value for values in by_hour.values() for value in values)
    if not known:
        return None
    usual_ms = max(known[len(known) // 2], 1)
    high = {
        hour: values
        for hour, values in by_hour.items()
        if len(values) >= TIDE_DAYS_MIN
        and 2 * sum(value >= TIDE_FACTOR * usual_ms for value in values) > len(values)
    }
    if not high or len(high) > 6:
        # Most of the day is no tide.
        return None
    hour = max(high, key=lambda each: sum(high[each]) / len(high[each]))
    return Tide(
        hour,
        at_ms=max(at_ms for at_ms in hours.times if hour_of_week(at_ms, zone) % 24 == hour),
        low_ms=min(high[hour]),
        high_ms=max(high[hour]),
        usual_ms=usual_ms,
        days=len(high[hour]),
    )
