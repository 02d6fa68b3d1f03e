"""Reports over REST: ask, follow, read rows as pages and as CSV; refusals as problem documents."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from console.access.models import AuditEvent
from console.cluster.models import Cluster
from console.report import services
from console.report.models import ReportRow, ReportRun
from console.text import Text
from tests.api.conftest import person, problem
from tests.console.report import sample_rows as report_rows
from tests.console.report.sample_rows import HOUR, NOW, TODAY

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
Clients = Callable[..., APIClient]
BASE = "/api/v1/clusters/local/reports/lag_hour"


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(services, "enqueue", found.append)
    return found


@pytest.fixture
def reader(rows: Cluster, carol: User, client_of: Clients) -> APIClient:
    return client_of(carol)


@pytest.fixture
def maintainer(rows: Cluster, client_of: Clients) -> APIClient:
    return client_of(person("mia", "maintainer"))


@pytest.fixture
def hours(db: None) -> ReportRun:
    run = report_rows.run()
    for group, time_lag_ms in (("billing", 4_000), ("analytics", 90_000), ("silent", None)):
        report_rows.row(run, group=group, time_lag_max_ms=time_lag_ms)
    report_rows.publish(run, report_rows.queue())
    report_rows.row(run, cluster="secret", group="hidden")
    return run


def test_it_asks_for_a_run_and_follows_it(maintainer: APIClient, enqueued: list[str]) -> None:
    to_ms = time.time_ns() // 1_000_000 // HOUR * HOUR
    answer = maintainer.post(f"{BASE}/runs", {"from_ms": to_ms - 2 * HOUR + 5, "to_ms": to_ms}, format="json")
    body = answer.json()
    assert answer.status_code == 202
    assert (body["job"], body["cluster"], body["state"], body["requested_by"]) == (
        "lag_hour",
        "local",
        "QUEUED",
        "mia",
    )
    assert (body["from_ms"], body["to_ms"]) == (to_ms - 2 * HOUR, to_ms)
    assert answer["Location"] == f"/api/v1/report-runs/{body['id']}"
    assert maintainer.get(answer["Location"]).json() == body
    assert enqueued == [body["id"]]
    assert AuditEvent.objects.get(verb="run report").token_prefix
    refusal = problem(maintainer.post(f"{BASE}/runs", {}, format="json"), 409, "report_running")
    assert body["id"] in refusal["detail"]


def test_it_takes_yesterday_to_now_without_a_body(maintainer: APIClient) -> None:
    body = maintainer.post(f"{BASE}/runs").json()
    assert body["from_ms"] % (24 * HOUR) == 0 and 24 * HOUR < body["to_ms"] - body["from_ms"] <= 48 * HOUR


def test_it_refuses_windows_with_field_and_reason(maintainer: APIClient) -> None:
    answer = maintainer.post(f"{BASE}/runs", {"from_ms": 10, "to_ms": 10}, format="json")
    refusal = problem(answer, 422, "report_rejected")
    assert (refusal["field"], refusal["detail"]) == ("to_ms", "The end must be after the start.")
    answer = maintainer.post(f"{BASE}/runs", {"from_ms": 0}, format="json")
    assert problem(answer, 422, "report_rejected")["field"] == "from_ms"
    answer = maintainer.post(f"{BASE}/runs", {"from_ms": "soon", "to_ms": -1}, format="json")
    assert [each["field"] for each in problem(answer, 400, "invalid")["errors"]] == ["from_ms", "to_ms"]
    problem(maintainer.post(f"{BASE}/runs", "{", content_type="application/json"), 400, "malformed")
    assert not ReportRun.objects.exists()


def test_it_needs_the_verb_to_run(reader: APIClient, alice: User, client_of: Clients) -> None:
    for client in (reader, client_of(alice, "RESET")):
        problem(client.post(f"{BASE}/runs"), 403, "not_permitted")
    mia = person("mia", "maintainer")
    problem(client_of(mia, "VIEW").post(f"{BASE}/runs"), 403, "not_permitted")
    assert not ReportRun.objects.exists()


def test_it_lists_runs(reader: APIClient, hours: ReportRun) -> None:
    report_rows.run("report-2", requested_at_ms=NOW, state="FAILED", error=Text("why"))
    report_rows.run("report-3", cluster="secret")
    body = reader.get("/api/v1/clusters/local/report-runs").json()
    assert ([run["id"] for run in body["results"]], body["count"]) == (["report-2", "report-1"], 2)
    failed = reader.get("/api/v1/clusters/local/report-runs?state=FAILED&job=lag_hour&per_page=1").json()
    assert [(run["id"], run["error"]) for run in failed["results"]] == [("report-2", "why")]
    problem(reader.get("/api/v1/clusters/local/report-runs?state=red"), 400, "invalid")


def test_it_pages_sorts_and_filters_rows(reader: APIClient, hours: ReportRun) -> None:
    body = reader.get(f"{BASE}/rows?per_page=2").json()
    assert (body["count"], body["pages"]) == (3, 2)
    assert [(row["group"], row["time_lag_max_ms"]) for row in body["results"]] == [
        ("analytics", 90_000),
        ("billing", 4_000),
    ]
    (silent,) = reader.get(body["next"]).json()["results"]
    assert (silent["group"], silent["time_lag_max_ms"], silent["run"]) == ("silent", None, "report-1")
    assert "id" not in silent
    assert (silent["offset_is_not_count"], silent["last_consumed_age_ms"], silent["skew_cv"]) == (
        None,
        None,
        None,
    )
    by_name = reader.get(f"{BASE}/rows?ordering=group").json()["results"]
    assert [row["group"] for row in by_name] == ["analytics", "billing", "silent"]
    (queue,) = reader.get(f"{BASE}/rows?grain=queue&group=bill").json()["results"]
    assert (queue["broker_name"], queue["queue_id"]) == ("broker-a", 1)
    assert reader.get(f"{BASE}/rows?from_ms={TODAY + 9 * HOUR}").json()["count"] == 0
    for query in ("grain=day", "ordering=id", "from_ms=x", "to_ms=-1", "per_page=0", "group=%00"):
        problem(reader.get(f"{BASE}/rows?{query}"), 400, "invalid")


def test_it_streams_csv(reader: APIClient, hours: ReportRun) -> None:
    report_rows.row(hours, group="=1+1", window_start_ms=TODAY)
    for accept in ("*/*", "text/csv", "application/json"):
        answer = reader.get(f"{BASE}/rows.csv?to_ms={TODAY + 9 * HOUR}", HTTP_ACCEPT=accept)
        assert (answer.status_code, answer["Content-Type"]) == (200, "text/csv; charset=utf-8")
        assert answer["Content-Disposition"] == 'attachment; filename="local-lag_hour.csv"'
        table = list(csv.DictReader(io.StringIO(b"".join(answer).decode())))
        assert [row["group"] for row in table] == ["'=1+1", "analytics", "billing", "silent"]
        assert table[3]["time_lag_max_ms"] == ""


def test_it_refuses_csv_with_a_problem_document(reader: APIClient) -> None:
    for accept in ("*/*", "text/csv"):
        problem(reader.get(f"{BASE}/rows.csv?grain=day", HTTP_ACCEPT=accept), 400, "invalid")
    problem(APIClient().get(f"{BASE}/rows.csv"), 401, "not_authenticated")


@pytest.mark.parametrize(
    "path",
    [
        "clusters/local/report-runs",
        "clusters/local/reports/lag_hour/rows",
        "clusters/local/reports/lag_hour/rows.csv",
        "report-runs/report-1",
    ],
)
def test_it_keeps_reports_to_who_may_look(
    rows: Cluster, hours: ReportRun, charlie: User, client_of: Clients, path: str
) -> None:
    url = f"/api/v1/{path}"
    problem(APIClient().get(url), 401, "not_authenticated")
    problem(client_of(charlie).get(url), 404, "not_found")
    dora = client_of(person("dora", "viewer", name_pattern="bill*"))
    answer = dora.get(url)
    body = (b"".join(answer) if answer.streaming else answer.content).decode()
    assert answer.status_code == 200
    assert not [name for name in ("analytics", "silent", "hidden") if name in body]
    assert ("billing" in body) == ("rows" in path)
    problem(client_of(person("dan", "viewer")).put(url), 405, "method_not_allowed")


def test_rows_that_one_may_not_see_are_counted(rows: Cluster, hours: ReportRun, client_of: Clients) -> None:
    dora = client_of(person("dora", "viewer", name_pattern="bill*"))
    body = dora.get(f"{BASE}/rows").json()
    assert ([row["group"] for row in body["results"]], body["not_shown"]) == (["billing"], 2)
    made = report_rows.run("report-2", job="capacity")
    for grain, group, topic in (
        ("group", "billing", "orders"),
        ("group", "audit", "orders"),
        ("cluster", "", ""),
    ):
        ReportRow.objects.create(
            run=made, job="capacity", grain=grain, cluster="local", group=group, topic=topic,
            window_start_ms=TODAY, window_end_ms=TODAY + 24 * HOUR, generated_at_ms=NOW,
        )  # fmt: skip
    path = "/api/v1/clusters/local/reports/capacity"
    body = dora.get(f"{path}/lines").json()
    assert ([row["group"] for row in body["results"]], body["not_shown"]) == (["billing"], 2)
    lines = b"".join(dora.get(f"{path}/export/csv")).decode().splitlines()
    assert len(lines) == 2 and "billing" in lines[1]


def test_who_was_told_is_for_who_may_configure(rows: Cluster, client_of: Clients) -> None:
    told = {"kind": "email", "to": "ops@example.org", "ok": False, "error": "refused", "at_ms": NOW}
    run = report_rows.run(deliveries=[told])
    path = f"/api/v1/report-runs/{run.id}"
    assert client_of(person("mia", "maintainer")).get(path).json()["deliveries"] == [told]
    assert "ops@example.org" not in client_of(person("dan", "viewer")).get(path).content.decode()


def test_it_says_which_reports_there_are(reader: APIClient, maintainer: APIClient) -> None:
    other = BASE.replace("lag_hour", "lag_year")
    for answer in (
        reader.get(f"{other}/rows"),
        reader.get(f"{other}/rows.csv"),
        maintainer.post(f"{other}/runs"),
    ):
        assert (
            "There is no report lag_year. Reports: lag_hour, lag_day, "
            in problem(answer, 404, "not_found")["detail"]
        )
    problem(reader.get("/api/v1/report-runs/report-9"), 404, "not_found")
    problem(reader.get("/api/v1/clusters/nowhere/report-runs"), 404, "not_found")


def test_it_reads_rows_with_few_queries(reader: APIClient, hours: ReportRun) -> None:
    for number in range(40):
        report_rows.row(hours, group=f"g{number}")
        report_rows.run(f"report-x{number}")
    for path in (f"{BASE}/rows", "/api/v1/clusters/local/report-runs"):
        with CaptureQueriesContext(connection) as queries:
            assert reader.get(path).status_code == 200
        assert len(queries) <= 6
