from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.message import record as message
from brokerd.remoting.message.hosts import encode_host
from brokerd.remoting.message.properties import encode_properties
from brokerd.store.errors import TornRecord
from brokerd.store.log.record import (
    BLANK,
    BLANK_MAGIC,
    DELAY,
    KEYS,
    MAGIC_V1,
    MAGIC_V2,
    TAGS,
    StoredRecord,
    encode_record,
    encode_topic,
    find_property,
    read_properties,
    read_record,
    read_store_timestamp,
)
from tests.support.plain_record import encode_record as encode_plainly

RECORD_HEX = (
    "00000075 daa320a7 3610a686 00000003 00000009 0000000000000007 0000000000000400 00000000"
    "000001a000000005 c0000207 0000d28e 000001a00000000a 7f000001 00002a9f 00000002 0000000000000300"
    "00000005 68656c6c6f 09 546f70696354657374 000c 54414753015461674102 3a3b".replace(" ", "")
)


def plain_record(sys_flag: int = 0, topic: str = "TopicTest", born: str = "192.0.2.7") -> bytes:
    return encode_record(
        encode_topic(topic),
        3,
        7,
        1024,
        b"hello",
        b"TAGS\x01TagA\x02:;",
        9,
        sys_flag,
        0x1A000000005,
        encode_host((born, 53902)),
        0x1A00000000A,
        encode_host(("127.0.0.1", 10911)),
        2,
        768,
    )


def test_it_writes_the_bytes_of_the_layout() -> None:
    assert plain_record().hex() == RECORD_HEX


def test_it_reads_back_what_it_wrote() -> None:
    record = read_record(memoryview(bytes.fromhex(RECORD_HEX)), 0, 1024)
    assert record == StoredRecord(117, "TopicTest", 3, 7, 1024, 0, 0x1A00000000A, b"TAGS\x01TagA\x02:;")


def test_it_counts_91_bytes_around_body_topic_and_properties() -> None:
    assert len(plain_record()) == 91 + len("hello") + len("TopicTest") + len(b"TAGS\x01TagA\x02:;")


def test_it_uses_twelve_bytes_more_for_an_ipv6_host_and_reads_it_back() -> None:
    data = plain_record(sys_flag=0x10, born="2001:db8::1")
    assert len(data) == 117 + 12
    assert data[48:68].hex() == "20010db8000000000000000000000001" + "0000d28e"
    record = read_record(memoryview(data), 0, 1024)
    assert record is not None
    assert (record.topic, record.store_timestamp_ms) == ("TopicTest", 0x1A00000000A)
    assert read_store_timestamp(memoryview(data)) == 0x1A00000000A


def test_it_uses_magic_v2_for_a_topic_above_127_bytes() -> None:
    assert encode_topic("t" * 127)[0] == MAGIC_V1
    topic = "%RETRY%" + "g" * 121
    assert encode_topic(topic)[0] == MAGIC_V2
    record = read_record(memoryview(plain_record(topic=topic)), 0, 1024)
    assert record is not None
    assert record.topic == topic
    assert record.size_bytes == 117 - 9 + 128 + 1


def test_it_reads_a_blank_record_as_none_even_with_only_eight_bytes_left() -> None:
    assert read_record(memoryview(BLANK.pack(500, BLANK_MAGIC) + bytes(492)), 0, 77) is None
    assert read_record(memoryview(BLANK.pack(8, BLANK_MAGIC)), 0, 77) is None


def is_torn(data: bytes) -> bool:
    try:
        read_record(memoryview(data), 0, 1024)
    except TornRecord:
        return True
    return False


def test_it_never_takes_a_cut_record_for_a_whole_one() -> None:
    record = bytes.fromhex(RECORD_HEX)
    assert [cut for cut in range(118) if not is_torn(record[:cut])] == [117]


