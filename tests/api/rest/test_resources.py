"""What the read resources answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from console.access.models import ApiToken, AuditEvent
from console.cluster.models import Cluster
from console.lag.models import GroupRow
from tests.api.conftest import person, problem

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
Clients = Callable[..., APIClient]


@pytest.fixture
def reader(rows: Cluster, carol: User, client_of: Clients) -> APIClient:
    return client_of(carol, "VIEW")


def test_it_pages_groups(reader: APIClient) -> None:
    GroupRow.objects.bulk_create(
        [GroupRow(cluster="local", group=f"g{number:02d}", status="OK", lag=number) for number in range(20)]
    )
    body = reader.get("/api/v1/clusters/local/groups?ordering=group&per_page=10&page=2").json()
    assert (body["count"], body["page"], body["pages"]) == (22, 2, 3)
    assert [row["group"] for row in body["results"]][:2] == ["g08", "g09"]
    assert body["next"] == "/api/v1/clusters/local/groups?ordering=group&per_page=10&page=3"
    assert body["previous"] == "/api/v1/clusters/local/groups?ordering=group&per_page=10&page=1"
    most = reader.get("/api/v1/clusters/local/groups?ordering=-lag&per_page=1").json()["results"][0]
    assert (most["group"], most["lag"]) == ("g19", 19)


def test_it_says_null_for_unknown_never_zero(reader: APIClient) -> None:
    assert reader.get("/api/v1/clusters/local/groups/audit").json()["lag"] is None
    assert reader.get("/api/v1/clusters/local/groups/billing").json()["lag"] == 7


def test_it_filters_topics_by_kind_and_name(reader: APIClient) -> None:
    def names(query: str) -> list[str]:
        rows = reader.get(f"/api/v1/clusters/local/topics?{query}").json()["results"]
        return [row["topic"] for row in rows]

    assert names("") == ["clicks", "orders"]
    assert names("kind=DLQ") == ["%DLQ%billing"]
    assert names("kind=&query=ill") == ["%DLQ%billing"]
    assert names("ordering=-messages") == ["orders", "clicks"]


def test_it_finds_names_with_percent_signs(reader: APIClient) -> None:
    assert reader.get("/api/v1/clusters/local/topics/%25DLQ%25billing").json()["messages"] == 3


def test_it_lists_dead_letters(reader: APIClient) -> None:
    page = reader.get("/api/v1/clusters/local/dead-letters?ordering=-count").json()
    (row,) = page["results"]
    assert (page["count"], row["group"], row["count"], row["readable"]) == (1, "billing", 3, True)
    assert (row["growth_per_h"], row["expires_ms"], row["causes"]) == (None, None, []), "unknown is not zero"
    assert row["oldest_ms"] == 1_760_000_000_000 - 60_000


def test_it_keeps_list_queries_few(reader: APIClient) -> None:
    with (
        CaptureQueriesContext(connections["default"]) as people,
        CaptureQueriesContext(connections["metrics"]) as data,
    ):
        reader.get("/api/v1/clusters/local/groups")
    # who is paused, how often rounds take place and the newest round are among them
    assert len(people) <= 6 and len(data) <= 4


def test_it_makes_a_token_and_shows_its_key_once(alice: User, client_of: Clients) -> None:
    client = APIClient()
    client.force_login(alice)
    made = client.post("/api/v1/tokens", {"name": "ci", "scopes": ["VIEW"]}, format="json")
    assert made.status_code == 201
    key = made.json()["key"]
    assert key.startswith("tm_")
    listed = client.get("/api/v1/tokens").json()["results"]
    assert [(row["name"], row["prefix"]) for row in listed] == [("ci", key[:12])]
    assert "key" not in listed[0] and "key_sha256" not in listed[0]
    assert key not in str(ApiToken.objects.values_list())
    script = APIClient()
    script.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
    assert script.get("/api/v1/clusters").status_code == 200
    assert client.delete(f"/api/v1/tokens/{key[:12]}").status_code == 204
    problem(script.get("/api/v1/clusters"), 401, "authentication_failed")


def test_it_lets_no_token_make_a_stronger_one(alice: User, admin: User, client_of: Clients) -> None:
    body = {"name": "more", "scopes": ["ADMIN"]}
    problem(client_of(alice, "RESET").post("/api/v1/tokens", body, format="json"), 403, "not_permitted")
    problem(client_of(admin, "VIEW").post("/api/v1/tokens", body, format="json"), 403, "not_permitted")
    assert client_of(admin, "ADMIN").post("/api/v1/tokens", body, format="json").status_code == 201


def test_it_hides_other_peoples_tokens(alice: User, carol: User, client_of: Clients) -> None:
    client_of(alice)
    prefix = ApiToken.objects.get(owner=alice).prefix
    client = APIClient()
    client.force_login(carol)
    assert client.get("/api/v1/tokens").json()["results"] == []
    problem(client.delete(f"/api/v1/tokens/{prefix}"), 404, "not_found")


def test_it_reads_the_audit_with_a_cursor(
    rows: Cluster, admin: User, carol: User, client_of: Clients
) -> None:
    client = client_of(admin)
    for number in range(5):
        client.post("/api/v1/tokens", {"name": f"t{number}", "scopes": ["VIEW"]}, format="json")
    first = client.get("/api/v1/audit?per_page=4").json()
    client.post("/api/v1/tokens", {"name": "meanwhile", "scopes": ["VIEW"]}, format="json")
    second = client.get(first["next"]).json()
    assert [event["verb"] for event in first["results"]] == ["create token"] * 4
    assert {event["id"] for event in first["results"]}.isdisjoint(
        {event["id"] for event in second["results"]}
    )
    older = AuditEvent.objects.filter(pk__lt=first["results"][-1]["id"]).order_by("-pk")
    assert [each["id"] for each in second["results"]] == [event.pk for event in older]
    assert (second["next"], second["cursor"]) == (None, None)
    problem(client.get("/api/v1/audit?cursor=nonsense"), 400, "bad_cursor")
    problem(client.get(f"/api/v1/audit?page=2&cursor={first['cursor']}"), 400, "invalid")
    problem(client_of(carol).get("/api/v1/audit"), 403, "not_permitted")
    assert client_of(person("dora", "viewer", cluster_pattern="*")).get("/api/v1/audit").status_code == 200
    problem(client_of(carol).get("/api/v1/audit?cluster=secret"), 404, "not_found")
