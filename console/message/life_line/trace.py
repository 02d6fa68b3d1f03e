"""Read what clients with tracing record about sending and consuming one message. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from brokerd.remoting.message.trace import (
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TracedOutcome,
    decode_traces,
)
from console.text import Text

OUTCOMES: dict[int | None, Text] = {
    TracedOutcome.SUCCESS: Text("success"),
    TracedOutcome.TIME_OUT: Text("timed out"),
    TracedOutcome.EXCEPTION: Text("threw an exception"),
    TracedOutcome.RETURN_NULL: Text("returned nothing"),
    TracedOutcome.FAILED: Text("failed"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """A producer's record of a send. Times in ms since 1970 UTC."""

    at_ms: int
    group: str
    client: str
    cost_ms: int | None
    is_success: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Consumed:
    """A consumer's record of one try: start, duration and outcome (None: not reported yet)."""

    group: str
    client: str
    began_ms: int | None
    cost_ms: int | None
    is_success: bool | None
    outcome: Text
    retries: int

    @property
    def ended_ms(self) -> int | None:
        return None if self.began_ms is None else self.began_ms + (self.cost_ms or 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Trace:
    """All trace records of one message, oldest first."""

    sent: list[Sent]
    consumed: list[Consumed]


def read_trace(bodies: Iterable[tuple[str, str]], message_id: str) -> Trace:
    """Read what (text of a trace message, client that sent it) pairs record about ``message_id``."""
    sent: list[Sent] = []
    before: dict[str, SubBeforeTrace] = {}
    after: dict[str, SubAfterTrace] = {}
    clients: dict[str, str] = {}
    for text, client in bodies:
        for record in decode_traces(text, message_id):
            match record:
                case PubTrace():
                    sent.append(_sent(record, client))
                case SubBeforeTrace():
                    before[record.request_id] = record
                    clients[record.request_id] = client
                case SubAfterTrace():
                    after[record.request_id] = record
    tries = [
        _consumed(before.get(request), after.get(request), clients.get(request, ""))
        for request in {**before, **after}
    ]
    return Trace(
        sorted(sent, key=lambda each: each.at_ms),
        sorted((each for each in tries if each.group), key=lambda each: each.began_ms or 0),
    )


def _sent(record: PubTrace, client: str) -> Sent:
    return Sent(
        at_ms=record.began_ms or 0,
        group=record.group or "",
        client=record.client_host or client,
        cost_ms=record.cost_ms,
        is_success=record.is_success,
    )


def _consumed(before: SubBeforeTrace | None, after: SubAfterTrace | None, client: str) -> Consumed:
    group = before.group if before else after.group if after else None
    cost_ms = after.cost_ms if after else None
    began_ms = before.began_ms if before else None
    if began_ms is None and after is not None and after.ended_ms is not None:
        began_ms = after.ended_ms - (cost_ms or 0)
    outcome = Text()
    if after is not None:
        code = TracedOutcome.SUCCESS if after.is_success else after.outcome
        outcome = OUTCOMES.get(code, OUTCOMES[TracedOutcome.FAILED])
    return Consumed(
        group=(group or "").removeprefix("%RETRY%"),
        client=client,
        began_ms=began_ms,
        cost_ms=cost_ms,
        is_success=after.is_success if after else None,
        outcome=outcome,
        retries=(before.retries or 0) if before else 0,
    )
