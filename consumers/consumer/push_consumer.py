"""PushConsumer: a member of a consumer group whose handler is called with each message.

Puts the parts together, starts and stops them; each part has its own module: rebalance (which queues),
pull_message (one loop per queue), consume_concurrently or consume_orderly (the handler), offset_store
(progress), client_instance (what is shared with others). Semantics reference 9
(DefaultMQPushConsumerImpl.java).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from brokerd.remoting.body.client import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from brokerd.remoting.message.names import retry_topic
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord
from consumers.client.client_instance import ClientInstance
from consumers.client.subscription import ALL_TAGS, build_subscription
from consumers.clock import Clock, system_clock
from consumers.config import PushConsumerConfig
from consumers.consumer.consume_concurrently import ConcurrentConsumeService
from consumers.consumer.consume_message import ConsumeContext, ConsumeReturnType, Handler, MessageHandler
from consumers.consumer.consume_orderly import OrderlyConsumeService
from consumers.consumer.consume_rate import ConsumeRate
from consumers.consumer.consumer import Consumer
from consumers.consumer.pop.consume_pop import PopConsumeService
from consumers.consumer.pop.pop_message import PopContext, Poppers
from consumers.consumer.process_queue import ProcessQueue
from consumers.consumer.pull_message import PullContext, PullLoop, prepare_message
from consumers.consumer.rebalance import RebalanceContext, Rebalancer
from consumers.consumer.send_back import retry_message, send_message_back, send_to_retry
from consumers.consumer.worker_line import cancel_all

logger = logging.getLogger(__name__)

# After an operator's reset (220), handlers that run may end before offsets are moved (Java sleeps 10 s in
# any case).
RESET_WAIT_MS = 10_000
# cleanExpireMsg looks once in a consume timeout; a minute is fine-grained enough for 15 of them.
CLEAN_EXPIRED_INTERVAL_MS = 60_000


class PushConsumer(Consumer[PushConsumerConfig]):
    """A member of a consumer group; it consumes until its `async with` block ends.

    `async with PushConsumer(group, addrs, handler, {"orders": "*"}) as consumer:`

    `subscriptions` is topic → expression (`*`, tags joined by `||`); `subscribe` takes SQL92 too. With `orderly`
    the handler gets one batch of a queue at a time. A handler is a coroutine function or a plain function (run in a
    thread): (messages, context) → ConsumeStatus.
    """

    consume_type = "CONSUME_PASSIVELY"

    def __init__(
        self,
        group: str,
        namesrv_addrs: str | Sequence[str],
        handler: Handler,
        subscriptions: Mapping[str, str] | None = None,
        *,
        orderly: bool = False,
        config: PushConsumerConfig | None = None,
        client: ClientInstance | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """`client` is shared and stays the caller's to close; without it the consumer has its own.

        Raises ValueError for a group, topic or expression that RocketMQ would not take.
        """
        config = config or PushConsumerConfig()
        super().__init__(
            group, namesrv_addrs, config, client, clock, consume_timeout_ms=config.consume_timeout_ms
        )
        self.orderly = orderly
        for topic, expression in (subscriptions or {}).items():
            self.subscribe(topic, expression)
        if self._is_clustering:
            self._put_subscription(build_subscription(retry_topic(self.group), ALL_TAGS, clock()))
        rate = ConsumeRate(self.config.consume_rate_max)
        self.handler = MessageHandler(handler, self.group, clock, self._tracer, rate, self._namespace)
        self._statistics = self.handler.statistics
        self.consume_service = self._create_consume_service()
        self.pop_service = PopConsumeService(self.handler, self.config, self.client, clock)
        self.poppers = self._create_poppers()
        self.rebalancer = self._create_rebalancer()
        self._pull_context = self._create_pull_context()
        self._pull_tasks: dict[ProcessQueue, asyncio.Task[None]] = {}
        self._is_suspended = False
        self._suspended_queues: set[MessageQueue] = set()

    # Consumer: how it lives

    def _start_loops(self) -> None:
        self.consume_service.start()
        self._start_loop(self.rebalancer.run())
        self._repeat(self.config.persist_consumer_offset_interval_ms, self.persist_offsets)
        if self.orderly and self._is_clustering:
            self._repeat(self.config.lock_interval_ms, self.rebalancer.lock_all)
        elif isinstance(self.consume_service, ConcurrentConsumeService):
            self._repeat(CLEAN_EXPIRED_INTERVAL_MS, self._clean_expired)
        self.rebalancer.rebalance_soon()

    async def _stop(self, *, is_done: bool) -> None:
        """Pull no more, let handlers end, store offsets, let locks go."""
        await cancel_all(self._pull_tasks.values())
        await self.poppers.close()
        await asyncio.gather(
            self.consume_service.close(self.config.await_termination_ms),
            self.pop_service.close(self.config.await_termination_ms),
        )
        await self.persist_offsets()
        if self.orderly and self._is_clustering:
            await self.rebalancer.unlock(list(self.table))

    # For the application

    def suspend(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull no more until `resume`, all or these queues; what is cached, or on its way, is still consumed."""
        if queues is None:
            self._is_suspended = True
        else:
            self._suspended_queues.update(map(self._namespace.wrap_queue, queues))

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Go on within a second. Without queues: with all, those that were suspended one by one too."""
        if queues is None:
            self._is_suspended = False
            self._suspended_queues.clear()
        else:
            self._suspended_queues.difference_update(map(self._namespace.wrap_queue, queues))
        self.rebalancer.rebalance_soon()

    def limit_rate(self, messages_per_s: float | None) -> None:
        """Give handlers at most so many messages a second from now on; None: as fast as they are.

        Raises ValueError where it is not above 0.
        """
        self.handler.rate.limit(messages_per_s)

    # GroupMember: what the client instance calls

    def broker_lost(self, broker_name: str) -> None:
        """Orderly: a restarted broker has lost our locks and gives them to the first member that requests them.

        So nothing more is consumed until they are ours again, which the next round of the rebalancer sees to.
        """
        if self.orderly and self._is_clustering:
            for queue in self.table.values():
                if queue.message_queue.broker_name == broker_name:
                    queue.lock_ms = None
            self.rebalancer.rebalance_soon()

    async def reset_offset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """220: 1. drop the queues, so that nothing that still runs commits.

        2. Wait for what runs. 3. Move and store the offsets. 4. Rebalance begins the queues again, from there
        (resetOffset, semantics 6.1).
        """
        dropped = [queue for queue in self.table.values() if queue.message_queue in offsets]
        for queue in dropped:
            queue.drop()
        if isinstance(self.consume_service, OrderlyConsumeService):
            for queue in dropped:
                await self.consume_service.wait_idle(queue, RESET_WAIT_MS)
        moved = [queue.message_queue for queue in dropped]
        for message_queue in moved:
            self.offset_store.update_offset(message_queue, offsets[message_queue], increase_only=False)
        await self.offset_store.persist(moved)
        for queue in dropped:
            queue.clear()
            self._remove(queue)
        logger.info("offsets reset group=%s topic=%s queues=%d", self.group, topic, len(moved))
        self.rebalancer.rebalance_soon()

    def running_info(self) -> ConsumerRunningInfo:
        info = super().running_info()
        info.mq_pop_table = {queue: one.to_value() for queue, one in self.poppers.infos().items()}
        return info

    async def consume_directly(
        self, message: MessageRecord, broker_name: str
    ) -> ConsumeMessageDirectlyResult:
        """309: call the handler once; nothing is committed and nothing sent back."""
        prepared = prepare_message(message, self.group)
        context = ConsumeContext(self.group, MessageQueue(prepared.topic, broker_name, prepared.queue_id))
        outcome = await self.handler.call([prepared], context, self._clock(), is_delivery=False)
        return ConsumeMessageDirectlyResult(
            order=self.orderly,
            auto_commit=True,
            consume_result=DIRECT_RESULTS[outcome.return_type],
            remark=outcome.error or None,
            spent_time_mills=outcome.elapsed_ms,
        )

    # QueueOwner: what the rebalancer calls

    def begin(self, queue: ProcessQueue, next_offset: int) -> None:
        loop = PullLoop(queue, next_offset, self._pull_context)
        task = asyncio.get_running_loop().create_task(loop.run())
        self._pull_tasks[queue] = task
        task.add_done_callback(lambda _: self._pull_tasks.pop(queue, None))

    async def wait_idle(self, queue: ProcessQueue, wait_ms: int) -> bool:
        assert isinstance(self.consume_service, OrderlyConsumeService)
        return await self.consume_service.wait_idle(queue, wait_ms)

    def queues_changed(self, topic: str) -> None:
        """End the pulls of queues that are gone.

        Without it a long poll would hold on for 15 s for nothing.
        """
        for queue, task in list(self._pull_tasks.items()):
            if queue.is_dropped:
                task.cancel()

    # Inside

    def _settings(self) -> dict[str, str]:
        """Return the settings under their names in Java (MixAll.object2Properties of DefaultMQPushConsumer)."""
        config = self.config
        return {
            "PROP_THREADPOOL_CORE_SIZE": str(config.consume_concurrency),
            "PROP_CONSUMEORDERLY": "true" if self.orderly else "false",
            "consumerGroup": self.group,
            "messageModel": str(config.message_model),
            "consumeFromWhere": str(config.consume_from_where),
            "allocateMessageQueueStrategy": config.allocate_strategy,
            "consumeThreadMin": str(config.consume_concurrency),
            "consumeThreadMax": str(config.consume_concurrency),
            "consumeMessageBatchMaxSize": str(config.consume_message_batch_max_size),
            "pullBatchSize": str(config.pull_batch_size),
            "pullInterval": str(config.pull_interval_ms),
            "pullThresholdForQueue": str(config.pull_threshold_messages),
            "pullThresholdSizeForQueue": str(config.pull_threshold_bytes // (1024 * 1024)),
            "pullThresholdForTopic": str(config.topic_threshold_messages or -1),
            "pullThresholdSizeForTopic": str((config.topic_threshold_bytes or 0) // (1024 * 1024) or -1),
            "consumeConcurrentlyMaxSpan": str(config.consume_concurrently_max_span),
            "maxReconsumeTimes": str(config.max_reconsume_times),
            "suspendCurrentQueueTimeMillis": str(config.suspend_current_queue_time_ms),
            "popInvisibleTime": str(config.pop_invisible_time_ms),
            "popBatchNums": str(config.pop_batch_nums),
            "popThresholdForQueue": str(config.pop_threshold_messages),
            "consumeTimeout": str(config.consume_timeout_ms // 60_000),
            "pause": "true" if self._is_suspended else "false",
            "clientRebalance": "false" if self.rebalancer.is_server_side else "true",
        }

    def _create_consume_service(self) -> ConcurrentConsumeService | OrderlyConsumeService:
        if self.orderly:
            return OrderlyConsumeService(
                self.handler, self.config, self.offset_store, self._lock, self._give_up_message, self._clock
            )
        return ConcurrentConsumeService(
            self.handler, self.config, self.offset_store, self._send_back, self._clock
        )

    def _create_rebalancer(self) -> Rebalancer:
        context = RebalanceContext(
            group=self.group,
            config=self.config,
            client=self.client,
            offset_store=self.offset_store,
            table=self.table,
            orderly=self.orderly,
            owner=self,
            topics=self.subscribed_topics,
            clock=self._clock,
            pop=self.poppers.assign,
        )
        return Rebalancer(context)

    def _create_poppers(self) -> Poppers:
        context = PopContext(
            group=self.group,
            config=self.config,
            client=self.client,
            clock=self._clock,
            service=self.pop_service,
            subscription=self._subscriptions.get,
            is_suspended=self._is_suspended_queue,
            count_pulled=self._count_pulled,
        )
        return Poppers(context)

    def _create_pull_context(self) -> PullContext:
        return PullContext(
            group=self.group,
            config=self.config,
            client=self.client,
            offset_store=self.offset_store,
            orderly=self.orderly,
            clock=self._clock,
            subscription=self._subscriptions.get,
            is_suspended=self._is_suspended_queue,
            pass_over=self._pass_over,
            submit=self.consume_service.submit,
            correct_offset=self._correct_offset,
            count_pulled=self._count_pulled,
            queues_of_topic=self.table.count_of_topic,
        )

    def _is_suspended_queue(self, queue: MessageQueue) -> bool:
        return self._is_suspended or queue in self._suspended_queues

    def _pass_over(self, message_queue: MessageQueue, offset: int) -> None:
        self.offset_store.update_offset(message_queue, offset, increase_only=True)

    async def _correct_offset(self, message_queue: MessageQueue, offset: int) -> None:
        """OFFSET_ILLEGAL (9.6): begin the queue again from the broker's offset.

        It is given up with that offset stored.
        """
        queue = self.table.get(message_queue)
        if queue is None:
            return
        queue.drop()
        self.offset_store.update_offset(message_queue, offset, increase_only=False)
        await self.offset_store.persist([message_queue])
        self.table.remove(message_queue)
        self.offset_store.remove_offset(message_queue)
        self.rebalancer.rebalance_soon()

    def _remove(self, queue: ProcessQueue) -> None:
        self.table.remove(queue.message_queue)
        self.offset_store.remove_offset(queue.message_queue)
        task = self._pull_tasks.get(queue)
        if task is not None:
            task.cancel()

    async def _lock(self, queue: ProcessQueue) -> bool:
        return await self.rebalancer.lock(queue)

    async def _send_back(self, message: MessageRecord, broker_name: str, delay_level: int) -> None:
        await send_message_back(
            self.client,
            message,
            broker_name,
            self.group,
            delay_level=delay_level,
            max_reconsume_times=self.config.max_reconsume_times,
        )

    async def _give_up_message(self, message: MessageRecord) -> None:
        """Send an orderly message that failed too often to the retry topic.

        There the broker makes a dead letter of it.
        """
        limit = self.config.max_reconsume_times_for(orderly=True)
        await send_to_retry(self.client, retry_message(message, self.group, 0, limit))

    async def _clean_expired(self) -> None:
        assert isinstance(self.consume_service, ConcurrentConsumeService)
        for queue in self.table.values():
            await self.consume_service.clean_expired(queue)


DIRECT_RESULTS = {
    ConsumeReturnType.SUCCESS: "CR_SUCCESS",
    ConsumeReturnType.FAILED: "CR_LATER",
    ConsumeReturnType.RETURNNULL: "CR_RETURN_NULL",
    ConsumeReturnType.EXCEPTION: "CR_THROW_EXCEPTION",
}
