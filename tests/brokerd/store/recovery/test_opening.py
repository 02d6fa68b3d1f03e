from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from brokerd.store.errors import CorruptRecord, StoreFilesInvalid
from brokerd.store.files.checkpoint import StoreCheckpoint
from brokerd.store.files.mapped_file import MappedFile
from brokerd.store.message_store import MessageStore
from brokerd.store.queue.consume_queue import CQ_UNIT
from brokerd.store.results import RecoveryReport
from tests.brokerd.store.stores import (
    BORN_HOST,
    NOW_MS,
    STORE_HOST,
    bodies,
    flush_everything,
    kill,
    open_store,
    put,
    put_all,
    settle,
    small_config,
)

LATER_MS = NOW_MS + 60_000
EVER = (0, 2**62)


def crashed(root: Path, count: int = 10, body_bytes: int = 0, *, flushed: bool = False) -> list[bytes]:
    """A store whose process died after `count` messages, all or none of them flushed; returns their bodies."""
    store = open_store(root)
    sent = [b"m%d" % number + bytes(body_bytes) for number in range(count)]
    put_all(store, sent, properties=b"KEYS\x01k\x02")
    if flushed:
        store.flush()
    kill(store)
    return sent


def reopened(root: Path, **changes: object) -> tuple[MessageStore, RecoveryReport]:
    store = MessageStore(small_config(root, **changes))
    return store, store.open(LATER_MS)


def log_file(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def record_starts(root: Path) -> list[int]:
    """Read from the queue's file: opening the store would flush it."""
    units = (root / "consumequeue" / "TopicTest" / "0" / f"{0:020d}").read_bytes()
    starts = [offset for offset, size_bytes, _ in CQ_UNIT.iter_unpack(units) if size_bytes]
    last = CQ_UNIT.unpack_from(units, (len(starts) - 1) * 20)
    return [*starts, last[0] + last[1]]


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a store except the lock."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def test_it_reads_everything_back_after_a_clean_stop(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sent = [b"m%d" % number for number in range(100)]
    put_all(store, sent)
    store.close(NOW_MS)
    assert not (tmp_path / "abort").exists()
    again, report = reopened(tmp_path)
    assert bodies(again) == sent
    assert report.clean_shutdown
    assert (report.records_scanned, report.records_dispatched, report.reason) == (0, 0, "")
    assert put(again).queue_offset == 100
    again.close(NOW_MS)


def test_it_loses_nothing_when_the_process_is_killed(tmp_path: Path) -> None:
    sent = crashed(tmp_path, 100)
    assert (tmp_path / "abort").exists()
    again, report = reopened(tmp_path)
    assert bodies(again) == sent
    assert (report.clean_shutdown, report.records_scanned, report.removed_bytes) == (False, 100, 0)
    assert put(again).queue_offset == 100
    again.close(NOW_MS)


def test_it_dispatches_what_a_killed_process_did_not(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"m0", b"m1"])
    put(store, b"m2", properties=b"KEYS\x01k\x02")
    put(store, b"other", topic="New", queue_id=5)
    kill(store)
    again, report = reopened(tmp_path)
    assert report.records_dispatched == 4
    assert bodies(again) == [b"m0", b"m1", b"m2"]
    assert bodies(again, "New", 5) == [b"other"]
    assert len(again.query_by_key("TopicTest", "k", 9, *EVER).commit_log_offsets) == 1
    again.close(NOW_MS)


IMAGE_COUNT = 3


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int], list[bytes]]:
    """A log of three records of growing size, where they start, and their bodies."""
    root = tmp_path_factory.mktemp("image")
    store = open_store(root)
    sent = [b"x" * number * 3 for number in range(1, IMAGE_COUNT + 1)]
    put_all(store, sent, properties=b"TAGS\x01a\x02KEYS\x01k\x02")
    starts = [store.table.queues["TopicTest", 0].unit(number)[0] for number in range(IMAGE_COUNT)]
    starts.append(store.commit_log_max_offset)
    data = log_file(root).read_bytes()
    kill(store)
    return data, starts, sent


