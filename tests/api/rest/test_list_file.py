"""Lists as CSV: the bytes of the page's file, its rights and its limits."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from api.rest.throttling import ScopeThrottle
from console.access.services import record_audit
from console.lists import file
from tests.api.conftest import problem
from tests.support import sample_change, sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

# List of REST → the page of the same rows.
LISTS = {
    "clusters/local/groups": "/c/local/groups",
    "clusters/local/groups?query=bill": "/c/local/groups?q=bill",
    "clusters/local/groups?ordering=-group&include_system=1": "/c/local/groups?sort=group&dir=desc&system=1",
    "clusters/local/topics": "/c/local/topics",
    "clusters/local/topics?kind=DLQ": "/c/local/topics?kind=DLQ",
    "clusters/local/dead-letters": "/c/local/dead-letters",
    "clusters/local/dead-letters?with_empty=true": "/c/local/dead-letters?empty=1",
    "clusters/local/brokers": "/c/local/brokers",
    "clusters/local/brokers?ordering=-broker": "/c/local/brokers?sort=broker&dir=desc",
    "clusters/local/plans": "/c/local/operations",
    "audit?cluster=local": "/activity?cluster=local",
}


@pytest.fixture
def sampled(db: None) -> None:
    sample_rows.sample()
    sample_rows.topic_row("%DLQ%billing", kind="DLQ", messages=3)
    sample_change.write_sample_change()
    record_audit(actor="alice", verb="apply", cluster="local", subject="billing", before={"lag": 1})


def as_file(client: Client, address: str) -> Any:
    return client.get(f"{address}{'&' if '?' in address else '?'}format=csv")


def lines_of(answer: Any) -> str:
    assert answer.status_code == 200 and answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.streaming
    return str(answer.getvalue().decode())


@pytest.mark.parametrize("address", LISTS)
def test_the_file_is_that_of_the_page(sampled: None, address: str) -> None:
    client = signed_in()
    of_page = as_file(client, LISTS[address])
    wanted = lines_of(of_page)
    found = as_file(client, f"/api/v1/{address}")
    assert found["Content-Disposition"] == of_page["Content-Disposition"]
    lines = lines_of(found)
    assert lines == wanted
    assert lines.count("\r\n") > 1
    accepted = client.get(f"/api/v1/{address}", headers={"Accept": "text/csv"})
    assert lines_of(accepted) == lines
    assert client.get(f"/api/v1/{address}", headers={"Accept": "*/*"})["Content-Type"] == "application/json"


@pytest.mark.parametrize("address", [each for each in LISTS if each.startswith("clusters/local/")])
def test_who_sees_some_names_reads_the_file_of_those(sampled: None, address: str) -> None:
    some = signed_in("some", verbs=("VIEW",), names="*bill*")
    lines = lines_of(as_file(some, f"/api/v1/{address}"))
    assert lines == lines_of(as_file(some, LISTS[address]))
    assert "shipping" not in lines and "out_rate,put_p99_ms" not in lines


@pytest.mark.parametrize("address", ["/c/local/groups", "/api/v1/clusters/local/groups"])
def test_a_file_of_groups_without_rounds_is_of_unknown_ones(sampled: None, address: str) -> None:
    rows = list(csv.DictReader(lines_of(as_file(signed_in(), address)).splitlines()))
    assert {row["status"] for row in rows} == {"UNKNOWN"}
    assert all(row["reason"].startswith("no round took place since") for row in rows)


def test_a_file_takes_the_right_of_its_list(sampled: None) -> None:
    stranger, some = signed_in("stranger", verbs=()), signed_in("some", verbs=("VIEW",), names="*bill*")
    for address in LISTS:
        answer = as_file(stranger, f"/api/v1/{address}")
        assert answer.status_code in (403, 404) and answer["Content-Type"] == "application/problem+json"
    problem(as_file(some, "/api/v1/audit"), 403, "not_permitted")


def test_a_file_of_a_list_has_all_of_its_pages_and_its_filters(sampled: None) -> None:
    client = signed_in()
    address = "/api/v1/clusters/local/plans"
    rows = list(csv.DictReader(lines_of(as_file(client, f"{address}?page=2&per_page=1")).splitlines()))
    assert {row["id"] for row in rows} == {"op-sample"} and rows[0]["where"]
    assert lines_of(as_file(client, f"{address}?kind=nothing")).count("\r\n") == 1
    assert lines_of(as_file(client, f"{address}?state=DRAFT")).count("\r\n") == 1


def test_jobs_have_a_file_too(sampled: None) -> None:
    client, address = signed_in(), "/api/v1/clusters/local/jobs"
    rows = list(csv.DictReader(lines_of(as_file(client, address)).splitlines()))
    listed = client.get(address).json()["results"]
    wanted = ("id", "plan_id", "kind", "subject", "state", "created_by")
    assert [[row[name] for name in wanted] for row in rows] == [
        [one[name.removesuffix("_id")] for name in wanted] for one in listed
    ]
    assert rows and lines_of(as_file(client, f"{address}?state=FAILED")).count("\r\n") == 1
    some = signed_in("some", verbs=("VIEW",), names="nothing")
    assert lines_of(as_file(some, address)).count("\r\n") == 1


def test_a_file_of_too_many_rows_is_refused(sampled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "FILE_ROWS_MAX", 2)
    answer = problem(as_file(signed_in(), "/api/v1/clusters/local/groups"), 422, "too_many_rows")
    assert "a file holds 2. Narrow the filter." in answer["detail"]


def test_files_are_limited_like_searches(sampled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ScopeThrottle.RATES, "search", 1)
    client, address = signed_in(), "/api/v1/clusters/local/groups"
    assert [as_file(client, address).status_code for _ in range(2)] == [200, 429]
    assert client.get(address).status_code == 200


def test_another_format_is_refused_with_those_that_are_served(sampled: None) -> None:
    client, address = signed_in(), "/api/v1/clusters/local/groups"
    for answer in (client.get(f"{address}?format=xml"), client.get(address, headers={"Accept": "text/xml"})):
        words = problem(answer, 406, "not_acceptable")["detail"]
        assert words == "Served here: application/json (format json), text/csv (format csv)."
    problem(client.get("/api/v1/clusters?format=csv"), 406, "not_acceptable")
    assert client.get(f"{address}?format=json")["Content-Type"] == "application/json"


def test_the_document_has_the_file_and_its_refusals() -> None:
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    for address in {each.partition("?")[0].replace("local", "{cluster}") for each in LISTS}:
        operation = paths[f"/api/v1/{address}"]["get"]
        (parameter,) = [each for each in operation["parameters"] if each["name"] == "format"]
        assert sorted(parameter["schema"]["enum"]) == ["csv", "json"]
        content = operation["responses"]["200"]["content"]
        assert content["text/csv"]["schema"] == {"type": "string"}
        assert "$ref" in content["application/json"]["schema"]
        assert {"406", "422"} <= set(operation["responses"])
