"""Rows of every report go in time, the newest of what is kept stays, and runs go after their rows."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from console.cluster.models import Cluster
from console.report.kept_rows import retention
from console.report.models import LagRow, ReportRow, ReportRun
from tests.console.report import sample_rows as rows
from tests.console.report.sample_rows import DAY, HOUR, NOW

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def lag_row(run: ReportRun, start_ms: int, job: str) -> None:
    row = rows.row(run, window_start_ms=start_ms, window_end_ms=start_ms + HOUR)
    LagRow.objects.filter(pk=row.pk).update(job=job, generated_at_ms=start_ms + HOUR)


def report_row(run: ReportRun, job: str, start_ms: int, end_ms: int) -> None:
    ReportRow.objects.create(
        run=run, job=job, grain="group", cluster="local", window_start_ms=start_ms, window_end_ms=end_ms,
        generated_at_ms=end_ms,
    )  # fmt: skip


@pytest.mark.parametrize(("job", "days"), [("lag_hour", 100), ("lag_day", 800), ("lag_week", 3_660)])
def test_rows_of_lag_stay_as_long_as_their_window_is_worth(cluster: Cluster, job: str, days: int) -> None:
    run = rows.run()
    for age_days in (days - 1, days + 1, days + 2):
        lag_row(run, NOW - age_days * DAY, job)
    lag_row(run, NOW - 5_000 * DAY, "other")
    assert retention.drop_old("local", job, NOW) == 2
    assert sorted(LagRow.objects.values_list("window_start_ms", flat=True)) == [
        NOW - 5_000 * DAY,
        NOW - (days - 1) * DAY,
    ]


def test_rows_of_an_old_time_that_was_asked_for_now_stay_to_be_looked_at(cluster: Cluster) -> None:
    lag_row(rows.run(), NOW - 200 * DAY, "lag_hour")
    LagRow.objects.update(generated_at_ms=NOW - 99 * DAY)
    assert retention.drop_old("local", "lag_hour", NOW) == 0
    assert retention.drop_old("local", "lag_hour", NOW + 2 * DAY) == 1


def test_an_episode_that_lasts_is_as_young_as_its_end(cluster: Cluster, settings: Settings) -> None:
    settings.EPISODE_DAYS = 10
    run = rows.run(job="episodes")
    report_row(run, "episodes", NOW - 30 * DAY, NOW - 11 * DAY)
    report_row(run, "episodes", NOW - 30 * DAY, NOW - 9 * DAY)
    report_row(run, "capacity", NOW - 30 * DAY, NOW - 29 * DAY)
    # both begin in the same window
    assert retention.drop_old("local", "episodes", NOW) == 1
    assert ReportRow.objects.filter(job="episodes").get().window_end_ms == NOW - 9 * DAY
    assert ReportRow.objects.count() == 2


def test_a_run_goes_after_its_rows_but_never_the_newest(cluster: Cluster, settings: Settings) -> None:
    settings.REPORT_RUN_DAYS = 5
    for number, age_days in enumerate((30, 20, 10, 6, 1)):
        rows.run(f"report-{number}", requested_at_ms=NOW - age_days * DAY)
    lag_row(ReportRun.objects.get(pk="report-1"), NOW - 20 * DAY, "lag_hour")
    ReportRun.objects.filter(pk="report-2").update(output="/reports/runs/lag_hour/report-2/attempt-1")
    assert retention.drop_old("local", "lag_hour", NOW) == 2
    assert sorted(ReportRun.objects.values_list("pk", flat=True)) == ["report-1", "report-2", "report-4"]
    ReportRun.objects.exclude(pk="report-1").delete()
    LagRow.objects.all().delete()
    assert retention.drop_old("local", "lag_hour", NOW) == 0
