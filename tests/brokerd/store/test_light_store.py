"""Light queues in files: read, restarted, killed, damaged, deleted, checked and taken over by a slave."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from brokerd.store.errors import LightQueuesExceeded, MessageIllegal
from brokerd.store.light_store import LightMessageStore
from brokerd.store.log.record import read_properties
from brokerd.store.message_store import MessageStore
from brokerd.store.queue.light_queues import light_units
from brokerd.store.recovery.survey import Surveyor
from tests.brokerd.store.stores import (
    BORN_HOST,
    NOW_MS,
    STORE_HOST,
    RecordedArrivals,
    bodies,
    flush_everything,
    kill,
    put,
    settle,
    small_config,
)
from tests.brokerd.store.test_transferred import log_of

LIGHT = {"enable_lmq": True, "enable_multi_dispatch": True}


def open_light(root: Path, **changes: Any) -> LightMessageStore:
    store = LightMessageStore(small_config(root, **(LIGHT | changes)))
    store.open(NOW_MS)
    return store


def naming(*queues: str) -> bytes:
    return (
        f"TAGS\x01t\x02INNER_MULTI_DISPATCH\x01{','.join(f'%LMQ%{queue}' for queue in queues)}\x02".encode()
    )


def fill(store: MessageStore, count: int = 30, first: int = 0) -> None:
    """Message n is in light queue `all`, every third in `third`; messages without light queues between them."""
    for number in range(first, first + count):
        names = ("all", "third") if number % 3 == 0 else ("all",)
        put(store, b"m%d" % number, queue_id=number % 2, properties=naming(*names))
        put(store, b"plain%d" % number, topic="Plain")
    settle(store)


def check(store: MessageStore, count: int = 30) -> None:
    assert bodies(store, "%LMQ%all") == [b"m%d" % number for number in range(count)]
    assert bodies(store, "%LMQ%third") == [b"m%d" % number for number in range(0, count, 3)]
    assert bodies(store, "Plain") == [b"plain%d" % number for number in range(count)]
    assert len(bodies(store)) + len(bodies(store, queue_id=1)) == count


def test_it_puts_one_record_into_all_its_queues(tmp_path: Path) -> None:
    arrivals = RecordedArrivals()
    store = LightMessageStore(small_config(tmp_path, **LIGHT), arrivals)
    store.open(NOW_MS)
    end = store.commit_log_max_offset
    first = put(store, b"one", properties=naming("a"))
    put(store, b"two", properties=naming("a", "b"))
    settle(store)
    result = store.get_message("%LMQ%a", 0, 0, 32)
    assert [light_units(read_properties(view)) for view in result.views] == [
        [("%LMQ%a", 0)],
        [("%LMQ%a", 1), ("%LMQ%b", 0)],
    ]
    assert store.units("%LMQ%a", 0, 0, 1) == [(end, first.size_bytes, ord("t"))]
    assert [arrival[:3] for arrival in arrivals.seen] == [
        ("TopicTest", 0, 1), ("%LMQ%a", 0, 1), ("TopicTest", 0, 2), ("%LMQ%a", 0, 2), ("%LMQ%b", 0, 1),
    ]  # fmt: skip
    store.close(NOW_MS)


def test_it_indexes_a_message_under_its_own_topic_only(tmp_path: Path) -> None:
    store = open_light(tmp_path)
    put(store, properties=naming("a") + b"KEYS\x01k\x02")
    settle(store)
    assert len(store.query_by_key("TopicTest", "k", 10, 0, 2**62).commit_log_offsets) == 1
    assert store.query_by_key("%LMQ%a", "k", 10, 0, 2**62).commit_log_offsets == []
    store.close(NOW_MS)


def test_it_refuses_more_light_queues_than_were_set(tmp_path: Path) -> None:
    store = open_light(tmp_path, max_lmq_consume_queue_num=1)
    put(store, properties=naming("a"))
    settle(store)
    store.check_light("T", "%LMQ%a")
    store.check_light("T", "")
    with pytest.raises(LightQueuesExceeded) as refused:
        store.check_light("T", "%LMQ%a,%LMQ%x")
    assert str(refused.value) == (
        "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]%LMQ%x: there are 1 light queues already, maxLmqConsumeQueueNum=1"
    )
    with pytest.raises(MessageIllegal):
        store.check_light("T", "T")
    store.close(NOW_MS)


def test_it_puts_a_message_with_a_wrong_name_into_its_own_queue(tmp_path: Path) -> None:
    """It may have waited since before light queues were on."""
    store = open_light(tmp_path)
    put(store, properties=naming("a", "T/b"))
    settle(store)
    assert (store.max_offset("TopicTest", 0), store.max_offset("%LMQ%a", 0)) == (1, 0)
    store.close(NOW_MS)


def test_it_takes_no_numbers_from_a_producer(tmp_path: Path) -> None:
    """Neither in a batch, whose messages are in no light queue, nor where none is served."""
    store = open_light(tmp_path)
    made_up = naming("a") + b"INNER_MULTI_QUEUE_OFFSET\x015\x02"
    put(store, properties=made_up)
    put(store, topic="%RETRY%g", properties=made_up)
    hosts = {"born_timestamp_ms": NOW_MS, "born_host": BORN_HOST, "store_host": STORE_HOST}
    store.put_messages("TopicTest", 0, [(b"1", made_up, 0)], **hosts, now_ms=NOW_MS)
    settle(store)
    kept = [
        light_units(read_properties(view))
        for topic in ("TopicTest", "%RETRY%g")
        for view in store.get_message(topic, 0, 0, 32).views
    ]
    assert kept == [[("%LMQ%a", 0)], [], []]
    assert store.max_offset("%LMQ%a", 0) == 1
    store.close(NOW_MS)


@pytest.mark.parametrize("changes", [LIGHT, {}], ids=["on", "off"])
@pytest.mark.parametrize("is_flushed", [True, False])
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_it_has_its_light_queues_after_a_restart(
    tmp_path: Path, changes: dict[str, bool], is_flushed: bool, end: str
) -> None:
    store = open_light(tmp_path)
    fill(store, 20)
    if is_flushed:
        flush_everything(store)
    fill(store, 10, first=20)
    store.close(NOW_MS) if end == "closed" else kill(store)
    again = LightMessageStore(small_config(tmp_path, **changes))
    again.open(NOW_MS)
    check(again)
    fill(again, 3, first=30) if changes else None
    again.close(NOW_MS)
    last = open_light(tmp_path)
    check(last, 33 if changes else 30)
    last.close(NOW_MS)


@pytest.mark.parametrize("lost", ["folder", "last file"])
def test_it_builds_a_light_queue_from_the_log(tmp_path: Path, lost: str) -> None:
    store = open_light(tmp_path)
    fill(store)
    flush_everything(store)
    fill(store, 3, first=30)
    kill(store)
    folder = tmp_path / "consumequeue" / "%LMQ%all" / "0"
    if lost == "folder":
        shutil.rmtree(folder)
    else:
        max(folder.iterdir()).unlink()
    again = open_light(tmp_path)
    check(again, 33)
    again.close(NOW_MS)


def test_it_does_not_believe_a_number_that_is_far_ahead(tmp_path: Path) -> None:
    """Written while light queues were off, when the properties are the producer's."""
    store = open_light(tmp_path)
    fill(store, 3)
    store.close(NOW_MS)
    off = MessageStore(small_config(tmp_path))
    off.open(NOW_MS)
    for number in (0, 10**15):
        put(off, properties=naming("all") + b"INNER_MULTI_QUEUE_OFFSET\x01%d\x02" % number)
    settle(off)
    kill(off)
    again = open_light(tmp_path)
    assert bodies(again, "%LMQ%all") == [b"m0", b"m1", b"m2"]
    again.close(NOW_MS)


