"""The episodes report: rows of the collector's episodes (`console.lag.episodes`). Nothing is computed.

An episode has one row, in the day it began, however long it lasts; a run takes over every episode that touches its
window, including those that began before it.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction
from django.db.models import Max, Min

from console.lag import episodes
from console.lag.models import Episode
from console.lag.past import marks
from console.lag.past.marks import Marks
from console.report.models import ReportRow, ReportRun, Stamp, known
from spark.lag.local_time import DAY_MS, period_end, period_start

JOB = "episodes"
EPISODES_MAX = 100_000  # of a run; 40 MB of rows
ROWS_AT_ONCE = 1_000
IDS_AT_ONCE = 200  # parameters of a statement


def replace_rows(run: ReportRun, stamp: Stamp, *, claim: Callable[[], None], now_ms: int) -> int:
    """Replace the rows of the episodes that touch a run's window; return how many."""
    own = ReportRow.objects.filter(cluster=run.cluster, job=JOB)
    inside = own.filter(window_start_ms__lt=run.to_ms, window_end_ms__gt=run.from_ms)
    # days of another zone reach beyond the window: their episodes get a row of this zone too
    reach = inside.aggregate(first=Min("window_start_ms"), last=Max("window_end_ms"))
    from_ms = min(run.from_ms, reach["first"] or run.from_ms)
    to_ms = max(run.to_ms, reach["last"] or run.to_ms)
    found = list(episodes.between(run.cluster, from_ms, to_ms)[:EPISODES_MAX])
    with transaction.atomic():
        claim()
        inside.delete()
        # what went on while no run took it over
        others = [one.id for one in found if not run.from_ms <= one.start_ms < run.to_ms]
        for first in range(0, len(others), IDS_AT_ONCE):
            own.filter(figures__id__in=others[first : first + IDS_AT_ONCE]).delete()
        for first in range(0, len(found), ROWS_AT_ONCE):
            part = found[first : first + ROWS_AT_ONCE]
            happened = marks.of_episodes(run.cluster, part)
            ReportRow.objects.bulk_create(
                _row(one, happened[one.id], stamp, run.zone, now_ms) for one in part
            )
    return len(found)


def _row(one: Episode, happened: Marks, stamp: Stamp, zone: str, now_ms: int) -> ReportRow:
    start_ms = period_start(one.start_ms, DAY_MS, zone)
    end_ms = period_end(one.end_ms - 1, DAY_MS, zone) if one.is_over else max(now_ms, one.end_ms)
    return ReportRow(
        **stamp._asdict(),
        grain="episode",
        cluster=one.cluster,
        kind=one.kind,
        group=one.group,
        topic=one.topic,
        window_start_ms=start_ms,
        window_end_ms=max(end_ms, start_ms + 1),
        figures=known(
            id=one.id,
            start_ms=one.start_ms,
            end_ms=one.end_ms,
            duration_ms=one.duration_ms,
            bad_ms=one.bad_ms,
            unknown_ms=one.unknown_ms,
            pauses=one.pauses,
            is_ongoing=not one.is_over,
            cause=one.cause,
            is_intentional=one.is_intentional,
            reset_by=one.reset_by or None,
            slo_ms=one.slo_ms,
            target=one.target,
            slo_from_ms=one.slo_from_ms,
            budget_burnt_pct=round(100 * one.budget_burnt, 4),
            clients=one.clients,
            peak_lag=one.peak_lag,
            peak_time_lag_ms=one.peak_time_lag_ms,
            worst_queue=one.worst_queue or None,
            forecast_at_ms=one.forecast_at_ms,
            forecast_ms=one.forecast_ms,
            forecast_lo_ms=one.forecast_low_ms,
            forecast_hi_ms=one.forecast_high_ms,
            drained_ms=one.recovered_ms,
            happened=[mark.as_json() for mark in happened.marks] or None,
            happened_lower_bound=happened.is_cut or None,
        ),
    )
