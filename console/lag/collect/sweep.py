"""Read the connected clients of every group, about every 30 s, outside the rounds: many calls.

Ownership is what clients report: each connected client is asked (307, relayed by its broker) which queues it holds. A
client that does not answer has no queues on record; its row has the reason.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec
from django.db import transaction

from console.brokers.mqadmin import (
    PROXY_TOPIC,
    BlockingMQAdmin,
    ConsumerConnection,
    MQAdmin,
    is_system_group,
    queue_ranges,
    retry_topic,
    with_admin,
)
from console.cluster.models import Cluster
from console.lag.collect import proxies
from console.lag.collect.version import version_name
from console.lag.database_router import METRICS
from console.lag.history import chronicle, client_positions, owners
from console.lag.history.member_changes import change_of
from console.lag.models import (
    NAME_LENGTH_MAX,
    BrokerRow,
    ClientRow,
    CollectorLease,
    GroupMembers,
    GroupRow,
    GroupWatch,
    TopicRow,
)
from console.lag.round.view import QueueProgress
from console.lag.rows import broadcast, queues
from console.lag.rows.broadcast import Place
from console.lag.rows.popped import (
    CONSUME_POP,
    POP_MODE,
    HeldQueue,
    held_queues,
    popped_count,
    popped_entries,
)
from console.text import Text, text_of

logger = logging.getLogger(__name__)

# Clients send a heartbeat every 30 s: a shorter period would find nothing new.
SWEEP_EVERY_MS = 30_000
# A relayed request waits up to 10 s for a hung client; the others are not delayed by it.
SWEEP_DEADLINE_MS = 8_000
# After a broker was away its clients are back with their next heartbeat, one of which comes every 30 s. Until then its
# list of them is incomplete.
REJOIN_MS = 45_000
GROUPS_PER_SWEEP = 500
CLIENTS_PER_SWEEP = 64
# Topics whose offsets are read after their clients reported.
BROADCAST_TOPICS_MAX = 200
OFFSETS_DEADLINE_MS = 4_000
# Java members report their fields: the class of the strategy and its hash code.
STRATEGY_PROPERTY = "allocateMessageQueueStrategy"
STRATEGY_OF_CLASS = {
    "AllocateMessageQueueAveragely": "AVG",
    "AllocateMessageQueueAveragelyByCircle": "AVG_BY_CIRCLE",
    "AllocateMessageQueueConsistentHash": "CONSISTENT_HASH",
    "AllocateMessageQueueByMachineRoom": "MACHINE_ROOM",
    "AllocateMachineRoomNearby": "MACHINE_ROOM_NEARBY",
    "AllocateMessageQueueByConfig": "CONFIG",
}


class ClientFacts(NamedTuple):
    """Describe a connected client as its broker lists it."""

    address: str
    language: str
    version: str
    broker_addr: str
    # Through which proxy of RocketMQ 5; empty: it is connected to brokers.
    proxy: str = ""


@dataclass(slots=True)
class GroupFound:
    """Hold what brokers reported about a group's members; `clients` null: no certain answer."""

    clients: dict[str, ClientFacts] | None = None
    model: str = ""
    consume_type: str = ""
    subscription: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(slots=True)
class ClientFound:
    """Hold what a client reported; `queues` null with the `reason` when it did not answer."""

    queues: list[HeldQueue] | None = None
    subscription: dict[str, dict[str, str]] | None = None
    is_orderly: bool | None = None
    started_at_ms: int | None = None
    strategy: str = ""
    positions: dict[Place, int | None] = field(default_factory=dict)
    reason: Text = Text()


def is_due(cluster_name: str, now_ms: int) -> bool:
    """Return whether the last sweep began long enough ago."""
    return CollectorLease.objects.filter(cluster=cluster_name, sweep_until_ms__lte=now_ms).exists()


def sweep_soon(cluster_name: str, *, now_ms: int) -> None:
    """Make a sweep due with the next round: what clients report has just changed."""
    CollectorLease.objects.filter(cluster=cluster_name, sweep_until_ms__gt=now_ms).update(
        sweep_until_ms=now_ms
    )


