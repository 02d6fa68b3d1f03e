from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from brokerd.remoting.message.names import SCHEDULE_TOPIC
from brokerd.store.errors import (
    MessageIllegal,
    PropertiesSizeExceeded,
    PutRefused,
    ServiceNotAvailable,
    StoreLocked,
)
from brokerd.store.message_store import MessageStore
from brokerd.store.results import BatchMessage, BatchResult
from tests.brokerd.store.stores import (
    BORN_HOST,
    NOW_MS,
    STORE_HOST,
    RecordedArrivals,
    bodies,
    flush_everything,
    kill,
    open_store,
    put,
    put_all,
    settle,
    small_config,
)


def put_batch(
    store: MessageStore, batch: list[BatchMessage], topic: str = "TopicTest", **fields: int
) -> BatchResult:
    return store.put_messages(
        topic,
        0,
        batch,
        born_timestamp_ms=NOW_MS,
        born_host=BORN_HOST,
        store_host=STORE_HOST,
        now_ms=NOW_MS,
        **fields,
    )


def test_it_tells_where_a_message_was_stored(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert put(store, b"hello", queue_id=3) == (0, 0, NOW_MS, 105)
    assert put(store, b"hello!", queue_id=3, now_ms=NOW_MS + 1) == (105, 1, NOW_MS + 1, 106)
    third = put(store, b"", queue_id=4)
    assert (third.queue_offset, third.end_offset) == (0, 105 + 106 + 100)
    store.close(NOW_MS)


def test_it_writes_a_file_any_reader_of_the_format_understands(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, b"hello", properties=b"TAGS\x01TagA\x02", flag=7, reconsume_times=2)
    store.dispatch_pending()
    store.close(NOW_MS)
    log = (tmp_path / "commitlog" / "00000000000000000000").read_bytes()
    assert log[:120].hex(" ", -4) == (
        "00000073 daa320a7 3610a686 00000000 00000007 00000000 00000000 00000000 00000000 00000000"
        " 000001a3 185c4ffb c0000207 0000d28e 000001a3 185c5000 7f000001 00002a9f 00000002 00000000"
        " 00000000 00000005 68656c6c 6f09546f 70696354 65737400 0a544147 53015461 67410200 00000000"
    )
    unit = (tmp_path / "consumequeue" / "TopicTest" / "0" / "00000000000000000000").read_bytes()[:20]
    assert unit.hex() == "0000000000000000" + "00000073" + "000000000027a807"


def test_it_shows_messages_only_once_dispatched(tmp_path: Path) -> None:
    arrivals = RecordedArrivals()
    store = MessageStore(small_config(tmp_path), arrivals)
    store.open(NOW_MS)
    put(store, b"a", properties=b"TAGS\x01TagA\x02")
    put(store, b"b", queue_id=1)
    assert store.max_offset("TopicTest", 0) == 0
    assert store.dispatch_behind_bytes == 111 + 101
    assert store.dispatch_pending() == 2
    assert store.dispatch_pending() == 0
    assert store.dispatch_behind_bytes == 0
    assert arrivals.seen == [("TopicTest", 0, 1, 2598919), ("TopicTest", 1, 1, 0)]
    assert (store.topics(), store.table.queue_ids("TopicTest"), store.table.queue_ids("None")) == (
        ["TopicTest"],
        [0, 1],
        [],
    )
    store.close(NOW_MS)


def test_it_shows_only_flushed_messages_with_sync_flush(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type="SYNC_FLUSH")
    first = put(store, b"a")
    assert store.dispatch_pending() == 0
    assert store.flush() == first.end_offset
    put(store, b"b")
    assert store.dispatch_pending() == 1
    assert store.flushed_offset == first.end_offset
    assert bodies(store) == [b"a"]
    store.close(NOW_MS)
    again = open_store(tmp_path, flush_disk_type="SYNC_FLUSH")
    assert bodies(again) == [b"a", b"b"]
    again.close(NOW_MS)


def test_it_gives_a_delayed_message_its_delivery_time_as_tags_code(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(
        store,
        topic="SCHEDULE_TOPIC_XXXX",
        queue_id=2,
        properties=b"DELAY\x013\x02TAGS\x01a\x02",
        tags_code=97,
    )
    store.dispatch_pending()
    assert store.table.queues["SCHEDULE_TOPIC_XXXX", 2].unit(0)[2] == NOW_MS + 10_000
    kill(store)
    (tmp_path / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "2" / "00000000000000000000").unlink()
    again = open_store(tmp_path)
    assert again.table.queues["SCHEDULE_TOPIC_XXXX", 2].unit(0)[2] == NOW_MS + 10_000
    again.close(NOW_MS)


def test_it_keeps_prepared_messages_out_of_the_queue(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert put(store, b"half", sys_flag=0x4).queue_offset == 0
    assert put(store, b"a").queue_offset == 0
    assert put(store, b"half", sys_flag=0x4).queue_offset == 0
    assert put(store, b"rolled back", sys_flag=0xC).queue_offset == 0
    assert put(store, b"b", sys_flag=0x8, prepared_transaction_offset=105).queue_offset == 1
    store.dispatch_pending()
    assert bodies(store) == [b"a", b"b"]
    kill(store)
    shutil.rmtree(tmp_path / "consumequeue")
    again = open_store(tmp_path)
    assert bodies(again) == [b"a", b"b"]
    again.close(NOW_MS)


def test_it_stores_ipv6_hosts_and_sets_their_flags(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    result = put(store, b"six", born_host=("2001:db8::1", 5), store_host=("::1", 10911), sys_flag=0x1)
    view = store.look_message(result.commit_log_offset)
    assert view is not None
    assert (len(view), view[36:40].hex()) == (91 + 24 + 3 + 9, "00000031")
    store.dispatch_pending()
    assert store.store_timestamp("TopicTest", 0, 0) == NOW_MS
    store.close(NOW_MS)


@pytest.mark.parametrize(
    ("fields", "error", "reason"),
    [
        ({"body": bytes(2001)}, MessageIllegal, "body of 2001 bytes, at most 2000"),
        ({"properties": bytes(32768)}, PropertiesSizeExceeded, "properties of 32768 bytes, at most 32767"),
        (
            {"body": bytes(1990), "properties": bytes(2100)},
            MessageIllegal,
            "record of 41.. bytes, at most 4088",
        ),
        ({"topic": ""}, MessageIllegal, "topic"),
        ({"topic": "a/../b"}, MessageIllegal, "cannot be stored"),
        ({"topic": ".."}, MessageIllegal, "cannot be stored"),
        ({"topic": "t" * 256}, MessageIllegal, "topic of 256 bytes"),
        ({"queue_id": -1}, MessageIllegal, "queue id -1"),
        ({"queue_id": 65536}, MessageIllegal, "queue id 65536"),
        ({"flag": 2**31}, MessageIllegal, "does not fit its field"),
        ({"reconsume_times": -(2**40)}, MessageIllegal, "does not fit its field"),
    ],
)
def test_it_refuses_messages_it_cannot_store_and_stays_usable(
    tmp_path: Path, fields: dict[str, object], error: type[PutRefused], reason: str
) -> None:
    store = open_store(tmp_path, max_message_size=2000)
    with pytest.raises(error, match=reason):
        put(store, **fields)  # type: ignore[arg-type]
    assert (put(store).commit_log_offset, store.dispatch_pending()) == (0, 1)
    store.close(NOW_MS)
    again = open_store(tmp_path)
    assert bodies(again) == [b"hello"]
    again.close(NOW_MS)


def test_it_takes_the_largest_message_that_fits_a_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sent = [bytes(4096 - 8 - 100), b"x", bytes(4096 - 8 - 100)]
    put_all(store, sent)
    assert bodies(store) == sent
    assert [result.queue_offset for result in put_all(store, [b"y"])] == [3]
    store.close(NOW_MS)


def test_it_refuses_puts_when_not_open(tmp_path: Path) -> None:
    store = MessageStore(small_config(tmp_path))
    with pytest.raises(ServiceNotAvailable, match="not open"):
        put(store)
    store.open(NOW_MS)
    put(store)
    store.close(NOW_MS)
    store.close(NOW_MS)
    with pytest.raises(ServiceNotAvailable, match="closed"):
        put(store)
    with pytest.raises(ServiceNotAvailable):
        put_batch(store, [(b"x", b"", 0)])


def test_it_refuses_a_store_that_is_open_already(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(StoreLocked):
        open_store(tmp_path)
    assert put(store).queue_offset == 0
    store.close(NOW_MS)


def test_it_stores_a_batch_as_consecutive_records(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, b"before")
    result = put_batch(store, [(b"b%d" % number, b"KEYS\x01k%d\x02" % number, number) for number in range(3)])
    assert (result.queue_offset, result.size_bytes) == (1, 330)
    assert result.commit_log_offsets == [106, 106 + 110, 106 + 220]
    settle(store)
    assert bodies(store) == [b"before", b"b0", b"b1", b"b2"]
    assert store.query_by_key("TopicTest", "k2", 9, 0, 2**62).commit_log_offsets == [326]
    view = store.look_message(326)
    assert view is not None and view[16:20].hex() == "00000002"
    store.close(NOW_MS)


def test_it_puts_a_whole_batch_into_the_next_file_when_it_does_not_fit(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, bytes(3000))
    result = put_batch(store, [(bytes(400), b"", 0)] * 3)
    assert result.commit_log_offsets == [4096, 4596, 5096]
    store.dispatch_pending()
    assert len(bodies(store)) == 4
    kill(store)
    again = open_store(tmp_path)
    assert len(bodies(again)) == 4
    again.close(NOW_MS)


@pytest.mark.parametrize(
    ("batch", "fields", "topic"),
    [
        ([], {}, "TopicTest"),
        ([(b"x", b"", 0)], {"sys_flag": 0x4}, "TopicTest"),
        ([(b"x", b"", 0)], {}, "SCHEDULE_TOPIC_XXXX"),
        ([(bytes(1000), b"", 0)] * 2, {}, "TopicTest"),
        ([(b"", b"", 0)] * 80, {}, "TopicTest"),
        ([(b"x", b"", 0), (b"y", b"", 2**40)], {}, "TopicTest"),
    ],
)
def test_it_refuses_a_batch_as_a_whole(
    tmp_path: Path, batch: list[BatchMessage], fields: dict[str, int], topic: str
) -> None:
    store = open_store(tmp_path, max_message_size=2000)
    with pytest.raises(MessageIllegal):
        put_batch(store, batch, topic, **fields)
    assert put_all(store, [b"after"])[0][:2] == (0, 0)
    assert bodies(store) == [b"after"]
    store.close(NOW_MS)


def test_it_takes_bodies_as_memoryviews_of_a_frame(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    frame = memoryview(bytearray(b"..hello.."))
    put(store, frame[2:7])  # type: ignore[arg-type]
    put_batch(store, [(frame[2:5], b"", 0)])
    store.dispatch_pending()
    assert bodies(store) == [b"hello", b"hel"]
    store.close(NOW_MS)


def test_it_looks_up_a_record_at_any_offset_a_client_names(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    result = put(store, b"hello")
    view = store.look_message(0)
    assert view is not None and len(view) == result.size_bytes
    view = store.look_message(0, 20)
    assert view is not None and len(view) == 20
    for offset in (1, 4, 100, 104, 105, 4095, 4096, 10**12, -1, -(10**12)):
        assert store.look_message(offset) is None, offset
    store.close(NOW_MS)


def test_it_deletes_the_queues_of_a_topic(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"a", b"b"])
    put_all(store, [b"c"], topic="Other")
    put(store, b"waiting")
    assert store.drop_topic("TopicTest") == 1
    assert store.drop_topic("TopicTest") == 0
    assert store.dispatch_pending() == 0
    store.remove_dropped()
    assert list((tmp_path / "deletedqueues").iterdir()) == []
    assert store.topics() == ["Other"]
    assert not (tmp_path / "consumequeue" / "TopicTest").exists()
    assert put_all(store, [b"anew"])[0].queue_offset == 0
    flush_everything(store)
    store.close(NOW_MS)
    again = open_store(tmp_path)
    assert bodies(again) == [b"anew"]
    again.close(NOW_MS)


def test_it_flushes_by_its_intervals(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    store.flush_log_if_due(0)
    store.flush_queues_if_due(0)
    put_all(store, [bytes(1000)] * 3)
    store.flush_log_if_due(499)
    store.flush_log_if_due(1000)
    assert store.flushed_offset == 0  # below four pages
    put_all(store, [bytes(4000)] * 4)
    store.flush_log_if_due(1499)
    assert store.flushed_offset == 0
    store.flush_log_if_due(1500)
    assert store.flushed_offset == store.commit_log_max_offset
    put_all(store, [b"x"], now_ms=NOW_MS + 2000)
    store.flush_log_if_due(9999)
    assert store.flushed_offset < store.commit_log_max_offset
    store.flush_log_if_due(10_499)
    assert store.flushed_offset == store.commit_log_max_offset
    store.flush_queues_if_due(59_999)
    checkpoint = store._checkpoint
    assert checkpoint is not None
    assert (checkpoint.physic_msg_timestamp_ms, checkpoint.logics_msg_timestamp_ms) == (NOW_MS + 2000, 0)
    store.flush_queues_if_due(60_999)
    assert checkpoint.logics_msg_timestamp_ms == NOW_MS + 2000
    store.close(NOW_MS)


def test_it_claims_no_queue_time_for_messages_that_wait_for_dispatch(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"a"])
    put(store, b"waiting", now_ms=NOW_MS + 500)
    put(store, b"waiting", now_ms=NOW_MS + 600)
    flush_everything(store)
    assert store._checkpoint is not None
    assert store._checkpoint.logics_msg_timestamp_ms == NOW_MS
    store.close(NOW_MS)


def test_it_keeps_every_message_while_another_thread_flushes(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type="SYNC_FLUSH")
    stop = threading.Event()
    flushed: list[int] = []

    def flush() -> None:
        while not stop.is_set():
            flushed.append(store.flush())

    thread = threading.Thread(target=flush)
    thread.start()
    sent = [b"m%d" % number + bytes(200) for number in range(2000)]
    for body in sent:
        put(store, body)
        store.dispatch_pending()
    stop.set()
    thread.join()
    assert flushed == sorted(flushed)
    store.flush()
    store.dispatch_pending()
    assert bodies(store) == sent
    store.close(NOW_MS)


def test_it_refuses_puts_while_queues_cannot_be_written_and_recovers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    (tmp_path / "consumequeue").touch()  # a file where the folder belongs
    put(store, b"a")
    for _ in range(3):  # every read of a socket tries again
        assert store.dispatch_pending() == 0
    assert caplog.text.count("dispatch failed") == 1
    with pytest.raises(ServiceNotAvailable, match="consume queues or index cannot be written"):
        put(store, b"b")
    (tmp_path / "consumequeue").unlink()
    store.note_disk_use(0.1)
    assert put_all(store, [b"b"])[0].queue_offset == 1
    assert bodies(store) == [b"a", b"b"]
    store.close(NOW_MS)


def test_it_keeps_the_abort_file_when_it_could_not_dispatch(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    (tmp_path / "consumequeue").touch()
    put(store, b"a")
    store.close(NOW_MS)
    assert (tmp_path / "abort").exists()
    (tmp_path / "consumequeue").unlink()
    again = open_store(tmp_path)
    assert bodies(again) == [b"a"]
    again.close(NOW_MS)


def test_it_answers_for_queues_it_does_not_have(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert (store.min_offset("None", 0), store.max_offset("None", 0)) == (0, 0)
    assert (store.commit_log_min_offset, store.commit_log_max_offset) == (0, 0)
    assert 0 < store.cleaner.disk_used_ratio() <= 1
    store.close(NOW_MS)


def test_store_times_stand_still_when_the_clock_is_set_back(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    hour_ms = 3_600_000
    times = [NOW_MS, NOW_MS - hour_ms, NOW_MS - hour_ms + 5, NOW_MS + 7]
    stored = [put(store, b"%d" % number, now_ms=at).store_timestamp_ms for number, at in enumerate(times)]
    batch = [(b"b", b"", 0)]
    stored.append(put_batch(store, batch).store_timestamp_ms)
    store.dispatch_pending()
    assert stored == [NOW_MS, NOW_MS, NOW_MS, NOW_MS + 7, NOW_MS + 7]
    assert store.offset_by_time("TopicTest", 0, NOW_MS + 1) == 3
    assert store.offset_by_time("TopicTest", 0, NOW_MS) == 0
    store.close(NOW_MS)
    again = open_store(tmp_path)
    assert put(again, now_ms=NOW_MS - hour_ms).store_timestamp_ms == NOW_MS + 7, "over a restart too"
    again.close(NOW_MS)


def test_a_clock_that_was_days_ahead_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    put(store, now_ms=NOW_MS + 86_400_000)
    assert put(store, now_ms=NOW_MS).store_timestamp_ms == NOW_MS
    assert put(store, now_ms=NOW_MS + 1).store_timestamp_ms == NOW_MS + 1
    assert caplog.text.count("store times go back by 86400000 ms") == 1
    store.close(NOW_MS)


def test_a_delay_is_counted_from_the_true_time(tmp_path: Path) -> None:
    store = open_store(tmp_path, message_delay_level="1s 10s")
    put(store, now_ms=NOW_MS)
    put(store, topic=SCHEDULE_TOPIC, queue_id=1, properties=b"DELAY\x012\x02", now_ms=NOW_MS - 3_600_000)
    store.dispatch_pending()
    assert store.units(SCHEDULE_TOPIC, 1, 0, 1)[0][2] == NOW_MS - 3_600_000 + 10_000
    store.close(NOW_MS)
