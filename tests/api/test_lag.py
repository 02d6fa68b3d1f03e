"""Lag over time by REST: shape, limits, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.cluster.models import Cluster
from console.lag.models import GroupSlo, LagEvent, QueueOwner
from console.lag.past import by_client
from console.text import Text

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("history in files"),
]
BASE = "/api/v1/clusters/local/groups/billing"


@pytest.fixture
def reader(carol: User, client_of: Callable[[User], APIClient]) -> APIClient:
    return client_of(carol)


WINDOW = "from_ms=1700000000000&to_ms=1700003600000"


@pytest.mark.parametrize("name", ["lag", "latency", "throughput", "by-client"])
def test_it_answers_for_a_window_without_data(rows: Cluster, reader: APIClient, name: str) -> None:
    found = reader.get(f"{BASE}/{name}?{WINDOW}")
    assert found.status_code == 200
    assert found.json()["interval_ms"] == 5_000


def test_it_judges_by_the_promise_in_force_at_the_end(rows: Cluster, reader: APIClient) -> None:
    for slo_ms, target, from_ms in (
        (7_000, 0.5, 0),
        (9_000, 0.75, 1_700_003_600_000),
        (None, None, 1_700_003_600_001),
    ):
        GroupSlo.objects.create(
            cluster="local", group="billing", slo_ms=slo_ms, target=target, from_ms=from_ms
        )
    found = reader.get(f"{BASE}/latency?{WINDOW}").json()
    assert (found["slo_ms"], found["target"]) == (9_000, 0.75)
    assert reader.get(f"{BASE}/by-client?{WINDOW}").json()["slo_ms"] == 9_000
    asked = reader.get(f"{BASE}/latency?{WINDOW}&slo_ms=5&target=0.25").json()
    assert (asked["slo_ms"], asked["target"]) == (5, 0.25)
    assert reader.get(f"{BASE}/by-client?{WINDOW}&slo_ms=5").json()["slo_ms"] == 5
    later = reader.get(f"{BASE}/latency?from_ms=1700000000000&to_ms=1700003600001").json()
    assert (later["slo_ms"], later["target"]) == (60_000, 0.99)


@pytest.mark.both_databases("owners' claims are rows")
def test_it_lists_who_owned_which_queue(
    rows: Cluster, reader: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def owned(queue_id: int, client_id: str, from_s: int, to_s: int, topic: str = "orders") -> None:
        QueueOwner.objects.create(
            cluster="local",
            group="billing",
            topic=topic,
            broker_name="broker-a",
            queue_id=queue_id,
            client_id=client_id,
            host="10.0.0.1",
            from_ms=1_700_000_000_000 + from_s * 1_000,
            to_ms=1_700_000_000_000 + to_s * 1_000,
        )

    owned(1, "before", -90, 0)
    owned(1, "c-1", -90, 600)
    owned(1, "c-2", 630, 9_000)
    owned(0, "c-1", 5, 10, "parcels")
    owned(1, "later", 3_600, 9_000)
    found = reader.get(f"{BASE}/owner-history?{WINDOW}").json()
    assert [one["client_id"] for one in found["tenures"]] == ["c-1", "c-1", "c-2"] and not found["is_cut"]
    (last,) = reader.get(f"{BASE}/owner-history?{WINDOW}&topic=orders").json()["tenures"][1:]
    assert last == {
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": 1,
        "client_id": "c-2",
        "host": "10.0.0.1",
        "from_ms": 1_700_000_630_000,
        "to_ms": 1_700_009_000_000,
        "is_claim": False,
    }
    QueueOwner.objects.filter(client_id="c-2").update(is_claim=True)
    (last,) = reader.get(f"{BASE}/owner-history?{WINDOW}&topic=orders").json()["tenures"][1:]
    assert (last["client_id"], last["is_claim"]) == ("c-2", True)
    monkeypatch.setattr("api.lag.TENURES_MAX", 1)
    cut = reader.get(f"{BASE}/owner-history?{WINDOW}").json()
    assert cut["is_cut"] and len(cut["tenures"]) == 1
    assert reader.get(f"{BASE}/owner-history?from_ms=1&to_ms=1700000000000").status_code == 400


def test_it_shows_markers(rows: Cluster, reader: APIClient) -> None:
    LagEvent.objects.create(
        cluster="local",
        group="billing",
        topic="orders",
        kind="REWIND",
        at_ms=1_700_000_000_005,
        cause=Text("plan 7"),
    )
    (marker,) = reader.get(f"{BASE}/lag?{WINDOW}").json()["markers"]
    assert (marker["kind"], marker["cause"], marker["at_ms"]) == ("REWIND", "plan 7", 1_700_000_000_005)


def test_it_says_how_many_clients_there_were(rows: Cluster, reader: APIClient) -> None:
    for at_ms, was, now in ((1_699_999_999_000, 9, 3), (1_700_000_000_005, 3, 5), (1_700_003_600_000, 5, 0)):
        LagEvent.objects.create(
            cluster="local", group="billing", kind="MEMBERS", at_ms=at_ms, from_offset=was, messages=now
        )
    found = reader.get(f"{BASE}/lag?{WINDOW}").json()
    assert (found["clients_min"], found["clients_max"]) == (3, 5)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("lag?from_ms=5&to_ms=5", "from_ms"),
        ("lag?from_ms=0&to_ms=2678400001", "from_ms"),
        ("lag?points=3", "points"),
        ("throughput?points=2001", "points"),
        ("latency?from_ms=0&to_ms=604800001", "from_ms"),
        ("latency?slo_ms=0", "slo_ms"),
        ("by-client?from_ms=0&to_ms=604800001", "from_ms"),
        ("by-client?points=121", "points"),
        ("by-client?slo_ms=0", "slo_ms"),
        ("latency?target=1", "target"),
        ("latency?target=much", "target"),
    ],
)
def test_it_names_the_field_that_is_wrong(rows: Cluster, reader: APIClient, query: str, field: str) -> None:
    found: Any = reader.get(f"{BASE}/{query}")
    assert found.status_code == 400
    assert field in str(found.json())


@pytest.mark.parametrize("name", ["lag", "latency", "throughput", "by-client"])
def test_it_hides_groups_of_others(rows: Cluster, reader: APIClient, name: str) -> None:
    assert reader.get(f"/api/v1/clusters/local/groups/nobody/{name}").status_code == 404
    assert reader.get(f"/api/v1/clusters/secret/groups/billing/{name}").status_code in (403, 404)
    assert reader.post(f"{BASE}/{name}").status_code == 405


def test_it_names_the_field_when_owners_changed_too_often(
    rows: Cluster, reader: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_client, "CHANGES_MAX", 1)
    for number in range(2):
        QueueOwner.objects.create(
            cluster="local",
            group="billing",
            topic="orders",
            broker_name="broker-a",
            queue_id=number,
            client_id="app-1",
            from_ms=1_700_000_000_001 + number,
            to_ms=1_700_003_600_000,
        )
    found = reader.get(f"{BASE}/by-client?{WINDOW}")
    assert found.status_code == 400
    assert "changed 2 times, at most 1" in str(found.json())
    assert "shorter window" in str(found.json())