def test_it_never_takes_a_record_with_a_lost_end_for_a_whole_one() -> None:
    """From 105 on only properties are lost, which no CRC covers."""
    record = bytes.fromhex(RECORD_HEX)
    assert [cut for cut in range(105) if not is_torn(record[:cut] + bytes(200))] == []


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (0, b"\x00\x00\x00\x58", "size 88"),
        (0, b"\x7f\xff\xff\xff", "size 2147483647"),
        (4, b"\xda\xa3\x20\xa8", "unknown magic code 0xdaa320a8"),
        (8, b"\x00\x00\x00\x00", "body CRC is not 0x00000000"),
        (28, b"\x00\x00\x00\x00\x00\x00\x04\x01", "the record names offset 1025"),
        (36, b"\x00\x00\x00\x10", "bytes in a record of 117"),
        (84, b"\xff\xff\xff\xff", "body of -1 bytes"),
        (84, b"\x00\x00\x00\x20", "body of 32 bytes"),
        (88, b"H", "body CRC"),
        (93, b"\xff", "topic of 255 bytes"),
        (93, b"\x08", "do not add up"),
        (94, b"\xff", "the topic is not UTF-8"),
    ],
)
def test_it_names_what_is_wrong_with_a_record(position: int, value: bytes, reason: str) -> None:
    data = bytearray.fromhex(RECORD_HEX)
    data[position : position + len(value)] = value
    with pytest.raises(TornRecord, match=reason) as caught:
        read_record(memoryview(data), 0, 1024)
    assert caught.value.offset == 1024


def test_it_skips_the_body_crc_when_told_so() -> None:
    data = bytearray.fromhex(RECORD_HEX)
    data[88] = 0
    assert read_record(memoryview(data), 0, 1024, check_crc=False) is not None


@pytest.mark.parametrize(
    ("properties", "value"),
    [
        (b"", b""),
        (b"KEYS\x01k1 k2\x02", b"k1 k2"),
        (b"KEYS\x01k1", b"k1"),  # 4.9.7 writes no last separator
        (b"A\x01b\x02KEYS\x01k1\x02C\x01d\x02", b"k1"),
        (b"KEYS\x01old\x02KEYS\x01new\x02", b"new"),
        (b"KEYS\x01old\x02KEYS\x01\x02", b"old"),  # an empty value is no pair
        (b"MYKEYS\x01no\x02", b""),
        (b"KEYS\x01yes\x02MYKEYS\x01no\x02", b"yes"),
        (b"KEYS\x01MYKEYS\x01x\x02", b"MYKEYS\x01x"),
        (b"KEYSX\x01no\x02", b""),
    ],
)
def test_it_finds_a_property_as_the_plain_decoder_does(properties: bytes, value: bytes) -> None:
    assert find_property(properties, KEYS) == value


def plain_find(properties: bytes, name: bytes) -> bytes:
    found = b""
    for chunk in properties.split(b"\x02"):
        key, separator, value = chunk.partition(b"\x01")
        if separator and key == name and value:
            found = value
    return found


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"TAGS", b"KEYS", b"XKEYS", b"DELAY", b"KE", b""]),
            st.binary(max_size=4).map(lambda b: b.replace(b"\x01", b"K").replace(b"\x02", b"E")),
        ),
        max_size=6,
    ),
    st.booleans(),
)
def test_it_finds_what_its_plain_twin_finds(pairs: list[tuple[bytes, bytes]], trailing: bool) -> None:
    properties = b"\x02".join(name + b"\x01" + value for name, value in pairs)
    properties += b"\x02" if trailing else b""
    for name in (TAGS, KEYS, DELAY):
        assert find_property(properties, name) == plain_find(properties, name[:-1])


