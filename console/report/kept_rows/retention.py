"""How long the rows of each report are kept; older ones are deleted after every run.

    lag_hour            REPORT_HOUR_DAYS; its files of single queues REPORT_QUEUE_DAYS
    lag_week, lag_trend REPORT_WEEK_DAYS
    episodes            EPISODE_DAYS, as the episodes themselves
    every other report  REPORT_DAY_DAYS

A row is kept for so many days after the start of its window and after it was computed, so that requested rows of an
old time can be read. Runs without rows are deleted REPORT_RUN_DAYS after their end, but never the newest of a report:
the page shows it.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import Exists, OuterRef

from console.report.models import OPEN_STATES, LagRow, QueueRowFile, ReportRow, ReportRun
from spark.lag.local_time import DAY_MS

# Deleted after one run; after a long stop or a shorter setting, several runs catch up.
WINDOWS_AT_ONCE = 200
RUNS_AT_ONCE = 500


def kept_days(job: str) -> int:
    """Return how many days the rows of a report are kept after the start of their window."""
    days = {
        "lag_hour": settings.REPORT_HOUR_DAYS,
        "lag_week": settings.REPORT_WEEK_DAYS,
        "lag_trend": settings.REPORT_WEEK_DAYS,
        "episodes": settings.EPISODE_DAYS,
    }
    return int(days.get(job, settings.REPORT_DAY_DAYS))


def drop_old(cluster: str, job: str, now_ms: int) -> int:
    """Delete rows of a report that are too old, the oldest windows first; return how many."""
    before_ms = now_ms - kept_days(job) * DAY_MS
    count = 0
    for model in (LagRow, ReportRow):
        old = model._default_manager.filter(
            cluster=cluster, job=job, window_start_ms__lt=before_ms, generated_at_ms__lt=before_ms
        )
        if job == "episodes":
            # An ongoing episode is as young as its end.
            old = old.filter(window_end_ms__lt=before_ms)
        starts = old.order_by("window_start_ms").values_list("window_start_ms", flat=True).distinct()
        for start_ms in list(starts[:WINDOWS_AT_ONCE]):
            count += old.filter(window_start_ms=start_ms).delete()[0]
    return count + _drop_runs(cluster, job, now_ms)


def _drop_runs(cluster: str, job: str, now_ms: int) -> int:
    runs = ReportRun.objects.filter(cluster=cluster, job=job).exclude(state__in=OPEN_STATES)
    newest = runs.order_by("-requested_at_ms").values_list("pk", flat=True)[:1]
    old = runs.filter(requested_at_ms__lt=now_ms - settings.REPORT_RUN_DAYS * DAY_MS, output="")
    for model in (LagRow, ReportRow, QueueRowFile):
        old = old.exclude(Exists(model._default_manager.filter(run=OuterRef("pk"))))
    found = list(old.exclude(pk__in=list(newest)).values_list("pk", flat=True)[:RUNS_AT_ONCE])
    return ReportRun.objects.filter(pk__in=found).delete()[0] if found else 0
