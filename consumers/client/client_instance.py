"""ClientInstance: what all producers and consumers of one client id share (MQClientInstance.java).

Holds the routes and their refresh, the heartbeats, and requests of brokers to this client. Two loops run
while it is open: routes every 30 s and heartbeats every 30 s; both also run at once on request. A new
connection begins with a heartbeat, so that a restarted broker has this client before the first pull arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from brokerd.remoting.body.client import (
    ConsumeMessageDirectlyResult,
    ConsumerData,
    ConsumerListBody,
    ConsumerRunningInfo,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from brokerd.remoting.body.offset import GetConsumerStatusBody, ResetOffsetBody
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, TopicNotExist, error_for
from brokerd.remoting.header.headers import OffsetResponseHeader
from brokerd.remoting.message.names import MessageProperty
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord, decode_record
from consumers.client.remoting_client import RemotingClient
from consumers.client.replies import Replies
from consumers.client.route import MASTER_ID, NameServers, broker_addrs, choose_addr
from consumers.client.stacks import all_stacks
from consumers.client.subscription import check_body
from consumers.config import ClientConfig, InvalidClientConfig
from consumers.errors import BrokerUnavailable, ClientClosed, MQClientError, Reason

logger = logging.getLogger(__name__)

# UNREGISTER_CLIENT is a courtesy: a broker also detects the closed connection. Closing must not hang on a
# dead broker.
UNREGISTER_TIMEOUT_MS = 400


# A transaction producer's answer to CHECK_TRANSACTION_STATE: (command, address of the broker).
CheckBack = Callable[[RemotingCommand, str], Awaitable[None]]


class GroupMember(Protocol):
    """A consumer as the client instance sees it.

    Every method is called from the event loop of the instance.
    """

    group: str

    def consumer_data(self) -> ConsumerData:
        """For the heartbeat."""

    def subscribed_topics(self) -> Sequence[str]:
        """Return topics whose routes are to be kept fresh."""

    def rebalance_soon(self) -> None:
        """Members or queues have changed."""

    def broker_lost(self, broker_name: str) -> None:
        """The connection to a broker ended; what it kept in memory for us may be gone."""

    async def reset_offset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator moves the group (220)."""

    def consumer_status(self, topic: str) -> dict[MessageQueue, int]:
        """Return offsets as this member has them (221)."""

    def running_info(self) -> ConsumerRunningInfo:
        """Return what the member reports (307)."""

    async def consume_directly(
        self, message: MessageRecord, broker_name: str
    ) -> ConsumeMessageDirectlyResult:
        """Consume one message now, outside the order of its queue (309)."""


def create_client_id(instance_name: str = "") -> str:
    """Return `ip@instance`; without a name `ip@pid#nanoseconds`, unique for every instance.

    Source: ClientConfig.buildMQClientId.
    """
    return f"{local_ip()}@{instance_name or f'{os.getpid()}#{time.monotonic_ns()}'}"


