"""Popping for a push consumer: one PopLoop task per queue that the broker assigned to be popped.

Source: DefaultMQPushConsumerImpl.popMessage. Nothing is stored here: the broker keeps who has which message until when.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brokerd.remoting.body.client import PopProcessQueueInfo, SubscriptionData
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.message.queue import MessageQueue
from consumers.client.client_instance import ClientInstance
from consumers.client.subscription import matches
from consumers.clock import Clock
from consumers.config import PushConsumerConfig
from consumers.consumer.pop.consume_pop import PopConsumeService, PopQueue
from consumers.consumer.pop.pop_result import PopResult, PopStatus, pop_request, pop_result
from consumers.consumer.pull_message import (
    BROKER_FLOW_CONTROL_DELAY_MS,
    FLOW_CONTROL_DELAY_MS,
    SUSPENDED_DELAY_MS,
)
from consumers.consumer.worker_line import cancel_all
from consumers.errors import MQBrokerError, MQClientError

logger = logging.getLogger(__name__)

# A broker that holds no poll (its clock is ahead of ours by more than the poll lasts) is not requested in a busy loop.
HELD_MIN_MS = 20


@dataclass(frozen=True, slots=True)
class PopContext:
    """What the pop loops of one consumer share."""

    group: str
    config: PushConsumerConfig
    client: ClientInstance
    clock: Clock
    service: PopConsumeService
    subscription: Callable[[str], SubscriptionData | None]
    is_suspended: Callable[[MessageQueue], bool]
    count_pulled: Callable[[str, int, int], None]  # topic, messages, round trip in ms


class PopLoop:
    """Pops one queue until it is dropped. The poll that runs then ends by itself: what it brings is ours."""

    def __init__(self, queue: PopQueue, context: PopContext) -> None:
        self.queue = queue
        self._context = context
        self._is_failing = False

    async def run(self) -> None:
        """Root of the task: whatever happens to one pop, the queue is popped again after a pause."""
        context = self._context
        while not self.queue.is_dropped:
            self.queue.last_pop_ms = context.clock()
            try:
                delay_ms = self._hold_ms()
                if delay_ms is None:
                    delay_ms = await self._step()
                    self._is_failing = False
            except (MQClientError, MQBrokerError) as error:
                delay_ms = self._delay_after_ms(error)
            except Exception:
                logger.exception("pop failed %r", self.queue)
                delay_ms = context.config.pull_delay_when_exception_ms
            if delay_ms:
                await asyncio.sleep(delay_ms / 1000)

    def _hold_ms(self) -> int | None:
        """How long the queue must not pop; None: pop."""
        if self._context.is_suspended(self.queue.message_queue):
            return SUSPENDED_DELAY_MS
        if self.queue.held > self._context.config.pop_threshold_messages:
            return FLOW_CONTROL_DELAY_MS
        return None

    async def _step(self) -> int:
        """Pop once; return how long to wait then, in ms."""
        context, message_queue = self._context, self.queue.message_queue
        subscription = context.subscription(message_queue.topic)
        if subscription is None:
            self.queue.is_dropped = True
            return 0
        addr = context.client.find_addr(message_queue.broker_name, only_this=True)
        began_ms = context.clock()
        request = pop_request(message_queue, context.group, subscription, context.config, began_ms)
        response = await context.client.remoting.invoke(addr, request, context.config.pull_timeout_ms)
        result = pop_result(response, message_queue.broker_name)
        took_ms = context.clock() - began_ms
        if result.status is PopStatus.FOUND:
            context.count_pulled(message_queue.topic, len(result.messages), took_ms)
            await self._give(result, subscription)
            return 0
        is_held = result.status is PopStatus.NOT_FOUND and took_ms >= HELD_MIN_MS
        return 0 if is_held else context.config.pull_delay_when_exception_ms

    async def _give(self, result: PopResult, subscription: SubscriptionData) -> None:
        """Give what the filter wants to the handler; the rest is done with (the broker compared hashes only)."""
        service = self._context.service
        wanted = [message for message in result.messages if matches(subscription, message.record)]
        service.submit(self.queue, wanted)
        others = [message for message in result.messages if not matches(subscription, message.record)]
        await asyncio.gather(*(service.acknowledge(self.queue, message) for message in others))

    def _delay_after_ms(self, error: MQClientError | MQBrokerError) -> int:
        if not self._is_failing:
            logger.info("pop failed, trying again %r: %s", self.queue, error)
        self._is_failing = True
        if isinstance(error, MQBrokerError) and error.code == ResponseCode.FLOW_CONTROL:
            return BROKER_FLOW_CONTROL_DELAY_MS
        return self._context.config.pull_delay_when_exception_ms


class Poppers:
    """The queues that are popped, and their loops. Changed by the rebalancer."""

    def __init__(self, context: PopContext) -> None:
        self._context = context
        self._loops: dict[PopQueue, asyncio.Task[None]] = {}

    @property
    def queues(self) -> list[MessageQueue]:
        return sorted(queue.message_queue for queue in self._loops if not queue.is_dropped)

    def assign(self, topic: str, wanted: Sequence[MessageQueue]) -> None:
        """Pop exactly these queues of the topic from now on."""
        present = {
            queue.message_queue: queue
            for queue in self._loops
            if queue.message_queue.topic == topic and not queue.is_dropped
        }
        for message_queue, queue in present.items():
            queue.is_dropped = message_queue not in wanted
        for message_queue in wanted:
            if message_queue not in present:
                self._begin(PopQueue(message_queue, self._context.clock()))
        if present.keys() != set(wanted):
            logger.info("popping group=%s topic=%s queues=%d", self._context.group, topic, len(wanted))

    def infos(self) -> dict[MessageQueue, PopProcessQueueInfo]:
        """For GET_CONSUMER_RUNNING_INFO (307)."""
        return {queue.message_queue: queue.info() for queue in self._loops if not queue.is_dropped}

    async def close(self) -> None:
        """End the loops; polls that brokers hold for us end with the connection, or bring what comes again."""
        for queue in self._loops:
            queue.is_dropped = True
        await cancel_all(list(self._loops.values()))

    def _begin(self, queue: PopQueue) -> None:
        self._context.service.start()
        task = asyncio.get_running_loop().create_task(PopLoop(queue, self._context).run())
        self._loops[queue] = task
        task.add_done_callback(lambda _: self._loops.pop(queue, None))
