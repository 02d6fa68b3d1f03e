"""Encode and decode message traces: what clients with tracing record about sending and consuming. Pure.

Records end with 0x02, their fields are separated by 0x01; None is the text `null`. Source: protocol 7.5,
TraceDataEncoder.java. A malformed record is skipped: a trace is a hint, never a reason to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import IntEnum
from itertools import islice

FIELD_SEPARATOR, RECORD_END = "\x01", "\x02"
NULL = "null"
RECORDS_MAX = 2_000  # read of one message; Java's clients send at most 128,000 bytes


class TracedMessageType(IntEnum):
    """MessageType.java, by ordinal."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3
    ORDER = 4


class TracedOutcome(IntEnum):
    """How a try to consume went (ConsumeReturnType.java, by ordinal)."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


# The order of the fields is that on the wire. Fields with a default are left out at the end where they are None.


@dataclass(frozen=True, slots=True)
class PubTrace:
    """A send that a broker answered. `cost_ms` is the time until its answer."""

    began_ms: int | None
    region: str | None
    group: str | None
    topic: str | None
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    body_bytes: int | None
    cost_ms: int | None
    message_type: int | None
    offset_message_id: str | None
    is_success: bool
    client_host: str | None = None


@dataclass(frozen=True, slots=True)
class SubBeforeTrace:
    """A consumer begins to consume a message; `request_id` is that of its SubAfterTrace."""

    began_ms: int | None
    region: str | None
    group: str | None
    request_id: str
    message_id: str
    retries: int | None
    keys: str | None


@dataclass(frozen=True, slots=True)
class SubAfterTrace:
    """A consumer is done with a message. `cost_ms` is the batch's time divided by its messages."""

    request_id: str
    message_id: str
    cost_ms: int | None
    is_success: bool
    keys: str | None = None
    outcome: int | None = None
    ended_ms: int | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class EndTransactionTrace:
    """A producer reports the outcome of a local transaction; `state` is a name of LocalTransactionState.java."""

    ended_ms: int | None
    region: str | None
    group: str | None
    topic: str | None
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    message_type: int | None
    transaction_id: str | None
    state: str | None
    is_from_check: bool


TraceRecord = PubTrace | SubBeforeTrace | SubAfterTrace | EndTransactionTrace


def encode_trace(record: TraceRecord) -> str:
    """Return the record as Java's clients write it, with its end."""
    values = [getattr(record, name) for name in FIELDS[type(record)]]
    least = LEAST[type(record)]
    while len(values) > least and values[-1] is None:
        values.pop()
    return FIELD_SEPARATOR.join([NAMES[type(record)], *map(_encoded, values)]) + RECORD_END


def decode_traces(text: str, message_id: str = "") -> Iterator[TraceRecord]:
    """Yield the records of a trace message's body; with `message_id` only records of that message."""
    for segment in islice(text.split(RECORD_END), RECORDS_MAX):
        if message_id not in segment:
            continue
        name, *values = segment.split(FIELD_SEPARATOR)
        decode = DECODERS.get(name)
        record = decode(values) if decode else None
        if record is not None and message_id in ("", record.message_id):
            yield record


def _pub(values: Sequence[str]) -> PubTrace | None:
    if len(values) < 11:
        return None
    # Old clients write no offset id; the oldest no result either, and only of sends that succeeded.
    has_offset_id = len(values) > 12
    success = values[12] if has_offset_id else values[11] if len(values) > 11 else "true"
    return PubTrace(
        began_ms=_number(values[0]),
        region=_text(values[1]),
        group=_text(values[2]),
        topic=_text(values[3]),
        message_id=values[4],
        tags=_text(values[5]),
        keys=_text(values[6]),
        store_host=_text(values[7]),
        body_bytes=_number(values[8]),
        cost_ms=_number(values[9]),
        message_type=_number(values[10]),
        offset_message_id=_text(values[11]) if has_offset_id else None,
        is_success=success != "false",
        client_host=_text(values[13]) if len(values) > 13 else None,
    )


def _sub_before(values: Sequence[str]) -> SubBeforeTrace | None:
    if len(values) < 5:
        return None
    return SubBeforeTrace(
        began_ms=_number(values[0]),
        region=_text(values[1]),
        group=_text(values[2]),
        request_id=values[3],
        message_id=values[4],
        retries=_number(values[5]) if len(values) > 5 else None,
        keys=_text(values[6]) if len(values) > 6 else None,
    )


def _sub_after(values: Sequence[str]) -> SubAfterTrace | None:
    if len(values) < 4:
        return None
    return SubAfterTrace(
        request_id=values[0],
        message_id=values[1],
        cost_ms=_number(values[2]),
        is_success=values[3] == "true",
        keys=_text(values[4]) if len(values) > 4 else None,
        outcome=_number(values[5]) if len(values) > 5 else None,
        ended_ms=_number(values[6]) if len(values) > 6 else None,
        group=_text(values[7]) if len(values) > 7 else None,
    )


def _end_transaction(values: Sequence[str]) -> EndTransactionTrace | None:
    if len(values) < 12:
        return None
    return EndTransactionTrace(
        ended_ms=_number(values[0]),
        region=_text(values[1]),
        group=_text(values[2]),
        topic=_text(values[3]),
        message_id=values[4],
        tags=_text(values[5]),
        keys=_text(values[6]),
        store_host=_text(values[7]),
        message_type=_number(values[8]),
        transaction_id=_text(values[9]),
        state=_text(values[10]),
        is_from_check=values[11] == "true",
    )


DECODERS: dict[str, Callable[[Sequence[str]], TraceRecord | None]] = {
    "Pub": _pub,
    "SubBefore": _sub_before,
    "SubAfter": _sub_after,
    "EndTransaction": _end_transaction,
}
NAMES: dict[type[TraceRecord], str] = {
    PubTrace: "Pub",
    SubBeforeTrace: "SubBefore",
    SubAfterTrace: "SubAfter",
    EndTransactionTrace: "EndTransaction",
}
FIELDS = {kind: [field.name for field in fields(kind)] for kind in NAMES}
LEAST = {kind: sum(field.default is MISSING for field in fields(kind)) for kind in NAMES}


def _encoded(value: str | int | None) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(int(value))


def _text(value: str) -> str | None:
    return None if value == NULL else value


def _number(value: str) -> int | None:
    try:
        return int(value)
    except ValueError:
        return None
