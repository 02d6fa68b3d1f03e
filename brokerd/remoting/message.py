"""Messages as they are sent, stored and pulled (protocol section 4).

A stored record, V1; V2 (magic ...AB) has a topic length of 2 bytes. Host addresses are 16 bytes with the IPv6 bits:

      size, magic, bodyCRC, queueId, flag | queueOffset, physicalOffset | sysFlag | bornTimestamp | bornHost
      5 x i32                             | 2 x i64                     | i32     | i64           | 4 + i32
      storeTimestamp | storeHost | reconsumeTimes | preparedTransactionOffset | body    | topic  | properties
      i64            | 4 + i32   | i32            | i64                       | i32 + n | u8 + n | i16 + n
"""

from __future__ import annotations

import ipaddress
import struct
import sys
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from operator import mul

from brokerd.remoting import body_compression
from brokerd.remoting.errors import BodyError, CorruptRecord, TornRecord
from brokerd.remoting.message_names import (
    DLQ_TOPIC_PREFIX as DLQ_TOPIC_PREFIX,
)
from brokerd.remoting.message_names import (
    RETRY_TOPIC_PREFIX as RETRY_TOPIC_PREFIX,
)
from brokerd.remoting.message_names import (
    SYSTEM_GROUPS as SYSTEM_GROUPS,
)
from brokerd.remoting.message_names import (
    SYSTEM_TOPICS as SYSTEM_TOPICS,
)
from brokerd.remoting.message_names import (
    MessageProperty as MessageProperty,
)
from brokerd.remoting.message_names import (
    SysFlag as SysFlag,
)
from brokerd.remoting.message_names import (
    dead_letter_topic as dead_letter_topic,
)
from brokerd.remoting.message_names import (
    is_system_group as is_system_group,
)
from brokerd.remoting.message_names import (
    is_system_topic as is_system_topic,
)
from brokerd.remoting.message_names import (
    retry_topic as retry_topic,
)
from brokerd.remoting.message_names import (
    validate_group as validate_group,
)
from brokerd.remoting.message_names import (
    validate_topic as validate_topic,
)
from brokerd.remoting.message_queue import MessageQueue as MessageQueue

HEAD = struct.Struct(
    ">iIIiiqqiq"
)  # size, magic, bodyCRC, queueId, flag, queueOffset, physicalOffset, sysFlag, born
TIMESTAMP = struct.Struct(">q")
TAIL = struct.Struct(">iq")  # reconsumeTimes, preparedTransactionOffset
INT32 = struct.Struct(">i")
TOPIC_LENGTH_V1, TOPIC_LENGTH_V2, PROPERTIES_LENGTH = (
    struct.Struct(">B"),
    struct.Struct(">H"),
    struct.Struct(">h"),
)
BATCH_HEAD = struct.Struct(">iiiii")  # size, magic 0, crc 0, flag, body length
assert HEAD.size == 48
assert TAIL.size == 12
MAGIC_V1, MAGIC_V2 = 0xDAA320A7, 0xDAA320AB
RECORD_BYTES_MIN = 91
TOPIC_V1_BYTES_MAX = 127  # Java's byte is signed
PROPERTIES_BYTES_MAX = 32_767  # their length is an i16
NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR = "\x01", "\x02"
KEY_SEPARATOR = " "


@dataclass(slots=True)
class Message:
    """A message to be sent."""

    topic: str
    body: bytes
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0

    @property
    def tags(self) -> str:
        return self.properties.get(MessageProperty.TAGS, "")

    @property
    def keys(self) -> str:
        """All keys, separated by spaces as RocketMQ keeps them."""
        return self.properties.get(MessageProperty.KEYS, "")


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A stored message. Hosts are (address, port); the body is as stored, compressed perhaps."""

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    store_size_bytes: int
    body: bytes
    body_crc: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: tuple[str, int]
    store_timestamp_ms: int
    store_host: tuple[str, int]
    reconsume_times: int
    prepared_transaction_offset: int
    properties: dict[str, str]

    @property
    def offset_message_id(self) -> str:
        """The id that says where it lies: store host and commit-log offset."""
        return create_offset_message_id(self.store_host[0], self.store_host[1], self.commit_log_offset)

    @property
    def message_id(self) -> str:
        """The producer's unique key, or the offset id of a message without."""
        return self.properties.get(MessageProperty.UNIQ_KEY) or self.offset_message_id

    @property
    def tags(self) -> str:
        return self.properties.get(MessageProperty.TAGS, "")

    @property
    def keys(self) -> str:
        return self.properties.get(MessageProperty.KEYS, "")

    def decoded_body(self) -> bytes:
        """The body as it was sent. Raises BodyError when it does not decompress."""
        if not self.sys_flag & SysFlag.COMPRESSED:
            return self.body
        return body_compression.decompress(self.body, self.sys_flag & SysFlag.COMPRESSION_MASK)


