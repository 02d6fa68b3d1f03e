from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.store.dispatcher import INDEX_AT_ONCE, Dispatcher, dispatch_tags_code, gets_unit
from brokerd.store.index.key_index import KeyIndex
from brokerd.store.queue.consume_queue import CQ_UNIT, ConsumeQueue
from tests.brokerd.store.stores import RecordedArrivals, small_config

LEVELS_MS = (1000, 5000, 10000)


@pytest.mark.parametrize(
    ("topic", "properties", "code"),
    [
        ("T", b"TAGS\x01TagA\x02", 2598919),
        ("T", b"TAGS\x01\xe4\xb8\xad\xe6\x96\x87\x02", 646394),
        ("T", b"KEYS\x01k\x02", 0),
        ("T", b"TAGS\x01TagA\x02DELAY\x012\x02", 2598919),
        ("SCHEDULE_TOPIC_XXXX", b"TAGS\x01TagA\x02DELAY\x012\x02", 70_000 + 5000),
        ("SCHEDULE_TOPIC_XXXX", b"DELAY\x0199\x02", 70_000 + 10000),
        ("SCHEDULE_TOPIC_XXXX", b"TAGS\x01TagA\x02DELAY\x010\x02", 2598919),
        ("SCHEDULE_TOPIC_XXXX", b"TAGS\x01TagA\x02DELAY\x01x\x02", 2598919),
        ("SCHEDULE_TOPIC_XXXX", b"", 0),
    ],
)
def test_it_codes_tags_and_delivery_times(topic: str, properties: bytes, code: int) -> None:
    assert dispatch_tags_code(topic, properties, 70_000, LEVELS_MS) == code


@pytest.mark.parametrize(
    ("sys_flag", "answer"),
    [(0, True), (0x4, False), (0x8, True), (0xC, False), (0x309, True), (0x305, False)],
)
def test_it_hides_prepared_and_rolled_back_messages(sys_flag: int, answer: bool) -> None:
    assert gets_unit(sys_flag) is answer


def test_it_dispatches_in_order_up_to_an_offset_and_tells_of_arrivals(tmp_path: Path) -> None:
    arrivals = RecordedArrivals()
    dispatcher = Dispatcher(None, arrivals)
    queue = ConsumeQueue("T", 3, tmp_path, 200)
    for number, sys_flag in enumerate((0, 0, 0x4, 0)):
        queue_offset = {0: 0, 1: 1, 2: 0, 3: 2}[number]
        units = CQ_UNIT.pack(number * 100, 100, number) if gets_unit(sys_flag) else b""
        dispatcher.pending.append((queue, queue_offset, number * 100, 100, units, 5, ()))
    assert dispatcher.dispatch_until(199) == 1
    assert arrivals.seen == [("T", 3, 1, 0)]
    assert dispatcher.dispatch_until(300) == 2
    assert arrivals.seen == [("T", 3, 1, 0), ("T", 3, 2, 1)]
    arrivals.is_awaited = False
    assert dispatcher.dispatch_until(400) == 1
    assert len(arrivals.seen) == 2
    assert [queue.unit(number) for number in range(3)] == [(0, 100, 0), (100, 100, 1), (300, 100, 3)]
    assert dispatcher.dispatch_until(400) == 0


def test_it_keeps_a_message_it_could_not_dispatch(tmp_path: Path) -> None:
    dispatcher = Dispatcher(None, None)
    (tmp_path / "in-the-way").touch()
    queue = ConsumeQueue("T", 0, tmp_path / "in-the-way", 200)
    dispatcher.pending.append((queue, 0, 0, 100, CQ_UNIT.pack(0, 100, 0), 5, ()))
    with pytest.raises(OSError):
        dispatcher.dispatch_until(100)
    (tmp_path / "in-the-way").unlink()
    assert dispatcher.dispatch_until(100) == 1
    assert queue.max_offset == 1


