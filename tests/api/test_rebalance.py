"""Who owns which queue and what if, over REST: what the Rebalance pages show."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.lag.models import GroupMembers, GroupRow
from console.operation.journal import moment
from console.operation.models import Job, Plan
from console.rebalance.models import ServerSideGroup
from tests.support import sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
CLUSTER = "/api/v1/clusters/local"
GROUP = f"{CLUSTER}/groups/billing"
X, Y = "10.0.0.1@1", "10.0.0.2@1"


@pytest.fixture
def client(admin: User, client_of: Callable[..., APIClient]) -> APIClient:
    """Four queues: 0 and 1 are X's, 2 belongs to both, 3 to no client."""
    now_ms = time.time_ns() // 1_000_000
    sample_rows.cluster()
    sample_rows.group_row("billing")
    for queue_id in range(4):
        sample_rows.queue_row("billing", queue_id, lag=queue_id)
    GroupMembers.objects.create(
        cluster="local", group="billing", clients=2, model="CLUSTERING", read_at_ms=now_ms
    )
    for client_id, queue_ids in ((X, (0, 1, 2)), (Y, (2,))):
        queues = [{"topic": "orders", "broker_name": "broker-a", "queue_id": one} for one in queue_ids]
        sample_rows.client_row("billing", client_id, queues=queues, strategy="AVG", read_at_ms=now_ms)
    return client_of(admin)


def body(client: APIClient, address: str, status: int = 200, **query: Any) -> Any:
    answer = client.get(address, query)
    assert answer.status_code == status, answer.content
    return answer.json()


def test_groups_are_listed_with_their_owners(client: APIClient) -> None:
    (row,) = body(client, f"{CLUSTER}/rebalance")["results"]
    figures = [row[name] for name in ("queues", "one_owner", "no_owner", "two_owners", "unknown", "clients")]
    assert (row["group"], row["state"], figures) == ("billing", "NO_OWNER", [4, 2, 1, 1, 0, 2])
    assert body(client, f"{CLUSTER}/rebalance", state="OK")["results"] == []


def test_a_group_has_owners_and_findings_with_their_clients(client: APIClient) -> None:
    found = body(client, f"{GROUP}/ownership")
    assert [(one["state"], one["clients"], one["falls_to"]) for one in found["queues"]] == [
        ("ONE", [X], X),
        ("ONE", [X], X),
        ("TWO", [X, Y], Y),
        ("NONE", [], Y),
    ]
    assert found["strategies"] == [
        {"topic": "orders", "strategy": "AVG", "known_by": "REPORTED", "placement": None}
    ]
    by_kind = {one["kind"]: one for one in found["findings"]}
    assert by_kind["NO_OWNER"]["clients"] == [Y]
    assert by_kind["NO_OWNER"]["queues"] == [{"topic": "orders", "broker_name": "broker-a", "queue_id": 3}]
    assert by_kind["TWO_OWNERS"]["clients"] == [X, Y]
    assert [one["is_silent"] for one in found["members"]] == [False, False]


def test_a_scenario_is_computed(client: APIClient) -> None:
    found = body(client, f"{GROUP}/simulation", new=1, without=X, strategy="AVG_BY_CIRCLE")
    assert found["clients"] == [Y, "new-1"]
    shares = {one["client_id"]: one["queues"] for one in found["shares"]}
    assert shares == {Y: [["broker-a", 0], ["broker-a", 2]], "new-1": [["broker-a", 1], ["broker-a", 3]]}
    assert [(one["queue_id"], one["owners"], one["to"]) for one in found["moves"]] == [
        (0, [X], Y),
        (1, [X], "new-1"),
        (2, [X, Y], Y),
        (3, [], "new-1"),
    ]
    outcomes = {one["strategy"]: one for one in found["outcomes"]}
    assert outcomes["MACHINE_ROOM"]["moves"] is None and outcomes["MACHINE_ROOM"]["reason"]
    assert (outcomes["AVG"]["smallest"], outcomes["AVG"]["largest"]) == (2, 2)
    plain = body(client, f"{GROUP}/simulation")
    assert (plain["strategy"], plain["fewest_moves"], len(plain["moves"])) == ("AVG", 2, 2)


def test_weights_count_for_fewest_moves(client: APIClient) -> None:
    found = body(client, f"{GROUP}/simulation", strategy="FEWEST_MOVES", weight=[f"{X}:3", f"{Y}:1"])
    assert {one["client_id"]: len(one["queues"]) for one in found["shares"]} == {X: 3, Y: 1}


@pytest.mark.one_database("words of an address; scenarios are read by the tests beside it")
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"without": "stranger"}, "No client stranger is connected."),
        ({"new": "51"}, "Must be from 0 to 50."),
        ({"new": "x"}, "Send a whole number, not x."),
        ({"strategy": "NO_SUCH"}, "One of: (empty), AVG"),
        ({"weight": f"{X}:101"}, "Send CLIENT_ID:WEIGHT"),
        ({"weight": "stranger:1"}, "Send CLIENT_ID:WEIGHT"),
    ],
)
def test_what_is_no_scenario_is_refused(client: APIClient, query: dict[str, str], words: str) -> None:
    assert words in str(body(client, f"{GROUP}/simulation", 400, **query))


def test_a_topic_is_chosen_where_there_are_several(client: APIClient) -> None:
    sample_rows.queue_row("billing", 0, topic="refunds")
    assert "the group reads 2 topics (orders, refunds)" in str(body(client, f"{GROUP}/simulation", 400))
    assert body(client, f"{GROUP}/simulation", topic="refunds")["topic"] == "refunds"
    body(client, f"{GROUP}/simulation", 404, topic="no-such")


def test_shared_queues_are_not_divided(client: APIClient) -> None:
    GroupRow.objects.update(model="BROADCASTING")
    assert body(client, f"{GROUP}/ownership")["queues"] == []
    assert "nothing is divided" in str(body(client, f"{GROUP}/simulation", 400))


def test_the_placement_in_force_is_returned_with_its_plan(client: APIClient) -> None:
    ServerSideGroup.objects.create(
        cluster="local",
        group="billing",
        topic="orders",
        strategy="AVG",
        created_at_ms=1,
        placement={"drained": [X], "weights": {Y: 2}},
        placed_at_ms=1_800_000_000_000,
    )
    made = {"kind": "group_placement", "cluster": "local", "subject": "billing"}
    for topic, at in (("orders", 1), ("orders", 2), ("payments", 3)):
        plan = Plan.objects.create(
            **made, params={"topic": topic}, created_by="maria", expires_at=moment(0), created_at=moment(0)
        )
        Job.objects.create(**made, plan=plan, created_by=f"maria-{at}", created_at=moment(at))
    (found,) = body(client, f"{GROUP}/ownership")["strategies"]
    assert (found["known_by"], found["placement"]) == (
        "SERVER",
        {
            "pins": {},
            "drained": [X],
            "weights": {Y: 2},
            "canary_version": "",
            "canary_share": 0,
            "placed_at_ms": 1_800_000_000_000,
            "placed_by": "maria-2",
            "plan_id": Job.objects.get(created_by="maria-2").plan_id,
        },
    )
