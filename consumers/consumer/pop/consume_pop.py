"""Concurrent consumption of popped messages: each is acknowledged by itself, or comes again when its time is over.

Source: ConsumeMessagePopConcurrentlyService.java. A message that failed too often becomes a dead letter here; Java's
client acknowledges it once it is four hours old, and it is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from brokerd.remoting.body.client import PopProcessQueueInfo
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord
from consumers.client.client_instance import ClientInstance
from consumers.clock import Clock
from consumers.config import PushConsumerConfig
from consumers.consumer.consume_concurrently import split_by_ack_index
from consumers.consumer.consume_message import ConsumeContext, MessageHandler
from consumers.consumer.pop.pop_result import PoppedMessage, ack_request, change_invisible_time_request
from consumers.consumer.pull_message import prepare_message
from consumers.consumer.send_back import send_back_request
from consumers.consumer.worker_line import WorkerLine
from consumers.errors import MQBrokerError, MQClientError

logger = logging.getLogger(__name__)

# DefaultMQPushConsumerImpl.popDelayLevel, in seconds: by the repetitions so far, or by the handler's delay level.
POP_DELAYS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
# What a leaving member has not begun comes again after so long (and the broker's own 2 s).
GIVEN_BACK_INVISIBLE_MS = 1_000
DEAD_LETTER = -1  # as a delay level


def comes_again_after_ms(reconsume_times: int, delay_level: int) -> int:
    """Return how long a failed message stays invisible; level 0: the longer the more often it failed."""
    index = delay_level if delay_level > 0 else reconsume_times
    return POP_DELAYS_S[min(index, len(POP_DELAYS_S) - 1)] * 1_000


class PopQueue:
    """What a member has popped of one queue, or of all queues of a broker (queue id -1), as counts."""

    def __init__(self, message_queue: MessageQueue, now_ms: int) -> None:
        self.message_queue = message_queue
        self.is_dropped = False
        self.last_pop_ms = now_ms
        self.held = 0

    def __repr__(self) -> str:
        queue = self.message_queue
        return f"<PopQueue {queue.topic} {queue.broker_name} {queue.queue_id} {self.held} held>"

    def info(self) -> PopProcessQueueInfo:
        """For GET_CONSUMER_RUNNING_INFO (307)."""
        return PopProcessQueueInfo(self.held, self.is_dropped, self.last_pop_ms)


@dataclass(frozen=True, slots=True)
class PopRequest:
    queue: PopQueue
    messages: list[PoppedMessage]

    def __str__(self) -> str:
        return f"{self.queue!r} offset={self.messages[0].record.queue_offset}"


class PopConsumeService:
    """`consume_concurrency` workers. Messages of a queue that is given up stay ours until their time is over."""

    def __init__(
        self, handler: MessageHandler, config: PushConsumerConfig, client: ClientInstance, clock: Clock
    ) -> None:
        self._handler = handler
        self._config = config
        self._client = client
        self._clock = clock
        self._line = WorkerLine(config.consume_concurrency, self._consume)

    def start(self) -> None:
        """Caller: pop loops, before the first of them pops."""
        self._line.start()

    def submit(self, queue: PopQueue, messages: Sequence[PoppedMessage]) -> None:
        """Caller: pop loop. Affects: the line, and what the queue holds."""
        queue.held += len(messages)
        size = self._config.consume_message_batch_max_size
        for start in range(0, len(messages), size):
            self._line.put(PopRequest(queue, list(messages[start : start + size])))

    async def close(self, wait_ms: int) -> None:
        """Let handlers end; what was not begun comes again at once, to the other members."""
        left = await self._line.close(wait_ms)
        await asyncio.gather(
            *(
                self._change_invisible_time(request.queue, message, GIVEN_BACK_INVISIBLE_MS)
                for request in left
                for message in request.messages
            )
        )

    async def acknowledge(self, queue: PopQueue, message: PoppedMessage) -> None:
        """Be done with a message. If the broker cannot be reached it comes again."""
        request = ack_request(message, queue.message_queue.topic, self._handler.group)
        await self._try("acknowledged", message, request)

    async def _consume(self, request: PopRequest) -> None:
        queue = request.queue
        try:
            await self._handler.rate.wait()
            now_ms = self._clock()
            mine = [message for message in request.messages if not message.is_expired(now_ms)]
            if len(mine) < len(request.messages):
                logger.warning("waited for a handler until another member may have it %s", request)
            if mine:
                self._handler.rate.count(len(mine))
                await self._call(queue, mine)
        finally:
            queue.held -= len(request.messages)

    async def _call(self, queue: PopQueue, messages: Sequence[PoppedMessage]) -> None:
        context = ConsumeContext(
            group=self._handler.group,
            message_queue=queue.message_queue,
            delay_level_when_next_consume=self._config.delay_level_when_next_consume,
        )
        records = [self._prepared(queue, message) for message in messages]
        outcome = await self._handler.call(records, context, self._clock())
        done, _ = split_by_ack_index(records, outcome, context.ack_index)
        await asyncio.gather(
            *(self.acknowledge(queue, message) for message in messages[: len(done)]),
            *(
                self._fail(queue, message, context.delay_level_when_next_consume)
                for message in messages[len(done) :]
            ),
        )

    def _prepared(self, queue: PopQueue, message: PoppedMessage) -> MessageRecord:
        """Return what the handler gets: of the topic that it subscribed to, also from the retry topic."""
        record = prepare_message(message.record, self._handler.group)
        topic = queue.message_queue.topic
        return record if record.topic == topic else replace(record, topic=topic)

    async def _fail(self, queue: PopQueue, message: PoppedMessage, delay_level: int) -> None:
        times = message.record.reconsume_times
        limit = self._config.max_reconsume_times_for(orderly=False)
        if delay_level < 0 or times >= limit:
            broker_name = queue.message_queue.broker_name
            request = send_back_request(message.record, broker_name, self._handler.group, DEAD_LETTER, limit)
            if await self._try("made a dead letter", message, request):
                await self.acknowledge(queue, message)
        else:
            await self._change_invisible_time(queue, message, comes_again_after_ms(times, delay_level))

    async def _change_invisible_time(
        self, queue: PopQueue, message: PoppedMessage, invisible_ms: int
    ) -> None:
        topic, group = queue.message_queue.topic, self._handler.group
        request = change_invisible_time_request(message, topic, group, invisible_ms)
        await self._try("given back", message, request)

    async def _try(self, what: str, message: PoppedMessage, request: RemotingCommand) -> bool:
        """Send a request that may fail: without it the message comes again when its time is over."""
        try:
            response = await self._client.invoke_broker(message.handle.broker_name, request)
            if response.code == ResponseCode.SUCCESS:
                return True
            raise error_for(response.code, response.remark)
        except (MQClientError, MQBrokerError) as error:
            record = message.record
            logger.warning(
                "not %s group=%s topic=%s queue_id=%d offset=%d: %s",
                what,
                self._handler.group,
                record.topic,
                record.queue_id,
                record.queue_offset,
                error,
            )
            return False
