"""Messages as they are sent, stored and pulled (protocol section 4).

A stored record, V1; V2 (magic ...AB) has a topic length of 2 bytes. Host addresses are 16 bytes with the IPv6 bits:

      size, magic, bodyCRC, queueId, flag | queueOffset, physicalOffset | sysFlag | bornTimestamp | bornHost
      5 x i32                             | 2 x i64                     | i32     | i64           | 4 + i32
      storeTimestamp | storeHost | reconsumeTimes | preparedTransactionOffset | body    | topic  | properties
      i64            | 4 + i32   | i32            | i64                       | i32 + n | u8 + n | i16 + n
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

import msgspec

from brokerd.remoting.errors import CorruptRecord, TornRecord
from brokerd.remoting.message import compression
from brokerd.remoting.message.hosts import IPV4_BYTES, IPV6_BYTES, address_text
from brokerd.remoting.message.ids import create_offset_message_id
from brokerd.remoting.message.names import MessageProperty, SysFlag
from brokerd.remoting.message.properties import parse_each_properties, parse_properties

# Size, magic, body CRC, queue id, flag, queue offset, commit-log offset, sysFlag, born timestamp.
HEAD = struct.Struct(">iIIiiqqiq")
TIMESTAMP = struct.Struct(">q")
INT32 = struct.Struct(">i")
TOPIC_LENGTH_V1, TOPIC_LENGTH_V2, PROPERTIES_LENGTH = (
    struct.Struct(">B"),
    struct.Struct(">H"),
    struct.Struct(">h"),
)
assert HEAD.size == 48
# Born host, store timestamp, store host, reconsume times, prepared transaction offset, length of the body; by the bits
# of the hosts that are IPv6.
HOSTS_V6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
MIDDLES = {
    born | store: struct.Struct(f">{born_bytes}siq{store_bytes}siiqi")
    for born, born_bytes in ((0, IPV4_BYTES), (SysFlag.BORN_HOST_V6, IPV6_BYTES))
    for store, store_bytes in ((0, IPV4_BYTES), (SysFlag.STORE_HOST_V6, IPV6_BYTES))
}
MAGIC_V1, MAGIC_V2 = 0xDAA320A7, 0xDAA320AB
RECORD_BYTES_MIN = 91
# All that has a fixed place in a record with IPv4 hosts.
FIXED_V4 = struct.Struct(f"{HEAD.format}{MIDDLES[0].format[1:]}")
assert FIXED_V4.size == 88


class MessageRecord(msgspec.Struct, gc=False):
    """A stored message. Hosts are (address, port); the body is as stored, compressed perhaps.

    Replaced, never changed. A struct, since one is made for each message that is read; nothing in it can refer back to
    it, so it is none of the garbage collector's.
    """

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
        """The id that names its place: store host and commit-log offset."""
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
        """Return the body as it was sent. Raises BodyError when it does not decompress."""
        if not self.sys_flag & SysFlag.COMPRESSED:
            return self.body
        return compression.decompress(self.body, self.sys_flag & SysFlag.COMPRESSION_MASK)


def decode_record(view: bytes | memoryview, position: int = 0, *, check_crc: bool = False) -> MessageRecord:
    """Return the record at `position`. Raises TornRecord when the bytes end inside it, else CorruptRecord.

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
    record = bytes(view[position : position + size])
    middle = MIDDLES[sys_flag & HOSTS_V6]
    try:
        (
            born_address,
            born_port,
            stored,
            store_address,
            store_port,
            reconsume_times,
            prepared_offset,
            body_length,
        ) = middle.unpack_from(record, HEAD.size)
        body, at = _sized(record, HEAD.size + middle.size, body_length)
        lengths = TOPIC_LENGTH_V2 if magic == MAGIC_V2 else TOPIC_LENGTH_V1
        topic, at = _sized(record, at + lengths.size, lengths.unpack_from(record, at)[0])
        properties, at = _sized(
            record, at + PROPERTIES_LENGTH.size, PROPERTIES_LENGTH.unpack_from(record, at)[0]
        )
    except struct.error:
        raise CorruptRecord(f"record of {size} bytes at {position} ends inside its fields") from None
    if at != size:
        raise CorruptRecord(f"record of {size} bytes at {position} holds {at}")
    if check_crc and crc and body_crc(body) != crc:
        raise CorruptRecord(
            f"body of the record at {position} has checksum {body_crc(body):#x}, not {crc:#x}"
        )
    return MessageRecord(
        # Java's decoder replaces too: a bad byte must not hide a message.
        topic.decode(errors="replace"),
        queue_id,
        queue_offset,
        physical_offset,
        size,
        body,
        crc,
        flag,
        sys_flag,
        born,
        (address_text(born_address), born_port),
        stored,
        (address_text(store_address), store_port),
        reconsume_times,
        prepared_offset,
        parse_properties(properties.decode(errors="replace")),
    )


