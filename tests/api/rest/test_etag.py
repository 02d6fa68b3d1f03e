"""Tags of answers: 304 while the body is the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.access.models import Grant
from console.cluster.models import Cluster
from console.lag.models import GroupRow

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
GROUPS = "/api/v1/clusters/local/groups"


def test_an_answer_is_sent_again_only_when_it_changed(
    rows: Cluster, alice: User, client_of: Callable[..., APIClient]
) -> None:
    client = client_of(alice)
    first = client.get(GROUPS)
    tag = first["ETag"]
    assert tag.startswith('W/"') and first["Cache-Control"] == "private, no-cache"
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        same = client.get(GROUPS, headers={"If-None-Match": known})
        assert (same.status_code, same.content, same["ETag"]) == (304, b"", tag)
        assert "Cookie" in same["Vary"]
    assert client.head(GROUPS)["ETag"] == tag
    assert client.get(GROUPS, headers={"If-None-Match": '"other"'}).status_code == 200
    GroupRow.objects.filter(group="billing").update(lag=8)
    changed = client.get(GROUPS, headers={"If-None-Match": tag})
    assert changed.status_code == 200 and changed["ETag"] != tag


def test_each_choice_of_rows_has_its_own_tag(
    rows: Cluster, alice: User, client_of: Callable[..., APIClient]
) -> None:
    client = client_of(alice)
    addresses = [GROUPS, f"{GROUPS}?fields=group", f"{GROUPS}?query=bill", f"{GROUPS}/billing"]
    assert len({client.get(address)["ETag"] for address in addresses}) == len(addresses)


def test_a_right_taken_away_is_no_304(
    rows: Cluster, alice: User, client_of: Callable[..., APIClient]
) -> None:
    client = client_of(alice)
    tag = client.get(GROUPS)["ETag"]
    Grant.objects.filter(user=alice).delete()
    assert client.get(GROUPS, headers={"If-None-Match": tag}).status_code == 404


def test_refusals_files_and_changes_have_no_tag(
    rows: Cluster, alice: User, client_of: Callable[..., APIClient]
) -> None:
    client = client_of(alice)
    answers = [
        client.get(f"{GROUPS}/nothing"),
        client.get(f"{GROUPS}?format=csv"),
        client.post("/api/v1/tokens", {"name": "t", "scopes": ["VIEW"]}, format="json"),
    ]
    assert [answer.status_code for answer in answers] == [404, 200, 403]
    assert not any("ETag" in answer for answer in answers)
