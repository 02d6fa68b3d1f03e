"""Findings over REST: those of the pages, of the names that a caller may see, and how old they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from console.access import services as access_services
from console.lag.models import GroupRow, Round, TopicRow
from console.overview import selectors
from tests.support import sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
URL = "/api/v1/clusters/local"


@pytest.fixture(autouse=True)
def world(db: None) -> Iterator[None]:
    sample_rows.sample()
    yield


@pytest.fixture
def page(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def client(admin: User, client_of: Callable[..., APIClient]) -> APIClient:
    return client_of(admin)


def findings(client: APIClient, path: str) -> list[dict[str, Any]]:
    answer = client.get(f"{URL}/{path}")
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def shows(page: Client, path: str, found: list[dict[str, Any]]) -> bool:
    """Return whether a page has the title and text of each finding, of which it breaks no duration."""
    text = unescape(page.get(path).content.decode()).replace("\N{NO-BREAK SPACE}", " ")
    return all(one["title"] in text and one["text"] in text for one in found)


def test_the_cluster_has_those_of_its_overview(client: APIClient, page: Client) -> None:
    found = findings(client, "findings")
    subjects = {(one["status"], one["group"], one["broker_name"]) for one in found}
    assert {("FALLING_BEHIND", "analytics", ""), ("UNKNOWN", "", "broker-b")} <= subjects
    assert shows(page, "/c/local/", found)
    behind = next(one for one in found if one["group"] == "analytics")
    assert behind["since_ms"] == sample_rows.NOW_MS - 60_000
    assert str(selectors.ADVICE["FALLING_BEHIND"]) in behind["text"]


def test_it_has_those_that_the_overview_only_counts(client: APIClient, page: Client) -> None:
    for number in range(selectors.FINDINGS_SHOWN + 1):
        sample_rows.group_row(f"late-{number}", status="STALLED", lag=1, reason="")
    found = findings(client, "findings")
    titles = [one["title"] for one in found]
    assert {f"late-{number}: has stalled" for number in range(selectors.FINDINGS_SHOWN + 1)} <= set(titles)
    assert f"{len(found) - selectors.FINDINGS_SHOWN} more" in page.get("/c/local/").content.decode()


def test_a_caller_of_some_names_has_no_other(client: APIClient, client_of: Callable[..., APIClient]) -> None:
    GroupRow.objects.filter(group="billing").update(status="STALLED")
    erin = User.objects.create_user("erin")
    access_services.grant(role="viewer", user=erin, cluster_pattern="local", name_pattern="billing")
    hers = client_of(erin)
    assert {one["group"] for one in findings(client, "findings")} == {"", "billing", "analytics"}
    assert {one["group"] for one in findings(hers, "findings")} == {"", "billing"}
    assert hers.get(f"{URL}/groups/analytics/findings").status_code == 404


def test_a_group_has_those_of_its_page(client: APIClient, page: Client) -> None:
    found = findings(client, "groups/analytics/findings")
    assert "FALLING_BEHIND" in {one["status"] for one in found}
    assert shows(page, "/c/local/groups/analytics?part=findings", found)


def test_a_topic_has_those_of_its_page(client: APIClient, page: Client) -> None:
    TopicRow.objects.filter(topic="orders").update(perm=2)
    found = findings(client, "topics/orders/findings")
    assert [one["status"] for one in found] == ["STOPPED", "FALLING_BEHIND"]
    assert shows(page, "/c/local/topics/orders", found)


def test_they_are_of_the_last_round(client: APIClient) -> None:
    now_ms = time.time_ns() // 1_000_000

    def ages() -> set[tuple[object, object]]:
        paths = ("findings", "groups/analytics/findings", "topics/orders/findings")
        bodies = [client.get(f"{URL}/{path}").json() for path in paths]
        return {(body["as_of_ms"], body["is_current"]) for body in bodies}

    Round.objects.update(started_at_ms=now_ms - 1_000, duration_ms=200)
    assert ages() == {(now_ms - 800, True)}
    Round.objects.update(started_at_ms=now_ms - 3_600_000)
    assert ages() == {(now_ms - 3_599_800, False)}
    Round.objects.all().delete()
    assert ages() == {(None, False)}


def test_fields_are_those_of_a_finding(client: APIClient) -> None:
    assert all(set(one) == {"title"} for one in findings(client, "findings?fields=title"))


def test_findings_have_pages(client: APIClient) -> None:
    for path in ("findings", "groups/analytics/findings"):
        whole = client.get(f"{URL}/{path}").json()
        assert whole["count"] == len(whole["results"]) >= 1
        paged = [
            client.get(f"{URL}/{path}?per_page=1&page={number + 1}").json()
            for number in range(whole["count"])
        ]
        assert [one for page in paged for one in page["results"]] == whole["results"]
        assert {page["as_of_ms"] for page in paged} == {whole["as_of_ms"]}
        assert paged[-1]["next"] is None and paged[-1]["pages"] == whole["count"]
