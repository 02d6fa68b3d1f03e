from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.store.files.checkpoint import DurablePoint
from brokerd.store.index.index_file import IndexFile
from brokerd.store.index.key_index import KeyIndex, index_file_name
from brokerd.store.queue.consume_queue import ConsumeQueue
from tests.brokerd.store.stores import NOW_MS, small_config

EVER = (0, 2**62)
UNIQUE_KEY = "7F000001000018B4AAC2018CC25100%02X"


def new_index(root: Path, **changes: int) -> KeyIndex:
    return KeyIndex(small_config(root, **changes))


def queue_of(topic: str) -> ConsumeQueue:
    return ConsumeQueue(topic, 0, Path("nowhere"), 200)


def index_record(
    index: KeyIndex,
    queue: ConsumeQueue,
    offset: int,
    keys: str = "",
    unique_key: str = "",
    now_ms: int = NOW_MS,
) -> None:
    pairs = {"KEYS": keys, "UNIQ_KEY": unique_key, "TAGS": "TagA"}
    properties = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items() if value)
    index.put_records([(queue, offset, now_ms, properties.encode())])


def found(index: KeyIndex, key: str, topic: str = "T", max_num: int = 64) -> list[int]:
    return index.query(topic, key, max_num, *EVER).commit_log_offsets


def test_it_indexes_the_unique_key_and_every_word_of_keys(tmp_path: Path) -> None:
    index, queue = new_index(tmp_path), queue_of("T")
    index_record(index, queue, 100, "order-1 order-2", UNIQUE_KEY % 1)
    index_record(index, queue, 300, "order-2  键", UNIQUE_KEY % 2)
    assert found(index, "order-1") == [100]
    assert found(index, "order-2") == [100, 300]
    assert found(index, "键") == [300]
    assert found(index, UNIQUE_KEY % 1) == [100]
    assert found(index, UNIQUE_KEY % 2) == [300]
    assert found(index, "order-1 order-2") == []
    assert found(index, "order-1", "Other") == []


@pytest.mark.parametrize("unique_key", ["short", UNIQUE_KEY % 7, "é" * 16, "é" * 32, "x" * 56])
def test_it_finds_unique_keys_of_any_length_and_alphabet(tmp_path: Path, unique_key: str) -> None:
    index = new_index(tmp_path)
    index_record(index, queue_of("订单"), 100, unique_key=unique_key)
    assert found(index, unique_key, "订单") == [100]


def test_it_answers_hash_collisions_too(tmp_path: Path) -> None:
    index, queue = new_index(tmp_path), queue_of("T")
    index_record(index, queue, 100, "Aa")
    index_record(index, queue, 300, "BB")  # the same Java hash
    assert found(index, "Aa") == [100, 300]


def test_it_does_not_index_older_records_twice(tmp_path: Path) -> None:
    index, queue = new_index(tmp_path), queue_of("T")
    index_record(index, queue, 300, "k")
    index_record(index, queue, 100, "k")
    assert found(index, "k") == [300]


def test_it_starts_a_new_file_when_one_is_full_and_searches_all(tmp_path: Path) -> None:
    index, queue = new_index(tmp_path, max_index_num=4), queue_of("T")
    for number in range(8):
        index_record(index, queue, number * 100, "k", now_ms=NOW_MS + number * 1000)
    index.flush_full_files()
    assert [each.count for each in index.files] == [4, 4, 3]
    assert found(index, "k") == [0, 100, 200, 300, 400, 500, 600, 700]
    assert found(index, "k", max_num=3) == [500, 600, 700]
    assert index.query("T", "k", 64, NOW_MS + 2000, NOW_MS + 4000).commit_log_offsets == [200, 300, 400]
    assert index.safe_timestamp_ms == NOW_MS + 5000


def test_many_records_at_once_fill_one_file_after_another(tmp_path: Path) -> None:
    index, queue = new_index(tmp_path, max_index_num=4), queue_of("T")
    keys = [b"KEYS\x01%s\x02" % (b"k other" if number % 2 else b"k") for number in range(8)]
    index.put_records([(queue, number * 100, NOW_MS + number, keys[number]) for number in range(8)])
    assert [each.count for each in index.files] == [4, 4, 4, 4]
    assert found(index, "k") == [0, 100, 200, 300, 400, 500, 600, 700]
    assert found(index, "other") == [100, 300, 500, 700]
    assert [each.fault() for each in index.files] == [""] * 4


def test_it_caps_a_query_at_the_batch_limit(tmp_path: Path) -> None:
    index, queue = new_index(tmp_path, max_index_num=200, max_msgs_num_batch=5), queue_of("T")
    for number in range(50):
        index_record(index, queue, number * 100, "k")
    assert found(index, "k", max_num=1000) == [4500, 4600, 4700, 4800, 4900]


