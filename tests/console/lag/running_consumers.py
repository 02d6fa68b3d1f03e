"""Real consumers in a thread of their own, beside a test that blocks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from consumers import ConsumeFromWhere, ConsumeStatus, PushConsumer, PushConsumerConfig

CONFIG = PushConsumerConfig(
    consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
    persist_consumer_offset_interval_ms=200,
    rebalance_interval_ms=500,
)


class RunningConsumers:
    """Start and stop push consumers of one cluster."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.consumers: list[PushConsumer] = []

    def start(
        self,
        group: str,
        subscriptions: Mapping[str, str],
        *,
        orderly: bool = False,
        config: PushConsumerConfig = CONFIG,
        hangs: bool = False,
    ) -> PushConsumer:
        """Start one that accepts every message, or with `hangs` never ends with one; return it."""

        async def handle(messages: Any, context: Any) -> ConsumeStatus:
            if hangs:
                await asyncio.Event().wait()
            return ConsumeStatus.CONSUME_SUCCESS

        async def begin() -> PushConsumer:
            consumer = PushConsumer(
                group, self.namesrv, handle, subscriptions, orderly=orderly, config=config
            )
            await consumer.start()
            return consumer

        consumer = asyncio.run_coroutine_threadsafe(begin(), self.loop).result(20)
        self.consumers.append(consumer)
        return consumer

    def stop(self, consumer: PushConsumer) -> None:
        self.consumers.remove(consumer)
        asyncio.run_coroutine_threadsafe(consumer.close(), self.loop).result(20)

    def close(self) -> None:
        for consumer in list(self.consumers):
            self.stop(consumer)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)


def holds(consumer: PushConsumer, topic: str) -> int:
    """Return how many queues of a topic a consumer reads: it begins with one after the other."""
    return sum(one.topic == topic for one in consumer.running_info().mq_table)


def eventually(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never held"
        time.sleep(0.1)
