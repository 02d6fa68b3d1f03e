"""Rebalancing: find out which queues are ours, give up the others, begin with new ones.

Semantics reference 8 and 9.5 (RebalanceImpl, RebalancePushImpl, RebalanceService). The decision what changes
is
ProcessQueueTable.compare; here it is carried out, every 20 s and whenever something wakes the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from brokerd.remoting.allocate import STRATEGIES
from brokerd.remoting.body.assignment import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    UnlockBatchRequestBody,
)
from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.message.names import RETRY_TOPIC_PREFIX
from brokerd.remoting.message.queue import MessageQueue
from consumers.client.capability import ASSIGNMENT, parse_capabilities
from consumers.client.client_instance import ClientInstance
from consumers.client.queue_offsets import max_offset, offset_at
from consumers.client.route import subscribe_queues
from consumers.clock import Clock
from consumers.config import (
    ConsumeFromWhere,
    InvalidClientConfig,
    MessageModel,
    PushConsumerConfig,
    RebalanceMode,
)
from consumers.consumer.offset_store import OffsetStore
from consumers.consumer.process_queue import ProcessQueue, ProcessQueueTable
from consumers.errors import MQBrokerError, MQClientError

logger = logging.getLogger(__name__)

# RebalanceService.minInterval: members that come one after another cause one round, not many.
REBALANCE_MIN_INTERVAL_MS = 1_000
LOCK_TIMEOUT_MS = 1_000
# What QUERY_ASSIGNMENT understands (QueryAssignmentProcessor.java).
SERVER_STRATEGIES = frozenset({"AVG", "AVG_BY_CIRCLE"})
POP = "POP"  # MessageRequestMode
# tryRemoveConsumeLock: how long a queue is kept for the batch that still runs before its lock is given away.
UNLOCK_WAIT_MS = 500
# UNLOCK_DELAY_TIME_MILLS: after this long a queue is given away even if its batch still runs.
UNLOCK_FORCED_AFTER_MS = 20_000


class QueueOwner(Protocol):
    """What happens to a queue when it comes and goes; PushConsumer does it."""

    def begin(self, queue: ProcessQueue, next_offset: int) -> None:
        """Start pulling."""

    async def wait_idle(self, queue: ProcessQueue, wait_ms: int) -> bool:
        """Orderly: whether the batch that is being consumed has ended in time."""

    def queues_changed(self, topic: str) -> None:
        """After a round that changed something."""


@dataclass(frozen=True, slots=True)
class RebalanceContext:
    group: str
    config: PushConsumerConfig
    client: ClientInstance
    offset_store: OffsetStore
    table: ProcessQueueTable
    orderly: bool
    owner: QueueOwner
    topics: Callable[[], Sequence[str]]
    clock: Clock
    # (topic, queues): what the broker assigned to be popped. None: a consumer that only pulls.
    pop: Callable[[str, Sequence[MessageQueue]], None] | None = None

    @property
    def is_clustering(self) -> bool:
        return self.config.message_model is MessageModel.CLUSTERING

    @property
    def needs_lock(self) -> bool:
        return self.orderly and self.is_clustering


@dataclass(frozen=True, slots=True)
class Allocation:
    """Our queues of a topic, by how they are read."""

    pull: Sequence[MessageQueue]
    pop: Sequence[MessageQueue] = ()


class Rebalancer:
    """The loop. Wake-ups during a round make the next one follow at once, at least one second later."""

    def __init__(self, context: RebalanceContext) -> None:
        config = context.config
        known = SERVER_STRATEGIES if config.rebalance_mode is RebalanceMode.SERVER else STRATEGIES.keys()
        if config.allocate_strategy not in known:
            names = ", ".join(sorted(known))
            raise InvalidClientConfig(f"allocate_strategy {config.allocate_strategy!r} is not one of {names}")
        self._context = context
        self._soon = asyncio.Event()
        self._server_side: dict[str, bool] = {}  # broker address → whether it announces stored assignments
        self._round = asyncio.Lock()

    def rebalance_soon(self) -> None:
        """Caller: any task. Affects: when the next round begins."""
        self._soon.set()

    async def run(self) -> None:
        """Root of the task."""
        min_interval_s = REBALANCE_MIN_INTERVAL_MS / 1000
        interval_s = self._context.config.rebalance_interval_ms / 1000
        is_balanced = True
        while True:
            with contextlib.suppress(TimeoutError):
                # Not wait_for: before Python 3.12 it loses a cancellation that comes together with the event.
                async with asyncio.timeout(interval_s if is_balanced else min_interval_s):
                    await self._soon.wait()
            self._soon.clear()
            try:
                is_balanced = await self.rebalance()
            except Exception:
                logger.exception("rebalance failed group=%s", self._context.group)
                is_balanced = False
            await asyncio.sleep(min_interval_s)

    async def rebalance(self) -> bool:
        """Run one round over all topics; False when something could not be done and is to be tried again soon."""
        async with self._round:
            topics = list(self._context.topics())
            outcomes = [await self._rebalance_topic(topic) for topic in topics]
            if self._context.needs_lock and self._unlocked():
                await self.lock_all()
                outcomes.append(not self._unlocked())
            for queue in self._context.table.unsubscribed(topics):
                await self._give_up(queue)
            return all(outcomes)

    async def _rebalance_topic(self, topic: str) -> bool:
        try:
            allocated = await self._allocate(topic)
        except (MQClientError, MQBrokerError) as error:
            # A retry topic that is not routed yet is normal: the broker makes it on our first heartbeat.
            level = logging.DEBUG if topic.startswith(RETRY_TOPIC_PREFIX) else logging.WARNING
            logger.log(level, "not rebalanced group=%s topic=%s: %s", self._context.group, topic, error)
            return False
        if allocated is None:
            return True
        is_done = await self._apply(topic, allocated.pull)
        if self._context.pop is not None:
            self._context.pop(topic, allocated.pop)
        return is_done

    # Which queues are ours

    async def _allocate(self, topic: str) -> Allocation | None:
        """Return our queues of the topic; None: unknown now, keep the present ones."""
        context = self._context
        route = await context.client.route(topic)
        if not context.is_clustering:
            return Allocation(subscribe_queues(topic, route))
        if await self._asks_broker(route):
            allocation = await self._query_assignment(topic, route)
            if allocation is None or not allocation.pop or context.pop is not None:
                return allocation
            # A consumer that only pulls shares by the formula, as if the group's mode were PULL.
        client_ids = await context.client.consumer_ids(context.group, route)
        if client_ids is None:
            context.client.heartbeat_soon()
            return None
        queues = subscribe_queues(topic, route)
        if not queues:
            return Allocation([])
        strategy = STRATEGIES[context.config.allocate_strategy]
        return Allocation(strategy(context.group, context.client.client_id, queues, client_ids))

    @property
    def is_server_side(self) -> bool:
        """Whether brokers assign the queues: with AUTO, once one has announced that it does."""
        mode = self._context.config.rebalance_mode
        return self._may_be_server_side and (mode is RebalanceMode.SERVER or any(self._server_side.values()))

    @property
    def _may_be_server_side(self) -> bool:
        """Whether this client would take what brokers assign.

        Orderly consumers, and strategies no broker has, always compute by themselves, as in Java (8.4).
        """
        context = self._context
        return (
            not context.orderly
            and context.config.rebalance_mode is not RebalanceMode.CLIENT
            and context.config.allocate_strategy in SERVER_STRATEGIES
        )

    async def _asks_broker(self, route: TopicRouteData) -> bool:
        """Return whether a broker assigns the queues of a topic."""
        context = self._context
        if not self._may_be_server_side:
            return False
        if context.config.rebalance_mode is RebalanceMode.SERVER:
            return True
        addr = context.client.any_addr(route)
        known = self._server_side.get(addr)
        if known is None:
            command = RemotingCommand.request(RequestCode.TIDEMARK_GET_CAPABILITIES, {})
            response = await context.client.remoting.invoke(addr, command)
            known = ASSIGNMENT in parse_capabilities(response)
            self._server_side[addr] = known
        return known

    async def _query_assignment(self, topic: str, route: TopicRouteData) -> Allocation | None:
        """QUERY_ASSIGNMENT (400); no list in the answer means: not known now."""
        context = self._context
        body = QueryAssignmentRequestBody(
            topic=topic,
            consumer_group=context.group,
            client_id=context.client.client_id,
            strategy_name=context.config.allocate_strategy,
            message_model=str(context.config.message_model),
        )
        command = RemotingCommand.request(RequestCode.QUERY_ASSIGNMENT, {}, body.to_body())
        response = await context.client.remoting.invoke(context.client.any_addr(route), command)
        if response.code != ResponseCode.SUCCESS:
            raise error_for(response.code, response.remark)
        if not response.body:
            return None
        assignments = QueryAssignmentResponseBody.from_body(response.body).message_queue_assignments
        if assignments is None:
            context.client.heartbeat_soon()
            return None
        queues = sorted(assignment.message_queue for assignment in assignments)
        if not {queue.broker_name for queue in queues} <= {data.broker_name for data in route.broker_datas}:
            # A broker that joined since the route was read: its address is known only from a new one.
            await context.client.refresh_route(topic)
        popped = {assignment.message_queue for assignment in assignments if assignment.mode == POP}
        return Allocation(
            [queue for queue in queues if queue not in popped], [queue for queue in queues if queue in popped]
        )

    # Applying it

    async def _apply(self, topic: str, allocated: Sequence[MessageQueue]) -> bool:
        context = self._context
        change = context.table.compare(topic, allocated, context.clock())
        all_done = True
        for queue in change.drop:
            all_done &= await self._give_up(queue)
        for queue in change.add:
            # One that is ours again while its batch still runs is begun anew once that has ended.
            if context.table.get(queue) is None:
                all_done &= await self._begin(queue)
        if change:
            logger.info(
                "rebalanced group=%s topic=%s owned=%d added=%d dropped=%d",
                context.group,
                topic,
                sum(1 for queue in context.table if queue.topic == topic),
                len(change.add),
                len(change.drop),
            )
            context.owner.queues_changed(topic)
        return all_done

    async def _give_up(self, queue: MessageQueue) -> bool:
        """1. Its running batch ends (orderly; else False: next round).

        2. Nothing of it counts any more. 3. Its offset is stored. 4. Its lock is free for the next member
        (orderly).
        """
        context = self._context
        process_queue = context.table.get(queue)
        if process_queue is None:
            return True
        if context.needs_lock:
            process_queue.end(context.clock())
            is_idle = await context.owner.wait_idle(process_queue, UNLOCK_WAIT_MS)
            if not is_idle and not _is_ending_too_long(process_queue, context.clock()):
                process_queue.try_unlock_times += 1
                return False
        context.table.remove(queue)
        await context.offset_store.persist([queue])
        context.offset_store.remove_offset(queue)
        if context.needs_lock:
            await self.unlock([queue])
        return True

    async def _begin(self, queue: MessageQueue) -> bool:
        """Lock (orderly), find the offset, pull. False: tried again in the next round."""
        context = self._context
        process_queue = ProcessQueue(queue, context.clock())
        if context.needs_lock and not await self.lock(process_queue):
            logger.info("queue is locked by another member %s", _where(context.group, queue))
            return False
        context.offset_store.remove_offset(queue)
        try:
            next_offset = await self.start_offset(queue)
        except (MQClientError, MQBrokerError) as error:
            logger.warning("no start offset %s: %s", _where(context.group, queue), error)
            return False
        context.table.add(process_queue)
        context.owner.begin(process_queue, next_offset)
        return True

    async def start_offset(self, queue: MessageQueue) -> int:
        """computePullFromWhere (9.5): the stored offset, else by consume_from_where."""
        stored = await self._context.offset_store.read_store(queue)
        return await self.first_offset(queue) if stored is None else stored

    async def first_offset(self, queue: MessageQueue) -> int:
        """Return where a queue without a stored offset is begun. Raises MQBrokerError, MQClientError."""
        config, client = self._context.config, self._context.client
        is_retry = queue.topic.startswith(RETRY_TOPIC_PREFIX)
        where = config.consume_from_where
        if where is ConsumeFromWhere.FIRST_OFFSET or (where is ConsumeFromWhere.LAST_OFFSET and is_retry):
            return 0
        if where is ConsumeFromWhere.LAST_OFFSET or is_retry:
            return await max_offset(client, queue)
        assert config.consume_timestamp_ms is not None
        return await offset_at(client, queue, config.consume_timestamp_ms)

    # Locks of an orderly consumer

    async def lock(self, process_queue: ProcessQueue) -> bool:
        """Request one queue's lock. Caller: rebalancer, orderly service. Affects: lock_ms."""
        held = await self._lock_batch(process_queue.message_queue.broker_name, [process_queue.message_queue])
        if held is not None and process_queue.message_queue in held:
            process_queue.lock_ms = self._context.clock()
            return True
        return False

    async def lock_all(self) -> None:
        """Renew every lock (every 20 s; it is good for 30 s here and 60 s at the broker).

        Caller: PushConsumer's loop.
        """
        for broker_name, process_queues in self._by_broker().items():
            held = await self._lock_batch(broker_name, [queue.message_queue for queue in process_queues])
            if held is None:
                continue  # without an answer the old locks count until they expire
            now_ms = self._context.clock()
            for process_queue in process_queues:
                process_queue.lock_ms = now_ms if process_queue.message_queue in held else None

    async def unlock(self, queues: Sequence[MessageQueue]) -> None:
        """Let the locks go at once (UNLOCK_BATCH_MQ, 42, one-way).

        A lock that stays expires at the broker.
        """
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        for broker_name, owned in by_broker.items():
            body = UnlockBatchRequestBody(
                consumer_group=self._context.group, client_id=self._context.client.client_id, mq_set=owned
            )
            command = RemotingCommand.request(RequestCode.UNLOCK_BATCH_MQ, {}, body.to_body(), oneway=True)
            try:
                addr = self._context.client.find_addr(broker_name)
                await self._context.client.remoting.invoke_oneway(addr, command, LOCK_TIMEOUT_MS)
            except MQClientError as error:
                logger.info("not unlocked group=%s broker=%s: %s", self._context.group, broker_name, error)

    async def _lock_batch(self, broker_name: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        """LOCK_BATCH_MQ (41): which of these are locked for us now. None when the broker does not answer."""
        body = LockBatchRequestBody(
            consumer_group=self._context.group, client_id=self._context.client.client_id, mq_set=queues
        )
        command = RemotingCommand.request(RequestCode.LOCK_BATCH_MQ, {}, body.to_body())
        try:
            addr = self._context.client.find_addr(broker_name, only_this=True)  # a slave grants no locks
            response = await self._context.client.remoting.invoke(addr, command, LOCK_TIMEOUT_MS)
            if response.code != ResponseCode.SUCCESS:
                raise error_for(response.code, response.remark)
        except (MQClientError, MQBrokerError) as error:
            logger.info("not locked group=%s broker=%s: %s", self._context.group, broker_name, error)
            return None
        return set(LockBatchResponseBody.from_body(response.body).lock_ok_mq_set)

    def _unlocked(self) -> bool:
        return any(queue.lock_ms is None for queue in self._context.table.values())

    def _by_broker(self) -> dict[str, list[ProcessQueue]]:
        brokers: dict[str, list[ProcessQueue]] = {}
        for process_queue in self._context.table.values():
            brokers.setdefault(process_queue.message_queue.broker_name, []).append(process_queue)
        return brokers


def _is_ending_too_long(process_queue: ProcessQueue, now_ms: int) -> bool:
    since_ms = process_queue.ending_since_ms
    return since_ms is not None and now_ms - since_ms > UNLOCK_FORCED_AFTER_MS


def _where(group: str, queue: MessageQueue) -> str:
    return f"group={group} topic={queue.topic} queue_id={queue.queue_id}"
