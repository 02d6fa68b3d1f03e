"""Sending one message: its attempts, what each of them asks of which broker, and what becomes of the answers.

Source: semantics reference 10; DefaultMQProducerImpl.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence

from msgspec.structs import replace

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import MessageProperty
from brokerd.remoting.message.queue import MessageQueue
from consumers.client.client_instance import ClientInstance
from consumers.client.namespace import Namespace
from consumers.client.trace_dispatcher import TraceDispatcher
from consumers.clock import Clock
from consumers.config import ProducerConfig
from consumers.errors import (
    BrokerUnavailable,
    MessageNotSent,
    MQBrokerError,
    MQClientError,
    RemotingTimeout,
    is_retriable,
)
from consumers.producer.async_send import AsyncSend
from consumers.producer.in_flight import InFlight
from consumers.producer.latency_fault import LatencyFaults
from consumers.producer.outgoing import Outgoing
from consumers.producer.publish_info import TopicPublishInfo, TopicPublishInfoTable
from consumers.producer.send_result import SendResult, SendStatus, send_request, send_result
from consumers.producer.send_template import SPECIAL_PROPERTIES
from consumers.producer.send_trace import pub_trace

logger = logging.getLogger(__name__)


class Sender:
    """What a producer sends with. Any number of tasks of one event loop may use it at once."""

    def __init__(
        self,
        group: str,
        client: ClientInstance,
        config: ProducerConfig,
        namespace: Namespace,
        clock: Clock,
        traces: TraceDispatcher | None,
    ) -> None:
        """`group` is the brokers' name of the producer group."""
        self.topics = TopicPublishInfoTable(group, client, config, namespace)
        self.outgoing = Outgoing(config, namespace, clock)
        self.in_flight = InFlight(config.async_in_flight_messages_max, config.async_in_flight_bytes_max)
        self._group = group
        self._client = client
        self._config = config
        self._namespace = namespace
        self._clock = clock
        self._traces = traces
        self._faults = LatencyFaults()
        self._chooses_by_latency = config.send_latency_fault_enable

    def prepare(self, message: Message) -> None:
        """Check it and give it its unique key. Raises ValueError."""
        self.topics.check(message.topic)
        self.outgoing.prepare(message)

    async def send_oneway(
        self, message: Message, body: bytes, queue: MessageQueue | None, sys_flag: int
    ) -> None:
        """Write it to the socket; the broker does not answer. Raises MQClientError."""
        info = await self.topics.info(message.topic)
        if queue is None:
            queue = self._next(info, None)
        request = self._request(message, body, queue, sys_flag, self._clock(), oneway=True)
        addr = self._client.find_addr(queue.broker_name, only_this=True)
        await self._client.remoting.invoke_oneway(addr, request, self._config.send_timeout_ms)

    async def send_with_retry(
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
        send = self._watched_send if self._chooses_by_latency else self.send_once
        attempts = 0
        failed_broker: str | None = None
        while True:
            attempts += 1
            try:
                if begun is not None and attempts == 1:
                    failed_broker = begun.queue.broker_name
                    result = begun.first_result()
                else:
                    queue = self._next(await self.topics.info(message.topic), failed_broker)
                    failed_broker = queue.broker_name
                    result = await send(message, body, queue, sys_flag, deadline_ms, batch=batch)
                is_last = attempts > self._config.retry_times_when_send_failed
                if not self._is_repeated(result) or is_last or self._clock() >= deadline_ms:
                    return result
            except (MQClientError, MQBrokerError) as error:
                if not is_retriable(error):
                    raise
                pause_ms = self._config.retry_pause_ms if isinstance(error, BrokerUnavailable) else 0
                is_last = attempts > self._config.retry_times_when_send_failed
                if is_last or self._clock() + pause_ms >= deadline_ms:
                    raise MessageNotSent(message.topic, attempts, error) from error
                logger.info(
                    "send failed, trying again topic=%s attempt=%d: %s", message.topic, attempts, error
                )
                await asyncio.sleep(pause_ms / 1000)

    def _is_repeated(self, result: SendResult) -> bool:
        return self._config.retry_another_broker_when_not_store_ok and result.status is not SendStatus.SEND_OK

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
            return await self.send_once(message, body, queue, sys_flag, deadline_ms, batch=batch)
        except (MQClientError, MQBrokerError) as error:
            is_failed = is_retriable(error)  # other errors are not the broker's
            raise
        finally:
            now_ms = self._clock()
            self._faults.record(queue.broker_name, now_ms - began_ms, now_ms, is_failed=is_failed)

    async def send_once(
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
        addr = self._client.find_addr(queue.broker_name, only_this=True)
        began_ms = self._clock()
        timeout_ms = deadline_ms - began_ms
        request = self._request(message, body, queue, sys_flag, began_ms, is_batch=bool(batch))
        if timeout_ms <= 0:
            raise RemotingTimeout(addr, request.code, 0)
        response = await self._client.remoting.invoke(addr, request, timeout_ms)
        result = send_result(response, message, queue)
        if self._traces is not None:
            sizes = [(each, len(each.body)) for each in batch] or [(message, len(body))]
            self._trace_sends(self._traces, sizes, result, response, addr, began_ms)
        return result

    def send_at_once(self, message: Message, timeout_ms: int) -> asyncio.Future[SendResult] | None:
        """Write a message to the socket now, and return its result to come.

        None where something has to be waited for, is unusual, or wrong: `send` does it then.
        """
        info = self.topics.known(message.topic)
        if info is None or self._chooses_by_latency or not SPECIAL_PROPERTIES.isdisjoint(message.properties):
            return None
        try:
            self.outgoing.prepare(message)
            body, sys_flag = self.outgoing.compressed(message.body)
            template = info.next_template()
            addr = self._client.find_addr(template.queue.broker_name, only_this=True)
            now_ms = self._clock()
            result: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
            send = AsyncSend(
                message,
                body,
                sys_flag,
                template,
                addr,
                now_ms,
                now_ms + timeout_ms,
                self,
                self.in_flight,
                len(message.body),
                result,
            )
            is_sent = self._client.remoting.begin(addr, send, timeout_ms)
        except (MQClientError, ValueError):
            return None
        return result if is_sent else None

    def command_of(self, send: AsyncSend) -> RemotingCommand:
        return self._request(send.message, send.body, send.queue, send.sys_flag, send.began_ms)

    def read_answer(self, send: AsyncSend, response: RemotingCommand) -> SendResult:
        result = send_result(response, send.message, send.template.queue)
        if self._traces is not None:
            sizes = [(send.message, len(send.body))]
            self._trace_sends(self._traces, sizes, result, response, send.addr, send.began_ms)
        return result

    def go_on(self, send: AsyncSend) -> Coroutine[object, object, SendResult]:
        return self.send_with_retry(send.message, send.body, send.sys_flag, send.deadline_ms, begun=send)

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
                group=self._namespace.unwrap(self._group),
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
            replace(message, topic=self.topics.stored_topic(message.topic)) if self._namespace else message,
            body,
            queue_id=queue.queue_id,
            broker_name=queue.broker_name,
            producer_group=self._group,
            sys_flag=sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            default_topic=self._config.create_topic_key,
            default_topic_queue_nums=self._config.default_topic_queue_nums,
            is_batch=is_batch,
            oneway=oneway,
        )

    def _next(self, info: TopicPublishInfo, failed_broker: str | None) -> MessageQueue:
        if not self._chooses_by_latency:
            return info.next(failed_broker)
        now_ms = self._clock()
        return info.next(failed_broker, lambda broker_name: self._faults.is_available(broker_name, now_ms))
