"""What brokers report now about one group's offsets: the basis of an offset change and of its drift check.

One bulk read per broker (43 committed offsets, 203 members, 26 configuration) and one (202) per broker and
topic. An offset that was never committed is None here, never 0 (14 and 208 return 0 on 4.x and in some cases
on 5.x).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    ConsumerConnection,
    ConsumerOffsetWrapper,
    MessageQueue,
    MQAdmin,
    MQBrokerError,
    is_system_topic,
)
from console.brokers.queues import (
    PERM_READ,
    BrokerQueue,
    ask_each,
    require_answer,
    route_queues,
    topic_route,
    with_offsets,
)
from console.brokers.time_search import first_offsets, offset_by_broker
from console.lag.last_seen import QueueSeen, group_queues_seen, topic_queues_seen
from console.lag.rows.broadcast import BROADCASTING
from console.operation.errors import PlanRejected
from console.operation.plan.coverage import Coverage, read_coverage, with_seen
from console.text import Text

NAMED_MAX = 3
QUEUES_MAX = 2_000  # per change; larger changes are split by topic
DERIVED_PREFIXES = ("%RETRY%", "%DLQ%")
NEVER_SEEN = QueueSeen(None, None, None, 0)
SERVER_SIDE_RESET = "useServerSideResetOffset"  # BrokerConfig, 5.1.0+, true by default from 5.2.0


@dataclasses.dataclass(frozen=True, slots=True)
class QueueState:
    """One queue and the group's committed offset."""

    place: BrokerQueue
    committed: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class GroupState:
    """A group at one moment.

    ``clients``: ids of the members on any broker. ``lost``: queues of the topics on brokers that do not
    answer, as last seen.
    """

    group: str
    queues: dict[MessageQueue, QueueState]
    clients: frozenset[str]
    broadcasting: bool
    server_side_reset: dict[str, bool]  # broker name → can move single queues of online members (5.x)
    committed: dict[MessageQueue, int]  # of all topics of the group
    read_at_ms: int
    lost: dict[MessageQueue, QueueSeen] = dataclasses.field(default_factory=dict)

    @property
    def online(self) -> bool:
        return bool(self.clients)


@dataclasses.dataclass(frozen=True, slots=True)
class GroupSource:
    """Where to read a group; ``seen``: its queues on any broker, from rows and history."""

    admin: BlockingMQAdmin
    cluster: str
    group: str
    coverage: Coverage
    seen: Mapping[MessageQueue, QueueSeen] = dataclasses.field(default_factory=dict)

    @property
    def seen_away(self) -> dict[MessageQueue, QueueSeen]:
        """Queues on brokers that do not answer."""
        return {
            queue: each for queue, each in self.seen.items() if queue.broker_name not in self.coverage.addrs
        }


def group_source(
    admin: BlockingMQAdmin, cluster: str, group: str, now_ms: int, accepted: Sequence[str] = ()
) -> GroupSource:
    """Return the brokers to ask, and what rows and history have of the group on silent brokers."""
    seen = group_queues_seen(cluster, group, now_ms)
    read_at_ms: dict[str, int] = {}
    for queue, each in seen.items():
        read_at_ms[queue.broker_name] = max(each.read_at_ms, read_at_ms.get(queue.broker_name, 0))
    cover = with_seen(read_coverage(admin, cluster, accepted), list(read_at_ms), read_at_ms)
    return GroupSource(admin, cluster, group, cover, seen)


