"""The JSON dialect of RocketMQ's bodies, fastjson 1.x, both ways (protocol section 3.1).

Beyond JSON it has numbers as map keys (`{0:"10.0.0.1:10911"}`), objects as map keys
(`{{"brokerName":"b","queueId":0,"topic":"T"}:{...}}`), single-quoted strings and references (`{"$ref":"$.a.b"}`).
Here an object key that names a queue is a `MessageQueue`, any other one a tuple of its sorted items; number keys read
as text, so that quoted and unquoted ones look alike.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from json import decoder
from typing import Any

import orjson

from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.queue import MessageQueue

DEPTH_MAX = 64  # RocketMQ's bodies nest 6 deep; a deeper one is an attack on the stack
BODY_CHARACTERS_MAX = 256 * 1024 * 1024
DIALECT_REQUEST_BYTES_MAX = 32 * 1024  # read in 30 ms at most; the event loop waits meanwhile
REFERENCES_MAX = 16
# The string scanner of the standard library, in C.
scan_string = decoder.scanstring  # type: ignore[attr-defined]
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_SINGLE_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # nothing can write such text again
# Texts that hold nothing which could be taken for the beginning of a number key; those keys.
_PLAIN_TEXTS = re.compile(rb"(?:[^\"'\\]++|\"[^\"\\{,]*+\")*+")
_NUMBER_KEY = re.compile(rb"([{,])(\d+):")
_LARGE_NUMBER = re.compile(rb"\d{19}")  # the parser in C makes a fraction of what does not fit into 64 bits
_WORDS = {"true": True, "false": False, "null": None}
_QUEUE_FIELDS = {"brokerName", "queueId", "topic"}


def loads(data: bytes | bytearray | memoryview) -> Any:
    """Parse a body. Raises BodyError with the place of the fault."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _with_number_keys(bytes(data))
        if value is None:
            return _Parser(_decoded(data)).document()
    return _resolved(value, value) if b'"$ref"' in bytes(data) else value


def loads_request(data: bytes | memoryview, dialect_bytes_max: int = DIALECT_REQUEST_BYTES_MAX) -> Any:
    """Parse what a client sent. Raises BodyError.

    Java and Go clients send strict JSON, which is parsed in C. The dialect and references are read in Python, a second
    per MiB: up to `dialect_bytes_max`. References stand for copies: more than a few could be any amount of them.
    """
    data = bytes(data)
    references = data.count(b'"$ref"')
    if references > REFERENCES_MAX:
        raise BodyError(
            f"body has {references} references, at most {REFERENCES_MAX} are read: send the values"
        )
    if len(data) <= dialect_bytes_max:
        return loads(data)
    if references:
        raise BodyError(
            f"body of {len(data)} bytes with references, at most {dialect_bytes_max}: send the values"
        )
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BodyError(
            f"body of {len(data)} bytes is not strict JSON ({error}); fastjson's dialect is read up to "
            f"{dialect_bytes_max} bytes: send strict JSON"
        ) from None


def refuse_references(data: bytes, count_max: int = 0) -> None:
    """Raise BodyError for more references than are read."""
    count = data.count(b'"$ref"')
    if count > count_max:
        raise BodyError(
            f"body of {len(data)} bytes has {count} references, at most {count_max} are read: send the values"
        )


def _with_number_keys(data: bytes) -> Any:
    """Return the body as JSON if number keys are all that is not JSON in it; None for something else.

    So are tables of offsets, which are large: quoted and parsed in C.
    """
    if _PLAIN_TEXTS.fullmatch(data) is None or _LARGE_NUMBER.search(data) is not None:
        return None
    quoted, count = _NUMBER_KEY.subn(rb'\1"\2":', data)
    try:
        return orjson.loads(quoted) if count else None
    except orjson.JSONDecodeError:
        return None


def _decoded(data: bytes | bytearray | memoryview) -> str:
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError as error:
        raise BodyError(f"body is not UTF-8 at byte {error.start}") from None
    if len(text) > BODY_CHARACTERS_MAX:
        raise BodyError(f"body of {len(text)} characters")
    return text


@dataclass(frozen=True, slots=True)
class KeyReference:
    """A reference in a key's place, until the whole body is read."""

    path: str


