"""What the newest reports say about all groups at once."""

from __future__ import annotations

import pytest

from console.access.name_scope import NameScope
from console.cluster.models import Cluster
from console.lag.models import GroupRow
from console.report.models import ReportRow, ReportRun
from console.report.pages.summary import BUDGETS_SHOWN, summary
from spark.lag.local_time import DAY_MS

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
NOW = 20_000 * DAY_MS


def row(run: ReportRun, job: str, group: str, day_ms: int, grain: str = "", **figures: object) -> None:
    ReportRow.objects.create(
        run=run,
        job=job,
        grain=grain,
        cluster="local",
        kind="GROUP" if grain else "breach",
        group=group,
        window_start_ms=day_ms,
        window_end_ms=day_ms + DAY_MS,
        figures=figures,
        generated_at_ms=NOW,
    )


@pytest.fixture
def run() -> ReportRun:
    return ReportRun.objects.create(
        id="report-1", cluster="local", job="lag_day", from_ms=0, to_ms=NOW, requested_at_ms=NOW
    )


@pytest.fixture
def local() -> Cluster:
    return Cluster.objects.create(name="local", namesrv_addrs="h:1")


def test_it_lists_the_smallest_budgets_of_the_last_day_first(local: Cluster, run: ReportRun) -> None:
    row(run, "lag_day", "late-once", NOW - 3 * DAY_MS, "slo", budget_left_pct=-90.0)
    for number in range(BUDGETS_SHOWN + 2):
        row(run, "lag_day", f"g-{number:02}", NOW - DAY_MS, "slo", budget_left_pct=100.0 - number)
    found = summary(local, NOW)
    assert [one.group for one in found.budgets][:2] == ["g-11", "g-10"]
    assert (len(found.budgets), found.groups) == (BUDGETS_SHOWN, BUDGETS_SHOWN + 2)
    only = summary(local, NOW, NameScope(("g-0*",)))
    assert {one.group[:3] for one in only.budgets} == {"g-0"} and only.groups == 10


def test_it_draws_the_episodes_of_seven_days(local: Cluster, run: ReportRun) -> None:
    for group, days in (("old", 9), ("new", 2)):
        start_ms = NOW - days * DAY_MS
        row(run, "episodes", group, start_ms, start_ms=start_ms, end_ms=start_ms + 60_000)
    episodes = summary(local, NOW).episodes
    assert episodes is not None and [lane.name for lane in episodes.rows] == ["new"]
    assert episodes.to_ms == NOW
    copied = {"from_ms": 0, "to_ms": NOW, "requested_at_ms": NOW, "finished_at_ms": NOW - 90_000}
    ReportRun.objects.create(id="report-2", cluster="local", job="episodes", state="SUCCEEDED", **copied)
    episodes = summary(local, NOW).episodes
    assert episodes is not None and episodes.to_ms == NOW - 90_000  # no later one is known


def test_rocketmqs_own_groups_are_left_out(local: Cluster, run: ReportRun) -> None:
    GroupRow.objects.create(cluster="local", group="CID_RMQ_SYS_TRANS", is_system=True)
    for group in ("CID_RMQ_SYS_TRANS", "billing"):
        row(run, "lag_day", group, NOW - DAY_MS, "slo", budget_left_pct=1.0)
    found = summary(local, NOW)
    assert [one.group for one in found.budgets] == ["billing"] and found.groups == 1


def test_without_reports_it_is_empty(local: Cluster) -> None:
    found = summary(local, NOW)
    assert not found.budgets and found.episodes is None
