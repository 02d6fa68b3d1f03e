"""Which policy entry decides: against a plain twin, and the cases an operator thinks of."""

from __future__ import annotations

import ipaddress
import itertools
import random

import pytest

from brokerd.acl.policy import Acl, Resource, acl_info, parse_acl, parse_resource
from brokerd.remoting.body.acl import AclInfo, PolicyEntryInfo, PolicyInfo

HOST = "192.0.2.7"


def acl(*entries: tuple[str, str, str], kind: str = "Custom", ips: list[str] | None = None) -> Acl:
    """Entries as `Topic:orders`, `Pub,Sub`, `Allow`."""
    infos = [
        PolicyEntryInfo(resource, actions.split(","), ips, decision)
        for resource, actions, decision in entries
    ]
    return parse_acl(AclInfo("User:alice", [PolicyInfo(kind, infos)]))


def decision(policies: Acl, topic: str, *actions: str, host: str = HOST) -> str | None:
    entry = policies.deciding(Resource("Topic", topic), actions, host)
    return entry.decision if entry is not None else None


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_the_most_specific_entry_decides_in_whatever_order_they_stand(order: tuple[int, ...]) -> None:
    entries = [
        ("*", "All", "Deny"),
        ("Topic:*", "All", "Allow"),
        ("Topic:ord*", "All", "Deny"),
        ("Topic:orders*", "All", "Allow"),
        ("Topic:orders-secret", "All", "Deny"),
    ]
    policies = acl(*(entries[index] for index in order))
    topics = ["orders-secret", "orders-eu", "ordinary", "invoices"]
    assert [decision(policies, topic, "Pub") for topic in topics] == ["Deny", "Allow", "Deny", "Allow"]
    entry = policies.deciding(Resource("Group", "billing"), ["Sub"], HOST)
    assert entry is not None and entry.decision == "Deny"


def test_an_entry_counts_for_its_actions_and_addresses_only() -> None:
    policies = acl(("Topic:orders", "Pub,get", "Allow"), ips=["192.0.2.0/24", "2001:db8::7"])
    assert decision(policies, "orders", "Pub") == "Allow"
    assert decision(policies, "orders", "Sub") is None
    assert decision(policies, "orders", "Sub", "Get") == "Allow", "one of those needed is enough"
    assert decision(policies, "orders", "Pub", host="192.0.3.7") is None
    assert decision(policies, "orders", "Pub", host="2001:db8::7") == "Allow"
    assert decision(policies, "orders", "Pub", host="::ffff:192.0.2.9") == "Allow"


def test_default_entries_count_where_no_custom_one_matches() -> None:
    infos = [
        PolicyInfo("Default", [PolicyEntryInfo("Topic:*", ["All"], None, "Deny")]),
        PolicyInfo("Custom", [PolicyEntryInfo("Topic:orders", ["Pub"], None, "Allow")]),
    ]
    policies = parse_acl(AclInfo("User:alice", infos))
    assert [decision(policies, topic, "Pub") for topic in ("orders", "invoices")] == ["Allow", "Deny"]


def plain_decision(
    entries: list[tuple[str, str, str, str]], topic: str, action: str, host: str
) -> str | None:
    """The rule by its words: of those that match, a name, then longer prefixes, then Topic:*, then *."""
    found = []
    for resource, actions, verdict, network in entries:
        name = resource.removeprefix("Topic:")
        rank = (
            10_000 if resource == "*" else 1_000 if name == "*" else 500 - len(name) if name[-1] == "*" else 0
        )
        if name[-1] == "*" and not topic.startswith(name[:-1]):
            continue
        if name[-1] != "*" and topic != name:
            continue
        if actions not in ("All", action) or ipaddress.ip_address(host) not in ipaddress.ip_network(network):
            continue
        found.append((rank, verdict))
    return min(found)[1] if found else None


def test_it_agrees_with_the_twin() -> None:
    chance = random.Random(7)
    decided = set()
    for _ in range(3_000):
        resources = chance.sample(
            ["*", "Topic:*", "Topic:a*", "Topic:ab*", "Topic:abc*", "Topic:ab", "Topic:abc"], 4
        )
        entries = [
            (
                resource,
                chance.choice(["All", "Pub", "Sub"]),
                chance.choice(["Allow", "Deny"]),
                chance.choice(["0.0.0.0/0", "192.0.2.0/24", "192.0.2.7/32"]),
            )
            for resource in resources
        ]
        policies = Acl()
        for resource, actions, verdict, network in entries:
            info = PolicyEntryInfo(resource, [actions], [network], verdict)
            policies = parse_acl(AclInfo("User:alice", [PolicyInfo(None, [info])]), policies)
        topic, action = chance.choice(["a", "ab", "abc", "abcd", "b"]), chance.choice(["Pub", "Sub"])
        host = chance.choice(["192.0.2.7", "192.0.2.8", "192.0.9.9"])
        expected = plain_decision(entries, topic, action, host)
        assert decision(policies, topic, action, host=host) == expected, (entries, topic, action, host)
        decided.add(expected)
    assert decided == {"Allow", "Deny", None}


def test_an_update_replaces_the_entry_of_its_resource() -> None:
    first = acl(("Topic:a", "Pub", "Allow"), ("Group:*", "Sub", "Allow"))
    change = AclInfo("User:alice", [PolicyInfo(None, [PolicyEntryInfo("Topic:a", ["Pub"], [], "Deny")])])
    shown = acl_info("User:alice", parse_acl(change, first)).to_value()
    assert shown == {
        "subject": "User:alice",
        "policies": [
            {
                "policyType": "Custom",
                "entries": [
                    {"resource": "Topic:a", "actions": ["Pub"], "decision": "Deny"},
                    {"resource": "Group:*", "actions": ["Sub"], "decision": "Allow"},
                ],
            }
        ],
    }


@pytest.mark.parametrize("text", ["", "orders", "Topic:", "Queue:a", ":a"])
def test_a_bad_resource_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is none of Topic:name, Group:name, Cluster:name"):
        parse_resource(text)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (PolicyEntryInfo("Topic:a", ["Fly"], None, "Allow"), "The actions is empty"),
        (PolicyEntryInfo("Topic:a", ["Pub"], None, "Perhaps"), "The decision is null or illegal"),
        (PolicyEntryInfo("Topic:a", ["Pub"], ["here"], "Allow"), "The source ip is invalid"),
    ],
)
def test_a_bad_entry_is_named(entry: PolicyEntryInfo, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_acl(AclInfo("User:alice", [PolicyInfo(None, [entry])]))