def _sized(record: bytes, start: int, size_bytes: int) -> tuple[bytes, int]:
    """Return a field and where it ends."""
    end = start + size_bytes
    if size_bytes < 0 or end > len(record):
        raise CorruptRecord(f"field of {size_bytes} bytes at {start} of a record of {len(record)}")
    return record[start:end], end


def decode_records(body: bytes | memoryview, *, check_crc: bool = False) -> list[MessageRecord]:
    """Records one after the other: the body of a pull, a query, a check. Raises TornRecord, CorruptRecord."""
    body = bytes(body)
    records: list[MessageRecord] = []
    usual: list[MessageRecord] = []
    texts: list[bytes] = []  # of the properties of usual ones
    position = 0
    while position < len(body):
        record = None if check_crc else _decode_usual(body, position, texts)
        if record is None:
            record = decode_record(body, position, check_crc=check_crc)
        else:
            usual.append(record)
        records.append(record)
        position += record.store_size_bytes
    for record, properties in zip(usual, parse_each_properties(texts), strict=True):
        record.properties = properties
    return records


def _decode_usual(data: bytes, position: int, texts: list[bytes]) -> MessageRecord | None:
    """Return a record of V1 with IPv4 hosts, but its properties: they go to `texts`.

    None for any other record, and for what is none. Hot path of consumers: one layout, no slice of the whole record,
    properties of all together; 2.6 instead of 4.4 us. Its plain twin, which names what is wrong, is `decode_record`.
    """
    try:
        (
            size,
            magic,
            crc,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born,
            born_address,
            born_port,
            stored,
            store_address,
            store_port,
            reconsume_times,
            prepared_offset,
            body_length,
        ) = FIXED_V4.unpack_from(data, position)
        body_start = position + 88
        body_end = body_start + body_length
        topic_end = body_end + 1 + data[body_end]
        (properties_length,) = PROPERTIES_LENGTH.unpack_from(data, topic_end)
    except (struct.error, IndexError):
        return None
    end = topic_end + 2 + properties_length
    is_whole = body_length >= 0 and properties_length >= 0 and end == position + size <= len(data)
    if magic != MAGIC_V1 or sys_flag & HOSTS_V6 or not is_whole:
        return None
    texts.append(data[topic_end + 2 : end])
    return MessageRecord(
        _topic_text(data[body_end + 1 : topic_end]),
        queue_id,
        queue_offset,
        physical_offset,
        size,
        data[body_start:body_end],
        crc,
        flag,
        sys_flag,
        born,
        (address_text(born_address), born_port),
        stored,
        (address_text(store_address), store_port),
        reconsume_times,
        prepared_offset,
        {},
    )


@lru_cache(maxsize=1024)
def _topic_text(topic: bytes) -> str:
    """Decode a topic; messages of one topic share the text."""
    return topic.decode(errors="replace")


def body_crc(body: bytes) -> int:
    """Return CRC-32 without its top bit (UtilAll.crc32)."""
    return zlib.crc32(body) & 0x7FFFFFFF
