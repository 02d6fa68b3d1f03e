"""A stored message as a person reads it: every field of the record, and a body that is safe to show.

A body is shown as ``json`` (valid JSON, indented), ``text`` (UTF-8 without control characters) or ``hex``
(anything else, the first bytes of it). What is longer than the limits is cut and says so; what does not
decompress is shown as stored.
"""

from __future__ import annotations

import dataclasses
import json

from console.mqadmin import MessageRecord

BODY_SHOWN_BYTES = 256 * 1024  # of one message on its own page; a 4 MiB body would freeze the browser
BODY_IN_LIST_BYTES = 512  # of each message in a list: about two lines
HEX_SHOWN_BYTES = 4 * 1024
HEX_WIDTH = 16


@dataclasses.dataclass(frozen=True, slots=True)
class MessageView:
    """One message. Times in ms since 1970 UTC, sizes in bytes; ``body_bytes`` is the decompressed size."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str
    offset_message_id: str
    keys: str
    tags: str
    store_timestamp_ms: int
    born_timestamp_ms: int
    born_host: str
    store_host: str
    reconsume_times: int
    body_bytes: int
    body_text: str
    body_format: str  # json | text | hex
    body_cut: bool
    body_problem: str  # "" or why it is shown as stored: "does not inflate: …"
    properties: dict[str, str]
    size_bytes: int
    flag: int
    sys_flag: int
    commit_log_offset: int


def message_view(
    record: MessageRecord, broker_name: str, *, limit_bytes: int = BODY_SHOWN_BYTES
) -> MessageView:
    """Render one record; never raises for what a producer put into the body."""
    problem = ""
    try:
        body = record.decoded_body()
    except Exception as error:  # noqa: BLE001  whatever zlib, lz4 or zstd raise about foreign bytes
        body, problem = record.body, f"does not decompress: {error}"
    text, body_format, cut = render_body(body, limit_bytes)
    return MessageView(
        topic=record.topic,
        broker_name=broker_name,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        message_id=record.message_id,
        offset_message_id=record.offset_message_id,
        keys=record.keys or "",
        tags=record.tags or "",
        store_timestamp_ms=record.store_timestamp_ms,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=_host(record.born_host),
        store_host=_host(record.store_host),
        reconsume_times=record.reconsume_times,
        body_bytes=len(body),
        body_text=text,
        body_format=body_format,
        body_cut=cut,
        body_problem=problem,
        properties=dict(record.properties),
        size_bytes=record.store_size_bytes,
        flag=record.flag,
        sys_flag=record.sys_flag,
        commit_log_offset=record.commit_log_offset,
    )


def render_body(body: bytes, limit_bytes: int) -> tuple[str, str, bool]:
    """(text, format, whether it was cut) of a body."""
    whole = len(body) <= limit_bytes
    try:
        text = body.decode("utf-8") if whole else _cut_utf8(body[:limit_bytes])
    except UnicodeDecodeError:
        return _hex(body, min(limit_bytes, HEX_SHOWN_BYTES))
    if any(ord(letter) < 32 and letter not in "\t\r\n" for letter in text) or "\x7f" in text:
        return _hex(body, min(limit_bytes, HEX_SHOWN_BYTES))
    if whole and text[:1] in ("{", "["):
        try:
            return json.dumps(json.loads(text), indent=2, ensure_ascii=False), "json", False
        except (ValueError, RecursionError):
            return text, "text", False
    return text, "text", not whole


def _cut_utf8(piece: bytes) -> str:
    """Decode a cut piece: up to three bytes of a split character at its end are dropped, other damage
    raises."""
    for drop in range(4):
        try:
            return piece[: len(piece) - drop].decode("utf-8")
        except UnicodeDecodeError as error:
            if error.start < len(piece) - 4:
                raise
    return piece.decode("utf-8")


def _hex(body: bytes, limit_bytes: int) -> tuple[str, str, bool]:
    """``00000000  7b 22 61 22 …  {"a"…``: offset, bytes, printable ASCII."""
    lines = []
    for start in range(0, min(len(body), limit_bytes), HEX_WIDTH):
        row = body[start : min(start + HEX_WIDTH, limit_bytes)]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<{HEX_WIDTH * 3 - 1}}  {letters}")
    return "\n".join(lines), "hex", len(body) > limit_bytes


def _host(host: tuple[str, int]) -> str:
    return f"{host[0]}:{host[1]}"
