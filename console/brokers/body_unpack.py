"""Unpack message bodies: decompress them, take messages out of batches. Never trusts a size a body claims.

RocketMQ's flags come first (zlib, LZ4, ZSTD; protocol 4.3), then magic bytes, because many producers compress
before they send. At most UNPACK_DEPTH layers and a limit of bytes.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable

import lz4.frame
import msgspec
import zstandard

from console.brokers.mqadmin import BodyError, MessageProperty, MessageRecord, SysFlag, decode_batch
from console.text import Text, text_of

# Twice RocketMQ's largest message; a decompression bomb is cut there.
UNPACKED_BYTES_MAX = 8 * 1024 * 1024
# A gzip in a message that the client compressed again; more is likely a decompression bomb.
UNPACK_DEPTH = 2
# A block of 4 bytes can expand to 128 KiB, so no piece yields more than 8 MiB.
ZSTD_PIECE_BYTES = 256
# The library's own minimum.
ZSTD_WINDOW_BYTES_MIN = 1024
# Inner messages of one record: 4 MiB of bodies of 1 kB.
BATCH_MESSAGES_MAX = 4_096


class DoesNotUnpack(ValueError):
    """The bytes are not in the format they claim, or expand beyond the limit."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unpacked:
    """``body`` decompressed; ``how`` names each layer from the outside in: "zlib (flag)", "gzip"."""

    body: bytes
    how: tuple[str, ...] = ()
    problem: Text = Text()  # why a layer was left as it is


def _inflate(body: bytes, limit: int, wbits: int) -> bytes:
    inflater = zlib.decompressobj(wbits)
    data = inflater.decompress(body, limit + 1)
    if len(data) > limit:
        raise DoesNotUnpack(Text("it is larger than %(number)s bytes", number=limit))
    if not inflater.eof:
        raise DoesNotUnpack(Text("it is cut short"))
    return data


def _zlib(body: bytes, limit: int) -> bytes:
    return _inflate(body, limit, zlib.MAX_WBITS)


def _gzip(body: bytes, limit: int) -> bytes:
    return _inflate(body, limit, zlib.MAX_WBITS | 16)


def _lz4(body: bytes, limit: int) -> bytes:
    inflater = lz4.frame.LZ4FrameDecompressor()
    data = bytes(inflater.decompress(body, limit + 1))
    if len(data) > limit:
        raise DoesNotUnpack(Text("it is larger than %(number)s bytes", number=limit))
    if not inflater.eof:
        raise DoesNotUnpack(Text("it is cut short"))
    return data


def _zstd(body: bytes, limit: int) -> bytes:
    # The window is as large as the limit: a frame that requires more memory is refused.
    inflater = zstandard.ZstdDecompressor(max_window_size=max(limit, ZSTD_WINDOW_BYTES_MIN)).decompressobj()
    pieces, size = [], 0
    for start in range(0, len(body), ZSTD_PIECE_BYTES):
        pieces.append(inflater.decompress(body[start : start + ZSTD_PIECE_BYTES]))
        size += len(pieces[-1])
        if size > limit:
            raise DoesNotUnpack(Text("it is larger than %(number)s bytes", number=limit))
        if inflater.eof:
            return b"".join(pieces)
    raise DoesNotUnpack(Text("it is cut short"))


FLAGGED: dict[int, tuple[str, Callable[[bytes, int], bytes]]] = {
    0: ("zlib", _zlib),  # producers before 5.0 set no type
    SysFlag.COMPRESSION_ZLIB: ("zlib", _zlib),
    SysFlag.COMPRESSION_LZ4: ("LZ4", _lz4),
    SysFlag.COMPRESSION_ZSTD: ("ZSTD", _zstd),
}
DETECTED: tuple[tuple[bytes, str, Callable[[bytes, int], bytes]], ...] = (
    (b"\x1f\x8b\x08", "gzip", _gzip),
    (b"\x04\x22\x4d\x18", "LZ4", _lz4),
    (b"\x28\xb5\x2f\xfd", "ZSTD", _zstd),
    (b"\x78\x01", "zlib", _zlib),
    (b"\x78\x5e", "zlib", _zlib),
    (b"\x78\x9c", "zlib", _zlib),
    (b"\x78\xda", "zlib", _zlib),
)


def unpack(body: bytes, sys_flag: int, *, limit_bytes: int = UNPACKED_BYTES_MAX) -> Unpacked:
    """Undo the layers that flags and magic bytes declare. Never raises; ``problem``: why one was kept."""
    how: list[str] = []
    if sys_flag & SysFlag.COMPRESSED:
        kind = FLAGGED.get(sys_flag & SysFlag.COMPRESSION_MASK)
        if kind is None:
            code = sys_flag & SysFlag.COMPRESSION_MASK
            return Unpacked(body, problem=Text("compression type %(code)s is unknown", code=f"{code:#x}"))
        try:
            body = _run(kind[1], body, limit_bytes)
        except DoesNotUnpack as error:
            return Unpacked(
                body, problem=Text("the %(kind)s flag is set, but %(why)s", kind=kind[0], why=text_of(error))
            )
        how.append(f"{kind[0]} flag")
    for _ in range(UNPACK_DEPTH):
        found = next(((name, run) for magic, name, run in DETECTED if body.startswith(magic)), None)
        if found is None:
            break
        try:
            body = _run(found[1], body, limit_bytes)
        except DoesNotUnpack as error:
            return Unpacked(
                body, tuple(how), Text("looks like %(kind)s, but %(why)s", kind=found[0], why=text_of(error))
            )
        how.append(found[0])
    return Unpacked(body, tuple(how))


def _run(decompress: Callable[[bytes, int], bytes], body: bytes, limit: int) -> bytes:
    try:
        return decompress(body, limit)
    except DoesNotUnpack:
        raise
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError, ValueError) as error:
        raise DoesNotUnpack(Text("it does not decompress: %(why)s", why=text_of(error))) from error


def is_batch(record: MessageRecord) -> bool:
    """Whether the record's body is a batch that the broker stored in one piece (5.x BatchCQ topics)."""
    wanted = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
    return record.sys_flag & wanted == wanted


def inner_messages(record: MessageRecord) -> list[MessageRecord]:
    """The messages of a stored batch, each at its own queue offset; raises DoesNotUnpack."""
    unpacked = unpack(record.body, record.sys_flag)
    if unpacked.problem:
        raise DoesNotUnpack(unpacked.problem)
    try:
        messages = decode_batch(unpacked.body, record.topic)
    except BodyError as error:
        raise DoesNotUnpack(
            Text("the batch flag is set, but the body is no batch: %(why)s", why=text_of(error))
        ) from error
    if len(messages) > BATCH_MESSAGES_MAX:
        raise DoesNotUnpack(
            Text(
                "the batch holds %(number)s messages, more than %(most)s",
                number=len(messages),
                most=BATCH_MESSAGES_MAX,
            )
        )
    plain = record.sys_flag & ~(
        SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP | SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK
    )
    outer = {
        name: value
        for name, value in record.properties.items()
        if name not in (MessageProperty.INNER_NUM, MessageProperty.INNER_BASE)
    }
    return [
        msgspec.structs.replace(
            record,
            queue_offset=record.queue_offset + index,
            body=message.body,
            flag=message.flag,
            sys_flag=plain,
            properties={**outer, **message.properties},
        )
        for index, message in enumerate(messages)
    ]
