"""Demo traffic: a small shop whose topics and groups show what the console is for.

    topic      rate                          group            behaviour
    orders     20/s, steady                  billing          two members, keeps up
                                             notifier         reads `paid` only, fails some: repetitions, then dead
                                                              letters with their cause
                                             nightly-export   reads for some seconds after the start, then offline
    clicks     10/s, bursts of 70/s          analytics        too slow for ten minutes, then catches up for four
    payments   10/s, in order per account    ledger           orderly, keeps up
                                             fraud-check      orderly, two members, of which only one reads
                                                              payment-settled too: half of its queues lack an owner
    parcels    4/s, in order per depot       shipping         orderly, one queue stalled on one message
    stock      8/s, 70 % of one warehouse    stock-sync       orderly, behind on the hot queue only
    reminders  0.5/s, delayed by a minute    reminder-mailer  keeps up
    payment-   1/s, in transactions: some    receipts         keeps up; sees those that were committed
    settled    rolled back, some decided
               when the broker asks

Topics and groups are made through the admin, on every broker that is registered; a short backlog is sent before the
consumers start, so that every list has something to show at once. Everything here outlives a restart of a broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import MessageProperty
from consumers.admin.mqadmin import MQAdmin
from consumers.clock import Clock, system_clock
from consumers.config import ClientConfig, ProducerConfig
from consumers.consumer.push_consumer import PushConsumer
from consumers.demo.groups import EXPORT_RUNS_S, Groups, subscription_groups
from consumers.demo.shop import Flow, Shop, found_settled, order_key, settled
from consumers.errors import BrokerUnavailable, MQBrokerError, MQClientError
from consumers.producer.producer import Producer
from consumers.producer.send_result import SendResult
from consumers.producer.transaction_producer import LocalTransactionState, TransactionProducer

logger = logging.getLogger(__name__)

QUEUE_NUMS = 4
# Work is done a few times a second, not per message: most of the cost of little traffic is waking up.
TICK_MS = 250
RETRY_PAUSE_S = 1.0
NEW_BROKERS_EVERY_S = 5.0
BATCH_MAX = 50


def due_messages(rate: float, owed: float, elapsed_ms: int) -> tuple[int, float]:
    """Return the messages to send now and the fraction that is still owed."""
    owed += rate * elapsed_ms / 1000
    return int(owed), owed - int(owed)


class Demo:
    """The traffic of one process. `run` returns when `stop` is set, within a second."""

    def __init__(
        self,
        namesrv_addrs: str | Sequence[str],
        *,
        speed: float = 1.0,
        clock: Clock = system_clock,
        client: ClientConfig | None = None,
    ) -> None:
        self._namesrv_addrs = namesrv_addrs
        self._client = client or ClientConfig()
        self._speed = speed
        self._clock = clock
        self._started_ms = clock()
        # Numbers go on where an earlier run may have stopped: they come from the time.
        self._shop = Shop(seed=self._started_ms, first_number=self._started_ms // 100 % 10_000_000)
        self._flows = self._shop.flows()
        # Addresses of brokers that have the topics and groups.
        self._prepared: set[str] = set()
        self._groups = Groups(namesrv_addrs, speed, clock, self._started_ms, self._client)

    async def run(self, stop: asyncio.Event) -> None:
        work = asyncio.create_task(self._run())
        waiting = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work

    async def _run(self) -> None:
        await self._until_done("creating topics and groups", self._create)
        async with AsyncExitStack() as stack:
            config = ProducerConfig(send_timeout_ms=2_000, client=self._client)
            producer = TransactionProducer("shop", self._namesrv_addrs, found_settled, config)
            await producer.start()
            # Closed at once, not one after another: stopping must take less than a second.
            to_close: list[Producer | PushConsumer] = [producer]
            stack.push_async_callback(_close_all, to_close)
            await self._until_done("sending the backlog", lambda: self._send_backlog(producer))
            consumers = self._groups.consumers()
            export = self._groups.export()
            to_close += [*consumers, export]
            for consumer in [*consumers, export]:
                await consumer.start()
            logger.info("demo traffic runs with %d consumers", len(consumers))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._create_on_new_brokers())
                for flow in self._flows:
                    tasks.create_task(self._produce(producer, flow))
                await asyncio.sleep(EXPORT_RUNS_S)
                to_close.remove(export)
                await export.close()

    # Topics and groups

    async def _create(self) -> None:
        async with MQAdmin(self._namesrv_addrs, config=self._client.remoting) as admin:
            cluster = await admin.cluster_info()
            brokers = cluster.broker_addr_table.values()
            masters = [broker.master_addr for broker in brokers if broker.master_addr is not None]
            if not masters:
                raise BrokerUnavailable("", "no broker is registered at the name server yet")
            for addr in set(masters) - self._prepared:
                for flow in self._flows:
                    config = TopicConfig(
                        topic_name=flow.topic,
                        read_queue_nums=QUEUE_NUMS,
                        write_queue_nums=QUEUE_NUMS,
                        perm=6,
                        order=bool(flow.order_key),
                        attributes={"message.type": flow.message_type},
                    )
                    await admin.create_topic(addr, config)
                for group in subscription_groups():
                    await admin.create_subscription_group(addr, group)
                self._prepared.add(addr)

    async def _create_on_new_brokers(self) -> None:
        while True:
            await asyncio.sleep(NEW_BROKERS_EVERY_S)
            try:
                await self._create()
            except (MQClientError, MQBrokerError) as error:
                logger.warning("demo topics not created: %s", error)

    # Messages

    async def _send_backlog(self, producer: TransactionProducer) -> None:
        for flow in self._flows:
            await self._send(producer, flow, flow.backlog)

    async def _produce(self, producer: TransactionProducer, flow: Flow) -> None:
        """Send one topic's traffic. What could not be sent while a broker was away is not made up for."""
        owed, last_ms = 0.0, self._clock()
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            now_ms = self._clock()
            rate = self._speed * flow.rate(now_ms - self._started_ms)
            count, owed = due_messages(rate, owed, min(now_ms - last_ms, 4 * TICK_MS))
            last_ms = now_ms
            if not count:
                continue
            try:
                await self._send(producer, flow, count)
            except (MQClientError, MQBrokerError) as error:
                logger.warning("demo messages not sent topic=%s: %s", flow.topic, error)
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _send(self, producer: TransactionProducer, flow: Flow, count: int) -> None:
        """Send a batch to the next queue; ordered messages as one batch per queue; delayed ones singly."""
        messages = [flow.create(self._clock()) for _ in range(count)]
        if flow.order_key:
            await self._send_in_order(producer, flow, messages)
        elif flow.is_in_transaction:
            for message in messages:
                await self._settle(producer, message)
        elif any(MessageProperty.DELAY in message.properties for message in messages):
            for message in messages:
                await producer.send(message)
        else:
            for start in range(0, count, BATCH_MAX):
                await producer.send_batch(messages[start : start + BATCH_MAX])

    @staticmethod
    async def _settle(producer: TransactionProducer, message: Message) -> None:
        async def execute(half: SendResult) -> LocalTransactionState:
            return settled(message.keys)

        await producer.send_in_transaction(message, execute)

    async def _send_in_order(
        self, producer: TransactionProducer, flow: Flow, messages: Sequence[Message]
    ) -> None:
        queues = await producer.publish_queues(flow.topic)
        by_queue: dict[int, list[Message]] = {}
        for message in messages:
            index = zlib.crc32(order_key(flow, message).encode()) % len(queues)
            by_queue.setdefault(index, []).append(message)
        for index, batch in sorted(by_queue.items()):
            await producer.send_batch(batch, queue=queues[index])

    async def _until_done(self, what: str, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat a step until it succeeds: the broker may not be up yet."""
        while True:
            try:
                await step()
                return
            except (MQClientError, MQBrokerError) as error:
                logger.warning("%s, trying again in %d s: %s", what, RETRY_PAUSE_S, error)
                await asyncio.sleep(RETRY_PAUSE_S)


async def _close_all(parts: Sequence[Producer | PushConsumer]) -> None:
    await asyncio.gather(*(part.close() for part in parts))
