"""Parse messages of RMQ_SYS_TRACE_TOPIC: what clients with tracing record about sending and consuming. Pure.

Records are separated by 0x02, fields by 0x01 (protocol 7.5); missing values are the text "null", trailing fields
may be absent. A malformed record is skipped: a trace is a hint, never a reason to fail.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from console.text import Text

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
FIELD, RECORD = "\x01", "\x02"
RECORDS_MAX = 2_000  # of one message; a batch of traces has at most 128,000 bytes
# ConsumeReturnType
OUTCOMES = {
    "0": Text("success"),
    "1": Text("timed out"),
    "2": Text("threw an exception"),
    "3": Text("returned nothing"),
    "4": Text("failed"),
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
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    clients: dict[str, str] = {}
    for text, client in bodies:
        for record in text.split(RECORD)[:RECORDS_MAX]:
            fields = record.split(FIELD)
            if fields[0] == "Pub" and len(fields) >= 12 and fields[5] == message_id:
                sent.append(_sent(fields, client))
            elif fields[0] == "SubBefore" and len(fields) >= 6 and fields[5] == message_id:
                before[fields[4]] = fields
                clients[fields[4]] = client
            elif fields[0] == "SubAfter" and len(fields) >= 5 and fields[2] == message_id:
                after[fields[1]] = fields
    tries = [
        _consumed(before.get(request), after.get(request), clients.get(request, ""))
        for request in {**before, **after}
    ]
    return Trace(
        sorted(sent, key=lambda each: each.at_ms),
        sorted((each for each in tries if each.group), key=lambda each: each.began_ms or 0),
    )


def _sent(fields: list[str], client: str) -> Sent:
    success = fields[13] if len(fields) > 13 else fields[12] if len(fields) > 12 else "true"
    return Sent(
        at_ms=_number(fields[1]) or 0,
        group=_text(fields[3]),
        client=_text(fields[14]) if len(fields) > 14 else client,
        cost_ms=_number(fields[10]),
        is_success=success != "false",
    )


def _consumed(before: list[str] | None, after: list[str] | None, client: str) -> Consumed:
    group = _text(before[3]) if before else _text(after[8]) if after and len(after) > 8 else ""
    cost_ms = _number(after[3]) if after else None
    ended_ms = _number(after[7]) if after and len(after) > 7 else None
    began_ms = _number(before[1]) if before else None
    if began_ms is None and ended_ms is not None:
        began_ms = ended_ms - (cost_ms or 0)
    code = after[6] if after and len(after) > 6 else ""
    is_success = None if after is None else after[4] == "true"
    return Consumed(
        group=group.removeprefix("%RETRY%"),
        client=client,
        began_ms=began_ms,
        cost_ms=cost_ms,
        is_success=is_success,
        outcome=Text()
        if is_success is None
        else OUTCOMES["0" if is_success else code if code in OUTCOMES else "4"],
        retries=(_number(before[6]) or 0) if before and len(before) > 6 else 0,
    )


def _text(field: str) -> str:
    return "" if field == "null" else field


def _number(field: str) -> int | None:
    try:
        return int(field)
    except ValueError:
        return None