def test_it_tells_how_far_it_is(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    assert index.query("T", "k", 1, *EVER).index_last_update_timestamp_ms == 0
    index_record(index, queue_of("T"), 500, "k", now_ms=NOW_MS + 7)
    result = index.query("T", "none", 1, *EVER)
    assert (result.index_last_update_timestamp_ms, result.index_last_update_physic_offset) == (
        NOW_MS + 7,
        500,
    )


def indexed_crash(root: Path, count: int, noted: int) -> tuple[KeyIndex, DurablePoint]:
    """Five entries a file; the durable point was noted after `noted` of `count` records of 100 bytes."""
    index, queue = new_index(root, max_index_num=6), queue_of("T")
    point = DurablePoint()
    for number in range(count):
        if number == noted:
            index.flush_all()
            point = DurablePoint(0, number * 100, *index.newest_file_and_count())
        index_record(index, queue, number * 100, f"k{number} k", now_ms=NOW_MS + number * 1000)
    index.flush_full_files()
    return new_index(root, max_index_num=6), point


def test_it_keeps_all_files_of_a_java_broker_after_a_clean_stop_and_safe_ones_after_a_crash(
    tmp_path: Path,
) -> None:
    index, queue = new_index(tmp_path, max_index_num=4), queue_of("T")
    for number in range(5):
        index_record(index, queue, number * 100, "k", now_ms=NOW_MS + number * 1000)
    index.flush_full_files()
    clean = new_index(tmp_path, max_index_num=4)
    assert clean.load(None, clean_shutdown=True, safe_timestamp_ms=0) == 400
    clean.fit(500, clean_shutdown=True)
    assert found(clean, "k") == [0, 100, 200, 300, 400]
    crashed = new_index(tmp_path, max_index_num=4)
    # Records are indexed again from the end of the last safe file on.
    assert crashed.load(None, clean_shutdown=False, safe_timestamp_ms=NOW_MS + 2000) == 200
    assert len(list((tmp_path / "index").iterdir())) == 2
    crashed.fit(500, clean_shutdown=False)
    assert found(crashed, "k") == [0, 100, 200]
    assert len(list((tmp_path / "index").iterdir())) == 1


@pytest.mark.parametrize(
    ("noted", "count"), [(noted, count) for count in (1, 3, 5, 8, 11) for noted in range(count)]
)
def test_it_finds_every_key_again_after_a_crash(tmp_path: Path, count: int, noted: int) -> None:
    index, point = indexed_crash(tmp_path, count, noted)
    start = index.load(point, clean_shutdown=False, safe_timestamp_ms=0)
    assert start == noted * 100
    index.fit(count * 100, clean_shutdown=False)
    for number in range(start // 100, count):
        index_record(index, queue_of("T"), number * 100, f"k{number} k", now_ms=NOW_MS + number * 1000)
    for number in range(count):
        assert found(index, f"k{number}") == [number * 100]
    assert found(index, "k") == [number * 100 for number in range(count)]


@pytest.mark.parametrize("damage", ["lost", "header", "earlier lost"])
def test_it_indexes_again_what_a_damaged_file_held(tmp_path: Path, damage: str) -> None:
    index, point = indexed_crash(tmp_path, 9, 8)
    paths = sorted((tmp_path / "index").iterdir())
    assert len(paths) == 4
    if damage == "header":
        paths[-1].write_bytes(bytes(36) + b"\x7f\xff\xff\xff" + paths[-1].read_bytes()[40:])
    else:
        paths[-1 if damage == "lost" else 1].unlink()
    start = index.load(point, clean_shutdown=True, safe_timestamp_ms=0)
    index.fit(900, clean_shutdown=True)
    assert start == (800 if damage == "earlier lost" else 700)
    for number in range(start // 100, 9):
        index_record(index, queue_of("T"), number * 100, f"k{number} k", now_ms=NOW_MS + number * 1000)
    assert found(index, "k8") == [800]
    assert found(index, "k7") == [700]


def test_it_drops_entries_of_records_that_were_cut_off(tmp_path: Path) -> None:
    index, point = indexed_crash(tmp_path, 9, 8)
    index.load(point, clean_shutdown=False, safe_timestamp_ms=0)
    index.fit(350, clean_shutdown=False)
    assert found(index, "k") == [0, 100, 200, 300]
    assert [found(index, f"k{number}") for number in (2, 3, 4, 8)] == [[200], [300], [], []]
    index_record(index, queue_of("T"), 350, "new")
    assert found(index, "new") == [350]


def test_it_leaves_files_of_other_sizes_alone(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "20270115080000000").write_bytes(bytes(77))
    index = new_index(tmp_path)
    index.load(None, clean_shutdown=False, safe_timestamp_ms=0)
    index_record(index, queue_of("T"), 100, "k")
    assert found(index, "k") == [100]
    assert len(list((tmp_path / "index").iterdir())) == 2


def test_it_removes_an_empty_file_without_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = new_index(tmp_path)
    index.directory.mkdir(parents=True)
    empty = index.directory / "20260101000000000"
    empty.touch()
    index.load(None, clean_shutdown=True, safe_timestamp_ms=0)
    assert empty.exists(), "loading changes nothing"
    index.fit(0, clean_shutdown=True)
    assert not empty.exists() and caplog.text == ""


def test_it_never_reuses_a_file_name(tmp_path: Path) -> None:
    index, queue = new_index(tmp_path, max_index_num=2), queue_of("T")
    for number in range(3):
        index_record(index, queue, number * 100, "k")
    names = [each.mapped_file.path.name for each in index.files]
    assert names == [index_file_name(NOW_MS + number) for number in range(3)]


def test_it_deletes_files_below_the_log_but_never_the_last(tmp_path: Path) -> None:
    index, queue = new_index(tmp_path, max_index_num=4), queue_of("T")
    for number in range(7):
        index_record(index, queue, number * 100, "k")
    assert index.delete_expired(200) == 0
    assert index.delete_expired(201) == 1
    assert index.delete_expired(99999) == 1
    assert found(index, "k") == [600]
    assert all(isinstance(each, IndexFile) for each in index.files)
