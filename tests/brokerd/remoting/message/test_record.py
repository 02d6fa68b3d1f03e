from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from brokerd.remoting.errors import CorruptRecord, RemotingError, TornRecord
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.record import (
    MessageRecord,
    body_crc,
    decode_record,
    decode_records,
)
from tests.support.plain_record import encode_record

# Protocol section 4.1, written by Java.
RECORD = MessageRecord(
    topic="T",
    queue_id=3,
    queue_offset=42,
    commit_log_offset=4096,
    store_size_bytes=111,
    body=b"hello",
    body_crc=0x3610A686,
    flag=0,
    sys_flag=0,
    born_timestamp_ms=1_700_000_000_000,
    born_host=("10.0.0.1", 50000),
    store_timestamp_ms=1_700_000_000_001,
    store_host=("10.0.0.2", 10911),
    reconsume_times=0,
    prepared_transaction_offset=0,
    properties={"u": "1", "TAGS": "TagA"},
)
RECORD_BYTES = bytes.fromhex(
    "0000006f daa320a7 3610a686 00000003 00000000 000000000000002a 0000000000001000 00000000 0000018bcfe56800 "
    "0a000001 0000c350 0000018bcfe56801 0a000002 00002a9f 00000000 0000000000000000 00000005 68656c6c6f 01 54 "
    "000e 750131025441475301546167 4102"
)


def changed(at: int, data: bytes) -> bytes:
    return RECORD_BYTES[:at] + data + RECORD_BYTES[at + len(data) :]


def test_it_encodes_a_record() -> None:
    assert encode_record(RECORD) == RECORD_BYTES


def test_it_decodes_a_record() -> None:
    assert decode_record(RECORD_BYTES) == RECORD
    assert decode_record(memoryview(b"xx" + RECORD_BYTES), 2, check_crc=True) == RECORD


def test_it_names_a_record() -> None:
    assert RECORD.offset_message_id == "0A00000200002A9F0000000000001000"
    assert RECORD.message_id == "0A00000200002A9F0000000000001000"
    named = replace(RECORD, properties={"UNIQ_KEY": "C0A8", "KEYS": "a b", "TAGS": "x"})
    assert (named.message_id, named.keys, named.tags) == ("C0A8", "a b", "x")


def is_torn(decode: Callable[[bytes], object], data: bytes) -> bool:
    try:
        decode(data)
    except TornRecord:
        return True
    return False


def test_it_calls_a_cut_record_torn() -> None:
    cuts = range(1, len(RECORD_BYTES))
    assert is_torn(decode_record, b"")
    assert [cut for cut in cuts if not is_torn(decode_record, RECORD_BYTES[:cut])] == []
    assert [cut for cut in cuts if not is_torn(decode_records, RECORD_BYTES + RECORD_BYTES[:cut])] == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (changed(4, b"\xcb\xd4\x31\x94"), "magic 0xcbd43194"),
        (changed(0, b"\x00\x00\x00\x5a"), "record of 90 bytes"),
        (changed(0, b"\x00\x00\x00\x6e"), "field of 14 bytes"),
        (
            RECORD_BYTES.replace(b"\x00\x00\x00\x6f", b"\x00\x00\x00\x70", 1) + b"x",
            "record of 112 bytes at 0 holds 111",
        ),
        (changed(84, b"\x00\x00\x00\x06"), "field|holds"),
        (changed(84, b"\xff\xff\xff\xff"), "field of -1 bytes"),
        (changed(93, b"\xff"), "field of 255 bytes"),
        (changed(95, b"\xff\xff"), "field of -1 bytes"),
        (changed(36, b"\x00\x00\x00\x10"), "field|holds"),
    ],
)
def test_it_calls_a_contradicting_record_corrupt(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptRecord, match=reason):
        decode_record(data)


def test_it_checks_the_body_when_asked() -> None:
    broken = changed(88, b"jello")
    assert decode_record(broken).body == b"jello"
    with pytest.raises(CorruptRecord, match="checksum"):
        decode_record(broken, check_crc=True)
    assert decode_record(changed(8, bytes(4)), check_crc=True).body_crc == 0  # 0: not computed


