"""Facts to alert on: what is known, what is null, who sees which."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.cluster.models import Cluster
from console.lag.models import GroupRow, GroupSlo, PromiseCourse, Round

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
ADDRESS = "/api/v1/clusters/local/facts"
DAY = 86_400_000
KEPT, LATE = 0, 1


def now() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def reader(rows: Cluster, carol: User, client_of: Callable[[User], APIClient]) -> APIClient:
    at_ms = now()
    Round.objects.create(cluster="local", number=1, started_at_ms=at_ms, duration_ms=5)
    topic = {"topic": "orders", "lag": 7, "status": "STALLED", "stall_ms": 40_000, "time_to_loss_ms": None}
    GroupRow.objects.filter(group="billing").update(
        status="STALLED", time_lag_ms=90_000, drain_never=True, dlq_in_rate=0.5, read_at_ms=at_ms,
        topics=[{**topic, "time_to_loss_never": True}],
    )  # fmt: skip
    # known for three days, late in the last quarter of an hour
    PromiseCourse.objects.create(cluster="local", changes=[[0, KEPT]], read_at_ms=at_ms)
    PromiseCourse.objects.create(
        cluster="local",
        group="billing",
        topic="orders",
        changes=[[at_ms - DAY // 96, LATE]],
        read_at_ms=at_ms,
    )
    return client_of(carol)


def facts(reader: APIClient, group: str) -> dict[str, Any]:
    answer = reader.get(f"{ADDRESS}?name={group}")
    assert answer.status_code == 200, answer.content
    (found,) = answer.json()["results"]
    return dict(found)


def test_it_says_what_is_known(reader: APIClient) -> None:
    found = facts(reader, "billing")
    expected = {
        "group": "billing", "status": "STALLED", "is_current": True, "slo_ms": 60_000, "slo_target": 0.99,
        "slo_from_ms": 0, "forecast_breach": True, "dead_letter_rate": 0.5,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    (topic,) = found["topics"]
    rates = {one["window_ms"] // 60_000: one["rate"] for one in topic["burn"]}
    assert rates[5] == pytest.approx(100, rel=0.01) and rates[60] == pytest.approx(25, rel=0.01)
    assert topic["burning"] == [14.4]
    assert (topic["stall_ms"], topic["time_to_loss_ms"], topic["time_to_loss_never"]) == (40_000, None, True)


def test_a_change_of_target_leaves_the_budget_of_the_past(reader: APIClient) -> None:
    """By the promise of then a quarter of an hour late costs 1 %, by the one of now 50 %."""
    GroupSlo.objects.create(
        cluster="local", group="billing", slo_ms=60_000, target=0.5, from_ms=now() - 60_000
    )
    found = facts(reader, "billing")
    assert (found["slo_target"], found["slo_from_ms"] > 0) == (0.5, True)
    rates = {one["window_ms"] // 60_000: one["rate"] for one in found["topics"][0]["burn"]}
    assert rates[60] == pytest.approx(0.25 / (1 - (59 * 0.99 + 0.5) / 60), rel=0.03)


def test_what_is_unknown_is_null(reader: APIClient) -> None:
    found = facts(reader, "audit")
    assert (found["forecast_breach"], found["dead_letter_rate"], found["topics"]) == (None, None, [])


def test_without_rounds_nothing_is_known_of_now(reader: APIClient) -> None:
    Round.objects.update(started_at_ms=now() - 60_000)
    found = facts(reader, "billing")
    assert (found["is_current"], found["status"], found["forecast_breach"]) == (False, "UNKNOWN", None)
    assert found["topics"][0]["burn"] == [] and found["topics"][0]["stall_ms"] is None


def test_it_pages_by_groups(reader: APIClient) -> None:
    answer = reader.get(f"{ADDRESS}?per_page=1&page=2").json()
    assert (answer["count"], [one["group"] for one in answer["results"]]) == (2, ["billing"])
