"""The report of one group: findings, figures and plots over a day, a week or four."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.access import rules as access_rules
from console.access.models import Verb
from console.cluster.admission import admit
from console.cluster.models import Cluster
from console.lag.models import GroupRow, TopicRow
from console.report import selectors
from console.report.delivery import schedules
from console.report.forms import SloForm
from console.report.models import LagRow
from console.report.pages import group_plots, group_report, retention_room, usual_week
from console.text import Duration, Text
from spark.lag.local_time import DAY_MS, HOUR_MS, hour_of_week, local

# Word in the address → (word on the page, days). Four whole weeks, so that weekdays weigh the same.
SPANS = {
    key: (Text("%(span)s", span=Duration(days * DAY_MS)), days)
    for key, days in (("1d", 1), ("", 7), ("28d", 28))
}
DRAWN_HOURS_MIN = 24
# What drains sooner is gone before it is read about.
FORECAST_MS_MIN = 60_000
SLO_VERSIONS_SHOWN = 10
LATENCY_DAYS_MAX = 7  # the distribution is computed from samples, not from rows


@require_safe
def group(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """Show the report of a group."""
    return page(request, admit(request, cluster, name=group), group)


def page(
    request: HttpRequest, here: Cluster, group: str, form: SloForm | None = None, status: int = 200
) -> HttpResponse:
    """Render the page, with the errors of a refused promise."""
    now_ms = _now_ms()
    promise = schedules.slo_of(here.name, group)
    zone = selectors.zone_of(here.name, "lag_day")
    span = request.GET.get("span", "")
    span = span if span in SPANS else ""
    to_ms = _end_ms(here, group, now_ms)
    from_ms = to_ms - SPANS[span][1] * DAY_MS
    hours = group_report.hours_of(here.name, group, from_ms, to_ms)
    row = GroupRow.objects.filter(cluster=here.name, group=group).first()
    if not hours.seen and row is None and not LagRow.objects.filter(cluster=here.name, group=group).exists():
        raise Http404(
            Text(
                "There is neither a group %(group)s on %(cluster)s nor a report about one.",
                group=group,
                cluster=here.name,
            )
        )
    budget = group_report.budget_of(hours, promise.target)
    episodes = group_report.episodes_of(here.name, group, from_ms, to_ms)
    runways = group_report.runways_of(here.name, group)
    queues = group_report.queue_heat(here.name, group, from_ms, to_ms)
    slo_ms = hours.slo_ms or promise.slo_ms
    plots = _plots(
        hours, budget, queues, runways, zone, group_plots.rows_of(here.name, group, from_ms, to_ms)
    )
    context = {
        "cluster": here,
        "group": group,
        "exists": row is not None,
        "span": span,
        "spans": [(key, word) for key, (word, _) in SPANS.items()],
        "hours": hours,
        "slo_ms": slo_ms,
        "from_ms": from_ms,
        "to_ms": min(to_ms, now_ms),
        "budget": budget,
        "breach_ms": _sum(hours.breach_ms),
        "sentences": group_report.sentences(hours, budget, episodes, zone),
        "report_zone": zone,
        "episodes": episodes,
        "runways": [_runway(here.name, each) for each in runways],
        "usual": usual_week.usual_drain(here.name, group, runways) if _waits(runways) else None,
        "queues": queues,
        "queue_days": settings.REPORT_QUEUE_DAYS,
        "plots": plots,
        "left_out": _left_out(plots, runways),
        "room_url": _room_url(here.name, group, from_ms, min(to_ms, now_ms), hours.first_seen_ms),
        "latency_url": _latency_url(here.name, group, from_ms, min(to_ms, now_ms), slo_ms),
        "own_slo_ms": promise.slo_ms,
        "slo_versions": schedules.slo_versions(here.name, group)[:SLO_VERSIONS_SHOWN],
        "installation_slo": (settings.LAG_SLO_MS, settings.LAG_SLO_TARGET),
        "slo_form": form
        or SloForm(
            initial={"seconds": promise.slo_ms // 1_000, "target_pct": round(100 * promise.target, 5)}
        ),
        "may_configure": access_rules.may(request.user, Verb.CONFIGURE, here.name, group),
        "now_ms": now_ms,
    }
    return render(request, "report/group_report.html", context, status=status)


def _end_ms(here: Cluster, group: str, now_ms: int) -> int:
    """Return where the page ends: the running hour is in it once it has a row."""
    if here.generated_to_ms is not None:
        return here.generated_to_ms
    hour_ms = now_ms - now_ms % HOUR_MS
    return hour_ms + HOUR_MS * selectors.group_hours(here.name, group, hour_ms, hour_ms + HOUR_MS).exists()


def _waits(runways: Sequence[LagRow]) -> bool:
    """Return whether something waits whose drain is worth a forecast."""
    return any(row.lag_last and (row.drain_ms is None or row.drain_ms >= FORECAST_MS_MIN) for row in runways)


def _left_out(plots: Plots, runways: Sequence[LagRow]) -> list[Text]:
    """Return the parts that have no data, and why, for one line instead of empty cards."""
    found = []
    if plots.week is None:
        found.append(Text("time lag by hour of week: needs a day of history"))
    if not _waits(runways):
        found.append(Text("drain forecast: no backlog of more than a minute at the end of the last hour"))
    if plots.phase is None:
        found.append(Text("catch-up speed: no messages waited"))
    if plots.ways is None:
        found.append(Text("retries and dead letters: the group’s retry topic received no message"))
    return found


@dataclass(frozen=True, slots=True)
class HourLines:
    times: list[int]
    p50_ms: list[int | None]
    p95_ms: list[int | None]
    max_ms: list[int | None]
    slo_ms: int | None


@dataclass(frozen=True, slots=True)
class BudgetLines:
    times: list[int]
    left_pct: list[float | None]
    even_pct: list[float]


@dataclass(frozen=True, slots=True)
class Week:
    """The hours by hour of the week; `minute` is where an hour of UTC begins in the report's zone."""

    hours_of_week: list[int]
    minute: int
    p95_ms: list[int | None]


