"""The console's only access to brokers: `consumers.MQAdmin` for blocking code (views, Celery tasks).

One thread per process runs one event loop with one MQAdmin per cluster, so that every caller shares the same
connections. Other settings of the cluster (`Connection`) take the place of the MQAdmin at the next call, for everyone
who holds the `BlockingMQAdmin`; the former ends with its last call. The thread starts at the first call, and anew
after a fork.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from brokerd.remoting.allocate import (
    STRATEGIES,
    assign_server_side,
    divide_by_machine_room,
    divide_by_nearest_room,
    heirs_by_consistent_hash,
    machine_room,
)
from brokerd.remoting.body.acl import AclInfo, PlainAccessConfig, PolicyEntryInfo, PolicyInfo, UserInfo
from brokerd.remoting.body.client import ConsumeMessageDirectlyResult, ConsumerConnection
from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.offset import ConsumerOffsetWrapper, consumers_in
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.body.topic import TopicConfig, TopicStatsTable, queue_ranges
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.errors import BodyError, MQBrokerError, RemotingError
from brokerd.remoting.message.batch import decode_batch
from brokerd.remoting.message.ids import create_unique_key, decode_offset_message_id
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import (
    DLQ_TOPIC_PREFIX,
    HALF_TOPIC,
    PROXY_TOPIC,
    RETRY_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    TRANSACTION_GROUP,
    MessageProperty,
    SysFlag,
    TimerProperty,
    dead_letter_topic,
    is_retry_topic,
    is_system_group,
    is_system_topic,
    retry_topic,
    validate_group,
    validate_topic,
)
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord
from brokerd.remoting.placement import Placement, fewest_moves, place
from console.brokers.connection import Connection, split_addrs
from consumers.admin.group_refusals import GroupRefusals, read_forbidden
from consumers.admin.mqadmin import MQAdmin
from consumers.client.channel import CLOSED_BY_PEER
from consumers.config import InvalidClientConfig, RemotingClientConfig
from consumers.consumer.pull_result import PullResult, PullStatus
from consumers.errors import BrokerUnavailable, MQClientError, RemotingTimeout
from consumers.producer.send_result import SendResult

__all__ = [
    "CLOSED_BY_PEER",
    "DLQ_TOPIC_PREFIX",
    "HALF_TOPIC",
    "PROXY_TOPIC",
    "RETRY_TOPIC_PREFIX",
    "SCHEDULE_TOPIC",
    "STRATEGIES",
    "TRANSACTION_GROUP",
    "AclInfo",
    "BlockingMQAdmin",
    "BodyError",
    "BrokerUnavailable",
    "Connection",
    "ConsumeMessageDirectlyResult",
    "ConsumerConnection",
    "ConsumerOffsetWrapper",
    "GroupRefusals",
    "InvalidClientConfig",
    "MQAdmin",
    "MQBrokerError",
    "MQClientError",
    "Message",
    "MessageProperty",
    "MessageQueue",
    "MessageRecord",
    "Placement",
    "PlainAccessConfig",
    "PolicyEntryInfo",
    "PolicyInfo",
    "PullResult",
    "PullStatus",
    "RemotingError",
    "RemotingTimeout",
    "ResponseCode",
    "SendResult",
    "SubscriptionGroupConfig",
    "SysFlag",
    "TopicConfig",
    "TopicRouteData",
    "TopicStatsTable",
    "UserInfo",
    "ask_once",
    "assign_server_side",
    "close_admins",
    "consumers_in",
    "create_unique_key",
    "dead_letter_topic",
    "decode_batch",
    "decode_offset_message_id",
    "divide_by_machine_room",
    "divide_by_nearest_room",
    "fewest_moves",
    "heirs_by_consistent_hash",
    "is_system_group",
    "is_retry_topic",
    "is_system_topic",
    "machine_room",
    "place",
    "queue_ranges",
    "read_forbidden",
    "retry_topic",
    "split_addrs",
    "validate_group",
    "validate_topic",
    "with_admin",
    "TimerProperty",
]

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")

# Every MQAdmin call ends by its own time limit (3 s, relayed ones 12 s) or is a bulk of those. Reaching this
# limit is a bug.
CALL_LIMIT_S = 120.0
CLOSE_LIMIT_S = 5.0


class _Loop:
    """An event loop in a daemon thread. Belongs to the process that created it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="mqadmin", daemon=True)
        self.thread.start()

    def call(self, work: Coroutine[Any, Any, T], limit_s: float = CALL_LIMIT_S) -> T:
        """Run a coroutine in the loop and wait for it. Raises its errors; TimeoutError after ``limit_s``."""
        if threading.current_thread() is self.thread:
            work.close()
            raise RuntimeError("a blocking broker call inside the event loop that would have to answer it")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(limit_s)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise


