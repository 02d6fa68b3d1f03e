"""Accounts and users made, changed, deleted and restored on real brokers; what they may do is tried with their keys."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.core import serializers

from brokerd.remoting.errors import MQBrokerError
from console.access.models import AuditEvent
from console.brokers.mqadmin import Message
from console.cluster.models import KeptSecret
from console.operation import services as operation_services
from console.operation.errors import ConfirmationMissing, PlanBlocked, PlanDrifted, PlanRejected
from console.operation.models import Job, JobEvent, JobState, Plan
from tests.console.broker.acl.conftest import ADMIN, ALICE_SECRET, NAME, Guarded
from tests.support.people import signed_in

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database(
        "accounts of brokers; plans, jobs and kept secrets are written as in tests/console/operation and cluster"
    ),
]
BOB, BOB_SECRET = "bob-key", "bobs-own-secret-77"  # noqa: S105 - of tests
TOPICS = {"orders": "PUB|SUB"}


def shown(plan: Plan, key: str) -> list[tuple[str, Any, Any]]:
    """Return (broker, before, after) of a key in the diff."""
    return [
        (row["broker_name"], one["before"], one["after"])
        for row in plan.diff
        for one in row["changes"]
        if one["key"] == key
    ]


def may_send(guarded: Guarded, broker: str, name: str, secret: str, topic: str = "orders") -> str:
    """Return what the broker answers to a send signed by these keys: empty for a message that is stored."""
    try:
        admin = guarded.signed_as(name, secret)
        admin.send(guarded.addrs[broker], Message(topic, b"x", {}), queue_id=0, producer_group="shop")
    except MQBrokerError as error:
        return error.remark
    return ""


def everything_kept() -> str:
    """Return every row of plans, jobs, events and the audit as one text."""
    rows = [*Plan.objects.all(), *Job.objects.all(), *JobEvent.objects.all(), *AuditEvent.objects.all()]
    return serializers.serialize("json", rows)


def test_an_account_is_made_works_and_is_taken_back(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    guarded.make_topic("broker-a", "orders")
    plan = guarded.plan("acl_account_create", {"name": BOB, "secret": BOB_SECRET, "topic_perms": TOPICS})
    assert (plan.summary, plan.blocked) == ("Create account bob-key on broker-a.", "")
    assert shown(plan, "topic orders") == [("broker-a", None, "PUB|SUB")]
    assert shown(plan, "secretKey") == [("broker-a", None, "new")]
    assert may_send(guarded, "broker-a", BOB, BOB_SECRET).startswith("No acl config for bob-key")
    job = guarded.apply(plan)
    assert job.state == JobState.SUCCEEDED
    assert may_send(guarded, "broker-a", BOB, BOB_SECRET) == ""
    assert "needs PUB on it" in may_send(guarded, "broker-a", BOB, BOB_SECRET, "closed")
    back = guarded.undo(plan)
    assert [row["deed"] for row in back.diff] == ["delete"]
    assert guarded.apply(back).state == JobState.SUCCEEDED
    assert may_send(guarded, "broker-a", BOB, BOB_SECRET).startswith("No acl config for bob-key")
    verbs = list(AuditEvent.objects.filter(plan_id=plan.id).order_by("pk").values_list("verb", flat=True))
    assert verbs[:2] == ["plan", "apply"]
    (applied,) = AuditEvent.objects.filter(plan_id=plan.id, verb="apply")
    assert "PUB|SUB" in serializers.serialize("json", [applied])
    assert BOB_SECRET not in everything_kept() and BOB_SECRET not in caplog.text
    assert KeptSecret.objects.count() == 0


def test_a_user_is_made_with_policies_changed_and_restored(guarded: Guarded) -> None:
    guarded.make_topic("broker-b", "orders")
    policies = {"Topic:orders": "Allow Sub, Pub", "Group:*": "Allow Sub from 192.0.2.0/24"}
    made = guarded.plan("acl_user_create", {"name": "bob", "secret": BOB_SECRET, "policies": policies})
    assert shown(made, "Topic:orders") == [("broker-b", None, "Allow Pub, Sub")]
    assert guarded.apply(made).state == JobState.SUCCEEDED
    assert may_send(guarded, "broker-b", "bob", BOB_SECRET) == ""
    wanted = {"Topic:orders": "Deny Pub", "Cluster:*": "Allow Get"}
    change = guarded.plan("acl_user_change", {"name": "bob", "policies": wanted})
    assert shown(change, "Topic:orders") == [("broker-b", "Allow Pub, Sub", "Deny Pub")]
    assert shown(change, "Group:*") == [("broker-b", "Allow Sub from 192.0.2.0/24", None)]
    assert guarded.apply(change).state == JobState.SUCCEEDED
    assert "the decision is deny." in may_send(guarded, "broker-b", "bob", BOB_SECRET)
    back = guarded.undo(change)
    assert shown(back, "Group:*") == [("broker-b", None, "Allow Sub from 192.0.2.0/24")]
    assert guarded.apply(back).state == JobState.SUCCEEDED
    assert may_send(guarded, "broker-b", "bob", BOB_SECRET) == ""
    disabled = guarded.plan("acl_user_change", {"name": "bob", "user_status": "disable"})
    assert guarded.apply(disabled).state == JobState.SUCCEEDED
    assert may_send(guarded, "broker-b", "bob", BOB_SECRET) == "User:bob is disabled."


def test_a_deleted_account_comes_back_with_its_rights_and_a_secret_that_no_person_has(
    guarded: Guarded,
) -> None:
    guarded.make_topic("broker-a", "orders")
    plan = guarded.plan("acl_account_delete", {"name": "alice-key"})
    assert "not with its secret" in plan.warnings[0]["text"] and plan.confirm == "typed"
    with pytest.raises(ConfirmationMissing):
        operation_services.apply_plan(plan.id, guarded.actor, "")
    assert guarded.apply(plan).state == JobState.SUCCEEDED
    back = guarded.undo(plan)
    assert back.warnings[0]["title"] == "Its secret cannot be restored"
    assert shown(back, "topic orders") == [("broker-a", None, "PUB|SUB")]
    assert guarded.apply(back).state == JobState.SUCCEEDED
    assert "Check signature failed" in may_send(guarded, "broker-a", "alice-key", ALICE_SECRET)
    again = guarded.plan("acl_account_change", {"name": "alice-key", "secret": ALICE_SECRET})
    assert shown(again, "secretKey") == [("broker-a", "stored", "new")]
    assert guarded.apply(again).state == JobState.SUCCEEDED
    assert may_send(guarded, "broker-a", "alice-key", ALICE_SECRET) == ""


def test_a_user_is_deleted_and_restored(guarded: Guarded) -> None:
    policies = {"Topic:orders": "Allow Pub"}
    guarded.apply(
        guarded.plan("acl_user_create", {"name": "bob", "secret": BOB_SECRET, "policies": policies})
    )
    plan = guarded.plan("acl_user_delete", {"name": "bob"})
    assert guarded.apply(plan).state == JobState.SUCCEEDED
    assert guarded.apply(guarded.undo(plan)).state == JobState.SUCCEEDED
    again = guarded.plan("acl_user_change", {"name": "bob", "policies": policies})
    assert again.blocked.startswith("Nothing would change")


def test_white_addresses_are_set_and_restored(guarded: Guarded) -> None:
    plan = guarded.plan("acl_white_addresses", {"addresses": ["192.0.2.7", "192.0.2.{8,9}"]})
    key = "globalWhiteRemoteAddresses"
    assert shown(plan, key) == [("broker-a", "192.0.2.7", "192.0.2.7, 192.0.2.{8,9}")]
    assert guarded.apply(plan).state == JobState.SUCCEEDED
    back = guarded.undo(plan)
    assert shown(back, key) == [("broker-a", "192.0.2.7, 192.0.2.{8,9}", "192.0.2.7")]
    assert guarded.apply(back).state == JobState.SUCCEEDED
    open_to_all = guarded.plan("acl_white_addresses", {"addresses": ["*"]})
    assert [one["title"] for one in open_to_all.warnings] == ["Every client gets access"]


def test_a_change_by_another_client_refuses_the_plan(guarded: Guarded) -> None:
    plan = guarded.plan("acl_account_change", {"name": "alice-key", "topic_perms": {"orders": "SUB"}})
    job = guarded.apply(
        guarded.plan("acl_account_change", {"name": "alice-key", "group_perms": {"billing": "DENY"}})
    )
    assert job.state == JobState.SUCCEEDED, job.result
    with pytest.raises(PlanDrifted) as refused:
        operation_services.apply_plan(plan.id, guarded.actor, plan.confirm_text)
    assert [str(each) for each in refused.value.changes] == ["broker-a: group billing is DENY, not SUB"]


def test_a_secret_that_is_no_longer_kept_refuses_the_plan(guarded: Guarded) -> None:
    plan = guarded.plan("acl_account_create", {"name": BOB, "secret": BOB_SECRET})
    KeptSecret.objects.all().delete()
    with pytest.raises(PlanDrifted, match="has expired"):
        operation_services.apply_plan(plan.id, guarded.actor, plan.confirm_text)


def test_a_silent_broker_blocks_until_it_is_accepted_by_name(guarded: Guarded) -> None:
    guarded.collect()
    guarded.b.kill()
    params = {"name": BOB, "secret": BOB_SECRET}
    assert "broker-b" in guarded.plan("acl_account_create", params).blocked
    accepted = guarded.plan("acl_account_create", {**params, "accept_without": ["broker-b"]})
    assert accepted.blocked == ""
    assert guarded.apply(accepted).state == JobState.SUCCEEDED


@pytest.mark.parametrize("kind", ["acl_account_delete", "acl_user_delete"])
def test_the_console_does_not_cut_itself_off(guarded: Guarded, kind: str) -> None:
    plan = guarded.plan(kind, {"name": ADMIN})
    assert plan.blocked == (
        "This console signs its requests as rocketmq2: set another access key in its connection first."
    )
    with pytest.raises(PlanBlocked):
        operation_services.apply_plan(plan.id, guarded.actor, plan.confirm_text)


@pytest.mark.parametrize(
    ("kind", "params", "field"),
    [
        ("acl_account_create", {"name": BOB}, "secret"),
        ("acl_account_create", {"name": BOB, "secret": "short"}, "secret"),
        ("acl_account_create", {"name": "short", "secret": BOB_SECRET}, "name"),
        ("acl_account_create", {"name": "alice-key", "secret": BOB_SECRET}, "name"),
        ("acl_account_create", {"name": BOB, "secret": BOB_SECRET, "brokers": ["broker-b"]}, "brokers"),
        ("acl_account_create", {"name": BOB, "secret": BOB_SECRET, "brokers": ["broker-x"]}, "brokers"),
        ("acl_account_change", {"name": "nobody-here"}, "name"),
        ("acl_account_change", {"name": "alice-key", "topic_perms": {"orders": "ALL"}}, "topic_perms"),
        ("acl_account_change", {"name": "alice-key", "admin": "yes"}, "admin"),
        (
            "acl_user_create",
            {"name": "bob", "secret": BOB_SECRET, "policies": {"orders": "Allow Pub"}},
            "policies",
        ),
        ("acl_user_change", {"name": ADMIN, "policies": {"Topic:a": "Allow Fly"}}, "policies"),
        ("acl_user_change", {"name": ADMIN, "policies": {"Topic:a": "Allow Pub from here"}}, "policies"),
        ("acl_white_addresses", {"addresses": []}, "addresses"),
    ],
)
def test_what_makes_no_plan_is_refused_at_its_parameter(
    guarded: Guarded, kind: str, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(PlanRejected) as refusal:
        guarded.plan(kind, params)
    assert refusal.value.field == field
    assert BOB_SECRET not in str(refusal.value)


def test_the_last_right_on_topics_is_not_taken_away_but_denied(guarded: Guarded) -> None:
    cleared = guarded.plan("acl_account_change", {"name": "alice-key", "topic_perms": {}})
    assert "set it to DENY" in cleared.blocked
    denied = guarded.plan("acl_account_change", {"name": "alice-key", "topic_perms": {"orders": "DENY"}})
    assert guarded.apply(denied).state == JobState.SUCCEEDED


def test_a_right_that_the_console_lacks_is_named(guarded: Guarded) -> None:
    guarded.sign_as("alice-key", ALICE_SECRET)
    with pytest.raises(MQBrokerError, match="Need admin permission"):
        guarded.plan("acl_account_create", {"name": BOB, "secret": BOB_SECRET, "brokers": ["broker-a"]})


def test_rest_takes_a_secret_and_never_returns_it(guarded: Guarded) -> None:
    client = signed_in("chief", verbs=("ADMIN",))
    body = {
        "kind": "acl_account_create",
        "subject": "*",
        "params": {"name": BOB, "secret": BOB_SECRET, "topic_perms": TOPICS},
    }
    headers = {"HTTP_IDEMPOTENCY_KEY": "once"}
    url = f"/api/v1/clusters/{NAME}/config-plans"
    answer = client.post(url, json.dumps(body), content_type="application/json", **headers)
    assert answer.status_code == 201, answer.content
    assert "secret_ref" not in answer.json()["params"]
    repeated = client.post(url, json.dumps(body), content_type="application/json", **headers)
    assert repeated.json()["id"] == answer.json()["id"]
    page = client.get(f"/c/{NAME}/plans/{answer.json()['id']}").content.decode()
    assert "bob-key" in page and page.count("or from a shell") == 1 and "manage.py brokers apply" in page
    reference = KeptSecret.objects.get().reference
    for text in (answer.content.decode(), page, everything_kept().replace(reference, "")):
        assert BOB_SECRET not in text
    assert reference not in page and reference not in answer.content.decode()
    short = {**body, "params": {"name": BOB, "secret": "short"}}
    refused = client.post(url, json.dumps(short), content_type="application/json")
    assert refused.status_code == 422 and "short" not in refused.content.decode()


def test_only_an_administrator_of_the_cluster_changes_it(guarded: Guarded) -> None:
    body = {"kind": "acl_user_delete", "subject": "*", "params": {"name": "bob"}}
    url = f"/api/v1/clusters/{NAME}/config-plans"
    for client in (
        signed_in("keeper", verbs=("CONFIGURE",)),
        signed_in("narrow", verbs=("ADMIN",), names="b*"),
    ):
        assert client.post(url, json.dumps(body), content_type="application/json").status_code == 403
