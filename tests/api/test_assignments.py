"""Who owns which queue, over REST: the owners that the group's page shows, with host and beginning."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from console.group import selectors
from console.lag.models import GroupMembers, QueueOwner
from tests.support import sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
URL = "/api/v1/clusters/local/groups/billing/assignments"


def test_it_has_the_owners_of_the_page(admin: User, client_of: Callable[..., APIClient]) -> None:
    sample_rows.sample()
    now_ms = time.time_ns() // 1_000_000
    GroupMembers.objects.create(cluster="local", group="billing", read_at_ms=now_ms)
    names = {"cluster": "local", "group": "billing", "topic": "orders", "broker_name": "broker-a"}
    owner = {**names, "client_id": "10.0.0.1@7", "host": "10.0.0.1"}
    QueueOwner.objects.create(**owner, queue_id=0, from_ms=5, to_ms=now_ms - 9_000)
    QueueOwner.objects.create(**owner, queue_id=0, from_ms=now_ms - 7_000)
    rows = client_of(admin).get(URL).json()["results"]
    queues = selectors.group_queues("local", "billing")
    assert [(row["queue_id"], row["client_id"] or "", row["lag"], row["read_at_ms"]) for row in rows] == [
        (queue.queue_id, queue.owner, queue.lag, queue.read_at_ms) for queue in queues
    ]
    owned = [row for row in rows if row["client_id"] == "10.0.0.1@7" and row["queue_id"] == 0]
    assert [(row["host"], row["since_ms"]) for row in owned] == [("10.0.0.1", now_ms - 7_000)]
    assert {row["since_ms"] for row in rows if row["queue_id"] != 0} == {None}
    page = Client()
    page.force_login(admin)
    text = page.get("/c/local/groups/billing").content.decode()
    assert all(row["client_id"] in text for row in rows if row["client_id"])


def test_a_queue_without_an_owner_has_none(admin: User, client_of: Callable[..., APIClient]) -> None:
    sample_rows.sample()
    sample_rows.group_row("audit")
    sample_rows.queue_row("audit", 0, owner="")
    (row,) = client_of(admin).get(URL.replace("billing", "audit")).json()["results"]
    assert (row["client_id"], row["host"], row["since_ms"], row["lag"]) == (None, None, None, 5)


def test_it_has_pages(admin: User, client_of: Callable[..., APIClient]) -> None:
    sample_rows.sample()
    client = client_of(admin)
    whole = client.get(URL).json()
    assert whole["count"] == len(whole["results"]) == 2 and whole["next"] is None
    first = client.get(f"{URL}?per_page=1").json()
    assert (first["pages"], first["next"]) == (2, f"{URL}?per_page=1&page=2")
    second = client.get(first["next"]).json()
    assert first["results"] + second["results"] == whole["results"]
