"""The list of groups by who reads their queues: columns, orders and filters, for page, REST and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter

from django.db.models import Max
from msgspec import Struct

from console.access.name_scope import EVERYTHING, NameScope
from console.lag.models import GroupMembers, GroupRow, LagEvent
from console.lists.in_memory import page_in_memory
from console.lists.page import Page
from console.lists.query import ListQuery
from console.lists.spec import Choice, Column, Filter, ListSpec
from console.rebalance.observed.group import shared_mode
from console.rebalance.observed.owner_counts import OwnerCounts, owner_counts
from console.rebalance.observed.ownership import State
from console.text import Text


class GroupState(StrEnum):
    """What is worst about who reads a group's queues."""

    NO_OWNER = "NO_OWNER"
    TWO_OWNERS = "TWO_OWNERS"
    IDLE = "IDLE"  # every queue has one owner, a client has none
    UNKNOWN = "UNKNOWN"
    SHARED = "SHARED"  # broadcasting or POP: no queue has an owner
    OFFLINE = "OFFLINE"
    OK = "OK"


# Most urgent first.
STATES: Mapping[GroupState, Text] = {
    GroupState.NO_OWNER: Text("Queues without owner"),
    GroupState.TWO_OWNERS: Text("Queues with two owners"),
    GroupState.UNKNOWN: Text("Owners unknown"),
    GroupState.IDLE: Text("Idle clients"),
    GroupState.OK: Text("Every queue has one owner"),
    GroupState.SHARED: Text("Queues are shared"),
    GroupState.OFFLINE: Text("No client online"),
}
COUNTED = State.ONE, State.NONE, State.TWO, State.UNKNOWN
URGENCY = {state: number for number, state in enumerate(STATES)}


class RebalancedGroup(Struct, frozen=True):
    """A group and how many of its queues have one owner, none, several or an unknown one; null is unknown."""

    group: str
    state: GroupState
    model: str
    consume_mode: str
    queues: int
    one_owner: int
    no_owner: int
    two_owners: int
    unknown: int
    clients: int | None
    idle: int
    silent: int
    changed_at_ms: int | None
    read_at_ms: int | None

    @property
    def label(self) -> Text:
        return STATES[self.state]


def _by_urgency(row: RebalancedGroup) -> tuple[int, int, int]:
    return -URGENCY[row.state], row.no_owner + row.two_owners, row.queues


REBALANCED = ListSpec(
    name="rebalance",
    key="group",
    default="-urgency",
    columns=(
        Column("group", Text("Group"), css="", order=attrgetter("group"), ascending=True, fields=("group",)),
        Column("state", Text("Owners"), css="", order=lambda row: -URGENCY[row.state], fields=("state",)),
        Column("queues", Text("Queues"), order=attrgetter("queues"), fields=("queues",)),
        Column(
            "one_owner", Text("One owner"), css="num p2", order=attrgetter("one_owner"), fields=("one_owner",)
        ),
        Column("no_owner", Text("No owner"), order=attrgetter("no_owner"), fields=("no_owner",)),
        Column("two_owners", Text("Two owners"), order=attrgetter("two_owners"), fields=("two_owners",)),
        Column("unknown", Text("Unknown"), css="num p2", order=attrgetter("unknown"), fields=("unknown",)),
        Column("clients", Text("Clients"), order=attrgetter("clients"), fields=("clients",)),
        Column("idle", Text("Idle"), css="num p2", order=attrgetter("idle"), fields=("idle",)),
        Column("silent", Text("Silent"), css="num p3", order=attrgetter("silent"), fields=("silent",)),
        Column(
            "changed", Text("Clients changed"), order=attrgetter("changed_at_ms"), fields=("changed_at_ms",)
        ),
    ),
    orders={"urgency": _by_urgency},
    filters=(Filter("state", tuple(Choice(state.value, label) for state, label in STATES.items())),),
    file_fields=("read_at_ms",),
    searched=("group",),
)


@dataclass(frozen=True, slots=True)
class RebalancePage(Page[RebalancedGroup]):
    """One page of groups; how many that match the query each state has."""

    counts_by_filter: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def rebalance_page(
    cluster: str, list_query: ListQuery, now_ms: int, *, scope: NameScope = EVERYTHING
) -> RebalancePage:
    """Return one page of the groups that a reader may see, RocketMQ's own left out. Reads the queues of all groups."""
    rows = rebalanced_groups(cluster, now_ms, scope)
    matching = REBALANCED.matching(rows, list_query.query) if list_query.query else rows
    counts = Counter(row.state.value for row in matching)
    chosen = list_query.filters.get("state")
    shown = [row for row in rows if chosen in (None, row.state.value)]
    whole = GroupRow.objects.filter(cluster=cluster, is_system=False)
    hidden = 0 if scope.is_everything else whole.exclude(scope.condition("group")).count()
    page = page_in_memory(shown, REBALANCED, list_query, not_shown=hidden)
    found = {each.name: getattr(page, each.name) for each in fields(page)} | {"all_total": len(rows)}
    by_state = {state.value: counts.get(state.value, 0) for state in STATES}
    return RebalancePage(**found, counts_by_filter={"state": by_state})


def rebalanced_groups(cluster: str, now_ms: int, scope: NameScope = EVERYTHING) -> list[RebalancedGroup]:
    """Return every group of a scope, by name; six queries."""
    groups = scope.filter(GroupRow.objects.filter(cluster=cluster, is_system=False), "group")
    swept = {
        group: (clients, read_at_ms)
        for group, clients, read_at_ms in GroupMembers.objects.filter(cluster=cluster).values_list(
            "group", "clients", "read_at_ms"
        )
    }
    changes = LagEvent.objects.filter(cluster=cluster, kind=LagEvent.Kind.MEMBERS).order_by()
    changed = dict(changes.values_list("group").annotate(at_ms=Max("at_ms")))
    counts = owner_counts(cluster, now_ms, scope, {name for name, one in swept.items() if one[0] is not None})
    return [
        _listed(group, model, consume_mode, counts, swept.get(group, (None, None)), changed.get(group))
        for group, model, consume_mode in groups.order_by("group").values_list(
            "group", "model", "consume_mode"
        )
    ]


def _listed(
    group: str,
    model: str,
    consume_mode: str,
    counts: OwnerCounts,
    swept: tuple[int | None, int | None],
    changed_at_ms: int | None,
) -> RebalancedGroup:
    clients, read_at_ms = swept
    one, none, two, unknown = (counts.queues.get((group, state), 0) for state in COUNTED)
    queues, idle = one + none + two + unknown, counts.idle.get(group, 0)
    shares = bool(shared_mode(model, consume_mode))
    if shares:
        one = none = two = unknown = idle = 0
    return RebalancedGroup(
        group,
        _state(none, two, unknown, clients, shares, idle),
        model,
        consume_mode,
        queues,
        one,
        none,
        two,
        unknown,
        clients,
        idle,
        counts.silent.get(group, 0),
        changed_at_ms,
        read_at_ms,
    )


def _state(none: int, two: int, unknown: int, clients: int | None, shares: bool, idle: int) -> GroupState:
    if clients == 0:
        return GroupState.OFFLINE
    if shares:
        return GroupState.SHARED
    if none:
        return GroupState.NO_OWNER
    if two:
        return GroupState.TWO_OWNERS
    if clients is None or unknown:
        return GroupState.UNKNOWN
    return GroupState.IDLE if idle else GroupState.OK
