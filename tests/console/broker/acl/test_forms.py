"""The forms of access control: what they show of an account, the plans they make; a secret never comes back."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from django.test import Client

from console.broker.acl import views
from console.broker.acl.facts import Generation
from console.broker.acl.page import AclTable, read_table
from console.cluster.models import KeptSecret
from console.operation.models import Plan
from tests.console.broker.acl.conftest import ALICE_SECRET, NAME, Guarded

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database(
        "accounts of brokers; plans, jobs and kept secrets are written as in tests/console/operation and cluster"
    ),
]
SECRET = "a-new-secret-99"  # noqa: S105 - of tests
ACCOUNT = {
    "default_topic_perm": "DENY",
    "default_group_perm": "DENY",
    "topic_perms": "orders=PUB\nclosed=DENY",
    "group_perms": "",
    "white_remote_address": "",
    "brokers": ["broker-a"],
}


def root(guarded: Guarded) -> Client:
    client = Client()
    client.force_login(guarded.actor)
    return client


def post(guarded: Guarded, path: str, **data: Any) -> tuple[int, str]:
    answer = root(guarded).post(f"/c/{NAME}/acl/{path}", data)
    return answer.status_code, answer.content.decode()


def test_the_form_of_a_new_account_makes_a_plan(guarded: Guarded) -> None:
    status, _ = post(guarded, "account", name="bob-key", secret=SECRET, **ACCOUNT)
    (plan,) = Plan.objects.all()
    assert (status, plan.kind, plan.subject) == (302, "acl_account_create", "*")
    assert plan.params["topic_perms"] == {"orders": "PUB", "closed": "DENY"}
    assert KeptSecret.objects.count() == 1


def test_the_form_of_an_account_shows_its_rights_and_no_secret(guarded: Guarded) -> None:
    page = root(guarded).get(f"/c/{NAME}/acl/account?name=alice-key").content.decode()
    assert "orders=PUB|SUB" in page and "billing=SUB" in page and ALICE_SECRET not in page
    status, _ = post(guarded, "account?name=alice-key", **ACCOUNT, secret="")
    (plan,) = Plan.objects.all()
    assert (status, plan.kind, KeptSecret.objects.count()) == (302, "acl_account_change", 0)
    assert {one["key"]: one["after"] for one in plan.diff[0]["changes"]} == {
        "topic orders": "PUB",
        "defaultGroupPerm": "DENY",
        "group billing": None,
    }


def test_the_deletion_of_a_user_is_planned(guarded: Guarded) -> None:
    guarded.apply(guarded.plan("acl_user_create", {"name": "bob", "secret": SECRET}))
    status, _ = post(guarded, "user?name=bob", action="delete")
    assert (status, Plan.objects.latest("created_at").kind) == (302, "acl_user_delete")


def test_the_form_of_a_user_and_of_white_addresses_make_plans(guarded: Guarded) -> None:
    user = {"user_type": "Normal", "user_status": "enable", "brokers": ["broker-b"]}
    assert (
        post(guarded, "user", name="bob", secret=SECRET, policies="Topic:orders=Allow Pub, Sub", **user)[0]
        == 302
    )
    assert Plan.objects.get(kind="acl_user_create").params["policies"] == {"Topic:orders": "Allow Pub, Sub"}
    white = {"addresses": "192.0.2.7, 192.0.2.{8,9}", "brokers": ["broker-a"]}
    assert post(guarded, "white-addresses", **white)[0] == 302
    assert Plan.objects.get(kind="acl_white_addresses").params["addresses"] == ["192.0.2.7", "192.0.2.{8,9}"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"name": "bob-key", "secret": "short"}, "Enter a secret of 7 to 255"),
        ({"name": "bob-key", "secret": SECRET, "topic_perms": "orders"}, "is not name=value"),
        ({"name": "bob-key", "secret": SECRET, "topic_perms": "orders=ALL"}, "is not a permission"),
        ({"name": "bob-key", "secret": SECRET, "brokers": []}, "Choose at least one broker."),
        ({"name": "alice-key", "secret": SECRET}, "alice-key already exists on broker-a"),
        ({"name": "bob-key", "secret": ""}, "Enter the secret"),
    ],
)
def test_a_wrong_form_comes_back_with_the_reason_and_without_the_secret(
    guarded: Guarded, data: dict[str, Any], words: str
) -> None:
    status, page = post(guarded, "account", **{**ACCOUNT, **data})
    assert status == 422 and words in page
    assert SECRET not in page and 'value="short"' not in page


def test_a_wrong_right_is_reported_beside_a_missing_name(guarded: Guarded) -> None:
    status, page = post(guarded, "user", name="", secret=SECRET, policies="x=y", user_type="Normal")
    assert status == 422 and "x=y is not a policy" in page and "This field is required." in page
    status, page = post(guarded, "account", **{**ACCOUNT, "name": "", "topic_perms": "orders=ALL"})
    assert status == 422 and "orders=ALL is not a permission" in page and "This field is required." in page


@pytest.mark.parametrize(
    ("path", "generation", "words"),
    [
        ("account", Generation.ACCOUNTS, "Accounts are kept by brokers of RocketMQ 4.x"),
        ("user", Generation.USERS, "Users are kept by brokers of RocketMQ 5.x"),
        ("white-addresses", Generation.ACCOUNTS, "White addresses are kept by brokers of RocketMQ 4.x"),
    ],
)
def test_a_form_that_no_broker_can_take_says_so_and_is_closed(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, path: str, generation: Generation, words: str
) -> None:
    client = root(guarded)
    assert words not in client.get(f"/c/{NAME}/acl/{path}").content.decode()
    monkeypatch.setattr(views, "read_table", lambda cluster: _without(read_table(cluster), generation))
    page = client.get(f"/c/{NAME}/acl/{path}").content.decode()
    assert words in page and re.search(r'type="submit"\s+disabled', page)


def _without(table: AclTable, generation: Generation) -> AclTable:
    kept = tuple(line for line in table.brokers if line.generation != generation)
    return dataclasses.replace(table, brokers=kept)


def test_an_unknown_account_or_object_is_404(guarded: Guarded) -> None:
    client = root(guarded)
    assert client.get(f"/c/{NAME}/acl/account?name=nobody-here").status_code == 404
    assert client.get(f"/c/{NAME}/acl/rocket").status_code == 404
