"""A master's log taken over by a slave's store: cut anywhere it is the same store, damaged anywhere it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerd.store.errors import ServiceNotAvailable, TransferDiverged
from brokerd.store.message_store import MessageStore
from tests.brokerd.store.stores import open_store, put, put_all, settle

FILE_BYTES = 4096


def master_with(root: Path, count: int = 40) -> MessageStore:
    """Several files, two queues, a transaction's half message, keys and tags."""
    store = open_store(root)
    for number in range(count):
        put(store, b"body %d" % number * 9, queue_id=number % 2, properties=b"KEYS\x01k%d\x02" % number)
    put(store, b"half", topic="RMQ_SYS_TRANS_HALF_TOPIC", sys_flag=4)
    settle(store)
    return store


def log_of(store: MessageStore, offset: int = 0) -> bytes:
    pieces = []
    while offset < store.commit_log_max_offset:
        pieces.append(bytes(store.pieces.piece(offset, 1000)))
        offset += len(pieces[-1])
    return b"".join(pieces)


def units(store: MessageStore) -> list[list[tuple[int, int, int]]]:
    """Of both queues; a read gives those of one file, which has ten."""
    return [
        [unit for start in range(0, 40, 10) for unit in store.units("TopicTest", queue_id, start, 10)]
        for queue_id in (0, 1)
    ]


def feed(slave: MessageStore, data: bytes, begin: int, end: int) -> None:
    slave.transferred.receive(begin, data[begin:end])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 8000), max_size=30))
def test_it_is_the_masters_store_however_the_log_is_cut(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("pair")
    master, slave = master_with(folder / "master"), open_store(folder / "slave", broker_role="SLAVE")
    data, begin = log_of(master), 0
    assert len(data) > FILE_BYTES
    for end in [*sorted(cut for cut in cuts if cut < len(data)), len(data)]:
        feed(slave, data, begin, end)
        begin = end
    settle(slave)
    assert slave.commit_log_max_offset == master.commit_log_max_offset
    assert (log_of(slave), units(slave)) == (data, units(master))
    assert len(units(slave)[0]) == 20
    assert len(slave.query_by_key("TopicTest", "k7", 10, 0, 1 << 60).commit_log_offsets) == 1
    slave.close(0)
    again = open_store(folder / "slave", broker_role="SLAVE")
    assert units(again) == units(master)
    again.close(0)
    master.close(0)


def test_it_goes_on_behind_its_last_whole_record(tmp_path: Path) -> None:
    master, slave = master_with(tmp_path / "master"), open_store(tmp_path / "slave", broker_role="SLAVE")
    data = log_of(master)
    feed(slave, data, 0, 300)
    end = slave.transferred.begin()
    assert 0 < end < 300
    feed(slave, data, end, len(data))
    settle(slave)
    assert units(slave) == units(master)


def test_a_damaged_byte_is_found_where_the_format_can_show_it(tmp_path: Path) -> None:
    """Size, magic, checksum, own offset, lengths, body; the other fields of a header have no checksum in RocketMQ."""
    master = open_store(tmp_path / "master")
    put_all(master, [b"0123456789"] * 2)
    data = log_of(master)
    size = len(data) // 2
    checked = [*range(12), *range(28, 36), *range(84, 98)]
    for number, position in enumerate(checked):
        slave = open_store(tmp_path / f"slave{number}", broker_role="SLAVE")
        wrong = bytearray(data)
        wrong[size + position] ^= 0x55
        with pytest.raises(TransferDiverged):
            feed(slave, bytes(wrong) + bytes(70_000), 0, len(wrong) + 70_000)
        assert slave.commit_log_max_offset == size, position
        slave.close(0)


def test_it_refuses_what_is_not_the_next_byte(tmp_path: Path) -> None:
    master, slave = master_with(tmp_path / "master"), open_store(tmp_path / "slave", broker_role="SLAVE")
    data = log_of(master)
    feed(slave, data, 0, 300)
    for offset in (0, 299, 301):
        with pytest.raises(TransferDiverged, match=f"sent offset {offset}, this log goes on at 300"):
            slave.transferred.receive(offset, b"")
    slave.transferred.receive(300, b"")


def test_it_refuses_another_size_of_files(tmp_path: Path) -> None:
    master = master_with(tmp_path / "master")
    data = log_of(master)
    for size in (8192, 5000):
        slave = open_store(tmp_path / f"{size}", broker_role="SLAVE", mapped_file_size_commit_log=size)
        with pytest.raises(TransferDiverged, match="set mappedFileSizeCommitLog as the master has it"):
            feed(slave, data, 0, len(data))
    late = open_store(tmp_path / "late", broker_role="SLAVE", mapped_file_size_commit_log=8192)
    with pytest.raises(TransferDiverged, match="where no file of 8192 bytes starts"):
        late.transferred.receive(4096, data[4096:])


def test_an_empty_one_begins_where_the_master_does(tmp_path: Path) -> None:
    master, slave = master_with(tmp_path / "master"), open_store(tmp_path / "slave", broker_role="SLAVE")
    begin = master.commit_log_max_offset // FILE_BYTES * FILE_BYTES
    assert begin
    # As the broker makes it, in a thread, before it can know the first offset.
    slave.table.adopt(slave.table.make_with_file("TopicTest", 0))
    slave.transferred.receive(begin, log_of(master, begin))
    settle(slave)
    first = slave.min_offset("TopicTest", 0)
    assert 0 < first < 20 == slave.max_offset("TopicTest", 0)
    assert slave.units("TopicTest", 0, first, 50) == master.units("TopicTest", 0, first, 50)


def test_its_clients_put_nothing(tmp_path: Path) -> None:
    slave = open_store(tmp_path, broker_role="SLAVE")
    with pytest.raises(ServiceNotAvailable, match="this broker is a slave"):
        put(slave)


def test_a_piece_is_of_one_file_and_what_was_deleted_is_named(tmp_path: Path) -> None:
    master = master_with(tmp_path / "master")
    assert len(master.pieces.piece(FILE_BYTES - 5, 1000)) == 5
    assert len(master.pieces.piece(master.commit_log_max_offset - 3, 1000)) == 3
    master.pieces.read_ahead(0, 10_000)
    with pytest.raises(TransferDiverged, match="offset 409600 is not here any more"):
        master.pieces.piece(409_600, 10)
