"""A broker that lost its offsets, by page and REST: one plan for each group, and no second set for the same request."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.cluster.models import Cluster
from console.group.broker_restore.compared import moment_before_loss, offsets_now
from console.group.broker_restore.plans import ALL, LOST, approve_plans, make_plans, restores
from console.group.broker_restore.progress import progress_of
from console.operation import services
from console.operation.job import runner
from console.operation.models import Job, Plan
from tests.console.group.lost_offsets import lose_all, round_ago
from tests.console.operation.live_cluster import LiveCluster

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("offsets on a broker; plans and jobs are written as in tests/console/operation"),
]
PAGE = "/c/test/brokers/broker-a/restore"
REST = "/api/v1/clusters/test/brokers/broker-a/offset-restore"


@pytest.fixture
def lost(own: LiveCluster) -> tuple[LiveCluster, int]:
    """Two groups with a recorded round, and a broker that has lost all offsets; audit has read on since."""
    own.create_group("audit")
    own.commit("audit", "orders", 0, 2)
    own.commit("audit", "orders", 1, 5)
    read_ms = round_ago(5_000)
    lose_all(own)
    own.commit("audit", "orders", 1, 8)
    return own, read_ms


def run_jobs() -> set[str]:
    for job in Job.objects.filter(state="QUEUED"):
        runner.run(job.id, "worker-1")
    return set(Job.objects.values_list("state", flat=True))


def made(actor: User, at_ms: int, scope: str) -> dict[str, str]:
    offsets = offsets_now("test", ["broker-a"])
    found = make_plans("test", ["broker-a"], at_ms, offsets, actor, scope=scope)
    assert not any(each.refusal for each in found)
    return {each.group: each.plan.id for each in found if each.plan is not None}


def test_the_page_leads_from_the_loss_to_its_end(
    lost: tuple[LiveCluster, int], alice: User, client: Client
) -> None:
    own, read_ms = lost
    client.force_login(alice)
    assert f'href="{PAGE}"' in client.get("/c/test/brokers/broker-a").content.decode()
    page = client.get(PAGE)
    assert page.context["suggested_ms"] == read_ms
    address = page.context["suggested_url"]
    before = client.get(address).context
    assert [(row.group, row.compared.counts["lost"]) for row in before["groups"]] == [
        ("billing", 3),
        ("audit", 1),
    ]
    assert (before["progress"].lost_queues, before["progress"].lacking) == (4, 2)
    lines = " ".join(client.get(address).content.decode().split())
    assert "orders · 0: 7 → –" in lines and "orders · 1: 5 → 8" in lines
    assert client.post(address, {"action": "plan"}).status_code == 422, "a choice without a default"
    answer = client.post(address, {"action": "plan", "scope": LOST})
    assert (answer.status_code, answer["Location"]) == (302, address)
    assert own.committed("billing", "orders") == {}, "a plan changes nothing"
    text = client.get(address + "&part=1").content.decode()
    plans = set(Plan.objects.values_list("id", flat=True))
    assert len(plans) == 2 and all(f"/c/test/plans/{plan}" in text for plan in plans)
    refused = client.post(address, {"action": "apply", "confirm_text": "billing"})
    assert (refused.status_code, Job.objects.count()) == (422, 0)
    assert "type the name &#x27;test&#x27; to confirm" in refused.content.decode()
    client.post(address, {"action": "apply", "confirm_text": "test", "reason": "drill"})
    assert run_jobs() == {"SUCCEEDED"}
    assert own.committed("billing", "orders") == {0: 7, 1: 10}
    assert own.committed("audit", "orders") == {0: 2, 1: 8}, "what it has read since stays"
    after = client.get(address).context["progress"]
    assert (after.done, after.lost_queues, after.to_apply, after.failed) == (2, 0, 0, 0)


def test_a_repeated_request_finds_its_plans_and_makes_no_second_set(
    lost: tuple[LiveCluster, int], alice: User, maria: User
) -> None:
    _, read_ms = lost
    first = made(alice, read_ms, ALL)
    assert first.keys() == {"audit", "billing"}
    assert made(alice, read_ms, ALL) == made(maria, read_ms, LOST) == first
    Plan.objects.filter(subject="billing").update(expires_at=timezone.now())
    second = made(maria, read_ms, ALL)
    assert second["audit"] == first["audit"] and second["billing"] != first["billing"]
    for plan_id in second.values():
        plan = Plan.objects.get(pk=plan_id)
        services.apply_plan(plan.id, alice, plan.confirm_text)
    assert made(alice, read_ms, ALL) == second, "running"
    assert run_jobs() == {"SUCCEEDED"}
    assert made(alice, read_ms, ALL) == second, "done, though audit reads on"
    assert Plan.objects.count() == 3


def test_offsets_lost_again_are_planned_again(lost: tuple[LiveCluster, int], alice: User) -> None:
    own, read_ms = lost
    first = made(alice, read_ms, LOST)
    for plan_id in first.values():
        services.apply_plan(plan_id, alice, Plan.objects.get(pk=plan_id).confirm_text)
    run_jobs()
    lose_all(own)
    second = made(alice, read_ms, LOST)
    assert second.keys() == first.keys() and not set(second.values()) & set(first.values())


def test_all_of_it_goes_back_where_that_is_chosen(lost: tuple[LiveCluster, int], alice: User) -> None:
    own, read_ms = lost
    for plan_id in made(alice, read_ms, ALL).values():
        services.apply_plan(plan_id, alice, Plan.objects.get(pk=plan_id).confirm_text)
    assert run_jobs() == {"SUCCEEDED"}
    assert own.committed("audit", "orders") == {0: 2, 1: 5}


def test_a_second_person_approves_all_at_once(
    lost: tuple[LiveCluster, int], alice: User, maria: User, client: Client
) -> None:
    own, read_ms = lost
    own.send("orders", 0, [b"x"])
    Cluster.objects.filter(name="test").update(second_person_messages=1)
    assert made(alice, read_ms, ALL).keys() == {"audit", "billing"}
    found = restores("test", ["broker-a"], read_ms, offsets_now("test", ["broker-a"]))
    counted = progress_of(found, timezone.now(), alice)
    assert (counted.to_approve, counted.approvable, counted.to_apply) == (2, 0, 0)
    assert progress_of(found, timezone.now(), maria).approvable == 2
    approved = approve_plans(found, maria)
    assert progress_of(approved, timezone.now(), maria).to_apply == 2


def test_rest_makes_applies_and_repeats_with_the_same_plan_ids(
    lost: tuple[LiveCluster, int], alice: User
) -> None:
    own, read_ms = lost
    client = APIClient()
    client.force_authenticate(alice)

    def groups(answer: Any, status: int = 200) -> dict[str, Any]:
        assert answer.status_code == status, answer.json()
        assert answer.json()["time_ms"] == read_ms
        return {row["group"]: row for row in answer.json()["groups"]}

    seen = groups(client.get(REST))
    assert {
        name: (row["recorded"], row["lost"], row["ahead"], row["plan"]) for name, row in seen.items()
    } == {
        "audit": (2, 1, 1, None),
        "billing": (3, 3, 0, None),
    }
    body = {"time_ms": read_ms}
    planned = groups(client.post(REST, body, format="json"))
    assert groups(client.post(REST, body, format="json")) == planned
    refused = client.post(f"{REST}/apply", body | {"confirm_text": "x"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "confirmation_missing")
    applied = groups(client.post(f"{REST}/apply", body | {"confirm_text": "test"}, format="json"), 202)
    assert {row["job_state"] for row in applied.values()} == {"QUEUED"}
    assert {name: row["plan"] for name, row in applied.items()} == {
        name: row["plan"] for name, row in planned.items()
    }
    assert run_jobs() == {"SUCCEEDED"}
    done = groups(client.get(REST, body))
    assert {(row["lost"], row["job_state"]) for row in done.values()} == {(0, "SUCCEEDED")}
    again = client.post(f"{REST}/apply", body | {"confirm_text": "test"}, format="json")
    assert (again.status_code, again.json()["code"]) == (409, "plan_blocked")


def test_a_silent_broker_is_shown_as_unknown_and_plans_nothing(
    lost: tuple[LiveCluster, int], alice: User, client: Client
) -> None:
    own, read_ms = lost
    client.force_login(alice)
    address = client.get(PAGE).context["suggested_url"]
    own.broker.stop()
    page = client.get(address)
    assert page.status_code == 200 and page.context["problem"]
    assert {row.compared.counts["unknown"] for row in page.context["groups"]} == {3, 2}
    assert client.post(address, {"action": "plan", "scope": ALL}).status_code == 422
    assert not Plan.objects.exists()


def test_nothing_lost_suggests_no_moment(own: LiveCluster) -> None:
    round_ago(1_000)
    offsets = offsets_now("test", ["broker-a"])
    assert moment_before_loss("test", ["broker-a"], offsets, int(time.time() * 1000)) is None