def sweep_clients(cluster_name: str, *, now_ms: int) -> int | None:
    """Read the connected clients and save them; return how many, None if another worker is sweeping."""
    claimed = CollectorLease.objects.filter(cluster=cluster_name, sweep_until_ms__lte=now_ms).update(
        sweep_until_ms=now_ms + SWEEP_EVERY_MS
    )
    cluster = Cluster.objects.filter(name=cluster_name).first()
    if claimed != 1 or cluster is None:
        return None
    admin = with_admin(cluster.connection)
    brokers = BrokerRow.objects.filter(cluster=cluster_name).order_by("addr")
    addrs = [row.addr for row in brokers if row.answered]
    watched = set(
        GroupWatch.objects.filter(cluster=cluster_name, until_ms__gt=now_ms).values_list("group", flat=True)
    )
    groups = _groups_to_ask(cluster_name, watched)
    found = find_members(admin, addrs, groups)
    _add_proxied(admin, cluster_name, brokers, found, now_ms)
    hidden = _hidden_groups(cluster_name, brokers, found, now_ms)
    for group in hidden:
        found[group].clients = None
    client_answers = ask_clients(admin, _clients_to_ask(cluster_name, found, watched))
    offsets = read_offsets(admin, cluster_name, _broadcast_topics(found, client_answers))
    _save(cluster_name, found, client_answers, offsets, now_ms)
    return sum(len(one.clients) for one in found.values() if one.clients)


def _add_proxied(
    admin: BlockingMQAdmin,
    cluster_name: str,
    brokers: Iterable[BrokerRow],
    found: Mapping[str, GroupFound],
    now_ms: int,
) -> None:
    """Add the members that are connected through proxies: the brokers do not list them."""
    shared = TopicRow.objects.filter(cluster=cluster_name, topic=PROXY_TOPIC).first()
    if shared is None:
        return
    homes = {
        row.addr: now_ms + (row.clock_offset_ms or 0)
        for row in brokers
        if row.answered and row.broker_name in shared.brokers
    }
    members = proxies.read_members(admin, homes)
    if members is None:  # a group without members on the brokers may have some there
        for one in found.values():
            one.clients = one.clients or None
        return
    for (group, client_id), member in members.items():
        if group not in found or client_id in (found[group].clients or {}):
            continue
        one = found[group]
        facts = ClientFacts(member.address, member.language, member.version, "", member.proxy)
        one.clients = {**(one.clients or {}), client_id: facts}
        one.model, one.consume_type = one.model or member.model, one.consume_type or member.consume_type
        one.subscription = {
            **{topic: dict(each) for topic, each in member.subscription.items()},
            **one.subscription,
        }


def _groups_to_ask(cluster_name: str, watched: set[str]) -> list[str]:
    """Return the watched groups, then those that were read longest ago."""
    last_read = dict(GroupMembers.objects.filter(cluster=cluster_name).values_list("group", "read_at_ms"))
    names = GroupRow.objects.filter(cluster=cluster_name).values_list("group", flat=True)
    own = [name for name in names if not is_system_group(name)]
    own.sort(key=lambda name: (name not in watched, last_read.get(name, 0), name))
    return own[:GROUPS_PER_SWEEP]


def _hidden_groups(
    cluster_name: str, brokers: Iterable[BrokerRow], found: Mapping[str, GroupFound], now_ms: int
) -> list[str]:
    """Return the groups whose members may be connected only to a broker that cannot list them now.

    The brokers that answered list no member, and another one is silent, or has just come back and has not received the
    heartbeats of its clients yet.

    Members send heartbeats to every broker of the topics they read: those of the group's own queues; for a group
    without any queue it may be any broker. The queues may also be of topics that its members no longer read, so one
    broker without members settles it only for a group that had none when all brokers answered.
    """
    silent = {row.broker_name for row in brokers if not row.answered}
    back = {
        row.broker_name: row.since_ms for row in brokers if row.answered and row.since_ms > now_ms - REJOIN_MS
    }
    empty = [group for group, one in found.items() if one.clients == {}]
    if not empty or not (silent or back):
        return []
    homes: dict[str, set[str]] = defaultdict(set)
    for group, broker_name in queues.every(cluster_name, "group", "broker_name"):
        homes[group].add(broker_name)
    before = {row.group: row for row in GroupMembers.objects.filter(cluster=cluster_name, group__in=empty)}
    hidden = []
    for group in empty:
        row = before.get(group)
        if row is not None and row.clients == 0:
            is_hidden = bool(silent) and homes[group] <= silent
        else:
            # Unknown, or known before the broker was away.
            had_ms = now_ms if row is None else 0 if row.clients is None else row.read_at_ms
            doubtful = silent | {name for name, since_ms in back.items() if had_ms < since_ms}
            is_hidden = bool(doubtful & homes[group] or (doubtful and not homes[group]))
        if is_hidden:
            hidden.append(group)
    return hidden