class _BlockingCall(Generic[P, T]):
    """A method of MQAdmin as a blocking method of BlockingMQAdmin: same arguments, result and errors."""

    def __init__(self, method: Callable[Concatenate[MQAdmin, P], Coroutine[Any, Any, T]]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> "_BlockingCall[P, T]": ...
    @overload
    def __get__(self, instance: "BlockingMQAdmin", owner: type) -> Callable[P, T]: ...
    def __get__(
        self, instance: "BlockingMQAdmin | None", owner: type
    ) -> "_BlockingCall[P, T] | Callable[P, T]":
        if instance is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return instance.run(lambda admin: self.method(admin, *args, **kwargs))

        return call


class _Client:
    """An MQAdmin that ends with its last call once others have taken its place. Belongs to the loop, but for creation.

    Settings that no client can be made with are an error of every call: pages and rounds show it as a cluster that
    cannot be reached.
    """

    def __init__(self, connection: Connection) -> None:
        addrs = split_addrs(connection.namesrv_addrs)
        self._admin: MQAdmin | BrokerUnavailable
        try:
            self._admin = MQAdmin(addrs, config=connection.client_config())
        except InvalidClientConfig as error:
            self._admin = BrokerUnavailable(";".join(addrs), connection.fault or str(error))
        self._calls = 0
        self._is_retired = False
        self._closing: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def used(self) -> AsyncIterator[MQAdmin]:
        """Keep it open within. Raises BrokerUnavailable for settings that cannot be used."""
        if isinstance(self._admin, BrokerUnavailable):
            raise BrokerUnavailable(self._admin.addr, self._admin.reason)
        self._calls += 1
        try:
            yield self._admin
        finally:
            self._calls -= 1
            if self._is_retired:
                self.retire()

    def retire(self) -> None:
        """Close it now, or when the last call has ended."""
        self._is_retired = True
        if not self._calls and self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self.close())

    async def close(self) -> None:
        if isinstance(self._admin, MQAdmin):
            await self._admin.close()


