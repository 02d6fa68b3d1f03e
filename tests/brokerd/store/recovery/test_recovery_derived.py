"""Queues and key index after a crash, a power failure, a deletion: what the log says, never what their files hold."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from brokerd.remoting.message.java_hash import tags_code
from brokerd.store.message_store import MessageStore
from brokerd.store.recovery.log_inspection import LogInspection
from brokerd.store.results import RecoveryReport
from tests.brokerd.store.stores import (
    NOW_MS,
    bodies,
    flush_everything,
    kill,
    open_store,
    put,
    put_all,
    settle,
    small_config,
)

EVER = (0, 2**62)
QUEUES = 3


def filled(root: Path, count: int, flushed: int = 0) -> list[bytes]:
    """A killed store with tags and keys in three queues; everything is on the disk for the first `flushed`."""
    store = open_store(root)
    sent = [b"m%d" % number for number in range(count)]
    for number, body in enumerate(sent):
        if number == flushed:
            thorough_flush(store)
        properties = b"TAGS\x01t%d\x02KEYS\x01k%d\x02" % (number % 2, number)
        put(store, body, queue_id=number % QUEUES, properties=properties)
        store.dispatch_pending()
        if number % 4 == 0:  # the last keys are not indexed yet
            store.index_pending()
    store.flush()
    kill(store)
    return sent


def thorough_flush(store: MessageStore) -> None:
    settle(store)
    flush_everything(store)
    assert store._checkpoint is not None and store._checkpoint.point is not None
    assert store._checkpoint.point.derived_offset == store.commit_log_max_offset


def reopened(root: Path) -> tuple[MessageStore, RecoveryReport]:
    store = MessageStore(small_config(root))
    return store, store.open(NOW_MS)


def check_all(store: MessageStore, sent: list[bytes]) -> None:
    """Every message is at its place, found by its key and by its tag."""
    for queue_id in range(QUEUES):
        assert bodies(store, queue_id=queue_id) == sent[queue_id::QUEUES]
    for number in range(len(sent)):
        found = store.query_by_key("TopicTest", f"k{number}", 9, *EVER).commit_log_offsets
        assert len(found) == 1, number
    for queue_id in range(QUEUES):
        queue = store.table.queues["TopicTest", queue_id]
        codes = [queue.unit(number)[2] for number in range(queue.max_offset)]
        assert codes == [tags_code(b"t%d" % (number % 2)) for number in range(queue_id, len(sent), QUEUES)]


@pytest.mark.parametrize("seed", range(30))
def test_it_rebuilds_queues_whose_sectors_were_lost_or_are_garbage(tmp_path: Path, seed: int) -> None:
    """Behind the durable point a queue's file may hold anything: holes, half units, old or random bytes."""
    chance = random.Random(seed)
    flushed = chance.choice([0, 1, 7, 40, 89])
    sent = filled(tmp_path, 90, flushed)
    for path in (tmp_path / "consumequeue" / "TopicTest").rglob("0*"):
        if not path.is_file():
            continue
        queue_id, first = int(path.parent.name), int(path.name) // 20
        durable = len(range(queue_id, flushed, QUEUES)) - first  # units of this file
        start = max(durable, 0) * 20
        data = bytearray(path.read_bytes())
        for _ in range(chance.randrange(3)):
            if start < len(data):
                low = chance.randrange(start, len(data))
                high = min(len(data), low + chance.choice([1, 7, 13, 20, 60, 200]))
                data[low:high] = chance.choice([bytes(high - low), chance.randbytes(high - low)])
        path.write_bytes(data)
    store, _ = reopened(tmp_path)
    check_all(store, sent)
    assert put(store, queue_id=0).queue_offset == 30
    store.close(NOW_MS)


@pytest.mark.parametrize("flushed", [0, 20, 59])
@pytest.mark.parametrize("damage", ["nothing", "newest removed", "newest garbage", "newest zeroed"])
def test_it_finds_every_key_after_a_crash(tmp_path: Path, flushed: int, damage: str) -> None:
    sent = filled(tmp_path, 60, flushed)
    newest = sorted((tmp_path / "index").iterdir())[-1]
    if damage == "newest removed":
        newest.unlink()
    elif damage != "nothing":
        size = newest.stat().st_size
        newest.write_bytes(bytes(size) if damage == "newest zeroed" else random.Random(1).randbytes(size))
    for _ in range(2):
        store, _ = reopened(tmp_path)
        check_all(store, sent)
        kill(store)
    assert len(sorted((tmp_path / "index").iterdir())) == 1


