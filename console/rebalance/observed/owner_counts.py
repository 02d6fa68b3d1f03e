"""Count the owners of the queues of every group of a cluster: no object for each queue or client, of which are many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from console.access.name_scope import NameScope
from console.brokers.mqadmin import is_retry_topic
from console.lag.history.owners import KNOWN_MS
from console.lag.models import ClientRow
from console.lag.rows import queues
from console.lag.rows.client_reports import held_by
from console.rebalance.observed.in_cluster import silent_names
from console.rebalance.observed.ownership import State

QUEUE_FIELDS = "group", "topic", "broker_name", "queue_id"
Key = tuple[str, str, str, int]


class Reports(NamedTuple):
    """What members report, as `group.members_of` reads it: queues with (newest report, members that claim it there)."""

    claims: Mapping[Key, tuple[int, int]]
    idle: Mapping[str, int]
    silent: Mapping[str, int]


class OwnerCounts(NamedTuple):
    """Queues of groups by state, and their members that own none, or do not answer; 0 where there is no entry."""

    queues: Mapping[tuple[str, State], int]
    idle: Mapping[str, int]
    silent: Mapping[str, int]


def owner_counts(cluster: str, now_ms: int, scope: NameScope, known: Collection[str]) -> OwnerCounts:
    """Count for every group, as `ownership.owned` judges; of those in `known` all members are listed. Three queries.

    What a member that no longer answers held last is unknown, as all of a group with such a member that none claims.
    """
    reports = _reports(cluster, now_ms, scope)
    silent_brokers = silent_names(cluster)
    found: defaultdict[tuple[str, State], int] = defaultdict(int)
    for key in queues.every(cluster, *QUEUE_FIELDS):
        group, topic, broker_name, _ = key
        if is_retry_topic(topic):
            continue
        _, claims = reports.claims.get(key, (0, 0))
        if claims:
            state = State.ONE if claims == 1 else State.TWO
        elif group in known and group not in reports.silent and broker_name not in silent_brokers:
            state = State.NONE
        else:
            state = State.UNKNOWN
        found[group, state] += 1
    return OwnerCounts(found, reports.idle, reports.silent)


def _reports(cluster: str, now_ms: int, scope: NameScope) -> Reports:
    claims: dict[Key, tuple[int, int]] = {}
    idle: defaultdict[str, int] = defaultdict(int)
    silent: defaultdict[str, int] = defaultdict(int)
    clients = scope.filter(ClientRow.objects.filter(cluster=cluster), "group")
    for held, group, read_at_ms in held_by(clients, "group", "read_at_ms"):
        if held is None or now_ms - read_at_ms > KNOWN_MS:
            silent[group] += 1
            continue
        own = [
            (group, one.topic, one.broker_name, one.queue_id) for one in held if not is_retry_topic(one.topic)
        ]
        if not own:
            idle[group] += 1
        for key in own:
            newest_ms, count = claims.get(key, (read_at_ms, 0))
            if read_at_ms >= newest_ms:
                claims[key] = read_at_ms, count + 1 if read_at_ms == newest_ms else 1
    return Reports(claims, idle, silent)
