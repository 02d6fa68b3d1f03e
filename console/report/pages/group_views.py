"""The report of one group: findings, figures and plots over a day, a week or four."""

from __future__ import annotations

import time
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
from console.report.pages import drawn, group_plots, group_report, latency_heat, retention_room, usual_week
from console.text import Duration, Text
from spark.lag.local_time import DAY_MS, HOUR_MS

# Word in the address → (word on the page, days). Four whole weeks, so that weekdays weigh the same.
SPANS = {
    key: (Text("%(span)s", span=Duration(days * DAY_MS)), days)
    for key, days in (("1d", 1), ("", 7), ("28d", 28))
}
SLO_VERSIONS_SHOWN = 10


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
        raise _no_such_group(here.name, group)
    budget = group_report.budget_of(hours, promise.target)
    episodes = group_report.episodes_of(here.name, group, from_ms, to_ms)
    runways = group_report.runways_of(here.name, group)
    queues = group_report.queue_heat(here.name, group, from_ms, to_ms)
    slo_ms = hours.slo_ms or promise.slo_ms
    observed = from_ms if hours.first_seen_ms is None else hours.first_seen_ms, min(to_ms, now_ms)
    rows = group_plots.rows_of(here.name, group, from_ms, to_ms)
    usual = usual_week.usual_drain(here.name, group, runways) if drawn.waits(runways) else None
    plots = drawn.plots_of(hours, budget, queues, runways, zone, rows)
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
        "usual": usual,
        "queues": queues,
        "queue_days": settings.REPORT_QUEUE_DAYS,
        "plots": plots,
        "not_shown": drawn.not_shown(
            plots, hours, rows, has_forecast=bool(plots.drain or usual), has_episodes=bool(episodes)
        ),
        "room_url": _past_url(
            "api-group-retention-room", here.name, group, observed, retention_room.SPAN_MS_MAX
        ),
        "latency_url": _past_url(
            "api-group-latency-heat", here.name, group, observed, latency_heat.SPAN_MS_MAX
        )
        + f"&slo_ms={slo_ms}",
        "own_slo_ms": promise.slo_ms,
        "slo_versions": schedules.slo_versions(here.name, group)[:SLO_VERSIONS_SHOWN],
        "installation_slo": (settings.LAG_SLO_MS, settings.LAG_SLO_TARGET),
        "slo_form": form
        or SloForm(
            initial={"seconds": promise.slo_ms // 1_000, "target_pct": round(100 * promise.target, 5)}
        ),
        "may_configure": access_rules.may(request.user, Verb.CONFIGURE, here.name, group),
        "now_ms": now_ms,
        "next_hour_ms": now_ms - now_ms % HOUR_MS + HOUR_MS,
    }
    return render(request, "report/group_report.html", context, status=status)


def _no_such_group(cluster: str, group: str) -> Http404:
    return Http404(
        Text(
            "There is neither a group %(group)s on %(cluster)s nor a report about one.",
            group=group,
            cluster=cluster,
        )
    )


def _end_ms(here: Cluster, group: str, now_ms: int) -> int:
    """Return where the page ends: the running hour is in it once it has a row."""
    if here.generated_to_ms is not None:
        return here.generated_to_ms
    hour_ms = now_ms - now_ms % HOUR_MS
    return hour_ms + HOUR_MS * selectors.group_hours(here.name, group, hour_ms, hour_ms + HOUR_MS).exists()


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


def _past_url(name: str, cluster: str, group: str, observed: tuple[int, int], span_ms_max: int) -> str:
    """Return the address of a plot that is computed from samples: of the time observed, its newest part."""
    first_ms, to_ms = observed
    return (
        f"{reverse(name, args=[cluster, group])}?from_ms={max(first_ms, to_ms - span_ms_max)}&to_ms={to_ms}"
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