def test_it_forgets_units_of_messages_that_a_power_failure_took(tmp_path: Path) -> None:
    """Queue pages reached the disk, the log's did not, and no later message says where the queue ends."""
    store = open_store(tmp_path)
    put_all(store, [b"a", b"b"])
    thorough_flush(store)
    put_all(store, [b"c", b"d"])
    put_all(store, [b"other"], topic="Other")
    end = store.table.queues["TopicTest", 0].unit(2)[0]
    kill(store)
    log = tmp_path / "commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes()[:end] + bytes(4096 - end))
    again, _ = reopened(tmp_path)
    assert bodies(again) == [b"a", b"b"]
    assert put_all(again, [b"new"])[0].queue_offset == 2
    assert bodies(again, "Other") == []
    again.close(NOW_MS)


def test_it_is_not_misled_by_garbage_behind_a_quiet_queues_end(tmp_path: Path) -> None:
    """No later message says where the queue ends, and halving meets a unit that looks whole."""
    store = open_store(tmp_path)
    put_all(store, [b"a", b"b", b"c"])
    thorough_flush(store)
    put_all(store, [b"other"], topic="Other")
    kill(store)
    path = tmp_path / "consumequeue" / "TopicTest" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[5 * 20 : 6 * 20] = data[1 * 20 : 2 * 20]
    path.write_bytes(data)
    again, _ = reopened(tmp_path)
    assert bodies(again) == [b"a", b"b", b"c"]
    assert put(again).queue_offset == 3
    again.close(NOW_MS)


def test_it_walks_no_record_after_a_clean_stop(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(60):
        put(store, b"m%d" % number + bytes(300), queue_id=number % QUEUES, properties=b"KEYS\x01k\x02")
    put(store, b"no unit", sys_flag=0xC)
    store.dispatch_pending()
    store.close(NOW_MS)
    again, report = reopened(tmp_path)
    assert (report.clean_shutdown, report.records_scanned, report.records_dispatched) == (True, 0, 0)
    assert sum(len(bodies(again, queue_id=queue_id)) for queue_id in range(QUEUES)) == 60
    again.close(NOW_MS)


@pytest.mark.parametrize("stop", ["clean", "crash", "crash after flush"])
def test_it_does_not_bring_a_deleted_topic_back(tmp_path: Path, stop: str) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"kept"], topic="Other")
    put_all(store, [b"dead%d" % number for number in range(50)], queue_id=1)
    store.drop_topic("TopicTest")
    store.remove_dropped()
    if stop == "crash after flush":
        thorough_flush(store)
    if stop == "clean":
        store.close(NOW_MS)
    else:
        kill(store)
    for _ in range(2):
        again, _ = reopened(tmp_path)
        assert again.topics() == ["Other"]
        assert bodies(again, "Other") == [b"kept"]
        kill(again)


@pytest.mark.parametrize("made_anew", [False, True])
def test_high_offsets_of_a_deleted_topic_need_no_walk_of_the_whole_log(
    made_anew: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"dead" + bytes(900) for _ in range(60)])
    put_all(store, [b"kept"], topic="Other")
    thorough_flush(store)
    put_all(store, [b"dead too"])
    store.drop_topic("TopicTest")
    store.remove_dropped()
    if made_anew:
        put_all(store, [b"new"])
    kill(store)
    starts: list[int] = []
    walk = LogInspection.walk
    monkeypatch.setattr(
        LogInspection,
        "walk",
        lambda self, start, derived: (starts.append(start), walk(self, start, derived))[1],
    )
    again, _ = reopened(tmp_path)
    assert len(starts) == 1
    assert starts[0] >= 14 * 4096
    assert bodies(again) == ([b"new"] if made_anew else [])
    assert bodies(again, "Other") == [b"kept"]
    again.close(NOW_MS)


