"""Running the handler: what it is given, what it may answer, and how often it went how.

Shared by both services.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, cast

import msgspec

from brokerd.remoting.body.client import ConsumeStatus as ConsumeStatistics
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord
from brokerd.remoting.message.trace import TracedOutcome
from consumers.client.namespace import Namespace
from consumers.consumer.consume_rate import ConsumeRate
from consumers.consumer.consume_trace import ConsumeTracer
from consumers.consumer.process_queue import ProcessQueue

logger = logging.getLogger(__name__)

NO_NAMESPACE = Namespace()
# ConsumerStatsManager samples every 10 s and shows the last minute.
WINDOW_S = 60
FAILED_MINUTES = 60


class ConsumeStatus(StrEnum):
    """What a handler answers. An exception, or no answer, counts as the second or third: nothing is lost."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    # Concurrent: send the messages back, to come again after a delay.
    RECONSUME_LATER = "RECONSUME_LATER"
    # Orderly: keep the queue waiting, then give the same messages again.
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class ConsumeReturnType(StrEnum):
    """How a call went, in one word more than its status."""

    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    RETURNNULL = "RETURNNULL"
    EXCEPTION = "EXCEPTION"


class ConsumeContext(msgspec.Struct):
    """Given with each batch; the handler may set the fields after the first two."""

    group: str
    message_queue: MessageQueue
    # Concurrent: delay level of the repetition; 0 the broker decides, -1 dead letter at once.
    delay_level_when_next_consume: int = 0
    # Concurrent: index of the last message of the batch that is done; the ones after it come again.
    ack_index: int | None = None
    # Orderly: how long the queue waits; None is the consumer's setting.
    suspend_current_queue_time_ms: int | None = None


AsyncHandler = Callable[[Sequence[MessageRecord], ConsumeContext], Awaitable[ConsumeStatus]]
BlockingHandler = Callable[[Sequence[MessageRecord], ConsumeContext], ConsumeStatus]
Handler = AsyncHandler | BlockingHandler


