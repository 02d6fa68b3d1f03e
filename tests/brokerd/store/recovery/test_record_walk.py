from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.remoting.message.hosts import encode_host
from brokerd.store.errors import TornRecord
from brokerd.store.files.mapped_file import MappedFile
from brokerd.store.log.record import StoredRecord, encode_record, encode_topic, read_record
from brokerd.store.recovery.record_walk import walk_records

FILE_BYTES = 4096
BASE = 8192


def record_of(offset: int, topic: str, body: bytes, properties: bytes, born_host: str) -> bytes:
    sys_flag = 0x10 if ":" in born_host else 0
    return encode_record(
        encode_topic(topic),
        3,
        7,
        offset,
        body,
        properties,
        9,
        sys_flag,
        5,
        encode_host((born_host, 1)),
        6,
        encode_host(("127.0.0.1", 10911)),
        2,
        0,
    )


def plain_walk(mapped_file: MappedFile, *, check_crc: bool) -> list[StoredRecord]:
    """The same by read_record: ordinary records until the first other one."""
    found: list[StoredRecord] = []
    position = 0
    while True:
        try:
            record = read_record(mapped_file.view, position, BASE + position, check_crc=check_crc)
        except TornRecord:
            return found
        if record is None or record.sys_flag & 0x30 or len(record.topic.encode()) > 127:
            return found
        if record.properties.endswith(b"\0"):
            return found
        found.append(record)
        position += record.size_bytes


def walked(mapped_file: MappedFile, *, check_crc: bool) -> list[StoredRecord]:
    found = []
    position = 0
    for each in walk_records(mapped_file, position, check_crc=check_crc):
        end, topic, queue_id, queue_offset, sys_flag, timestamp_ms, start = each
        properties = mapped_file.map[start:end]
        try:
            name = topic.decode()
        except UnicodeDecodeError:
            break  # the walk leaves this to its caller
        found.append(
            StoredRecord(
                end - position,
                name,
                queue_id,
                queue_offset,
                BASE + position,
                sys_flag,
                timestamp_ms,
                properties,
            )
        )
        position = end
    return found


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["T", "订单", "%RETRY%" + "g" * 130]),
            st.binary(max_size=200),
            st.binary(max_size=30),
            st.sampled_from(["192.0.2.1", "192.0.2.1", "192.0.2.1", "2001:db8::1"]),
        ),
        max_size=8,
    ),
    st.lists(st.tuples(st.integers(0, 900), st.binary(min_size=1, max_size=9)), max_size=2),
    st.booleans(),
)
def test_it_equals_its_plain_twin_on_whole_and_damaged_files(
    records: list[tuple[str, bytes, bytes, str]], damages: list[tuple[int, bytes]], check_crc: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        mapped_file = MappedFile(Path(folder) / "log", FILE_BYTES, BASE)
        position = 0
        for topic, body, properties, born_host in records:
            data = record_of(BASE + position, topic, body, properties, born_host)
            mapped_file.map[position : position + len(data)] = data
            position += len(data)
        for damage_position, damage in damages:
            mapped_file.map[damage_position : damage_position + len(damage)] = damage
        assert walked(mapped_file, check_crc=check_crc) == plain_walk(mapped_file, check_crc=check_crc)


def test_it_walks_to_the_last_byte_of_a_file(tmp_path: Path) -> None:
    mapped_file = MappedFile(tmp_path / "log", FILE_BYTES, BASE)
    data = record_of(BASE, "T", bytes(FILE_BYTES - 92), b"", "192.0.2.1")
    mapped_file.map[:] = data
    assert [each[0] for each in walk_records(mapped_file, 0, check_crc=True)] == [FILE_BYTES]
    assert list(walk_records(mapped_file, FILE_BYTES, check_crc=True)) == []