# Records


def encode_record(record: MessageRecord) -> bytes:
    """The plain encoder: what the store's fast one must equal. The size is computed, not taken from the record.

    Raises ValueError for a topic or properties too long for their lengths, or hosts that do not go with the sysFlag.
    """
    topic = record.topic.encode()
    if len(topic) <= TOPIC_V1_BYTES_MAX:
        magic, topic_length = MAGIC_V1, TOPIC_LENGTH_V1.pack(len(topic))
    elif len(topic) < 1 << 16:
        magic, topic_length = MAGIC_V2, TOPIC_LENGTH_V2.pack(len(topic))
    else:
        raise ValueError(f"topic of {len(topic)} bytes")
    properties = encode_properties(record.properties)
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise ValueError(f"properties of {len(properties)} bytes; at most {PROPERTIES_BYTES_MAX} are allowed")
    for host, bit in ((record.born_host, SysFlag.BORN_HOST_V6), (record.store_host, SysFlag.STORE_HOST_V6)):
        if (len(_packed_address(host[0])) == 16) != bool(record.sys_flag & bit):
            raise ValueError(f"host {host[0]} does not go with sysFlag {record.sys_flag:#x}")
    rest = b"".join(
        (
            _encode_host(record.born_host),
            TIMESTAMP.pack(record.store_timestamp_ms),
            _encode_host(record.store_host),
            TAIL.pack(record.reconsume_times, record.prepared_transaction_offset),
            len(record.body).to_bytes(4, "big"),
            record.body,
            topic_length,
            topic,
            PROPERTIES_LENGTH.pack(len(properties)),
            properties,
        )
    )
    head = HEAD.pack(
        HEAD.size + len(rest),
        magic,
        record.body_crc,
        record.queue_id,
        record.flag,
        record.queue_offset,
        record.commit_log_offset,
        record.sys_flag,
        record.born_timestamp_ms,
    )
    return head + rest


def decode_record(view: bytes | memoryview, position: int = 0, *, check_crc: bool = False) -> MessageRecord:
    """The record at `position`. Raises TornRecord when the bytes end inside it, CorruptRecord when it is none.

    `check_crc` compares the body with its checksum as well; a checksum of 0 was never computed and passes.
    """
    available = len(view) - position
    if available < HEAD.size:
        raise TornRecord(f"{available} bytes at {position} are too few for a record")
    size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born = HEAD.unpack_from(
        view, position
    )
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise CorruptRecord(f"magic {magic:#010x} at {position}")
    if size < RECORD_BYTES_MIN:
        raise CorruptRecord(f"record of {size} bytes at {position}")
    if available < size:
        raise TornRecord(f"record of {size} bytes at {position}, {available} are there")
    reader = _Reader(bytes(view[position : position + size]), HEAD.size)
    born_host = reader.host(is_v6=bool(sys_flag & SysFlag.BORN_HOST_V6))
    store_timestamp_ms = reader.unpack(TIMESTAMP)
    store_host = reader.host(is_v6=bool(sys_flag & SysFlag.STORE_HOST_V6))
    reconsume_times, prepared_transaction_offset = reader.unpack(INT32), reader.unpack(TIMESTAMP)
    body = reader.take(reader.unpack(INT32))
    topic = reader.text(reader.unpack(TOPIC_LENGTH_V2 if magic == MAGIC_V2 else TOPIC_LENGTH_V1))
    properties = decode_properties(reader.text(reader.unpack(PROPERTIES_LENGTH)))
    if reader.position != size:
        raise CorruptRecord(f"record of {size} bytes at {position} holds {reader.position}")
    if check_crc and crc and body_crc(body) != crc:
        raise CorruptRecord(
            f"body of the record at {position} has checksum {body_crc(body):#x}, not {crc:#x}"
        )
    return MessageRecord(
        topic,
        queue_id,
        queue_offset,
        physical_offset,
        size,
        body,
        crc,
        flag,
        sys_flag,
        born,
        born_host,
        store_timestamp_ms,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        properties,
    )


