"""Render a body as text: JSON, text, MessagePack, Protobuf, hex, base64. Pure; never raises for a body.

``auto`` takes the first that fits: Protobuf where the topic has a schema, JSON, UTF-8 text, MessagePack, hex. A
requested format that does not fit falls back to hex and states why.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import json
from collections.abc import Callable
from typing import Any

import msgspec

from console.text import Text, text_of

FORMATS = (
    # (value, label) of each format a reader may request.
    ("auto", Text("Auto")),
    ("json", "JSON"),
    ("text", Text("Text")),
    ("hex", Text("Hex")),
    ("base64", "Base64"),
    ("msgpack", "MessagePack"),
    ("protobuf", "Protobuf"),
)
FORMAT_LABELS = dict(FORMATS)
FORMAT_NAMES = frozenset(FORMAT_LABELS)
# Those whose text is indented JSON.
STRUCTURED_FORMATS = frozenset({"json", "msgpack", "protobuf"})
# Larger bodies are not parsed and indented, but shown as text or hex.
STRUCTURED_BYTES_MAX = 1024 * 1024
HEX_SHOWN_BYTES = 4 * 1024
HEX_WIDTH = 16
# Of nested MessagePack values.
DEPTH_MAX = 64

# Bytes → JSON text of a Protobuf message; raises ValueError.
ProtobufDecoder = Callable[[bytes], str]


@dataclasses.dataclass(frozen=True, slots=True)
class Rendered:
    """A body as text. ``format``: the one used; ``problem``: why it is not the requested one."""

    text: str
    format: str
    is_cut: bool = False
    problem: Text = Text()


def render_body(
    body: bytes, limit_bytes: int, wanted: str = "auto", protobuf: ProtobufDecoder | None = None
) -> Rendered:
    """Render a body, at most about ``limit_bytes`` of it."""
    if wanted == "auto":
        return _automatic(body, limit_bytes, protobuf)
    try:
        return _as(wanted, body, limit_bytes, protobuf)
    except ValueError as error:
        return dataclasses.replace(_hex(body, limit_bytes), problem=text_of(error))


def _automatic(body: bytes, limit_bytes: int, protobuf: ProtobufDecoder | None) -> Rendered:
    problem = Text()
    # A schema stored for the topic takes precedence.
    if protobuf is not None:
        try:
            return _as("protobuf", body, limit_bytes, protobuf)
        except ValueError as error:
            problem = text_of(error)
    try:
        shown = _text(body, limit_bytes)
    except ValueError:
        try:
            return dataclasses.replace(_msgpack(body, limit_bytes, containers_only=True), problem=problem)
        except ValueError:
            return dataclasses.replace(_hex(body, limit_bytes), problem=problem)
    if not shown.is_cut and shown.text[:1] in ("{", "["):
        # The text may only begin like JSON.
        with contextlib.suppress(ValueError):
            shown = _json(body, limit_bytes)
    return dataclasses.replace(shown, problem=problem)


def _as(wanted: str, body: bytes, limit_bytes: int, protobuf: ProtobufDecoder | None) -> Rendered:
    if wanted == "json":
        return _json(body, limit_bytes)
    if wanted == "text":
        return _text(body, limit_bytes)
    if wanted == "msgpack":
        return _msgpack(body, limit_bytes, containers_only=False)
    if wanted == "protobuf":
        return _protobuf(body, limit_bytes, protobuf)
    if wanted == "base64":
        return Rendered(base64.b64encode(body[:limit_bytes]).decode(), "base64", len(body) > limit_bytes)
    if wanted == "hex":
        return _hex(body, limit_bytes)
    raise ValueError(Text("there is no body format %(name)s", name=repr(wanted[:20])))


def _indented(value: Any, format: str, limit_bytes: int) -> Rendered:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return Rendered(text[: limit_bytes * 2], format, len(text) > limit_bytes * 2)


def _json(body: bytes, limit_bytes: int) -> Rendered:
    if len(body) > STRUCTURED_BYTES_MAX:
        raise ValueError(Text("JSON of %(number)s bytes is too long to be indented", number=len(body)))
    try:
        return _indented(json.loads(body), "json", limit_bytes)
    except (ValueError, RecursionError) as error:
        raise ValueError(Text("not JSON: %(why)s", why=text_of(error))) from error


def _text(body: bytes, limit_bytes: int) -> Rendered:
    whole = len(body) <= limit_bytes
    try:
        text = body.decode("utf-8") if whole else _cut_utf8(body[:limit_bytes])
    except UnicodeDecodeError as error:
        raise ValueError(
            Text(
                "not UTF-8 text: byte %(place)s is %(value)s",
                place=error.start,
                value=f"{body[error.start]:#04x}",
            )
        ) from error
    if any(ord(letter) < 32 and letter not in "\t\r\n" for letter in text) or "\x7f" in text:
        raise ValueError(Text("not text: it has control characters"))
    return Rendered(text, "text", not whole)


def _cut_utf8(piece: bytes) -> str:
    """Decode a cut piece; drops up to three bytes of a split character at its end, raises otherwise."""
    for drop in range(4):
        try:
            return piece[: len(piece) - drop].decode("utf-8")
        except UnicodeDecodeError as error:
            if error.start < len(piece) - 4:
                raise
    return piece.decode("utf-8")


def _msgpack(body: bytes, limit_bytes: int, *, containers_only: bool) -> Rendered:
    """Decode MessagePack; ``containers_only`` refuses single values: half of all bytes are valid ones."""
    if len(body) > STRUCTURED_BYTES_MAX:
        raise ValueError(Text("MessagePack of %(number)s bytes is too long to be shown", number=len(body)))
    try:
        value = msgspec.msgpack.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError, OverflowError) as error:
        raise ValueError(Text("not MessagePack: %(why)s", why=text_of(error))) from error
    if containers_only and (not isinstance(value, dict | list) or not value):
        raise ValueError(Text("not a MessagePack map or list"))
    return _indented(_plain(value, 0), "msgpack", limit_bytes)


def _plain(value: Any, depth: int) -> Any:
    """Convert a MessagePack value to JSON types: bytes as hex, keys as text."""
    if depth > DEPTH_MAX:
        raise ValueError(Text("MessagePack nested deeper than %(number)s", number=DEPTH_MAX))
    if isinstance(value, dict):
        return {_key(key): _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": bytes(value).hex(" ")}
    if isinstance(value, msgspec.msgpack.Ext):
        return {"ext": value.code, "bytes": bytes(value.data).hex(" ")}
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    return bytes(key).hex(" ") if isinstance(key, bytes) else str(key)


def _protobuf(body: bytes, limit_bytes: int, protobuf: ProtobufDecoder | None) -> Rendered:
    if protobuf is None:
        raise ValueError(Text("no Protobuf schema is stored for this topic"))
    if len(body) > STRUCTURED_BYTES_MAX:
        raise ValueError(Text("Protobuf of %(number)s bytes is too long to be shown", number=len(body)))
    text = protobuf(body)
    return Rendered(text[: limit_bytes * 2], "protobuf", len(text) > limit_bytes * 2)


def _hex(body: bytes, limit_bytes: int) -> Rendered:
    """Dump bytes as ``00000000  7b 22 61 22 …  {"a"…``: offset, bytes, printable ASCII."""
    limit_bytes = min(limit_bytes, HEX_SHOWN_BYTES)
    lines = []
    for start in range(0, min(len(body), limit_bytes), HEX_WIDTH):
        row = body[start : min(start + HEX_WIDTH, limit_bytes)]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<{HEX_WIDTH * 3 - 1}}  {letters}")
    return Rendered("\n".join(lines), "hex", len(body) > limit_bytes)
