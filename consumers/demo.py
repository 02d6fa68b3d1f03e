"""Demo traffic: a small shop whose topics and groups show what the console is for.

    topic      rate                          group      behaviour
    orders     20/s, steady                  billing    two members, keeps up
                                             notifier   reads `paid` only, fails some: repetitions, then dead
                                             letters
    clicks     10/s, bursts of 70/s          analytics  too slow for ten minutes, then catches up for four
    payments   10/s, in order per account    ledger     orderly, keeps up

Topics and groups are made through the admin; a short backlog is sent before the consumers start, so that
every list has
something to show at once. Everything here outlives a restart of the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import MessageProperty
from brokerd.remoting.message.record import MessageRecord
from consumers.admin.mqadmin import MQAdmin
from consumers.clock import Clock, system_clock
from consumers.config import ConsumeFromWhere, ProducerConfig, PushConsumerConfig
from consumers.consumer.consume_message import ConsumeContext, ConsumeStatus, Handler
from consumers.consumer.push_consumer import PushConsumer
from consumers.errors import BrokerUnavailable, MQBrokerError, MQClientError
from consumers.producer.producer import Producer

logger = logging.getLogger(__name__)

QUEUE_NUMS = 4
# Work is done a few times a second, not per message: most of the cost of little traffic is waking up.
TICK_MS = 250
RETRY_PAUSE_S = 1.0
BACKLOG = {"orders": 200, "clicks": 600, "payments": 80}
# A dead letter needs the first failure and `retryMaxTimes` repetitions; levels 2 and 3 are 5 s and 10 s.
NOTIFIER_RETRY_MAX_TIMES = 2
NOTIFIER_FIRST_DELAY_LEVEL = 2
# Of 100 notifications this many fail once, and this many fail always.
FAIL_ONCE_PERCENT, FAIL_ALWAYS_PERCENT = 3, 3

CLICK_RATE, CLICK_BURST_RATE = 10.0, 70.0
CLICK_PERIOD_MS, CLICK_BURST_MS = 60_000, 20_000
# Clicks come at 30/s on average: analytics falls behind, until an operator "adds capacity".
ANALYTICS_SLOW_RATE, ANALYTICS_FAST_RATE = 25.0, 45.0
ANALYTICS_PERIOD_MS, ANALYTICS_SLOW_MS = 14 * 60_000, 10 * 60_000

ORDER_STATUSES = ("created", "paid", "shipped")
PAYMENT_STEPS = ("authorized", "captured", "settled")
PRODUCTS = ("kettle", "lamp", "notebook", "backpack", "headphones", "mug", "chair", "poster")
PAGES = ("/", "/search", "/product", "/cart", "/checkout", "/help")


@dataclass(frozen=True, slots=True)
class Flow:
    """One topic's traffic: how many messages a second at a time, and the next message."""

    topic: str
    rate: Callable[[int], float]
    create: Callable[[int], Message]
    # Messages of one key must stay in order: each is sent to the queue of its key.
    is_ordered: bool = False


def click_rate(elapsed_ms: int) -> float:
    return CLICK_BURST_RATE if elapsed_ms % CLICK_PERIOD_MS < CLICK_BURST_MS else CLICK_RATE


def analytics_rate(elapsed_ms: int) -> float:
    is_slow = elapsed_ms % ANALYTICS_PERIOD_MS < ANALYTICS_SLOW_MS
    return ANALYTICS_SLOW_RATE if is_slow else ANALYTICS_FAST_RATE


def due_messages(rate: float, owed: float, elapsed_ms: int) -> tuple[int, float]:
    """(messages to send now, the fraction that is still owed)."""
    owed += rate * elapsed_ms / 1000
    return int(owed), owed - int(owed)


def notification_fails(key: str, reconsume_times: int) -> bool:
    """Return whether an order fails. The same order fails the same way every time, some until they are dead letters."""
    bucket = zlib.crc32(key.encode()) % 100
    if bucket < FAIL_ALWAYS_PERCENT:
        return True
    return bucket < FAIL_ALWAYS_PERCENT + FAIL_ONCE_PERCENT and reconsume_times == 0


