"""Running the handler: what it is given, what it may answer, and how often it went how.

Shared by both services.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, cast

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
STATISTICS_WINDOW_MS = 60_000


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


@dataclass(slots=True)
class ConsumeContext:
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


@dataclass(slots=True)
class ConsumeOutcome:
    """One call of the handler. Not frozen: that would double what it costs to make one for each message."""

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
        self.clock = clock
        self.statistics = ConsumeStatisticsTable()
        self.rate = rate or ConsumeRate()
        self._namespace = namespace
        self._handler = as_async_handler(handler)

    async def call(self, messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeOutcome:
        """Caller: workers. Affects: statistics, traces. Cancelling it cancels the handler."""
        if self._tracer is None:
            return await self.call_untraced(messages, context)
        request_id = self._tracer.before(messages, self.clock())
        outcome = await self.call_untraced(messages, context)
        self._tracer.after(
            request_id,
            messages,
            TRACED_OUTCOMES[outcome.return_type],
            is_success=outcome.is_success,
            ended_ms=self.clock(),
            elapsed_ms=outcome.elapsed_ms,
        )
        return outcome

    async def call_untraced(
        self, messages: Sequence[MessageRecord], context: ConsumeContext
    ) -> ConsumeOutcome:
        """As `call`, for what is no delivery to the group."""
        started_ms = self.clock()
        error = ""
        try:
            given = self._without_namespace(messages, context) if self._namespace else messages
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
        is_success = return_type is ConsumeReturnType.SUCCESS
        elapsed_ms = self.clock() - started_ms
        self.statistics.count(
            messages[0].topic, len(messages), is_success, elapsed_ms, started_ms + elapsed_ms
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
class _TopicStatistics:
    # (time, messages, success, elapsed) of handler calls and (time, messages, round trip) of pulls, last
    # minute only
    calls: deque[tuple[int, int, bool, int]] = field(default_factory=deque)
    pulls: deque[tuple[int, int, int]] = field(default_factory=deque)
    failed_total: int = 0


# Calls remembered per topic: a minute at 1,000 calls a second; beyond that the rate is an underestimate.
STATISTICS_EVENTS_MAX = 60_000


class ConsumeStatisticsTable:
    """Rates of the last minute per topic, for GET_CONSUMER_RUNNING_INFO (ConsumerStatsManager.java)."""

    def __init__(self) -> None:
        self._topics: dict[str, _TopicStatistics] = {}

    def count(self, topic: str, messages: int, is_success: bool, elapsed_ms: int, now_ms: int) -> None:
        statistics = self._topics.setdefault(topic, _TopicStatistics())
        statistics.calls.append((now_ms, messages, is_success, elapsed_ms))
        if not is_success:
            statistics.failed_total += messages
        self._drop_old(statistics, now_ms)

    def count_pulled(self, topic: str, messages: int, round_trip_ms: int, now_ms: int) -> None:
        statistics = self._topics.setdefault(topic, _TopicStatistics())
        statistics.pulls.append((now_ms, messages, round_trip_ms))
        self._drop_old(statistics, now_ms)

    def table(self, now_ms: int) -> dict[str, ConsumeStatistics]:
        result = {}
        for topic, statistics in sorted(self._topics.items()):
            self._drop_old(statistics, now_ms)
            calls, pulls = statistics.calls, statistics.pulls
            window_s = STATISTICS_WINDOW_MS / 1000
            result[topic] = ConsumeStatistics(
                pull_rt=_mean([round_trip for _, _, round_trip in pulls]),
                pull_tps=sum(messages for _, messages, _ in pulls) / window_s,
                consume_rt=_mean([elapsed for _, _, _, elapsed in calls]),
                consume_ok_tps=sum(messages for _, messages, success, _ in calls if success) / window_s,
                consume_failed_tps=sum(messages for _, messages, success, _ in calls if not success)
                / window_s,
                consume_failed_msgs=statistics.failed_total,
            )
        return result

    def _drop_old(self, statistics: _TopicStatistics, now_ms: int) -> None:
        oldest_ms = now_ms - STATISTICS_WINDOW_MS
        for events in (statistics.calls, statistics.pulls):
            while events and (events[0][0] < oldest_ms or len(events) > STATISTICS_EVENTS_MAX):
                events.popleft()


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0


class ConsumeMessageService(Protocol):
    """What PushConsumer needs of the concurrent and the orderly service."""

    def start(self) -> None: ...
    def submit(self, queue: ProcessQueue, messages: list[MessageRecord]) -> None:
        """Caller: pull loop, after the messages were put into the process queue."""

    async def close(self, wait_ms: int) -> None:
        """Take no more; let running handlers end within `wait_ms`, then cancel them."""
