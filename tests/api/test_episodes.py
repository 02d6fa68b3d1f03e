"""Episodes by REST: which are listed, what each says, who sees which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.cluster.models import Cluster
from console.lag.models import Episode, HistoryGap, LagEvent
from console.text import Text

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
AT = 1_760_000_000_000
MINUTE = 60_000
ADDRESS = "/api/v1/clusters/local/episodes"


def episode(name: str, group: str, start_ms: int, end_ms: int, **figures: Any) -> None:
    values: dict[str, Any] = {
        "cluster": "local", "topic": "orders", "kind": "stall", "state": "OVER", "seen_ms": end_ms,
        "bad_ms": end_ms - start_ms, "slo_ms": 60_000, "target": 0.99, **figures,
    }  # fmt: skip
    Episode.objects.create(id=name, group=group, start_ms=start_ms, end_ms=end_ms, **values)


@pytest.fixture
def reader(rows: Cluster, carol: User, client_of: Callable[[User], APIClient]) -> APIClient:
    episode("a", "billing", AT, AT + 10 * MINUTE, kind="breach", forecast_at_ms=AT, forecast_ms=5 * MINUTE)
    episode("b", "billing", AT + 5 * MINUTE, AT + 20 * MINUTE, state="UNKNOWN")
    episode("c", "audit", AT + 30 * MINUTE, AT + 31 * MINUTE)
    episode("d", "billing", AT, AT + MINUTE, cluster="secret")
    return client_of(carol)


def names(reader: APIClient, query: str = "") -> list[str]:
    answer = reader.get(f"{ADDRESS}?{query}")
    assert answer.status_code == 200, answer.content
    return [one["id"] for one in answer.json()["results"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["c", "b", "a"]),
        ("state=OPEN", ["b"]),
        ("state=OVER&kind=breach", ["a"]),
        ("name=aud", ["c"]),
        (f"to_ms={AT + 1}", ["a"]),
        # one that is not over touches every window after its start
        (f"from_ms={AT + 60 * MINUTE}", ["b"]),
        ("per_page=1&page=2", ["b"]),
    ],
)
def test_it_lists_those_that_were_asked_for(reader: APIClient, query: str, expected: list[str]) -> None:
    assert names(reader, query) == expected


def test_each_says_how_it_went(reader: APIClient) -> None:
    (found,) = reader.get(f"{ADDRESS}?kind=breach").json()["results"]
    expected = {
        "id": "a", "duration_ms": 10 * MINUTE, "recovered_ms": 10 * MINUTE, "forecast_ms": 5 * MINUTE, "state": "OVER",
        "budget_burnt": pytest.approx(600 / (0.01 * 28 * 86_400)), "is_intentional": False,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("query", ["state=FINE", "kind=late", "from_ms=yesterday"])
def test_it_refuses_what_it_does_not_know(reader: APIClient, query: str) -> None:
    assert reader.get(f"{ADDRESS}?{query}").status_code == 400


def test_each_lists_what_happened_in_it(reader: APIClient) -> None:
    def event(kind: str, minute: int, **figures: Any) -> None:
        values: dict[str, Any] = {"cluster": "local", "group": "billing", "kind": kind, **figures}
        LagEvent.objects.create(at_ms=AT + minute * MINUTE, **values)

    event("REWIND", -9, topic="orders", messages=40, cause=Text("plan plan-1, applied by carol"))
    event("REWIND", -11, topic="orders")  # too long before
    event("REWIND", 1, topic="clicks")  # another topic
    event("MEMBERS", 2, from_offset=2, messages=1, members={"left": {"count": 1, "names": ["c1"]}})
    event("BROKER_RESTART", 3, group="", broker_name="broker-a")
    event("BROKER_RESTART", 3, group="", broker_name="broker-of-others")
    HistoryGap.objects.create(
        cluster="local", broker_name="broker-a", from_ms=AT - MINUTE * 30, reason=Text("away")
    )
    (found,) = reader.get(f"{ADDRESS}?kind=breach").json()["results"]
    assert [(one["kind"], one["at_ms"] - AT, one["to_ms"]) for one in found["happened"]] == [
        ("SILENT", -30 * MINUTE, None),
        ("REWIND", -9 * MINUTE, None),
        ("MEMBERS", 2 * MINUTE, None),
        ("BROKER_RESTART", 3 * MINUTE, None),
    ]
    assert found["happened"][2]["left"] == {"count": 1, "names": ["c1"]}
    assert (found["happened"][2]["clients_before"], found["happened"][2]["clients"]) == (2, 1)
    assert found["happened_lower_bound"] is False
    for minute in range(9):
        event("LOST", minute, topic="orders", messages=minute)
    (found,) = reader.get(f"{ADDRESS}?kind=breach").json()["results"]
    assert len(found["happened"]) == 12 and found["happened_lower_bound"] is True
    assert found["happened"][-1]["messages"] == 8