def decode_records(body: bytes | memoryview, *, check_crc: bool = False) -> list[MessageRecord]:
    """Records one behind the other: the body of a pull, a query, a check. Raises TornRecord, CorruptRecord."""
    records = []
    position = 0
    while position < len(body):
        records.append(decode_record(body, position, check_crc=check_crc))
        position += records[-1].store_size_bytes
    return records


class _Reader:
    """Takes field after field of one record; a field that does not fit makes the record corrupt."""

    __slots__ = ("_record", "position")

    def __init__(self, record: bytes, position: int) -> None:
        self._record, self.position = record, position

    def take(self, size_bytes: int) -> bytes:
        end = self.position + size_bytes
        if size_bytes < 0 or end > len(self._record):
            raise CorruptRecord(
                f"field of {size_bytes} bytes at {self.position} of a record of {len(self._record)}"
            )
        data = self._record[self.position : end]
        self.position = end
        return data

    def unpack(self, layout: struct.Struct) -> int:
        number: int = layout.unpack(self.take(layout.size))[0]
        return number

    def text(self, size_bytes: int) -> str:
        # Java's decoder replaces too: a bad byte must not hide a message.
        return self.take(size_bytes).decode(errors="replace")

    def host(self, *, is_v6: bool) -> tuple[str, int]:
        address = self.take(16 if is_v6 else 4)
        return _host_text(address), self.unpack(INT32)


@lru_cache(maxsize=1024)
def _host_text(address: bytes) -> str:
    return str(ipaddress.ip_address(address))


@lru_cache(maxsize=1024)
def _packed_address(host: str) -> bytes:
    return ipaddress.ip_address(host).packed


def _encode_host(host: tuple[str, int]) -> bytes:
    return _packed_address(host[0]) + INT32.pack(host[1])