class Shop:
    """Makes the messages. One random generator, so that a seed gives the same shop."""

    def __init__(self, seed: int, first_number: int) -> None:
        self._random = random.Random(seed)
        self._orders = self._numbers(first_number, ORDER_STATUSES)
        self._payments = self._numbers(first_number, PAYMENT_STEPS)

    def flows(self) -> list[Flow]:
        return [
            Flow("orders", lambda _: 20.0, self.order),
            Flow("clicks", click_rate, self.click),
            Flow("payments", lambda _: 10.0, self.payment, is_ordered=True),
        ]

    def order(self, now_ms: int) -> Message:
        number, status = next(self._orders)
        items = [
            {"sku": self._random.choice(PRODUCTS), "quantity": self._random.randint(1, 3)}
            for _ in range(self._random.randint(1, 4))
        ]
        body = {
            "orderId": f"A-{number}",
            "customer": f"c-{self._random.randint(1000, 9999)}",
            "status": status,
            "items": items,
            "totalCents": self._random.randint(500, 40_000),
            "currency": "EUR",
            "at": _iso(now_ms),
        }
        return _message("orders", body, f"A-{number}", status)

    def click(self, now_ms: int) -> Message:
        session = f"s-{self._random.getrandbits(32):08x}"
        body = {
            "session": session,
            "page": self._random.choice(PAGES),
            "device": self._random.choice(("phone", "desktop", "tablet")),
            "durationMs": self._random.randint(20, 9_000),
            "at": _iso(now_ms),
        }
        return _message("clicks", body, session, "view")

    def payment(self, now_ms: int) -> Message:
        number, step = next(self._payments)
        body = {
            "paymentId": f"P-{number}",
            "account": f"acc-{number % 50:02d}",
            "step": step,
            "amountCents": 500 + (number * 7919) % 40_000,
            "at": _iso(now_ms),
        }
        return _message("payments", body, f"P-{number}", step)

    def _numbers(self, first: int, steps: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Several orders or payments are under way at once; each passes its steps in order."""
        under_way: list[tuple[int, int]] = []
        number = first
        while True:
            if len(under_way) < 5:
                under_way.append((number, 0))
                number += 1
            index = self._random.randrange(len(under_way))
            current, step = under_way[index]
            if step + 1 < len(steps):
                under_way[index] = (current, step + 1)
            else:
                under_way.pop(index)
            yield current, steps[step]


def sharding_key(message: Message) -> str:
    """Payments of one account stay in order."""
    account = json.loads(message.body)["account"]
    assert isinstance(account, str)
    return account


class Demo:
    """The traffic of one process. `run` returns when `stop` is set, within a second."""

    def __init__(
        self, namesrv_addrs: str | Sequence[str], *, speed: float = 1.0, clock: Clock = system_clock
    ) -> None:
        self._namesrv_addrs = namesrv_addrs
        self._speed = speed
        self._clock = clock
        self._started_ms = clock()
        # Numbers go on where an earlier run may have stopped: they come from the time.
        self._shop = Shop(seed=self._started_ms, first_number=self._started_ms // 100 % 10_000_000)

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
            producer = Producer("shop", self._namesrv_addrs, ProducerConfig(send_timeout_ms=2_000))
            await producer.start()
            # Closed at once, not one after another: stopping must take less than a second.
            to_close: list[Producer | PushConsumer] = [producer]
            stack.push_async_callback(_close_all, to_close)
            await self._until_done("sending the backlog", lambda: self._send_backlog(producer))
            consumers = self._consumers()
            to_close += consumers
            for consumer in consumers:
                await consumer.start()
            logger.info("demo traffic runs with %d consumers", len(consumers))
            await asyncio.gather(*(self._produce(producer, flow) for flow in self._shop.flows()))

    # Topics and groups

    async def _create(self) -> None:
        async with MQAdmin(self._namesrv_addrs) as admin:
            cluster = await admin.cluster_info()
            brokers = cluster.broker_addr_table.values()
            masters = [broker.master_addr for broker in brokers if broker.master_addr is not None]
            if not masters:
                raise BrokerUnavailable("", "no broker is registered at the name server yet")
            for addr in masters:
                for flow in self._shop.flows():
                    config = TopicConfig(
                        topic_name=flow.topic,
                        read_queue_nums=QUEUE_NUMS,
                        write_queue_nums=QUEUE_NUMS,
                        perm=6,
                        order=flow.is_ordered,
                    )
                    await admin.create_topic(addr, config)
                for group in ("billing", "analytics", "ledger"):
                    await admin.create_subscription_group(addr, SubscriptionGroupConfig(group_name=group))
                notifier = SubscriptionGroupConfig(
                    group_name="notifier", retry_max_times=NOTIFIER_RETRY_MAX_TIMES
                )
                await admin.create_subscription_group(addr, notifier)

    # Messages

    async def _send_backlog(self, producer: Producer) -> None:
        for flow in self._shop.flows():
            await self._send(producer, flow, BACKLOG[flow.topic])

    async def _produce(self, producer: Producer, flow: Flow) -> None:
        """Root of one topic's traffic. What could not be sent while the broker was away is not made up
        for."""
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

    async def _send(self, producer: Producer, flow: Flow, count: int) -> None:
        """A batch to the next queue; ordered messages as one batch per queue, because a queue is what keeps
        order."""
        messages = [flow.create(self._clock()) for _ in range(count)]
        if not flow.is_ordered:
            for start in range(0, count, 50):
                await producer.send_batch(messages[start : start + 50])
            return
        queues = await producer.publish_queues(flow.topic)
        by_queue: dict[int, list[Message]] = {}
        for message in messages:
            index = zlib.crc32(sharding_key(message).encode()) % len(queues)
            by_queue.setdefault(index, []).append(message)
        for index, batch in sorted(by_queue.items()):
            await producer.send_batch(batch, queue=queues[index])

    # Consumers

    def _consumers(self) -> list[PushConsumer]:
        plain = PushConsumerConfig(
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
            consume_concurrency=4,
            consume_message_batch_max_size=16,
            await_termination_ms=200,
        )
        one_by_one = PushConsumerConfig(
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET, consume_concurrency=2, await_termination_ms=200
        )
        slow = PushConsumerConfig(
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
            consume_concurrency=1,
            consume_message_batch_max_size=8,
            await_termination_ms=0,
        )
        return [
            self._consumer("billing", self.bill, "orders", plain),
            self._consumer("billing", self.bill, "orders", plain),
            self._consumer("notifier", self.notify, "orders", one_by_one, expression="paid"),
            self._consumer("analytics", self.analyse, "clicks", slow),
            self._consumer("ledger", self.book, "payments", plain, orderly=True),
        ]

    def _consumer(
        self,
        group: str,
        handler: Handler,
        topic: str,
        config: PushConsumerConfig,
        *,
        expression: str = "*",
        orderly: bool = False,
    ) -> PushConsumer:
        return PushConsumer(
            group, self._namesrv_addrs, handler, {topic: expression}, orderly=orderly, config=config
        )

    async def bill(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    async def book(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    async def notify(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        message = messages[0]
        if not notification_fails(message.keys, message.reconsume_times):
            return ConsumeStatus.CONSUME_SUCCESS
        context.delay_level_when_next_consume = NOTIFIER_FIRST_DELAY_LEVEL + message.reconsume_times
        return ConsumeStatus.RECONSUME_LATER

    async def analyse(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        rate = self._speed * analytics_rate(self._clock() - self._started_ms)
        await asyncio.sleep(len(messages) / rate)
        return ConsumeStatus.CONSUME_SUCCESS

    async def _until_done(self, what: str, step: Callable[[], Awaitable[None]]) -> None:
        """The broker may not be up yet."""
        while True:
            try:
                await step()
                return
            except (MQClientError, MQBrokerError) as error:
                logger.warning("%s, trying again in %d s: %s", what, RETRY_PAUSE_S, error)
                await asyncio.sleep(RETRY_PAUSE_S)


async def _close_all(parts: Sequence[Producer | PushConsumer]) -> None:
    await asyncio.gather(*(part.close() for part in parts))


def _message(topic: str, body: Mapping[str, object], key: str, tag: str) -> Message:
    properties = {MessageProperty.KEYS: key, MessageProperty.TAGS: tag}
    return Message(topic, json.dumps(dict(body), separators=(",", ":")).encode(), properties)


def _iso(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
