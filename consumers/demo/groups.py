"""The shop's consumer groups, each with a condition that an operator meets sooner or later."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.message.record import MessageRecord
from consumers.clock import Clock
from consumers.config import ClientConfig, ConsumeFromWhere, PushConsumerConfig
from consumers.consumer.consume_message import ConsumeContext, ConsumeStatus, Handler
from consumers.consumer.push_consumer import PushConsumer
from consumers.consumer.send_back import retry_message, send_to_retry
from consumers.errors import MQBrokerError, MQClientError

# A dead letter needs the first failure and `retryMaxTimes` repetitions; levels 2 and 3 are 5 s and 10 s.
NOTIFIER_RETRY_MAX_TIMES = 2
NOTIFIER_FIRST_DELAY_LEVEL = 2
# Of 100 notifications this many fail once, and this many fail always.
FAIL_ONCE_PERCENT, FAIL_ALWAYS_PERCENT = 3, 3
# The property that the console reads the cause of a dead letter from (DEAD_LETTER_CAUSE_PROPERTIES).
CAUSE_PROPERTY = "exception"
FAILURES = (
    "SMTPRecipientsRefused: 550 5.1.1 no such user",
    "TimeoutError: mail.example.com:587 did not answer within 10 s",
    "KeyError: 'email' (customer has no address)",
    "SMTPServerDisconnected: connection closed by the relay",
)

# `analytics` and `stock-sync` are too slow for ten minutes of fourteen, then they catch up.
SLOW_PERIOD_MS, SLOW_MS = 14 * 60_000, 10 * 60_000
# Clicks come at 30/s on average.
ANALYTICS_SLOW_RATE, ANALYTICS_FAST_RATE = 25.0, 45.0
# The hot queue of `stock` gets 5.6/s.
STOCK_SLOW_RATE, STOCK_FAST_RATE = 5.0, 9.0
# `nightly-export` reads for a while after each start of the demo, then it is offline.
EXPORT_RUNS_S = 20.0


def is_slow(elapsed_ms: int) -> bool:
    return elapsed_ms % SLOW_PERIOD_MS < SLOW_MS


def analytics_rate(elapsed_ms: int) -> float:
    return ANALYTICS_SLOW_RATE if is_slow(elapsed_ms) else ANALYTICS_FAST_RATE


def stock_rate(elapsed_ms: int) -> float:
    return STOCK_SLOW_RATE if is_slow(elapsed_ms) else STOCK_FAST_RATE


def notification_failure(key: str, reconsume_times: int) -> str:
    """Return why an order's notification fails, "" if it does not.

    The same order fails the same way every time, some until they are dead letters.
    """
    number = zlib.crc32(key.encode())
    bucket = number % 100
    fails = bucket < FAIL_ALWAYS_PERCENT
    fails |= bucket < FAIL_ALWAYS_PERCENT + FAIL_ONCE_PERCENT and reconsume_times == 0
    return FAILURES[number // 100 % len(FAILURES)] if fails else ""


def subscription_groups() -> list[SubscriptionGroupConfig]:
    """Return the configuration of every group that the demo starts."""
    names = (
        "billing",
        "analytics",
        "ledger",
        "shipping",
        "stock-sync",
        "reminder-mailer",
        "nightly-export",
        "receipts",
        "fraud-check",
    )
    notifier = SubscriptionGroupConfig(group_name="notifier", retry_max_times=NOTIFIER_RETRY_MAX_TIMES)
    return [notifier, *(SubscriptionGroupConfig(group_name=name) for name in names)]


PLAIN = PushConsumerConfig(
    consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
    consume_concurrency=4,
    consume_message_batch_max_size=16,
    await_termination_ms=200,
)
ONE_BY_ONE = replace(PLAIN, consume_concurrency=2, consume_message_batch_max_size=1)
ONE_THREAD = replace(PLAIN, consume_concurrency=1, consume_message_batch_max_size=8, await_termination_ms=0)
ONE_AT_A_TIME_IN_ORDER = replace(
    PLAIN, consume_concurrency=8, consume_message_batch_max_size=1, await_termination_ms=0
)


@dataclass(slots=True)
class Groups:
    """The handlers of all groups, and the consumers that run them."""

    namesrv_addrs: str | Sequence[str]
    speed: float
    clock: Clock
    started_ms: int
    client: ClientConfig

    def consumers(self) -> list[PushConsumer]:
        """Return the consumers that run as long as the demo does, not started."""
        return [
            self._consumer("billing", self.accept, "orders", PLAIN),
            self._consumer("billing", self.accept, "orders", PLAIN),
            Notifier(self).consumer,
            self._consumer("analytics", self.analyse, "clicks", ONE_THREAD),
            self._consumer("ledger", self.accept, "payments", PLAIN, orderly=True),
            self._consumer("shipping", self.ship, "parcels", ONE_AT_A_TIME_IN_ORDER, orderly=True),
            self._consumer("stock-sync", self.count, "stock", ONE_AT_A_TIME_IN_ORDER, orderly=True),
            self._consumer("reminder-mailer", self.accept, "reminders", PLAIN),
            self._consumer("receipts", self.accept, "payment-settled", PLAIN),
            # Only one member reads settlements: half of their queues fall to the other one.
            self._consumer("fraud-check", self.accept, "payments", PLAIN, orderly=True),
            self._consumer(
                "fraud-check", self.accept, "payments", PLAIN, orderly=True, also="payment-settled"
            ),
        ]

    def export(self) -> PushConsumer:
        """Return the consumer of `nightly-export`, not started."""
        return self._consumer("nightly-export", self.accept, "orders", PLAIN)

    def _consumer(
        self,
        group: str,
        handler: Handler,
        topic: str,
        config: PushConsumerConfig,
        *,
        orderly: bool = False,
        also: str = "",
    ) -> PushConsumer:
        """Return a member that reads a topic, and `also` another one."""
        config = replace(config, client=self.client)
        topics = {topic: "*"} | ({also: "*"} if also else {})
        return PushConsumer(group, self.namesrv_addrs, handler, topics, orderly=orderly, config=config)

    async def accept(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    async def analyse(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        rate = self.speed * analytics_rate(self.clock() - self.started_ms)
        await asyncio.sleep(len(messages) / rate)
        return ConsumeStatus.CONSUME_SUCCESS

    async def count(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        """Take the same time for a message of every queue: the hot queue falls behind, the others keep up."""
        rate = self.speed * stock_rate(self.clock() - self.started_ms)
        await asyncio.sleep(len(messages) / rate)
        return ConsumeStatus.CONSUME_SUCCESS

    async def ship(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        """Refuse a parcel without address: its queue waits, the others go on."""
        if all(json.loads(message.body)["address"] for message in messages):
            return ConsumeStatus.CONSUME_SUCCESS
        return ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


class Notifier:
    """Sends mails about paid orders; some fail, and those that fail three times become dead letters."""

    def __init__(self, groups: Groups) -> None:
        config = replace(ONE_BY_ONE, client=groups.client)
        self.consumer = PushConsumer(
            "notifier", groups.namesrv_addrs, self.notify, {"orders": "paid"}, config=config
        )

    async def notify(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        """Give a failed message back as a copy with the cause in a property, as common error handlers do."""
        message = messages[0]
        failure = notification_failure(message.keys, message.reconsume_times)
        if not failure:
            return ConsumeStatus.CONSUME_SUCCESS
        level = NOTIFIER_FIRST_DELAY_LEVEL + message.reconsume_times
        again = retry_message(message, context.group, level, NOTIFIER_RETRY_MAX_TIMES)
        again.properties[CAUSE_PROPERTY] = failure
        try:
            await send_to_retry(self.consumer.client, again)
        except (MQClientError, MQBrokerError):
            context.delay_level_when_next_consume = level
            return ConsumeStatus.RECONSUME_LATER
        return ConsumeStatus.CONSUME_SUCCESS
