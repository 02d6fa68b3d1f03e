"""Clusters over REST: an unknown one is a sentence that names those of the caller, as the page has it."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from console.cluster.models import Cluster
from tests.api.conftest import problem

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("a sentence, wherever clusters are looked up"),
]
NONE = "The cluster nowhere does not exist, or you may not view it."
PATHS = ("nowhere", "nowhere/groups", "nowhere/groups/billing", "nowhere/findings")


def sentences(user: User, client: APIClient, path: str) -> tuple[str, str]:
    """Return the detail that REST gives, and what the page says."""
    answer = client.get(f"/api/v1/clusters/{path}")
    code = answer.json()["code"]
    page = Client()
    page.force_login(user)
    shown = page.get("/c/nowhere/")
    assert shown.status_code == 404
    detail: str = problem(answer, 404, code)["detail"]
    return detail, unescape(shown.content.decode())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("person", "names"), [("admin", " You may view local and secret."), ("carol", " You may view local.")]
)
def test_an_unknown_cluster_is_a_sentence(
    request: pytest.FixtureRequest,
    rows: Cluster,
    client_of: Callable[..., APIClient],
    path: str,
    person: str,
    names: str,
) -> None:
    user: User = request.getfixturevalue(person)
    detail, page = sentences(user, client_of(user), path)
    assert detail == NONE + names
    assert detail in page


def test_a_person_without_a_cluster_reads_no_name(rows: Cluster, charlie: User) -> None:
    client = APIClient()
    client.force_authenticate(charlie)
    detail, page = sentences(charlie, client, "nowhere")
    assert detail == NONE
    assert "local" not in detail and NONE in page
