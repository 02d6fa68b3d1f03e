"""Stores written by Apache RocketMQ 4.9.7 and 5.3.3, stopped cleanly or killed: everything in them is read."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerd.store.log.record import find_property, read_record
from brokerd.store.message_store import MessageStore
from brokerd.store.results import BoundaryType, RecoveryReport
from tests.brokerd.store.stores import GOLDEN, NOW_MS, body_of, golden_config, put_all, unpack_golden

VERSIONS = ["4.9.7", "5.3.3", "4.9.7-unclean", "5.3.3-unclean"]
EVER = (0, 2**62)
Opened = tuple[MessageStore, dict[str, Any], RecoveryReport]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(version: str, tmp_path: Path) -> Iterator[Opened]:
    store = MessageStore(golden_config(unpack_golden(version, tmp_path / "store")))
    report = store.open(NOW_MS)
    yield store, expected_of(version), report
    store.close(NOW_MS)


def expected_of(version: str) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((GOLDEN / version / "expected.json").read_text(encoding="utf-8"))
    return expected


def units(store: MessageStore, topic: str, queue_id: int) -> list[list[int]]:
    queue = store.table.queues[topic, queue_id]
    return [list(queue.unit(offset)) for offset in range(queue.min_offset, queue.max_offset)]


def all_units(store: MessageStore) -> dict[tuple[str, int], list[list[int]]]:
    return {
        (topic, queue_id): units(store, topic, queue_id)
        for topic in store.topics()
        for queue_id in store.table.queue_ids(topic)
    }


def expected_units(expected: dict[str, Any]) -> dict[tuple[str, int], list[list[int]]]:
    return {(each["topic"], each["queueId"]): each["entries"] for each in expected["consumeQueues"]}


def test_it_finds_the_end_of_the_log(version: str, opened: Opened) -> None:
    store, expected, report = opened
    assert report.commit_log_max_offset == store.commit_log_max_offset == expected["commitLogEnd"]
    assert report.clean_shutdown is not version.endswith("-unclean")
    assert (report.removed_bytes, report.reason) == (0, "")
    # After a crash every queue gets its units from the log again.
    assert report.records_dispatched == (0 if report.clean_shutdown else len(expected["messages"]))


def test_it_reads_every_message(opened: Opened) -> None:
    store, expected, _ = opened
    for message in expected["messages"]:
        offset = message["commitLogOffset"]
        view = store.look_message(offset)
        assert view is not None
        record = read_record(view, 0, offset)
        assert record is not None
        assert record[:7] == (
            message["storeSize"],
            message["topic"],
            message["queueId"],
            message["queueOffset"],
            offset,
            message["sysFlag"],
            message["storeTimestamp"],
        )
        body = body_of(view)
        assert (len(body), hashlib.sha1(body).hexdigest()) == (
            message["storedBodyLength"],
            message["storedBodySha1"],
        )
        crc, flag, born_ms = (
            int.from_bytes(view[8:12]),
            int.from_bytes(view[16:20]),
            int.from_bytes(view[40:48]),
        )
        assert (crc, flag, born_ms) == (message["bodyCRC"], message["flag"], message["bornTimestamp"])
        reconsumes, prepared = struct.unpack(">iq", view[72:84])
        assert (reconsumes, prepared) == (
            message["reconsumeTimes"],
            message["preparedTransactionOffset"],
        )
        for name, value in message["properties"].items():
            assert find_property(record.properties, name.encode() + b"\x01").decode() == value


def test_it_reads_every_consume_queue(opened: Opened) -> None:
    store, expected, _ = opened
    assert all_units(store) == expected_units(expected)


def test_it_answers_offsets_and_times_as_the_broker_did(opened: Opened) -> None:
    store, expected, _ = opened
    for answer in expected["brokerAnswers"]["queues"]:
        topic, queue_id = answer["topic"], answer["queueId"]
        assert store.min_offset(topic, queue_id) == answer["min"]
        assert store.max_offset(topic, queue_id) >= answer["max"]  # asked some time before the stop
        assert store.earliest_store_timestamp(topic, queue_id) == answer["earliestStoreTime"]
        assert store.offset_by_time(topic, queue_id, answer["earliestStoreTime"]) == answer["min"]
    for message in expected["messages"]:
        topic, queue_id, stored_ms = message["topic"], message["queueId"], message["storeTimestamp"]
        lower = store.offset_by_time(topic, queue_id, stored_ms)
        upper = store.offset_by_time(topic, queue_id, stored_ms, BoundaryType.UPPER)
        assert lower <= message["queueOffset"] <= upper
        assert store.store_timestamp(topic, queue_id, lower) == stored_ms
        assert store.store_timestamp(topic, queue_id, upper) == stored_ms


def test_it_answers_queries_by_key_as_the_broker_did(opened: Opened) -> None:
    store, expected, _ = opened
    for query in expected["brokerAnswers"]["queries"]:
        found = store.query_by_key(query["topic"], query["key"], 64, *EVER).commit_log_offsets
        assert found == query["commitLogOffsets"], query
    for message in expected["messages"]:
        for key in [message["properties"].get("UNIQ_KEY"), *(message["keys"] or "").split(" ")]:
            if key:
                found = store.query_by_key(message["topic"], key, 64, *EVER).commit_log_offsets
                assert message["commitLogOffset"] in found, (message, key)


def test_it_pulls_every_queue_to_its_end(opened: Opened) -> None:
    store, expected, _ = opened
    for (topic, queue_id), entries in expected_units(expected).items():
        offset, sizes = 0, []
        while offset < len(entries):
            result = store.get_message(topic, queue_id, offset, 32)
            sizes += [len(view) for view in result.views]
            offset = result.next_begin_offset
        assert sizes == [size for _, size, _ in entries]


def test_it_goes_on_writing_where_the_java_broker_stopped(version: str, tmp_path: Path) -> None:
    root = unpack_golden(version, tmp_path / "store")
    expected = expected_of(version)
    store = MessageStore(golden_config(root))
    store.open(NOW_MS)
    before = store.max_offset("GoldenStore", 0)
    results = put_all(store, [bytes(900)] * 150, topic="GoldenStore", properties=b"KEYS\x01ours\x02")
    assert results[0].commit_log_offset == expected["commitLogEnd"]
    assert [result.queue_offset for result in results] == list(range(before, before + 150))
    store.close(NOW_MS)
    again = MessageStore(golden_config(root))
    again.open(NOW_MS)
    ours = {("GoldenStore", 0): [[result.commit_log_offset, result.size_bytes, 0] for result in results]}
    assert all_units(again) == {
        key: entries + ours.get(key, []) for key, entries in expected_units(expected).items()
    }
    found = again.query_by_key("GoldenStore", "ours", 64, *EVER).commit_log_offsets
    assert found == [result.commit_log_offset for result in results[-64:]]
    again.close(NOW_MS)


def test_it_rebuilds_queues_and_index_equal_to_those_of_java(version: str, tmp_path: Path) -> None:
    root = unpack_golden(version, tmp_path / "store")
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    expected = expected_of(version)
    store = MessageStore(golden_config(root))
    store.open(NOW_MS)
    assert all_units(store) == expected_units(expected)
    store.close(NOW_MS)
    original = unpack_golden(version, tmp_path / "original")
    # Java names files by the creation time; the entries inside are the same, in the same order.
    ours, theirs = (
        [entries_of(path) for path in sorted((folder / "index").iterdir())] for folder in (root, original)
    )
    assert ours == theirs


def entries_of(path: Path) -> tuple[tuple[int, ...], bytes]:
    """Header and entries of an index file (1,000 slots)."""
    data = path.read_bytes()
    return struct.unpack_from(">qqqqii", data), data[40:]


def test_it_rebuilds_after_a_crash_with_everything_derived_lost(version: str, tmp_path: Path) -> None:
    root = unpack_golden(version, tmp_path / "store")
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)
    (root / "checkpoint").unlink()
    (root / "abort").touch()
    store = MessageStore(golden_config(root))
    report = store.open(NOW_MS)
    expected = expected_of(version)
    assert report.records_scanned == len(expected["messages"])
    assert all_units(store) == expected_units(expected)
    store.close(NOW_MS)