class _Parser:
    """Recursive descent over the whole text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._has_references = '"$ref"' in text

    def document(self) -> Any:
        try:
            value, position = self._value(self._skip(0), 0)
        except (IndexError, ValueError) as error:
            raise BodyError(f"body is not JSON: {error}") from None
        position = self._skip(position)
        if position != len(self._text):
            raise self._fault("something after the end", position)
        return _resolved(value, value) if self._has_references else value

    def _fault(self, what: str, position: int) -> BodyError:
        return BodyError(f"body is not JSON: {what} at {position}: {self._text[position : position + 20]!r}")

    def _skip(self, position: int) -> int:
        found = _SPACE.match(self._text, position)
        assert found is not None  # the pattern matches nothing, too
        return found.end()

    def _value(self, position: int, depth: int) -> tuple[Any, int]:
        if depth > DEPTH_MAX:
            raise self._fault(f"nested deeper than {DEPTH_MAX}", position)
        first = self._text[position]
        if first == "{":
            return self._object(position + 1, depth + 1)
        if first == "[":
            return self._array(position + 1, depth + 1)
        if first in "\"'":
            return self._string(position)
        for word, value in _WORDS.items():
            if self._text.startswith(word, position):
                return value, position + len(word)
        return self._number(position)

    def _string(self, position: int) -> tuple[str, int]:
        if self._text[position] == '"':
            text, end = scan_string(self._text, position + 1, False)
            if not text.isascii() and _LONE_SURROGATE.search(text):
                raise self._fault("half a character", position)
            return text, end
        found = _SINGLE_QUOTED.match(self._text, position)
        if found is None:
            raise self._fault("unfinished text", position)
        return found.group(1).replace("\\'", "'"), found.end()

    def _number(self, position: int) -> tuple[int | float, int]:
        found = _NUMBER.match(self._text, position)
        if found is None:
            raise self._fault("no value", position)
        is_whole = found.group(1) is None and found.group(2) is None
        return (int(found.group()) if is_whole else float(found.group())), found.end()

    def _array(self, position: int, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        position = self._skip(position)
        if self._text[position] == "]":
            return items, position + 1
        while True:
            item, position = self._value(position, depth)
            items.append(item)
            position = self._skip(position)
            if self._text[position] == "]":
                return items, position + 1
            if self._text[position] != ",":
                raise self._fault("no comma", position)
            position = self._skip(position + 1)

    def _object(self, position: int, depth: int) -> tuple[dict[Any, Any], int]:
        members: dict[Any, Any] = {}
        position = self._skip(position)
        if self._text[position] == "}":
            return members, position + 1
        while True:
            key, position = self._value(position, depth)
            position = self._skip(position)
            if self._text[position] != ":":
                raise self._fault("no colon", position)
            value, position = self._value(self._skip(position + 1), depth)
            members[_key(key)] = value
            position = self._skip(position)
            if self._text[position] == "}":
                return members, position + 1
            if self._text[position] != ",":
                raise self._fault("no comma", position)
            position = self._skip(position + 1)


def _key(key: Any) -> Hashable:
    if isinstance(key, str):
        return key
    if isinstance(key, dict):
        if key.keys() == _QUEUE_FIELDS and isinstance(key["queueId"], int):
            return MessageQueue(str(key["topic"]), str(key["brokerName"]), key["queueId"])
        if key.keys() == {"$ref"}:
            return KeyReference(str(key["$ref"]))
        return tuple(sorted((str(name), str(value)) for name, value in key.items()))
    if isinstance(key, list):
        return tuple(str(item) for item in key)
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def _resolved(value: Any, root: Any, depth: int = 0) -> Any:
    """Put the object that a reference names in its place. A reference that leads nowhere becomes None."""
    if depth > DEPTH_MAX:
        raise BodyError(f"body nests deeper than {DEPTH_MAX}")
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get("$ref"), str):
            return _target(value["$ref"], root)
        return {
            resolved: _resolved(item, root, depth + 1)
            for key, item in value.items()
            if (resolved := _resolved_key(key, root)) is not None
        }
    if isinstance(value, list):
        return [_resolved(item, root, depth + 1) for item in value]
    return value


def _resolved_key(key: Hashable, root: Any) -> Hashable | None:
    """Return the queue that a reference in a key's place names; None, and the entry is left out, when it names none.

    Fastjson prints some of these as `$.table.null`, which no decoder can follow (protocol section 3.1).
    """
    if not isinstance(key, KeyReference):
        return key
    target = _target(key.path, root)
    found = _key(target) if isinstance(target, dict) else None
    return found if isinstance(found, MessageQueue) else None


def _target(path: str, root: Any) -> Any:
    if not path.startswith("$."):
        return None  # "$", ".." and "@" name an object that contains the reference: a cycle
    here = root
    for step in re.findall(r"[^.\[\]]+", path[2:]):
        if isinstance(here, dict):
            here = here.get(step)
        elif isinstance(here, list) and step.isdigit() and int(step) < len(here):
            here = here[int(step)]
        else:
            return None
    return None if isinstance(here, dict) and "$ref" in here else here


def dumps(value: Any) -> bytes:
    """Write a body as Java does: compact, text keys sorted, number keys bare, queues as object keys."""
    pieces: list[bytes] = []
    _write(value, pieces)
    return b"".join(pieces)


def _write(value: Any, pieces: list[bytes]) -> None:
    if isinstance(value, dict):
        opening = b"{"
        for key, item in _in_order(value):
            pieces.append(opening)
            pieces.append(_written_key(key))
            pieces.append(b":")
            _write(item, pieces)
            opening = b","
        pieces.append(b"{}" if opening == b"{" else b"}")
    elif isinstance(value, list | tuple):
        opening = b"["
        for item in value:
            pieces.append(opening)
            _write(item, pieces)
            opening = b","
        pieces.append(b"[]" if opening == b"[" else b"]")
    elif isinstance(value, MessageQueue):
        pieces.append(_written_queue(value))
    else:
        pieces.append(orjson.dumps(value))


def _in_order(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    if all(isinstance(key, str) for key in value):
        return sorted(value.items())
    return list(value.items())


def _written_key(key: Any) -> bytes:
    if isinstance(key, MessageQueue):
        return _written_queue(key)
    if isinstance(key, int):
        return str(int(key)).encode()
    return orjson.dumps(str(key))


def _written_queue(queue: MessageQueue) -> bytes:
    fields = {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
    return orjson.dumps(fields)
