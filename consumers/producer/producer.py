"""Producer: send messages, one, many, or without an answer.

Source: semantics reference 10; DefaultMQProducerImpl.java.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import (
    GROUP_LENGTH_MAX,
    MessageProperty,
    validate_group,
    validate_topic,
)
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.recall_handle import decode_recall_handle
from consumers.client.client_instance import ClientInstance
from consumers.client.namespace import Namespace
from consumers.client.trace_dispatcher import TraceDispatcher
from consumers.clock import Clock, system_clock
from consumers.config import ProducerConfig
from consumers.errors import ClientClosed, NoReply, TooManyRequests
from consumers.producer.publish_info import QueueSelector, queue_for_key
from consumers.producer.send_result import SendResult
from consumers.producer.sender import Sender


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
        self.traces: TraceDispatcher | None = None
        if self.config.enable_msg_trace:
            self.traces = create_trace_dispatcher(self.client, group, "PRODUCE", self.config.trace_topic)
        self._sender = Sender(self.group, self.client, self.config, self._namespace, clock, self.traces)
        self._is_closing = False

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
        self._is_closing = True
        await self._sender.in_flight.wait_empty()
        if self.traces is not None:
            await self.traces.close()
        await self.client.unregister(producer_group=self.group)
        if self._owns_client:
            await self.client.close()

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
        self._sender.prepare(message)
        for name, time in (
            (MessageProperty.TIMER_DELIVER_MS, deliver_at_ms),
            (MessageProperty.TIMER_DELAY_MS, delay_ms),
        ):
            if time is not None:
                message.properties[name] = str(time)
        body, sys_flag = self._sender.outgoing.compressed(message.body)
        deadline_ms = self._clock() + (timeout_ms or self.config.send_timeout_ms)
        if queue is None and (selector is not None or sharding_key is not None):
            queue = await self._selected(message, sharding_key, selector)
        if queue is not None:
            await self._sender.topics.info(message.topic)  # so that the address of the broker is known
            return await self._sender.send_once(message, body, queue, sys_flag, deadline_ms)
        return await self._sender.send_with_retry(message, body, sys_flag, deadline_ms)

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
        `timeout_ms`: then TooManyRequests, and nothing was sent. `close` waits for all; from then on ClientClosed.
        """
        if self._is_closing:
            raise ClientClosed("the producer is closed")
        sender, size_bytes = self._sender, len(message.body)
        timeout_ms = timeout_ms or self.config.send_timeout_ms
        if not sender.in_flight.enter_at_once(size_bytes):
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await sender.in_flight.enter(size_bytes)
            except TimeoutError:
                raise TooManyRequests("brokers", sender.in_flight.messages) from None
        if queue is None and sharding_key is None and selector is None:
            result = sender.send_at_once(message, timeout_ms)
            if result is not None:
                return result
        task = asyncio.get_running_loop().create_task(
            self.send(
                message, queue=queue, sharding_key=sharding_key, selector=selector, timeout_ms=timeout_ms
            )
        )
        task.add_done_callback(lambda _: sender.in_flight.leave(size_bytes))
        return task

    async def recall(self, topic: str, recall_handle: str, *, timeout_ms: int | None = None) -> str:
        """Take back a message that waits for its time; return its unique key. It is not delivered then.

        `recall_handle` is that of its SendResult. The broker does not look whether the message waits still. Raises
        ValueError for what is no handle, MQBrokerError (16: `recallMessageEnable` is false; 604: its time is over),
        MQClientError.
        """
        handle = decode_recall_handle(recall_handle)
        await self._sender.topics.info(topic)
        request = RemotingCommand.request(
            RequestCode.RECALL_MESSAGE,
            {
                "producerGroup": self.group,
                "topic": self._sender.topics.stored_topic(topic),
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
        if not self.client.has_route(self._sender.topics.stored_topic(message.topic)):
            # The reply comes by any broker of the cluster that has this producer's heartbeat.
            await self._sender.topics.info(message.topic)
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
        carrier, body = self._sender.outgoing.batch(messages)
        self._sender.topics.check(carrier.topic)
        deadline_ms = self._clock() + (timeout_ms or self.config.send_timeout_ms)
        if queue is not None:
            await self._sender.topics.info(carrier.topic)
            return await self._sender.send_once(carrier, body, queue, 0, deadline_ms, batch=messages)
        return await self._sender.send_with_retry(carrier, body, 0, deadline_ms, batch=messages)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        sharding_key: str | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Write it to the socket without waiting for a result. Raises MQClientError, ValueError."""
        self._sender.prepare(message)
        body, sys_flag = self._sender.outgoing.compressed(message.body)
        if queue is None and (selector is not None or sharding_key is not None):
            queue = await self._selected(message, sharding_key, selector)
        await self._sender.send_oneway(message, body, queue, sys_flag)

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return queues that may be written, for a caller that chooses one. Raises TopicRouteNotFound."""
        return list((await self._sender.topics.info(topic)).queues)

    async def _selected(
        self, message: Message, sharding_key: str | None, selector: QueueSelector | None
    ) -> MessageQueue | None:
        """Return the queue that the caller's rule chooses, None without a rule."""
        if selector is not None:
            return selector(await self.publish_queues(message.topic), message)
        if sharding_key is not None:
            return queue_for_key((await self._sender.topics.info(message.topic)).queues, sharding_key)
        return None


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
