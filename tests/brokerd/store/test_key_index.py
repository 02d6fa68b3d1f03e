from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.store.consume_queue import ConsumeQueue
from brokerd.store.index_file import IndexFile
from brokerd.store.key_index import KeyIndex, index_file_name
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
    sys_flag: int = 0,
) -> None:
    pairs = {"KEYS": keys, "UNIQ_KEY": unique_key, "TAGS": "TagA"}
    properties = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items() if value)
    index.put_record(queue, offset, now_ms, sys_flag, properties.encode())
    index.finish_batch()


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


def test_it_does_not_index_rolled_back_records_nor_older_ones_twice(tmp_path: Path) -> None:
    index, queue = new_index(tmp_path), queue_of("T")
    index_record(index, queue, 100, "k", sys_flag=0xC)
    assert found(index, "k") == []
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


def test_it_keeps_all_files_after_a_clean_stop_and_only_safe_ones_after_a_crash(tmp_path: Path) -> None:
    index, queue = new_index(tmp_path, max_index_num=4), queue_of("T")
    for number in range(5):
        index_record(index, queue, number * 100, "k", now_ms=NOW_MS + number * 1000)
    index.flush_full_files()
    clean = new_index(tmp_path, max_index_num=4)
    clean.load(clean_shutdown=True, safe_timestamp_ms=0)
    assert found(clean, "k") == [0, 100, 200, 300, 400]
    crashed = new_index(tmp_path, max_index_num=4)
    crashed.load(clean_shutdown=False, safe_timestamp_ms=NOW_MS + 2000)
    assert found(crashed, "k") == [0, 100, 200]
    assert len(list((tmp_path / "index").iterdir())) == 1


def test_it_leaves_files_of_other_sizes_alone(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "20270115080000000").write_bytes(bytes(77))
    index = new_index(tmp_path)
    index.load(clean_shutdown=False, safe_timestamp_ms=0)
    index_record(index, queue_of("T"), 100, "k")
    assert found(index, "k") == [100]
    assert len(list((tmp_path / "index").iterdir())) == 2


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
