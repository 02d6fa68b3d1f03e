"""When beat asks for reports: due once, made up for after a pause, never on top of itself; changes by people."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from console.access.models import AuditEvent
from console.cluster.models import Cluster
from console.report import selectors, services
from console.report.delivery import schedules
from console.report.delivery.schedules import Change
from console.report.jobs import JOBS
from console.report.models import ReportRun, ReportSchedule
from console.report.process import Promise
from console.report.rules import DAILY, HOURLY, WEEKLY, last_due_ms
from tests.console.report.sample_rows import DAY, HOUR, NOW, TODAY
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db
MINUTE = 60_000


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(services, "enqueue", found.append)
    return found


def only(job: str, **values: object) -> None:
    """Of all schedules only this one is on."""
    ReportSchedule.objects.exclude(job=job).update(is_on=False)
    ReportSchedule.objects.filter(job=job).update(**values)


@pytest.mark.parametrize(
    ("cadence", "weekday", "hour", "minute", "expected"),
    [
        (HOURLY, 0, 0, 5, TODAY + 9 * HOUR + 5 * MINUTE),
        (HOURLY, 0, 0, 6, TODAY + 8 * HOUR + 6 * MINUTE),
        (DAILY, 0, 9, 5, TODAY + 9 * HOUR + 5 * MINUTE),
        (DAILY, 0, 9, 6, TODAY - DAY + 9 * HOUR + 6 * MINUTE),
        (WEEKLY, 4, 9, 5, TODAY + 9 * HOUR + 5 * MINUTE),  # TODAY is a Friday
        (WEEKLY, 5, 0, 0, TODAY - 6 * DAY),
    ],
)
def test_the_newest_due_moment(cadence: str, weekday: int, hour: int, minute: int, expected: int) -> None:
    assert last_due_ms(cadence, weekday, hour, minute, NOW) == expected


def test_a_new_cluster_has_every_schedule_and_nothing_is_due(cluster: Cluster) -> None:
    assert schedules.fire_due(now_ms=NOW) == 0
    assert [one.job for one in schedules.schedules("local", now_ms=NOW)] == list(JOBS)
    assert not ReportRun.objects.exists()


@pytest.mark.django_db(databases=["default", "metrics"])
def test_reading_stores_nothing(cluster: Cluster) -> None:
    client = signed_in()
    for address in (
        "/c/local/reports",
        "/c/local/reports/lag_hour",
        "/api/v1/clusters/local/report-schedules",
    ):
        assert client.get(address).status_code == 200
    assert not ReportSchedule.objects.exists()


def test_it_asks_once_when_it_is_due(cluster: Cluster, enqueued: list[str]) -> None:
    schedules.stored_schedules("local", now_ms=NOW)
    only("lag_hour")
    due_ms = TODAY + 9 * HOUR + 7 * MINUTE
    assert schedules.fire_due(now_ms=due_ms - 1) == 0
    assert schedules.fire_due(now_ms=due_ms) == 1
    assert schedules.fire_due(now_ms=due_ms + 20_000) == 0
    run = ReportRun.objects.get()
    assert (run.job, run.from_ms, run.to_ms) == ("lag_hour", TODAY + 7 * HOUR, TODAY + 9 * HOUR)
    assert enqueued == [run.id]
    schedule = ReportSchedule.objects.get(job="lag_hour")
    assert (schedule.last_run, schedule.last_outcome) == (run, "requested")


def test_two_beats_at_the_same_moment_ask_once(
    cluster: Cluster, enqueued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules.stored_schedules("local", now_ms=NOW)
    only("lag_hour")
    due_ms = TODAY + 9 * HOUR + 7 * MINUTE
    as_both_saw_it = schedules.stored_schedules("local", now_ms=due_ms)
    assert schedules.fire_due(now_ms=due_ms) == 1
    ReportRun.objects.update(state=ReportRun.State.SUCCEEDED)
    monkeypatch.setattr(schedules, "schedules", lambda *_, **__: as_both_saw_it)
    assert schedules.fire_due(now_ms=due_ms) == 0
    assert (ReportRun.objects.count(), len(enqueued)) == (1, 1)


def test_a_schedule_that_overlaps_itself_leaves_one_out_and_says_so(cluster: Cluster) -> None:
    schedules.stored_schedules("local", now_ms=NOW)
    only("lag_hour")
    schedules.fire_due(now_ms=TODAY + 9 * HOUR + 7 * MINUTE)
    schedules.fire_due(now_ms=TODAY + 10 * HOUR + 7 * MINUTE)  # the first still waits for a worker
    run = ReportRun.objects.get()
    outcome = ReportSchedule.objects.get(job="lag_hour").last_outcome
    assert (
        outcome
        == f"skipped because the previous run has not ended: Hourly lag of local is already being computed ({run.id})."
    )


def test_it_makes_up_for_a_short_pause_and_not_for_a_long_one(cluster: Cluster) -> None:
    schedules.stored_schedules("local", now_ms=NOW)
    only("lag_hour", cadence=DAILY, hour=9, minute=10)
    due_ms = TODAY + 9 * HOUR + 10 * MINUTE
    assert schedules.fire_due(now_ms=due_ms + 13 * HOUR) == 1
    assert (
        ReportSchedule.objects.get(job="lag_hour").last_outcome == "missed: the console was not running then"
    )
    assert not ReportRun.objects.exists()
    ReportSchedule.objects.update(last_due_ms=0)
    assert schedules.fire_due(now_ms=due_ms + 11 * HOUR) == 1


def test_it_does_not_ask_for_what_has_no_input(cluster: Cluster, settings: Settings) -> None:
    settings.STORE_FOLDERS = []
    schedules.stored_schedules("local", now_ms=NOW)
    for job in ("dead_letter", "lag_day"):
        ReportSchedule.objects.update(is_on=True)
        only(job, last_due_ms=0)
        schedules.fire_due(now_ms=NOW + 30 * DAY)  # no history so late
    assert set(
        ReportSchedule.objects.filter(job__in=("dead_letter", "lag_day")).values_list(
            "last_outcome", flat=True
        )
    ) <= {
        "no data in its window",
        "missed: the console was not running then",
    }
    assert not ReportRun.objects.exists()


def test_days_and_weeks_are_the_ones_just_over(cluster: Cluster) -> None:
    schedules.stored_schedules("local", now_ms=NOW)
    only("lag_day", last_due_ms=0)
    schedules.fire_due(now_ms=TODAY + DAY + 20 * MINUTE)
    only("lag_week", is_on=True, last_due_ms=0)
    schedules.fire_due(now_ms=TODAY + 3 * DAY + 40 * MINUTE)  # Monday
    day, week = ReportRun.objects.order_by("job")
    assert (day.from_ms, day.to_ms) == (TODAY, TODAY + DAY)
    assert (week.from_ms, week.to_ms) == (TODAY - 4 * DAY, TODAY + 3 * DAY)


def test_a_changed_time_does_not_fire_for_the_past_and_is_audited(cluster: Cluster) -> None:
    person = User.objects.create_user("alice", is_superuser=True)
    schedule = schedules.stored_schedules("local", now_ms=NOW)[0]
    url = "https://chat.example.org/hooks/secret-token"
    schedules.change(schedule, Change(minute=1, webhook_url=url), actor=person, now_ms=NOW)
    assert schedules.fire_due(now_ms=NOW + 1_000) == 0
    event = AuditEvent.objects.get(verb="change schedule")
    assert "secret-token" not in str(event.after) and "chat.example.org" in str(event.after)


def test_a_group_keeps_its_own_promise(cluster: Cluster, settings: Settings) -> None:
    person = User.objects.create_user("alice", is_superuser=True)
    assert schedules.slo_of("local", "billing")[:2] == (settings.LAG_SLO_MS, settings.LAG_SLO_TARGET)
    schedules.set_slo("local", "billing", 5_000, 0.999, actor=person, now_ms=1_000)
    assert schedules.slo_of("local", "billing")[:2] == (5_000, 0.999)
    assert selectors.slos("local") == {"billing": [Promise(5_000, 0.999, 1_000)]}
    schedules.set_slo("local", "billing", 5_000, 0.999, actor=person, now_ms=1_500)  # as before: no version
    schedules.set_slo("local", "billing", None, None, actor=person, now_ms=900)  # the clock was set back
    assert schedules.slo_of("local", "billing")[:2] == (settings.LAG_SLO_MS, settings.LAG_SLO_TARGET)
    found = schedules.slo_versions("local", "billing")
    assert [(one.slo_ms, one.target, one.from_ms) for one in found] == [
        (None, None, 1_001),
        (5_000, 0.999, 1_000),
    ]
    assert {one.set_by for one in found} == {person.username}
    default = Promise(settings.LAG_SLO_MS, settings.LAG_SLO_TARGET, 1_001)
    assert selectors.slos("local")["billing"][1] == default
    assert AuditEvent.objects.filter(verb="change SLO").count() == 2
