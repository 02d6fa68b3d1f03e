"""What members of all groups of a cluster report, and what is wrong with it: read from rows, no broker is called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from console.access.name_scope import EVERYTHING, NameScope
from console.brokers.mqadmin import RETRY_TOPIC_PREFIX, MessageQueue
from console.lag import selectors as lag_selectors
from console.lag.models import ClientRow, GroupMembers, GroupRow
from console.lag.rows import queues
from console.rebalance.observed.findings import Finding, Subject, member_findings, topic_findings
from console.rebalance.observed.group import member_of, shared_mode
from console.rebalance.observed.ownership import Member, owned


def cluster_findings(
    cluster: str, now_ms: int, scope: NameScope = EVERYTHING
) -> Iterator[tuple[str, Finding]]:
    """Return what is wrong with who reads what, by group of a scope with clients; five queries.

    Without what needs the strategy, the lag or the past of a group: these are on its page.
    """
    members = members_by_group(cluster, now_ms, scope)
    rows = GroupRow.objects.filter(cluster=cluster, is_system=False, group__in=members).order_by("group")
    swept = GroupMembers.objects.filter(cluster=cluster, group__in=members, clients__isnull=False)
    known = set(swept.values_list("group", flat=True))
    held = queues_by_group(cluster, list(members))
    silent = silent_names(cluster)
    for row in rows.only("group", "model", "consume_mode"):
        theirs = members[row.group]
        is_shared = bool(shared_mode(row))
        by_topic: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in held[row.group]:
            by_topic[queue.topic].append(queue)
        for topic, its_queues in () if is_shared else sorted(by_topic.items()):
            owners = owned(
                sorted(its_queues), theirs, are_members_known=row.group in known, silent_brokers=silent
            )
            for found in topic_findings(Subject(topic, owners, theirs, None, {}, now_ms)):
                yield row.group, found
        for found in member_findings(theirs, {}, by_topic, now_ms, shares_queues=is_shared):
            yield row.group, found


def members_by_group(cluster: str, now_ms: int, scope: NameScope) -> Mapping[str, list[Member]]:
    """Return the members of every group of a scope, by client id; one query."""
    found: dict[str, list[Member]] = defaultdict(list)
    rows = scope.filter(ClientRow.objects.filter(cluster=cluster), "group").defer("progress")
    for row in rows.order_by("group", "client_id"):
        found[row.group].append(member_of(row, now_ms))
    return found


def queues_by_group(cluster: str, groups: Sequence[str]) -> Mapping[str, list[MessageQueue]]:
    """Return the queues of groups, their retry topics left out; one query."""
    found: dict[str, list[MessageQueue]] = defaultdict(list)
    for group, topic, broker_name, queue_id in queues.keys_of_groups(cluster, groups):
        if not topic.startswith(RETRY_TOPIC_PREFIX):
            found[group].append(MessageQueue(topic, broker_name, queue_id))
    return found


def silent_names(cluster: str) -> Collection[str]:
    """Return the names of the brokers that did not answer the last round."""
    return {one.broker_name for one in lag_selectors.silent_brokers(cluster)}