def as_async_handler(handler: Handler) -> AsyncHandler:
    """Run a plain function in a thread, so that blocking code does not hold up heartbeats and pulls."""
    call = getattr(handler, "__call__", handler)  # noqa: B004 - a callable object may have an async __call__
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call):
        return cast(AsyncHandler, handler)
    blocking = cast(BlockingHandler, handler)

    async def run_in_thread(messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        return await asyncio.to_thread(blocking, messages, context)

    return run_in_thread


class ConsumeOutcome(msgspec.Struct, frozen=True, gc=False):
    """One call of the handler."""

    is_success: bool
    return_type: ConsumeReturnType
    elapsed_ms: int
    error: str = ""


class MessageHandler:
    """Calls the handler and never raises for what it does. Shared by all workers of one consumer."""

    def __init__(
        self,
        handler: Handler,
        group: str,
        clock: Callable[[], int],
        tracer: ConsumeTracer | None = None,
        rate: ConsumeRate | None = None,
        namespace: Namespace = NO_NAMESPACE,
    ) -> None:
        self.group = group
        self._tracer = tracer
        self._clock = clock
        self.statistics = ConsumeStatisticsTable()
        self.rate = rate or ConsumeRate()
        self._namespace = namespace
        self._has_namespace = bool(namespace)
        self._handler = as_async_handler(handler)

    async def call(
        self,
        messages: Sequence[MessageRecord],
        context: ConsumeContext,
        started_ms: int,
        *,
        is_delivery: bool = True,
    ) -> ConsumeOutcome:
        """Call the handler, at `started_ms`. Cancelling it cancels the handler.

        Caller: workers. Affects: statistics and traces, where it `is_delivery` to the group.
        """
        topic = context.message_queue.topic
        tracer = self._tracer if is_delivery else None
        request_id = "" if tracer is None else tracer.before(messages, started_ms)
        error = ""
        try:
            given = self._without_namespace(messages, context) if self._has_namespace else messages
            status = await self._handler(given, context)
        except Exception as failure:  # the handler is foreign code: whatever it raises means "later"
            logger.exception(
                "handler failed group=%s topic=%s queue_id=%d offset=%d",
                self.group,
                messages[0].topic,
                messages[0].queue_id,
                messages[0].queue_offset,
            )
            return_type, error = ConsumeReturnType.EXCEPTION, f"{type(failure).__name__}: {failure}"
        else:
            return_type = RETURN_TYPES.get(status, ConsumeReturnType.RETURNNULL)
        ended_ms = self._clock()
        is_success, elapsed_ms = return_type is ConsumeReturnType.SUCCESS, ended_ms - started_ms
        if is_delivery:
            self.statistics.count(topic, len(messages), is_success, elapsed_ms, ended_ms)
        if tracer is not None:
            tracer.after(
                request_id,
                messages,
                TRACED_OUTCOMES[return_type],
                is_success=is_success,
                ended_ms=ended_ms,
                elapsed_ms=elapsed_ms,
            )
        return ConsumeOutcome(is_success, return_type, elapsed_ms, error)

    def _without_namespace(
        self, messages: Sequence[MessageRecord], context: ConsumeContext
    ) -> list[MessageRecord]:
        """Return the messages, and change the context, as the handler gets them: with the application's names."""
        context.group = self._namespace.unwrap(context.group)
        context.message_queue = self._namespace.unwrap_queue(context.message_queue)
        return [self._namespace.unwrap_record(message) for message in messages]


RETURN_TYPES: dict[ConsumeStatus | None, ConsumeReturnType] = {
    ConsumeStatus.CONSUME_SUCCESS: ConsumeReturnType.SUCCESS,
    ConsumeStatus.RECONSUME_LATER: ConsumeReturnType.FAILED,
    ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT: ConsumeReturnType.FAILED,
}
TRACED_OUTCOMES = {
    ConsumeReturnType.SUCCESS: TracedOutcome.SUCCESS,
    ConsumeReturnType.EXCEPTION: TracedOutcome.EXCEPTION,
    ConsumeReturnType.RETURNNULL: TracedOutcome.RETURN_NULL,
    ConsumeReturnType.FAILED: TracedOutcome.FAILED,
}


@dataclass(slots=True)
class _Second:
    """What one second brought of one topic; times are sums in ms."""

    calls: int = 0
    elapsed_ms: int = 0
    ok: int = 0
    failed: int = 0
    pulls: int = 0
    round_trip_ms: int = 0
    pulled: int = 0


class _TopicStatistics:
    """The last minute by seconds, and failures of the last hour by minutes."""

    def __init__(self) -> None:
        self.seconds: dict[int, _Second] = {}
        self.failed: Counter[int] = Counter()

    def at(self, now_ms: int) -> _Second:
        second = now_ms // 1000
        found = self.seconds.get(second)
        if found is None:
            self.drop_old(now_ms)
            found = self.seconds[second] = _Second()
        return found

    def drop_old(self, now_ms: int) -> None:
        oldest = now_ms // 1000 - WINDOW_S
        self.seconds = {at: each for at, each in self.seconds.items() if at > oldest}
        first = now_ms // 60_000 - FAILED_MINUTES
        self.failed = Counter({at: count for at, count in self.failed.items() if at > first})


class ConsumeStatisticsTable:
    """By the topic of the queue, for GET_CONSUMER_RUNNING_INFO (ConsumerStatsManager.java)."""

    def __init__(self) -> None:
        self._topics: defaultdict[str, _TopicStatistics] = defaultdict(_TopicStatistics)

    def count(self, topic: str, messages: int, is_success: bool, elapsed_ms: int, now_ms: int) -> None:
        """Record a call of the handler."""
        second = self._topics[topic].at(now_ms)
        second.calls += 1
        second.elapsed_ms += elapsed_ms
        if is_success:
            second.ok += messages
        else:
            second.failed += messages
            self._topics[topic].failed[now_ms // 60_000] += messages

    def count_pulled(self, topic: str, messages: int, round_trip_ms: int, now_ms: int) -> None:
        """Record a pull that brought messages."""
        second = self._topics[topic].at(now_ms)
        second.pulls += 1
        second.round_trip_ms += round_trip_ms
        second.pulled += messages

    def table(self, now_ms: int) -> dict[str, ConsumeStatistics]:
        return {topic: self._of_topic(self._topics[topic], now_ms) for topic in sorted(self._topics)}

    def _of_topic(self, statistics: _TopicStatistics, now_ms: int) -> ConsumeStatistics:
        statistics.drop_old(now_ms)
        seconds = statistics.seconds.values()
        pulls, calls = sum(each.pulls for each in seconds), sum(each.calls for each in seconds)
        return ConsumeStatistics(
            pull_rt=sum(each.round_trip_ms for each in seconds) / max(1, pulls),
            pull_tps=sum(each.pulled for each in seconds) / WINDOW_S,
            consume_rt=sum(each.elapsed_ms for each in seconds) / max(1, calls),
            consume_ok_tps=sum(each.ok for each in seconds) / WINDOW_S,
            consume_failed_tps=sum(each.failed for each in seconds) / WINDOW_S,
            consume_failed_msgs=statistics.failed.total(),
        )


class ConsumeMessageService(Protocol):
    """What PushConsumer needs of the concurrent and the orderly service."""

    def start(self) -> None: ...
    def submit(self, queue: ProcessQueue, messages: list[MessageRecord]) -> None:
        """Caller: pull loop, after the messages were put into the process queue."""

    async def close(self, wait_ms: int) -> None:
        """Take no more; let running handlers end within `wait_ms`, then cancel them."""