def find_members(
    admin: BlockingMQAdmin, brokers: Sequence[str], groups: Sequence[str]
) -> dict[str, GroupFound]:
    """Read every group's members from every broker (203) and join the answers by client id."""
    calls = {
        (group, addr): partial(_ask_connection, addr=addr, group=group)
        for group in groups
        for addr in brokers
    }
    answers = admin.gather(calls, deadline_ms=SWEEP_DEADLINE_MS)
    found = {}
    for group in groups:
        own = {addr: answers[group, addr] for addr in brokers}
        found[group] = _join(own)
    return found


async def _ask_connection(admin: MQAdmin, *, addr: str, group: str) -> ConsumerConnection | None:
    return await admin.consumer_connection(addr, group)


def _join(answers: Mapping[str, ConsumerConnection | None | Exception]) -> GroupFound:
    """Join answers: no member on every broker is none; none on some and silence of others is unknown."""
    found = GroupFound()
    clients: dict[str, ClientFacts] = {}
    for addr, answer in answers.items():
        if answer is None or isinstance(answer, Exception):
            continue
        found.model = answer.message_model or found.model
        found.consume_type = answer.consume_type or found.consume_type
        for topic, one in answer.subscription_table.items():
            found.subscription[topic] = {"expression": one.sub_string, "type": one.expression_type}
        for client in answer.connection_set:
            clients.setdefault(
                client.client_id,
                ClientFacts(client.client_addr, client.language, version_name(client.version), addr),
            )
    is_certain = bool(answers) and not any(isinstance(answer, Exception) for answer in answers.values())
    found.clients = clients if clients or is_certain else None
    return found


def _clients_to_ask(
    cluster_name: str, found: Mapping[str, GroupFound], watched: set[str]
) -> dict[tuple[str, str], str]:
    """Return {(group, client id): broker address}: watched groups first, then clients read longest ago."""
    last_read = {
        (group, client_id): read_at_ms
        for group, client_id, read_at_ms in ClientRow.objects.filter(cluster=cluster_name).values_list(
            "group", "client_id", "read_at_ms"
        )
    }
    clients = [
        ((group, client_id), facts.broker_addr)
        for group, one in found.items()
        for client_id, facts in (one.clients or {}).items()
        if not facts.proxy
    ]
    clients.sort(key=lambda one: (one[0][0] not in watched, last_read.get(one[0], 0), one[0]))
    return dict(clients[:CLIENTS_PER_SWEEP])


def ask_clients(
    admin: BlockingMQAdmin, clients: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], ClientFound]:
    """Read from clients what they hold (307)."""
    calls: dict[tuple[str, str], Callable[[MQAdmin], Any]] = {
        (group, client_id): partial(_ask_client, addr=addr, group=group, client_id=client_id)
        for (group, client_id), addr in clients.items()
    }
    answers = admin.gather(calls, deadline_ms=SWEEP_DEADLINE_MS)
    return {
        key: ClientFound(reason=text_of(answer)) if isinstance(answer, Exception) else answer
        for key, answer in answers.items()
    }


async def _ask_client(admin: MQAdmin, *, addr: str, group: str, client_id: str) -> ClientFound:
    info = await admin.consumer_running_info(addr, group, client_id)
    started = info.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")
    orderly = info.properties.get("PROP_CONSUMEORDERLY")
    return ClientFound(
        queues=[
            *(HeldQueue(one.topic, one.broker_name, one.queue_id) for one in sorted(info.mq_table)),
            *popped_entries(info.mq_pop_table),
        ],
        subscription={
            one.topic: {"expression": one.sub_string, "type": one.expression_type}
            for one in info.subscription_set
        },
        is_orderly=None if orderly is None else orderly == "true",
        started_at_ms=int(started) if started.isdigit() else None,
        strategy=strategy_name(info.properties.get(STRATEGY_PROPERTY, "")),
        positions=broadcast.positions_of(info.mq_table),
    )


