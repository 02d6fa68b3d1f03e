"""What members of all groups of a cluster report, and what is wrong with it: read from rows, no broker is called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from console.access.name_scope import EVERYTHING, NameScope
from console.brokers.mqadmin import MessageQueue, is_retry_topic
from console.lag import selectors as lag_selectors
from console.lag.models import ClientRow, GroupMembers, GroupRow
from console.lag.rows import queues
from console.rebalance.observed.findings import Finding, Subject, member_findings, topic_findings
from console.rebalance.observed.group import lost_owners, members_of, shared_mode
from console.rebalance.observed.ownership import Member, owned

# A client reads routes each 30 s, divides queues each 20 s, and is asked for its queues each 30 s: until then some of
# a group that has just started lack an owner, or have two.
SETTLED_AFTER_MS = 90_000


def cluster_findings(
    cluster: str, now_ms: int, scope: NameScope = EVERYTHING, *, most_queues: int | None = None
) -> list[tuple[str, Finding]]:
    """Return what is wrong with who reads what, by group of a scope with clients; six queries.

    Raise TooManyQueues where the groups have more than `most_queues`.

    Without what needs the strategy, the lag or the past of a group: these are on its page. A group that has just
    started may still divide its queues.
    """
    found = list(_of_rows(cluster, now_ms, scope, most_queues))
    lost = lost_owners(cluster, {(group, queue) for group, one in found for queue in one.queues})
    since = [
        min((lost[group, queue] for queue in one.queues if (group, queue) in lost), default=None)
        for group, one in found
    ]
    return [(group, replace(one, since_ms=at_ms)) for (group, one), at_ms in zip(found, since, strict=True)]


def _of_rows(
    cluster: str, now_ms: int, scope: NameScope, most_queues: int | None
) -> Iterator[tuple[str, Finding]]:
    members = members_by_group(cluster, now_ms, scope)
    rows = GroupRow.objects.filter(cluster=cluster, is_system=False, group__in=members).order_by("group")
    swept = GroupMembers.objects.filter(cluster=cluster, group__in=members, clients__isnull=False)
    known = set(swept.values_list("group", flat=True))
    held = queues_by_group(cluster, list(members), most_queues)
    silent = silent_names(cluster)
    for row in rows.only("group", "model", "consume_mode"):
        theirs = members[row.group]
        is_shared = bool(shared_mode(row.model, row.consume_mode))
        by_topic: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in held[row.group]:
            by_topic[queue.topic].append(queue)
        is_divided = not is_shared and _is_settled(theirs, now_ms)
        for topic, its_queues in sorted(by_topic.items()) if is_divided else ():
            owners = owned(
                sorted(its_queues), theirs, are_members_known=row.group in known, silent_brokers=silent
            )
            for found in topic_findings(Subject(topic, owners, theirs, None, {}, now_ms)):
                yield row.group, found
        for found in member_findings(theirs, {}, by_topic, now_ms, shares_queues=is_shared):
            yield row.group, found


def _is_settled(members: Sequence[Member], now_ms: int) -> bool:
    """Return whether one of them has run for long enough, or does not report since when it runs."""
    started = [one.started_at_ms for one in members]
    return any(at_ms is None or now_ms - at_ms >= SETTLED_AFTER_MS for at_ms in started)


def members_by_group(cluster: str, now_ms: int, scope: NameScope) -> Mapping[str, list[Member]]:
    """Return the members of every group of a scope, by client id; one query."""
    found: dict[str, list[Member]] = defaultdict(list)
    rows = scope.filter(ClientRow.objects.filter(cluster=cluster), "group")
    for group, member in members_of(rows.order_by("group", "client_id"), now_ms):
        found[group].append(member)
    return found


def queues_by_group(
    cluster: str, groups: Sequence[str], most: int | None = None
) -> Mapping[str, list[MessageQueue]]:
    """Return the queues of groups, their retry topics left out; one query. Raise TooManyQueues."""
    found: dict[str, list[MessageQueue]] = defaultdict(list)
    for group, topic, broker_name, queue_id in queues.keys_of_groups(cluster, groups, most=most):
        if not is_retry_topic(topic):
            found[group].append(MessageQueue(topic, broker_name, queue_id))
    return found


def silent_names(cluster: str) -> Collection[str]:
    """Return the names of the brokers that did not answer the last round."""
    return {one.broker_name for one in lag_selectors.silent_brokers(cluster)}
