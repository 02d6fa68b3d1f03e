"""Read what rounds leave out: name servers one by one, brokers and slaves. Returns plain values.

Per minute and cluster: each name server its brokers (106), topics (206), configuration (319) and some routes (105,
pipelined, only where there are several name servers to compare); each broker its configuration (26), producers (328),
slaves (907) and the messages it holds back (45, 14, 61 and 202 of two topics); each slave its figures (28). A broker
that a controller manages reports its epochs too (1007), and the controller its replicas (1005, 1006). What fails stays
unknown with its reason.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from console.broker.survey import held_back, routes
from console.broker.survey.connections import ControlledReplica, Producer, Replica, WaitingLevel
from console.broker.survey.slaves import has_controller
from console.brokers.mqadmin import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TRANSACTION_GROUP,
    BlockingMQAdmin,
    MQAdmin,
    MQBrokerError,
    ResponseCode,
    TopicRouteData,
    TopicStatsTable,
    split_addrs,
)
from console.lag.collect.version import version_name
from console.lag.round.broker_reads import READ_ERRORS
from console.text import Text, text_of

DEADLINE_MS = 8_000  # a silent name server or broker costs a survey this much; it runs beside the rounds
ROUTES_PER_SURVEY = 500  # topics compared each minute: 10,000 take twenty minutes, at 8 requests a second
PRODUCERS_MAX = 1_000  # of one broker, stored as rows


class BrokerPlace(NamedTuple):
    broker_name: str
    broker_id: int
    addr: str


@dataclass(slots=True)
class NameServerAnswer:
    """The answer of one name server; `reason` when it did not answer."""

    addr: str
    answered: bool = False
    reason: Text = Text()
    rpc_ms: int | None = None
    rpcs: int = 0
    brokers: dict[str, dict[int, str]] = field(default_factory=dict)
    topics: list[str] | None = None
    config: dict[str, str] | None = None
    config_reason: Text = Text()
    unwritable: list[str] = field(default_factory=list)


@dataclass(slots=True)
class BrokerAnswer:
    """The answer of one broker or slave beyond its rounds; null with a reason where it did not answer."""

    place: BrokerPlace
    rpcs: int = 0
    config: dict[str, str] | None = None
    config_reason: Text = Text()
    runtime: dict[str, str] | None = None
    runtime_reason: Text = Text()
    producers: list[Producer] | None = None
    producers_reason: Text = Text()
    replicas: list[Replica] | None = None
    replicas_reason: Text = Text()
    epoch: int | None = None
    epoch_reason: Text = Text()
    master_epoch: int | None = None
    sync_set: list[ControlledReplica] | None = None
    sync_set_reason: Text = Text()
    delayed: list[WaitingLevel] | None = None
    delayed_reason: Text = Text()
    half: int | None = None
    half_reason: Text = Text()
    timed: dict[str, int] | None = None
    timed_reason: Text = Text()


def ask_name_servers(admin: BlockingMQAdmin, addrs: Sequence[str]) -> list[NameServerAnswer]:
    """Read every name server at once; a silent one gets a reason and does not delay the others."""
    answers = [NameServerAnswer(addr) for addr in addrs]
    calls: dict[int, Callable[[MQAdmin], Awaitable[None]]] = {
        place: partial(_ask_name_server, answer) for place, answer in enumerate(answers)
    }
    for place, outcome in admin.gather(calls, deadline_ms=DEADLINE_MS).items():
        if isinstance(outcome, Exception):
            answers[place].reason = answers[place].reason or text_of(outcome)
    return answers


async def _ask_name_server(answer: NameServerAnswer, admin: MQAdmin) -> None:
    started = time.monotonic()
    answer.rpcs += 1
    known = (await admin.cluster_info_of(answer.addr)).broker_addr_table
    answer.rpc_ms = round((time.monotonic() - started) * 1000)
    answer.brokers = {name: dict(data.broker_addrs) for name, data in sorted(known.items())}
    answer.answered = True
    try:
        answer.rpcs += 2
        answer.config = await admin.namesrv_config(answer.addr)
        answer.topics = await admin.topic_list_of(answer.addr)
    except READ_ERRORS as error:
        answer.config_reason = text_of(error)
    # Every broker has a topic of its own name, so one route shows whether the broker was wiped here.
    answer.rpcs += len(answer.brokers)
    own = await admin.topic_routes_of(answer.addr, answer.brokers)
    answer.unwritable = [
        name
        for name, route in own.items()
        if isinstance(route, TopicRouteData) and routes.offers(route, name) is False
    ]


def ask_brokers(
    admin: BlockingMQAdmin, places: Sequence[BrokerPlace], masters: Collection[BrokerPlace]
) -> list[BrokerAnswer]:
    """Read every broker and slave at once, in the order of `places`."""
    answers = [BrokerAnswer(place) for place in places]
    calls: dict[int, Callable[[MQAdmin], Awaitable[None]]] = {
        number: partial(_ask_broker, answer, answer.place in masters) for number, answer in enumerate(answers)
    }
    for number, outcome in admin.gather(calls, deadline_ms=DEADLINE_MS).items():
        if isinstance(outcome, Exception):
            _unanswered(answers[number], text_of(outcome))
    return answers


def _unanswered(answer: BrokerAnswer, why: Text) -> None:
    """Set the reason of every value still missing after a deadline or a broken connection."""
    for name in (
        "config",
        "runtime",
        "producers",
        "replicas",
        "epoch",
        "sync_set",
        "delayed",
        "half",
        "timed",
    ):
        if getattr(answer, name) is None and not getattr(answer, f"{name}_reason"):
            setattr(answer, f"{name}_reason", why)


async def _ask_broker(answer: BrokerAnswer, is_master: bool, admin: MQAdmin) -> None:
    addr = answer.place.addr
    answer.config, answer.config_reason = await _read(answer, admin.broker_config(addr))
    is_controlled = has_controller(answer.config)
    if is_controlled:
        epochs, answer.epoch_reason = await _read(answer, admin.broker_epochs(addr))
        answer.epoch = max((one.epoch for one in epochs.epoch_list), default=None) if epochs else None
    if not is_master:
        answer.runtime, answer.runtime_reason = await _read(answer, admin.runtime_info(addr))
        return
    if is_controlled:
        await _ask_controller(answer, admin)
    producers, answer.producers_reason = await _read(answer, admin.producers(addr))
    if producers is not None:
        answer.producers = [
            Producer(
                group=group,
                client_id=one.client_id,
                address=one.remote_ip,
                language=one.language,
                version=version_name(one.version),
                seen_ms=one.last_update_timestamp,
            )
            for group, members in sorted(producers.items())
            for one in members
        ][:PRODUCERS_MAX]
    status, answer.replicas_reason = await _read(answer, admin.ha_status(addr))
    if status is not None:
        answer.replicas = [
            Replica(
                addr=one.addr,
                behind_bytes=one.diff,
                in_sync=one.in_sync,
                bytes_per_s=one.transferred_byte_in_second,
            )
            for one in status.ha_connection_info
        ]
    await _ask_held_back(answer, admin)


async def _ask_controller(answer: BrokerAnswer, admin: MQAdmin) -> None:
    """Read the replicas of a broker's name from the first of its controllers that answers."""
    answer.sync_set_reason = Text("the broker names no controller")
    for controller in split_addrs((answer.config or {}).get("controllerAddr", "")):
        found, answer.sync_set_reason = await _read(
            answer, admin.replicas_of(controller, answer.place.broker_name)
        )
        if found is not None:
            answer.master_epoch = found.master_epoch
            answer.sync_set = [
                ControlledReplica(
                    broker_id=one.broker_id,
                    addr=one.broker_address,
                    is_master=one.broker_id == found.master_broker_id,
                    in_sync=in_sync,
                    alive=one.alive,
                )
                for in_sync, replicas in ((True, found.in_sync_replicas), (False, found.not_in_sync_replicas))
                for one in replicas
            ]
            return