def strategy_name(reported: str) -> str:
    """Return the name of a strategy as a member reports it, a class of Java or a name; of others the class."""
    name = reported.partition("@")[0].rpartition(".")[2][:NAME_LENGTH_MAX]
    return STRATEGY_OF_CLASS.get(name, name)


def _broadcast_topics(
    found: Mapping[str, GroupFound], client_answers: Mapping[tuple[str, str], ClientFound]
) -> dict[str, list[str]]:
    """Return {broker name: topics} on which clients of broadcasting groups reported their positions."""
    places = {
        (broker_name, topic)
        for (group, _), one in client_answers.items()
        if found[group].model == broadcast.BROADCASTING
        for topic, broker_name, _ in one.positions
    }
    topics: dict[str, list[str]] = defaultdict(list)
    for broker_name, topic in sorted(places)[:BROADCAST_TOPICS_MAX]:
        topics[broker_name].append(topic)
    return topics


def read_offsets(
    admin: BlockingMQAdmin, cluster_name: str, topics: Mapping[str, Sequence[str]]
) -> dict[Place, tuple[int, int]]:
    """Return (min, max) of every queue of topics (202); what a broker does not return is left out."""
    rows = BrokerRow.objects.filter(cluster=cluster_name, answered=True, broker_name__in=topics)
    calls: dict[str, Callable[[MQAdmin], Any]] = {
        name: partial(_ask_offsets, addr=addr, topics=topics[name])
        for name, addr in rows.values_list("broker_name", "addr")
    }
    if not calls:
        return {}
    found = {}
    for broker_name, answer in admin.gather(calls, deadline_ms=OFFSETS_DEADLINE_MS).items():
        if isinstance(answer, Exception):
            logger.warning("offsets not read broker=%s reason=%s", broker_name, text_of(answer))
            continue
        for topic, ranges in answer.items():
            for queue_id, low, high, _ in ranges:
                found[topic, broker_name, queue_id] = (low, high)
    return found


async def _ask_offsets(
    admin: MQAdmin, *, addr: str, topics: Sequence[str]
) -> dict[str, list[tuple[int, int, int, int]]]:
    bodies = await admin.topic_stats_bodies(addr, topics)
    return {topic: list(queue_ranges(body)) for topic, body in bodies.items() if isinstance(body, bytes)}


def _save(
    cluster_name: str,
    found: Mapping[str, GroupFound],
    client_answers: Mapping[tuple[str, str], ClientFound],
    offsets: Mapping[Place, tuple[int, int]],
    now_ms: int,
) -> None:
    members = {row.group: row for row in GroupMembers.objects.filter(cluster=cluster_name, group__in=found)}
    rows = {
        (row.group, row.client_id): row
        for row in ClientRow.objects.filter(cluster=cluster_name, group__in=found)
    }
    had: dict[str, list[ClientRow]] = defaultdict(list)
    for row in rows.values():
        had[row.group].append(row)
    kept: dict[str, list[ClientRow]] = defaultdict(list)
    for group, one in found.items():
        for client_id, facts in (one.clients or {}).items():
            before = rows.get((group, client_id))
            row = _client_row(cluster_name, group, client_id, facts, one, client_answers, before, now_ms)
            if one.model == broadcast.BROADCASTING:
                progress = _progress(client_answers.get((group, client_id)), before, offsets, now_ms)
                row.progress = msgspec.to_builtins(progress)
            kept[group].append(row)
    held_before: Counter[str] = Counter()
    for (group, _), row in rows.items():
        held_before[group] += popped_count(held_queues(row.queues))
    new_members = [
        _members_row(cluster_name, group, one, kept[group], client_answers, members.get(group), now_ms)
        for group, one in found.items()
    ]
    for each in new_members:
        held = sum(popped_count(held_queues(row.queues)) for row in kept[each.group])
        each.popped_since_ms = _popped_since_ms(
            held, held_before[each.group], members.get(each.group), now_ms
        )
    known = [group for group, one in found.items() if one.clients is not None]
    with transaction.atomic(using=METRICS):
        ClientRow.objects.filter(cluster=cluster_name, group__in=known).delete()
        ClientRow.objects.bulk_create([row for group in known for row in kept[group]])
        GroupMembers.objects.filter(cluster=cluster_name, group__in=list(found)).delete()
        GroupMembers.objects.bulk_create(new_members)
    chronicle.record_members(
        cluster_name,
        members,
        new_members,
        {group: change_of(had[group], kept[group]) for group in known if group in members},
    )
    client_positions.record(
        cluster_name,
        [row for group in known for row in had[group]],
        [row for group in known for row in kept[group]],
        now_ms,
    )
    owners.record(
        cluster_name,
        [
            owners.Swept(
                each.group,
                None if each.clients is None else kept[each.group],
                each.model,
                members[each.group].read_at_ms if each.group in members else None,
            )
            for each in new_members
        ],
        now_ms,
    )


