"""Concurrent consumption: any number of messages of a queue at once, failures sent back one by one.

Semantics reference 9.7 (ConsumeMessageConcurrentlyService.java).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from brokerd.remoting.message.record import MessageRecord
from consumers.clock import Clock
from consumers.config import MessageModel, PushConsumerConfig
from consumers.consumer.consume_message import ConsumeContext, ConsumeOutcome, MessageHandler
from consumers.consumer.offset_store import OffsetStore
from consumers.consumer.process_queue import ProcessQueue
from consumers.consumer.worker_line import WorkerLine
from consumers.errors import MQBrokerError, MQClientError

logger = logging.getLogger(__name__)

# submitConsumeRequestLater: messages that could not be sent back are tried again by us.
CONSUME_AGAIN_DELAY_MS = 5_000
# cleanExpiredMsg sends back with a fixed level.
EXPIRED_DELAY_LEVEL = 3

# (message, broker name, delay level); raises MQClientError or MQBrokerError
SendBack = Callable[[MessageRecord, str, int], Awaitable[None]]


class ConsumeRequest(msgspec.Struct):
    """Messages of a queue for one call of the handler."""

    queue: ProcessQueue
    messages: list[MessageRecord]

    def __str__(self) -> str:
        return _where(self.messages[0])


def split_batches(messages: Sequence[MessageRecord], size: int) -> list[list[MessageRecord]]:
    return [list(messages[start : start + size]) for start in range(0, len(messages), size)]


def split_by_ack_index(
    messages: Sequence[MessageRecord], outcome: ConsumeOutcome, ack_index: int | None
) -> tuple[list[MessageRecord], list[MessageRecord]]:
    """(done, to come again). Success: up to and with `ack_index`, all without one; else none."""
    if not outcome.is_success:
        return [], list(messages)
    done = len(messages) if ack_index is None else max(0, min(ack_index + 1, len(messages)))
    return list(messages[:done]), list(messages[done:])


class ConcurrentConsumeService:
    """`consume_concurrency` workers take batches from one line."""

    def __init__(
        self,
        handler: MessageHandler,
        config: PushConsumerConfig,
        offset_store: OffsetStore,
        send_back: SendBack,
        clock: Clock,
    ) -> None:
        self._handler = handler
        self._config = config
        self._offset_store = offset_store
        self._send_back = send_back
        self._clock = clock
        self._line = WorkerLine(config.consume_concurrency, self._consume)
        self._later: set[asyncio.TimerHandle] = set()

    def start(self) -> None:
        self._line.start()

    def submit(self, queue: ProcessQueue, messages: list[MessageRecord]) -> None:
        """Caller: pull loop. Affects: the line of batches."""
        for batch in split_batches(messages, self._config.consume_message_batch_max_size):
            self._line.put(ConsumeRequest(queue, batch))

    async def close(self, wait_ms: int) -> None:
        """Leave batches in line.

        Their offsets are not committed, so they come again to the member that is next.
        """
        for timer in self._later:
            timer.cancel()
        await self._line.close(wait_ms)

    async def clean_expired(self, queue: ProcessQueue) -> None:
        """Send back messages whose handler hangs for `consume_timeout_ms`, so that the offset can go on.

        Caller: PushConsumer's loop.
        """
        for message in queue.expired_messages(self._config.consume_timeout_ms, self._clock()):
            try:
                await self._send_back(message, queue.message_queue.broker_name, EXPIRED_DELAY_LEVEL)
            except (MQClientError, MQBrokerError) as error:
                logger.warning("expired message not sent back %s: %s", _where(message), error)
                return
            logger.warning("handler ran too long, message sent back %s", _where(message))
            self._commit(queue, [message])

    async def _consume(self, request: ConsumeRequest) -> None:
        queue, messages = request.queue, request.messages
        if self._handler.rate.is_limited:
            await self._handler.rate.wait()
        if queue.is_dropped:
            return
        self._handler.rate.count(len(messages))
        context = ConsumeContext(
            self._handler.group, queue.message_queue, self._config.delay_level_when_next_consume
        )
        now_ms = self._clock()
        queue.start_messages(messages, now_ms)
        outcome = await self._handler.call(messages, context, now_ms)
        if queue.is_dropped:
            # Somebody else has the queue now and gets these again: an offset of ours would hide what he has.
            logger.info("result ignored, the queue is not ours any more %s", _where(messages[0]))
            return
        if outcome.is_success and context.ack_index is None:
            self._commit(queue, messages)
            return
        done, again = split_by_ack_index(messages, outcome, context.ack_index)
        if again and self._config.message_model is MessageModel.BROADCASTING:
            logger.warning("broadcast message failed and is dropped %s", _where(again[0]))
            done, again = done + again, []
        failed = []
        for message in again:
            if await self._give_back(queue, message, context.delay_level_when_next_consume):
                done.append(message)
            else:
                failed.append(message)
        self._consume_again_later(queue, failed)
        self._commit(queue, done)

    async def _give_back(self, queue: ProcessQueue, message: MessageRecord, delay_level: int) -> bool:
        try:
            await self._send_back(message, queue.message_queue.broker_name, delay_level)
        except (MQClientError, MQBrokerError) as error:
            logger.warning("not sent back, consumed again by us %s: %s", _where(message), error)
            return False
        return True

    def _consume_again_later(self, queue: ProcessQueue, messages: Sequence[MessageRecord]) -> None:
        """Neither broker took them: they stay cached with one more repetition and come again from here."""
        again = [replace(message, reconsume_times=message.reconsume_times + 1) for message in messages]
        again = [message for message in again if queue.replace_message(message)]
        if not again:
            return

        def submit() -> None:
            self._later.discard(timer)
            if not queue.is_dropped and not self._line.is_closing:
                self.submit(queue, again)

        timer = asyncio.get_running_loop().call_later(CONSUME_AGAIN_DELAY_MS / 1000, submit)
        self._later.add(timer)

    def _commit(self, queue: ProcessQueue, done: Sequence[MessageRecord]) -> None:
        offset = queue.remove_messages(done)
        if offset is not None and not queue.is_dropped:
            self._offset_store.update_offset(queue.message_queue, offset, increase_only=True)


def _where(message: MessageRecord) -> str:
    return f"topic={message.topic} queue_id={message.queue_id} offset={message.queue_offset}"
