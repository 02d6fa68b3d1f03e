"""Dividing queues: switching groups to server-side mode, computing, storing on brokers, watching clients
follow.

The broker is never dependent on this: while an assignment does not fit its live members it computes the same
function.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from console.cluster import selectors as cluster_selectors
from console.cluster.models import Cluster
from console.lag.models import BrokerRow, GroupMembers, TopicRow
from console.mqadmin import (
    BlockingMQAdmin,
    ConsumerConnection,
    MessageQueue,
    MQAdmin,
    MQBrokerError,
    MQClientError,
    with_admin,
)
from console.rebalance import rules, selectors
from console.rebalance.models import ServerSideGroup
from console.rebalance.rules import ASSIGNMENT_CAPABILITY

logger = logging.getLogger(__name__)

DEADLINE_MS = 3_000  # of the questions about one group; the next round asks again
CLAIM_MS = 15_000  # a worker that died holds a group up this long
ENROLLED_MAX = 200  # groups the console enrols by itself
State = ServerSideGroup.State


def _brokers_without_assignment(cluster_name: str, broker_names: Sequence[str]) -> list[str]:
    rows = BrokerRow.objects.filter(cluster=cluster_name, broker_name__in=broker_names)
    able = {row.broker_name for row in rows if ASSIGNMENT_CAPABILITY in row.capabilities}
    return sorted(set(broker_names) - able)


def enrol_embedded_groups(now_ms: int) -> int:
    """Divide the connected, concurrent groups of the embedded cluster without being asked; returns how many
    are new.
    """
    cluster = Cluster.objects.filter(is_embedded=True).first()
    if cluster is None:
        return 0
    known = set(ServerSideGroup.objects.filter(cluster=cluster.name).values_list("group", "topic"))
    members = GroupMembers.objects.filter(
        cluster=cluster.name, clients__gt=0, model="CLUSTERING", consume_mode="CONCURRENTLY"
    )
    brokers = {row.topic: row.brokers for row in TopicRow.objects.filter(cluster=cluster.name, kind="NORMAL")}
    wanted = [
        (row.group, topic)
        for row in members.order_by("group")
        for topic in row.topics
        if (row.group, topic) not in known and topic in brokers
    ]
    made = 0
    for group, topic in wanted[: max(0, ENROLLED_MAX - len(known))]:
        if not _brokers_without_assignment(cluster.name, brokers[topic]):
            _, is_new = ServerSideGroup.objects.get_or_create(
                cluster=cluster.name,
                group=group,
                topic=topic,
                defaults={"strategy": "AVG", "is_automatic": True, "created_at_ms": now_ms},
            )
            made += is_new
    return made


def rebalance_due(now_ms: int) -> int:
    """Divide every group whose turn it is; returns how many this worker handled."""
    handled = 0
    addrs = {cluster.name: cluster.namesrv_addrs for cluster in cluster_selectors.clusters()}
    for row in ServerSideGroup.objects.filter(claimed_until_ms__lte=now_ms):
        if row.cluster not in addrs:
            row.delete()
            continue
        free = ServerSideGroup.objects.filter(pk=row.pk, claimed_until_ms=row.claimed_until_ms)
        if free.update(claimed_until_ms=now_ms + CLAIM_MS) != 1:
            continue
        try:
            rebalance(row, with_admin(addrs[row.cluster]), now_ms=now_ms)
        finally:
            ours = ServerSideGroup.objects.filter(pk=row.pk, claimed_until_ms=now_ms + CLAIM_MS)
            ours.update(claimed_until_ms=0)  # a claim that ran out may be another worker's by now
        handled += 1
    return handled


def rebalance(row: ServerSideGroup, admin: BlockingMQAdmin, *, now_ms: int) -> None:
    """Divide one topic of one group.

    1. Read the route and, from every broker of it, the members. 2. Compute; a changed division gets a new
    version. 3. Store it on every broker that does not have that version. 4. Compare with what the clients say
    they hold.
    """
    try:
        route = admin.topic_route(row.topic)
        queues = rules.readable_queues(row.topic, route)
        brokers = [min(data.broker_addrs.items())[1] for data in route.broker_datas if data.broker_addrs]
        members = _members(admin, row.group, brokers)
        assignment = rules.compute(queues, members, row.strategy)
    except (MQClientError, MQBrokerError, ValueError) as error:
        _set(row, state=State.FAILED, reason=str(error))
        return
    if not assignment:
        _set(
            row,
            state=State.IDLE,
            reason="no client is connected" if queues else "the topic has no readable queue",
        )
        return
    if rules.to_json(assignment) != row.assignment:
        logger.info("assignment computed group=%s topic=%s clients=%d", row.group, row.topic, len(assignment))
        row.assignment, row.version, row.pushed, row.applied_at_ms = (
            rules.to_json(assignment),
            now_ms,
            {},
            None,
        )
    failed = _push(row, admin, brokers, assignment)
    if failed:
        _set(row, state=State.PENDING, reason="; ".join(failed))
        return
    clients = selectors.client_views(row.cluster, row.group)
    if rules.is_followed(row.topic, assignment, clients):
        _set(row, state=State.APPLIED, reason="", applied_at_ms=row.applied_at_ms or now_ms)
    else:
        _set(row, state=State.STORED, reason="the clients have not all said yet that they follow")


def _members(admin: BlockingMQAdmin, group: str, brokers: Sequence[str]) -> set[str]:
    """Return the ids of the group's members on all brokers. Raises MQClientError or MQBrokerError when one
    does not say.
    """
    calls = {addr: partial(_ask_members, addr=addr, group=group) for addr in brokers}
    members: set[str] = set()
    for answer in admin.gather(calls, deadline_ms=DEADLINE_MS).values():
        if isinstance(answer, Exception):
            raise answer  # half of the members would get all of the queues
        if answer is not None:
            members |= {client.client_id for client in answer.connection_set}
    return members


async def _ask_members(admin: MQAdmin, *, addr: str, group: str) -> ConsumerConnection | None:
    return await admin.consumer_connection(addr, group)


def _push(
    row: ServerSideGroup,
    admin: BlockingMQAdmin,
    brokers: Sequence[str],
    assignment: dict[str, list[MessageQueue]],
) -> list[str]:
    """Store the assignment where it is not yet; return what went wrong, by broker."""
    failed = []
    pushed = {addr: version for addr, version in row.pushed.items() if addr in brokers}
    for addr in brokers:
        if pushed.get(addr) == row.version:
            continue
        try:
            admin.put_assignment(addr, row.group, row.topic, assignment, row.version)
            pushed[addr] = row.version
        except (MQClientError, MQBrokerError) as error:
            failed.append(f"{addr}: {error}")
    row.pushed = pushed
    return failed


def _set(row: ServerSideGroup, **values: Any) -> None:
    """Save a row's progress, unless somebody switched the group back meanwhile."""
    for name, value in values.items():
        setattr(row, name, value)
    fields = ("assignment", "version", "pushed", "applied_at_ms", "state", "reason")
    ServerSideGroup.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in fields})
