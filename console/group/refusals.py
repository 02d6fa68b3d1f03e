"""What each broker refuses to which groups, read twice a minute and after each change made here.

One request per broker (201). So a restarted console has all pauses, including those made elsewhere; a broker
that does not answer keeps its last report, with its age.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from console.brokers.mqadmin import (
    BrokerUnavailable,
    GroupRefusals,
    MQBrokerError,
    RemotingTimeout,
    with_admin,
)
from console.brokers.queues import ask_each, masters
from console.cluster import selectors as cluster_selectors
from console.group.models import BrokerRefusals
from console.text import Text, text_of

DEADLINE_MS = 5_000
# A broker that is gone for good leaves the list a day after its last answer, as it leaves the page of brokers.
DROP_AFTER_MS = 24 * 3_600_000


def survey_cluster(cluster: str, *, now_ms: int) -> int:
    """Read every master; return how many answered. Silent name servers change nothing but ages."""
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
    try:
        addrs = masters(admin)
    except (BrokerUnavailable, RemotingTimeout, MQBrokerError) as error:
        BrokerRefusals.objects.filter(cluster=cluster).update(reason=text_of(error))
        return 0
    known = {row.broker_name: row for row in BrokerRefusals.objects.filter(cluster=cluster)}
    answers = ask_each(admin, addrs, lambda client, addr: client.group_refusals(addr), DEADLINE_MS)
    for broker_name, answer in answers.items():
        row = known.pop(broker_name, None) or BrokerRefusals(cluster=cluster, broker_name=broker_name)
        if isinstance(answer, Exception):
            row.reason = text_of(answer)
        else:
            _take(row, answer, now_ms)
        row.save()
    for row in known.values():
        if row.read_at_ms is None or row.read_at_ms < now_ms - DROP_AFTER_MS:
            row.delete()
        else:
            row.reason = Text("No name server lists it with a master.")
            row.save()
    return sum(not isinstance(answer, Exception) for answer in answers.values())


def drop_removed_clusters() -> None:
    """Delete rows of clusters that are no longer registered."""
    names = [cluster.name for cluster in cluster_selectors.clusters()]
    BrokerRefusals.objects.exclude(cluster__in=names).delete()


def _take(row: BrokerRefusals, answer: GroupRefusals, now_ms: int) -> None:
    """Update a row; what was seen before keeps the time it was first seen."""
    first_ms = 0 if row.read_at_ms is None else now_ms
    was = row.topics or {}
    row.topics = (
        None
        if answer.topics is None
        else {
            group: _seen(was.get(group, {}), topics, first_ms)
            for group, topics in sorted(answer.topics.items())
        }
    )
    row.groups = _seen(row.groups, answer.groups, first_ms)
    row.read_at_ms, row.reason = now_ms, Text()


def _seen(was: Mapping[str, int], names: Iterable[str], first_ms: int) -> dict[str, int]:
    return {name: was.get(name, first_ms) for name in sorted(names)}
