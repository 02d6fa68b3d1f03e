"""Reports about days of another zone: their windows, when they are due, and what a change of the zone replaces."""

from __future__ import annotations

import datetime as dt

import pytest
from pytest_django import Settings

from console.access.models import AuditEvent
from console.cluster.models import Cluster
from console.report import selectors, services
from console.report.delivery import schedules
from console.report.delivery.schedules import Change
from console.report.forms import ScheduleForm
from console.report.jobs import is_so_far
from console.report.models import LagRow, QueueRowFile, ReportRow, ReportRun, ReportSchedule, Stamp, of_period
from console.report.rules import (
    DAILY,
    WEEKLY,
    ReportRejected,
    Window,
    last_due_ms,
    last_period,
    span_start,
    window,
    yesterday_to_now,
)
from console.report.runs import reviews
from tests.console.report import sample_rows as rows
from tests.console.report.conftest import FakeSpark
from tests.console.report.sample_rows import DAY, HOUR, queue

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
BERLIN, KOLKATA = "Europe/Berlin", "Asia/Kolkata"
WEEK = 7 * DAY


def utc(text: str) -> int:
    return int(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "now", "period_ms", "start", "end"),
    [
        (BERLIN, "2026-03-30T08:00", DAY, "2026-03-28T23:00", "2026-03-29T22:00"),
        (BERLIN, "2026-10-26T08:00", DAY, "2026-10-24T22:00", "2026-10-25T23:00"),
        (BERLIN, "2026-03-30T08:00", WEEK, "2026-03-22T23:00", "2026-03-29T22:00"),
        (KOLKATA, "2026-03-30T08:00", DAY, "2026-03-28T18:30", "2026-03-29T18:30"),
        ("America/New_York", "2026-03-09T12:00", DAY, "2026-03-08T05:00", "2026-03-09T04:00"),
    ],
)
def test_the_period_just_over(zone: str, now: str, period_ms: int, start: str, end: str) -> None:
    assert last_period(utc(now), period_ms, zone) == Window(utc(start), utc(end))


def test_a_window_grows_to_whole_days_of_the_zone() -> None:
    now_ms = utc("2026-10-26T08:10")
    found = window(utc("2026-10-25T12:00"), now_ms, now_ms=now_ms, period_ms=DAY, zone=BERLIN)
    assert found == Window(utc("2026-10-24T22:00"), utc("2026-10-26T09:00"))
    # 31 days in October have 745 hours
    end_ms = utc("2026-10-31T23:00")
    month = window(utc("2026-09-30T22:00"), end_ms, now_ms=end_ms, period_ms=DAY, zone=BERLIN)
    assert month.hours == 745
    with pytest.raises(ReportRejected):
        window(utc("2026-09-30T21:59"), end_ms, now_ms=end_ms, period_ms=DAY, zone=BERLIN)


def test_the_page_begins_at_local_midnight() -> None:
    now_ms = utc("2026-10-26T08:10")
    assert span_start("", now_ms=now_ms, zone=BERLIN) == utc("2026-10-24T22:00")
    assert span_start("7d", now_ms=now_ms, zone=BERLIN) == utc("2026-10-19T22:00")
    assert yesterday_to_now(now_ms, BERLIN) == Window(utc("2026-10-24T22:00"), utc("2026-10-26T09:00"))
    # 18:00 would be of the day before
    assert yesterday_to_now(now_ms, KOLKATA) == Window(utc("2026-10-24T18:30"), utc("2026-10-26T09:00"))


@pytest.mark.parametrize(
    ("cadence", "now", "due"),
    [
        (DAILY, "2026-03-28T23:20", "2026-03-28T23:20"),
        (DAILY, "2026-03-29T22:19", "2026-03-28T23:20"),
        (DAILY, "2026-03-29T22:20", "2026-03-29T22:20"),
        (WEEKLY, "2026-10-25T23:19", "2026-10-18T22:20"),
        (WEEKLY, "2026-10-25T23:20", "2026-10-25T23:20"),
    ],
)
def test_it_is_due_by_the_wall_clock(cadence: str, now: str, due: str) -> None:
    assert last_due_ms(cadence, 0, 0, 20, utc(now), BERLIN) == utc(due)


def test_a_row_of_23_hours_is_whole_and_one_of_24_of_25_is_not() -> None:
    spring, autumn = utc("2026-03-28T23:00"), utc("2026-10-24T22:00")
    assert not is_so_far("lag_day", spring, spring + 23 * HOUR, BERLIN)
    assert is_so_far("lag_day", autumn, autumn + 24 * HOUR, BERLIN)
    assert not is_so_far("lag_day", autumn, autumn + 25 * HOUR, BERLIN)


