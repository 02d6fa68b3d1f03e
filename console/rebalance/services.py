"""Assign queues: enrol groups, compute, store on brokers, check that clients follow.

Brokers do not depend on it: while an assignment does not fit its live members, a broker computes the same
function itself.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    ConsumerConnection,
    MessageQueue,
    MQAdmin,
    MQBrokerError,
    MQClientError,
    Placement,
    RemotingError,
    with_admin,
)
from console.cluster import selectors as cluster_selectors
from console.cluster.models import Cluster
from console.lag.models import BrokerRow, GroupMembers, TopicRow
from console.lag.round.view import Silence, silence_text
from console.rebalance import rules, selectors
from console.rebalance.models import ServerSideGroup
from console.rebalance.rules import ASSIGNMENT_CAPABILITY, KeptPlacement
from console.text import Text, stored, text_of

logger = logging.getLogger(__name__)

DEADLINE_MS = 3_000  # for all requests about a cluster's groups; the next run repeats them
MIN_DEADLINE_MS = 500  # minimum left for the last requests
CLAIM_MS = 15_000  # a worker that died delays a group for this long
ENROLLED_MAX = 200  # groups the console enrols by itself
State = ServerSideGroup.State
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def brokers_without_assignment(cluster_name: str, broker_names: Sequence[str]) -> list[str]:
    """Return those of some brokers that do not list the capability to store assignments."""
    rows = BrokerRow.objects.filter(cluster=cluster_name, broker_name__in=broker_names)
    able = {row.broker_name for row in rows if ASSIGNMENT_CAPABILITY in row.capabilities}
    return sorted(set(broker_names) - able)


def enrol_embedded_groups(now_ms: int) -> int:
    """Enrol the connected, concurrent groups of the embedded cluster; return how many are new."""
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
        if not brokers_without_assignment(cluster.name, brokers[topic]):
            _, is_new = ServerSideGroup.objects.get_or_create(
                cluster=cluster.name,
                group=group,
                topic=topic,
                defaults={"strategy": "AVG", "is_automatic": True, "created_at_ms": now_ms},
            )
            made += is_new
    return made


def clusters_with_groups() -> list[str]:
    """Return the clusters with groups to assign; delete groups of clusters no longer registered."""
    known = {cluster.name for cluster in cluster_selectors.clusters()}
    ServerSideGroup.objects.exclude(cluster__in=known).delete()
    return sorted(set(ServerSideGroup.objects.values_list("cluster", flat=True)))


def rebalance_due(cluster_name: str, now_ms: int, group: str = "") -> int:
    """Assign every group of a cluster, or one, that no other worker has claimed; return how many topics."""
    cluster = Cluster.objects.filter(name=cluster_name).first()
    if cluster is None:
        return 0
    due = ServerSideGroup.objects.filter(cluster=cluster_name)
    rows = [row for row in (due.filter(group=group) if group else due) if _is_claimed(row, now_ms)]
    try:
        if rows:
            rebalance(rows, with_admin(cluster.connection), now_ms=now_ms)
    finally:
        # an expired claim may be another worker's by now
        ours = ServerSideGroup.objects.filter(
            pk__in=[row.pk for row in rows], claimed_until_ms=now_ms + CLAIM_MS
        )
        ours.update(claimed_until_ms=0)
    return len(rows)


def _is_claimed(row: ServerSideGroup, now_ms: int) -> bool:
    free = ServerSideGroup.objects.filter(
        pk=row.pk, claimed_until_ms=row.claimed_until_ms, claimed_until_ms__lte=now_ms
    )
    return free.update(claimed_until_ms=now_ms + CLAIM_MS) == 1


def put_placement(
    cluster: Cluster, group: str, topic: str, placement: KeptPlacement, *, now_ms: int
) -> ServerSideGroup | None:
    """Put a placement into force and assign at once; None while a worker holds the group (`CLAIM_MS` at most).

    A group that was not in server-side mode yet is enrolled.
    """
    row, _ = ServerSideGroup.objects.get_or_create(
        cluster=cluster.name,
        group=group,
        topic=topic,
        defaults={"strategy": "AVG", "created_at_ms": now_ms},
    )
    if not _is_claimed(row, now_ms):
        return None
    try:
        row.refresh_from_db()
        row.placement, row.placed_at_ms = stored.as_json(placement), max(now_ms, row.placed_at_ms + 1)
        row.save(update_fields=["placement", "placed_at_ms"])
        rebalance([row], with_admin(cluster.connection), now_ms=now_ms)
    finally:
        mine = ServerSideGroup.objects.filter(pk=row.pk, claimed_until_ms=now_ms + CLAIM_MS)
        mine.update(claimed_until_ms=0)
    return row


class _Questions:
    """Requests to brokers under one common deadline: a silent broker costs it once for all groups."""

    def __init__(self, admin: BlockingMQAdmin) -> None:
        self._admin = admin
        self._until_s = time.monotonic() + DEADLINE_MS / 1000

    def ask(self, calls: Mapping[K, Callable[[MQAdmin], Awaitable[T]]]) -> dict[K, T | Exception]:
        """Send all requests in parallel; those without an answer in the remaining time return an error."""
        left_ms = max(MIN_DEADLINE_MS, round((self._until_s - time.monotonic()) * 1000))
        return self._admin.gather(calls, deadline_ms=left_ms) if calls else {}


@dataclass(slots=True)
class _Division:
    """One topic of one group in work: the queues to assign, their brokers, each member's share."""

    row: ServerSideGroup
    queues: list[MessageQueue]
    brokers: list[str]
    placement: Placement
    assignment: dict[str, list[MessageQueue]] = field(default_factory=dict)


