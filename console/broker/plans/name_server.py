"""A name server and the broker that it offers to producers: its row of a plan, its state during a job, its routes."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from console.broker.survey import routes
from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MQAdmin,
    MQBrokerError,
    RemotingTimeout,
    TopicRouteData,
    is_system_topic,
    split_addrs,
)
from console.operation.config.row import DiffRow, KeyChange
from console.operation.config.write import WRITE, WriteEvent, WriteState
from console.operation.models import Job
from console.operation.plan.job_run import JobRun
from console.text import Text, text_of
from console.text.stored import Stored, of_json

READ_DEADLINE_MS = 15_000  # routes of all topics from all name servers, pipelined
AWAY = (BrokerUnavailable, RemotingTimeout)


class ServerAction(enum.StrEnum):
    """What a plan does at a name server; the values are stored in diffs."""

    CHANGE = "change"
    STAY = "stay"
    UNKNOWN = "unknown"  # it does not answer


class ServerRow(DiffRow, frozen=True, kw_only=True, omit_defaults=False):
    """A row of the diff: how many topics a name server offers to producers, before and after; None: unknown."""

    what: str = "name server"
    namesrv: str
    topics: int | None
    before: int | None
    after: int | None
    action: ServerAction = msgspec.field(name="deed")

    @classmethod
    def of(cls, view: ServerView, writable: bool) -> ServerRow:
        """Return the row of a name server that answers."""
        topics = len(view.offered)
        before, after = view.writable, topics if writable else 0
        change = KeyChange(key="topics offered", before=before, after=after)
        return cls(
            name=view.addr,
            broker_name=view.addr,
            namesrv=view.addr,
            topics=topics,
            before=before,
            after=after,
            action=ServerAction.STAY if before == after else ServerAction.CHANGE,
            changes=() if before == after else (change,),
        )

    @classmethod
    def silent(cls, addr: str, why: Text) -> ServerRow:
        """Return the row of a name server that does not answer."""
        return cls(
            name=addr,
            broker_name=addr,
            namesrv=addr,
            topics=None,
            before=None,
            after=None,
            action=ServerAction.UNKNOWN,
            note=why,
        )

    @property
    def is_changing(self) -> bool:
        return self.action is ServerAction.CHANGE


# ---- during a job ----


class ServerWrite(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """A row of the job's result. ``topics``: how many the name server changed."""

    namesrv: str
    before: int | None
    state: WriteState = WriteState.WAITING
    error: Text = Text()
    topics: int | None = None

    def on(self, event: WriteEvent, **changes: Any) -> ServerWrite:
        """Return the row after an event, with other changes. Raises IllegalTransition."""
        return msgspec.structs.replace(self, state=WRITE.next(self.state, event), **changes)

    @property
    def is_waiting(self) -> bool:
        return self.state is WriteState.WAITING


class Traffic(Stored, frozen=True, kw_only=True, omit_defaults=False):
    """What the broker still takes. ``puts``: messages since the first look."""

    puts: int
    quiet_ms: int
    is_gone: bool
    quiet_since_ms: int
    looked_at_ms: int


class DrainResult(Stored, frozen=True, kw_only=True):
    """What the job keeps. ``servers`` None: it has not begun. ``notified``: how many, if it was cancelled."""

    servers: tuple[ServerWrite, ...] | None = None
    traffic: Traffic | None = None
    notified: int | None = None


class Servers:
    """The name servers of one job; ``put`` puts them into its result, which the next save stores."""

    def __init__(self, run: JobRun) -> None:
        self._run = run
        self._of_addr = {each.namesrv: each for each in run.result_as(DrainResult).servers or ()}

    def __iter__(self) -> Iterator[ServerWrite]:
        return iter(self._of_addr.values())

    def __getitem__(self, addr: str) -> ServerWrite:
        return self._of_addr[addr]

    @property
    def addrs(self) -> list[str]:
        """Addresses, in the order of the plan."""
        return list(self._of_addr)

    def put(self, write: ServerWrite) -> None:
        """Replace the row of one name server."""
        self._of_addr[write.namesrv] = write
        kept = self._run.result_as(DrainResult)
        self._run.put_result(msgspec.structs.replace(kept, servers=tuple(self)))

    @property
    def handled(self) -> int:
        """Number of name servers that need no further request."""
        return sum(not each.is_waiting for each in self)


def changed_servers(job: Job) -> int:
    """Return how many name servers a job has changed."""
    return sum(not each.is_waiting for each in of_json(DrainResult, job.result).servers or ())


# ---- its routes ----


class ServerView:
    """One name server's routes of a broker: {topic: offered?}, and topics without other writable queues."""

    def __init__(self, addr: str) -> None:
        self.addr = addr
        self.offered: dict[str, bool] = {}
        self.stranded: set[str] = set()
        self.other_brokers: set[str] = set()

    @property
    def writable(self) -> int:
        return sum(self.offered.values())

    def take(self, broker_name: str, answers: Mapping[str, TopicRouteData | Exception]) -> None:
        for topic, route in answers.items():
            offered = routes.offers(route, broker_name) if isinstance(route, TopicRouteData) else None
            if offered is None:
                continue
            assert isinstance(route, TopicRouteData)
            self.offered[topic] = offered
            if routes.writable_queues(route, without=broker_name) == 0:
                self.stranded.add(topic)
            self.other_brokers |= {data.broker_name for data in route.broker_datas} - {broker_name}


def read_servers(
    admin: BlockingMQAdmin, broker_name: str, *, only: Sequence[str] = ()
) -> tuple[list[ServerView], dict[str, Text]]:
    """Return every name server's view of the broker, and {address: reason} of those that did not answer."""
    addrs = list(only) or split_addrs(admin.namesrv_addrs)

    async def ask(addr: str, client: MQAdmin) -> ServerView:
        view = ServerView(addr)
        topics = await client.topic_list_of(addr)
        answers = await client.topic_routes_of(addr, topics)
        for answer in answers.values():
            if isinstance(answer, AWAY):
                raise answer  # a part of the routes is not the routes
        view.take(broker_name, answers)
        return view

    views, silent = [], {}
    answers = admin.gather({addr: partial(ask, addr) for addr in addrs}, deadline_ms=READ_DEADLINE_MS)
    for addr, answer in answers.items():
        if isinstance(answer, MQBrokerError):
            raise answer
        if isinstance(answer, Exception):
            silent[addr] = text_of(answer)
        else:
            views.append(answer)
    if not views:
        raise BrokerUnavailable(
            addrs[0], Text("no name server answers: %(reason)s", reason=Text.of_parts(list(silent.values())))
        )
    return views, silent


def own_topics(broker_name: str, views: Sequence[ServerView]) -> set[str]:
    """Return RocketMQ's own topics, whose queues no client misses."""
    topics = set().union(*(view.offered for view in views))
    known_brokers = {broker_name}.union(*(view.other_brokers for view in views))
    return {
        topic for topic in topics if is_system_topic(topic) or topic in known_brokers or topic.startswith("%")
    } | {topic for topic in topics if topic.endswith("_REPLY_TOPIC") or f"{topic}_REPLY_TOPIC" in topics}
