from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerd.remoting.errors import BodyError, CorruptRecord, RemotingError, TornRecord
from brokerd.remoting.message.batch import decode_batch, encode_batch
from brokerd.remoting.message.ids import create_offset_message_id, create_unique_key, decode_offset_message_id
from brokerd.remoting.message.java_hash import java_string_hash, tags_code
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.properties import decode_properties, encode_properties
from brokerd.remoting.message.record import (
    MessageRecord,
    body_crc,
    decode_record,
    decode_records,
    encode_record,
)

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
# Protocol section 4.2.
BATCH = [Message("T", b"hi", {"KEYS": "K1", "WAIT": "true", "TAGS": "TagA"})]
BATCH_BYTES = bytes.fromhex(
    "00000034 00000000 00000000 00000000 00000002 6869 001c 4b455953014b3102 57414954017472756502 "
    "5441475301546167 4102"
)


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


@pytest.mark.parametrize("cut", range(len(RECORD_BYTES)))
def test_it_calls_a_cut_record_torn(cut: int) -> None:
    with pytest.raises(TornRecord):
        decode_record(RECORD_BYTES[:cut])
    if cut:
        with pytest.raises(TornRecord):
            decode_records(RECORD_BYTES + RECORD_BYTES[:cut])


def changed(at: int, data: bytes) -> bytes:
    return RECORD_BYTES[:at] + data + RECORD_BYTES[at + len(data) :]


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


# Properties


def test_it_writes_properties() -> None:
    assert encode_properties({"TAGS": "TagA", "KEYS": "k"}) == b"TAGS\x01TagA\x02KEYS\x01k\x02"
    assert encode_properties({}) == b""


@pytest.mark.parametrize(
    ("data", "properties"),
    [
        (b"TAGS\x01TagA\x02KEYS\x01k\x02", {"TAGS": "TagA", "KEYS": "k"}),
        (b"TAGS\x01TagA\x02KEYS\x01k", {"TAGS": "TagA", "KEYS": "k"}),
        (b"", {}),
        (b"\x02\x02", {}),
        (b"junk\x02a\x01b", {"a": "b"}),
        (b"a\x01\x02", {"a": ""}),
        (b"a\x011\x02a\x012\x02", {"a": "2"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"\x01v\x02", {}),
        ("标签\x01ü\x02", {"标签": "ü"}),
        (b"a\x01\xff\x02", {"a": "\ufffd"}),
    ],
)
def test_it_reads_properties(data: bytes | str, properties: dict[str, str]) -> None:
    assert decode_properties(data) == properties


# Batches


def test_it_encodes_a_batch() -> None:
    assert encode_batch(BATCH) == BATCH_BYTES


def test_it_decodes_a_batch() -> None:
    assert decode_batch(BATCH_BYTES, "T") == BATCH
    assert decode_batch(BATCH_BYTES * 3, "T") == BATCH * 3
    assert decode_batch(b"") == []


@pytest.mark.parametrize("cut", range(1, len(BATCH_BYTES)))
def test_it_refuses_a_cut_batch(cut: int) -> None:
    with pytest.raises(BodyError):
        decode_batch(BATCH_BYTES + BATCH_BYTES[:cut])


def test_it_refuses_a_batch_whose_sizes_contradict_each_other() -> None:
    for size in (0x33, 0x35, 0x34 + len(BATCH_BYTES)):
        with pytest.raises(BodyError, match="holds 52"):
            decode_batch(bytes([0, 0, 0, size]) + BATCH_BYTES[4:] + BATCH_BYTES, "T")


@given(st.binary(max_size=120))
def test_it_refuses_junk_as_a_batch(junk: bytes) -> None:
    for data in (junk, bytes(16) + junk, b"\x00\x00\x00\x20" + bytes(12) + junk):
        try:
            assert encode_batch(decode_batch(data))[:4] == data[:4]
        except BodyError:
            continue


def test_it_refuses_to_write_properties_too_long_for_a_batch() -> None:
    with pytest.raises(BodyError, match="properties of 32770 bytes"):
        encode_batch([Message("T", b"", {"k": "v" * 32_767})])


# Hashes and ids


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2_598_919),
        ("标签", 857_175),
        ("polygenelubricants", -(2**31)),
        ("😀", 1_772_899),
        ("é", 233),
    ],
)
def test_it_hashes_as_java_does(text: str, number: int) -> None:
    assert java_string_hash(text) == number


def plain_hash(text: str) -> int:
    """String.hashCode as its documentation says."""
    value, units = 0, text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) % 2**32
    return value - 2**32 if value >= 2**31 else value


@given(
    st.text(st.characters(), max_size=40)
    | st.text(st.characters(max_codepoint=255), min_size=250, max_size=800)
)
def test_it_hashes_as_the_plain_loop_does(text: str) -> None:
    assert java_string_hash(text) == plain_hash(text)


def test_it_codes_tags() -> None:
    assert [tags_code(None), tags_code(""), tags_code("TagA"), tags_code("标签")] == [
        0,
        0,
        2_598_919,
        857_175,
    ]


def test_it_sums_bodies() -> None:
    assert body_crc(b"hello") == 0x3610A686
    assert body_crc(b"") == 0
    assert body_crc(b"a") == 0x68B7BE43  # the CRC-32 is 0xE8B7BE43: without the top bit


def test_it_writes_and_reads_offset_message_ids() -> None:
    message_id = "0A00000200002A9F0000000000001000"
    assert create_offset_message_id("10.0.0.2", 10911, 4096) == message_id
    assert decode_offset_message_id(message_id) == ("10.0.0.2", 10911, 4096)
    assert decode_offset_message_id(message_id.lower()) == ("10.0.0.2", 10911, 4096)
    long_id = "20010DB8000000000000000000000001" + "00002A9F" + "0000000000001000"
    assert create_offset_message_id("2001:db8::1", 10911, 4096) == long_id
    assert decode_offset_message_id(long_id) == ("2001:db8::1", 10911, 4096)


@pytest.mark.parametrize(
    "text", ["", "0A", "x" * 32, "C000020207DA5FFD2B2768FA26940011", "0" * 32, "F" * 32, "é" * 32]
)
def test_it_refuses_other_ids(text: str) -> None:
    with pytest.raises(ValueError):
        decode_offset_message_id(text)


def test_it_makes_unique_keys_in_javas_layout() -> None:
    """Address, process, hash, milliseconds of the month, counter."""
    now_ms = int(datetime(2026, 11, 21, 1, 2, 3, 4000, tzinfo=UTC).timestamp() * 1000)
    key = create_unique_key(bytes([10, 0, 0, 1]), 70_000, 70_001, now_ms)
    assert (len(key), key[:8], key[8:12], key[28:]) == (32, "0A000001", "1170", "1171")
    assert int(key[20:28], 16) == ((20 * 24 + 1) * 3600 + 2 * 60 + 3) * 1000 + 4
    assert create_unique_key(bytes([10, 0, 0, 1]), 70_000, 70_002, now_ms) != key
    assert len(create_unique_key(bytes(16), 1, 1, now_ms)) == 56


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 2**40), st.integers(0, 2**40))
def test_it_makes_a_key_at_any_time(now_ms: int, pid: int, counter: int) -> None:
    key = create_unique_key(bytes([127, 0, 0, 1]), pid, counter, now_ms)
    assert 0 <= int(key[20:28], 16) < 31 * 24 * 3600 * 1000


def test_it_calls_records_errors_of_the_wire() -> None:
    assert issubclass(TornRecord, RemotingError)
