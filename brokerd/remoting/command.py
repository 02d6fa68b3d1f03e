"""One command of the remoting protocol and its frame, both ways (protocol sections 1.1-1.4).

      0        4            5              8                8 + n
      | length | serialize  | header bytes | header         | body          |
      | i32    | u8         | u24          | JSON or binary | rest          |

`length` counts what follows it. The binary header (serialize type 1, ROCKETMQ):

      | code | language | version | opaque | flag | remark length, remark | ext length, ext fields |
      | i16  | u8       | i16     | i32    | i32  | i32, UTF-8            | i32, entries           |

and an entry is key length i16, key, value length i32, value. Lengths of 0 mean null.
"""

from __future__ import annotations

import json
import struct
from enum import IntEnum
from typing import Annotated, Any

import msgspec
import orjson

from brokerd.remoting.codes import MQ_VERSION, LanguageCode
from brokerd.remoting.errors import RemotingCommandError

PREFIX = struct.Struct(">iI")  # length, serialize type in the top byte and header length below
BINARY_HEAD = struct.Struct(">hBhii")  # code, language, version, opaque, flag
LENGTH = struct.Struct(">i")
HEADER_LENGTH = struct.Struct(">I")  # the second half of PREFIX
KEY_LENGTH = struct.Struct(">h")
assert PREFIX.size == 8
assert BINARY_HEAD.size == 13

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2
INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
LANGUAGE_CODES = {language.name: int(language) for language in LanguageCode}
LANGUAGE_NAMES = {int(language): language.name for language in LanguageCode}


class SerializeType(IntEnum):
    """How a header is written. Bodies do not depend on it."""

    JSON = 0
    ROCKETMQ = 1


_Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]


class _JsonHeader(msgspec.Struct, gc=False):
    """What a JSON header may hold; unknown keys are ignored as Java does."""

    code: _Int32
    language: str | int | None = "JAVA"
    version: _Int32 = 0
    opaque: _Int32 = 0
    flag: _Int32 = 0
    remark: str | None = None
    extFields: dict[str, str] | None = None  # noqa: N815


class _LenientHeader(msgspec.Struct):
    """The same with numbers as text and anything in the rest: Java coerces numbers and booleans and drops nulls."""

    code: int
    language: Any = "JAVA"
    version: int = 0
    opaque: int = 0
    flag: int = 0
    remark: Any = None
    extFields: dict[str, Any] | None = None  # noqa: N815


_strict = msgspec.json.Decoder(_JsonHeader)
_lenient = msgspec.json.Decoder(_LenientHeader, strict=False)


class RemotingCommand(msgspec.Struct, gc=False):
    """A request or a response. `code` is a RequestCode or, with the response flag, a ResponseCode."""

    code: int
    language: str = "PYTHON"
    version: int = MQ_VERSION
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    ext_fields: dict[str, str] = {}  # noqa: RUF012 - each struct gets its own
    body: bytes = b""
    serialize_type: SerializeType = SerializeType.JSON

    @classmethod
    def request(
        cls, code: int, ext_fields: dict[str, str] | None = None, body: bytes = b"", *, oneway: bool = False
    ) -> RemotingCommand:
        """Build a request without opaque; its sender sets one."""
        return cls(int(code), flag=ONEWAY_FLAG if oneway else 0, ext_fields=ext_fields or {}, body=body)

    def response(
        self,
        code: int,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> RemotingCommand:
        """Return the answer to this request: same opaque, same form of header."""
        return RemotingCommand(
            int(code),
            "JAVA",  # what every Apache broker writes; no client reads it
            MQ_VERSION,
            self.opaque,
            RESPONSE_FLAG,
            remark,
            ext_fields if ext_fields is not None else {},
            body,
            self.serialize_type,
        )

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)

    def encode(self) -> bytes:
        """The whole frame. A code or version that does not fit a binary header's 16 bits is sent with a JSON one."""
        serialize_type = self.serialize_type
        if serialize_type == SerializeType.ROCKETMQ and not (
            INT16_MIN <= self.code <= INT16_MAX and INT16_MIN <= self.version <= INT16_MAX
        ):
            serialize_type = SerializeType.JSON
        header = (
            encode_json_header(self) if serialize_type == SerializeType.JSON else encode_binary_header(self)
        )
        length = 4 + len(header) + len(self.body)
        return b"".join((PREFIX.pack(length, serialize_type << 24 | len(header)), header, self.body))


def encode_json_header(command: RemotingCommand) -> bytes:
    """Return the header as Java writes it: top-level keys sorted, an absent remark left out."""
    header: dict[str, Any] = {
        "code": int(command.code),
        "extFields": command.ext_fields,
        "flag": command.flag,
        "language": command.language,
        "opaque": command.opaque,
    }
    if command.remark is not None:
        header["remark"] = command.remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = command.version
    return orjson.dumps(header)