class BlockingMQAdmin:
    """MQAdmin for blocking code, safe to use from many threads at once. Get one from `with_admin`."""

    def __init__(self, connection: Connection, loop: _Loop) -> None:
        self.connection = connection
        self._loop = loop
        self._client = _Client(connection)

    @property
    def namesrv_addrs(self) -> str:
        return ";".join(split_addrs(self.connection.namesrv_addrs))

    cluster_info = _BlockingCall(MQAdmin.cluster_info)
    topic_list = _BlockingCall(MQAdmin.topic_list)
    topic_route = _BlockingCall(MQAdmin.topic_route)
    delete_topic_in_namesrv = _BlockingCall(MQAdmin.delete_topic_in_namesrv)
    all_topic_config = _BlockingCall(MQAdmin.all_topic_config)
    all_subscription_groups = _BlockingCall(MQAdmin.all_subscription_groups)
    all_consumer_offsets = _BlockingCall(MQAdmin.all_consumer_offsets)
    all_consumer_offsets_body = _BlockingCall(MQAdmin.all_consumer_offsets_body)
    delay_offsets = _BlockingCall(MQAdmin.delay_offsets)
    timer_counts = _BlockingCall(MQAdmin.timer_counts)
    broker_consume_stats = _BlockingCall(MQAdmin.broker_consume_stats)
    runtime_info = _BlockingCall(MQAdmin.runtime_info)
    broker_config = _BlockingCall(MQAdmin.broker_config)
    update_broker_config = _BlockingCall(MQAdmin.update_broker_config)
    producers = _BlockingCall(MQAdmin.producers)
    ha_status = _BlockingCall(MQAdmin.ha_status)
    broker_epochs = _BlockingCall(MQAdmin.broker_epochs)
    replicas_of = _BlockingCall(MQAdmin.replicas_of)
    cluster_info_of = _BlockingCall(MQAdmin.cluster_info_of)
    topic_list_of = _BlockingCall(MQAdmin.topic_list_of)
    topic_routes_of = _BlockingCall(MQAdmin.topic_routes_of)
    namesrv_config = _BlockingCall(MQAdmin.namesrv_config)
    wipe_write_perm = _BlockingCall(MQAdmin.wipe_write_perm)
    add_write_perm = _BlockingCall(MQAdmin.add_write_perm)
    topic_stats = _BlockingCall(MQAdmin.topic_stats)
    topic_stats_many = _BlockingCall(MQAdmin.topic_stats_many)
    topic_stats_bodies = _BlockingCall(MQAdmin.topic_stats_bodies)
    topic_config = _BlockingCall(MQAdmin.topic_config)
    create_topic = _BlockingCall(MQAdmin.create_topic)
    delete_topic = _BlockingCall(MQAdmin.delete_topic)
    topic_consumed_by = _BlockingCall(MQAdmin.topic_consumed_by)
    create_subscription_group = _BlockingCall(MQAdmin.create_subscription_group)
    delete_subscription_group = _BlockingCall(MQAdmin.delete_subscription_group)
    group_refusals = _BlockingCall(MQAdmin.group_refusals)
    group_forbidden = _BlockingCall(MQAdmin.group_forbidden)
    consume_stats = _BlockingCall(MQAdmin.consume_stats)
    consumer_connection = _BlockingCall(MQAdmin.consumer_connection)
    producer_connection = _BlockingCall(MQAdmin.producer_connection)
    consumer_running_info = _BlockingCall(MQAdmin.consumer_running_info)
    consumer_status = _BlockingCall(MQAdmin.consumer_status)
    consumer_ids = _BlockingCall(MQAdmin.consumer_ids)
    consume_message_directly = _BlockingCall(MQAdmin.consume_message_directly)
    query_consumer_offset = _BlockingCall(MQAdmin.query_consumer_offset)
    update_consumer_offset = _BlockingCall(MQAdmin.update_consumer_offset)
    reset_offset = _BlockingCall(MQAdmin.reset_offset)
    min_offset = _BlockingCall(MQAdmin.min_offset)
    max_offset = _BlockingCall(MQAdmin.max_offset)
    search_offset = _BlockingCall(MQAdmin.search_offset)
    view_message = _BlockingCall(MQAdmin.view_message)
    query_message = _BlockingCall(MQAdmin.query_message)
    acl_config = _BlockingCall(MQAdmin.acl_config)
    acl_files = _BlockingCall(MQAdmin.acl_files)
    put_account = _BlockingCall(MQAdmin.put_account)
    delete_account = _BlockingCall(MQAdmin.delete_account)
    put_white_addresses = _BlockingCall(MQAdmin.put_white_addresses)
    users = _BlockingCall(MQAdmin.users)
    user = _BlockingCall(MQAdmin.user)
    create_user = _BlockingCall(MQAdmin.create_user)
    update_user = _BlockingCall(MQAdmin.update_user)
    delete_user = _BlockingCall(MQAdmin.delete_user)
    acls = _BlockingCall(MQAdmin.acls)
    acl = _BlockingCall(MQAdmin.acl)
    create_acl = _BlockingCall(MQAdmin.create_acl)
    update_acl = _BlockingCall(MQAdmin.update_acl)
    delete_acl = _BlockingCall(MQAdmin.delete_acl)
    check_filter = _BlockingCall(MQAdmin.check_filter)
    pull = _BlockingCall(MQAdmin.pull)
    send = _BlockingCall(MQAdmin.send)
    send_many = _BlockingCall(MQAdmin.send_many)
    capabilities = _BlockingCall(MQAdmin.capabilities)
    put_assignment = _BlockingCall(MQAdmin.put_assignment)
    set_message_request_mode = _BlockingCall(MQAdmin.set_message_request_mode)
    message_request_modes = _BlockingCall(MQAdmin.message_request_modes)

    def run(self, work: Callable[[MQAdmin], Awaitable[T]]) -> T:
        """Run work on the MQAdmin in the loop's thread and wait for it."""

        async def there() -> T:
            async with self._client.used() as admin:
                return await work(admin)

        return self._loop.call(there())

    def gather(
        self, calls: Mapping[K, Callable[[MQAdmin], Awaitable[T]]], deadline_ms: int
    ) -> dict[K, T | Exception]:
        """Make all calls at once. Raises nothing.

        A call without an answer after ``deadline_ms`` is a RemotingTimeout.
        """

        async def there() -> dict[K, T | Exception]:
            until_s = asyncio.get_running_loop().time() + deadline_ms / 1000
            try:
                async with self._client.used() as admin:
                    waiting = (_answer(admin, call, until_s, deadline_ms) for call in calls.values())
                    return dict(zip(calls, await asyncio.gather(*waiting), strict=True))
            except BrokerUnavailable as error:
                return dict.fromkeys(calls, error)

        return self._loop.call(there(), limit_s=deadline_ms / 1000 + CALL_LIMIT_S)

    def reconnect(self, connection: Connection) -> None:
        """Use other settings from the next call on; calls under way end with those they began with."""
        former, self.connection = self._client, connection
        self._client = _Client(connection)
        self._loop.loop.call_soon_threadsafe(former.retire)

    def close(self) -> None:
        """Close the connections. `with_admin` returns a new admin afterwards."""
        self._loop.call(self._client.close(), CLOSE_LIMIT_S)


