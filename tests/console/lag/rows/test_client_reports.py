"""What clients reported, as it is stored."""

from __future__ import annotations

import pytest

from console.lag.models import ClientRow
from console.lag.rows.client_reports import held_by, reports
from console.lag.rows.popped import HeldQueue

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

PLACE = {"topic": "orders", "broker_name": "broker-a"}


def row(client_id: str, queues: list[dict[str, object]] | None, expression: str = "*") -> None:
    ClientRow.objects.create(
        cluster="local",
        group="billing",
        client_id=client_id,
        queues=queues,
        subscription={"orders": {"expression": expression, "type": "TAG"}},
        read_at_ms=7,
    )


def test_a_silent_client_holds_what_is_unknown_and_no_empty_list() -> None:
    row("c-1", [{**PLACE, "queue_id": 0}, {**PLACE, "queue_id": -1, "popped": 0}])
    row("c-2", None)
    row("c-3", [])
    found = held_by(ClientRow.objects.order_by("client_id"), "client_id", "read_at_ms")
    held = [HeldQueue("orders", "broker-a", 0), HeldQueue("orders", "broker-a", -1, popped=0)]
    assert list(found) == [(held, "c-1", 7), (None, "c-2", 7), ([], "c-3", 7)]


def test_what_is_made_of_equal_subscriptions_is_one_object() -> None:
    for client_id, expression in (("c-1", "*"), ("c-2", "paid"), ("c-3", "*")):
        row(client_id, [], expression)
    rows = ClientRow.objects.order_by("client_id")
    first, second, third = (made for _, made in reports(rows, lambda one: [one["orders"]["expression"]]))
    assert (first, second) == (["*"], ["paid"]) and third is first
    assert [one for _, one, _ in reports(rows, dict, "client_id")][1] == {
        "orders": {"expression": "paid", "type": "TAG"}
    }