@dataclass(frozen=True, slots=True)
class QueueMap:
    rows: list[str]
    times: list[int]
    values: list[list[int | None]]


@dataclass(frozen=True, slots=True)
class Drain:
    """The forecast for the topic that takes longest; `hi_ms` is None if it may never drain."""

    topic: str
    at_ms: int
    lag: int
    drain_ms: int
    lo_ms: int
    hi_ms: int | None


@dataclass(frozen=True, slots=True)
class Plots:
    """The data of each canvas; None if there is nothing to draw."""

    hours: HourLines
    budget: BudgetLines
    flow: group_report.Flow
    week: Week | None
    queues: QueueMap | None
    drain: Drain | None
    phase: group_plots.Phase | None
    skew: group_plots.Skew | None
    ways: group_plots.Ways | None


def _plots(
    hours: group_report.Hours,
    budget: group_report.Budget,
    queues: group_report.QueueHeat,
    runways: Sequence[LagRow],
    zone: str,
    rows: Sequence[group_plots.Row],
) -> Plots:
    """Return the data of the plots; time before the first observed hour is not drawn, except for the last day."""
    count = len(hours.times)
    first = count if hours.first_seen is None else hours.first_seen
    drawn = slice(max(0, min(count - DRAWN_HOURS_MIN, first)), None)
    times = hours.times[drawn]
    hours_of_week = [hour_of_week(at_ms, zone) for at_ms in hours.times]
    # Hours of UTC begin at half an hour of some zones.
    minute = local(hours.times[-1], zone).minute
    values = [values[drawn] for values in queues.values]
    return Plots(
        hours=HourLines(times, hours.p50_ms[drawn], hours.p95_ms[drawn], hours.max_ms[drawn], hours.slo_ms),
        budget=BudgetLines(hours.times, budget.left_pct, budget.even_pct),
        flow=group_report.flow_of(hours, drawn),
        week=Week(hours_of_week, minute, hours.p95_ms) if hours.seen >= DRAWN_HOURS_MIN else None,
        queues=QueueMap(queues.rows, queues.times[drawn], values) if queues.rows else None,
        drain=_drain(runways) if _waits(runways) else None,
        phase=group_plots.phase(rows),
        skew=group_plots.skew(rows),
        ways=group_plots.ways(rows),
    )


def _drain(runways: Sequence[LagRow]) -> Drain | None:
    found = [
        Drain(
            row.topic,
            min(row.window_end_ms, row.generated_at_ms),
            row.lag_last,
            row.drain_ms,
            row.drain_lo_ms,
            row.drain_hi_ms,
        )
        for row in runways
        if row.lag_last and row.drain_ms and row.drain_lo_ms is not None
    ]
    return max(found, key=lambda drain: drain.drain_ms, default=None)


def _sum(values: list[int | None]) -> int | None:
    """Return the sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class Runway(NamedTuple):
    """A topic's newest hour, the age of the oldest message kept, and the time lag's share of that age."""

    row: LagRow
    retained_ms: int | None
    share: float | None


def _runway(cluster: str, row: LagRow) -> Runway:
    kept = TopicRow.objects.filter(cluster=cluster, topic=row.topic).values_list("retained_ms", flat=True)
    retained_ms = kept.first()
    if not retained_ms or row.time_lag_last_ms is None:
        return Runway(row, retained_ms, None)
    return Runway(row, retained_ms, row.time_lag_last_ms / retained_ms)


def _latency_url(cluster: str, group: str, from_ms: int, to_ms: int, slo_ms: int) -> str:
    start_ms = max(from_ms, to_ms - LATENCY_DAYS_MAX * DAY_MS)
    url = reverse("api-group-latency-heat", args=[cluster, group])
    return f"{url}?from_ms={start_ms}&to_ms={to_ms}&slo_ms={slo_ms}"


def _room_url(cluster: str, group: str, from_ms: int, to_ms: int, first_ms: int | None) -> str:
    """Return the address of the plot over the hours that the other plots draw."""
    start_ms = max(from_ms, to_ms - retention_room.SPAN_MS_MAX)
    if first_ms is not None:
        start_ms = max(start_ms, min(first_ms, to_ms - DAY_MS))
    return f"{reverse('api-group-retention-room', args=[cluster, group])}?from_ms={start_ms}&to_ms={to_ms}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
