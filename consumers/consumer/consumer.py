"""What push and pull consumers share: joining a group, reporting of themselves, leaving it.

Source: semantics reference 9.2, 9.10; DefaultMQPushConsumerImpl.java and DefaultLitePullConsumerImpl.java, which
repeat it.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

from brokerd.remoting.body.client import (
    ConsumerData,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
    SubscriptionData,
)
from brokerd.remoting.message.names import validate_group, validate_topic
from brokerd.remoting.message.queue import MessageQueue
from consumers.client.client_instance import ClientInstance, GroupMember
from consumers.client.namespace import Namespace
from consumers.client.subscription import ALL_TAGS, TAG, build_subscription
from consumers.client.trace_dispatcher import TraceDispatcher
from consumers.clock import Clock
from consumers.config import MessageModel, PullConsumerConfig, PushConsumerConfig
from consumers.consumer.consume_message import ConsumeStatisticsTable
from consumers.consumer.consume_trace import ConsumeTracer, create_tracer
from consumers.consumer.offset_store import LocalFileOffsetStore, OffsetStore, RemoteOffsetStore
from consumers.consumer.process_queue import ProcessQueueTable
from consumers.consumer.rebalance import Rebalancer
from consumers.consumer.worker_line import cancel_all
from consumers.errors import ClientClosed, MQBrokerError, MQClientError

logger = logging.getLogger(__name__)

VERSION_NAME = "V5_3_3"
Config = TypeVar("Config", PushConsumerConfig, PullConsumerConfig)


class Consumer(GroupMember, Generic[Config]):
    """A member of a consumer group: its connections, subscriptions, queues and offsets.

    Subclasses say what is done with the messages. Without `is_member` it only reads, and no broker counts it.
    """

    consume_type: ClassVar[str]  # ConsumeType.java
    # Made by the subclass, which owns the queues.
    rebalancer: Rebalancer

    def __init__(
        self,
        group: str,
        namesrv_addrs: str | Sequence[str],
        config: Config,
        client: ClientInstance | None,
        clock: Clock,
        *,
        is_member: bool = True,
        consume_timeout_ms: int | None = None,
    ) -> None:
        """`consume_timeout_ms`: calls of a handler that took so long are traced as timed out."""
        self._namespace = Namespace(config.client.namespace)
        self.group = self._namespace.wrap(group) if is_member else group
        validate_group(self.group)
        self.is_member = is_member
        self.config: Config = config
        self.client = client or ClientInstance(namesrv_addrs, config.client)
        self._owns_client = client is None
        self._clock = clock
        self._started_ms = 0
        self._is_closed = False
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._statistics = ConsumeStatisticsTable()
        self.table = ProcessQueueTable()
        self.offset_store = self._create_offset_store()
        self._tracer: ConsumeTracer | None = None
        if config.enable_msg_trace and is_member:
            self._tracer = create_tracer(self.client, group, config.trace_topic, clock, consume_timeout_ms)

    @property
    def traces(self) -> TraceDispatcher | None:
        """What sends the traces, with its counters; None without `enable_msg_trace`."""
        return self._tracer.dispatcher if self._tracer else None

    def __repr__(self) -> str:
        name, client_id = type(self).__name__, self.client.client_id
        return f"<{name} group={self.group} client_id={client_id} queues={len(self.table)}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(is_done=error is None)

    # Life

    async def start(self) -> None:
        """Join the group and begin to read. Needs no broker: one that is away is waited for.

        Raises MQBrokerError for a filter that is not a tag list and that the broker cannot read.
        """
        if self._is_closed or self._started_ms:
            raise ClientClosed("a consumer is started once")
        if isinstance(self.offset_store, LocalFileOffsetStore):
            self.offset_store.load()
        if self.is_member:
            self.client.register_member(self)
        self._started_ms = self._clock()
        self.client.start()
        if self.traces is not None:
            await self.traces.start()
        try:
            await self.client.refresh_routes()
            for subscription in self._subscriptions.values():
                await self._check_filter(subscription)
            if self.is_member:
                await self.client.send_heartbeats()
        except BaseException:  # A wrong filter, or cancelled: close will not be called.
            await self._close(is_done=False)
            raise
        self._start_loops()
        logger.info("consumer started group=%s client_id=%s", self.group, self.client.client_id)

    async def close(self) -> None:
        """Read no more, store offsets, leave the group (semantics 9.10)."""
        await self._close(is_done=True)

    async def _close(self, *, is_done: bool) -> None:
        """`is_done`: what the application was given last was worked on, too."""
        if self._is_closed:
            return
        self._is_closed = True
        await cancel_all(self._loops)
        await self._stop(is_done=is_done)
        for queue in list(self.table):
            self.table.remove(queue)
        if self.traces is not None:
            await self.traces.close()
        if self._started_ms and self.is_member:
            await self.client.unregister(consumer_group=self.group)
        if self._owns_client:
            await self.client.close()
        logger.info("consumer closed group=%s client_id=%s", self.group, self.client.client_id)

    @abstractmethod
    def _start_loops(self) -> None:
        """Begin to read: the group has this member."""

    @abstractmethod
    async def _stop(self, *, is_done: bool) -> None:
        """End reading and consuming, and store offsets. The queues are ours still."""

    def _start_loop(self, loop: Coroutine[object, object, None]) -> None:
        self._loops.append(asyncio.get_running_loop().create_task(loop))

    def _repeat(self, interval_ms: int, step: Callable[[], Awaitable[None]]) -> None:
        """Have `step` run every `interval_ms` until the consumer is closed."""
        self._start_loop(repeat(self.group, interval_ms, step))

    async def persist_offsets(self) -> None:
        """Store the progress of every queue that is ours."""
        await self.offset_store.persist(list(self.table))

    # Subscriptions

    def subscribe(self, topic: str, expression: str = ALL_TAGS, expression_type: str = TAG) -> None:
        """Add a topic or change its expression; takes effect with the next heartbeat and rebalance.

        `expression_type` is TAG (`*`, or tags joined by `||`) or SQL92, over the properties of messages. Raises
        ValueError for a topic or tags that RocketMQ would not take.
        """
        topic = self._namespace.wrap(topic)
        validate_topic(topic)
        self._put_subscription(build_subscription(topic, expression, self._clock(), expression_type))

    def unsubscribe(self, topic: str) -> None:
        """Give up the topic's queues with the next rebalance."""
        self._subscriptions.pop(self._namespace.wrap(topic), None)
        self._subscriptions_changed()

    def _put_subscription(self, subscription: SubscriptionData) -> None:
        self._subscriptions[subscription.topic] = subscription
        self._subscriptions_changed()

    def _subscriptions_changed(self) -> None:
        if self._started_ms:
            self.client.heartbeat_soon()
            self.rebalancer.rebalance_soon()

    async def _check_filter(self, subscription: SubscriptionData) -> None:
        if subscription.expression_type != TAG:
            await self.client.check_filter(self.group, subscription)

    # GroupMember: what the client instance calls

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=self.consume_type,
            message_model=str(self.config.message_model),
            consume_from_where=str(self.config.consume_from_where),
            subscription_data_set=[self._subscriptions[topic] for topic in sorted(self._subscriptions)],
            unit_mode=False,
        )

    def subscribed_topics(self) -> list[str]:
        return sorted(self._subscriptions)

    def rebalance_soon(self) -> None:
        self.rebalancer.rebalance_soon()

    def consumer_status(self, topic: str) -> dict[MessageQueue, int]:
        return self.offset_store.offsets(topic)

    def running_info(self) -> ConsumerRunningInfo:
        now_ms = self._clock()
        measured = self._statistics.table(now_ms)
        return ConsumerRunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": ";".join(self.client.name_servers.addrs),
                "PROP_CLIENT_VERSION": VERSION_NAME,
                "PROP_CONSUME_TYPE": self.consume_type,
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
                **self._settings(),
            },
            subscription_set=[self._subscriptions[topic] for topic in sorted(self._subscriptions)],
            mq_table=self._queue_infos(now_ms),
            status_table={topic: measured.get(topic, ConsumeStatus()) for topic in self.subscribed_topics()},
        )

    @abstractmethod
    def _settings(self) -> dict[str, str]:
        """What GET_CONSUMER_RUNNING_INFO's properties have beside those of every consumer."""

    def _queue_infos(self, now_ms: int) -> dict[MessageQueue, ProcessQueueInfo]:
        """Return the state of each owned queue; as in Java nothing consumed yet is -1, not offset 0."""
        infos = {}
        for queue in self.table.values():
            offset = self.offset_store.read_memory(queue.message_queue)
            infos[queue.message_queue] = queue.info(-1 if offset is None else offset, now_ms)
        return infos

    # Inside

    @property
    def _is_clustering(self) -> bool:
        return self.config.message_model is MessageModel.CLUSTERING

    def _count_pulled(self, topic: str, messages: int, took_ms: int) -> None:
        self._statistics.count_pulled(topic, messages, took_ms, self._clock())

    def _create_offset_store(self) -> OffsetStore:
        if self._is_clustering:
            return RemoteOffsetStore(self.group, self.client)
        return LocalFileOffsetStore(self.group, self.client.client_id, self.config.local_offset_store_dir)


async def repeat(group: str, interval_ms: int, step: Callable[[], Awaitable[None]]) -> None:
    """Run `step` every `interval_ms`. Root of a loop that must go on: its errors are logged."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            await step()
        except (MQClientError, MQBrokerError) as error:
            logger.warning("%s put off group=%s: %s", step.__name__, group, error)
        except Exception:
            logger.exception("%s failed group=%s", step.__name__, group)