async def _ask_held_back(answer: BrokerAnswer, admin: MQAdmin) -> None:
    """Read messages of delay levels, half messages and timer messages.

    Progress is read before ends, so that no count is negative by a race.
    """
    addr = answer.place.addr
    progress, answer.delayed_reason = await _read(answer, admin.delay_offsets(addr))
    ended, answer.half_reason = await _read(
        answer, admin.query_consumer_offset(addr, TRANSACTION_GROUP, HALF_TOPIC, 0)
    )
    answer.rpcs += 2
    stats = await admin.topic_stats_many(addr, (SCHEDULE_TOPIC, HALF_TOPIC))
    if progress is not None:
        answer.delayed, answer.delayed_reason = _outcome(
            stats[SCHEDULE_TOPIC], lambda table: held_back.levels(table, progress)
        )
    if not answer.half_reason:
        answer.half, answer.half_reason = _outcome(
            stats[HALF_TOPIC], lambda table: held_back.half_messages(table, ended)
        )
    answer.timed, answer.timed_reason = await _read(answer, admin.timer_counts(addr))


def _outcome(
    answer: TopicStatsTable | Exception, count: Callable[[TopicStatsTable], Any]
) -> tuple[Any, Text]:
    return (None, text_of(answer)) if isinstance(answer, Exception) else (count(answer), Text())


