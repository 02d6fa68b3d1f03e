"""Looking at every file of a stopped store: what `python -m brokerd check` reports and `repair` acts on.

Nothing is changed. The whole log is read, and every record is compared with its queue's unit and its index entries.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from brokerd.remoting.message.names import LIGHT_QUEUE_ID, SCHEDULE_TOPIC, is_light
from brokerd.store.dispatcher import dispatch_tags_code, gets_unit
from brokerd.store.errors import StoreFilesInvalid, TornRecord
from brokerd.store.files.checkpoint import StoreCheckpoint
from brokerd.store.files.deleted_topics import FILE_NAME as DELETED_TOPICS_NAME
from brokerd.store.files.deleted_topics import DeletedTopics
from brokerd.store.files.mapped_file_queue import MappedFileQueue
from brokerd.store.index.index_file import IndexEntry, IndexFile, index_file_bytes
from brokerd.store.index.key_index import key_hashes
from brokerd.store.queue.consume_queue import BLANK_SIZE, ConsumeQueue
from brokerd.store.queue.consume_queue_table import ConsumeQueueTable
from brokerd.store.queue.light_queues import has_units, light_units
from brokerd.store.recovery.log_inspection import LogInspection, QueueKey, checked_topic
from brokerd.store.recovery.record_walk import walk_file
from brokerd.store.store_config import MessageStoreConfig

BATCH_QUEUES = "batchconsumequeue/*"  # Apache's queues of topics that are not served here
HOLE_BYTES_MIN = 92  # the smallest record: 91 and a topic of one letter


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes of the log that are no whole record, with whole records or the next file behind them."""

    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: where, what, and what repair would do."""

    path: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}. Repair: {self.remedy}"


@dataclass(slots=True)
class Survey:
    """What was found. `notes` are states that are no fault."""

    notes: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    files_misshapen: bool = False  # sizes or names of log files: nothing else was looked at
    log_end: int = 0
    end_reason: str = ""  # why the log ends there
    last_store_timestamp_ms: int = 0
    holes: list[Hole] = field(default_factory=list)
    bad_queues: set[QueueKey] = field(default_factory=set)
    is_index_compared: bool = False
    is_index_bad: bool = False
    is_short: bool = False  # the log ends before what was flushed

    @property
    def keeps_index(self) -> bool:
        """Whether the index is known to fit the log that a repair leaves."""
        return self.is_index_compared and not self.is_index_bad and not self.is_short


class Surveyor:
    """Looks once. Caller: the commands, with the store locked."""

    def __init__(self, config: MessageStoreConfig) -> None:
        root = config.store_path_root_dir
        self._config = config
        self._root = root
        self.checkpoint = StoreCheckpoint(root / "checkpoint")
        self.files = MappedFileQueue(config.commit_log_dir, config.mapped_file_size_commit_log)
        self.table = ConsumeQueueTable(config.consume_queue_dir, config.mapped_file_size_consume_queue)
        self._deleted = DeletedTopics(root / DELETED_TOPICS_NAME)
        self._inspection = LogInspection(self.files, self.checkpoint, self._deleted, check_crc=True)
        self._survey = Survey()
        self._is_clean = not (root / "abort").exists()
        self._ends: dict[QueueKey, int] = {}  # after the last queue offset of the log's records
        self._wrong_units: dict[QueueKey, str] = {}  # of each queue the first

    def look(self) -> Survey:
        survey = self._survey
        self._look_at_small_files()
        try:
            self.files.load()
        except StoreFilesInvalid as error:
            survey.files_misshapen = True
            survey.faults.append(
                Fault("commitlog", str(error), "give every file its size, fill gaps, check again")
            )
            return survey
        self._load_queues()
        derived_from = self._derived_from()
        entries = self._index_entries()
        self._walk(derived_from, entries)
        self._judge_end()
        self._judge_queues(derived_from)
        return survey

    def _look_at_small_files(self) -> None:
        survey, point = self._survey, self.checkpoint.point
        survey.notes.append(
            "last stop: clean" if self._is_clean else "last stop: not clean (abort is present)"
        )
        if point is not None:
            survey.notes.append(
                f"checkpoint: log flushed to {point.log_offset}, queues and index to {point.derived_offset}"
            )
        elif self.checkpoint.is_present:
            survey.notes.append("checkpoint: times only (another broker wrote it last)")
        else:
            survey.notes.append("checkpoint: missing; everything is built from the log at the next start")
        self._deleted.load()
        if not self._deleted.is_readable:
            what = "it cannot be read, deleted topics may come back"
            survey.faults.append(Fault(DELETED_TOPICS_NAME, what, "move it aside"))

    def _load_queues(self) -> None:
        for key in self.table.folders():
            self._load_queue(key)

    def _load_queue(self, key: QueueKey) -> None:
        topic, queue_id = key
        folder = self.table.directory / topic / str(queue_id)
        queue = ConsumeQueue(topic, queue_id, folder, self.table.file_size_bytes)
        try:
            queue.load()
            self.table.queues[key] = queue
        except StoreFilesInvalid as error:
            self.table.queues.pop(key, None)
            self._bad_queue(key, str(error))

    def _derived_from(self) -> int:
        """Records from here on get their units and entries anew at the next start: no fault when they lack them."""
        point = self.checkpoint.point
        if point is not None:
            return sys.maxsize if self._is_clean else point.derived_offset
        if not self._is_clean:
            return 0
        return max((queue.max_physic_offset for queue in self.table), default=0)

    # The log

    def _walk(self, derived_from: int, entries: Iterator[IndexEntry] | None) -> None:
        files, offset = self.files, self.files.min_offset
        checker = EntryChecker(entries) if entries is not None else None
        self._survey.is_index_compared = checker is not None
        has_light = any(is_light(queue.topic) for queue in self.table)
        in_batches = {path.name for path in self._root.glob(BATCH_QUEUES)}
        while (mapped_file := files.find(offset)) is not None:
            base, mapped, cut_record = mapped_file.start_offset, mapped_file.map, -1
            try:
                for walked in walk_file(
                    mapped_file, offset, mapped_file.end_offset, check_crc=True, durable_offset=sys.maxsize
                ):
                    end, topic, queue_id, queue_offset, sys_flag, timestamp_ms, properties_start = walked
                    name = checked_topic(topic, offset).decode()
                    self._survey.last_store_timestamp_ms = timestamp_ms
                    if offset >= self._deleted.end_of(name) and offset < derived_from:
                        properties = mapped[properties_start:end]
                        if gets_unit(sys_flag) and name not in in_batches:
                            unit = (offset, base + end - offset)
                            code = dispatch_tags_code(
                                name, properties, timestamp_ms, self._config.delay_levels_ms
                            )
                            self._compare_unit((name, queue_id), queue_offset, (*unit, code))
                            if has_light and has_units(name):
                                self._compare_light(properties, (*unit, code))
                        if checker is not None:
                            checker.expect(offset, key_hashes(name, sys_flag, properties))
                    is_cut = properties_start < end and not any(mapped[end - 1 : end + 1])
                    cut_record, offset = offset if is_cut else -1, base + end
                offset = mapped_file.end_offset
            except TornRecord as error:
                following = self._inspection.following_record(error.offset)
                if following is None:
                    offset, self._survey.end_reason = error.offset, error.reason
                    break
                # Properties have no CRC: zeros at their end and behind them are one loss.
                start = cut_record if cut_record >= 0 and offset == error.offset else error.offset
                hole_end = min(following.commit_log_offset, mapped_file.end_offset)
                if hole_end - start < HOLE_BYTES_MIN and hole_end < mapped_file.end_offset:
                    hole_end += following.size_bytes
                self._survey.holes.append(Hole(start, hole_end, error.reason))
                offset = hole_end
        self._survey.log_end = offset
        if checker is not None and checker.missing:
            self._bad_index(
                f"{checker.missing} keys have no entry, the first of the record at {checker.first}"
            )

    def _compare_unit(self, key: QueueKey, queue_offset: int, unit: tuple[int, int, int]) -> None:
        if queue_offset == 0:
            self._wrong_units.pop(key, None)  # of a topic that was deleted: this one was created anew
        self._ends[key] = queue_offset + 1
        if key in self._wrong_units:
            return
        queue = self.table.queues.get(key)
        try:
            present = queue.peek(queue_offset) if queue is not None else None
        except IndexError:
            present = None
        topic, _ = key
        if topic == SCHEDULE_TOPIC and present is not None:
            # The unit holds a delivery time, which does not follow from the store time when the clock was set back.
            offset, size_bytes, _ = present
            *_, tags_code = unit
            present = (offset, size_bytes, tags_code)
        if present != unit:
            self._wrong_units[key] = f"unit {queue_offset} is {present}, in the log {unit}"

    def _compare_light(self, properties: bytes, unit: tuple[int, int, int]) -> None:
        """Lower numbers than before are of messages that were sent again: they are there already."""
        offset, _, _ = unit
        for name, number in light_units(properties):
            key = (name, LIGHT_QUEUE_ID)
            if offset >= self._deleted.end_of(name) and number >= self._ends.get(key, 0):
                self._compare_unit(key, number, unit)

    def _bad_queue(self, key: QueueKey, what: str) -> None:
        self._survey.bad_queues.add(key)
        topic, queue_id = key
        path = f"consumequeue/{topic}/{queue_id}"
        self._survey.faults.append(
            Fault(path, what, "move the queue aside; the next start builds it from the log")
        )

    def _judge_end(self) -> None:
        """Holes after the durable point, and the end itself."""
        survey, point = self._survey, self.checkpoint.point
        flushed = point.log_offset if point else 0
        for hole in survey.holes:
            mapped_file = self.files.find(hole.start)
            assert mapped_file is not None
            path = f"commitlog/{mapped_file.path.name}"
            where = f"bytes {hole.start} to {hole.end} of the log are no whole record ({hole.reason})"
            remedy = f"copy {hole.end - hole.start} bytes aside, fill them with a record that no queue shows"
            survey.faults.append(Fault(path, where, remedy))
        if survey.log_end < flushed:
            survey.is_short = True
            why = survey.end_reason or "its files end"
            what = f"the log ends at {survey.log_end} ({why}), but was flushed to {flushed}: messages are missing"
            remedy = f"copy what lies behind {survey.log_end} aside, accept it as the end; queue offsets stay"
            survey.faults.append(Fault("commitlog", what, remedy))
        elif point is None and not survey.holes:
            self._judge_end_by_time()
        survey.notes.append(f"commit log: {self.files.min_offset} to {survey.log_end}")

    def _judge_end_by_time(self) -> None:
        survey = self._survey
        physic_ms = self.checkpoint.physic_msg_timestamp_ms
        if survey.last_store_timestamp_ms < physic_ms:
            survey.is_short = True
            what = f"the last message is of {survey.last_store_timestamp_ms} ms, but flushed were those of {physic_ms}"
            remedy = f"copy what lies behind {survey.log_end} aside, accept it as the end"
            survey.faults.append(Fault("commitlog", what, remedy))

    def _judge_queues(self, derived_from: int) -> None:
        """Wrong units, queues longer or shorter than they should be, units of records that are not there."""
        for key, what in self._wrong_units.items():
            if key not in self._survey.bad_queues:
                self._bad_queue(key, what)
        if derived_from < self._survey.log_end:
            return  # units after the durable point may be anything
        for queue in self.table:
            key = (queue.topic, queue.queue_id)
            expected = self._ends.get(key, 0)
            if key in self._survey.bad_queues or queue.max_offset <= expected:
                continue
            offset, size_bytes, _ = queue.unit(queue.max_offset - 1)
            if size_bytes != BLANK_SIZE and offset >= self.files.min_offset:
                what = f"unit {queue.max_offset - 1} names a record at {offset}, where none of the queue is"
                self._bad_queue(key, what)
        for topic, queue_id, length in self.table.read_manifest().lengths:
            key = (topic, queue_id)
            present = self.table.queues.get(key)
            units = present.max_offset if present else 0
            if units < length and key not in self._survey.bad_queues and not self._deleted.end_of(topic):
                self._bad_queue(key, f"{units} units where {length} were flushed")

    # The key index

    def _index_entries(self) -> Iterator[IndexEntry] | None:
        """Yield every entry in order; None when the index is off or broken."""
        config, point = self._config, self.checkpoint.point
        if not config.message_index_enable or not config.index_dir.is_dir():
            return None
        if not self._is_clean or point is None:
            self._survey.notes.append("index: not compared; what may be torn is built anew at the next start")
            return None
        expected_bytes = index_file_bytes(config.max_hash_slot_num, config.max_index_num)
        index_files = []
        for path in sorted(config.index_dir.iterdir()):
            if not path.name.isdecimal() or path.stat().st_size != expected_bytes:
                self._survey.notes.append(f"index/{path.name}: has not the size of the settings, unused")
                continue
            index_files.append(IndexFile(path, config.max_hash_slot_num, config.max_index_num))
        newest = index_files[-1] if index_files else None
        if point.index_file and (newest is None or newest.number != point.index_file):
            self._bad_index(f"the newest file, {point.index_file}, is missing")
            return None
        for index_file in index_files:
            what = index_file.fault()
            if what:
                self._bad_index(f"{index_file.mapped_file.path.name}: {what}")
                return None
        return (entry for index_file in index_files for entry in index_file.entries())

    def _bad_index(self, what: str) -> None:
        self._survey.is_index_bad = True
        remedy = "move all index files aside; the next start builds them from the log"
        self._survey.faults.append(Fault("index", what, remedy))


class EntryChecker:
    """Compares the index, whose entries are in the order of the log, with the keys of the records."""

    def __init__(self, entries: Iterator[IndexEntry]) -> None:
        self._entries = entries
        self._next = next(entries, None)
        self.missing = 0
        self.first = -1

    def expect(self, offset: int, hashes: list[int]) -> None:
        """The record at `offset` must have an entry for each hash."""
        while self._next is not None and self._next.commit_log_offset < offset:
            self._next = next(self._entries, None)
        found = set()
        while self._next is not None and self._next.commit_log_offset == offset:
            found.add(self._next.key_hash)
            self._next = next(self._entries, None)
        missing = len(set(hashes) - found)
        if missing:
            self.first = offset if self.first < 0 else self.first
            self.missing += missing
