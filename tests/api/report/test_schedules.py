"""Schedules, promises, rows of other reports and downloads over REST."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.cluster.models import Cluster
from console.report.delivery import notice
from console.report.jobs import JOBS
from console.report.models import ReportRow, ReportSchedule
from tests.api.conftest import person
from tests.console.report import sample_rows as report_rows
from tests.console.report.sample_rows import DAY, NOW, TODAY

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
Clients = Callable[..., APIClient]
BASE = "/api/v1/clusters/local"


@pytest.fixture
def reader(rows: Cluster, carol: User, client_of: Clients) -> APIClient:
    return client_of(carol)


@pytest.fixture
def maintainer(rows: Cluster, client_of: Clients) -> APIClient:
    return client_of(person("mia", "maintainer"))


def test_every_report_has_a_schedule(reader: APIClient) -> None:
    answer = reader.get(f"{BASE}/report-schedules")
    rows = answer.json()["results"]
    assert [one["job"] for one in rows] == list(JOBS)
    assert rows[0]["cadence"] == "HOURLY"


def test_a_schedule_is_changed_and_its_webhook_never_told(maintainer: APIClient) -> None:
    url = "https://chat.example.org/hooks/secret"
    answer = maintainer.post(
        f"{BASE}/report-schedules/capacity",
        {"hour": 6, "emails": ["a@example.org"], "webhook_url": url},
        "json",
    )
    assert (answer.status_code, answer.data["hour"], answer.data["webhook_host"]) == (
        200,
        6,
        "chat.example.org",
    )
    assert "secret" not in str(answer.data)
    assert ReportSchedule.objects.get(job="capacity").webhook_url == url


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"minute": 60}, "minute"),
        ({"cadence": "YEARLY"}, "cadence"),
        ({"emails": ["ops"]}, "emails"),
        ({"webhook_url": "file:///etc/passwd"}, "webhook_url"),
    ],
)
def test_it_says_which_field_is_wrong(maintainer: APIClient, body: dict[str, object], field: str) -> None:
    answer = maintainer.post(f"{BASE}/report-schedules/capacity", body, "json")
    assert answer.status_code == 400
    assert field in answer.content.decode()


def test_only_who_may_configure_changes(reader: APIClient) -> None:
    assert reader.post(f"{BASE}/report-schedules/capacity", {"hour": 6}, "json").status_code == 403
    assert reader.post(f"{BASE}/groups/billing/slo", {"slo_ms": 5, "target": 0.9}, "json").status_code == 403
    assert reader.delete(f"{BASE}/groups/billing/slo").status_code == 403


def test_a_group_has_a_promise_of_its_own(maintainer: APIClient) -> None:
    own = f"{BASE}/groups/billing/slo"
    default = maintainer.get(own).data
    assert default["versions"] == []
    found = maintainer.post(own, {"slo_ms": 5_000, "target": 0.999}, "json").data
    assert (found["slo_ms"], found["target"]) == (5_000, 0.999)
    (version,) = found["versions"]
    assert (version["slo_ms"], version["target"], version["set_by"]) == (5_000, 0.999, "mia")
    assert version["from_ms"] > 0
    assert maintainer.get(own).data["slo_ms"] == 5_000
    assert maintainer.delete(own).status_code == 204
    after = maintainer.get(own).data
    assert (after["slo_ms"], after["target"]) == (default["slo_ms"], default["target"])
    assert [one["slo_ms"] for one in after["versions"]] == [None, 5_000]
    assert maintainer.post(own, {"slo_ms": 0, "target": 2}, "json").status_code == 400


@pytest.fixture
def capacity(rows: Cluster) -> None:
    run = report_rows.run(job="capacity")
    for group in ("billing", "other"):
        ReportRow.objects.create(
            run=run,
            job="capacity",
            grain="group",
            cluster="local",
            group=group,
            window_start_ms=TODAY,
            window_end_ms=TODAY + DAY,
            generated_at_ms=NOW,
            figures={"utilisation_pct": 9.5},
        )


def test_rows_of_other_reports(reader: APIClient, capacity: None) -> None:
    answer = reader.get(f"{BASE}/reports/capacity/lines?name=bill")
    (row,) = answer.data["results"]
    assert (row["group"], row["utilisation_pct"]) == ("billing", 9.5)
    assert reader.get(f"{BASE}/reports/lag_hour/lines").status_code == 404
    assert reader.get(f"{BASE}/reports/lag_year/lines").status_code == 404


def test_files(reader: APIClient, capacity: None) -> None:
    parquet = reader.get(f"{BASE}/reports/capacity/export/parquet")
    table = pq.read_table(io.BytesIO(b"".join(parquet)))
    assert table.column("group").to_pylist() == ["billing", "other"]
    lines = b"".join(reader.get(f"{BASE}/reports/capacity/export/csv")).decode().splitlines()
    assert len(lines) == 3
    assert b">billing</td>" in b"".join(reader.get(f"{BASE}/reports/capacity/export/html"))
    assert reader.get(f"{BASE}/reports/capacity/export/xlsx").status_code == 404


def test_the_document_says_what_a_webhook_gets(rows: Cluster, client_of: Clients) -> None:
    """Its fields are exactly those that are posted."""
    document = client_of(person("mia", "maintainer")).get("/api/schema", {"format": "json"}).json()
    path = "/api/v1/clusters/{cluster}/report-schedules/{job}"
    callback = document["paths"][path]["post"]["callbacks"]["reportDone"]["{$request.body#/webhook_url}"][
        "post"
    ]
    name = callback["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    posted = notice.of(report_rows.run(requested_by=None)).as_json()
    assert set(document["components"]["schemas"][name]["properties"]) == {"text", *posted}


def test_the_room_before_retention(reader: APIClient, client_of: Clients) -> None:
    path = f"{BASE}/groups/billing/retention-room"
    body = reader.get(path, {"from_ms": NOW - DAY, "to_ms": NOW}).json()
    assert (body["queues"], set(body["room_ms"]), len(body["times"])) == (0, {None}, len(body["kept_ms"]))
    assert reader.get(path, {"from_ms": NOW - 8 * DAY, "to_ms": NOW}).status_code == 400
    assert client_of(person("dora", "viewer", name_pattern="other*")).get(path).status_code == 404


def test_waiting_times_over_time_are_told_of_groups_that_are_gone_too(reader: APIClient) -> None:
    path = f"{BASE}/groups/no-longer-there/latency-heat"
    answer = reader.get(path, {"from_ms": TODAY, "to_ms": TODAY + 24 * 3_600_000})
    assert (answer.status_code, answer.data["step_ms"]) == (200, 3_600_000)
    # nobody looked: unknown, not "no message waited"
    assert [(each["messages"], each["histogram"]) for each in answer.data["slices"]] == [(0, None)] * 24
    refused = reader.get(path, {"from_ms": TODAY - 8 * DAY, "to_ms": TODAY})
    assert (refused.status_code, "from_ms" in str(refused.data)) == (400, True)