def plain_encode(
    topic: str, body: bytes, properties: bytes, numbers: tuple[int, ...], born: bytes, stored: bytes
) -> bytes:
    """The layout written field by field, as the reference lists it."""
    queue_id, queue_offset, offset, flag, born_ms, stored_ms, reconsumes, prepared = numbers
    name = topic.encode()
    sys_flag = (0x10 if len(born) == 20 else 0) | (0x20 if len(stored) == 20 else 0)
    v2 = len(name) > 127
    parts = [
        struct.pack(">I", MAGIC_V2 if v2 else MAGIC_V1),
        struct.pack(">i", crc32(body) & 0x7FFFFFFF),
        struct.pack(">i", queue_id),
        struct.pack(">i", flag),
        struct.pack(">q", queue_offset),
        struct.pack(">q", offset),
        struct.pack(">i", sys_flag),
        struct.pack(">q", born_ms),
        born,
        struct.pack(">q", stored_ms),
        stored,
        struct.pack(">i", reconsumes),
        struct.pack(">q", prepared),
        struct.pack(">i", len(body)),
        body,
        struct.pack(">h" if v2 else ">b", len(name)),
        name,
        struct.pack(">h", len(properties)),
        properties,
    ]
    data = b"".join(parts)
    return struct.pack(">i", len(data) + 4) + data


INT = st.integers(0, 2**31 - 1)
LONG = st.integers(0, 2**63 - 1)
HOSTS = st.sampled_from([("192.0.2.1", 1), ("2001:db8::7", 65535), ("127.0.0.1", 10911)])


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.binary(max_size=300),
    st.binary(max_size=100),
    st.tuples(INT, LONG, LONG, INT, LONG, LONG, INT, LONG),
    HOSTS,
    HOSTS,
)
def test_it_equals_its_plain_twin_and_reads_back(
    topic: str,
    body: bytes,
    properties: bytes,
    numbers: tuple[int, ...],
    born_host: tuple[str, int],
    store_host: tuple[str, int],
) -> None:
    born, stored = encode_host(born_host), encode_host(store_host)
    queue_id, queue_offset, offset, flag, born_ms, stored_ms, reconsumes, prepared = numbers
    sys_flag = (0x10 if len(born) == 20 else 0) | (0x20 if len(stored) == 20 else 0)
    data = encode_record(
        encode_topic(topic),
        queue_id,
        queue_offset,
        offset,
        body,
        properties,
        flag,
        sys_flag,
        born_ms,
        born,
        stored_ms,
        stored,
        reconsumes,
        prepared,
    )
    assert data == plain_encode(topic, body, properties, numbers, born, stored)
    assert read_record(memoryview(b"xyz" + data), 3, offset) == StoredRecord(
        len(data), topic, queue_id, queue_offset, offset, sys_flag, stored_ms, properties
    )


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.binary(max_size=300),
    st.dictionaries(st.sampled_from(["TAGS", "KEYS", "订单"]), st.text("ab键", min_size=1, max_size=5)),
    HOSTS,
    HOSTS,
)
def test_it_writes_what_the_plain_encoder_of_the_wire_writes(
    topic: str,
    body: bytes,
    properties: dict[str, str],
    born_host: tuple[str, int],
    store_host: tuple[str, int],
) -> None:
    sys_flag = (0x10 if ":" in born_host[0] else 0) | (0x20 if ":" in store_host[0] else 0)
    data = encode_record(
        encode_topic(topic),
        1,
        2,
        3,
        body,
        encode_properties(properties),
        4,
        sys_flag,
        5,
        encode_host(born_host),
        6,
        encode_host(store_host),
        7,
        8,
    )
    record = message.MessageRecord(
        topic=topic,
        queue_id=1,
        queue_offset=2,
        commit_log_offset=3,
        store_size_bytes=len(data),
        body=body,
        body_crc=message.body_crc(body),
        flag=4,
        sys_flag=sys_flag,
        born_timestamp_ms=5,
        born_host=born_host,
        store_timestamp_ms=6,
        store_host=store_host,
        reconsume_times=7,
        prepared_transaction_offset=8,
        properties=properties,
    )
    assert data == encode_plainly(record)
    assert message.decode_record(data) == record


@pytest.mark.parametrize("topic", ["TopicTest", "%RETRY%" + "g" * 121])
@pytest.mark.parametrize(("sys_flag", "born"), [(0, "192.0.2.7"), (0x10, "2001:db8::1")])
def test_it_finds_the_properties_of_a_record(topic: str, sys_flag: int, born: str) -> None:
    assert read_properties(memoryview(plain_record(sys_flag, topic, born))) == b"TAGS\x01TagA\x02:;"
