"""Hot path of binary headers: a SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE read field by field, its answer packed.

Measured on a captured frame against the plain way (header into a dict into a dataclass, answer through the general
encoder), on a busy machine: reading 14.3 to 5.4 µs, answering 4.0 to 1.8 µs. Only frames with nothing but one-letter
fields come this way, which is how Java's own fast encoder writes them; signed ones and whatever is unusual give None,
and the plain decoder (`command`, `headers`) decides. Both must agree:
tests/brokerd/remoting/header/test_binary_send_header.py.
"""

from __future__ import annotations

import struct

from brokerd.remoting.codes import MQ_VERSION, LanguageCode, RequestCode
from brokerd.remoting.command import (
    BINARY_HEAD,
    INT32_MAX,
    KEY_LENGTH,
    LENGTH,
    PREFIX,
    RESPONSE_FLAG,
    SerializeType,
)
from brokerd.remoting.header.send_header import SendFieldsV2, SendHeadV2

ENTRY = struct.Struct(">hci")  # key length (1 here), the key, value length
LENGTHS = struct.Struct(">ii")  # of the remark, which no send has, and of the ext fields behind it
assert ENTRY.size == 7
assert LENGTHS.size == 8
KEYS = frozenset({bytes([letter]) for letter in b"abcdefghijklmn"})
INT64_DIGITS_MAX = 18  # such a number fits 64 bits whatever its digits
SEND_CODES = (int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE))


def decode_binary_send_head(data: bytes, start: int, end: int) -> tuple[SendHeadV2, int] | None:
    """Return the typed header of the frame data[start:end] (length prefix included) and where its body begins.

    None: not for this path. The frame's length has been checked by the caller.
    """
    if end - start < PREFIX.size + BINARY_HEAD.size or data[start + 4] != SerializeType.ROCKETMQ:
        return None
    position = start + PREFIX.size
    body_start = position + int.from_bytes(data[start + 5 : position], "big")
    code, _, version, opaque, flag = BINARY_HEAD.unpack_from(data, position)
    if code not in SEND_CODES or body_start > end:
        return None
    position += BINARY_HEAD.size
    try:
        remark_length, ext_length = LENGTHS.unpack_from(data, position)
        position += LENGTHS.size
        ext_end = position + ext_length
        if remark_length or ext_length < 0 or ext_end > body_start:
            return None
        fields: dict[bytes, bytes] = {}
        while position < ext_end:
            key_length, key, value_length = ENTRY.unpack_from(data, position)
            value_start = position + 7
            position = value_start + value_length
            if key_length != 1 or value_length < 0 or position > ext_end:
                return None
            fields[key] = data[value_start:position]
        typed = _typed(fields)
    except (struct.error, KeyError, ValueError):  # UnicodeDecodeError is a ValueError
        return None
    return None if typed is None else (SendHeadV2(code, opaque, typed, flag, version), body_start)


def _typed(fields: dict[bytes, bytes]) -> SendFieldsV2 | None:
    """Raise KeyError for a missing field, ValueError for one that cannot be read."""
    if not KEYS.issuperset(fields):
        return None
    find = fields.get
    (find(b"k", b"") + find(b"n", b"")).decode()  # not used here, but the plain way refuses what is not UTF-8
    reconsume_times, max_reconsume_times = find(b"j"), find(b"l")
    properties, batch = find(b"i"), find(b"m")
    queue_nums, queue_id, sys_flag = fields[b"d"], fields[b"e"], fields[b"f"]
    born, flag = fields[b"g"], fields[b"h"]
    digits = queue_nums + queue_id + sys_flag + born + flag + (reconsume_times or b"")
    if max_reconsume_times is not None:
        digits += max_reconsume_times
    # Plain digits only: a sign, a blank or an underscore goes the plain way.
    if not digits.isdigit() or len(born) > INT64_DIGITS_MAX:
        return None
    typed = SendFieldsV2(
        fields[b"a"].decode(),
        fields[b"b"].decode(),
        fields[b"c"].decode(),
        int(queue_nums),
        int(queue_id),
        int(sys_flag),
        int(born),
        int(flag),
        None if properties is None else properties.decode(),
        None if reconsume_times is None else int(reconsume_times),
        None if max_reconsume_times is None else int(max_reconsume_times),
        None if batch is None else batch.decode(),
    )
    largest = max(
        typed.default_topic_queue_nums,
        typed.queue_id,
        typed.sys_flag,
        typed.flag,
        typed.reconsume_times or 0,
        typed.max_reconsume_times or 0,
    )
    return typed if largest <= INT32_MAX else None


def _entry(key: str, value: bytes) -> bytes:
    return KEY_LENGTH.pack(len(key)) + key.encode() + LENGTH.pack(len(value)) + value


def _entry_head(key: str) -> bytes:
    return KEY_LENGTH.pack(len(key)) + key.encode()


class BinarySendReplyTemplate:
    """Answers to sends, byte for byte what `RemotingCommand.response(...).encode()` gives for binary requests."""

    __slots__ = ("_region", "_region_bytes")

    def __init__(self, region_fields: dict[str, str]) -> None:
        self._region = b"".join(_entry(key, value.encode()) for key, value in region_fields.items())
        self._region_bytes = len(self._region)

    def encode(
        self,
        opaque: int,
        message_id: str,
        queue_id: int,
        queue_offset: int,
        transaction_id: str | None,
        recall_handle: str | None = None,
    ) -> bytes | None:
        """Return the whole frame; None for the few messages that can be recalled."""
        if recall_handle:
            return None
        pack = LENGTH.pack
        id_value, queue, offset = message_id.encode(), b"%d" % queue_id, b"%d" % queue_offset
        ext_length = self._region_bytes + _FIXED_BYTES + len(id_value) + len(queue) + len(offset)
        transaction = b""
        if transaction_id:
            value = transaction_id.encode()
            transaction = _TRANSACTION_ID + pack(len(value)) + value
            ext_length += len(transaction)
        header_length = BINARY_HEAD.size + 8 + ext_length
        return b"".join(
            (
                PREFIX.pack(4 + header_length, SerializeType.ROCKETMQ << 24 | header_length),
                BINARY_HEAD.pack(0, LanguageCode.JAVA, MQ_VERSION, opaque, RESPONSE_FLAG),
                b"\x00\x00\x00\x00",  # no remark
                pack(ext_length),
                self._region,
                _MSG_ID,
                pack(len(id_value)),
                id_value,
                _QUEUE_ID,
                pack(len(queue)),
                queue,
                _QUEUE_OFFSET,
                pack(len(offset)),
                offset,
                transaction,
            )
        )


_MSG_ID, _QUEUE_ID, _QUEUE_OFFSET = _entry_head("msgId"), _entry_head("queueId"), _entry_head("queueOffset")
_TRANSACTION_ID = _entry_head("transactionId")
_FIXED_BYTES = len(_MSG_ID) + len(_QUEUE_ID) + len(_QUEUE_OFFSET) + 3 * LENGTH.size