@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_it_starts_a_topic_of_a_deleted_ones_name_at_0(tmp_path: Path, stop: str) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"dead%d" % number for number in range(50)])
    store.drop_topic("TopicTest")
    store.remove_dropped()
    assert put_all(store, [b"new"], properties=b"KEYS\x01k\x02")[0].queue_offset == 0
    if stop == "clean":
        store.close(NOW_MS)
    else:
        kill(store)
    again, _ = reopened(tmp_path)
    assert bodies(again) == [b"new"]
    kill(again)
    shutil.rmtree(tmp_path / "consumequeue")  # now all of it comes from the log
    again, _ = reopened(tmp_path)
    assert bodies(again) == [b"new"]
    assert put(again).queue_offset == 1
    again.close(NOW_MS)


def test_it_removes_files_of_a_deleted_topic_that_a_crash_left(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"dead"])
    put_all(store, [b"kept"], topic="Other")
    folder = tmp_path / "consumequeue" / "TopicTest"
    shutil.copytree(folder, tmp_path / "copy")
    store.drop_topic("TopicTest")
    store.remove_dropped()
    kill(store)
    shutil.copytree(tmp_path / "copy", folder)
    again, _ = reopened(tmp_path)
    assert again.topics() == ["Other"]
    assert not (folder / "0").exists()
    again.close(NOW_MS)


def test_it_keeps_messages_where_a_crash_cut_the_log_behind_a_deletion(tmp_path: Path) -> None:
    """What was cut is written anew, below the offset up to which the topic counted as deleted."""
    store = open_store(tmp_path)
    put_all(store, [b"dead"])
    store.flush()
    put_all(store, [b"lost"], topic="Other")
    store.drop_topic("TopicTest")
    store.remove_dropped()
    end = store.table.queues["Other", 0].unit(0)[0]
    kill(store)
    log = tmp_path / "commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes()[:end] + bytes(4096 - end))
    again, _ = reopened(tmp_path)
    put_all(again, [b"new"])
    kill(again)
    third, _ = reopened(tmp_path)
    assert bodies(third) == [b"new"]
    third.close(NOW_MS)


@pytest.mark.parametrize("clean", [True, False])
def test_it_rebuilds_a_queue_that_is_shorter_than_when_it_was_flushed(tmp_path: Path, clean: bool) -> None:
    store = open_store(tmp_path)
    sent = [b"m%d" % number for number in range(30)]
    put_all(store, sent)
    put_all(store, [b"x"], queue_id=1)
    thorough_flush(store)
    if clean:
        store.close(NOW_MS)
    else:
        kill(store)
    shutil.rmtree(tmp_path / "consumequeue" / "TopicTest" / "0")
    again, _ = reopened(tmp_path)
    assert bodies(again) == sent
    assert bodies(again, queue_id=1) == [b"x"]
    again.close(NOW_MS)


def test_it_keeps_the_end_of_a_lost_queue_whose_messages_expired(tmp_path: Path) -> None:
    """Otherwise a new message would get an offset that consumers have behind them."""
    store = open_store(tmp_path)
    put_all(store, [b"m%d" % number for number in range(7)])
    put_all(store, [bytes(3000)] * 3, topic="Other")
    store._log.files.delete_first()
    store.close(NOW_MS)
    shutil.rmtree(tmp_path / "consumequeue" / "TopicTest")
    again, _ = reopened(tmp_path)
    assert (again.min_offset("TopicTest", 0), again.max_offset("TopicTest", 0)) == (7, 7)
    assert put_all(again, [b"new"])[0].queue_offset == 7
    assert bodies(again) == [b"new"]
    again.close(NOW_MS)


def test_it_takes_a_store_without_checkpoint_for_a_crashed_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sent = [b"m%d" % number for number in range(9)]
    put_all(store, sent)
    store.close(NOW_MS)
    (tmp_path / "checkpoint").unlink()
    shutil.rmtree(tmp_path / "consumequeue")
    again, report = reopened(tmp_path)
    assert bodies(again) == sent
    assert (report.clean_shutdown, report.records_scanned) == (False, 9)
    again.close(NOW_MS)
