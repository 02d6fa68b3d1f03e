"""Configuration over REST against a real brokerd: plan 201 with its diff, apply, undo; what is refused and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from api.change.config_plan import KINDS
from console.access import services as access_services
from console.brokers.mqadmin import close_admins
from console.lag.models import GroupRow, TopicRow
from console.operation.job import runner
from console.plans import PLAN_KINDS
from tests.api.conftest import problem
from tests.console.operation.live_cluster import LiveCluster
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("a broker's settings; plans and jobs are written as in tests/console/operation"),
]
URL = "/api/v1/clusters/test/config-plans"


@pytest.fixture
def live(brokerd: BrokerProcess, db: None) -> Iterator[LiveCluster]:
    yield LiveCluster(brokerd).register()
    close_admins()


@pytest.fixture
def client(live: LiveCluster, client_of: Callable[..., APIClient]) -> APIClient:
    """A maintainer of the names that begin with ``orders`` or ``billing``."""
    access_services.ensure_first_person()
    user = User.objects.create_user("erin")
    for pattern in ("orders*", "billing*"):
        access_services.grant(role="maintainer", user=user, cluster_pattern="test", name_pattern=pattern)
    return client_of(user, "CONFIGURE")


def ask(client: APIClient, kind: str, subject: str, params: Any = None, **headers: str) -> Any:
    body = {"kind": kind, "subject": subject} | ({} if params is None else {"params": params})
    return client.post(URL, body, format="json", **headers)  # type: ignore[arg-type]


def test_it_knows_every_kind_of_topics_and_groups() -> None:
    assert set(KINDS) >= {kind for kind in PLAN_KINDS if kind.startswith(("topic_", "group_"))}
    assert set(KINDS) <= set(PLAN_KINDS)


def test_it_creates_a_topic_and_takes_it_back(live: LiveCluster, client: APIClient) -> None:
    made = ask(client, "topic_create", "orders", {"read_queues": 4, "write_queues": 4})
    assert made.status_code == 201
    plan = made.json()
    assert made["Location"] == f"/api/v1/plans/{plan['id']}"
    (row,) = plan["diff"]
    assert (row["broker_name"], row["deed"], row["after"]["readQueueNums"]) == (live.broker_name, "create", 4)
    by_hand = plan["equivalent"]["made_by"]
    assert by_hand["path"] == URL
    assert by_hand["command"] == (
        "manage.py topics create orders --read-queues 4 --write-queues 4 --cluster test"
    )
    applied = client.post(f"/api/v1/plans/{plan['id']}/apply", {}, format="json")
    assert applied.status_code == 202
    runner.run(applied.json()["id"], "worker-1")
    done = client.get(f"/api/v1/jobs/{applied.json()['id']}").json()
    assert (done["state"], done["result"]["brokers"][0]["state"]) == ("SUCCEEDED", "verified")
    again = client.post(f"/api/v1/plans/{plan['id']}/apply", {}, format="json")
    assert problem(again, 409, "plan_already_applied")["job"] == done["id"]
    undo = client.post(f"/api/v1/plans/{plan['id']}/undo").json()
    assert (undo["undo_of"], undo["diff"][0]["deed"]) == (plan["id"], "delete")


def test_it_changes_a_group_once_per_idempotency_key(live: LiveCluster, client: APIClient) -> None:
    live.create_group("billing")
    ids = {
        ask(client, "group_change", "billing", {"retry_max_times": 3}, HTTP_IDEMPOTENCY_KEY="one").json()[
            "id"
        ]
        for _ in range(2)
    }
    assert len(ids) == 1
    other = ask(client, "group_change", "billing", {"retry_max_times": 4}, HTTP_IDEMPOTENCY_KEY="one")
    problem(other, 422, "idempotency_key_reused")


@pytest.mark.parametrize(
    ("kind", "subject", "params", "field"),
    [
        ("topic_rename", "orders", {}, "kind"),
        ("topic_create", "orders", {"read_queues": 0}, "params.read_queues"),
        ("topic_create", "orders", {"perm": 5}, "params.perm"),
        ("group_change", "billing", {"consume_enable": "perhaps"}, "params.consume_enable"),
        ("group_change", "x" * 256, {}, "subject"),
    ],
)
def test_it_names_the_field_that_is_not_valid(
    live: LiveCluster, client: APIClient, kind: str, subject: str, params: dict[str, Any], field: str
) -> None:
    body = problem(ask(client, kind, subject, params), 400, "invalid")
    assert [row["field"] for row in body["errors"]] == [field]


def test_it_refuses_what_makes_no_plan(live: LiveCluster, client: APIClient) -> None:
    assert (
        problem(ask(client, "topic_change", "orders", {"perm": 4}), 422, "plan_rejected")["field"] == "topic"
    )
    live.create_topic("orders", queues=4)
    answer = ask(client, "topic_change", "orders", {"brokers": ["nowhere"], "perm": 4})
    assert problem(answer, 422, "plan_rejected")["field"] == "brokers"
    plan = ask(client, "topic_delete", "orders").json()
    assert plan["blocked"].startswith("Put it in quarantine first")
    refused = client.post(f"/api/v1/plans/{plan['id']}/apply", {"confirm_text": "orders"}, format="json")
    problem(refused, 409, "plan_blocked")
    change = ask(client, "topic_change", "orders", {"write_queues": 8, "read_queues": 8}).json()
    live.create_topic("orders", queues=6)
    drifted = client.post(f"/api/v1/plans/{change['id']}/apply", {}, format="json")
    assert problem(drifted, 409, "plan_drifted")["changes"] == [
        f"orders on {live.broker_name}: readQueueNums is 6, not 4, writeQueueNums is 6, not 4"
    ]


def test_it_has_no_way_round_the_quarantine(live: LiveCluster, client: APIClient) -> None:
    """The parameters of an undo, which may delete, are not taken from outside."""
    live.create_topic("orders", queues=4)
    exact = [
        {"what": "topic", "name": "orders", "broker_name": live.broker_name, "config": None, "expected": None}
    ]
    answer = ask(client, "topic_change", "orders", {"exact": exact})
    problem(answer, 422, "plan_rejected")
    assert live.has_route("orders")


def test_it_checks_the_verb_on_the_name(live: LiveCluster, client: APIClient) -> None:
    problem(ask(client, "topic_create", "payments", {}), 403, "not_permitted")
    live.create_topic("orders")
    problem(ask(client, "topic_force_delete", "orders"), 403, "not_permitted")


def test_it_says_that_a_broker_does_not_answer(live: LiveCluster, client: APIClient) -> None:
    live.broker.stop()
    problem(ask(client, "topic_create", "orders", {}), 503, "broker_unavailable")


def test_it_tells_what_the_tabs_of_a_topic_show(live: LiveCluster, client: APIClient) -> None:
    live.create_topic("orders", queues=2)
    live.create_group("billing", retry_max_times=4)
    TopicRow.objects.create(cluster="test", topic="orders", kind="NORMAL", perm=6, brokers=[live.broker_name])
    base = "/api/v1/clusters/test"
    table = client.get(f"{base}/topics/orders/config").json()
    assert table["brokers"] == [live.broker_name] and table["problem"] == ""
    assert {"key": "readQueueNums", "values": [2], "differs": False} in table["rows"]
    settings = client.get(f"{base}/groups/billing/settings").json()
    assert {"key": "retryMaxTimes", "values": [4], "differs": False} in settings["rows"]
    producers = client.get(f"{base}/topics/orders/producers").json()
    assert (producers["senders"], producers["sampled"], producers["unread"]) == ([], 0, [])
    problem(client.get(f"{base}/topics/orders/quarantine"), 404, "not_found")
    plan = ask(client, "topic_quarantine", "orders").json()
    job = client.post(f"/api/v1/plans/{plan['id']}/apply", {"confirm_text": "orders"}, format="json").json()
    runner.run(job["id"], "worker-1")
    found = client.get(f"{base}/topics/orders/quarantine").json()
    assert (found["by"], found["plan_id"]) == ("erin", plan["id"])
    assert found["former"][live.broker_name]["perm"] == 6
    assert found["deletable_at_ms"] - found["since_ms"] == 24 * 3_600_000


def test_it_pauses_a_group_and_tells_so(live: LiveCluster, client: APIClient) -> None:
    live.create_group("billing")
    live.create_topic("orders", queues=1)
    GroupRow.objects.create(cluster="test", group="billing", status="OK", read_at_ms=1)
    made = ask(client, "group_pause", "billing", {"topics": ["orders"]}).json()
    assert [(row["name"], row["changes"]) for row in made["diff"]] == [
        ("orders", [{"key": "readable", "before": True, "after": False}])
    ]
    assert made["equivalent"]["made_by"]["command"] == (
        "manage.py groups pause billing --topic orders --cluster test"
    )
    applied = client.post(f"/api/v1/plans/{made['id']}/apply", {}, format="json")
    assert applied.status_code == 202
    runner.run(applied.json()["id"], "worker-1")
    found = client.get("/api/v1/clusters/test/groups/billing/pauses").json()
    assert found["unknown"] == found["unable"] == []
    (pause,) = found["paused"]
    assert (pause["topic"], pause["brokers"], pause["by"], pause["plan_id"]) == (
        "orders",
        [live.broker_name],
        "erin",
        made["id"],
    )
    assert client.get("/api/v1/clusters/test/groups/billing-2/pauses").status_code == 404
    refused = ask(client, "group_resume", "billing", {"topics": "orders"})
    problem(refused, 400, "invalid")
