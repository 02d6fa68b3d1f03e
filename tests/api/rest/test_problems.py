"""Refusals as problem documents."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from api.rest.throttling import ScopeThrottle
from console.cluster.models import Cluster
from tests.api.conftest import problem

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("refusals before anything is read; what is read has tests of its own"),
]
Clients = Callable[..., APIClient]


def test_it_names_every_field_at_fault(rows: Cluster, alice: User, client_of: Clients) -> None:
    body = {"target": "yesterday", "offset": -1, "queues": [{"topic": "t"}]}
    answer = client_of(alice).post("/api/v1/clusters/local/offset-plans", body, format="json")
    found = {row["field"]: row["code"] for row in problem(answer, 400, "invalid")["errors"]}
    assert found == {
        "group": "required",
        "target": "invalid_choice",
        "offset": "min_value",
        "queues.0.broker_name": "required",
        "queues.0.queue_id": "required",
    }


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ([], "Send a JSON object, not a list."),
        ({"group": 1, "target": "latest", "topics": "x"}, "topics: Send a JSON list, not a string."),
        ({"group": "a", "target": "time", "queues": [7]}, "queues.0: Send a JSON object, not a number."),
        (
            {"group": None, "target": "latest", "offset": "x"},
            "group: Must not be null. offset: Send a whole number.",
        ),
        (
            {"group": "", "target": "latest", "offset": -1},
            "group: Must not be empty. offset: Must be at least 0.",
        ),
        (
            {"group": "a" * 256, "target": "time", "time": "noon"},
            (
                "group: Must have at most 255 characters."
                " time: Send a time with its zone (ISO 8601), like 2026-03-12T08:00:00Z."
            ),
        ),
        (
            {"group": "\0", "target": "yesterday"},
            (
                'group: Must not contain a zero byte. target: "yesterday" does not exist.'
                " One of: earliest, latest, time, offset, shift, like_group, as_of, undo, exact, file, clone."
            ),
        ),
    ],
)
def test_a_refusal_says_what_to_send(
    rows: Cluster, alice: User, client_of: Clients, body: object, detail: str
) -> None:
    answer = client_of(alice).post("/api/v1/clusters/local/offset-plans", body, format="json")
    assert problem(answer, 400, "invalid")["detail"] == detail


@pytest.mark.parametrize(
    ("address", "body", "field"),
    [
        ("replay-plans", {"group": "billing", "target": "failed_group", "from_ms": 5}, "from_ms"),
        (
            "replay-plans",
            {"group": "billing", "target": "failed_group", "letter": {"offset": 5}},
            "letter.offset",
        ),
        (
            "offset-plans",
            {"group": "billing", "target": "latest", "queues": [{"queue": 5}]},
            "queues.0.queue",
        ),
        ("config-plans", {"kind": "topic_create", "subject": "a", "perm": 6}, "perm"),
    ],
)
def test_it_refuses_fields_that_do_not_exist(
    rows: Cluster, alice: User, client_of: Clients, address: str, body: object, field: str
) -> None:
    answer = client_of(alice).post(f"/api/v1/clusters/local/{address}", body, format="json")
    (error,) = problem(answer, 400, "invalid")["errors"]
    assert error["field"] == field
    assert error["detail"].startswith("There is no such field. Here are ")


def test_a_refusal_says_how_to_ask(rows: Cluster, alice: User, client_of: Clients) -> None:
    client = client_of(alice)
    refused = problem(
        client.post("/api/v1/clusters/local/groups", {}, format="json"), 405, "method_not_allowed"
    )
    assert refused["detail"] == 'Method "POST" not allowed. This address accepts GET, HEAD.'
    answer = client.generic("POST", "/api/v1/clusters/local/offset-plans", b"a", content_type="text/csv")
    body = problem(answer, 415, "unsupported_media_type")
    assert body["detail"].endswith(" Send JSON with the header Content-Type: application/json.")
    body = problem(APIClient().get("/api/v1/clusters"), 401, "not_authenticated")
    assert "Authorization: Bearer <token>" in body["detail"]


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[1,"])
def test_it_refuses_what_is_no_json(rows: Cluster, alice: User, client_of: Clients, body: bytes) -> None:
    url = "/api/v1/clusters/local/offset-plans"
    answer = client_of(alice).generic("POST", url, body, content_type="application/json")
    problem(answer, 400, "malformed")


@pytest.mark.parametrize("body", ["[]", "1", "null", '"x"'])
def test_it_refuses_json_that_is_no_object(rows: Cluster, alice: User, body: str) -> None:
    client = APIClient()
    client.force_login(alice)
    for path in ("clusters/local/offset-plans", "clusters/local/replay-plans", "tokens"):
        answer = client.generic("POST", f"/api/v1/{path}", body, content_type="application/json")
        problem(answer, 400, "invalid")


def test_it_quotes_half_of_a_surrogate_pair_as_an_escape(
    rows: Cluster, alice: User, client_of: Clients
) -> None:
    url, body = "/api/v1/clusters/local/config-plans", b'{"kind": "\\ud800", "subject": "x"}'
    answer = client_of(alice).generic("POST", url, body, content_type="application/json")
    (error,) = problem(answer, 400, "invalid")["errors"]
    assert error["field"] == "kind"
    assert error["detail"].startswith('"\\ud800" does not exist. One of: topic_create, ')


def test_it_refuses_another_media_type(rows: Cluster, alice: User, client_of: Clients) -> None:
    answer = client_of(alice).post("/api/v1/clusters/local/offset-plans", {"group": "x"}, format="multipart")
    problem(answer, 415, "unsupported_media_type")
    problem(client_of(alice).get("/api/v1/clusters", HTTP_ACCEPT="text/csv"), 406, "not_acceptable")


@pytest.mark.parametrize(
    "query", ["page=0", "page=x", "per_page=201", "ordering=nonsense", "include_system=perhaps", "query=%00"]
)
def test_it_refuses_bad_parameters(rows: Cluster, carol: User, client_of: Clients, query: str) -> None:
    problem(client_of(carol).get(f"/api/v1/clusters/local/groups?{query}"), 400, "invalid")


def test_it_answers_unknown_addresses_with_a_problem(rows: Cluster, carol: User, client_of: Clients) -> None:
    problem(client_of(carol).get("/api/v1/nonsense/x"), 404, "not_found")
    # Not "no such parameter": that would send the caller after the wrong mistake.
    problem(client_of(carol).get("/api/v1/nonsense?limit=1"), 404, "not_found")
    problem(APIClient().get("/api/v1/nonsense"), 401, "not_authenticated")
    problem(client_of(carol).get("/api/v1/plans/op-nothing"), 404, "plan_not_found")
    problem(client_of(carol).get("/api/v1/jobs/job-nothing"), 404, "job_not_found")


def test_it_reports_a_silent_name_server(rows: Cluster, carol: User, client_of: Clients) -> None:
    answer = client_of(carol).get("/api/v1/clusters/local/topics/orders/messages")
    assert "127.0.0.1:1" in problem(answer, 503, "broker_unavailable")["detail"]


def test_it_throttles_per_caller_and_scope(
    rows: Cluster, alice: User, carol: User, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ScopeThrottle.RATES, "read", 3)
    client = client_of(carol)
    assert [client.get("/api/v1/clusters").status_code for _ in range(4)] == [200, 200, 200, 429]
    answer = client.get("/api/v1/clusters")
    body = problem(answer, 429, "throttled")
    assert 0 < body["retry_after_s"] <= 61
    assert body["detail"].endswith(f" Try again in {body['retry_after_s']} s.")
    assert int(answer["Retry-After"]) <= 61
    assert client_of(alice).get("/api/v1/clusters").status_code == 200, "another caller has its own count"
    assert client.post("/api/v1/plans/op-x/discard").status_code == 404, "changes are counted apart"


@pytest.mark.parametrize("body", ["[" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000])
def test_json_that_is_nested_too_deeply_is_the_callers_fault(
    rows: Cluster, alice: User, client_of: Callable[..., APIClient], body: str
) -> None:
    answer = client_of(alice).post(
        "/api/v1/clusters/local/offset-plans", body, content_type="application/json"
    )
    assert "nested" in problem(answer, 400, "malformed")["detail"]


def test_it_refuses_parameters_that_do_not_exist(rows: Cluster, carol: User, client_of: Clients) -> None:
    client = client_of(carol)
    body = problem(client.get("/api/v1/clusters/local/groups?sort=lag&per_page=1"), 400, "invalid")
    (error,) = body["errors"]
    assert error["field"] == "sort"
    assert "ordering, page, per_page, query, reading, status" in error["detail"]
    body = problem(client.get("/api/v1/clusters/local/groups/billing?verbose=1"), 400, "invalid")
    assert body["errors"][0]["detail"] == "There is no such parameter. This address accepts none."