def _client_row(
    cluster_name: str,
    group: str,
    client_id: str,
    facts: ClientFacts,
    found: GroupFound,
    client_answers: Mapping[tuple[str, str], ClientFound],
    before: ClientRow | None,
    now_ms: int,
) -> ClientRow:
    """Return a client's row; one that was not read this time keeps its last report, with its age."""
    row = ClientRow(
        cluster=cluster_name,
        group=group,
        client_id=client_id,
        address=facts.address,
        language=facts.language,
        version=facts.version,
        subscription=found.subscription,
        proxy=facts.proxy,
    )
    if facts.proxy:
        row.reason, row.read_at_ms = (
            Text(
                "connected through the proxy %(proxy)s: proxies do not report which queues their clients read",
                proxy=facts.proxy,
            ),
            now_ms,
        )
        return row
    answer = client_answers.get((group, client_id))
    if answer is not None:
        row.queues, row.reason, row.started_at_ms, row.read_at_ms = (
            msgspec.to_builtins(answer.queues),
            answer.reason,
            answer.started_at_ms,
            now_ms,
        )
        row.strategy = answer.strategy
        row.subscription = found.subscription if answer.subscription is None else answer.subscription
    elif before is not None:
        row.queues, row.reason, row.started_at_ms, row.read_at_ms = (
            before.queues,
            before.reason,
            before.started_at_ms,
            before.read_at_ms,
        )
        row.subscription, row.strategy = before.subscription, before.strategy
    else:
        row.reason = Text("not queried yet")
    return row


def _progress(
    answer: ClientFound | None,
    before: ClientRow | None,
    offsets: Mapping[Place, tuple[int, int]],
    now_ms: int,
) -> list[QueueProgress]:
    """Return a broadcasting member's progress; without an answer its last report stays and ages."""
    known = [] if before is None else broadcast.kept_progress(before.progress)
    if answer is None or answer.queues is None:
        return known
    return broadcast.progress_of(known, answer.positions, offsets, now_ms)


def _members_row(
    cluster_name: str,
    group: str,
    found: GroupFound,
    rows: Sequence[ClientRow],
    client_answers: Mapping[tuple[str, str], ClientFound],
    before: GroupMembers | None,
    now_ms: int,
) -> GroupMembers:
    orderly = [
        one.is_orderly
        for (owner, _), one in client_answers.items()
        if owner == group and one.is_orderly is not None
    ]
    mode = before.consume_mode if before is not None else ""
    pops = any(one.popped is not None for row in rows for one in held_queues(row.queues) or ())
    # Java members report PUSH and pop all the same.
    if pops or found.consume_type == CONSUME_POP:
        mode = POP_MODE
    elif orderly:
        mode = "ORDERLY" if all(orderly) else "CONCURRENTLY"
    offline_since_ms = None
    if found.clients is not None and not found.clients:
        offline_since_ms = before.offline_since_ms if before and before.offline_since_ms else now_ms
    own_retry = retry_topic(group)
    subscribed = [topic for topic in found.subscription if topic != own_retry]
    return GroupMembers(
        cluster=cluster_name,
        group=group,
        clients=None if found.clients is None else len(rows),
        model=found.model or (before.model if before else ""),
        consume_mode=mode,
        topics=sorted(subscribed) or (before.topics if before else []),
        offline_since_ms=offline_since_ms,
        read_at_ms=now_ms,
    )


def _popped_since_ms(held: int, held_before: int, before: GroupMembers | None, now_ms: int) -> int | None:
    """Return since when the messages members hold have not decreased; null: none held, or not reported."""
    if held == 0:
        return None
    if before is None or before.popped_since_ms is None or held < held_before:
        return now_ms
    return before.popped_since_ms