def test_a_deleted_light_queue_stays_deleted_and_its_topic_may_go(tmp_path: Path) -> None:
    store = open_light(tmp_path)
    fill(store)
    store.drop_topic("%LMQ%third")
    store.drop_topic("TopicTest")
    store.remove_dropped()
    put(store, b"new", properties=naming("third"))
    settle(store)
    kill(store)
    again = open_light(tmp_path)
    assert bodies(again, "%LMQ%third") == bodies(again) == [b"new"]
    assert bodies(again, "%LMQ%all") == [b"m%d" % number for number in range(30)]
    again.close(NOW_MS)


def test_the_check_finds_nothing_wrong_and_what_is(tmp_path: Path) -> None:
    store = open_light(tmp_path)
    fill(store)
    put(store, topic="%RETRY%g", properties=naming("all") + b"INNER_MULTI_QUEUE_OFFSET\x010\x02")
    store.close(NOW_MS)
    config = small_config(tmp_path)
    assert Surveyor(config).look().faults == []
    path = tmp_path / "consumequeue" / "%LMQ%third" / "0" / f"{0:020d}"
    path.write_bytes(bytes(20) + path.read_bytes()[20:])
    (fault,) = Surveyor(config).look().faults
    assert fault.path == "consumequeue/%LMQ%third/0"


