"""Months, quarters and years out of the daily rows that are kept: sums, bounds, changes, zones."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from console.cluster.models import Cluster
from console.report import services
from console.report.long_periods import period_of, periods_in
from console.report.models import LagRow, ReportRow, ReportRun
from console.report.rules import Window
from spark.lag.local_time import period_end
from tests.console.report import sample_rows
from tests.console.report.conftest import FakeSpark

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
HOUR = 3_600_000
DAY = 24 * HOUR


def at(text: str, zone: str = "UTC") -> int:
    return round(dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("moment", "grain", "zone", "name", "days", "hours"),
    [
        ("2026-02-28T23:59", "month", "UTC", "2026-02", 28, 28 * 24),
        ("2028-02-29T12:00", "month", "UTC", "2028-02", 29, 29 * 24),
        # an hour more in October, one less in March
        ("2026-10-01T00:30", "month", "Europe/Berlin", "2026-10", 31, 31 * 24 + 1),
        ("2026-03-31T00:30", "month", "Europe/Berlin", "2026-03", 31, 31 * 24 - 1),
        ("2026-12-31T12:00", "quarter", "UTC", "2026 Q4", 92, 92 * 24),
        ("2026-07-01T00:00", "quarter", "Asia/Kolkata", "2026 Q3", 92, 92 * 24),
        ("2026-07-01T00:00", "year", "Europe/Berlin", "2026", 365, 365 * 24),
    ],
)
def test_periods_are_those_of_the_calendar(
    moment: str, grain: str, zone: str, name: str, days: int, hours: int
) -> None:
    found = period_of(at(moment, zone), grain, zone)
    assert (found.name, found.days, (found.end_ms - found.start_ms) // HOUR) == (name, days, hours)
    assert period_of(found.start_ms, grain, zone) == period_of(found.end_ms - 1, grain, zone) == found
    assert [one.name for one in periods_in(found.start_ms, found.end_ms, grain, zone)] == [name]


def day(run: ReportRun, date: str, zone: str = "UTC", **figures: Any) -> None:
    start_ms = at(date, zone)
    end_ms = figures.pop("window_end_ms", period_end(start_ms, DAY, zone))
    values = sample_rows.figures(
        window_start_ms=start_ms, window_end_ms=end_ms, zone=zone, job="lag_day", counted_ms=end_ms - start_ms,
        watched_ms=end_ms - start_ms, coverage_pct=100.0, **figures,
    )  # fmt: skip
    known = {one.name for one in LagRow._meta.concrete_fields}
    LagRow.objects.create(
        run=run, generated_at_ms=end_ms, **{name: value for name, value in values.items() if name in known}
    )


def computed(from_ms: int, to_ms: int, now_ms: int) -> ReportRun:
    run = services.request_run(
        job="lag_trend", cluster="local", window=Window(from_ms, to_ms), actor=None, now_ms=now_ms
    )
    services.run_report(run.id, now_ms=now_ms)
    found = ReportRun.objects.get(pk=run.id)
    assert (found.state, found.error) == ("SUCCEEDED", "")
    return found


def row(grain: str, name: str, topic: str = "orders") -> ReportRow:
    return ReportRow.objects.get(job="lag_trend", grain=grain, topic=topic, figures__period=name)


def test_a_whole_month_is_added_up_and_its_quarter_is_at_least_that(
    cluster: Cluster, spark_job: FakeSpark
) -> None:
    spark_job.does("print('ERROR Spark is not needed'); sys.exit(1)")
    run = sample_rows.run(job="lag_day")
    for date in range(1, 29):
        day(
            run, f"2026-02-{date:02}", produced=100, consumed=90, breach_ms=HOUR, lost=date, lag_max=date,
            time_lag_p95_ms=date * 1_000, time_lag_max_ms=date * 2_000, late_message_ms=HOUR,
        )  # fmt: skip
    computed(at("2026-02-27"), at("2026-02-28"), at("2026-03-02"))
    assert ReportRow.objects.count() == 3
    month = row("month", "2026-02").figures
    expected = {
        "produced": 2_800, "consumed": 2_520, "breach_ms": 28 * HOUR, "lost": 406, "lag_max": 28, "days": 28,
        "period_days": 28, "time_lag_p95_ms": 14_000, "time_lag_max_ms": 56_000, "late_message_hours": 28.0,
        "good_pct": round(100 * 23 / 24, 4), "in_rate": round(100 / 86_400, 6),
    }  # fmt: skip
    assert {name: month[name] for name in expected} == expected
    assert "is_lower_bound" not in month and not row("month", "2026-02").is_partial
    quarter = row("quarter", "2026 Q1")
    assert (quarter.figures["produced"], quarter.figures["days"], quarter.figures["period_days"]) == (
        2_800,
        28,
        90,
    )
    assert quarter.figures["is_lower_bound"] is True and quarter.is_partial
    assert quarter.coverage_pct == round(100 * 28 / 60, 2)
    assert row("year", "2026").figures["period_days"] == 365


def test_what_no_day_knows_is_not_zero(cluster: Cluster) -> None:
    run = sample_rows.run(job="lag_day")
    unknown = dict.fromkeys(("lag_max", "time_lag_p95_ms", "time_lag_max_ms", "late_message_ms"))
    day(run, "2026-02-01", produced=0, consumed=0, breach_ms=0, **unknown)
    LagRow.objects.update(counted_ms=0, watched_ms=0, coverage_pct=0.0, consumed_within_slo=None)
    computed(at("2026-02-01"), at("2026-02-02"), at("2026-03-02"))
    found = row("month", "2026-02")
    assert found.coverage_pct == 0.0
    unknown_names = {
        "produced", "consumed", "in_rate", "out_rate", "lag_max", "time_lag_p95_ms", "time_lag_max_ms", "breach_ms",
        "good_pct", "late_message_hours", "lost", "within_slo_pct", "watched_ms",
    }  # fmt: skip
    assert not unknown_names & found.figures.keys()


def test_a_period_is_held_against_the_one_before(cluster: Cluster) -> None:
    run = sample_rows.run(job="lag_day")
    day(run, "2026-01-31", produced=100, breach_ms=0, time_lag_p95_ms=1_000)
    day(run, "2026-02-01", produced=150, breach_ms=DAY // 2, time_lag_p95_ms=900)
    computed(at("2026-01-31"), at("2026-02-02"), at("2026-02-05"))
    found = row("month", "2026-02").figures
    assert found["in_rate_change_pct"] == pytest.approx(50, abs=0.1)
    assert (found["time_lag_p95_change_pct"], found["good_change_points"]) == (-10.0, -50.0)
    assert "in_rate_change_pct" not in row("month", "2026-01").figures
    assert row("quarter", "2026 Q1").figures["produced"] == 250


def test_a_day_belongs_to_the_month_of_its_own_zone(cluster: Cluster) -> None:
    """In Kolkata 1 February begins on 31 January, 18:30 UTC."""
    run = sample_rows.run(job="lag_day")
    day(run, "2026-02-01", "Asia/Kolkata", produced=7)
    day(run, "2026-01-31", "Asia/Kolkata", produced=5)
    computed(at("2026-01-31"), at("2026-02-02"), at("2026-03-02"))
    assert (row("month", "2026-01").figures["produced"], row("month", "2026-02").figures["produced"]) == (
        5,
        7,
    )


def test_days_that_are_gone_take_no_figures_away(cluster: Cluster) -> None:
    run = sample_rows.run(job="lag_day")
    day(run, "2026-02-01", produced=3)
    day(run, "2026-02-02", produced=4)
    computed(at("2026-02-01"), at("2026-02-03"), at("2026-02-05"))
    LagRow.objects.filter(produced=3).delete()
    computed(at("2026-02-01"), at("2026-02-03"), at("2026-02-06"))
    assert row("month", "2026-02").figures["produced"] == 7
    day(run, "2026-02-03", produced=5)
    computed(at("2026-02-01"), at("2026-02-03"), at("2026-02-07"))
    assert row("month", "2026-02").figures["produced"] == 9


def test_the_page_and_the_table_say_at_least(cluster: Cluster, admin_client: Client) -> None:
    run = sample_rows.run(job="lag_day")
    day(run, "2026-02-01", produced=1_234, lost=0)
    computed(at("2026-02-01"), at("2026-02-02"), at("2026-02-05"))
    text = admin_client.get("/c/local/reports/lag_trend").content.decode()
    assert "2026-02" in text and "≥</span>1,234" in text and "Quarters" in text
    assert "2026 Q1" in admin_client.get("/c/local/reports/lag_trend?grain=quarter").content.decode()
    answer = admin_client.get("/c/local/reports/lag_trend/csv?grain=month")
    lines = b"".join(answer).decode().splitlines()
    cells = dict(zip(lines[0].split(","), lines[1].split(","), strict=True))
    assert (cells["period"], cells["produced"], cells["is_lower_bound"], cells["is_partial"]) == (
        "2026-02", "1234", "True", "True",
    )  # fmt: skip
    assert "≥ 1,234" in b"".join(admin_client.get("/c/local/reports/lag_trend/html")).decode()