def rebalance(rows: Sequence[ServerSideGroup], admin: BlockingMQAdmin, *, now_ms: int) -> None:
    """Assign topics of groups of one cluster, all in parallel.

    1. Read the routes and, from every broker of each, the members.
    2. Compute; a changed assignment gets a new version.
    3. Store it on every broker that does not have that version.
    4. Compare it with what clients report.

    A group with a broker that was silent in the last round becomes FAILED; its brokers are not asked.
    """
    questions = _Questions(admin)
    divisions = _routed(rows, questions)
    computed = [one for one in _with_members(divisions, questions) if _compute(one, now_ms)]
    failed = _push(computed, questions)
    for one in computed:
        row = one.row
        if failed.get(row.pk):
            _set(row, state=State.PENDING, reason=Text.of_parts(failed[row.pk]))
            continue
        if not one.assignment:
            _set(row)
            continue
        clients = selectors.client_views(row.cluster, row.group)
        if rules.is_followed(row.topic, one.assignment, clients):
            _set(row, state=State.APPLIED, reason=Text(), applied_at_ms=row.applied_at_ms or now_ms)
        else:
            _set(row, state=State.STORED, reason=Text("not all clients have reported the change yet"))


def _routed(rows: Sequence[ServerSideGroup], questions: _Questions) -> list[_Division]:
    routes = questions.ask({row.topic: partial(MQAdmin.topic_route, topic=row.topic) for row in rows})
    silent = {
        broker.addr: Silence(broker.since_ms, broker.reason)
        for broker in BrokerRow.objects.filter(cluster=rows[0].cluster, answered=False)
    }
    found = []
    for row in rows:
        route = routes[row.topic]
        if isinstance(route, Exception):
            _set(row, state=State.FAILED, reason=text_of(route))
            continue
        names = {
            min(data.broker_addrs.items())[1]: data.broker_name
            for data in route.broker_datas
            if data.broker_addrs
        }
        away = next((addr for addr in names if addr in silent), None)
        if away is not None:
            _set(row, state=State.FAILED, reason=silence_text(names[away], silent[away]))
            continue
        placement = stored.of_json(KeptPlacement, row.placement).on(row.topic)
        found.append(_Division(row, rules.readable_queues(row.topic, route), list(names), placement))
    return found