async def _read(answer: BrokerAnswer, call: Awaitable[Any]) -> tuple[Any, Text]:
    """Await one answer: (value, "") or (None, reason). A request unknown to the release is no error."""
    answer.rpcs += 1
    try:
        return await call, Text()
    except MQBrokerError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None, Text("this release does not report it")
        return None, text_of(error)
    except READ_ERRORS as error:
        return None, text_of(error)


@dataclass(frozen=True, slots=True)
class RouteComparison:
    """Result of a comparison; `differences` is {topic: {server: words}}.

    `compared` topics were read from every answering name server. `cursor` is where the next survey continues, "" when
    this one reached the end.
    """

    compared: frozenset[str]
    differences: Mapping[str, Mapping[str, Text]]
    cursor: str
    rpcs: int


def compare_routes(
    admin: BlockingMQAdmin, answers: Sequence[NameServerAnswer], suspects: Collection[str], cursor: str
) -> RouteComparison:
    """Compare some topics' routes: suspects and partly listed topics first, then the next in order.

    Differences are read once more: a registration reaches name servers one after another.
    """
    servers = [answer for answer in answers if answer.answered and answer.topics is not None]
    if len(servers) < 2:
        return RouteComparison(frozenset(), {}, "", 0)
    listed: dict[str, int] = defaultdict(int)
    for server in servers:
        for topic in server.topics or ():
            listed[topic] += 1
    uneven = sorted(topic for topic, count in listed.items() if count < len(servers))
    first = sorted({*uneven, *suspects})[:ROUTES_PER_SURVEY]
    rest = [topic for topic in sorted(listed) if topic > cursor][: ROUTES_PER_SURVEY - len(first) or 1]
    wanted = sorted({*first, *rest})
    addrs = [server.addr for server in servers]
    views, compared = _ask_routes(admin, addrs, wanted)
    again = sorted(routes.differing(views))
    found: dict[str, dict[str, Text]] = {}
    if again:
        second, _ = _ask_routes(admin, addrs, again)
        found = routes.differing(second)
    is_end = not rest or rest[-1] == max(listed)
    return RouteComparison(
        compared, found, "" if is_end else rest[-1], len(addrs) * (len(wanted) + len(again))
    )


def _ask_routes(
    admin: BlockingMQAdmin, addrs: Sequence[str], topics: Sequence[str]
) -> tuple[dict[str, dict[str, Text]], frozenset[str]]:
    """Return ({topic: {name server: words}}, topics that all servers answered); failures are left out."""

    async def ask(addr: str, admin: MQAdmin) -> dict[str, TopicRouteData | Exception]:
        return await admin.topic_routes_of(addr, topics)

    answers = admin.gather({addr: partial(ask, addr) for addr in addrs}, deadline_ms=DEADLINE_MS)
    views: dict[str, dict[str, Text]] = {topic: {} for topic in topics}
    for addr, answer in answers.items():
        if isinstance(answer, Exception):
            continue
        for topic, route in answer.items():
            if isinstance(route, TopicRouteData):
                views[topic][addr] = routes.route_words(route)
            elif isinstance(route, MQBrokerError) and route.code == ResponseCode.TOPIC_NOT_EXIST:
                views[topic][addr] = routes.NOT_KNOWN
    whole = frozenset(topic for topic, by_server in views.items() if len(by_server) == len(addrs))
    return {topic: views[topic] for topic in whole}, whole