@pytest.mark.parametrize("step", range(8))
def test_it_recovers_a_clean_prefix_of_a_log_cut_at_every_byte(
    tmp_path: Path, image: tuple[bytes, list[int], list[bytes]], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a killed writer or a lost page leaves it: zeros from the cut on."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # 700 openings: no power fails here
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    monkeypatch.setattr(MappedFile, "flush", lambda self, *range_: None)
    data, starts, sent = image
    for cut in range(step, starts[-1] + 1, 8):
        root = tmp_path / str(cut)
        log_file(root).parent.mkdir(parents=True)
        log_file(root).write_bytes(data[:cut] + bytes(4096 - cut))
        (root / "abort").touch()
        whole = sum(end <= cut for end in starts[1:])
        store, report = reopened(root)
        assert bodies(store) == sent[:whole]
        assert report.commit_log_max_offset == starts[whole]
        assert log_file(root).read_bytes() == data[: starts[whole]] + bytes(4096 - starts[whole])
        assert put_all(store, [b"after"])[0].queue_offset == whole
        kill(store)
        again, _ = reopened(root)
        assert bodies(again) == [*sent[:whole], b"after"]
        again.close(NOW_MS)
        shutil.rmtree(root)


def test_it_drops_queue_units_behind_the_end_of_a_cut_log(tmp_path: Path) -> None:
    sent = crashed(tmp_path, 8)
    starts = record_starts(tmp_path)
    overwrite(log_file(tmp_path), starts[5] + 20, bytes(4096 - starts[5] - 20))
    store, report = reopened(tmp_path)
    assert report.removed_bytes == 12  # size, magic and CRC; zeros follow
    assert report.reason == "the record names offset 0"
    assert bodies(store) == sent[:5]
    assert store.max_offset("TopicTest", 0) == 5
    put_all(store, [b"new"], properties=b"KEYS\x01new\x02")
    assert bodies(store)[-1] == b"new"
    assert store.query_by_key("TopicTest", "new", 9, *EVER).commit_log_offsets == [starts[5]]
    store.close(NOW_MS)


def test_it_cuts_garbage_at_the_end_and_never_reads_it_again(tmp_path: Path) -> None:
    sent = crashed(tmp_path, 5)
    end = record_starts(tmp_path)[-1]
    overwrite(log_file(tmp_path), end, b"\x00\x00\x01\x00\xda\xa3\x20\xa7" + b"garbage" * 30)
    store, report = reopened(tmp_path)
    assert bodies(store) == sent
    assert report.removed_bytes == 8 + 7 * 30
    assert log_file(tmp_path).read_bytes()[end:] == bytes(4096 - end)
    store.close(NOW_MS)


def test_it_never_takes_an_old_record_behind_the_end_for_a_new_one(tmp_path: Path) -> None:
    crashed(tmp_path, 5)
    starts = record_starts(tmp_path)
    record = log_file(tmp_path).read_bytes()[starts[1] : starts[2]]
    overwrite(log_file(tmp_path), starts[-1], record)  # whole, but it says it lies elsewhere
    store, report = reopened(tmp_path)
    assert f"the record names offset {starts[1]}" in report.reason
    assert store.max_offset("TopicTest", 0) == 5
    store.close(NOW_MS)


@pytest.mark.parametrize("clean", [False, True])
def test_it_refuses_damage_before_the_flushed_end_and_changes_nothing(tmp_path: Path, clean: bool) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"m%d" % number for number in range(10)])
    store.flush()
    if clean:
        store.close(NOW_MS)
    else:
        kill(store)
    starts = record_starts(tmp_path)
    damaged = 9 if clean else 4  # a clean start looks at the newest record only
    overwrite(log_file(tmp_path), starts[damaged] + 88, b"X")
    before = contents(tmp_path)
    for _ in range(3):
        store = MessageStore(small_config(tmp_path))
        with pytest.raises(CorruptRecord, match="body CRC") as caught:
            store.open(LATER_MS)
        store.close(LATER_MS)  # as a broker does whose start failed
        assert caught.value.offset == starts[damaged]
        assert f"python -m brokerd check --store {tmp_path}" in caught.value.reason
        assert contents(tmp_path) == before


def test_it_refuses_damage_in_an_earlier_file(tmp_path: Path) -> None:
    crashed(tmp_path, 10, 1000, flushed=True)
    overwrite(log_file(tmp_path, 4096), 0, b"XXXXXXXX")
    with pytest.raises(CorruptRecord, match="whole records follow from offset") as caught:
        reopened(tmp_path)
    assert caught.value.offset == 4096


@pytest.mark.parametrize("damage", ["zeroed", "last file deleted", "all files deleted"])
def test_it_refuses_a_log_with_less_than_was_flushed(tmp_path: Path, damage: str) -> None:
    crashed(tmp_path, 10, 1000, flushed=True)
    if damage == "zeroed":
        overwrite(log_file(tmp_path, 8192), 0, bytes(4096))
    elif damage == "last file deleted":
        log_file(tmp_path, 12288).unlink()
    else:
        shutil.rmtree(tmp_path / "commitlog")
    before = contents(tmp_path)
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="flushed"):
            reopened(tmp_path)
    assert contents(tmp_path) == before


