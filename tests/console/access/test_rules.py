"""Who may do what: Alice administers everything, Bob operates orders-*, Charlie belongs to a team, Dora may nothing."""

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User

from console.access import rules, services
from console.access.models import ApiToken, Role, Verb
from console.access.rules import Allowance, TokenPrincipal, may, may_see_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> dict[str, User]:
    services.ensure_first_person()
    names = {name: User.objects.create_user(name) for name in ("bob", "charlie", "dora")}
    names["alice"] = User.objects.create_superuser("alice")
    services.grant(role="operator", user=names["bob"], cluster_pattern="prod-*", name_pattern="orders-*")
    team = Group.objects.create(name="readers")
    names["charlie"].groups.add(team)
    services.grant(role="viewer", team=team, cluster_pattern="staging")
    return {name: User.objects.get(pk=person.pk) for name, person in names.items()}


@pytest.mark.parametrize(
    ("who", "verb", "cluster", "name", "allowed"),
    [
        ("alice", "ADMIN", "*", "*", True),
        ("alice", "RESET", "prod-eu", "billing", True),
        ("bob", "RESET", "prod-eu", "orders-eu", True),
        ("bob", "REPLAY", "prod-eu", "orders-eu", True),
        ("bob", "VIEW", "prod-eu", "orders-eu", True),
        ("bob", "CONFIGURE", "prod-eu", "orders-eu", False),
        ("bob", "ADMIN", "prod-eu", "orders-eu", False),
        ("bob", "RESET", "prod-eu", "billing", False),
        ("bob", "VIEW", "prod-eu", "*", False),
        ("bob", "RESET", "staging", "orders-eu", False),
        ("bob", "RESET", "*", "orders-eu", False),
        ("charlie", "VIEW", "staging", "*", True),
        ("charlie", "VIEW", "staging", "%DLQ%billing", True),
        ("charlie", "SEND", "staging", "billing", False),
        ("charlie", "VIEW", "prod-eu", "billing", False),
        ("dora", "VIEW", "staging", "*", False),
    ],
)
def test_it_answers_from_grants(
    people: dict[str, User], who: str, verb: str, cluster: str, name: str, allowed: bool
) -> None:
    assert may(people[who], verb, cluster, name) is allowed


def test_it_shows_clusters_of_which_anything_may_be_seen(people: dict[str, User]) -> None:
    seen = {
        name: [cluster for cluster in ("prod-eu", "staging", "local") if may_see_cluster(person, cluster)]
        for name, person in people.items()
    }
    assert seen == {
        "alice": ["prod-eu", "staging", "local"],
        "bob": ["prod-eu"],
        "charlie": ["staging"],
        "dora": [],
    }


def test_it_refuses_strangers_and_people_who_left(people: dict[str, User]) -> None:
    assert not may(AnonymousUser(), "VIEW", "staging")
    assert not may_see_cluster(AnonymousUser(), "staging")
    assert not may(None, "VIEW", "staging")
    people["alice"].is_active = False
    assert not may(people["alice"], "VIEW", "staging")
    assert not may_see_cluster(people["alice"], "staging")


def test_it_narrows_a_token_to_its_verbs_and_clusters_and_its_owner(people: dict[str, User]) -> None:
    def principal(owner: str, scopes: list[str], cluster_pattern: str = "*") -> TokenPrincipal:
        return TokenPrincipal(people[owner], ApiToken(scopes=scopes, cluster_pattern=cluster_pattern))

    assert may(principal("alice", ["RESET"]), "RESET", "prod-eu", "billing")
    assert may(principal("alice", ["RESET"]), "VIEW", "prod-eu", "billing")
    assert not may(principal("alice", ["RESET"]), "REPLAY", "prod-eu", "billing")
    assert not may(principal("alice", ["ADMIN"], "staging"), "RESET", "prod-eu", "billing")
    assert may(principal("bob", ["ADMIN"]), "RESET", "prod-eu", "orders-eu")
    assert not may(principal("bob", ["ADMIN"]), "CONFIGURE", "prod-eu", "orders-eu")
    assert may_see_cluster(principal("alice", ["VIEW"], "staging"), "staging")
    assert not may_see_cluster(principal("alice", ["VIEW"], "staging"), "prod-eu")


def test_it_asks_the_database_once_per_person(
    people: dict[str, User], django_assert_num_queries: object
) -> None:
    with django_assert_num_queries(1):  # type: ignore[operator]
        for name in ("orders-eu", "billing", "*"):
            may(people["bob"], "RESET", "prod-eu", name)


def test_it_includes_looking_in_every_verb() -> None:
    for verb in Verb.values:
        assert Allowance(frozenset({verb}), "*").covers("VIEW", "c", "n")
    assert not rules.includes([], "VIEW")


def test_it_brings_four_roles() -> None:
    services.ensure_first_person()
    assert {role.name: role.verbs for role in Role.objects.all()} == {
        "viewer": ["VIEW"],
        "operator": ["VIEW", "SEND", "RESET", "REPLAY", "REPORT"],
        "maintainer": ["VIEW", "SEND", "RESET", "REPLAY", "REPORT", "CONFIGURE"],
        "administrator": ["ADMIN"],
    }
