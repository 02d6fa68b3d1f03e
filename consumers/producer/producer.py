"""Producer: send messages, one, many, or without an answer.

Source: semantics reference 10; DefaultMQProducerImpl.java.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import (
    GROUP_LENGTH_MAX,
    REPLY_TOPIC_SUFFIX,
    MessageProperty,
    validate_group,
    validate_topic,
)
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.recall_handle import decode_recall_handle
from consumers.client.client_instance import ClientInstance
from consumers.client.namespace import Namespace
from consumers.client.route import publish_queues
from consumers.client.trace_dispatcher import TraceDispatcher
from consumers.clock import Clock, system_clock
from consumers.config import ProducerConfig
from consumers.errors import (
    BrokerUnavailable,
    MessageNotSent,
    MQBrokerError,
    MQClientError,
    NoReply,
    RemotingTimeout,
    TooManyRequests,
    TopicRouteNotFound,
    is_retriable,
)
from consumers.producer.async_send import AsyncSend
from consumers.producer.in_flight import InFlight
from consumers.producer.latency_fault import LatencyFaults
from consumers.producer.outgoing import Outgoing
from consumers.producer.publish_info import QueueSelector, TopicPublishInfo, queue_for_key
from consumers.producer.send_result import SendResult, SendStatus, send_request, send_result
from consumers.producer.send_template import SPECIAL_PROPERTIES, SendTemplate
from consumers.producer.send_trace import pub_trace

logger = logging.getLogger(__name__)


class Producer:
    """`async with Producer(group, addrs) as producer: await producer.send(Message("orders", b"…"))`.

    Any number of tasks may send at once; sends to one broker are pipelined.
    """

    def __init__(
        self,
        group: str,
        namesrv_addrs: str | Sequence[str],
        config: ProducerConfig | None = None,
        *,
        client: ClientInstance | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """`client` is shared and stays the caller's to close; without it the producer has its own."""
        self.config = config or ProducerConfig()
        self._namespace = Namespace(self.config.client.namespace)
        self.group = self._namespace.wrap(group)
        validate_group(self.group)
        self.client = client or ClientInstance(namesrv_addrs, self.config.client)
        self._owns_client = client is None
        self._clock = clock
        self._publish_infos: dict[str, TopicPublishInfo] = {}
        self._outgoing = Outgoing(self.config, self._namespace, clock)
        self._faults = LatencyFaults()
        self._chooses_by_latency = self.config.send_latency_fault_enable
        self._in_flight = InFlight(
            self.config.async_in_flight_messages_max, self.config.async_in_flight_bytes_max
        )
        self._async_sends: set[asyncio.Future[SendResult]] = set()
        self.traces: TraceDispatcher | None = None
        if self.config.enable_msg_trace:
            self.traces = create_trace_dispatcher(self.client, group, "PRODUCE", self.config.trace_topic)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Needs no broker: connections are made by the first send."""
        self.client.start()
        self.client.register_producer(self.group)
        if self.traces is not None:
            await self.traces.start()

    async def close(self) -> None:
        """Wait for sends of `send_async`, leave the producer group; others fail if the client is the producer's own."""
        if self._async_sends:
            await asyncio.wait(set(self._async_sends))
        if self.traces is not None:
            await self.traces.close()
        await self.client.unregister(producer_group=self.group)
        if self._owns_client:
            await self.client.close()

    # Sending

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        selector: QueueSelector | None = None,
        deliver_at_ms: int | None = None,
        delay_ms: int | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send and wait until the broker has stored it.

        With `deliver_at_ms` (Unix time), or `delay_ms` from when the broker gets it, consumers see it only then: to
        the second, up to three days on, with brokers of 5.x and brokerd. `recall` takes it back.

        With `queue`, `sharding_key` (messages of one key stay in order) or `selector` there is one attempt; else failed
        attempts are repeated on another broker. `timeout_ms` bounds all attempts. Raises MessageNotSent (after several
        attempts), MQBrokerError, MQClientError, ValueError. After a RemotingTimeout the message may be stored.
        """
        self._prepare(message)
        for name, time in (
            (MessageProperty.TIMER_DELIVER_MS, deliver_at_ms),
            (MessageProperty.TIMER_DELAY_MS, delay_ms),
        ):
            if time is not None:
                message.properties[name] = str(time)
        body, sys_flag = self._outgoing.compressed(message.body)
        deadline_ms = self._clock() + (timeout_ms or self.config.send_timeout_ms)
        if queue is None and (selector is not None or sharding_key is not None):
            queue = await self._selected(message, sharding_key, selector)
        if queue is not None:
            await self._publish_info(message.topic)  # so that the address of the broker is known
            return await self._send_once(message, body, queue, sys_flag, deadline_ms)
        return await self._send_with_retry(message, body, sys_flag, deadline_ms)

    async def send_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
        """Begin to send, and return the future whose result or error is that of `send`.

        Waits while `async_in_flight_messages_max` messages or `async_in_flight_bytes_max` bytes are under way, at most
        `timeout_ms`: then TooManyRequests, and nothing was sent. `close` waits for all.
        """
        size_bytes = len(message.body)
        timeout_ms = timeout_ms or self.config.send_timeout_ms
        if not self._in_flight.enter_at_once(size_bytes):
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._in_flight.enter(size_bytes)
            except TimeoutError:
                raise TooManyRequests("brokers", self._in_flight.messages) from None
        if queue is None and sharding_key is None and selector is None:
            result = self._send_at_once(message, timeout_ms)
            if result is not None:
                self._async_sends.add(result)
                return result
        task = asyncio.get_running_loop().create_task(
            self.send(
                message, queue=queue, sharding_key=sharding_key, selector=selector, timeout_ms=timeout_ms
            )
        )
        self._async_sends.add(task)

        def end(_: asyncio.Task[SendResult]) -> None:
            self._async_sends.discard(task)
            self._in_flight.leave(size_bytes)

        task.add_done_callback(end)
        return task

    async def recall(self, topic: str, recall_handle: str, *, timeout_ms: int | None = None) -> str:
        """Take back a message that waits for its time; return its unique key. It is not delivered then.

        `recall_handle` is that of its SendResult. The broker does not look whether the message waits still. Raises
        ValueError for what is no handle, MQBrokerError (16: `recallMessageEnable` is false; 604: its time is over),
        MQClientError.
        """
        handle = decode_recall_handle(recall_handle)
        await self._publish_info(topic)
        request = RemotingCommand.request(
            RequestCode.RECALL_MESSAGE,
            {
                "producerGroup": self.group,
                "topic": self._stored_topic(topic),
                "recallHandle": recall_handle,
                "bname": handle.broker_name,
            },
        )
        addr = self.client.find_addr(handle.broker_name, only_this=True)
        response = await self.client.remoting.invoke(addr, request, timeout_ms or self.config.send_timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            raise error_for(response.code, response.remark)
        return response.ext_fields["msgId"]

    async def request(self, message: Message, timeout_ms: int | None = None) -> Message:
        """Send a message and return the reply that a consumer of it makes with `reply_to`.

        `timeout_ms` (the send timeout without it) bounds both ways. Raises NoReply; for the sending as `send`.
        """
        timeout_ms = timeout_ms or self.config.send_timeout_ms
        deadline_ms = self._clock() + timeout_ms
        if not self.client.has_route(self._stored_topic(message.topic)):
            # The reply comes by any broker of the cluster that has this producer's heartbeat.
            await self._publish_info(message.topic)
            await self.client.send_heartbeats()
        with self.client.replies.expected() as (correlation_id, reply):
            properties = {
                **message.properties,
                MessageProperty.CORRELATION_ID: correlation_id,
                MessageProperty.REPLY_TO_CLIENT: self.client.client_id,
                MessageProperty.REPLY_TTL: str(timeout_ms),
            }
            request = Message(message.topic, message.body, properties, message.flag)
            await self.send(request, timeout_ms=max(1, deadline_ms - self._clock()))
            try:
                async with asyncio.timeout(max(0, deadline_ms - self._clock()) / 1000):
                    return await reply
            except TimeoutError:
                raise NoReply(message.topic, timeout_ms) from None

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Store several messages of one topic in one request, all or none, in order, in one queue.

        Not compressed.

        Raises ValueError for an empty or mixed batch and MessageTooLarge; else as `send`.
        """
        carrier, body = self._outgoing.batch(messages)
        self._check_topic(carrier.topic)
        deadline_ms = self._clock() + (timeout_ms or self.config.send_timeout_ms)
        if queue is not None:
            await self._publish_info(carrier.topic)
            return await self._send_once(carrier, body, queue, 0, deadline_ms, batch=messages)
        return await self._send_with_retry(carrier, body, 0, deadline_ms, batch=messages)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Write it to the socket without waiting for a result. Raises MQClientError, ValueError."""
        self._prepare(message)
        body, sys_flag = self._outgoing.compressed(message.body)
        info = await self._publish_info(message.topic)
        if queue is None and (selector is not None or sharding_key is not None):
            queue = await self._selected(message, sharding_key, selector)
        if queue is None:
            queue = self._next(info, None)
        request = self._request(message, body, queue, sys_flag, self._clock(), oneway=True)
        await self.client.remoting.invoke_oneway(
            self.client.find_addr(queue.broker_name, only_this=True), request, self.config.send_timeout_ms
        )

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return queues that may be written, for a caller that chooses one. Raises TopicRouteNotFound."""
        return list((await self._publish_info(topic)).queues)

    # Attempts: the loop and one attempt

    async def _send_with_retry(
        self,
        message: Message,
        body: bytes,
        sys_flag: int,
        deadline_ms: int,
        *,
        batch: Sequence[Message] = (),
        begun: AsyncSend | None = None,
    ) -> SendResult:
        """Send with up to 1 + retry_times_when_send_failed attempts within the deadline.

        There is a next one while errors are retriable. `begun`: the first one, which has its answer.
        """
        send = self._watched_send if self._chooses_by_latency else self._send_once
        attempts = 0
        failed_broker: str | None = None
        while True:
            attempts += 1
            try:
                if begun is not None and attempts == 1:
                    failed_broker = begun.queue.broker_name
                    result = begun.first_result()
                else:
                    queue = self._next(await self._publish_info(message.topic), failed_broker)
                    failed_broker = queue.broker_name
                    result = await send(message, body, queue, sys_flag, deadline_ms, batch=batch)
                is_last = attempts > self.config.retry_times_when_send_failed
                if not self._is_repeated(result) or is_last or self._clock() >= deadline_ms:
                    return result
            except (MQClientError, MQBrokerError) as error:
                if not is_retriable(error):
                    raise
                pause_ms = self.config.retry_pause_ms if isinstance(error, BrokerUnavailable) else 0
                is_last = attempts > self.config.retry_times_when_send_failed
                if is_last or self._clock() + pause_ms >= deadline_ms:
                    raise MessageNotSent(message.topic, attempts, error) from error
                logger.info(
                    "send failed, trying again topic=%s attempt=%d: %s", message.topic, attempts, error
                )
                await asyncio.sleep(pause_ms / 1000)

    def _is_repeated(self, result: SendResult) -> bool:
        return self.config.retry_another_broker_when_not_store_ok and result.status is not SendStatus.SEND_OK

    async def _watched_send(
        self,
        message: Message,
        body: bytes,
        queue: MessageQueue,
        sys_flag: int,
        deadline_ms: int,
        *,
        batch: Sequence[Message],
    ) -> SendResult:
        """Send once, and record how the broker did."""
        began_ms = self._clock()
        is_failed = False
        try:
            return await self._send_once(message, body, queue, sys_flag, deadline_ms, batch=batch)
        except (MQClientError, MQBrokerError) as error:
            is_failed = is_retriable(error)  # other errors are not the broker's
            raise
        finally:
            now_ms = self._clock()
            self._faults.record(queue.broker_name, now_ms - began_ms, now_ms, is_failed=is_failed)

    async def _send_once(
        self,
        message: Message,
        body: bytes,
        queue: MessageQueue,
        sys_flag: int,
        deadline_ms: int,
        *,
        batch: Sequence[Message] = (),
    ) -> SendResult:
        """`batch`: the messages of which `message` is the carrier."""
        addr = self.client.find_addr(queue.broker_name, only_this=True)
        began_ms = self._clock()
        timeout_ms = deadline_ms - began_ms
        request = self._request(message, body, queue, sys_flag, began_ms, is_batch=bool(batch))
        if timeout_ms <= 0:
            raise RemotingTimeout(addr, request.code, 0)
        response = await self.client.remoting.invoke(addr, request, timeout_ms)
        result = send_result(response, message, queue)
        if self.traces is not None:
            sizes = [(each, len(each.body)) for each in batch] or [(message, len(body))]
            self._trace_sends(self.traces, sizes, result, response, addr, began_ms)
        return result

    # AsyncSend: the first attempt of `send_async`, and what it calls

    def _send_at_once(self, message: Message, timeout_ms: int) -> asyncio.Future[SendResult] | None:
        """Write a message to the socket now, and return its result to come.

        None where something has to be waited for, is unusual, or wrong: `send` does it then.
        """
        info = self._known_publish_info(message.topic)
        if info is None or self._chooses_by_latency or not SPECIAL_PROPERTIES.isdisjoint(message.properties):
            return None
        try:
            self._outgoing.prepare(message)
            body, sys_flag = self._outgoing.compressed(message.body)
            template = info.next_template()
            addr = self.client.find_addr(template.queue.broker_name, only_this=True)
            now_ms = self._clock()
            result: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
            send = AsyncSend(
                message, body, sys_flag, template, addr, now_ms, now_ms + timeout_ms, self, result
            )
            is_sent = self.client.remoting.begin(addr, send, timeout_ms)
        except (MQClientError, ValueError):
            return None
        return result if is_sent else None

    def command_of(self, send: AsyncSend) -> RemotingCommand:
        return self._request(send.message, send.body, send.queue, send.sys_flag, send.began_ms)

    def read_answer(self, send: AsyncSend, response: RemotingCommand) -> SendResult:
        result = send_result(response, send.message, send.template.queue)
        if self.traces is not None:
            sizes = [(send.message, len(send.body))]
            self._trace_sends(self.traces, sizes, result, response, send.addr, send.began_ms)
        return result

    def go_on(self, send: AsyncSend) -> Coroutine[object, object, SendResult]:
        return self._send_with_retry(send.message, send.body, send.sys_flag, send.deadline_ms, begun=send)

    def ended(self, send: AsyncSend) -> None:
        self._async_sends.discard(send.result)
        self._in_flight.leave(len(send.message.body))

    def _trace_sends(
        self,
        traces: TraceDispatcher,
        sizes: Sequence[tuple[Message, int]],
        result: SendResult,
        response: RemotingCommand,
        addr: str,
        began_ms: int,
    ) -> None:
        """`sizes`: (message, bytes of its body as sent). A broker with `traceOn=false` wants no traces."""
        answer, ended_ms = response.ext_fields, self._clock()
        if answer.get(MessageProperty.TRACE_SWITCH) == "false" or result.queue.topic == traces.topic:
            return
        for message, body_bytes in sizes:
            trace = pub_trace(
                message,
                body_bytes,
                result,
                answer,
                group=self._namespace.unwrap(self.group),
                addr=addr,
                began_ms=began_ms,
                ended_ms=ended_ms,
            )
            traces.append(trace)

    def _request(
        self,
        message: Message,
        body: bytes,
        queue: MessageQueue,
        sys_flag: int,
        born_timestamp_ms: int,
        *,
        is_batch: bool = False,
        oneway: bool = False,
    ) -> RemotingCommand:
        return send_request(
            replace(message, topic=self._stored_topic(message.topic)) if self._namespace else message,
            body,
            queue_id=queue.queue_id,
            broker_name=queue.broker_name,
            producer_group=self.group,
            sys_flag=sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            default_topic=self.config.create_topic_key,
            default_topic_queue_nums=self.config.default_topic_queue_nums,
            is_batch=is_batch,
            oneway=oneway,
        )

    # Topics and queues

    def _stored_topic(self, topic: str) -> str:
        """Return the brokers' name of a topic. That of replies is the cluster's, in every namespace."""
        if not self._namespace or topic.endswith(REPLY_TOPIC_SUFFIX):
            return topic
        return self._namespace.wrap(topic)

    def _check_topic(self, topic: str) -> None:
        """Raise ValueError for a name that no topic has; one that was sent to is known."""
        if topic not in self._publish_infos:
            validate_topic(self._stored_topic(topic))

    async def _publish_info(self, topic: str) -> TopicPublishInfo:
        """Return the topic's writable queues.

        For an unknown topic those that creating it by sending would give it (5.4).
        """
        known = self._known_publish_info(topic)
        if known is not None:
            return known
        try:
            route = await self.client.route(self._stored_topic(topic))
        except MQBrokerError as error:
            return await self._info_of_new_topic(topic, error)
        queues = publish_queues(topic, route)
        if not queues:
            raise TopicRouteNotFound(topic, "write")
        info = self._publish_infos[topic] = self._create_publish_info(topic, route, queues)
        return info

    def _known_publish_info(self, topic: str) -> TopicPublishInfo | None:
        """Return the queues without a request; None: the route is unknown, or has changed."""
        info = self._publish_infos.get(topic)
        if info is None or info.route is not self.client.known_route(info.stored_topic):
            return None
        return info

    async def _info_of_new_topic(self, topic: str, error: MQBrokerError) -> TopicPublishInfo:
        try:
            route = await self.client.route(self.config.create_topic_key)
        except MQBrokerError:
            raise error from None
        limit = self.config.default_topic_queue_nums
        queues = [queue for queue in publish_queues(topic, route) if queue.queue_id < limit]
        if not queues:
            raise TopicRouteNotFound(topic, "write") from error
        return self._create_publish_info(topic, route, queues)

    def _create_publish_info(
        self, topic: str, route: TopicRouteData, queues: list[MessageQueue]
    ) -> TopicPublishInfo:
        stored_topic = self._stored_topic(topic)
        defaults = self.config.create_topic_key, self.config.default_topic_queue_nums
        templates = [SendTemplate(queue, stored_topic, self.group, *defaults) for queue in queues]
        return TopicPublishInfo(stored_topic, route, queues, templates)

    def _next(self, info: TopicPublishInfo, failed_broker: str | None) -> MessageQueue:
        if not self._chooses_by_latency:
            return info.next(failed_broker)
        now_ms = self._clock()
        return info.next(failed_broker, lambda broker_name: self._faults.is_available(broker_name, now_ms))

    async def _selected(
        self, message: Message, sharding_key: str | None, selector: QueueSelector | None
    ) -> MessageQueue | None:
        """Return the queue that the caller's rule chooses, None without a rule."""
        if selector is not None:
            return selector(await self.publish_queues(message.topic), message)
        if sharding_key is not None:
            return queue_for_key((await self._publish_info(message.topic)).queues, sharding_key)
        return None

    def _prepare(self, message: Message) -> None:
        """Check it and give it its unique key. Raises ValueError."""
        self._check_topic(message.topic)
        self._outgoing.prepare(message)


# genGroupNameForTrace of AsyncTraceDispatcher.java
TRACE_GROUP_PREFIX = "_INNER_TRACE_PRODUCER"
TRACE_SEND_TIMEOUT_MS = 5_000
_trace_groups = itertools.count()


def create_trace_dispatcher(client: ClientInstance, group: str, kind: str, topic: str) -> TraceDispatcher:
    """Return what sends traces of a client of `group`, by a producer of its own on the same connections.

    `kind` is PRODUCE or CONSUME. Raises ValueError for a topic that RocketMQ would not take.
    """
    validate_topic(topic)
    room = GROUP_LENGTH_MAX - len(f"{TRACE_GROUP_PREFIX}--{kind}-") - len(str(sys.maxsize))
    trace_group = f"{TRACE_GROUP_PREFIX}-{group[:room]}-{kind}-{next(_trace_groups)}"
    config = ProducerConfig(send_timeout_ms=TRACE_SEND_TIMEOUT_MS)
    return TraceDispatcher(Producer(trace_group, (), config, client=client), topic)