def test_it_refuses_a_log_that_lost_its_end_after_a_clean_stop(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"m%d" % number for number in range(10)])
    store.close(NOW_MS)
    overwrite(log_file(tmp_path), record_starts(tmp_path)[9], bytes(200))
    before = contents(tmp_path)
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="messages are missing"):
            reopened(tmp_path)
    assert contents(tmp_path) == before


def test_it_cuts_anything_behind_the_flushed_end(tmp_path: Path) -> None:
    """Power failure: the disk got later pages, not this one. No sender was promised these messages."""
    store = open_store(tmp_path)
    sent = [b"m%d" % number + bytes(250) for number in range(10)]
    put_all(store, sent[:2])
    store.flush()
    put_all(store, sent[2:])
    kill(store)
    starts = record_starts(tmp_path)
    overwrite(log_file(tmp_path), 1024, b"X" * 1024)
    assert starts[2] < 1024 < starts[3]
    again, report = reopened(tmp_path)
    assert bodies(again) == sent[:2]
    assert report.commit_log_max_offset == starts[2]
    put_all(again, [b"new"])
    kill(again)
    third, _ = reopened(tmp_path)
    assert bodies(third) == [*sent[:2], b"new"]
    third.close(NOW_MS)


def test_it_cuts_half_a_batch(tmp_path: Path) -> None:
    """kill -9 inside the append: records 2 to 5 are whole, size and magic of the first are not written yet."""
    store = open_store(tmp_path)
    sent = [b"m%d" % number for number in range(3)]
    put_all(store, sent)
    store.flush()
    batch = [(b"b%d" % number, b"", 0) for number in range(5)]
    hosts = {"born_host": BORN_HOST, "store_host": STORE_HOST}
    end = store.commit_log_max_offset
    store.put_messages("TopicTest", 0, batch, born_timestamp_ms=1, now_ms=NOW_MS, **hosts)  # type: ignore[arg-type]
    kill(store)
    overwrite(log_file(tmp_path), end, bytes(8))
    again, report = reopened(tmp_path)
    assert bodies(again) == sent
    assert report.removed_bytes > 0
    assert put(again).queue_offset == 3
    again.close(NOW_MS)


