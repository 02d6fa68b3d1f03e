from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.store.message_store import MessageStore
from brokerd.store.queue_reader import RecordFilter
from brokerd.store.results import BoundaryType, GetMessageStatus
from tests.brokerd.store.stores import NOW_MS, body_of, open_store, put, put_all

TAG_A, TAG_B = 2598919, 2598920
LOWER, UPPER = BoundaryType.LOWER, BoundaryType.UPPER


def filled(tmp_path: Path, count: int = 10, **changes: object) -> MessageStore:
    store = open_store(tmp_path, **changes)
    put_all(store, [b"m%d" % number for number in range(count)])
    return store


def pulled(
    store: MessageStore, offset: int, max_num: int = 32, **fields: object
) -> tuple[str, int, list[bytes]]:
    result = store.get_message("TopicTest", 0, offset, max_num, **fields)  # type: ignore[arg-type]
    assert result.message_count == len(result.views)
    assert result.size_bytes == sum(len(view) for view in result.views)
    return result.status.value, result.next_begin_offset, [body_of(view) for view in result.views]


def test_it_answers_for_queues_without_messages(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert pulled(store, 5) == ("NO_MATCHED_LOGIC_QUEUE", 0, [])
    put(store)  # not dispatched: consumers do not see it yet
    assert pulled(store, 5) == ("NO_MESSAGE_IN_QUEUE", 0, [])
    store.close(NOW_MS)


@pytest.mark.parametrize(
    ("offset", "answer"),
    [
        (0, ("FOUND", 3, [b"m0", b"m1", b"m2"])),
        (8, ("FOUND", 10, [b"m8", b"m9"])),
        (10, ("OFFSET_OVERFLOW_ONE", 10, [])),
        (11, ("OFFSET_OVERFLOW_BADLY", 10, [])),
        (-1, ("OFFSET_TOO_SMALL", 0, [])),
    ],
)
def test_it_answers_by_where_the_offset_lies(
    tmp_path: Path, offset: int, answer: tuple[str, int, list[bytes]]
) -> None:
    store = filled(tmp_path)
    assert pulled(store, offset, 3) == answer
    result = store.get_message("TopicTest", 0, offset, 3)
    assert (result.min_offset, result.max_offset) == (0, 10)
    store.close(NOW_MS)


def test_it_reads_one_consume_queue_file_per_pull(tmp_path: Path) -> None:
    store = filled(tmp_path, 25)
    assert pulled(store, 7)[:2] == ("FOUND", 10)
    assert pulled(store, 10)[:2] == ("FOUND", 20)
    store.close(NOW_MS)


def test_it_filters_by_tags_and_goes_on_behind_the_last_unit_it_looked_at(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_consume_queue=2000)
    for number in range(6):
        put(
            store, b"m%d" % number, properties=b"TAGS\x01TagA\x02" if number % 3 == 0 else b"TAGS\x01TagB\x02"
        )
    put(store, b"untagged")
    store.dispatch_pending()
    assert pulled(store, 0, tags_codes=frozenset((TAG_A,))) == ("FOUND", 7, [b"m0", b"m3"])
    assert pulled(store, 0, 2, tags_codes=frozenset((TAG_B,))) == ("FOUND", 3, [b"m1", b"m2"])
    assert pulled(store, 0, 2, tags_codes=frozenset((TAG_A, TAG_B))) == ("FOUND", 2, [b"m0", b"m1"])
    assert pulled(store, 0, tags_codes=frozenset((77,))) == ("NO_MATCHED_MESSAGE", 7, [])
    only_m3, nothing = (
        RecordFilter(lambda view: body_of(view) == b"m3", 800),
        RecordFilter(lambda _: False, 4),
    )
    found = pulled(store, 0, tags_codes=frozenset((TAG_A,)), record_filter=only_m3)
    assert found == ("FOUND", 7, [b"m3"])
    assert pulled(store, 6, record_filter=nothing) == ("NO_MATCHED_MESSAGE", 7, [])
    assert pulled(store, 0, record_filter=nothing) == ("NO_MATCHED_MESSAGE", 4, []), "its own limit"
    store.close(NOW_MS)


def test_it_looks_at_800_units_at_most(tmp_path: Path) -> None:
    store = filled(tmp_path, 1000, mapped_file_size_consume_queue=40_000, mapped_file_size_commit_log=1 << 20)
    assert pulled(store, 50, tags_codes=frozenset((77,))) == ("NO_MATCHED_MESSAGE", 850, [])
    assert pulled(store, 0, 900, tags_codes=frozenset((77,)))[1] == 900
    store.close(NOW_MS)


def test_it_stops_at_32_messages_in_memory_whatever_is_asked_for(tmp_path: Path) -> None:
    store = filled(tmp_path, 100, mapped_file_size_consume_queue=2000, mapped_file_size_commit_log=1 << 20)
    assert pulled(store, 0, 64)[1] == 32
    store.close(NOW_MS)


def test_it_stops_at_bytes_but_always_gives_the_first_message(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    put_all(store, [bytes(100_000)] * 4)
    assert pulled(store, 0)[1] == 2  # 256 KiB in memory
    assert pulled(store, 0, max_bytes=100_300)[1] == 1
    assert pulled(store, 0, max_bytes=1)[1] == 1
    assert pulled(store, 0, max_bytes=200_300)[1] == 2
    store.close(NOW_MS)


def test_it_hands_out_less_of_what_is_on_disk_and_suggests_another_broker(tmp_path: Path) -> None:
    store = filled(tmp_path, 20, access_message_in_memory_max_ratio=0, mapped_file_size_consume_queue=2000)
    result = store.get_message("TopicTest", 0, 0, 32)
    assert (result.message_count, result.suggest_pulling_from_slave) == (8, True)
    store.close(NOW_MS)
    store = filled(tmp_path / "large", 2, mapped_file_size_consume_queue=2000)
    assert not store.get_message("TopicTest", 0, 0, 32).suggest_pulling_from_slave
    store.close(NOW_MS)


def test_it_skips_a_removed_log_file_and_says_so(tmp_path: Path) -> None:
    store = filled(tmp_path, 10, mapped_file_size_consume_queue=2000)
    put_all(store, [bytes(3000), bytes(3000), b"last"])
    store._log.files.delete_first()  # before the minimum offset is corrected, as in a race with a pull
    assert pulled(store, 0, 32)[:2] == ("FOUND", 13)
    assert len(pulled(store, 0, 32)[2]) == 3
    assert pulled(store, 0, 5, tags_codes=frozenset((0,)))[0] == "FOUND"
    store._log.files.delete_first()
    store._log.files.delete_first()
    assert pulled(store, 0)[:2] == ("MESSAGE_WAS_REMOVING", 13)
    store.close(NOW_MS)


def test_it_hands_out_nothing_behind_the_end_of_the_log(tmp_path: Path) -> None:
    store = filled(tmp_path, 3)
    end = store._log.max_offset
    store._log.max_offset = end - 1
    assert pulled(store, 0) == ("FOUND", 3, [b"m0", b"m1"])
    store._log.max_offset = end
    store.close(NOW_MS)


def test_it_finds_a_gap_in_the_queue_files(tmp_path: Path) -> None:
    store = filled(tmp_path, 25)
    store.table.queues["TopicTest", 0].files.delete_first()
    assert pulled(store, 3) == ("OFFSET_FOUND_NULL", 10, [])
    store.close(NOW_MS)


def timed(tmp_path: Path) -> MessageStore:
    """Store times 100, 200, 200, 200, 300, … 1000 after NOW_MS, over several queue files."""
    store = open_store(tmp_path)
    for time in (100, 200, 200, 200, 300, 400, 500, 600, 700, 800, 900, 1000):
        put(store, now_ms=NOW_MS + time)
    store.dispatch_pending()
    return store


@pytest.mark.parametrize(
    ("time", "lower", "upper"),
    [
        (0, 0, 0),
        (100, 0, 0),
        (150, 1, 0),
        (200, 1, 3),
        (250, 4, 3),
        (800, 9, 9),
        (850, 10, 9),
        (1000, 11, 11),
        (1001, 12, 11),
    ],
)
def test_it_finds_the_offset_at_a_time(tmp_path: Path, time: int, lower: int, upper: int) -> None:
    store = timed(tmp_path)
    assert store.offset_by_time("TopicTest", 0, NOW_MS + time) == lower
    assert store.offset_by_time("TopicTest", 0, NOW_MS + time, LOWER) == lower
    assert store.offset_by_time("TopicTest", 0, NOW_MS + time, UPPER) == upper
    store.close(NOW_MS)


def test_it_answers_times_of_empty_queues_and_removed_messages(tmp_path: Path) -> None:
    store = timed(tmp_path)
    assert store.offset_by_time("None", 0, NOW_MS) == 0
    assert store.store_timestamp("TopicTest", 0, 4) == NOW_MS + 300
    assert store.store_timestamp("TopicTest", 0, 12) == -1
    assert store.store_timestamp("TopicTest", 0, -1) == -1
    assert store.store_timestamp("None", 0, 0) == -1
    assert store.earliest_store_timestamp("TopicTest", 0) == NOW_MS + 100
    assert store.earliest_store_timestamp("None", 0) == -1
    queue = store.table.queues["TopicTest", 0]
    queue.correct_min_offset(queue.unit(4)[0])
    assert store.offset_by_time("TopicTest", 0, NOW_MS) == 4
    assert store.offset_by_time("TopicTest", 0, NOW_MS, UPPER) == 4
    assert store.earliest_store_timestamp("TopicTest", 0) == NOW_MS + 300
    store.close(NOW_MS)


def test_it_reads_what_is_still_being_sent_after_a_file_is_deleted(tmp_path: Path) -> None:
    store = filled(tmp_path, 3)
    result = store.get_message("TopicTest", 0, 0, 32)
    assert result.status is GetMessageStatus.FOUND
    store._log.files.delete_first()
    store.close(NOW_MS)
    del store
    assert [body_of(view) for view in result.views] == [b"m0", b"m1", b"m2"]


@pytest.mark.parametrize("damage", ["body", "header", "unit", "another's unit"])
def test_it_leaves_out_a_message_that_was_damaged_since_an_earlier_process_wrote_it(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A clean start reads no log, so what is on the disk is compared when it is served."""
    store = filled(tmp_path, 6)
    offset = store.table.queues["TopicTest", 0].unit(3)[0]
    store.close(NOW_MS)
    path = tmp_path / "commitlog" / f"{0:020d}"
    position = offset + 88
    if damage == "header":
        position = offset + 30
    if damage == "unit":
        path, position = tmp_path / "consumequeue" / "TopicTest" / "0" / f"{0:020d}", 3 * 20 + 7
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    if damage == "another's unit":
        data[position] ^= 1
        path = tmp_path / "consumequeue" / "TopicTest" / "0" / f"{0:020d}"
        data = bytearray(path.read_bytes())
        data[3 * 20 : 4 * 20] = data[1 * 20 : 2 * 20]
    path.write_bytes(data)
    again = open_store(tmp_path)
    for _ in range(2):
        result = again.get_message("TopicTest", 0, 0, 32)
        assert [body_of(view) for view in result.views] == [b"m0", b"m1", b"m2", b"m4", b"m5"]
        assert result.next_begin_offset == 6
    assert caplog.text.count("damaged message left out topic=TopicTest queue_id=0 offset=3") == 1
    put_all(again, [b"new"])
    assert [body_of(view) for view in again.get_message("TopicTest", 0, 6, 32).views] == [b"new"]
    again.close(NOW_MS)