# Properties


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Name, 1, value, 2 for each, with the 2 behind the last one too (releases up to 4.9.0 and from 5.2 on)."""
    return "".join(
        f"{name}{NAME_VALUE_SEPARATOR}{value}{PROPERTY_SEPARATOR}" for name, value in properties.items()
    ).encode()


def decode_properties(data: bytes | str) -> dict[str, str]:
    """The properties of an encoded text; segments that are none are passed over, the last of equal names wins."""
    text = data if isinstance(data, str) else data.decode(errors="replace")
    properties = {}
    for segment in text.split(PROPERTY_SEPARATOR):
        name, separator, value = segment.partition(NAME_VALUE_SEPARATOR)
        if separator and name:
            properties[name] = value
    return properties


def parse_properties(text: str) -> dict[str, str]:
    """Hot path: 1.0 µs for five properties, where the tolerant decoder takes about twice that; it is asked when a
    chunk holds no separator.
    """
    try:
        return dict(
            [chunk.split(NAME_VALUE_SEPARATOR, 1) for chunk in text.split(PROPERTY_SEPARATOR) if chunk]
        )
    except ValueError:
        return decode_properties(text)


# Batches


def encode_batch(messages: Sequence[Message]) -> bytes:
    """The body of SEND_BATCH_MESSAGE (protocol section 4.2). Raises BodyError when properties are too long."""
    pieces = []
    for message in messages:
        properties = encode_properties(message.properties)
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise BodyError(
                f"properties of {len(properties)} bytes; at most {PROPERTIES_BYTES_MAX} are allowed"
            )
        size = BATCH_HEAD.size + len(message.body) + 2 + len(properties)
        pieces += [
            BATCH_HEAD.pack(size, 0, 0, message.flag, len(message.body)),
            message.body,
            len(properties).to_bytes(2, "big"),
            properties,
        ]
    return b"".join(pieces)


def decode_batch(data: bytes, topic: str = "") -> list[Message]:
    """The messages of a batch body; it names no topic, the request does. Raises BodyError."""
    messages = []
    position = 0
    while position < len(data):
        if len(data) - position < BATCH_HEAD.size:
            raise BodyError(f"batch ends inside a message at {position}")
        size, _, _, flag, body_length = BATCH_HEAD.unpack_from(data, position)
        body_end = position + BATCH_HEAD.size + body_length
        if body_length < 0 or body_end + 2 > len(data):
            raise BodyError(f"batch message of {body_length} body bytes at {position} of {len(data)}")
        properties_length = int.from_bytes(data[body_end : body_end + 2], "big", signed=True)
        end = body_end + 2 + properties_length
        if properties_length < 0 or end > len(data) or size != end - position:
            raise BodyError(f"batch message of {size} bytes at {position} holds {end - position}")
        body = data[position + BATCH_HEAD.size : body_end]
        messages.append(Message(topic, body, decode_properties(data[body_end + 2 : end]), flag))
        position = end
    return messages


# Hashes and ids


_POWERS_MAX = 256  # longer texts are hashed in pieces of this many UTF-16 units
_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(_POWERS_MAX - 1, -1, -1))


def java_string_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 units, signed 32 bits.

    Hot path: the sum of products takes half of what the plain loop does for 32 characters (the loop is the twin in
    tests/brokerd/remoting/test_message.py).
    """
    units: bytes | array[int]
    try:
        units = text.encode("latin-1")  # up to U+00FF bytes and UTF-16 units are the same numbers
    except UnicodeEncodeError:
        units = array(
            "H", text.encode("utf-16-le" if sys.byteorder == "little" else "utf-16-be", "surrogatepass")
        )
    value = 0
    for start in range(0, len(units), _POWERS_MAX):
        piece = units[start : start + _POWERS_MAX]
        count = len(piece)
        tail: int = sum(map(mul, piece, _POWERS[_POWERS_MAX - count :]))
        value = (value * pow(31, count, 1 << 32) + tail) & 0xFFFFFFFF if start else tail & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def tags_code(tag: str | None, sys_flag: int = 0) -> int:
    """The number that stands for a tag in the consume queue; 0 for none (tagsString2tagsCode)."""
    return java_string_hash(tag) if tag else 0


def body_crc(body: bytes) -> int:
    """CRC-32 without its top bit (UtilAll.crc32)."""
    return zlib.crc32(body) & 0x7FFFFFFF


def create_offset_message_id(host: str, port: int, commit_log_offset: int) -> str:
    """Address, port and commit-log offset as upper-case hex: 32 characters, 56 with IPv6."""
    return (_encode_host((host, port)) + TIMESTAMP.pack(commit_log_offset)).hex().upper()


def decode_offset_message_id(message_id: str) -> tuple[str, int, int]:
    """(host, port, commit-log offset). Raises ValueError for another kind of id."""
    if len(message_id) not in (32, 56):
        raise ValueError(f"an offset message id has 32 or 56 characters, not {len(message_id)}")
    data = bytes.fromhex(message_id)
    port, offset = INT32.unpack(data[-12:-8])[0], TIMESTAMP.unpack(data[-8:])[0]
    if not 0 < port < 65_536 or offset < 0:
        raise ValueError(f"{message_id} names port {port} and offset {offset}: not an offset message id")
    return str(ipaddress.ip_address(data[:-12])), port, offset


@lru_cache(maxsize=4)
def _month_start_ms(day: int) -> int:
    """The first moment (UTC) of the month that the day since 1970 belongs to."""
    return int(datetime.fromtimestamp(day * 86_400, UTC).replace(day=1).timestamp()) * 1000


def create_unique_key(ip: bytes, pid: int, counter: int, now_ms: int) -> str:
    """A producer's message id: address, process, hash, time in the month, counter as hex (MessageClientIDSetter).

    `ip` has 4 or 16 bytes; of `pid` and `counter` 16 bits count. Tools tell the time of sending from the id: the
    milliseconds count from the start of the month, which here is UTC's.
    """
    in_month_ms = now_ms - _month_start_ms(now_ms // 86_400_000)
    tail = struct.pack(">HIIH", pid & 0xFFFF, zlib.crc32(ip), in_month_ms, counter & 0xFFFF)
    return (ip + tail).hex().upper()