def test_it_cuts_at_a_closing_blank_that_was_lost(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sent = [b"m%d" % number + bytes(1000) for number in range(5)]
    put_all(store, sent[:3])
    store.flush()
    end = store.commit_log_max_offset
    put_all(store, sent[3:])
    kill(store)
    overwrite(log_file(tmp_path), end, bytes(8))
    again, report = reopened(tmp_path)
    assert bodies(again) == sent[:3]
    assert report.commit_log_max_offset == end
    assert not log_file(tmp_path, 4096).exists()
    again.close(NOW_MS)


def test_it_flushes_what_it_accepts_before_it_counts_as_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed(tmp_path, 10, 1000)
    flushed: list[str] = []
    flush = MappedFile.flush
    monkeypatch.setattr(
        MappedFile, "flush", lambda self, *range_: (flushed.append(str(self.path)), flush(self, *range_))
    )
    log_flushed = StoreCheckpoint.log_flushed
    monkeypatch.setattr(
        StoreCheckpoint,
        "log_flushed",
        lambda self, offset, ms: (flushed.append(f"point {offset}"), log_flushed(self, offset, ms)),
    )
    store, _ = reopened(tmp_path)
    end = store.commit_log_max_offset
    logs = [str(log_file(tmp_path, start)) for start in (0, 4096, 8192, 12288)]
    assert flushed[:5] == [*logs, f"point {end}"]
    store.close(NOW_MS)


def test_it_does_not_open_a_store_that_the_disk_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed(tmp_path, 10)

    def fail(self: MappedFile, *range_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as context:
        context.setattr(MappedFile, "flush", fail)
        with pytest.raises(OSError, match="Input/output"):
            reopened(tmp_path)
    point = StoreCheckpoint(tmp_path / "checkpoint").point
    assert point is not None and point.log_offset == 0
    store, _ = reopened(tmp_path)
    assert len(bodies(store)) == 10
    store.close(NOW_MS)


def test_it_rebuilds_all_consume_queues_from_the_log(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sent = [b"m%d" % number for number in range(60)]
    for number, body in enumerate(sent):
        put(store, body, queue_id=number % 3)
    store.close(NOW_MS)
    shutil.rmtree(tmp_path / "consumequeue")
    again, report = reopened(tmp_path)
    assert report.records_dispatched == 60
    assert [bodies(again, queue_id=queue_id) for queue_id in range(3)] == [sent[0::3], sent[1::3], sent[2::3]]
    again.close(NOW_MS)


@pytest.mark.parametrize("damage", ["removed", "emptied", "first file lost"])
@pytest.mark.parametrize("clean", [True, False])
def test_it_rebuilds_one_missing_queue(tmp_path: Path, damage: str, clean: bool) -> None:
    store = open_store(tmp_path)
    sent = [b"m%d" % number + bytes(300) for number in range(40)]
    for number, body in enumerate(sent):
        put(store, body, queue_id=number % 2, now_ms=NOW_MS + number * 1000)
    settle(store)
    flush_everything(store)
    if clean:
        store.close(NOW_MS)
    else:
        kill(store)
    folder = tmp_path / "consumequeue" / "TopicTest" / "0"
    if damage == "removed":
        shutil.rmtree(folder)
    elif damage == "emptied":
        for path in folder.iterdir():
            path.write_bytes(bytes(200))
    else:
        (folder / "00000000000000000200").unlink()
    again, _ = reopened(tmp_path)
    assert [bodies(again, queue_id=queue_id) for queue_id in range(2)] == [sent[0::2], sent[1::2]]
    again.close(NOW_MS)


def test_it_walks_only_what_may_not_be_on_the_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(20):
        put(store, bytes(1000), now_ms=NOW_MS + number * 1000)
        settle(store)
        if number == 10:
            flush_everything(store)
    kill(store)
    again, report = reopened(tmp_path)
    # Three records a file: the walk starts with the file of record 10, dispatch behind it.
    assert (report.scan_start_offset, report.records_scanned, report.records_dispatched) == (3 * 4096, 11, 9)
    kill(again)
    _, report = reopened(tmp_path)
    assert (report.scan_start_offset, report.records_dispatched) == (6 * 4096, 0)


def test_it_forgets_queues_and_index_of_a_log_that_is_gone(tmp_path: Path) -> None:
    crashed(tmp_path, 10)
    shutil.rmtree(tmp_path / "commitlog")
    store, report = reopened(tmp_path)
    assert report.commit_log_max_offset == 0
    assert store.topics() == []
    assert put_all(store, [b"first"])[0] == (0, 0, NOW_MS, 91 + 5 + 9)
    assert store.query_by_key("TopicTest", "k", 9, *EVER).commit_log_offsets == []
    store.close(NOW_MS)


@pytest.mark.parametrize(
    "path", ["commitlog/00000000000000000000", "consumequeue/TopicTest/0/00000000000000000000"]
)
def test_it_refuses_files_of_another_size(tmp_path: Path, path: str) -> None:
    crashed(tmp_path, 10)
    with (tmp_path / path).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(StoreFilesInvalid, match="but the settings have"):
        reopened(tmp_path)
    with (tmp_path / path).open("r+b") as file:
        file.truncate(4096 if "commitlog" in path else 200)
    store, _ = reopened(tmp_path)  # the failed start left no lock
    assert len(bodies(store)) == 10
    store.close(NOW_MS)


def test_it_removes_the_empty_file_of_a_crash_while_creating_it(tmp_path: Path) -> None:
    sent = crashed(tmp_path, 10)
    log_file(tmp_path, 4096).touch()
    store, _ = reopened(tmp_path)
    assert bodies(store) == sent
    store.close(NOW_MS)


def test_it_deletes_readied_files_behind_the_end(tmp_path: Path) -> None:
    sent = crashed(tmp_path, 10)
    log_file(tmp_path, 4096).write_bytes(bytes(4096))
    store, _ = reopened(tmp_path)
    assert bodies(store) == sent
    assert not log_file(tmp_path, 4096).exists()
    store.close(NOW_MS)


def test_it_goes_on_in_the_next_file_when_the_last_was_closed_by_a_blank_record(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_all(store, [bytes(3000), bytes(3000)])
    kill(store)
    log_file(tmp_path, 4096).write_bytes(bytes(4096))
    again, report = reopened(tmp_path)
    assert report.commit_log_max_offset == 4096
    assert put_all(again, [b"x"])[0].commit_log_offset == 4096
    again.close(NOW_MS)
