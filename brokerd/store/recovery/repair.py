"""Making a damaged store one that opens, by the faults a survey found. Every byte that goes is kept in a side folder.

* A log file of a wrong size gets its size; one that is missing between others becomes an empty one.
* Bytes that are no whole record become records of a kind that brokers skip (a rolled-back transaction's), or the
  file's closing blank record. Everything else keeps its place, its queue offset and its id.
* A log that ends before what was flushed is accepted at its end.
* Queues are moved aside where they are wrong, and the index unless it was compared with the log and is whole; the next
  start builds all of them from the log. Queue offsets do not go back: what is missing at a queue's end stays empty.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from brokerd.store.files.checkpoint import DurablePoint, StoreCheckpoint
from brokerd.store.files.deleted_topics import FILE_NAME as DELETED_TOPICS_NAME
from brokerd.store.files.mapped_file import MappedFile, file_name, fsync_directory
from brokerd.store.files.mapped_file_queue import MappedFileQueue
from brokerd.store.files.store_lock import AbortFile
from brokerd.store.log.record import (
    BLANK,
    BLANK_BYTES,
    BLANK_MAGIC,
    TRANSACTION_ROLLBACK,
    encode_record,
    encode_topic,
)
from brokerd.store.queue.consume_queue_table import ConsumeQueueTable, Manifest
from brokerd.store.recovery.log_inspection import data_extents
from brokerd.store.recovery.survey import HOLE_BYTES_MIN, Hole, Survey
from brokerd.store.store_config import MessageStoreConfig

FILLER_TOPIC = encode_topic("R")
FILLER_BODY_MAX = 4 * 1024 * 1024  # what every broker can read
NO_HOST = bytes(8)
MISSING_FILES_MAX = 1_000  # more is not a lost file but a wrong file size


class Repair:
    """Acts on one survey. Caller: the repair command, with the store locked."""

    def __init__(self, config: MessageStoreConfig, side: Path) -> None:
        self._config = config
        self._root = config.store_path_root_dir
        self._side = side

    # Files of the log

    def shape_log_files(self) -> None:
        """Give every log file its size and fill gaps between files. Raises OSError, ValueError."""
        directory, size = self._config.commit_log_dir, self._config.mapped_file_size_commit_log
        starts = sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal())
        if any(start % size for start in starts):
            raise ValueError(f"names in {directory} are no multiples of {size}: set mappedFileSizeCommitLog")
        missing = [start for start in range(starts[0], starts[-1], size) if start not in starts]
        if len(missing) > MISSING_FILES_MAX:
            raise ValueError(f"{len(missing)} files are missing in {directory}: set mappedFileSizeCommitLog")
        for start in starts:
            path = directory / file_name(start)
            present = path.stat().st_size
            if present > size:
                self._keep(path, size, present)
            if present != size and (present or start != starts[-1]):
                os.truncate(path, size)
        for start in missing:
            mapped_file = MappedFile(directory / file_name(start), size, start)
            fill(mapped_file, Hole(start, start + size, "the file is missing"), 0)
        fsync_directory(directory)

    def fill_holes(self, files: MappedFileQueue, survey: Survey) -> None:
        """Keep the bytes of holes, write filler records over them. Raises OSError."""
        for hole in survey.holes:
            mapped_file = files.find(hole.start)
            assert mapped_file is not None
            base = mapped_file.start_offset
            self._keep(mapped_file.path, hole.start - base, hole.end - base)
            fill(mapped_file, hole, survey.last_store_timestamp_ms)

    def keep_tail(self, files: MappedFileQueue, log_end: int) -> None:
        """Keep what the next start cuts off after the log's end. Raises OSError."""
        for mapped_file in files.files:
            position = max(log_end - mapped_file.start_offset, 0)
            extents = data_extents(mapped_file, position) if position < mapped_file.size_bytes else []
            if any(any(mapped_file.view[start:end].tobytes()) for start, end in extents):
                self._keep(mapped_file.path, position, extents[-1][1])

    def _keep(self, path: Path, start: int, end: int) -> None:
        """Copy bytes of a log file aside; the name holds where they were."""
        folder = self._side / "commitlog"
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as source, (folder / f"{path.name}.{start}").open("wb") as copy:
            source.seek(start)
            remaining = end - start
            while remaining > 0 and (chunk := source.read(min(remaining, 1 << 20))):
                copy.write(chunk)
                remaining -= len(chunk)
            copy.flush()
            os.fsync(copy.fileno())

    # What is built from it

    def move_aside(self, survey: Survey) -> None:
        """Move wrong queues, and an index that is wrong or was not compared, away. Raises OSError."""
        for topic, queue_id in survey.bad_queues:
            self._move(self._config.consume_queue_dir / topic / str(queue_id))
        if not survey.keeps_index:
            self._move(self._config.index_dir)
        if any(fault.path == DELETED_TOPICS_NAME for fault in survey.faults):
            self._move(self._root / DELETED_TOPICS_NAME)

    def _move(self, path: Path) -> None:
        if path.exists():
            target = self._side / path.relative_to(self._root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, target)

    def leave_as_crashed(self, survey: Survey, checkpoint: StoreCheckpoint, table: ConsumeQueueTable) -> None:
        """Note the log's end, and let the next start build queues (and index) from the whole log. Raises OSError."""
        lengths = {(topic, queue_id): length for topic, queue_id, length in table.read_manifest().lengths}
        for queue in table:
            key = (queue.topic, queue.queue_id)
            if survey.holes or survey.is_short:
                lengths[key] = max(lengths.get(key, 0), queue.max_offset)
        rows = [(topic, queue_id, length) for (topic, queue_id), length in lengths.items()]
        self._copy_small("consumequeue.json")
        self._copy_small("checkpoint")
        table.write_manifest(Manifest(survey.log_end, survey.log_end, rows))
        point = checkpoint.point
        index = (point.index_file, point.index_count) if point is not None and survey.keeps_index else (0, 0)
        checkpoint.point = DurablePoint(survey.log_end, 0, *index)
        checkpoint.physic_msg_timestamp_ms = survey.last_store_timestamp_ms
        checkpoint.flush()
        checkpoint.close()
        abort = AbortFile(self._root)
        if not abort.exists:
            abort.create()

    def _copy_small(self, name: str) -> None:
        if (self._root / name).exists():
            self._side.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._root / name, self._side / name)


def fill(mapped_file: MappedFile, hole: Hole, store_timestamp_ms: int) -> None:
    """Overwrite a hole with records that brokers skip, or close the file when it reaches its end. Raises OSError."""
    base, position = mapped_file.start_offset, hole.start - mapped_file.start_offset
    end = hole.end - base
    if end == mapped_file.size_bytes:
        mapped_file.clear_from(position)
        mapped_file.map[position : position + BLANK_BYTES] = BLANK.pack(end - position, BLANK_MAGIC)
        mapped_file.flush()
        return
    while position < end:
        remaining = end - position
        body = min(remaining - HOLE_BYTES_MIN, FILLER_BODY_MAX)
        if 0 < remaining - HOLE_BYTES_MIN - body < HOLE_BYTES_MIN:
            body -= HOLE_BYTES_MIN  # room for the last one
        record = encode_record(
            FILLER_TOPIC, 0, 0, base + position, bytes(body), b"", 0, TRANSACTION_ROLLBACK,
            store_timestamp_ms, NO_HOST, store_timestamp_ms, NO_HOST, 0, 0,
        )  # fmt: skip
        mapped_file.map[position : position + len(record)] = record
        position += len(record)
    mapped_file.flush()