def _with_members(divisions: Sequence[_Division], questions: _Questions) -> Iterator[_Division]:
    """Yield divisions whose brokers all reported their members, with a share for each member.

    With half of the members, these would get all of the queues.
    """
    calls = {
        (one.row.group, addr): partial(_ask_members, addr=addr, group=one.row.group)
        for one in divisions
        for addr in one.brokers
    }
    answers = questions.ask(calls)
    for one in divisions:
        answers_of_group = [answers[one.row.group, addr] for addr in one.brokers]
        members: dict[str, int] = {}
        try:
            for answer in answers_of_group:
                if isinstance(answer, Exception):
                    raise answer
                members |= {each.client_id: each.version for each in answer.connection_set} if answer else {}
            before = rules.of_json(one.row.topic, one.row.assignment)
            one.assignment = rules.compute(
                one.queues, members, one.row.strategy, one.placement, before, members
            )
        except (MQClientError, MQBrokerError, RemotingError, OSError, ValueError) as error:
            _set(one.row, state=State.FAILED, reason=text_of(error))
        else:
            yield one


def _compute(one: _Division, now_ms: int) -> bool:
    """Give a changed assignment a new version; return whether there is anything to assign."""
    row = one.row
    if not one.assignment:
        reason = Text("no client is connected") if one.queues else Text("the topic has no readable queue")
        if row.version < row.placed_at_ms and one.queues:
            # Brokers have the placement before the first client connects.
            row.assignment, row.version, row.pushed = {}, _next_version(row, now_ms), {}
        _set(row, state=State.IDLE, reason=reason)
        return bool(one.queues) and row.placed_at_ms > 0 and set(row.pushed) != set(one.brokers)
    if rules.to_json(one.assignment) != row.assignment or row.version < row.placed_at_ms:
        logger.info(
            "assignment computed group=%s topic=%s clients=%d", row.group, row.topic, len(one.assignment)
        )
        row.assignment, row.version = rules.to_json(one.assignment), _next_version(row, now_ms)
        row.pushed, row.applied_at_ms = {}, None
    return True


def _next_version(row: ServerSideGroup, now_ms: int) -> int:
    """Return a version that brokers take, although a clock was set back."""
    return max(now_ms, row.version + 1, row.placed_at_ms)


async def _ask_members(admin: MQAdmin, *, addr: str, group: str) -> ConsumerConnection | None:
    return await admin.consumer_connection(addr, group)


def _push(divisions: Sequence[_Division], questions: _Questions) -> dict[int, list[Text]]:
    """Store assignments on brokers that lack them; return failures by the row's key."""
    calls = {}
    for one in divisions:
        row = one.row
        row.pushed = {addr: version for addr, version in row.pushed.items() if addr in one.brokers}
        for addr in one.brokers:
            if row.pushed.get(addr) != row.version:
                calls[row.pk, addr] = partial(
                    _put, addr=addr, row=row, assignment=one.assignment, placement=one.placement
                )
    rows = {one.row.pk: one.row for one in divisions}
    failed: dict[int, list[Text]] = defaultdict(list)
    for (key, addr), answer in questions.ask(calls).items():
        if isinstance(answer, Exception):
            failed[key].append(Text("%(addr)s: %(why)s", addr=addr, why=text_of(answer)))
        else:
            rows[key].pushed[addr] = rows[key].version
    return failed


async def _put(
    admin: MQAdmin,
    *,
    addr: str,
    row: ServerSideGroup,
    assignment: dict[str, list[MessageQueue]],
    placement: Placement,
) -> None:
    await admin.put_assignment(addr, row.group, row.topic, assignment, row.version, placement)


def _set(row: ServerSideGroup, **values: Any) -> None:
    """Save a row's progress, unless the group was removed or placed anew meanwhile."""
    for name, value in values.items():
        setattr(row, name, value)
    fields = ("assignment", "version", "pushed", "applied_at_ms", "state", "reason")
    ServerSideGroup.objects.filter(pk=row.pk, placed_at_ms=row.placed_at_ms).update(
        **{name: getattr(row, name) for name in fields}
    )
