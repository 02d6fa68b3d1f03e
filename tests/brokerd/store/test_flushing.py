"""A failed flush is final until a restart, and the log never waits for the queues' flush."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from brokerd.store.errors import FlushFailed, ServiceNotAvailable
from brokerd.store.files import mapped_file
from tests.brokerd.store.stores import (
    NOW_MS,
    bodies,
    failing_disk,
    flush_everything,
    open_store,
    put,
    put_all,
)

LOG_FAILED = (
    "the commit log could not be flushed ([Errno 5] Input/output error): messages stored since offset 0 may not be"
    " on the disk. Check the disk, then restart the broker; until then it takes no messages"
)


def test_after_a_failed_flush_the_store_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"in doubt"])
    with monkeypatch.context() as broken:
        broken.setattr(mapped_file, "sync_pages", failing_disk)
        with pytest.raises(FlushFailed) as raised:
            store.flush()
    assert str(raised.value) == LOG_FAILED
    assert store.refusal == LOG_FAILED
    with pytest.raises(ServiceNotAvailable, match="could not be flushed"):
        put(store, b"refused")
    with pytest.raises(FlushFailed):  # the disk would take it now: what it lost before stays lost
        store.flush()
    flush_everything(store)
    assert store.flushed_offset == 0
    store.note_disk_use(0.3)
    assert store.refusal == LOG_FAILED, "room on the disk does not mend it"
    assert bodies(store) == [b"in doubt"], "it can still be read"


def test_a_stop_after_a_failed_flush_is_not_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"in doubt"])
    checkpoint = (tmp_path / "checkpoint").read_bytes() if (tmp_path / "checkpoint").exists() else b""
    dropped: list[str] = []
    with monkeypatch.context() as broken:
        broken.setattr(mapped_file, "sync_pages", failing_disk)
        store.close(NOW_MS)
    assert "flush failed" in (tmp_path / "abort").read_text()
    now = (tmp_path / "checkpoint").read_bytes() if (tmp_path / "checkpoint").exists() else b""
    assert now == checkpoint
    monkeypatch.setattr(
        "brokerd.store.files.mapped_file.drop_cached_pages", lambda path: dropped.append(path.name)
    )
    again = open_store(tmp_path)
    assert "00000000000000000000" in dropped, "what the kernel only remembers is not taken for written"
    assert put(again, b"taken").queue_offset == 1
    again.close(NOW_MS)
    assert not (tmp_path / "abort").exists()
    dropped.clear()
    open_store(tmp_path).close(NOW_MS)
    assert dropped == []


def test_a_failed_flush_of_a_queue_is_final_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"a"])
    store.flush()
    with monkeypatch.context() as broken:
        broken.setattr(mapped_file, "sync_pages", failing_disk)
        with pytest.raises(FlushFailed, match="consume queues or the key index"):
            store.flush_queues_if_due(0)
    flush_everything(store)
    assert store._checkpoint is not None
    assert store._checkpoint.logics_msg_timestamp_ms == 0, "it never claims the queue that failed"
    with pytest.raises(ServiceNotAvailable):
        put(store)


def test_the_log_is_flushed_while_queues_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path, flush_disk_type="SYNC_FLUSH")
    put_all(store, [b"first"])
    store.flush()
    store.dispatch_pending()
    in_queues, go_on = threading.Event(), threading.Event()
    sync = mapped_file.sync_pages

    def slow_for_queues(*arguments: Any) -> None:
        if threading.current_thread().name == "queues":
            in_queues.set()
            assert go_on.wait(10)
        sync(*arguments)

    monkeypatch.setattr(mapped_file, "sync_pages", slow_for_queues)
    thread = threading.Thread(target=store.flush_queues_if_due, args=(0,), name="queues")
    thread.start()
    assert in_queues.wait(10)
    put(store, b"second")
    assert store.flush() == store.commit_log_max_offset
    go_on.set()
    thread.join()
    store.close(NOW_MS)


def test_new_queue_files_are_named_durably_by_their_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    store = open_store(tmp_path)
    put_all(store, [b"a"], topic="First")
    monkeypatch.setattr(
        "brokerd.store.files.mapped_file_queue.fsync_directory",
        lambda folder: synced.append(str(folder.relative_to(tmp_path.parent))),
    )
    put_all(store, [b"a"], topic="T")
    assert not any("consumequeue" in each for each in synced), "not in the event loop"
    store.flush_queues_if_due(0)
    root = tmp_path.name
    queues = [each for each in synced if "consumequeue/T" in each or each == root]
    assert queues == [root, f"{root}/consumequeue/T/0", f"{root}/consumequeue/T", root]
    store.close(NOW_MS)


def test_a_name_that_may_be_lost_is_final_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr("brokerd.store.files.mapped_file_queue.fsync_directory", failing_disk)
        with pytest.raises(ServiceNotAvailable, match="Input/output error"):
            put(store)
    assert store.refusal.startswith("the commit log's folder could not be flushed ([Errno 5]")
    with pytest.raises(ServiceNotAvailable, match="could not be flushed"):
        put(store)
