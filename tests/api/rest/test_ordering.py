"""Lists are ordered as declared: every name in both directions, unknown last, pages and cursors in that order."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.access.activity_list import ACTIVITY
from console.access.models import AuditEvent
from console.cluster.models import Cluster
from console.deadletter.models import ReplayLedger
from console.deadletter.selectors import LEDGER
from console.group.group_list import GROUPS
from console.lag.episodes import EPISODES
from console.lag.models import Episode
from console.lists.spec import ListSpec
from console.operation.models import Job, JobState, Plan, PlanState
from console.operation.operation_list import JOBS, OPERATIONS
from console.report.models import ReportRun
from console.report.selectors import RUNS
from tests.api.conftest import AT, problem

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
Clients = Callable[..., APIClient]
LOCAL = "/api/v1/clusters/local"
MORNING = datetime.datetime(2026, 3, 1, 8, tzinfo=datetime.UTC)
# List → its declaration; the last four grow while they are read and have cursors.
LISTS: dict[str, ListSpec] = {
    f"{LOCAL}/report-runs": RUNS,
    f"{LOCAL}/episodes": EPISODES,
    f"{LOCAL}/facts": GROUPS,
    f"{LOCAL}/plans": OPERATIONS,
    f"{LOCAL}/jobs": JOBS,
    "/api/v1/audit": ACTIVITY,
    "/api/v1/jobs/job-1/ledger": LEDGER,
}
WITH_CURSOR = list(LISTS)[3:]


@pytest.fixture
def reader(rows: Cluster, admin: User, client_of: Clients) -> APIClient:
    """An administrator with five plans of which three were applied, two of them ended, and rows of every other list."""
    for number in range(5):
        made = MORNING + datetime.timedelta(minutes=number // 2)  # some at one moment: the id decides
        plan = Plan.objects.create(
            id=f"plan-{number}",
            kind=("offset_change", "topic_create")[number % 2],
            cluster="local",
            subject=("billing", "audit", "orders")[number % 3],
            messages=10 * number,
            state=PlanState.APPLIED if number < 3 else PlanState.DRAFT,
            created_by=("alice", "carol")[number % 2],
            created_at=made,
            expires_at=made,
        )
        if number < 3:
            ended = None if number == 1 else made + datetime.timedelta(minutes=9 - number)
            Job.objects.create(
                id=f"job-{number}",
                plan=plan,
                kind=plan.kind,
                cluster="local",
                subject=plan.subject,
                state=JobState.RUNNING if ended is None else JobState.SUCCEEDED,
                created_by=plan.created_by,
                created_at=made,
                finished_at=ended,
            )
        AuditEvent.objects.create(actor=plan.created_by, verb="plan", cluster="local", subject=plan.subject)
        ReplayLedger.objects.create(
            plan_id="plan-1",
            cluster="local",
            group="billing",
            topic="%DLQ%billing",
            broker_name="broker-a",
            queue_id=number % 2,
            queue_offset=9 - number,
            state=("SENT", "SKIPPED")[number % 2],
            updated_at_ms=AT + number % 3,
        )
        Episode.objects.create(
            id=f"e{number}",
            cluster="local",
            group=plan.subject,
            topic="orders",
            kind="STALLED",
            state="OVER",
            start_ms=AT + number,
            end_ms=AT + 100 - 7 * (number % 3),
            seen_ms=AT,
            slo_ms=60_000,
            target=0.99,
            peak_lag=None if number == 2 else number,
        )
        ReportRun.objects.create(
            id=f"run-{number}",
            job="lag_hour",
            cluster="local",
            from_ms=AT - number,
            to_ms=AT,
            state="SUCCEEDED" if number else "FAILED",
            row_count=number % 2,
            requested_at_ms=AT + number,
            finished_at_ms=AT + number if number else None,
        )
    return client_of(admin)


def orders(url: str) -> list[str]:
    return [sign + name for name in LISTS[url].sorts for sign in ("", "-")]


def ids(body: dict[str, list[dict[str, object]]]) -> list[object]:
    return [row.get("id", row.get("group")) for row in body["results"]]


@pytest.mark.parametrize("url", LISTS)
def test_pages_follow_every_order_in_both_directions(reader: APIClient, url: str) -> None:
    for ordering in orders(url):
        whole = reader.get(url, {"ordering": ordering}).json()
        assert whole["count"] == len(whole["results"]) >= 2, ordering
        page = whole["count"] // 2  # neither the first nor the last of five rows
        cut = reader.get(url, {"ordering": ordering, "per_page": 2, "page": page}).json()
        assert ids(cut) == ids(whole)[2 * page - 2 : 2 * page], ordering


@pytest.mark.parametrize("url", WITH_CURSOR)
def test_cursors_follow_every_order_past_unknown_values(reader: APIClient, url: str) -> None:
    for ordering in orders(url):
        found: list[object] = []
        following: str | None = f"{url}?per_page=1&ordering={ordering}"
        while following:
            body = reader.get(following).json()
            found += ids(body)
            following = body["next"]
        assert found == ids(reader.get(url, {"ordering": ordering}).json()), ordering


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        (f"{LOCAL}/plans?ordering=-messages", ["plan-4", "plan-3", "plan-2", "plan-1", "plan-0"]),
        (f"{LOCAL}/plans?ordering=ended", ["plan-2", "plan-0", "plan-4", "plan-3", "plan-1"]),
        (f"{LOCAL}/plans?ordering=-ended", ["plan-0", "plan-2", "plan-4", "plan-3", "plan-1"]),
        (f"{LOCAL}/plans?ordering=made&kind=topic_create", ["plan-1", "plan-3"]),
        (f"{LOCAL}/jobs?ordering=-ended", ["job-0", "job-2", "job-1"]),
        (f"{LOCAL}/episodes?ordering=-peak_lag", ["e4", "e3", "e1", "e0", "e2"]),
        (f"{LOCAL}/episodes?ordering=-duration", ["e0", "e3", "e1", "e4", "e2"]),
        (f"{LOCAL}/episodes", ["e4", "e3", "e2", "e1", "e0"]),
        (f"{LOCAL}/report-runs?ordering=finished", ["run-1", "run-2", "run-3", "run-4", "run-0"]),
        (f"{LOCAL}/facts?ordering=-lag", ["billing", "audit"]),
    ],
)
def test_it_puts_unknown_last_in_both_directions(reader: APIClient, address: str, wanted: list[str]) -> None:
    assert ids(reader.get(address).json()) == wanted


@pytest.mark.parametrize("url", LISTS)
def test_it_refuses_an_unknown_order_with_the_names(reader: APIClient, url: str) -> None:
    body = problem(reader.get(url, {"ordering": "-colour"}), 400, "invalid")
    (error,) = body["errors"]
    assert error["field"] == "ordering" and ", ".join(LISTS[url].sorts) in error["detail"]


def test_it_refuses_a_cursor_of_another_order(reader: APIClient) -> None:
    cursor = reader.get(f"{LOCAL}/plans?ordering=made&per_page=2").json()["cursor"]
    for other in ("", "-made", "subject"):
        address = f"{LOCAL}/plans?cursor={cursor}" + (f"&ordering={other}" if other else "")
        problem(reader.get(address), 400, "bad_cursor")


def test_files_have_the_order_too(reader: APIClient) -> None:
    answer = reader.get(f"{LOCAL}/plans?ordering=messages&format=csv")
    head, *lines = b"".join(answer.streaming_content).decode().splitlines()
    assert [line.split(",")[0] for line in lines] == [f"plan-{number}" for number in range(5)]
    audit = reader.get("/api/v1/audit?ordering=actor&cluster=local&format=csv")
    actors = [line.split(",")[1] for line in b"".join(audit.streaming_content).decode().splitlines()[1:]]
    assert actors == sorted(actors) and len(set(actors)) == 2
