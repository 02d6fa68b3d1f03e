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
from types import TracebackType
from typing import Self

from brokerd.remoting.body.client import (
    ConsumeMessageDirectlyResult,
    ConsumerData,
    ConsumerRunningInfo,
    SubscriptionData,
)
from brokerd.remoting.message.names import retry_topic, validate_group, validate_topic
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord
from consumers.client.client_instance import ClientInstance
from consumers.client.subscription import ALL_TAGS, TAG, build_subscription
from consumers.client.trace_dispatcher import TraceDispatcher
from consumers.clock import Clock, system_clock
from consumers.config import MessageModel, PushConsumerConfig
from consumers.consumer.consume_concurrently import ConcurrentConsumeService
from consumers.consumer.consume_message import ConsumeContext, ConsumeReturnType, Handler, MessageHandler
from consumers.consumer.consume_orderly import OrderlyConsumeService
from consumers.consumer.consume_rate import ConsumeRate
from consumers.consumer.consume_trace import ConsumeTracer, create_tracer
from consumers.consumer.member import cancel_all, queue_infos, repeat, running_info
from consumers.consumer.offset_store import LocalFileOffsetStore, OffsetStore, RemoteOffsetStore
from consumers.consumer.pop.consume_pop import PopConsumeService
from consumers.consumer.pop.pop_message import PopContext, Poppers
from consumers.consumer.process_queue import ProcessQueue, ProcessQueueTable
from consumers.consumer.pull_message import PullContext, PullLoop, prepare_message
from consumers.consumer.rebalance import RebalanceContext, Rebalancer
from consumers.consumer.send_back import retry_message, send_message_back, send_to_retry
from consumers.errors import ClientClosed

logger = logging.getLogger(__name__)

# After an operator's reset (220), handlers that run may end before offsets are moved (Java sleeps 10 s in
# any case).
RESET_WAIT_MS = 10_000
# cleanExpireMsg looks once in a consume timeout; a minute is fine-grained enough for 15 of them.
CLEAN_EXPIRED_INTERVAL_MS = 60_000


