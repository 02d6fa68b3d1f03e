"""PullConsumer: read queues at the application's own pace (DefaultLitePullConsumerImpl.java).

Queues are chosen (`assign`) or shared with the other members of the group (`subscribe`). Each is read ahead by a
PullLoop, as a push consumer's; `poll` gives what is there. A queue has a position, behind the last message that `poll`
returned, and a committed offset, where the group goes on after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from brokerd.remoting.body.client import (
    ConsumeMessageDirectlyResult,
)
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord
from consumers.client.client_instance import ClientInstance
from consumers.client.queue_offsets import max_offset, min_offset, offset_at
from consumers.client.route import subscribe_queues
from consumers.client.subscription import ALL_TAGS, TAG, build_subscription
from consumers.clock import Clock, system_clock
from consumers.config import InvalidClientConfig, PullConsumerConfig
from consumers.consumer.consumer import Consumer
from consumers.consumer.process_queue import ProcessQueue
from consumers.consumer.pull_message import PullContext, PullLoop
from consumers.consumer.rebalance import RebalanceContext, Rebalancer
from consumers.consumer.worker_line import cancel_all
from consumers.errors import ClientClosed, MQClientError

logger = logging.getLogger(__name__)

# Exists on every broker, and no member of it is ever online: what reads without a group reads as this one.
NO_GROUP = "TOOLS_CONSUMER"


class NotAssigned(MQClientError, LookupError):
    """The queue is not, or no longer, one of this consumer's."""

    def __init__(self, queue: MessageQueue) -> None:
        super().__init__(
            f"queue {queue.queue_id} of topic {queue.topic} on broker {queue.broker_name} is not assigned"
        )
        self.queue = queue


