"""Small stores for tests: 4 KiB commit log files, 10 units per consume queue file, tiny index files."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from brokerd.store.log.record import read_record
from brokerd.store.message_store import MessageStore
from brokerd.store.results import PutResult
from brokerd.store.store_config import MessageStoreConfig

NOW_MS = 1_800_000_000_000
BORN_HOST = ("192.0.2.7", 53902)
STORE_HOST = ("127.0.0.1", 10911)
GOLDEN = Path(__file__).parent.parent.parent / "golden" / "store"


def small_config(root: Path, **changes: Any) -> MessageStoreConfig:
    settings: dict[str, Any] = {
        "mapped_file_size_commit_log": 4096,
        "mapped_file_size_consume_queue": 200,
        "max_hash_slot_num": 8,
        "max_index_num": 64,
        "disk_space_warning_level_ratio": 100,  # the machine that tests may be full
        "disk_space_clean_forcibly_ratio": 100,
    }
    return MessageStoreConfig(root, **(settings | changes))


class RecordedArrivals:
    """Notes what dispatch notifies of, while it waits for it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int, int]] = []
        self.is_awaited = True

    def notify_arrival(self, *arrival: Any) -> None:
        self.seen.append(arrival)


def open_store(root: Path, **changes: Any) -> MessageStore:
    store = MessageStore(small_config(root, **changes))
    store.open(NOW_MS)
    return store


def put(
    store: MessageStore,
    body: bytes = b"hello",
    topic: str = "TopicTest",
    queue_id: int = 0,
    properties: bytes = b"",
    now_ms: int = NOW_MS,
    **fields: Any,
) -> PutResult:
    fields = {"born_timestamp_ms": NOW_MS - 5, "born_host": BORN_HOST, "store_host": STORE_HOST} | fields
    return store.put_message(topic, queue_id, body, properties, now_ms=now_ms, **fields)


def settle(store: MessageStore) -> None:
    """Give everything put its unit and its keys, as a broker has within a tenth of a second."""
    store.dispatch_pending()
    store.index_pending()


def put_all(store: MessageStore, bodies: Iterable[bytes], **fields: Any) -> list[PutResult]:
    results = [put(store, body, **fields) for body in bodies]
    settle(store)
    return results


def flush_everything(store: MessageStore) -> None:
    """All that the flushes of a minute do."""
    store.flush_log_if_due(0)
    store.flush_queues_if_due(0)
    store.flush_log_if_due(100_000)
    store.flush_queues_if_due(100_000)


def failing_disk(*_: object) -> None:
    """Stands for sync_pages on a disk that does not take what is written."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def body_of(view: memoryview) -> bytes:
    """The body of a record with two IPv4 hosts."""
    length = int.from_bytes(view[84:88])
    return bytes(view[88 : 88 + length])


def bodies(store: MessageStore, topic: str = "TopicTest", queue_id: int = 0) -> list[bytes]:
    """All bodies of a queue, read by pulls as a consumer does."""
    found = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.get_message(topic, queue_id, offset, 32)
        for view in result.views:
            record = read_record(view, 0, int.from_bytes(view[28:36]))
            assert record is not None
            found.append(body_of(view))
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset
    return found


def kill(store: MessageStore) -> None:
    """Leave the store as a killed process does: nothing written, its descriptors and its lock gone."""
    store._log.close()  # the thread would die, too
    if store._checkpoint is not None:
        store._checkpoint.close()
    store._lock.release()


def unpack_golden(version: str, target: Path) -> Path:
    """A writable copy of a captured store directory; returns its root."""
    source = GOLDEN / version / "store"
    for path in source.rglob("*"):
        if path.is_file():
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".gz":
                copy.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            else:
                copy.write_bytes(path.read_bytes())
    return target


def golden_config(root: Path, **changes: Any) -> MessageStoreConfig:
    return small_config(
        root,
        **{
            "mapped_file_size_commit_log": 65536,
            "mapped_file_size_consume_queue": 2000,
            "max_hash_slot_num": 1000,
            "max_index_num": 200,
            "max_message_size": 32768,
        }
        | changes,
    )
