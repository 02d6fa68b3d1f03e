"""The database's filter lets exactly those names through that `rules.may` allows one by one."""

import pytest
from django.contrib.auth.models import User

from console.access import rules, services
from console.access.models import Role
from console.access.name_scope import EVERYTHING, NameScope, view_scope
from console.access.rules import TokenPrincipal
from console.lag.models import GroupRow, TopicRow
from tests.support import sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

NAMES = (
    "orders",
    "orders-eu",
    "Orders-us",
    "orders_x",
    "a-orders-b",
    "billing",
    "b1",
    "b2",
    "b^",
    "b]",
    "100%",
    "*",
)


@pytest.mark.parametrize(
    ("pattern", "seen"),
    [
        ("*", set(NAMES)),
        ("orders-*", {"orders-eu"}),
        ("orders", {"orders"}),
        ("orders*", {"orders", "orders-eu", "orders_x"}),
        ("*orders*", {"orders", "orders-eu", "orders_x", "a-orders-b"}),
        ("orders?eu", {"orders-eu"}),
        ("b[12]", {"b1", "b2"}),
        ("b[!1]", {"b2", "b^", "b]"}),
        ("b[]]", {"b]"}),
        ("b[^]", {"b^"}),
        ("b[", set()),
        ("b[2-1]", set()),
        ("100%", {"100%"}),
        ("_rders", set()),
    ],
)
def test_it_matches_as_grants_do(pattern: str, seen: set[str]) -> None:
    for name in NAMES:
        sample_rows.group_row(name)
    scope = NameScope((pattern,))
    rows = scope.filter(GroupRow.objects.all(), "group")
    assert {row.group for row in rows} == seen
    assert {name for name in NAMES if scope.covers(name)} == seen


def test_it_reads_a_groups_name_behind_a_prefix() -> None:
    for name in ("%DLQ%orders-eu", "%DLQ%billing", "orders-eu", "%RETRY%orders-eu"):
        sample_rows.topic_row(name)
    for pattern in ("orders-*", "orders-eu", "orders?eu"):
        rows = NameScope((pattern,)).filter(TopicRow.objects.all(), "topic", "%DLQ%")
        assert [row.topic for row in rows] == ["%DLQ%orders-eu"]


def test_it_joins_the_patterns_of_all_grants() -> None:
    services.ensure_first_person()
    person = User.objects.create_user("bob")
    services.grant(role="operator", user=person, cluster_pattern="prod-*", name_pattern="orders-*")
    services.grant(role="viewer", user=person, cluster_pattern="prod-eu", name_pattern="billing")
    assert view_scope(person, "prod-eu") == NameScope(("orders-*", "billing"))
    assert view_scope(person, "prod-us") == NameScope(("orders-*",))
    assert view_scope(person, "staging") == NameScope(())
    assert not NameScope(()).filter(GroupRow.objects.all(), "group").exists()


def test_it_gives_a_token_what_its_owner_may_see_where_it_is_valid() -> None:
    services.ensure_first_person()
    alice = User.objects.create_superuser("alice")
    token, _ = services.create_token(owner=alice, name="ci", scopes=["VIEW"], cluster_pattern="staging")
    principal = TokenPrincipal(alice, token)
    assert view_scope(principal, "staging") == EVERYTHING
    assert view_scope(principal, "prod-eu") == NameScope(())


def test_a_pattern_of_one_letter_is_not_everything() -> None:
    person = User.objects.create_user("eve")
    Role.objects.create(name="narrow", verbs=["ADMIN"])
    services.grant(role="narrow", user=person, cluster_pattern="?", name_pattern="?")
    assert not rules.may(person, "ADMIN", "*", "*")
    assert rules.may(person, "ADMIN", "x", "y")
    assert not view_scope(person, "x").is_everything