def local_ip() -> str:
    """Return the address this host uses towards others; no packet is sent. 127.0.0.1 where there is no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # TEST-NET-1: documentation addresses
        return str(probe.getsockname()[0])
    return "127.0.0.1"


class ClientInstance:
    """`async with ClientInstance(addrs) as client:`.

    Producers and consumers may share one, each group once.
    """

    def __init__(self, namesrv_addrs: str | Sequence[str], config: ClientConfig | None = None) -> None:
        self.config = config or ClientConfig()
        self.client_id = create_client_id(self.config.instance_name)
        self.remoting = RemotingClient(self.config.remoting)
        if self.config.namespace_v2:
            self.remoting.request_fields = {"nsd": "true", "ns": self.config.namespace_v2}
        self.remoting.greeting = self._greeting
        self.remoting.connection_ended = self._connection_ended
        self.replies = Replies()
        self.remoting.processors = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._notify_consumer_ids_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_consumer_client_offset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._get_consumer_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._get_consumer_running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_message_directly,
            RequestCode.CHECK_TRANSACTION_STATE: self._check_transaction_state,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self.replies.receive,
        }
        self.name_servers = NameServers(self.remoting, namesrv_addrs)
        self._routes: dict[str, TopicRouteData] = {}
        self._addrs: dict[str, dict[int, str]] = {}  # broker name → id → address, of all routes
        self._producers: set[str] = set()
        self._check_backs: dict[str, CheckBack] = {}
        self._members: dict[str, GroupMember] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._heartbeat_soon = asyncio.Event()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def start(self) -> None:
        if self._is_closed:
            raise ClientClosed("this client instance is closed")
        if not self._loops:
            loop = asyncio.get_running_loop()
            self._loops = [loop.create_task(self._refresh_loop()), loop.create_task(self._heartbeat_loop())]

    async def close(self) -> None:
        """Stop the loops, then end the connections: pending requests get an error.

        Members have left before.
        """
        self._is_closed = True
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self.remoting.close()

    # Producers and consumers: register and leave

    def register_producer(self, group: str) -> None:
        """Caller: Producer. Affects: heartbeats. Several producers of one group may share an instance."""
        self._producers.add(group)
        self.heartbeat_soon()

    def register_transaction_producer(self, group: str, check_back: CheckBack) -> None:
        """Caller: TransactionProducer, before register_producer. Affects: checks of the group's half messages."""
        self._check_backs[group] = check_back

    def register_member(self, member: GroupMember) -> None:
        """Caller: PushConsumer.

        Affects: heartbeats, requests of brokers. Raises InvalidClientConfig for a second one: both would get
        the same share of the queues.
        """
        if member.group in self._members:
            raise InvalidClientConfig(
                f"client {self.client_id} has a consumer of group {member.group} already"
            )
        self._members[member.group] = member

    async def unregister(self, *, producer_group: str = "", consumer_group: str = "") -> None:
        """Leave the groups on every broker at once (UNREGISTER_CLIENT, 35).

        Never raises: brokers also find out alone.
        """
        self._producers.discard(producer_group)
        self._check_backs.pop(producer_group, None)
        self._members.pop(consumer_group, None)
        fields = {"clientID": self.client_id}
        if producer_group:
            fields["producerGroup"] = producer_group
        if consumer_group:
            fields["consumerGroup"] = consumer_group
        known = set(self._broker_addrs())
        addrs = [addr for addr in self.remoting.connected_addrs() if addr in known]
        requests = [
            self.remoting.invoke(
                addr,
                RemotingCommand.request(RequestCode.UNREGISTER_CLIENT, dict(fields)),
                UNREGISTER_TIMEOUT_MS,
            )
            for addr in addrs
        ]
        for addr, answer in zip(addrs, await asyncio.gather(*requests, return_exceptions=True), strict=True):
            if isinstance(answer, Exception):
                logger.info("not unregistered addr=%s client_id=%s: %s", addr, self.client_id, answer)

    # Routes and addresses

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of the topic; requested once and then kept fresh.

        Raises TopicNotExist (17), MQClientError.
        """
        return self._routes.get(topic) or await self.refresh_route(topic)

    def known_route(self, topic: str) -> TopicRouteData | None:
        """Return the route if it is known, without a request."""
        return self._routes.get(topic)

    def has_route(self, topic: str) -> bool:
        """Return whether the route is known, and so whether its brokers get heartbeats."""
        return topic in self._routes

    async def refresh_route(self, topic: str) -> TopicRouteData:
        """Request the route from the name servers now. A changed route makes the consumers of the topic rebalance."""
        route = await self.name_servers.topic_route(topic)
        if self._routes.get(topic) != route:
            self._routes[topic] = route
            self._addrs = broker_addrs(list(self._routes.values()))
            logger.info("route changed topic=%s brokers=%d", topic, len(route.broker_datas))
            for member in list(self._members.values()):
                if topic in member.subscribed_topics():
                    member.rebalance_soon()
        return self._routes[topic]

    def find_addr(self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str:
        """Address of a broker by name. Raises BrokerUnavailable when no route names it."""
        addr = choose_addr(self._addrs.get(broker_name, {}), broker_id, only_this=only_this)
        if addr is None:
            raise BrokerUnavailable(
                "", Reason("no route names an address of broker %(name)s", {"name": broker_name})
            )
        return addr

    def any_addr(self, route: TopicRouteData) -> str:
        """Return the master of the route's first broker, preferring one that is connected.

        The answer is the same on all.
        """
        addrs = [choose_addr(broker.broker_addrs) for broker in route.broker_datas]
        known = [addr for addr in addrs if addr is not None]
        if not known:
            raise BrokerUnavailable("", Reason("the route names no broker address"))
        connected = set(self.remoting.connected_addrs())
        return next((addr for addr in known if addr in connected), known[0])

    async def invoke_broker(
        self, broker_name: str, command: RemotingCommand, timeout_ms: int | None = None
    ) -> RemotingCommand:
        """Send a request to the master of a broker name. Raises BrokerUnavailable, RemotingTimeout."""
        return await self.remoting.invoke(self.find_addr(broker_name), command, timeout_ms)

    # Offsets: the port of RemoteOffsetStore

    async def query_consumer_offset(
        self, group: str, queue: MessageQueue, *, or_zero: bool = True
    ) -> int | None:
        """QUERY_CONSUMER_OFFSET (14); None is the broker's QUERY_NOT_FOUND.

        `or_zero`: for a queue that still has its first message, a broker may answer 0 where nothing is stored.
        """
        fields = {
            "consumerGroup": group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            # By its name a proxy knows whose queue it is: its address is one for all brokers.
            "bname": queue.broker_name,
        }
        if not or_zero:
            fields["setZeroIfNotFound"] = "false"
        command = RemotingCommand.request(RequestCode.QUERY_CONSUMER_OFFSET, fields)
        response = await self.invoke_broker(queue.broker_name, command)
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if response.code != ResponseCode.SUCCESS:
            raise error_for(response.code, response.remark)
        return OffsetResponseHeader.from_ext_fields(response.ext_fields).offset

    async def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """UPDATE_CONSUMER_OFFSET (15), one-way."""
        command = _update_offset_request(group, queue, offset, oneway=True)
        await self.remoting.invoke_oneway(self.find_addr(queue.broker_name), command)

    async def commit_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """UPDATE_CONSUMER_OFFSET (15), confirmed by the broker. Raises MQBrokerError, MQClientError."""
        command = _update_offset_request(group, queue, offset, oneway=False)
        response = await self.invoke_broker(queue.broker_name, command)
        if response.code != ResponseCode.SUCCESS:
            raise error_for(response.code, response.remark)

    async def consumer_ids(self, group: str, route: TopicRouteData) -> list[str] | None:
        """Return members of the group as one broker sees them, sorted; None when it has none yet (38)."""
        fields = {"consumerGroup": group}
        command = RemotingCommand.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
        response = await self.remoting.invoke(self.any_addr(route), command)
        if response.code != ResponseCode.SUCCESS or not response.body:
            return None
        return sorted(set(ConsumerListBody.from_body(response.body).consumer_id_list)) or None

    async def check_filter(self, group: str, subscription: SubscriptionData) -> None:
        """Check with a broker of the topic that it can filter so (46).

        Raises MQBrokerError when it cannot; one that cannot be reached now does not prevent the start.
        """
        try:
            addr = self.any_addr(await self.route(subscription.topic))
            body = check_body(self.client_id, group, subscription)
            request = RemotingCommand.request(RequestCode.CHECK_CLIENT_CONFIG, {}, body)
            response = await self.remoting.invoke(addr, request)
        except (MQClientError, TopicNotExist) as error:
            logger.info("filter not checked group=%s topic=%s: %s", group, subscription.topic, error)
            return
        if response.code != ResponseCode.SUCCESS:
            raise error_for(response.code, f"{response.remark} (filter of topic {subscription.topic})")

    # Heartbeats

    def heartbeat_soon(self) -> None:
        """Send the next heartbeats now: groups or subscriptions changed, or a broker seems to have lost them."""
        self._heartbeat_soon.set()

    async def send_heartbeats(self) -> None:
        """Send one heartbeat to every broker of every route; to masters only without consumers.

        Failures are logged.
        """
        body = self._heartbeat_body()
        if body is None:
            return
        addrs = self._broker_addrs() if self._members else self._master_addrs()
        commands = [RemotingCommand.request(RequestCode.HEART_BEAT, {}, body) for _ in addrs]
        invocations = [
            self.remoting.invoke(addr, command) for addr, command in zip(addrs, commands, strict=True)
        ]
        for addr, answer in zip(
            addrs, await asyncio.gather(*invocations, return_exceptions=True), strict=True
        ):
            if isinstance(answer, BaseException):
                logger.debug("heartbeat failed addr=%s: %s", addr, answer)
            elif answer.code != ResponseCode.SUCCESS:
                logger.warning("heartbeat refused addr=%s code=%d: %s", addr, answer.code, answer.remark)

    def _heartbeat_body(self) -> bytes | None:
        if not self._producers and not self._members:
            return None
        data = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in sorted(self._producers)],
            consumer_data_set=[self._members[group].consumer_data() for group in sorted(self._members)],
        )
        return data.to_body()

    def _greeting(self, addr: str) -> RemotingCommand | None:
        if addr not in self._broker_addrs():
            return None
        body = self._heartbeat_body()
        return None if body is None else RemotingCommand.request(RequestCode.HEART_BEAT, {}, body)

    def _connection_ended(self, addr: str) -> None:
        for broker_name, addrs in self._addrs.items():
            if addr in addrs.values():
                for member in list(self._members.values()):
                    member.broker_lost(broker_name)

    # Requests of brokers

    async def _notify_consumer_ids_changed(self, command: RemotingCommand, addr: str) -> None:
        """40, one-way: a member came or went, or the stored assignment changed."""
        member = self._members.get(command.ext_fields.get("consumerGroup", ""))
        if member is not None:
            member.rebalance_soon()

    async def _reset_consumer_client_offset(self, command: RemotingCommand, addr: str) -> None:
        """220, one-way."""
        member = self._members.get(command.ext_fields.get("group", ""))
        if member is not None:
            offsets = ResetOffsetBody.from_body(command.body).offset_table
            await member.reset_offset(command.ext_fields.get("topic", ""), offsets)

    async def _get_consumer_status(self, command: RemotingCommand, addr: str) -> RemotingCommand:
        """221."""
        member = self._members.get(command.ext_fields.get("group", ""))
        offsets = member.consumer_status(command.ext_fields.get("topic", "")) if member is not None else {}
        body = GetConsumerStatusBody(message_queue_table=offsets, consumer_table={})
        return command.response(ResponseCode.SUCCESS, body=body.to_body())

    async def _get_consumer_running_info(self, command: RemotingCommand, addr: str) -> RemotingCommand:
        """307, on request with what this process is doing."""
        group = command.ext_fields.get("consumerGroup", "")
        member = self._members.get(group)
        if member is None:
            return command.response(
                ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer"
            )
        info = member.running_info()
        if command.ext_fields.get("jstackEnable") == "true":
            info.jstack = all_stacks()
        return command.response(ResponseCode.SUCCESS, body=info.to_body())

    async def _consume_message_directly(self, command: RemotingCommand, addr: str) -> RemotingCommand:
        """309."""
        group = command.ext_fields.get("consumerGroup", "")
        member = self._members.get(group)
        if member is None:
            return command.response(
                ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer"
            )
        message = decode_record(memoryview(command.body))
        result = await member.consume_directly(message, command.ext_fields.get("brokerName", ""))
        return command.response(ResponseCode.SUCCESS, body=result.to_body())

    async def _check_transaction_state(self, command: RemotingCommand, addr: str) -> None:
        """39, one-way: a half message's outcome is unknown to the broker."""
        group = decode_record(command.body).properties.get(MessageProperty.PRODUCER_GROUP, "")
        check_back = self._check_backs.get(group)
        if check_back is None:
            logger.warning(
                "check of a transaction ignored, no producer of its group group=%s addr=%s", group, addr
            )
            return
        await check_back(command, addr)

    # Loops

    async def _heartbeat_loop(self) -> None:
        interval_s = self.config.heartbeat_interval_ms / 1000
        while True:
            with contextlib.suppress(TimeoutError):
                # Not wait_for: before Python 3.12 it loses a cancellation that comes together with the event.
                async with asyncio.timeout(interval_s):
                    await self._heartbeat_soon.wait()
            self._heartbeat_soon.clear()
            await _survive("heartbeat", self.send_heartbeats)

    async def _refresh_loop(self) -> None:
        while True:
            await asyncio.sleep(self.config.route_refresh_interval_ms / 1000)
            await _survive("route refresh", self.refresh_routes)

    async def refresh_routes(self) -> None:
        """Request every route in use; then end connections to addresses that no route names any more."""
        topics = set(self._routes)
        for member in self._members.values():
            topics.update(member.subscribed_topics())
        before = set(self._broker_addrs())
        for topic in sorted(topics):
            try:
                await self.refresh_route(topic)
            except (MQClientError, MQBrokerError) as error:
                logger.debug("route not refreshed topic=%s: %s", topic, error)
        for addr in sorted(before - set(self._broker_addrs())):
            self.remoting.disconnect(addr, Reason("no route names this address any more"))

    def _broker_addrs(self) -> list[str]:
        return sorted({addr for addrs in self._addrs.values() for addr in addrs.values()})

    def _master_addrs(self) -> list[str]:
        return sorted({addrs[MASTER_ID] for addrs in self._addrs.values() if MASTER_ID in addrs})


def _update_offset_request(group: str, queue: MessageQueue, offset: int, *, oneway: bool) -> RemotingCommand:
    fields = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "commitOffset": str(offset),
        "bname": queue.broker_name,
    }
    return RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, fields, oneway=oneway)


async def _survive(what: str, step: Callable[[], Awaitable[None]]) -> None:
    """Root of a loop that must go on: a bug in one round is logged with its traceback."""
    try:
        await step()
    except Exception:
        logger.exception("%s failed; trying again next round", what)