def test_a_schedule_has_a_zone_of_its_own_or_the_installations(cluster: Cluster, settings: Settings) -> None:
    settings.REPORT_TIME_ZONE = BERLIN
    now_ms = utc("2026-03-30T08:00")
    own = {one.job: one for one in schedules.stored_schedules("local", now_ms=now_ms)}
    schedules.change(own["capacity"], Change(zone=KOLKATA), actor=None, now_ms=now_ms)
    assert [selectors.zone_of("local", job) for job in ("topic_traffic", "capacity")] == [BERLIN, KOLKATA]
    assert schedules.window_of(own["topic_traffic"], now_ms).from_ms == utc("2026-03-28T23:00")
    capacity = ReportSchedule.objects.get(cluster="local", job="capacity")
    assert schedules.window_of(capacity, now_ms) == Window(utc("2026-03-28T18:30"), utc("2026-03-29T18:30"))
    asked = services.request_run(
        job="capacity",
        cluster="local",
        window=Window(utc("2026-03-28T19:00"), utc("2026-03-28T20:00")),
        actor=None,
        now_ms=now_ms,
    )
    assert (asked.zone, asked.from_ms, asked.to_ms) == (
        KOLKATA,
        utc("2026-03-28T18:30"),
        utc("2026-03-29T18:30"),
    )


def test_the_weekly_report_and_what_it_is_made_of_share_their_days(cluster: Cluster) -> None:
    now_ms = utc("2026-03-30T08:00")
    own = {one.job: one for one in schedules.stored_schedules("local", now_ms=now_ms)}
    schedules.change(own["capacity"], Change(zone=KOLKATA), actor=None, now_ms=now_ms)
    assert {selectors.zone_of("local", job) for job in ("lag_day", "lag_week", "capacity", "lag_trend")} == {
        KOLKATA
    }
    assert {selectors.zone_of("local", job) for job in ("lag_hour", "episodes", "topic_traffic")} == {"UTC"}
    own = {one.job: one for one in schedules.stored_schedules("local", now_ms=now_ms)}
    schedules.change(own["lag_week"], Change(hour=5), actor=None, now_ms=now_ms)
    schedules.change(own["lag_week"], Change(zone=""), actor=None, now_ms=now_ms)
    assert {selectors.zone_of("local", job) for job in ("lag_day", "lag_week", "capacity", "lag_trend")} == {
        "UTC"
    }
    changed = AuditEvent.objects.filter(verb="change schedule", after__zone=KOLKATA)
    assert set(changed.values_list("subject", flat=True)) == {"lag_day", "lag_week", "capacity", "lag_trend"}
    # a daily report of another zone is due at another moment: not for the one that is over
    assert schedules.fire_due(now_ms=now_ms) == 0


def test_a_form_refuses_what_is_no_zone() -> None:
    form = ScheduleForm({"cadence": DAILY, "weekday": 0, "hour": 0, "minute": 20, "zone": "Mars/X"})
    assert not form.is_valid()
    assert form.errors["zone"] == [
        "'Mars/X' is no time zone; use a name of the IANA list such as Europe/Berlin or Asia/Kolkata."
    ]


def test_a_day_of_another_zone_takes_the_place_of_those_it_overlaps(
    cluster: Cluster, spark_job: FakeSpark
) -> None:
    for number in range(3):
        before = rows.run(f"report-{number}", job="lag_day")
        start_ms = utc("2026-03-27T00:00") + number * DAY
        at = {"window_start_ms": start_ms, "window_end_ms": start_ms + DAY}
        rows.row(before, job="lag_day", **at)
        rows.publish(before, queue(**at))
        ReportRow.objects.create(
            run=before, job="lag_day", grain="slo", cluster="local", generated_at_ms=1, **at
        )
    start_ms = utc("2026-03-27T23:00")
    own = ReportRun.objects.create(
        id="report-9",
        job="lag_day",
        cluster="local",
        zone=BERLIN,
        from_ms=start_ms,
        to_ms=start_ms + DAY,
        requested_at_ms=1,
    )
    chosen = of_period(own, start_ms)
    for model in (LagRow, QueueRowFile, ReportRow):
        starts = model.objects.filter(chosen).order_by("window_start_ms")
        assert list(starts.values_list("window_start_ms", flat=True)) == [
            utc("2026-03-27T00:00"),
            utc("2026-03-28T00:00"),
        ]
    reviews.replace_reviews(
        own,
        [start_ms],
        Stamp(own.id, "lag_day", BERLIN, generated_at_ms=1, code_version=""),
        claim=lambda: None,
        now_ms=utc("2026-03-30T00:00"),
    )
    left = ReportRow.objects.filter(grain="slo").order_by("window_start_ms")
    assert [(row.window_start_ms, row.zone) for row in left] == [
        (start_ms, BERLIN),
        (utc("2026-03-29T00:00"), "UTC"),
    ]
