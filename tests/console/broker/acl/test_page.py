"""Access control read from real brokers of both generations: rights, differences, what is unknown; never a secret."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.utils import translation

from console.broker.acl.page import AclTable, read_table
from console.cluster.models import Cluster
from console.templatetags.words import config_object, config_value
from tests.console.broker.acl.conftest import ADMIN, ALICE_SECRET, NAME, SECRET, Guarded
from tests.support.people import signed_in

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database(
        "accounts of brokers; plans, jobs and kept secrets are written as in tests/console/operation and cluster"
    ),
]


def rights(table: AclTable, name: str) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    (holder,) = (each for each in table.holders if each.name == name)
    return [(one.brokers, {right.key: right.value for right in one.rights}) for one in holder.variants]


def test_both_generations_are_read_with_keys_of_the_console(guarded: Guarded) -> None:
    table = read_table(guarded.cluster)
    assert [(line.name, line.generation, line.is_checked) for line in table.brokers] == [
        ("broker-a", "accounts", True),
        ("broker-b", "users", True),
    ]
    assert [line.white_addresses for line in table.brokers] == ["192.0.2.7", None]
    assert rights(table, "alice-key") == [
        (
            ("broker-a",),
            {
                "admin": False,
                "whiteRemoteAddress": "",
                "defaultTopicPerm": "DENY",
                "defaultGroupPerm": "SUB",
                "topic closed": "DENY",
                "topic orders": "PUB|SUB",
                "group billing": "SUB",
            },
        )
    ]
    assert [each.name for each in table.users] == [ADMIN]
    assert rights(AclTable((), table.users, 0), ADMIN) == [
        (("broker-b",), {"userType": "Super", "userStatus": "enable"})
    ]
    assert not any(holder.differs for holder in table.holders)


def test_page_and_rest_show_no_secret(guarded: Guarded) -> None:
    client = signed_in("chief", verbs=("CONFIGURE",))
    page = client.get(f"/c/{NAME}/acl").content.decode()
    answer = client.get(f"/api/v1/clusters/{NAME}/acl")
    assert re.search(r'href="[^"]*/brokers"[^>]*aria-current', page)
    assert "topic orders" in page and "accounts (4.x)" in page and "users and policies (5.x)" in page
    found = answer.json()
    assert [(each["what"], each["name"]) for each in found["holders"]] == [
        ("account", "alice-key"),
        ("account", ADMIN),
        ("user", ADMIN),
    ]
    for text in (page, answer.content.decode()):
        assert SECRET not in text and ALICE_SECRET not in text


@pytest.mark.parametrize(
    ("name", "secret", "reason_a", "reason_b"),
    [
        ("", "", "requires an access key", "requires an access key"),
        ("nobody-here", SECRET, "has no such access key", "has no such access key"),
        (ADMIN, "wrong-secret", "refuses the signature", "refuses the signature"),
        ("alice-key", ALICE_SECRET, "a permission is missing", "has no such access key"),
    ],
)
def test_a_broker_that_refuses_the_console_is_unknown_with_its_reason(
    guarded: Guarded, name: str, secret: str, reason_a: str, reason_b: str
) -> None:
    guarded.sign_as(name, secret)
    table = read_table(guarded.cluster)
    assert [line.generation for line in table.brokers] == [None, None]
    assert [line.is_checked for line in table.brokers] == [None, None]
    reasons = [str(line.reason) for line in table.unknown]
    assert reason_a in reasons[0] and reason_b in reasons[1]
    assert table.holders == ()
    page = signed_in("chief", verbs=("CONFIGURE",)).get(f"/c/{NAME}/acl").content.decode()
    assert "unknown" in page and "No account and no user" not in page


def test_the_missing_right_is_named(guarded: Guarded) -> None:
    guarded.sign_as("alice-key", ALICE_SECRET)
    (reason, _) = (str(line.reason) for line in read_table(guarded.cluster).unknown)
    assert "Need admin permission for request code=54" in reason and "signs as alice-key" in reason


def test_a_silent_broker_is_unknown_and_the_other_is_shown(guarded: Guarded) -> None:
    guarded.collect()
    guarded.b.kill()
    table = read_table(guarded.cluster)
    assert [line.name for line in table.brokers] == ["broker-a", "broker-b"]
    assert [line.name for line in table.unknown] == ["broker-b"]
    assert [each.name for each in table.holders] == ["alice-key", ADMIN]


def test_without_a_name_server_the_page_gives_the_reason(nobody: str) -> None:
    Cluster.objects.create(name=NAME, namesrv_addrs=nobody)
    page = signed_in("chief", verbs=("CONFIGURE",)).get(f"/c/{NAME}/acl").content.decode()
    assert "No broker answered" in page


def test_who_may_only_view_reads_no_account(guarded: Guarded) -> None:
    reader = signed_in("reader", verbs=("VIEW",))
    assert reader.get(f"/c/{NAME}/acl").status_code == 403
    assert reader.get(f"/api/v1/clusters/{NAME}/acl").status_code == 403
    assert "/acl" not in reader.get(f"/c/{NAME}/brokers").content.decode()
    assert (
        f"/c/{NAME}/acl"
        in signed_in("chief", verbs=("CONFIGURE",)).get(f"/c/{NAME}/brokers").content.decode()
    )


def test_a_secret_is_shown_in_words_of_the_reader() -> None:
    with translation.override("zh-hans"):
        assert [str(config_value(value, "password").local()) for value in ("stored", "new")] == [
            "已保存的密钥",
            "新密钥",
        ]
        assert config_object("user", "bob").local() == "用户 bob"
    assert config_value("stored", "brokerRole") == "stored"
