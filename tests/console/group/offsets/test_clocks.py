"""Clocks of brokers that are off, in plans whose target is a time."""

from __future__ import annotations

import time

import pytest
from django.contrib.auth.models import User

from console.lag.models import BrokerRow
from console.operation import services
from tests.console.operation.live_cluster import LiveCluster

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("clocks of brokers; plans are written as in tests/console/operation"),
]


@pytest.mark.parametrize(
    ("offset_ms", "title"),
    [
        (-90_000, "The clock of broker-a is 1 m 30 s behind ours"),
        (3_000, "The clock of broker-a is 3 s ahead of ours"),
        (0, ""),
        (None, ""),
    ],
)
def test_a_target_by_time_names_them(
    live: LiveCluster, alice: User, offset_ms: int | None, title: str
) -> None:
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    live.send("orders", 0, [b"m"])
    live.commit("billing", "orders", 0, 1)
    BrokerRow.objects.create(
        cluster="test", broker_name="broker-a", addr=live.addr, answered=True, clock_offset_ms=offset_ms
    )

    def of_clocks(**target: object) -> list[str]:
        plan = services.create_plan("offset_change", live.name, "billing", target, alice)
        return [each["title"] for each in plan.warnings if each["title"].startswith("The clock of")]

    assert of_clocks(target="time", time_ms=int(time.time() * 1000)) == [title] * bool(title)
    assert of_clocks(target="latest") == []
