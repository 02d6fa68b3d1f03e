"""`manage.py offsets`."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.console.operation.live_cluster import LiveCluster

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("a command line; plans and jobs are written as in tests/console/operation"),
]


@pytest.fixture
def orders(live: LiveCluster) -> LiveCluster:
    live.create_topic("orders", queues=1)
    live.create_group("billing")
    live.send("orders", 0, [b"x"] * 10)
    live.commit("billing", "orders", 0, 4)
    return live


def call(*arguments: str) -> str:
    out = StringIO()
    call_command("offsets", *arguments, stdout=out)
    return out.getvalue()


def plan(*arguments: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(call("plan", "billing", *arguments, "--format", "json"))
    return made


def test_it_plans_applies_here_and_undoes(orders: LiveCluster) -> None:
    made = plan("--target", "earliest")
    assert (made["subject"], made["diff"][0]["before"], made["diff"][0]["after"]) == ("billing", 4, 0)
    said = call("apply", made["id"], "--here")
    assert all(word in said for word in ("SUCCEEDED", "moved=1", "verified=1", "failed=0"))
    assert orders.committed("billing", "orders") == {0: 0}
    undo = json.loads(call("undo", made["id"], "--format", "json"))
    call("apply", undo["id"], "--here")
    assert orders.committed("billing", "orders") == {0: 4}


def test_it_prints_the_plan_for_people(orders: LiveCluster) -> None:
    text = call("plan", "billing", "--target", "shift", "--shift=-2")
    assert "Replay 2 messages on 1 queue of orders" in text
    assert "orders · broker-a · 0" in text and "4 →" in text
    assert "manage.py offsets apply op-" in text


def test_it_knows_single_queues_exact_offsets_and_plans(orders: LiveCluster) -> None:
    queue = f"orders/{orders.broker_name}/0"
    made = plan("--target", "exact", "--set", f"{queue}=7")
    assert [(row["before"], row["after"]) for row in made["diff"]] == [(4, 7)]
    call("apply", made["id"], "--here")
    taken_back = plan("--target", "undo", "--plan", made["id"], "--queue", queue)
    assert [(row["before"], row["after"]) for row in taken_back["diff"]] == [(7, 4)]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("plan", "billing", "--target", "time", "--time", "yesterday"), 1, "ISO 8601"),
        (("plan", "billing", "--target", "time", "--time", "2026-01-01T00:00:00"), 1, "with its zone"),
        (("plan", "nobody", "--target", "latest"), 1, "nobody"),
        (("plan", "billing", "--target", "latest", "--cluster", "other"), 1, "There is no cluster other"),
        (("plan", "billing", "--target", "latest", "--queue", "orders/0"), 1, "TOPIC/BROKER/QUEUE"),
        (("plan", "billing", "--target", "exact", "--set", "orders/broker-a/0"), 1, "give the offset too"),
        (("plan", "billing", "--target", "latest", "--queue", "orders/broker-a/9"), 1, "There is no queue"),
        (("plan", "billing", "--target", "undo", "--plan", "op-nothing"), 1, "no plan op-nothing"),
        (
            ("restore", "billing", "--time", "2000-01-01T00:00:00Z"),
            1,
            "it begins later, or this console did not collect then",
        ),
        (("apply", "op-nothing"), 1, "no plan op-nothing"),
        (("undo", "op-nothing"), 1, "no plan op-nothing"),
    ],
)
def test_it_refuses_with_a_code_and_a_reason(
    orders: LiveCluster, arguments: tuple[str, ...], code: int, words: str
) -> None:
    with pytest.raises(CommandError, match=words) as caught:
        call(*arguments)
    assert caught.value.returncode == code


def test_it_exits_with_3_when_the_state_drifted(orders: LiveCluster) -> None:
    made = plan("--target", "latest")
    orders.commit("billing", "orders", 0, 9)
    with pytest.raises(CommandError, match="moved from 4 to 9") as caught:
        call("apply", made["id"], "--here")
    assert caught.value.returncode == 3


def test_it_plans_the_offsets_of_a_file_for_another_broker_name(orders: LiveCluster, tmp_path: Path) -> None:
    file = tmp_path / "billing.csv"
    file.write_text("group,topic,broker_name,queue_id,offset\nbilling,orders,old,0,9\n")
    renamed = ("--broker", f"old={orders.broker_name}")
    made = json.loads(call("import", str(file), *renamed, "--format", "json"))
    assert [(row["before"], row["after"]) for row in made["diff"]] == [(4, 9)]
    assert made["subject"] == "billing"
    with pytest.raises(CommandError, match="has no broker old"):
        call("import", str(file))
    with pytest.raises(CommandError, match="name both brokers"):
        call("import", str(file), "--broker", "old")
    with pytest.raises(CommandError, match="The last round has no queue of billing"):
        call("export", "billing")
