"""Policies of 5.x: which actions on which resources a subject may do, from where; the entry that decides.

Source: `Resource.java`, `PolicyEntry.java`, `AclAuthorizationHandler.java`. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from brokerd.remoting.body.acl import AclInfo, PolicyEntryInfo, PolicyInfo

ANY = "*"
RESOURCE_TYPES = ("Cluster", "Namespace", "Topic", "Group")
ACTIONS = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
CUSTOM, DEFAULT = "Custom", "Default"
POLICY_TYPES = (CUSTOM, DEFAULT)
ALLOW, DENY = "Allow", "Deny"
DECISIONS = (ALLOW, DENY)
USER_PREFIX = "User:"


class Pattern(IntEnum):
    """How a resource's name is matched; the most specific comes first."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


@dataclass(frozen=True, slots=True)
class Resource:
    """`Topic:orders`, `Group:billing*`, `Cluster:*`, or `*` for everything (no kind)."""

    kind: str
    name: str
    pattern: Pattern = Pattern.LITERAL

    def __str__(self) -> str:
        if not self.kind:
            return ANY
        return f"{self.kind}:{self.name}{'' if self.pattern is Pattern.LITERAL else ANY}"

    def covers(self, wanted: Resource) -> bool:
        if not self.kind:
            return True
        if self.kind != wanted.kind:
            return False
        if self.pattern is Pattern.LITERAL:
            return wanted.name == self.name
        return wanted.name.startswith(self.name)  # that of ANY is empty


def parse_resource(text: str) -> Resource:
    """Raise ValueError for what is no resource."""
    if text == ANY:
        return Resource("", "", Pattern.ANY)
    kind, separator, name = text.partition(":")
    known = word_of(kind, RESOURCE_TYPES)
    if known is None or not separator or not name:
        raise ValueError(
            f"resource {text!r} is none of Topic:name, Group:name, Cluster:name; * at the end covers what begins so"
        )
    if name == ANY:
        return Resource(known, "", Pattern.ANY)
    if name.endswith(ANY):
        return Resource(known, name.partition(ANY)[0], Pattern.PREFIXED)
    return Resource(known, name)


def word_of(text: str | None, words: Sequence[str]) -> str | None:
    """Return the word that `text` is, whatever its capitals."""
    return next((word for word in words if text is not None and word.lower() == text.lower()), None)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """`decision` on `actions` with a resource; from everywhere without `source_ips`."""

    resource: Resource
    actions: tuple[str, ...]
    decision: str
    source_ips: tuple[str, ...] = ()
    networks: tuple[Network, ...] = field(default=(), compare=False)

    def matches(self, wanted: Resource, actions: Collection[str], host: str) -> bool:
        """Return whether it is about one of `actions` with that resource from that host."""
        if not self.resource.covers(wanted):
            return False
        if "All" not in self.actions and not any(action in self.actions for action in actions):
            return False
        if not self.networks:
            return True
        address = ipaddress.ip_address(host.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class Acl:
    """The policies of a subject."""

    custom: tuple[PolicyEntry, ...] = ()
    default: tuple[PolicyEntry, ...] = ()

    def deciding(self, wanted: Resource, actions: Collection[str], host: str) -> PolicyEntry | None:
        """Return the entry that decides: custom before default, then the most specific resource.

        That is: a name, the longer of two prefixes, all of a kind, everything. Deny wins where two are alike. Up to
        5.3.3 the order of AclAuthorizationHandler depends on which entry was made first; later releases have this one.
        """
        for entries in (self.custom, self.default):
            matching = [entry for entry in entries if entry.matches(wanted, actions, host)]
            if matching:
                return min(matching, key=_precedence)
        return None


def _precedence(entry: PolicyEntry) -> tuple[bool, int, int, bool]:
    resource = entry.resource
    return not resource.kind, resource.pattern, -len(resource.name), entry.decision == ALLOW


def parse_entries(policy: PolicyInfo) -> tuple[PolicyEntry, ...]:
    """Raise ValueError with what is wrong."""
    if not policy.entries:
        raise ValueError("The policy entries is empty.")
    return tuple(_parse_entry(entry) for entry in policy.entries)


def _parse_entry(info: PolicyEntryInfo) -> PolicyEntry:
    resource = parse_resource(info.resource)
    actions = tuple(action for each in info.actions if (action := word_of(each, ACTIONS)) is not None)
    if not actions:
        raise ValueError(f"The actions is empty: {info.actions} has none of {', '.join(ACTIONS)}")
    decision = word_of(info.decision, DECISIONS)
    if decision is None:
        raise ValueError(
            f"The decision is null or illegal: {info.decision!r} is none of {', '.join(DECISIONS)}"
        )
    source_ips = tuple(info.source_ips or ())
    try:
        networks = tuple(ipaddress.ip_network(text, strict=False) for text in source_ips)
    except ValueError as error:
        raise ValueError(f"The source ip is invalid: {error}") from None
    return PolicyEntry(resource, actions, decision, source_ips, networks)


def policy_type(text: str | None) -> str:
    """Raise ValueError for a type that does not exist; Custom where none is given."""
    known = word_of(text or CUSTOM, POLICY_TYPES)
    if known is None:
        raise ValueError(f"policyType {text!r} is none of {', '.join(POLICY_TYPES)}")
    return known


def parse_acl(info: AclInfo, onto: Acl = Acl()) -> Acl:  # noqa: B008  it is frozen
    """Return `onto` with what `info` holds; an entry of a known resource replaces that. Raises ValueError."""
    if not info.policies:
        raise ValueError("The policies is empty.")
    acl = onto
    for policy in info.policies:
        kind, entries = policy_type(policy.policy_type), parse_entries(policy)
        if kind == CUSTOM:
            acl = replace(acl, custom=_updated(acl.custom, entries))
        else:
            acl = replace(acl, default=_updated(acl.default, entries))
    return acl


def _updated(known: tuple[PolicyEntry, ...], entries: tuple[PolicyEntry, ...]) -> tuple[PolicyEntry, ...]:
    by_resource = {entry.resource: entry for entry in known}
    return tuple({**by_resource, **{entry.resource: entry for entry in entries}}.values())


def without(acl: Acl, kind: str, resource: Resource) -> Acl:
    """Return the policies without the entry of a resource."""
    if kind == CUSTOM:
        return replace(acl, custom=tuple(entry for entry in acl.custom if entry.resource != resource))
    return replace(acl, default=tuple(entry for entry in acl.default if entry.resource != resource))


def acl_info(subject: str, acl: Acl, resource_filter: str = "") -> AclInfo:
    """Return what mqadmin reads; only entries whose resource contains the filter."""
    policies = []
    for kind, entries in ((CUSTOM, acl.custom), (DEFAULT, acl.default)):
        infos = [
            PolicyEntryInfo(
                str(entry.resource), list(entry.actions), list(entry.source_ips) or None, entry.decision
            )
            for entry in entries
            if resource_filter in str(entry.resource)
        ]
        if infos:
            policies.append(PolicyInfo(kind, infos))
    return AclInfo(subject, policies)