def encode_binary_header(command: RemotingCommand) -> bytes:
    """Return the header of serialize type 1."""
    entries = []
    for key, value in command.ext_fields.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        entries += [KEY_LENGTH.pack(len(key_bytes)), key_bytes, LENGTH.pack(len(value_bytes)), value_bytes]
    ext = b"".join(entries)
    remark = (command.remark or "").encode()
    language = LANGUAGE_CODES.get(command.language, LanguageCode.OTHER)
    head = BINARY_HEAD.pack(command.code, language, command.version, command.opaque, command.flag)
    return b"".join((head, LENGTH.pack(len(remark)), remark, LENGTH.pack(len(ext)), ext))


def decode_frame(data: bytes | memoryview, start: int = 0, end: int | None = None) -> RemotingCommand:
    """Decode the frame data[start:end], without its 4-byte length. Raises RemotingCommandError."""
    end = len(data) if end is None else end
    header_start = start + HEADER_LENGTH.size
    if header_start > end:
        raise RemotingCommandError(f"frame of {end - start} bytes has no room for its header's length")
    (word,) = HEADER_LENGTH.unpack_from(data, start)
    serialize_type, header_length = word >> 24, word & 0xFFFFFF
    body_start = header_start + header_length
    if body_start > end:
        raise RemotingCommandError(f"header of {header_length} bytes in a frame of {end - start}")
    header, body = data[header_start:body_start], bytes(data[body_start:end])
    if serialize_type == SerializeType.JSON:
        return _decode_json(header, body)
    if serialize_type == SerializeType.ROCKETMQ:
        return _decode_binary(bytes(header), body)
    raise RemotingCommandError(
        f"unknown serialize type {serialize_type}: not a RocketMQ peer, or TLS on a plain port"
    )


def _decode_json(data: bytes | memoryview, body: bytes) -> RemotingCommand:
    ext_fields: dict[str, str]
    header: _JsonHeader | _LenientHeader
    try:
        header = _strict.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            header = _lenient.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RemotingCommandError(f"JSON header: {error}") from None
        ext_fields = {
            key: _text(value) for key, value in (header.extFields or {}).items() if value is not None
        }
        numbers = (header.code, header.version, header.opaque, header.flag)
        if max(numbers) > INT32_MAX or min(numbers) < INT32_MIN:
            raise RemotingCommandError(f"JSON header: one of {numbers} is not a 32-bit number") from None
    else:
        ext_fields = header.extFields or {}
    language = header.language
    if not isinstance(language, str):
        language = LANGUAGE_NAMES.get(language, "OTHER") if isinstance(language, int) else "OTHER"
    return RemotingCommand(
        header.code,
        language,
        header.version,
        header.opaque,
        header.flag,
        None if header.remark is None else _text(header.remark),
        ext_fields,
        body,
        SerializeType.JSON,
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        # Unlike orjson it takes any whole number.
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except ValueError as error:  # of more digits than Python writes
        raise RemotingCommandError(f"JSON header: {error}") from None


def _decode_binary(data: bytes, body: bytes) -> RemotingCommand:
    try:
        code, language, version, opaque, flag = BINARY_HEAD.unpack_from(data)
        remark, position = _sized(data, BINARY_HEAD.size)
        ext, position = _sized(data, position)
        return RemotingCommand(
            code,
            LANGUAGE_NAMES.get(language, "OTHER"),
            version,
            opaque,
            flag,
            remark.decode() if remark else None,
            _decode_ext_fields(ext),
            body,
            SerializeType.ROCKETMQ,
        )
    except (struct.error, UnicodeDecodeError) as error:
        raise RemotingCommandError(f"binary header: {error}") from None


def _sized(data: bytes, position: int) -> tuple[bytes, int]:
    """Read a length and that many bytes; return where they end."""
    (length,) = LENGTH.unpack_from(data, position)
    end = position + 4 + length
    if length < 0 or end > len(data):
        raise RemotingCommandError(f"binary header: {length} bytes at {position} of {len(data)}")
    return data[position + 4 : end], end


def _decode_ext_fields(data: bytes) -> dict[str, str]:
    fields = {}
    position = 0
    while position < len(data):
        (key_length,) = KEY_LENGTH.unpack_from(data, position)
        position += 2
        if key_length < 0 or position + key_length > len(data):
            raise RemotingCommandError(
                f"binary header: key of {key_length} bytes at {position} of {len(data)}"
            )
        key = data[position : position + key_length].decode()
        value, position = _sized(data, position + key_length)
        if key:
            fields[key] = value.decode()
    return fields
