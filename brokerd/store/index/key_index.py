"""The key index: the folder of index files, what of a record is indexed, and queries over all files.

Source: `store/.../index/IndexService.java`, reference store-format §8.3 to §8.5.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from operator import mul
from pathlib import Path
from typing import Final

from brokerd.compiled.functions import compiled_functions
from brokerd.remoting.message.java_hash import MASK, java_hash, java_hash_joined
from brokerd.store.files.checkpoint import DurablePoint
from brokerd.store.files.mapped_file import MappedFile, Ready, fsync_directory
from brokerd.store.index.index_file import SLOT_BYTES, IndexFile, Key, Visits, index_file_bytes, slot_hash
from brokerd.store.log.record import KEYS, TRANSACTION_MASK, TRANSACTION_ROLLBACK, UNIQ_KEY, find_property
from brokerd.store.queue.consume_queue import ConsumeQueue
from brokerd.store.results import QueryMessageResult
from brokerd.store.store_config import MessageStoreConfig

logger = logging.getLogger(__name__)

NAME_DIGITS = 17  # local time yyyyMMddHHmmssSSS
# A client's unique keys share their first 22 characters (address, process, class loader, month's hour), and
# brokerd meets few clients at a time. Dropping all prefixes when it is full is simpler than dropping one.
PREFIX_CACHE_MAX = 4096
UNIQUE_KEY_PREFIX_BYTES = 22
SLOTS_THREAD_BYTES_MIN = 1 << 20  # fewer slots are not worth a thread
POWERS_10 = tuple(31**exponent for exponent in range(9, -1, -1))
POWER_10 = pow(31, 10, 1 << 32)
POWER_32 = pow(31, 32, 1 << 32)


# (queue, commit log offset, store time in ms, properties): a plain tuple, as one is made per message.
KeyedRecord = tuple[ConsumeQueue, int, int, bytes]
KEYED_OFFSET: Final = 1


def index_file_name(timestamp_ms: int) -> str:
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    return time.strftime("%Y%m%d%H%M%S", time.localtime(seconds)) + f"{milliseconds:03d}"


def key_hashes(topic: str, sys_flag: int, properties: bytes) -> list[int]:
    """Return the hashes under which a record stands in the index, for checks; `put_records` is the fast twin."""
    if sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return []
    keys = [find_property(properties, UNIQ_KEY), *find_property(properties, KEYS).split(b" ")]
    prefix = f"{topic}#".encode()
    return [slot_hash(java_hash(prefix + key)) for key in keys if key]


class KeyIndex:
    """All index files, oldest first. Single writer; another thread may flush full files."""

    def __init__(self, config: MessageStoreConfig) -> None:
        self.directory: Path = config.index_dir
        self.files: list[IndexFile] = []
        self.safe_timestamp_ms = 0  # store time up to which full, flushed files reach (checkpoint)
        self._hash_slot_num = config.max_hash_slot_num
        self._index_num = config.max_index_num
        self.config = config
        self._functions = compiled_functions(is_wanted=config.compiled_sends)
        self._prefix_hashes: dict[bytes, int] = {}
        self._full_files: deque[IndexFile] = deque()  # still to be flushed
        self._dropped: list[IndexFile] = []
        self._empty: list[Path] = []
        self._restore_count = 0

    # Loading

    def load(self, point: DurablePoint | None, *, clean_shutdown: bool, safe_timestamp_ms: int) -> int:
        """Find the files to keep; return the log offset from which records must be indexed again.

        Nothing is changed before `fit`. With a durable point of ours full files and the newest file's entries up to
        the point are kept. Without (a Java broker's store) all files after a clean stop; after a crash those that
        the checkpoint's index time covers (§8.5), where Java loses the keys of the others.
        A file of another size (settings changed) is left alone and not used.
        """
        self.safe_timestamp_ms = safe_timestamp_ms
        found = self._find_files()
        if point is None:
            for index_file in found:
                is_safe = clean_shutdown or index_file.end_timestamp_ms <= safe_timestamp_ms
                if not is_safe or not index_file.is_plausible:
                    break
                self.files.append(index_file)
            self._dropped = found[len(self.files) :]
            return self.files[-1].end_offset if self.files else 0
        newest = None
        for index_file in found:
            if not index_file.is_plausible:
                break
            if index_file.number == point.index_file and index_file.count >= point.index_count:
                newest = index_file
            if index_file.number >= point.index_file or not index_file.is_full:
                break
            self.files.append(index_file)
        indexed_to = self.files[-1].end_offset if self.files else 0
        if newest is not None:
            self.files.append(newest)
            self._restore_count = point.index_count
        self._dropped = found[len(self.files) :]
        return point.derived_offset if newest is not None or not point.index_file else indexed_to

    def _find_files(self) -> list[IndexFile]:
        if not self.directory.is_dir():
            return []
        expected_bytes = index_file_bytes(self._hash_slot_num, self._index_num)
        found = []
        for path in sorted(self.directory.iterdir()):
            if len(path.name) != NAME_DIGITS or not path.name.isdecimal():
                continue
            size_bytes = path.stat().st_size
            if not size_bytes:  # a stop came between its creation and its size
                self._empty.append(path)
                continue
            if size_bytes != expected_bytes:
                logger.warning("index file %s has not the size of the settings, unused", path.name)
                continue
            found.append(IndexFile(path, self._hash_slot_num, self._index_num))
        return found

    def fit(self, log_max_offset: int, *, clean_shutdown: bool) -> None:
        """Delete what `load` did not keep, and entries of records at or after the log's end. Raises OSError."""
        for index_file in self._dropped:
            logger.info("index file %s may be torn, removed", index_file.mapped_file.path.name)
            index_file.mapped_file.delete()
        self._dropped = []
        for path in self._empty:
            path.unlink(missing_ok=True)
        self._empty = []
        while self.files:
            newest = self.files[-1]
            count = self._restore_count or newest.count
            self._restore_count = 0
            while count > 1 and newest.entry_offset(count - 1) >= log_max_offset:
                count -= 1
            if count > 1:
                if count != newest.count or not clean_shutdown:
                    newest.restore(count)
                break
            self.files.pop().mapped_file.delete()
        if self.files and not self.files[-1].is_full:
            self._ready_slots(self.files[-1])

    # Writing

    def put_records(self, records: list[KeyedRecord]) -> None:
        """Index UNIQ_KEY and every word of KEYS of records in log order, unless a later record is indexed already.

        Raises OSError (disk full): then some are indexed, and putting them all again is right.
        """
        end_offset = self.files[-1].end_offset if self.files else 0
        hashed = self._functions.hash_keys(records, end_offset) if self._functions is not None else None
        if hashed is None:
            hashed = self._hash_keys(records, end_offset)
        while hashed:
            index_file = self.files[-1] if self.files else None
            if index_file is None or index_file.is_full:
                index_file = self._new_file(hashed[0][2])
            room = index_file.room
            index_file.put(hashed[:room], self._functions)
            index_file.write_header()
            del hashed[:room]

    def _hash_keys(self, records: list[KeyedRecord], end_offset: int) -> list[Key]:
        """Hash the keys of the records at or behind a log offset; `hot.hash_keys` is its compiled twin."""
        hashed: list[Key] = []
        for queue, offset, timestamp_ms, properties in records:
            if offset < end_offset:
                continue
            topic_hash = queue.topic_hash
            if topic_hash is None:
                topic_hash = queue.topic_hash = java_hash(f"{queue.topic}#".encode())
            unique_key = find_property(properties, UNIQ_KEY)
            if unique_key:
                hashed.append((self._unique_key_hash(topic_hash, unique_key), offset, timestamp_ms))
            keys = find_property(properties, KEYS)
            if keys:
                hashed += [
                    (java_hash_joined(topic_hash, key), offset, timestamp_ms)
                    for key in keys.split(b" ")
                    if key
                ]
        return hashed

    def _unique_key_hash(self, topic_hash: int, key: bytes) -> int:
        """Hot path: only the last 10 of the 32 characters are hashed per message (1.4 → 0.7 µs)."""
        if len(key) != 32 or not key.isascii():
            return java_hash_joined(topic_hash, key)
        prefix = key[:UNIQUE_KEY_PREFIX_BYTES]
        prefix_hash = self._prefix_hashes.get(prefix)
        if prefix_hash is None:
            if len(self._prefix_hashes) >= PREFIX_CACHE_MAX:
                self._prefix_hashes.clear()
            prefix_hash = self._prefix_hashes[prefix] = java_hash(prefix) * POWER_10 & MASK
        tail_hash: int = sum(map(mul, key[UNIQUE_KEY_PREFIX_BYTES:], POWERS_10))
        return (topic_hash * POWER_32 + prefix_hash + tail_hash) & MASK

    def _new_file(self, store_timestamp_ms: int) -> IndexFile:
        files = self.files
        previous = files[-1] if files else None
        if previous is not None:
            self._full_files.append(previous)
        self.directory.mkdir(parents=True, exist_ok=True)
        name = index_file_name(store_timestamp_ms)
        while (self.directory / name).exists() or (previous and name <= previous.mapped_file.path.name):
            store_timestamp_ms += 1
            name = index_file_name(store_timestamp_ms)
        index_file = IndexFile(self.directory / name, self._hash_slot_num, self._index_num)
        if previous is not None:
            index_file.seed(previous.end_offset, previous.end_timestamp_ms)
        files.append(index_file)
        self._ready_slots(index_file)
        return index_file

    def _ready_slots(self, index_file: IndexFile) -> None:
        """In a thread: the slots are 20 MB, and keys meet their pages at random."""
        if self._hash_slot_num * SLOT_BYTES < SLOTS_THREAD_BYTES_MIN:
            return

        def ready() -> None:
            try:
                index_file.prefault_slots()
            except OSError as error:
                logger.warning("index file %s not readied: %s", index_file.mapped_file.path.name, error)

        threading.Thread(target=ready, name="index-prefault", daemon=True).start()

    def flush_full_files(self) -> None:
        """Make files that were filled since the last call durable. Raises OSError. Caller: one thread at a time."""
        if self._full_files:
            fsync_directory(self.directory)
        while self._full_files:
            index_file = self._full_files.popleft()
            index_file.flush()
            self.safe_timestamp_ms = max(self.safe_timestamp_ms, index_file.end_timestamp_ms)

    # Reading

    def query(
        self,
        topic: str,
        key: str,
        max_num: int,
        begin_ms: int,
        end_ms: int,
        visits_max: int = sys.maxsize,
        ready: Ready = MappedFile.ready_now,
    ) -> QueryMessageResult:
        """Commit log offsets of the newest `max_num` records with `key`, ascending as Java answers.

        Hash collisions are included. Caller: any thread, the event loop with a `ready` of its own. Raises
        LookupTooLong, OSError, and what `ready` raises.
        """
        visits = Visits(visits_max)
        hashed = java_hash(f"{topic}#{key}".encode())
        max_num = min(max_num, self.config.max_msgs_num_batch)
        found: set[int] = set()  # a record that has a key twice is found once
        for index_file in reversed(tuple(self.files)):
            if index_file.overlaps(begin_ms, end_ms):
                for commit_log_offset in index_file.find(hashed, begin_ms, end_ms, visits, ready):
                    if len(found) >= max_num:
                        break
                    found.add(commit_log_offset)
            if index_file.begin_timestamp_ms < begin_ms or len(found) >= max_num:
                break
        last = self.files[-1] if self.files else None
        return QueryMessageResult(
            sorted(found), last.end_timestamp_ms if last else 0, last.end_offset if last else 0
        )

    # Keeping

    def delete_expired(self, commit_log_min_offset: int) -> int:
        """Delete files that only point below the start of the log, never the last; return how many."""
        deleted = 0
        while len(self.files) > 1 and self.files[0].end_offset < commit_log_min_offset:
            self.files.pop(0).mapped_file.delete()
            deleted += 1
        return deleted

    def delete_all(self) -> None:
        while self.files:
            self.files.pop().mapped_file.delete()

    def newest_file_and_count(self) -> tuple[int, int]:
        """Name of the newest file and the number of its next entry, to be noted before a `flush_all`."""
        files = self.files[-1:]
        return (files[0].number, files[0].written_count()) if files else (0, 0)

    def flush_all(self) -> None:
        """Make every file durable. Caller: any one thread at a time. Raises OSError."""
        self.flush_full_files()
        for index_file in self.files[-1:]:
            index_file.flush()
            fsync_directory(self.directory)

    def close(self) -> None:
        """Make every file durable for good. Caller: the writer. Raises OSError."""
        self.flush_all()
        if self.files:
            self.safe_timestamp_ms = max(self.safe_timestamp_ms, self.files[-1].end_timestamp_ms)
