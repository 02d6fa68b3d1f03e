"""What a request handler may reach: the parts of this broker, built by the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from brokerd.acl.access_control import AccessControl
from brokerd.broker_stats import BrokerStats
from brokerd.clients.consumer_manager import ConsumerManager
from brokerd.clients.producer_manager import ProducerManager
from brokerd.clients.pull_request_hold import PullRequestHoldService
from brokerd.clients.queue_lock import QueueLockManager
from brokerd.cold_reads import ColdReads
from brokerd.config import LiveConfig, NamesrvConfig, NamesrvProcessConfig
from brokerd.connections.channel import Channel
from brokerd.loop_delay import LoopDelay
from brokerd.namesrv.kv_config import KvConfigManager
from brokerd.namesrv.route_info import RouteInfoManager
from brokerd.pop.pop_service import PopService
from brokerd.queue_files import QueueFiles
from brokerd.remoting.body.broker import HARuntimeInfo
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.command import RemotingCommand
from brokerd.schedule_message import ScheduleMessageService
from brokerd.store.message_store import MessageStore
from brokerd.store.store_config import MessageStoreConfig
from brokerd.tables.assignment import AssignmentManager
from brokerd.tables.consumer_offset import ConsumerOffsetManager
from brokerd.tables.subscription_group import SubscriptionGroupManager
from brokerd.tables.table_file import TableWriter
from brokerd.tables.topic_config import TopicConfigManager
from brokerd.timer.timer_message import Parking
from brokerd.timer.timer_service import TimerMessageService
from brokerd.transaction.transaction_service import TransactionService


class MessageSender(Protocol):
    """What handlers need of processor/send/send_message.Sender, which is built on top of Broker."""

    region_fields: dict[str, str]
    parking: Parking

    def send(
        self, header: Any, is_batch: bool, version: int, body: bytes, channel: Channel, now_ms: int
    ) -> tuple[str, int, int, str | None, str | None]: ...

    def check(self, header: Any, now_ms: int) -> None: ...

    def settings_changed(self) -> None: ...

    def count_put(self, topic: str, size_bytes: int) -> None: ...


class Replication(Protocol):
    """What handlers need of brokerd/ha: HaService of a master, HaClient of a slave."""

    def runtime_info(self) -> HARuntimeInfo: ...


class AnswerWriter(Protocol):
    """Where answers go: a connection, or what holds them back first."""

    def write(self, data: bytes) -> None: ...


class Slaves(Protocol):
    """What a SYNC_MASTER needs of brokerd/ha/HaService."""

    on_ack: Callable[[], None]

    def acknowledged(self) -> int: ...

    def has_near(self, end: int) -> bool: ...

    def wake(self) -> None: ...


@dataclass(slots=True, eq=False)
class Broker:
    """The parts, all living in one event loop."""

    config: LiveConfig
    store: MessageStore
    topics: TopicConfigManager
    groups: SubscriptionGroupManager
    offsets: ConsumerOffsetManager
    consumers: ConsumerManager
    producers: ProducerManager
    locks: QueueLockManager
    hold: PullRequestHoldService
    schedule: ScheduleMessageService
    timer: TimerMessageService
    transactions: TransactionService
    pops: PopService
    cold_reads: ColdReads
    queue_files: QueueFiles
    assignments: AssignmentManager
    stats: BrokerStats
    store_host: tuple[str, int]  # brokerIP1 and the port: part of every message id
    spawn: Callable[[Coroutine[Any, Any, None]], None]  # run in the background; errors are logged
    later: Callable[[int, Callable[[], None]], None]  # call after so many ms
    topic_route: Callable[[str], Awaitable[TopicRouteData | None]]  # as the name servers see it
    # What an operator changed (25), for the next start.
    change_properties: Callable[[Mapping[str, str]], None]
    tables: TableWriter
    loop_delay: LoopDelay
    access: AccessControl

    sender: MessageSender = field(init=False)
    ha: Replication = field(init=False)
    slaves: Slaves = field(init=False)
    filtered_entries: int = field(init=False, default=0)  # queue entries looked at for SQL92 in this turn
    pushed_reply_bytes: int = field(init=False, default=0)  # of replies that requesters have not confirmed
    # Keys of very many messages are looked up one at a time in a thread.
    long_lookup: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    long_lookups: int = field(init=False, default=0)  # those that wait for it, and the one that runs

    @property
    def address(self) -> str:
        return f"{self.store_host[0]}:{self.store_host[1]}"

    @property
    def store_config(self) -> MessageStoreConfig:
        return self.store.config

    @property
    def broker_name(self) -> str:
        return self.config.broker.broker_name


@dataclass(slots=True, eq=False)
class NameServer:
    """The parts of the name server's role."""

    config: NamesrvConfig
    routes: RouteInfoManager
    kv_config: KvConfigManager
    tables: TableWriter
    process: NamesrvProcessConfig
    # What an operator changed (318), for the next start.
    change_properties: Callable[[Mapping[str, str]], None]


@dataclass(slots=True)
class Saved:
    """An answer that promises a change of a table: it is sent when the change is durable, else an error."""

    response: RemotingCommand


# A command or a whole frame; None when the request is answered later or not at all.
Answer = RemotingCommand | Saved | bytes | None
# Answers a request. Raises MQBrokerError with the code to answer.
BrokerHandler = Callable[[Broker, Channel, RemotingCommand, int], Answer]
NamesrvHandler = Callable[[NameServer, Channel, RemotingCommand, int], Answer]