def test_a_batch_is_one_note(tmp_path: Path) -> None:
    arrivals = RecordedArrivals()
    index = KeyIndex(small_config(tmp_path))
    dispatcher = Dispatcher(index, arrivals)
    queue = ConsumeQueue("T", 3, tmp_path / "queue", 200)
    keyed = [(queue, number * 100, 5, b"KEYS\x01k\x02") for number in range(3)]
    units = b"".join(CQ_UNIT.pack(number * 100, 100, number + 7) for number in range(3))
    dispatcher.pending.append((queue, 0, 0, 300, units, 5, keyed))
    assert dispatcher.dispatch_until(299) == 0
    assert dispatcher.dispatch_until(300) == 3
    assert arrivals.seen == [("T", 3, 1, 7), ("T", 3, 2, 8), ("T", 3, 3, 9)]
    assert [queue.unit(number) for number in range(3)] == [(0, 100, 7), (100, 100, 8), (200, 100, 9)]
    dispatcher.index_pending()
    assert (found(index), dispatcher.dispatched) == ([0, 100, 200], (300, 5))


def noted(root: Path) -> tuple[Dispatcher, KeyIndex]:
    """A dispatcher with as many notes as are indexed at once; all have one key."""
    index = KeyIndex(small_config(root, max_index_num=2 * INDEX_AT_ONCE))
    dispatcher = Dispatcher(index, None)
    queue = ConsumeQueue("T", 0, root / "queue", 20 * 2 * INDEX_AT_ONCE)
    for number in range(INDEX_AT_ONCE):
        offset = number * 100
        is_rollback = number == 1  # it has neither unit nor keys
        units = b"" if is_rollback else CQ_UNIT.pack(offset, 100, 0)
        keyed = () if is_rollback else ((queue, offset, 5, b"KEYS\x01k\x02"),)
        dispatcher.pending.append((queue, number - (number > 1), offset, 100, units, 5, keyed))
    return dispatcher, index


def found(index: KeyIndex) -> list[int]:
    return index.query("T", "k", 2 * INDEX_AT_ONCE, 0, 2**62).commit_log_offsets


def test_keys_follow_their_units_and_are_counted_when_they_are_there(tmp_path: Path) -> None:
    dispatcher, index = noted(tmp_path)
    assert dispatcher.dispatch_until(300) == 3
    assert (found(index), dispatcher.dispatched, dispatcher.is_done) == ([], (0, 0), False)
    dispatcher.index_pending()
    assert (found(index), dispatcher.dispatched) == ([0, 200], (300, 5))
    end = INDEX_AT_ONCE * 100
    assert dispatcher.dispatch_until(end) == INDEX_AT_ONCE - 3
    assert (len(index.files), dispatcher.dispatched) == (1, (300, 5))
    dispatcher.index_pending()
    assert (dispatcher.dispatched, dispatcher.is_done) == ((end, 5), True)


def test_many_keys_do_not_wait(tmp_path: Path) -> None:
    dispatcher, index = noted(tmp_path)
    queue, queue_offset, offset, *_ = list(dispatcher.pending)[-1]
    units, keyed = CQ_UNIT.pack(offset + 100, 100, 0), ((queue, offset + 100, 5, b"KEYS\x01k\x02"),)
    dispatcher.pending.append((queue, queue_offset + 1, offset + 100, 100, units, 5, keyed))
    end = (INDEX_AT_ONCE + 1) * 100
    assert dispatcher.dispatch_until(end) == INDEX_AT_ONCE + 1
    assert (dispatcher.dispatched, dispatcher.is_done) == ((end, 5), True)
    assert index.files[-1].count == INDEX_AT_ONCE + 1


def test_keys_that_find_no_room_wait(tmp_path: Path) -> None:
    dispatcher, index = noted(tmp_path)
    dispatcher.dispatch_until(200)
    (tmp_path / "index").touch()
    with pytest.raises(OSError):
        dispatcher.index_pending()
    assert dispatcher.dispatched == (0, 0)
    (tmp_path / "index").unlink()
    dispatcher.index_pending()
    assert (found(index), dispatcher.dispatched) == ([0], (200, 5))
