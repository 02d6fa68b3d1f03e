"""People, tokens and clients of the API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.access import services as access_services
from console.cluster.models import Cluster
from console.lag.models import BrokerRow, ClientRow, GroupRow, TopicRow
from console.lag.rows.queue_row import QueueRow, TopicQueueRow
from tests.support import people, sample_queues

AT = 1_760_000_000_000


@pytest.fixture
def rows(db: None) -> Cluster:
    """Cluster ``local`` as a round saw it: topic ``orders``, group ``billing``, dead letters; and ``secret``."""
    cluster = Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1")
    Cluster.objects.create(name="secret", namesrv_addrs="127.0.0.1:1")
    BrokerRow.objects.create(
        cluster="local", broker_name="broker-a", addr="127.0.0.1:1", answered=True, read_at_ms=AT
    )
    topics = (("orders", "NORMAL", 100), ("clicks", "NORMAL", 5), ("%DLQ%billing", "DLQ", 3))
    for topic, kind, messages in topics:
        TopicRow.objects.create(
            cluster="local",
            topic=topic,
            kind=kind,
            perm=6,
            messages=messages,
            retained_ms=60_000,
            read_at_ms=AT,
        )
    queues = (
        TopicQueueRow(
            topic=topic,
            broker_name="broker-a",
            queue_id=0,
            min_offset=0,
            max_offset=messages,
            in_rate=0.5,
            read_at_ms=AT,
        )
        for topic, _, messages in topics
    )
    sample_queues.save("local", *queues)
    for group, lag in (("billing", 7), ("audit", None)):
        GroupRow.objects.create(cluster="local", group=group, status="OK", lag=lag, read_at_ms=AT)
    sample_queues.save(
        "local",
        QueueRow(group="billing", topic="orders", broker_name="broker-a", queue_id=0, lag=7, status="OK"),
    )
    ClientRow.objects.create(cluster="local", group="billing", client_id="10.0.0.9@1", read_at_ms=AT)
    return cluster


person = partial(people.person, cluster_pattern="local")  # somebody who has one of the roles there


@pytest.fixture
def alice(db: None) -> User:
    """Operator of cluster ``local``."""
    return person("alice", "operator")


@pytest.fixture
def carol(db: None) -> User:
    """May look at cluster ``local``."""
    return person("carol", "viewer")


@pytest.fixture
def charlie(db: None) -> User:
    """Has no grant at all."""
    return User.objects.create_user("charlie")


@pytest.fixture
def admin(db: None) -> User:
    return access_services.ensure_first_person()


@pytest.fixture
def client_of() -> Callable[..., APIClient]:
    """A client with a token of that person, with all scopes the person may have, or those given."""

    def make(user: User, *scopes: str, cluster_pattern: str = "*") -> APIClient:
        _, key = access_services.create_token(
            owner=user, name="test", scopes=scopes or ("ADMIN",), cluster_pattern=cluster_pattern
        )
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
        return client

    return make


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is that problem document and return it."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert (body["status"], body["code"], body["type"]) == (status, code, f"/api/problems/{code}")
    assert body["title"] and body["detail"] and body["instance"]
    return body
