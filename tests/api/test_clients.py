"""The clients of a cluster over REST: members of every group that the caller may see."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.access import services as access_services
from console.lag.models import ClientRow
from tests.api.conftest import AT, problem
from tests.support import sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
Clients = Callable[..., APIClient]
URL = "/api/v1/clusters/local/clients"


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    sample_rows.cluster()
    members = (
        ("billing", "10.0.0.9@1", "JAVA", "V4_9_8", 30),
        ("billing", "10.0.0.8@1", "PYTHON", "V5_3_0", None),
        ("audit", "10.0.0.7@1", "GO", "V5_3_0", 10),
    )
    for group, client_id, language, version, started_at_ms in members:
        ClientRow.objects.create(
            cluster="local",
            group=group,
            client_id=client_id,
            address=client_id.partition("@")[0],
            language=language,
            version=version,
            queues=[{"topic": "orders", "broker_name": "broker-a", "queue_id": 0}],
            started_at_ms=started_at_ms,
            read_at_ms=AT,
        )
    ClientRow.objects.create(cluster="secret", group="billing", client_id="elsewhere", read_at_ms=AT)


def ids(client: APIClient, query: str = "") -> list[str]:
    return [row["client_id"] for row in client.get(f"{URL}?{query}").json()["results"]]


def test_it_lists_the_members_of_every_group(admin: User, client_of: Clients) -> None:
    client = client_of(admin)
    body = client.get(URL).json()
    assert (body["count"], body["not_shown"], body["next"]) == (3, 0, None)
    assert [(row["group"], row["client_id"]) for row in body["results"]] == [
        ("audit", "10.0.0.7@1"),
        ("billing", "10.0.0.8@1"),
        ("billing", "10.0.0.9@1"),
    ]
    assert body["results"][0] == {
        "group": "audit",
        "client_id": "10.0.0.7@1",
        "address": "10.0.0.7",
        "proxy": "",
        "language": "GO",
        "version": "V5_3_0",
        "queues": [{"topic": "orders", "broker_name": "broker-a", "queue_id": 0}],
        "subscription": {},
        "model": "",
        "consume_mode": "",
        "lag": None,
        "lag_lower_bound": False,
        "started_at_ms": 10,
        "reason": "the last round did not have this client as the owner of a queue yet",
        "read_at_ms": AT,
    }


def test_it_searches_and_orders(admin: User, client_of: Clients) -> None:
    client = client_of(admin)
    assert ids(client, "query=V5_3&ordering=-group") == ["10.0.0.8@1", "10.0.0.7@1"]
    assert ids(client, "query=python") == ["10.0.0.8@1"]
    assert ids(client, "query=aud") == ["10.0.0.7@1"]
    assert ids(client, "ordering=-started") == ["10.0.0.9@1", "10.0.0.7@1", "10.0.0.8@1"]
    assert ids(client, "ordering=started&per_page=1&page=3") == ["10.0.0.8@1"]
    (row,) = client.get(f"{URL}?query=9@&fields=client_id,version").json()["results"]
    assert row == {"client_id": "10.0.0.9@1", "version": "V4_9_8"}


def test_a_caller_of_some_names_has_no_other(admin: User, client_of: Clients) -> None:
    erin = User.objects.create_user("erin")
    access_services.grant(role="viewer", user=erin, cluster_pattern="local", name_pattern="bill*")
    body = client_of(erin).get(URL).json()
    assert {row["group"] for row in body["results"]} == {"billing"}
    assert (body["count"], body["not_shown"]) == (2, 1)
    problem(client_of(User.objects.create_user("none")).get(URL), 404, "not_found")


def test_a_file_has_all_of_them(admin: User, client_of: Clients) -> None:
    answer = client_of(admin).get(f"{URL}?format=csv&ordering=client&per_page=1")
    head, *lines = b"".join(answer.streaming_content).decode().splitlines()
    assert head == (
        "client_id,group,address,language,version,model,consume_mode,queue_count,lag,lag_lower_bound,"
        "started_at_ms,proxy,reason,read_at_ms"
    )
    assert [line.split(",")[0] for line in lines] == ["10.0.0.7@1", "10.0.0.8@1", "10.0.0.9@1"]
    assert answer["Content-Disposition"] == 'attachment; filename="local-clients.csv"'