async def _answer(
    admin: MQAdmin, call: Callable[[MQAdmin], Awaitable[T]], until_s: float, deadline_ms: int
) -> T | Exception:
    try:
        async with asyncio.timeout_at(until_s):
            return await call(admin)
    except TimeoutError:
        return RemotingTimeout(";".join(admin.namesrv_addrs), 0, deadline_ms)
    except (MQClientError, MQBrokerError, RemotingError, OSError, ValueError) as error:
        return error


async def _ask_once(
    addrs: Sequence[str],
    config: RemotingClientConfig,
    call: Callable[[MQAdmin, str], Awaitable[T]],
    deadline_ms: int,
) -> dict[str, T | Exception]:
    until_s = asyncio.get_running_loop().time() + deadline_ms / 1000

    async def one(addr: str) -> T | Exception:
        async with MQAdmin([addr], config=config) as admin:
            return await _answer(admin, lambda admin: call(admin, addr), until_s, deadline_ms)

    return dict(zip(addrs, await asyncio.gather(*map(one, addrs)), strict=True))


class _Admins:
    """One BlockingMQAdmin per cluster, on one loop. Caller: any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: _Loop | None = None
        self._by_name: dict[str, BlockingMQAdmin] = {}

    def get(self, connection: Connection) -> BlockingMQAdmin:
        with self._lock:
            loop = self.loop()
            admin = self._by_name.get(connection.name)
            if admin is None:
                admin = self._by_name[connection.name] = BlockingMQAdmin(connection, loop)
            elif admin.connection != connection:
                admin.reconnect(connection)
            return admin

    def loop(self) -> _Loop:
        """Return the loop of this process. The caller holds the lock, or needs no admin that is kept."""
        if self._loop is None or self._loop.pid != os.getpid():
            self._loop, self._by_name = _Loop(), {}  # threads do not survive a fork
        return self._loop

    def ask_once(
        self,
        addrs: Sequence[str],
        connection: Connection,
        call: Callable[[MQAdmin, str], Awaitable[T]],
        deadline_ms: int,
    ) -> dict[str, T | Exception]:
        config = connection.client_config()
        with self._lock:
            loop = self.loop()
        work = _ask_once(addrs, config, call, deadline_ms)
        return loop.call(work, limit_s=deadline_ms / 1000 + CLOSE_LIMIT_S)

    def close(self) -> None:
        with self._lock:
            admins, self._by_name = list(self._by_name.values()), {}
        for admin in admins:
            admin.close()


_admins = _Admins()


def with_admin(connection: Connection) -> BlockingMQAdmin:
    """Return the admin of a cluster, with these settings from now on. Connects at the first call."""
    return _admins.get(connection)


def ask_once(
    addrs: Sequence[str],
    connection: Connection,
    call: Callable[[MQAdmin, str], Awaitable[T]],
    deadline_ms: int,
) -> dict[str, T | Exception]:
    """Call each address at once, with TLS and keys of ``connection``, by a client of its own that is closed afterwards.

    For settings that may be wrong: an error stands in the place of an answer, and one that is not there within
    ``deadline_ms`` is a RemotingTimeout. Raises InvalidClientConfig.
    """
    return _admins.ask_once(addrs, connection, call, deadline_ms)


def close_admins() -> None:
    """Close all connections, for tests and the end of the process."""
    _admins.close()