def test_the_check_misses_no_queue_of_a_topic_in_batches(tmp_path: Path) -> None:
    """It has its units where Apache keeps them."""
    store = open_light(tmp_path)
    put(store, topic="Batched")
    fill(store, 3)
    store.close(NOW_MS)
    shutil.rmtree(tmp_path / "consumequeue" / "Batched")
    (fault,) = Surveyor(small_config(tmp_path)).look().faults
    assert fault.path == "consumequeue/Batched/0"
    (tmp_path / "batchconsumequeue" / "Batched" / "0").mkdir(parents=True)
    # The manifest of our last stop has the queue still, Apache's knows none.
    (tmp_path / "consumequeue.json").unlink()
    assert Surveyor(small_config(tmp_path)).look().faults == []


def test_a_slave_has_its_masters_light_queues(tmp_path: Path) -> None:
    master = open_light(tmp_path / "master")
    fill(master)
    slave = open_light(tmp_path / "slave", broker_role="SLAVE")
    data = log_of(master)
    for begin in range(0, len(data), 700):
        slave.transferred.receive(begin, data[begin : begin + 700])
    settle(slave)
    check(slave)
    kill(slave)
    again = open_light(tmp_path / "slave", broker_role="SLAVE")
    check(again)
    again.close(NOW_MS)
    master.close(NOW_MS)


def test_it_keeps_what_4_9_7_put_there_before_its_time(tmp_path: Path) -> None:
    """A gap at the queue's begin would hide what follows from Apache's consumers. What was sent back is not new."""
    store = open_light(tmp_path)
    fill(store, 1)
    store.close(NOW_MS)
    off = MessageStore(small_config(tmp_path))
    off.open(NOW_MS)
    early = naming("late") + b"DELAY\x011\x02INNER_MULTI_QUEUE_OFFSET\x010\x02"
    put(off, b"early", topic="SCHEDULE_TOPIC_XXXX", properties=early)
    put(off, b"in time", properties=naming("late") + b"INNER_MULTI_QUEUE_OFFSET\x011\x02")
    put(off, b"again", topic="SCHEDULE_TOPIC_XXXX", properties=early)
    settle(off)
    kill(off)
    slave = open_light(tmp_path / "slave", broker_role="SLAVE")
    again = open_light(tmp_path)
    slave.transferred.receive(0, log_of(again))
    settle(slave)
    for each in (again, slave):
        assert bodies(each, "%LMQ%late") == [b"early", b"in time"]
        each.close(NOW_MS)