class PushConsumer:
    """A member of a consumer group; it consumes until its `async with` block ends.

    `async with PushConsumer(group, addrs, handler, {"orders": "*"}) as consumer:`

    `subscriptions` is topic → expression (`*`, tags joined by `||`). With `orderly` the handler gets one
    batch of a queue at a time. A handler is a coroutine function or a plain function (run in a thread):
    (messages, context) → ConsumeStatus.
    """

    def __init__(
        self,
        group: str,
        namesrv_addrs: str | Sequence[str],
        handler: Handler,
        subscriptions: Mapping[str, str],
        *,
        orderly: bool = False,
        config: PushConsumerConfig | None = None,
        client: ClientInstance | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """`client` is shared and stays the caller's to close; without it the consumer has its own.

        Raises ValueError for a group, topic or expression that RocketMQ would not take.
        """
        validate_group(group)
        self.group = group
        self.config = config or PushConsumerConfig()
        self.orderly = orderly
        self.client = client or ClientInstance(namesrv_addrs, self.config.client)
        self._owns_client = client is None
        self._clock = clock
        self._started_ms = 0
        self._subscriptions: dict[str, SubscriptionData] = {}
        for topic, expression in subscriptions.items():
            self.subscribe(topic, expression)
        if self._is_clustering:
            self._put_subscription(build_subscription(retry_topic(group), ALL_TAGS, clock()))
        self.table = ProcessQueueTable()
        self._tracer: ConsumeTracer | None = None
        if self.config.enable_msg_trace:
            self._tracer = create_tracer(
                self.client, group, self.config.trace_topic, clock, self.config.consume_timeout_ms
            )
        rate = ConsumeRate(self.config.consume_rate_max)
        self.handler = MessageHandler(handler, group, clock, self._tracer, rate)
        self.offset_store = self._create_offset_store()
        self.consume_service = self._create_consume_service()
        self.pop_service = PopConsumeService(self.handler, self.config, self.client, clock)
        self.poppers = self._create_poppers()
        self.rebalancer = self._create_rebalancer()
        self._pull_context = self._create_pull_context()
        self._pull_tasks: dict[ProcessQueue, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._is_suspended = False
        self._suspended_queues: set[MessageQueue] = set()
        self._is_closed = False

    @property
    def traces(self) -> TraceDispatcher | None:
        """What sends the traces, with its counters; None without `enable_msg_trace`."""
        return self._tracer.dispatcher if self._tracer else None

    def __repr__(self) -> str:
        return f"<PushConsumer group={self.group} client_id={self.client.client_id} queues={len(self.table)}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Life

    async def start(self) -> None:
        """Begin to consume (order of semantics 9.2). Needs no broker: one that is away is waited for.

        Raises MQBrokerError for a filter that is not a tag list and that the broker cannot read.
        """
        if self._is_closed or self._loops:
            raise ClientClosed("a consumer is started once")
        if isinstance(self.offset_store, LocalFileOffsetStore):
            self.offset_store.load()
        self.client.register_member(self)
        self._started_ms = self._clock()
        self.consume_service.start()
        self.client.start()
        if self.traces is not None:
            await self.traces.start()
        try:
            await self.client.refresh_routes()
            for subscription in self._subscriptions.values():
                if subscription.expression_type != TAG:
                    await self.client.check_filter(self.group, subscription)
            await self.client.send_heartbeats()
        except BaseException:  # A wrong filter, or cancelled: close will not be called.
            await self.close()
            raise
        self._start_loops()
        self.rebalancer.rebalance_soon()
        logger.info("consumer started group=%s client_id=%s", self.group, self.client.client_id)

    def _start_loops(self) -> None:
        loop = asyncio.get_running_loop()
        self._loops = [
            loop.create_task(self.rebalancer.run()),
            loop.create_task(
                repeat(self.group, self.config.persist_consumer_offset_interval_ms, self.persist_offsets)
            ),
        ]
        if self.orderly and self._is_clustering:
            self._loops.append(
                loop.create_task(repeat(self.group, self.config.lock_interval_ms, self.rebalancer.lock_all))
            )
        elif isinstance(self.consume_service, ConcurrentConsumeService):
            self._loops.append(
                loop.create_task(repeat(self.group, CLEAN_EXPIRED_INTERVAL_MS, self._clean_expired))
            )

    async def close(self) -> None:
        """Pull no more, let handlers end, store offsets, let locks go, leave the group (semantics 9.10)."""
        if self._is_closed:
            return
        self._is_closed = True
        await cancel_all(self._loops)
        await cancel_all(self._pull_tasks.values())
        await self.poppers.close()
        await asyncio.gather(
            self.consume_service.close(self.config.await_termination_ms),
            self.pop_service.close(self.config.await_termination_ms),
        )
        await self.persist_offsets()
        if self.orderly and self._is_clustering:
            await self.rebalancer.unlock(list(self.table))
        for queue in list(self.table):
            self.table.remove(queue)
        if self.traces is not None:
            await self.traces.close()
        if self._started_ms:
            await self.client.unregister(consumer_group=self.group)
        if self._owns_client:
            await self.client.close()
        logger.info("consumer closed group=%s client_id=%s", self.group, self.client.client_id)

    # For the application

    def subscribe(self, topic: str, expression: str = ALL_TAGS, expression_type: str = TAG) -> None:
        """Add a topic or change its expression; takes effect with the next heartbeat and rebalance."""
        validate_topic(topic)
        self._put_subscription(build_subscription(topic, expression, self._clock(), expression_type))

    def unsubscribe(self, topic: str) -> None:
        """Give up the topic's queues with the next rebalance."""
        self._subscriptions.pop(topic, None)
        self._subscriptions_changed()

    def suspend(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull no more until `resume`, all or these queues; what is cached, or on its way, is still consumed."""
        if queues is None:
            self._is_suspended = True
        else:
            self._suspended_queues.update(queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Go on within a second. Without queues: with all, those that were suspended one by one too."""
        if queues is None:
            self._is_suspended = False
            self._suspended_queues.clear()
        else:
            self._suspended_queues.difference_update(queues)
        self.rebalancer.rebalance_soon()

    def limit_rate(self, messages_per_s: float | None) -> None:
        """Give handlers at most so many messages a second from now on; None: as fast as they are.

        Raises ValueError where it is not above 0.
        """
        self.handler.rate.limit(messages_per_s)

    async def persist_offsets(self) -> None:
        """Store the progress of every queue that is ours."""
        await self.offset_store.persist(list(self.table))

    # GroupMember: what the client instance calls

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_PASSIVELY",
            message_model=str(self.config.message_model),
            consume_from_where=str(self.config.consume_from_where),
            subscription_data_set=[self._subscriptions[topic] for topic in sorted(self._subscriptions)],
            unit_mode=False,
        )

    def subscribed_topics(self) -> list[str]:
        return sorted(self._subscriptions)

    def rebalance_soon(self) -> None:
        self.rebalancer.rebalance_soon()

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

    def consumer_status(self, topic: str) -> dict[MessageQueue, int]:
        return self.offset_store.offsets(topic)

    def running_info(self) -> ConsumerRunningInfo:
        at_ms = self._clock()
        properties = {
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_THREADPOOL_CORE_SIZE": str(self.config.consume_concurrency),
            "PROP_CONSUMEORDERLY": "true" if self.orderly else "false",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            **self._settings(),
        }
        queues = queue_infos(self.table, self.offset_store, at_ms)
        statistics = self.handler.statistics
        info = running_info(self.client, properties, self._subscriptions, queues, statistics, at_ms)
        info.mq_pop_table = {queue: one.to_value() for queue, one in self.poppers.infos().items()}
        return info

    async def consume_directly(
        self, message: MessageRecord, broker_name: str
    ) -> ConsumeMessageDirectlyResult:
        """309: call the handler once; nothing is committed and nothing sent back."""
        prepared = prepare_message(message, self.group)
        context = ConsumeContext(self.group, MessageQueue(prepared.topic, broker_name, prepared.queue_id))
        outcome = await self.handler.call_untraced([prepared], context)
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

    @property
    def _is_clustering(self) -> bool:
        return self.config.message_model is MessageModel.CLUSTERING

    def _settings(self) -> dict[str, str]:
        """Return the settings under their names in Java (MixAll.object2Properties of DefaultMQPushConsumer)."""
        config = self.config
        return {
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

    def _put_subscription(self, subscription: SubscriptionData) -> None:
        self._subscriptions[subscription.topic] = subscription
        self._subscriptions_changed()

    def _subscriptions_changed(self) -> None:
        if self._started_ms:
            self.client.heartbeat_soon()
            self.rebalancer.rebalance_soon()

    def _create_offset_store(self) -> OffsetStore:
        if self._is_clustering:
            return RemoteOffsetStore(self.group, self.client)
        return LocalFileOffsetStore(self.group, self.client.client_id, self.config.local_offset_store_dir)

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

    def _count_pulled(self, topic: str, messages: int, took_ms: int) -> None:
        self.handler.statistics.count_pulled(topic, messages, took_ms, self._clock())

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
