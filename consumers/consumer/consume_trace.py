"""What a consumer records about a call of its handler, as traces.

Source: ConsumeMessageTraceHookImpl.java.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brokerd.remoting.message.names import MessageProperty
from brokerd.remoting.message.record import MessageRecord
from brokerd.remoting.message.trace import SubAfterTrace, SubBeforeTrace, TracedOutcome
from consumers.client.client_instance import ClientInstance
from consumers.client.trace_dispatcher import TraceDispatcher
from consumers.clock import Clock
from consumers.producer.outgoing import UniqueKeys
from consumers.producer.producer import create_trace_dispatcher


class ConsumeTracer:
    """Records the begin and the end of each call; both have the same request id."""

    def __init__(
        self,
        dispatcher: TraceDispatcher,
        group: str,
        create_id: Callable[[], str],
        consume_timeout_ms: int | None,
    ) -> None:
        self.dispatcher = dispatcher
        self._consume_timeout_ms = consume_timeout_ms
        self._group = group
        self._create_id = create_id

    def before(self, messages: Sequence[MessageRecord], began_ms: int) -> str:
        """Record that the handler gets them; return the request id for `after`."""
        request_id = self._create_id()
        for message in filter(_is_traced, messages):
            trace = SubBeforeTrace(
                began_ms=began_ms,
                region=message.properties.get(MessageProperty.MSG_REGION),
                group=self._group,
                request_id=request_id,
                message_id=message.message_id,
                retries=message.reconsume_times,
                keys=message.properties.get(MessageProperty.KEYS),
            )
            self.dispatcher.append(trace)
        return request_id

    def after(
        self,
        request_id: str,
        messages: Sequence[MessageRecord],
        outcome: TracedOutcome,
        *,
        is_success: bool,
        ended_ms: int,
        elapsed_ms: int,
    ) -> None:
        """Record how it went. A call without an exception that took `consume_timeout_ms` is one that timed out."""
        limit_ms = self._consume_timeout_ms
        is_late = limit_ms is not None and elapsed_ms >= limit_ms
        if is_late and outcome in (TracedOutcome.SUCCESS, TracedOutcome.FAILED):
            outcome = TracedOutcome.TIME_OUT
        for message in filter(_is_traced, messages):
            trace = SubAfterTrace(
                request_id=request_id,
                message_id=message.message_id,
                cost_ms=elapsed_ms // len(messages),
                is_success=is_success,
                keys=message.properties.get(MessageProperty.KEYS),
                outcome=outcome,
                ended_ms=ended_ms,
                group=self._group,
            )
            self.dispatcher.append(trace)

    def taken(self, messages: Sequence[MessageRecord], now_ms: int) -> None:
        """Record messages that the application polled: as consumed at once, since their end is not known."""
        request_id = self.before(messages, now_ms)
        self.after(
            request_id, messages, TracedOutcome.SUCCESS, is_success=True, ended_ms=now_ms, elapsed_ms=0
        )


def create_tracer(
    client: ClientInstance, group: str, topic: str, clock: Clock, consume_timeout_ms: int | None = None
) -> ConsumeTracer:
    """Return what traces a consumer of `group`. Raises ValueError for a topic that RocketMQ would not take."""
    dispatcher = create_trace_dispatcher(client, group, "CONSUME", topic)
    return ConsumeTracer(dispatcher, group, UniqueKeys(clock).create, consume_timeout_ms)


def _is_traced(message: MessageRecord) -> bool:
    return message.properties.get(MessageProperty.TRACE_SWITCH) != "false"