def read_group_state(
    source: GroupSource,
    topics: Sequence[str] | None,
    now_ms: int,
    *,
    recorded: Collection[MessageQueue] = (),
    field: str = "group",
) -> GroupState:
    """Read a group's state.

    ``topics`` None: the subscribed and committed ones, without retry and DLQ topics. ``recorded``: queues that the
    group had offsets on; with one of them it exists, even where brokers lost its offsets, and of lost ones every topic
    that is still there is read, retry topics too. ``field``: the parameter that named the group, for refusals.

    Raises PlanRejected (unknown group or topic, too many queues), and BrokerUnavailable when a broker stops
    answering or the group lies only on brokers that do not answer.
    """
    group, coverage = source.group, source.coverage
    answers = _read_brokers(source.admin, coverage.addrs, group)
    committed = {
        MessageQueue(topic, name, queue_id): offset
        for name, answer in answers.items()
        for (topic, owner), queues in answer.offsets.offset_table.items()
        if owner == group
        for queue_id, offset in queues.items()
    }
    members = [answer.members for answer in answers.values() if answer.members is not None]
    away = source.seen_away
    if not committed and not members and not recorded:
        coverage.of_queues(away, 0).require_some(group)
        raise PlanRejected(
            Text("No broker has offsets or clients of the group %(group)s.", group=group), field=field
        )
    chosen = list(topics) if topics else _own_topics([*committed, *away], members)
    if not topics:
        lost_topics = {queue.topic for queue in recorded if queue not in committed} - set(chosen)
        chosen += [topic for topic in sorted(lost_topics) if topic_route(source.admin, topic) is not None]
    if not chosen:
        raise PlanRejected(
            Text("The group %(group)s neither subscribes to a topic nor has committed to one.", group=group),
            "topics",
        )
    places, lost = _places(source, chosen)
    return GroupState(
        group=group,
        queues={place.queue: QueueState(place, committed.get(place.queue)) for place in places},
        clients=frozenset(client.client_id for each in members for client in each.connection_set),
        broadcasting=any(each.message_model == BROADCASTING for each in members),
        server_side_reset={
            name: str(answer.config.get(SERVER_SIDE_RESET, "")).lower() == "true"
            for name, answer in answers.items()
        },
        committed=committed,
        read_at_ms=now_ms,
        lost=lost,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _BrokerAnswer:
    """What one broker has of the group, and its configuration; ``members`` None: none is connected to it."""

    offsets: ConsumerOffsetWrapper
    members: ConsumerConnection | None
    config: Mapping[str, str]


def _read_brokers(admin: BlockingMQAdmin, addrs: Mapping[str, str], group: str) -> dict[str, _BrokerAnswer]:
    questions: dict[str, Callable[[MQAdmin, str], Awaitable[Any]]] = {
        "offsets": lambda client, addr: client.all_consumer_offsets(addr),
        "members": lambda client, addr: client.consumer_connection(addr, group),
        "config": lambda client, addr: client.broker_config(addr),
    }
    answers: dict[tuple[str, str], Any] = ask_each(
        admin,
        {(what, name): (what, addr) for what in questions for name, addr in addrs.items()},
        lambda client, request: questions[request[0]](client, request[1]),
    )
    for (what, name), answer in answers.items():
        if what == "config" and isinstance(answer, MQBrokerError):
            # An ACL may forbid reading it: then members are notified as on 4.x.
            answers[what, name] = {}
        else:
            require_answer(name, addrs[name], answer, Text("what its queues hold"))
    return {
        name: _BrokerAnswer(answers["offsets", name], answers["members", name], answers["config", name])
        for name in addrs
    }


def _own_topics(committed: Iterable[MessageQueue], members: Iterable[ConsumerConnection]) -> list[str]:
    names = {queue.topic for queue in committed} | {
        topic for each in members for topic in each.subscription_table
    }
    return sorted(
        name for name in names if not name.startswith(DERIVED_PREFIXES) and not is_system_topic(name)
    )


def _places(
    source: GroupSource, topics: Sequence[str]
) -> tuple[list[BrokerQueue], dict[MessageQueue, QueueSeen]]:
    """Return the queues of these topics that can be read now, and the others as last seen.

    A route lists a broker's queues for minutes after the broker died; rows and history keep them longer.
    """
    lost = {
        queue: each
        for queue, each in topic_queues_seen(source.cluster, topics).items()
        if queue.broker_name in source.coverage.absent
    }
    lost |= {queue: each for queue, each in source.seen_away.items() if queue.topic in topics}
    queues: dict[MessageQueue, str] = {}
    for topic in topics:
        route = topic_route(source.admin, topic)
        if route is None:
            if any(queue.topic == topic for queue in lost):
                continue
            raise PlanRejected(Text("There is no topic %(topic)s.", topic=topic), field="topics")
        for queue, addr in route_queues(route, topic).items():
            if queue.broker_name in source.coverage.addrs:
                queues[queue] = addr
        for data in route.queue_datas:
            if data.broker_name in source.coverage.absent and data.perm & PERM_READ:
                for queue_id in range(data.read_queue_nums):
                    lost.setdefault(MessageQueue(topic, data.broker_name, queue_id), NEVER_SEEN)
    if len(queues) + len(lost) > QUEUES_MAX:
        raise PlanRejected(
            Text(
                "%(number)s queues are too many for one change (at most %(most)s). Select whole topics "
                "instead.",
                number=len(queues) + len(lost),
                most=QUEUES_MAX,
            )
        )
    return with_offsets(source.admin, queues), lost


def require_group(source: GroupSource, queues: Iterable[MessageQueue]) -> None:
    """Raise PlanRejected for brokers of these queues that do not have the group: 5.x refuses its offsets then.

    A broker that does not show its groups (ACL) is left to the job.
    """
    names = {queue.broker_name for queue in queues} & source.coverage.addrs.keys()
    answers = ask_each(
        source.admin,
        {
            name: source.coverage.addrs[name]
            for name in sorted(names)
            if not _is_4x(source.coverage.versions, name)
        },
        lambda client, addr: client.all_subscription_groups(addr),
    )
    missing = []
    for name, answer in answers.items():
        if isinstance(answer, MQBrokerError):
            continue
        groups = require_answer(name, source.coverage.addrs[name], answer).subscription_group_table
        if source.group not in groups:
            missing.append(name)
    if missing:
        raise PlanRejected(
            Text(
                "There is no group %(group)s on %(names)s (%(cluster)s), so its offsets would be refused: create the "
                "group there first.",
                names=Text.of_names(missing, NAMED_MAX),
                cluster=source.cluster,
                group=source.group,
            ),
            field="group",
        )


def _is_4x(versions: Mapping[str, str], name: str) -> bool:
    return versions.get(name, "").startswith("V4")


def store_times(
    admin: BlockingMQAdmin, wanted: Iterable[tuple[BrokerQueue, int]]
) -> dict[tuple[MessageQueue, int], int]:
    """Return store times in ms of messages at (queue, offset), by pulling them; failures are left out."""
    source = {
        (place.queue, offset): place
        for place, offset in wanted
        if place.min_offset <= offset < place.max_offset
    }
    answers = ask_each(
        admin,
        {
            key: (place.addr, place.queue.topic, place.queue.queue_id, key[1], 1)
            for key, place in source.items()
        },
        lambda client, arguments: client.pull(*arguments),
    )
    found = {}
    for (queue, offset), answer in answers.items():
        if not isinstance(answer, Exception):
            for record in answer.messages:
                if record.queue_offset == offset:
                    found[queue, offset] = record.store_timestamp_ms
    return found


def offsets_at_times(
    admin: BlockingMQAdmin, times: Mapping[BrokerQueue, int], versions: Mapping[str, str]
) -> dict[MessageQueue, int]:
    """Return the first offset stored at or after its time in ms, per queue. Raises what a broker answered."""
    source = {(place, at_ms): versions.get(place.queue.broker_name, "") for place, at_ms in times.items()}
    return {place.queue: _offset(answer) for (place, _), answer in first_offsets(admin, source).items()}


def offsets_by_broker(
    admin: BlockingMQAdmin, places: Sequence[BrokerQueue], time_ms: int
) -> dict[MessageQueue, int]:
    """Return where brokers reset members to for a time, per queue: before 5.1.1 the nearest message."""
    answers = ask_each(
        admin,
        {place: place for place in places},
        lambda client, place: offset_by_broker(client, place, time_ms),
    )
    return {place.queue: _offset(answer) for place, answer in answers.items()}


def _offset(answer: int | Exception) -> int:
    if isinstance(answer, Exception):
        raise answer
    return answer