class PullConsumer(Consumer[PullConsumerConfig]):
    """`async with PullConsumer(group, addrs, {"orders": "*"}) as consumer: async for message in consumer: …`.

    Without subscriptions queues are given by `assign`. With group None nothing is committed and no broker counts it as
    a member: it only reads, from `consume_from_where` on. With `auto_commit` (the default) a message is committed once
    the next call of `poll` shows that it is done with; when the block ends without an exception, so are the last ones.
    """

    consume_type = "CONSUME_ACTIVELY"

    def __init__(
        self,
        group: str | None,
        namesrv_addrs: str | Sequence[str],
        subscriptions: Mapping[str, str] | None = None,
        *,
        config: PullConsumerConfig | None = None,
        client: ClientInstance | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """`subscriptions` is topic → `*` or tags joined by `||`. `client` is shared and stays the caller's to close.

        Raises ValueError for a group, topic or expression that RocketMQ would not take.
        """
        super().__init__(
            NO_GROUP if group is None else group,
            namesrv_addrs,
            config or PullConsumerConfig(),
            client,
            clock,
            is_member=group is not None,
        )
        self._is_sharing = False  # queues come by subscribe, and not by assign
        self._is_rebalancing = False
        self.rebalancer = self._create_rebalancer()
        self._pull_context = self._create_pull_context()
        self._pulls: dict[MessageQueue, tuple[PullLoop, asyncio.Task[None]]] = {}
        self._positions: dict[MessageQueue, int] = {}
        self._moved: set[MessageQueue] = set()  # positions that auto-commit has not taken over yet
        self._fresh: dict[MessageQueue, None] = {}  # queues with messages, the next to be taken from first
        self._paused: set[MessageQueue] = set()
        self._arrived = asyncio.Event()
        for topic, expression in (subscriptions or {}).items():
            self.subscribe(topic, expression)

    # Consumer: how it lives

    def _start_loops(self) -> None:
        if self.config.auto_commit and self.is_member:
            self._repeat(self.config.auto_commit_interval_ms, self.persist_offsets)
        if self._is_sharing:
            self._start_rebalancing()

    async def _stop(self, *, is_done: bool) -> None:
        """Commit what `poll` has returned (auto_commit). A waiting `poll` raises ClientClosed."""
        self._arrived.set()
        await cancel_all([task for _, task in self._pulls.values()])
        if self.config.auto_commit and self.is_member:
            if is_done:
                self._take_over_moved()
            await self.persist_offsets()

    # Which queues

    def subscribe(self, topic: str, expression: str = ALL_TAGS, expression_type: str = TAG) -> None:
        """Share the topic's queues with the other members; takes effect with the next rebalance.

        Raises InvalidClientConfig beside `assign` and without a group.
        """
        if not self.is_member:
            raise InvalidClientConfig("sharing queues needs a group")
        if self.table and not self._is_sharing:
            raise InvalidClientConfig("a consumer has its queues by assign or by subscribe, not by both")
        self._is_sharing = True
        super().subscribe(topic, expression, expression_type)
        if self._started_ms:
            self._start_rebalancing()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the topic's readable queues, to choose from. Raises TopicNotExist, MQClientError."""
        return subscribe_queues(topic, await self.client.route(self._namespace.wrap(topic)))

    async def assign(
        self, queues: Iterable[MessageQueue], expression: str = ALL_TAGS, expression_type: str = TAG
    ) -> None:
        """Read exactly these queues, each from its committed offset, else from `consume_from_where`.

        Queues that were assigned before keep their position. The expression is the filter of their topics. Raises
        InvalidClientConfig beside `subscribe`, NotAssigned for a queue that its topic does not have, MQBrokerError,
        MQClientError.
        """
        self._check_open()
        if self._is_sharing:
            raise InvalidClientConfig("a consumer has its queues by assign or by subscribe, not by both")
        wanted = set(map(self._namespace.wrap_queue, queues))
        self._subscriptions = {
            topic: build_subscription(topic, expression, self._clock(), expression_type)
            for topic in {queue.topic for queue in wanted}
        }
        for subscription in self._subscriptions.values():
            known = subscribe_queues(subscription.topic, await self.client.route(subscription.topic))
            for queue in wanted:
                if queue.topic == subscription.topic and queue not in known:
                    raise NotAssigned(self._namespace.unwrap_queue(queue))
            await self._check_filter(subscription)
        if self.is_member:
            await self.client.send_heartbeats()  # brokers that make groups on demand make ours now
        await self._assign(wanted)

    async def _assign(self, wanted: set[MessageQueue]) -> None:
        dropped = [queue for queue in self.table if queue not in wanted]
        if self.config.auto_commit and self.is_member:
            await self.offset_store.persist(dropped)
        for queue in dropped:
            self._end(queue)
            self.offset_store.remove_offset(queue)
        added = sorted(wanted - set(self.table))
        first = self.rebalancer.start_offset if self.is_member else self.rebalancer.first_offset
        offsets = await asyncio.gather(*(first(queue) for queue in added))
        for queue, offset in zip(added, offsets, strict=True):
            self._read(queue, offset)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are this consumer's now."""
        return [self._namespace.unwrap_queue(queue) for queue in self.table]

    # Messages

    async def poll(
        self, timeout_ms: int | None = None, max_messages: int | None = None
    ) -> list[MessageRecord]:
        """Return the next messages, of each queue in order; after `timeout_ms` without any an empty list.

        The call commits (auto_commit) what calls before it returned. Bodies are decompressed. Raises ClientClosed.
        """
        self._check_open()
        if self.config.auto_commit and self.is_member:
            self._take_over_moved()
        limit = self.config.poll_batch_size if max_messages is None else max_messages
        wait_ms = self.config.poll_timeout_ms if timeout_ms is None else timeout_ms
        taken = self._take(limit)
        if taken:
            return taken
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                while not taken:
                    self._arrived.clear()
                    await self._arrived.wait()
                    self._check_open()
                    taken = self._take(limit)
        return taken

    async def __aiter__(self) -> AsyncIterator[MessageRecord]:
        """One message after the other, until the consumer is closed; each is done with when the next is wanted."""
        while True:
            try:
                messages = await self.poll(max_messages=1)
            except ClientClosed:
                return
            for message in messages:
                yield message

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return no messages of these queues until `resume`. Other queues of the topic go on."""
        for queue in map(self._namespace.wrap_queue, queues):
            self._paused.add(queue)
            self._fresh.pop(queue, None)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on with these queues where they were paused."""
        for queue in map(self._namespace.wrap_queue, queues):
            self._paused.discard(queue)
            process_queue, pull = self.table.get(queue), self._pulls.get(queue)
            if process_queue is None or pull is None:
                continue
            self._offer(queue, process_queue)
            # Its loop sleeps for a second at a time.
            self._start_pull(process_queue, pull[0].next_offset)

    @property
    def paused(self) -> list[MessageQueue]:
        return sorted(map(self._namespace.unwrap_queue, self._paused))

    # Offsets

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message that `poll` would give. Raises NotAssigned."""
        return self._positions[self._assigned(queue)]

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from `offset`. Raises as `seek_to_begin`, and ValueError for an offset that is not stored."""
        queue = self._namespace.wrap_queue(queue)
        low, high = await min_offset(self.client, queue), await max_offset(self.client, queue)
        if not low <= offset <= high:
            raise ValueError(f"offset {offset} is not stored: the queue has {low} to {high}")
        self._move(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on from the first message that is stored. Raises NotAssigned, MQBrokerError, MQClientError."""
        queue = self._namespace.wrap_queue(queue)
        self._move(queue, await min_offset(self.client, queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with messages that are stored from now on. Raises as `seek_to_begin`."""
        queue = self._namespace.wrap_queue(queue)
        self._move(queue, await max_offset(self.client, queue))

    async def seek_to_time(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Go on from the first message stored at a Unix time or later. Raises as `seek_to_begin`."""
        queue = self._namespace.wrap_queue(queue)
        self._move(queue, await offset_at(self.client, queue, timestamp_ms))

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store where the group goes on: these offsets, or all that `poll` has returned; ends when brokers have it.

        Raises NotAssigned for a queue of another member, InvalidClientConfig without a group, MQBrokerError,
        MQClientError; queues before the one that failed are committed then.
        """
        if not self.is_member:
            raise InvalidClientConfig("a consumer without a group commits nothing")
        if offsets is None:
            wanted = {queue: self._positions[queue] for queue in self.table}
        else:
            wanted = {self._assigned(queue): offset for queue, offset in offsets.items()}
        for queue, offset in wanted.items():
            self.offset_store.update_offset(queue, offset, increase_only=False)
            if self._is_clustering:
                await self.client.commit_consumer_offset(self.group, queue, offset)
        if not self._is_clustering:
            await self.offset_store.persist(wanted)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's stored offset, None without one (0 from brokers of 4.9).

        Raises MQBrokerError, MQClientError.
        """
        queue = self._namespace.wrap_queue(queue)
        if self._is_clustering:
            return await self.client.query_consumer_offset(self.group, queue, or_zero=False)
        return await self.offset_store.read_store(queue)

    async def offsets_for_times(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return for each queue the first offset stored at a Unix time or later. Raises as `committed`."""
        stored = self._namespace.wrap_queue
        found = [offset_at(self.client, stored(queue), time_ms) for queue, time_ms in times_ms.items()]
        return dict(zip(times_ms, await asyncio.gather(*found), strict=True))

    async def begin_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the first stored offset of each queue. Raises as `committed`."""
        found = [min_offset(self.client, self._namespace.wrap_queue(queue)) for queue in queues]
        return dict(zip(queues, await asyncio.gather(*found), strict=True))

    async def end_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the offset that the next message of each queue will get. Raises as `committed`."""
        found = [max_offset(self.client, self._namespace.wrap_queue(queue)) for queue in queues]
        return dict(zip(queues, await asyncio.gather(*found), strict=True))

    # GroupMember: what the client instance calls

    def broker_lost(self, broker_name: str) -> None:
        """Pulls connect again; a broker keeps nothing else of a pull consumer."""

    async def reset_offset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """220: go on from there, and store that."""
        moved = [queue for queue in self.table if queue in offsets]
        for queue in moved:
            self.offset_store.update_offset(queue, offsets[queue], increase_only=False)
            self._move(queue, offsets[queue])
        await self.offset_store.persist(moved)
        logger.info("offsets reset group=%s topic=%s queues=%d", self.group, topic, len(moved))

    async def consume_directly(
        self, message: MessageRecord, broker_name: str
    ) -> ConsumeMessageDirectlyResult:
        """309 needs a handler."""
        return ConsumeMessageDirectlyResult(
            order=False,
            auto_commit=self.config.auto_commit,
            consume_result="CR_THROW_EXCEPTION",
            remark="this client pulls: it has no handler to give a message to",
            spent_time_mills=0,
        )

    # QueueOwner: what the rebalancer calls

    def begin(self, queue: ProcessQueue, next_offset: int) -> None:
        self._positions[queue.message_queue] = next_offset
        self._start_pull(queue, next_offset)

    async def wait_idle(self, queue: ProcessQueue, wait_ms: int) -> bool:
        return True  # only orderly consumers have batches to wait for

    def queues_changed(self, topic: str) -> None:
        """After a rebalance: nothing is left of queues that other members have now."""
        for queue in [queue for queue in self._pulls if self.table.get(queue) is None]:
            self._end(queue)

    # Inside

    def _check_open(self) -> None:
        if self._is_closed or not self._started_ms:
            raise ClientClosed("the consumer is not open")

    def _settings(self) -> dict[str, str]:
        """As a push consumer's, by the names of DefaultLitePullConsumer."""
        config = self.config
        return {
            "PROP_CONSUMEORDERLY": "false",
            "consumerGroup": self.group,
            "messageModel": str(config.message_model),
            "consumeFromWhere": str(config.consume_from_where),
            "allocateMessageQueueStrategy": config.allocate_strategy,
            "autoCommit": "true" if config.auto_commit else "false",
            "autoCommitIntervalMillis": str(config.auto_commit_interval_ms),
            "pollTimeoutMillis": str(config.poll_timeout_ms),
            "pullBatchSize": str(config.pull_batch_size),
            "pullThresholdForQueue": str(config.pull_threshold_messages),
            "pullThresholdSizeForQueue": str(config.pull_threshold_bytes // (1024 * 1024)),
            "brokerSuspendMaxTimeMillis": str(config.broker_suspend_max_ms),
        }

    def _assigned(self, queue: MessageQueue) -> MessageQueue:
        """Return the brokers' name of a queue of ours. Raises NotAssigned."""
        stored = self._namespace.wrap_queue(queue)
        if self.table.get(stored) is None:
            raise NotAssigned(self._namespace.unwrap_queue(queue))
        return stored

    def _start_rebalancing(self) -> None:
        if not self._is_rebalancing:
            self._is_rebalancing = True
            self._start_loop(self.rebalancer.run())
        self.rebalancer.rebalance_soon()

    def _start_pull(self, queue: ProcessQueue, next_offset: int) -> None:
        before = self._pulls.pop(queue.message_queue, None)
        if before is not None:
            before[1].cancel()
        loop = PullLoop(queue, next_offset, self._pull_context)
        self._pulls[queue.message_queue] = loop, asyncio.get_running_loop().create_task(loop.run())

    def _take(self, limit: int) -> list[MessageRecord]:
        """Take up to `limit` messages, queue after queue; the one that was taken from last comes last next time."""
        taken: list[MessageRecord] = []
        now_ms = self._clock()
        while self._fresh and len(taken) < limit:
            queue = next(iter(self._fresh))
            del self._fresh[queue]
            process_queue = self.table.get(queue)
            if process_queue is None:
                continue
            popped = process_queue.pop_messages(limit - len(taken), now_ms)
            if popped:
                taken += popped
                # Behind the last of the cached messages the filter may have left others out.
                is_empty = not process_queue.cached_count
                next_offset = self._pulls[queue][0].next_offset if is_empty else popped[-1].queue_offset + 1
                self._pass_over(queue, next_offset)
            self._offer(queue, process_queue)
        if taken and self._tracer is not None:
            self._tracer.taken(taken, now_ms)
        return [self._namespace.unwrap_record(message) for message in taken] if self._namespace else taken

    def _offer(self, queue: MessageQueue, process_queue: ProcessQueue) -> None:
        """Let `poll` take from the queue, if there is something and it is not paused."""
        if process_queue.cached_count and queue not in self._paused:
            self._fresh[queue] = None
            self._arrived.set()

    def _submit(self, queue: ProcessQueue, messages: list[MessageRecord]) -> None:
        self._offer(queue.message_queue, queue)

    def _pass_over(self, queue: MessageQueue, offset: int) -> None:
        self._positions[queue] = offset
        self._moved.add(queue)

    async def _correct_offset(self, queue: MessageQueue, offset: int) -> None:
        """OFFSET_ILLEGAL: what is cached is given still, then the queue goes on from the broker's offset."""
        process_queue, pull = self.table.get(queue), self._pulls.get(queue)
        if process_queue is None or pull is None:
            return
        pull[0].next_offset = offset
        if not process_queue.cached_count:
            self._pass_over(queue, offset)

    def _take_over_moved(self) -> None:
        """Auto-commit: everything up to the positions is done with."""
        for queue in self._moved:
            if self.table.get(queue) is not None:
                self.offset_store.update_offset(queue, self._positions[queue], increase_only=False)
        self._moved.clear()

    def _move(self, queue: MessageQueue, offset: int) -> None:
        """Drop what is cached, and read on from `offset`."""
        self._end(self._assigned(queue))
        self._read(queue, offset)
        self._moved.add(queue)

    def _read(self, queue: MessageQueue, offset: int) -> None:
        process_queue = ProcessQueue(queue, self._clock())
        self.table.add(process_queue)
        self.begin(process_queue, offset)

    def _end(self, queue: MessageQueue) -> None:
        self.table.remove(queue)
        _, task = self._pulls.pop(queue)
        task.cancel()
        self._fresh.pop(queue, None)
        self._moved.discard(queue)
        self._positions.pop(queue, None)

    def _create_rebalancer(self) -> Rebalancer:
        context = RebalanceContext(
            group=self.group,
            config=self.config.reading(),
            client=self.client,
            offset_store=self.offset_store,
            table=self.table,
            orderly=False,
            owner=self,
            topics=self.subscribed_topics,
            clock=self._clock,
        )
        return Rebalancer(context)

    def _create_pull_context(self) -> PullContext:
        return PullContext(
            group=self.group,
            config=self.config.reading(),
            client=self.client,
            offset_store=self.offset_store,
            orderly=False,
            clock=self._clock,
            subscription=lambda topic: self._subscriptions.get(topic),
            is_suspended=lambda queue: queue in self._paused,
            submit=self._submit,
            pass_over=self._pass_over,
            correct_offset=self._correct_offset,
            count_pulled=self._count_pulled,
            queues_of_topic=self.table.count_of_topic,
            post_subscription_when_pull=True,
        )
