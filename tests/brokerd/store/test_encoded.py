"""Records that were encoded elsewhere are stored as those of `put_message`."""

from __future__ import annotations

from pathlib import Path

from brokerd.store.queue.consume_queue import CQ_UNIT
from tests.brokerd.store.stores import NOW_MS, open_store, put, settle


def test_it_stores_what_put_message_stores(tmp_path: Path) -> None:
    usual, store = open_store(tmp_path / "usual"), open_store(tmp_path / "encoded")
    for each in (usual, store):
        put(each)
    result = put(usual, b"second", properties=b"UNIQ_KEY\x01k\x02")
    record = usual.look_message(result.commit_log_offset)
    assert record is not None
    offset, room, stored_ms = store.encoded.place(NOW_MS)
    assert offset == result.commit_log_offset
    assert room >= result.size_bytes
    queue = store.encoded.queues["TopicTest", 0]
    unit = CQ_UNIT.pack(offset, len(record), 0)
    keyed = (queue, offset, stored_ms, b"UNIQ_KEY\x01k\x02")
    note = (queue, 1, offset, len(record), unit, stored_ms, (keyed,))
    store.encoded.append(bytes(record), [note], stored_ms)
    for each in (usual, store):
        put(each, b"third")
        settle(each)
    logs = [each.get_message("TopicTest", 0, 0, 32) for each in (usual, store)]
    assert [bytes(view) for view in logs[0].views] == [bytes(view) for view in logs[1].views]
    assert len(logs[0].views) == 3
    found = [
        each.query_by_key("TopicTest", "k", 9, 0, NOW_MS + 1).commit_log_offsets for each in (usual, store)
    ]
    assert found == [[offset], [offset]]
    for each in (usual, store):
        each.close(NOW_MS)


def test_a_clock_set_back_stands_still(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store)
    assert store.encoded.place(NOW_MS - 1000)[2] == NOW_MS
    store.close(NOW_MS)
