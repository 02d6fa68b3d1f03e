"""Changes over REST against a real brokerd: plan 201, apply 202, job, undo 201; drift 409; idempotency."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from console.access import services as access_services
from console.brokers.mqadmin import close_admins
from console.operation.job import runner
from tests.api.conftest import problem
from tests.console.deadletter.letters import group_with_topics, write_letters
from tests.console.operation.live_cluster import LiveCluster
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
URL = "/api/v1/clusters/test"


@pytest.fixture
def live(brokerd: BrokerProcess, db: None) -> Iterator[LiveCluster]:
    """Group ``billing`` offline at 2 of 10 messages in queue 0 of ``orders``."""
    cluster = LiveCluster(brokerd).register()
    group_with_topics(cluster)
    cluster.send("orders", 0, [b"{}"] * 10, KEYS="k1")
    cluster.commit("billing", "orders", 0, 2)
    yield cluster
    close_admins()


@pytest.fixture
def client(live: LiveCluster, client_of: Callable[..., APIClient]) -> APIClient:
    access_services.ensure_first_person()
    user = User.objects.create_user("erin")
    access_services.grant(role="operator", user=user, cluster_pattern="test")
    return client_of(user, "RESET", "REPLAY")


def test_it_changes_offsets_and_undoes(live: LiveCluster, client: APIClient) -> None:
    body = {"group": "billing", "target": "latest", "topics": ["orders"]}
    made = client.post(f"{URL}/offset-plans", body, format="json")
    assert made.status_code == 201
    plan = made.json()
    assert made["Location"] == f"/api/v1/plans/{plan['id']}"
    assert [(row["queue_id"], row["before"], row["after"]) for row in plan["diff"]] == [
        (0, 2, 10),
        (1, None, 0),
    ]
    assert (plan["state"], plan["job"], plan["messages"], plan["created_by"]) == ("DRAFT", None, 8, "erin")
    applied = client.post(f"/api/v1/plans/{plan['id']}/apply", {"reason": "INC-7"}, format="json")
    assert applied.status_code == 202
    job = applied.json()
    assert (job["state"], job["plan"]) == ("QUEUED", plan["id"])
    runner.run(job["id"], "worker-1")
    done = client.get(f"/api/v1/jobs/{job['id']}").json()
    assert (done["state"], done["error"], done["result"]["verified"]) == ("SUCCEEDED", "", 2)
    assert [event["level"] for event in done["events"]][0] == "ok"
    assert live.committed("billing", "orders")[0] == 10
    again = client.post(f"/api/v1/plans/{plan['id']}/apply")
    assert problem(again, 409, "plan_already_applied")["job"] == job["id"]
    undo = client.post(f"/api/v1/plans/{plan['id']}/undo")
    assert undo.status_code == 201
    assert undo.json()["undo_of"] == plan["id"]
    assert [(row["before"], row["after"]) for row in undo.json()["diff"]] == [(10, 2)]
    audit = client.get(f"/api/v1/audit?cluster=test&plan_id={plan['id']}").json()["results"]
    assert [event["verb"] for event in audit] == ["job verified", "apply", "plan"]


def test_it_takes_times_in_iso_8601(live: LiveCluster, client: APIClient) -> None:
    body = {"group": "billing", "target": "time", "time": "2020-01-01T00:00:00+08:00", "topics": ["orders"]}
    plan = client.post(f"{URL}/offset-plans", body, format="json").json()
    assert plan["params"]["time_ms"] == 1_577_808_000_000
    assert plan["diff"][0]["after"] == 0


def test_it_answers_409_with_what_drifted(live: LiveCluster, client: APIClient) -> None:
    body = {"group": "billing", "target": "latest"}
    plan = client.post(f"{URL}/offset-plans", body, format="json").json()
    live.commit("billing", "orders", 0, 5)
    answer = client.post(f"/api/v1/plans/{plan['id']}/apply")
    assert problem(answer, 409, "plan_drifted")["changes"] == ["orders · broker-a · 0 moved from 2 to 5"]


def test_it_makes_one_plan_and_one_job_per_idempotency_key(live: LiveCluster, client: APIClient) -> None:
    body = {"group": "billing", "target": "earliest"}
    ids = {
        client.post(f"{URL}/offset-plans", body, format="json", HTTP_IDEMPOTENCY_KEY="one").json()["id"]
        for _ in range(2)
    }
    assert len(ids) == 1
    other = client.post(
        f"{URL}/offset-plans", {**body, "target": "latest"}, format="json", HTTP_IDEMPOTENCY_KEY="one"
    )
    problem(other, 422, "idempotency_key_reused")
    url = f"/api/v1/plans/{ids.pop()}/apply"
    jobs = {client.post(url, HTTP_IDEMPOTENCY_KEY="two").json()["id"] for _ in range(2)}
    assert len(jobs) == 1
    problem(client.post(url, HTTP_IDEMPOTENCY_KEY="x" * 256), 400, "invalid")


def test_it_names_the_parameter_the_brokers_do_not_know(live: LiveCluster, client: APIClient) -> None:
    answer = client.post(f"{URL}/offset-plans", {"group": "nobody", "target": "latest"}, format="json")
    assert problem(answer, 422, "plan_rejected")["field"] == "group"
    body = {"group": "billing", "target": "latest", "topics": ["nowhere"]}
    answer = client.post(f"{URL}/offset-plans", body, format="json")
    assert problem(answer, 422, "plan_rejected")["field"] == "topics"


def test_it_replays_dead_letters_and_shows_the_ledger(live: LiveCluster, client: APIClient) -> None:
    write_letters(live, 5)
    sample = client.get(f"{URL}/dead-letters/billing?tag=even&limit=2").json()
    assert [row["message"]["keys"] for row in sample["rows"]] == ["k4", "k2"]
    assert sample["rows"][0]["original_topic"] == "orders"
    body = {"group": "billing", "target": "failed_group", "rate_per_s": 1000, "filter": {"tag": "even"}}
    plan = client.post(f"{URL}/replay-plans", body, format="json").json()
    assert plan["messages"] == 3
    job = client.post(f"/api/v1/plans/{plan['id']}/apply").json()
    assert job["rate_per_s"] == 1000
    assert client.post(f"/api/v1/jobs/{job['id']}/pause").json()["state"] == "PAUSED"
    problem(client.post(f"/api/v1/jobs/{job['id']}/pause"), 409, "illegal_transition")
    assert client.post(f"/api/v1/jobs/{job['id']}/resume").json()["state"] == "QUEUED"
    changed = client.post(f"/api/v1/jobs/{job['id']}/rate", {"rate_per_s": None}, format="json")
    assert changed.json()["rate_per_s"] is None
    runner.run(job["id"], "worker-1")
    ledger = client.get(f"/api/v1/jobs/{job['id']}/ledger?state=SENT").json()
    assert ledger["count"] == 3 and {row["keys"] for row in ledger["results"]} == {"k0", "k2", "k4"}
    problem(client.post(f"/api/v1/plans/{plan['id']}/undo"), 409, "undo_impossible")
    assert client.get(f"{URL}/dead-letters/billing?key=k0").json()["rows"][0]["replayed_by"] == plan["id"]


def test_it_cancels_a_job(live: LiveCluster, client: APIClient) -> None:
    write_letters(live, 5)
    body = {"group": "billing", "target": "failed_group"}
    plan = client.post(f"{URL}/replay-plans", body, format="json").json()
    job = client.post(f"/api/v1/plans/{plan['id']}/apply").json()
    assert client.post(f"/api/v1/jobs/{job['id']}/cancel").json()["cancel_requested"] is True
    runner.run(job["id"], "worker-1")
    assert client.get(f"/api/v1/jobs/{job['id']}").json()["state"] == "CANCELLED"
    assert client.get(f"{URL}/jobs?state=CANCELLED").json()["count"] == 1
    assert client.get(f"{URL}/plans?state=APPLIED").json()["count"] == 1


def test_it_discards_and_approves(live: LiveCluster, client: APIClient) -> None:
    plan = client.post(f"{URL}/offset-plans", {"group": "billing", "target": "latest"}, format="json").json()
    problem(client.post(f"/api/v1/plans/{plan['id']}/approve"), 409, "approval_by_same_person")
    assert client.post(f"/api/v1/plans/{plan['id']}/discard").json()["state"] == "DISCARDED"
    problem(client.post(f"/api/v1/plans/{plan['id']}/apply"), 409, "plan_discarded")


def test_it_browses_messages(live: LiveCluster, client: APIClient) -> None:
    page = client.get(f"{URL}/topics/orders/messages?limit=4").json()
    assert [row["queue_offset"] for row in page["results"]] == [9, 8, 7, 6]
    more = client.get(f"{URL}/topics/orders/messages", {"limit": 4, "cursor": page["cursor"]}).json()
    assert [row["queue_offset"] for row in more["results"]] == [5, 4, 3, 2]
    newest = page["results"][0]
    found = client.get(f"{URL}/topics/orders/messages/{newest['message_id']}").json()
    assert (found["queue_offset"], found["body_format"]) == (9, "json")
    by_key = client.get(f"{URL}/topics/orders/messages?key=k1&limit=3").json()
    assert [row["queue_offset"] for row in by_key["results"]] == [9, 8, 7]
    problem(client.get(f"{URL}/topics/orders/messages?cursor=x"), 400, "bad_cursor")
    problem(client.get(f"{URL}/topics/nowhere/messages"), 404, "topic_not_found")
    problem(client.get(f"{URL}/topics/orders/messages/nonsense"), 404, "not_found")
    problem(client.get(f"{URL}/topics/orders/messages?queue_id=1"), 400, "invalid")