def test_it_reads_and_writes_ipv6_hosts_and_long_topics() -> None:
    record = replace(
        RECORD,
        topic="%RETRY%" + "g" * 200,
        sys_flag=0x30,
        born_host=("2001:db8::1", 1),
        store_host=("::1", 2),
        store_size_bytes=111 + 24 + 206 + 1,
        properties={"标签": "ü"},
    )
    record = replace(
        record, store_size_bytes=record.store_size_bytes - 14 + len(encode_properties(record.properties))
    )
    data = encode_record(record)
    assert data[4:8] == b"\xda\xa3\x20\xab"
    assert decode_record(data) == record
    assert decode_records(data + RECORD_BYTES) == [record, RECORD]
    assert len(record.offset_message_id) == 56


def test_it_refuses_to_write_what_no_record_can_hold() -> None:
    with pytest.raises(ValueError, match="properties of 32770 bytes"):
        encode_record(replace(RECORD, properties={"k": "v" * 32_767}))
    with pytest.raises(ValueError, match="does not go with sysFlag"):
        encode_record(replace(RECORD, store_host=("::1", 2)))
    with pytest.raises(ValueError, match="topic of 70000 bytes"):
        encode_record(replace(RECORD, topic="t" * 70_000))


@given(st.binary(max_size=200), st.integers(0, 60))
@example(RECORD_BYTES[8:], 0)
def test_it_raises_nothing_but_documented_errors(junk: bytes, position: int) -> None:
    for data in (junk, b"\x00\x00\x00\x80\xda\xa3\x20\xa7" + junk, RECORD_BYTES[:position] + junk):
        try:
            decode_records(data)
        except (TornRecord, CorruptRecord):
            continue


@given(st.integers(0, len(RECORD_BYTES) - 1), st.integers(0, 255))
def test_it_survives_any_changed_byte(position: int, byte: int) -> None:
    try:
        decode_record(changed(position, bytes([byte])), check_crc=True)
    except (TornRecord, CorruptRecord):
        return


def one_by_one(data: bytes) -> list[MessageRecord]:
    """The plain twin of `decode_records`."""
    records: list[MessageRecord] = []
    position = 0
    while position < len(data):
        records.append(decode_record(data, position))
        position += records[-1].store_size_bytes
    return records


def outcome(decode: Callable[[bytes], list[MessageRecord]], data: bytes) -> list[MessageRecord] | str:
    try:
        return decode(data)
    except (TornRecord, CorruptRecord) as error:
        return repr(error)


@given(st.integers(0, len(RECORD_BYTES) - 1), st.binary(min_size=1, max_size=9), st.booleans())
@example(36, b"\x00\x00\x00\x10", True)
@example(84, b"\xff\xff\xff\xff", True)
@example(95, b"\xff\xff", False)
def test_many_are_read_as_each_is_alone(position: int, changes: bytes, is_followed: bool) -> None:
    data = changed(position, changes)[: len(RECORD_BYTES)] + (RECORD_BYTES if is_followed else b"")
    for whole in (data, RECORD_BYTES + data, data[:-1]):
        assert outcome(decode_records, whole) == outcome(one_by_one, whole)


def test_lengths_below_zero_that_add_up_are_refused_all_the_same() -> None:
    # A body of -4 bytes ends before its length does, whose first byte 255 then is the length of the topic.
    body = RECORD_BYTES[:84] + b"\xff\xff\xff\xfc" + bytes(254)
    body = struct.pack(">i", len(body)) + body[4:]
    # Properties of -2 bytes end where they begin.
    properties = struct.pack(">i", 95) + RECORD_BYTES[4:95] + b"\xff\xfe"
    for data in (body, properties):
        assert outcome(decode_records, data) == outcome(one_by_one, data)
        with pytest.raises(CorruptRecord, match="field of -4|ends inside"):
            decode_records(data)


def test_it_sums_bodies() -> None:
    assert body_crc(b"hello") == 0x3610A686
    assert body_crc(b"") == 0
    assert body_crc(b"a") == 0x68B7BE43  # the CRC-32 is 0xE8B7BE43: without the top bit


def test_it_calls_records_errors_of_the_wire() -> None:
    assert issubclass(TornRecord, RemotingError)
