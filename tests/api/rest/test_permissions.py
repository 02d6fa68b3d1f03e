"""Who may call what: strangers, readers, tokens that say less than their owner may, wrong methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from api.rest.resource import Resource
from api.urls import RESOURCES
from console.cluster.models import Cluster
from tests.api.conftest import person, problem

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("refusals before anything is read; what is read has tests of its own"),
]
Clients = Callable[..., APIClient]

READS = [
    "clusters",
    "clusters/local",
    "clusters/local/brokers",
    "clusters/local/topics",
    "clusters/local/topics/orders",
    "clusters/local/topics/orders/queues",
    "clusters/local/topics/orders/groups",
    "clusters/local/groups",
    "clusters/local/groups/billing",
    "clusters/local/groups/billing/queues",
    "clusters/local/groups/billing/clients",
    "clusters/local/dead-letters",
    "clusters/local/plans",
    "clusters/local/jobs",
    "tokens",
    "audit?cluster=local",
]
OFFSETS = {"group": "billing", "target": "latest"}
REPLAY = {"group": "billing", "target": "failed_group"}


@pytest.mark.parametrize("path", READS)
def test_it_reads_with_a_read_only_token(rows: Cluster, carol: User, client_of: Clients, path: str) -> None:
    assert client_of(carol, "VIEW").get(f"/api/v1/{path}").status_code == 200


@pytest.mark.parametrize("path", READS)
def test_it_asks_strangers_to_sign_in(rows: Cluster, path: str) -> None:
    response = APIClient().get(f"/api/v1/{path}")
    problem(response, 401, "not_authenticated")
    assert response["WWW-Authenticate"] == 'Bearer realm="tidemark"'


@pytest.mark.parametrize("path", [path for path in READS if path.startswith("clusters/local")])
def test_it_hides_clusters_from_people_without_a_grant(
    rows: Cluster, charlie: User, client_of: Clients, path: str
) -> None:
    problem(client_of(charlie, "VIEW").get(f"/api/v1/{path}"), 404, "not_found")


def test_it_lists_only_visible_clusters(
    rows: Cluster, carol: User, charlie: User, client_of: Clients
) -> None:
    assert [each["name"] for each in client_of(carol).get("/api/v1/clusters").json()["results"]] == ["local"]
    assert client_of(charlie).get("/api/v1/clusters").json()["results"] == []
    assert client_of(carol, cluster_pattern="prod-*").get("/api/v1/clusters").json()["results"] == []


@pytest.mark.parametrize("path", READS)
def test_it_answers_405_to_a_method_it_does_not_have(
    rows: Cluster, carol: User, client_of: Clients, path: str
) -> None:
    for method in ("put", "patch", "options"):
        problem(getattr(client_of(carol), method)(f"/api/v1/{path}"), 405, "method_not_allowed")


@pytest.mark.parametrize(("path", "body"), [("offset-plans", OFFSETS), ("replay-plans", REPLAY)])
def test_it_refuses_changes_to_readers(
    rows: Cluster, alice: User, carol: User, client_of: Clients, path: str, body: dict[str, str]
) -> None:
    for client in (client_of(carol), client_of(alice, "VIEW"), client_of(alice, "SEND")):
        problem(client.post(f"/api/v1/clusters/local/{path}", body, format="json"), 403, "not_permitted")
    problem(client_of(alice).post(f"/api/v1/clusters/secret/{path}", body, format="json"), 404, "not_found")


def test_it_needs_the_verb_of_the_change_itself(rows: Cluster, alice: User, client_of: Clients) -> None:
    url = "/api/v1/clusters/local/"
    problem(client_of(alice, "RESET").post(url + "replay-plans", REPLAY, format="json"), 403, "not_permitted")
    problem(
        client_of(alice, "REPLAY").post(url + "offset-plans", OFFSETS, format="json"), 403, "not_permitted"
    )
    # With the verb it gets as far as the (absent) name server:
    problem(
        client_of(alice, "RESET").post(url + "offset-plans", OFFSETS, format="json"),
        503,
        "broker_unavailable",
    )


def test_it_keeps_names_to_their_pattern(rows: Cluster, client_of: Clients) -> None:
    dora = person("dora", "operator", name_pattern="bill*")
    client = client_of(dora)
    assert client.get("/api/v1/clusters/local/groups/billing").status_code == 200
    problem(client.get("/api/v1/clusters/local/groups/audit"), 404, "not_found")
    listed = client.get("/api/v1/clusters/local/groups").json()
    assert [row["group"] for row in listed["results"]] == ["billing"]
    assert listed["count"] == 1
    assert listed["not_shown"] > 0
    body = {"group": "audit", "target": "latest"}
    problem(client.post("/api/v1/clusters/local/offset-plans", body, format="json"), 403, "not_permitted")


@pytest.mark.parametrize("key", ["tm_wrong", "", "tm_" + "x" * 500, "tm_ä"])
def test_it_refuses_a_wrong_key_even_where_a_session_would_do(rows: Cluster, alice: User, key: str) -> None:
    client = APIClient()
    client.force_login(alice)
    response = client.get("/api/v1/clusters", HTTP_AUTHORIZATION=f"Bearer {key}".encode().decode("latin-1"))
    problem(response, 401, "authentication_failed")


def test_it_accepts_the_session_of_a_browser_with_its_csrf_token_only(rows: Cluster, alice: User) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(alice)
    assert client.get("/api/v1/clusters/local/groups").status_code == 200
    url = "/api/v1/clusters/local/offset-plans"
    problem(client.post(url, OFFSETS, format="json"), 403, "not_permitted")


def test_it_needs_admin_to_add_a_cluster(rows: Cluster, alice: User, client_of: Clients) -> None:
    body = {"name": "new", "namesrv_addrs": "127.0.0.1:1"}
    problem(client_of(alice).post("/api/v1/clusters", body, format="json"), 403, "not_permitted")


def test_it_reports_a_wrong_name_server(rows: Cluster, admin: User, client_of: Clients) -> None:
    body = {"name": "new", "namesrv_addrs": "127.0.0.1:1"}
    answer = client_of(admin).post("/api/v1/clusters", body, format="json")
    assert problem(answer, 422, "name_server_unreachable")["field"] == "namesrv_addrs"
    answer = client_of(admin).post("/api/v1/clusters", {**body, "name": "local"}, format="json")
    assert problem(answer, 422, "cluster_name_taken")["field"] == "name"


def test_it_has_a_verb_for_every_method_of_every_view() -> None:
    """Deny by default is no excuse for a forgotten verb, and a verb without a method is a typing error."""
    for module in RESOURCES:
        for pattern in module.urlpatterns:
            view: Any = pattern.callback.cls  # type: ignore[attr-defined]
            assert issubclass(view, Resource), view
            methods = {name.upper() for name in view.http_method_names if hasattr(view, name)} - {"HEAD"}
            assert methods == set(view.verbs), view


def test_it_serves_nothing_under_api_without_a_permission() -> None:
    def views(patterns: list[Any]) -> list[Any]:
        found = []
        for each in patterns:
            if isinstance(each, URLResolver):
                found += views(each.url_patterns)
            elif isinstance(each, URLPattern):
                found.append(each.callback.cls)  # type: ignore[attr-defined]
        return found

    api = next(each for each in get_resolver().url_patterns if str(each.pattern) == "api/")
    for view in views(api.url_patterns):
        assert view.permission_classes and "AllowAny" not in str(view.permission_classes), view
