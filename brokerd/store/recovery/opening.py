"""Opening a store's files: look at everything, refuse or decide, and only then change something.

Source: `CommitLog.recoverNormally/recoverAbnormally`, reference store-format §15. `inspect` reads and raises for a
damaged store, which is then exactly as it was; `apply` cuts the log's torn tail, makes what was accepted durable and
brings queues and index in line with it.

* After a clean stop the checkpoint holds where the log ends: no record is walked.
* After a crash the walk starts with the file that holds the oldest of: end of the flushed log, records whose units
  or index entries may not be on the disk. A queue keeps its units of records before that point and gets the others
  anew from the log, whatever its files hold: units there may be lost, torn or garbage.
* A queue that is shorter than in the manifest of the last thorough flush, or whose durable units are not there, is
  rebuilt from the whole log, which is walked (and judged) before anything is changed.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from brokerd.remoting.message.java_hash import tags_code
from brokerd.remoting.message.names import LIGHT_QUEUE_ID, is_light
from brokerd.store.derived_flush import DerivedFlush
from brokerd.store.dispatcher import Dispatcher, dispatch_tags_code, gets_unit
from brokerd.store.errors import CorruptRecord, MessageIllegal, TornRecord
from brokerd.store.files.checkpoint import DurablePoint, StoreCheckpoint
from brokerd.store.files.deleted_topics import DeletedTopics
from brokerd.store.files.mapped_file import MappedFile
from brokerd.store.index.key_index import KeyIndex
from brokerd.store.log.commit_log import CommitLog
from brokerd.store.log.record import BLANK_BYTES, TAGS, find_property, read_record
from brokerd.store.queue.consume_queue import BLANK_SIZE, UNIT_BYTES, ConsumeQueue
from brokerd.store.queue.consume_queue_table import ConsumeQueueTable
from brokerd.store.queue.light_queues import GAP_MAX, goes_behind, is_record_of, light_units
from brokerd.store.recovery.log_inspection import LogInspection, LogState, QueueKey
from brokerd.store.recovery.record_walk import walk_file
from brokerd.store.results import RecoveryReport
from brokerd.store.store_config import MessageStoreConfig

logger = logging.getLogger(__name__)

NO_LOG = LogState(0, 0, 0, 0, {})


class Target(NamedTuple):
    """The queue of a record. Records from `live_from` on count, those from `units_from` on get their units anew."""

    queue: ConsumeQueue
    live_from: int
    units_from: int


@dataclass(slots=True)
class OpeningPlan:
    """What `inspect` decided."""

    clean_shutdown: bool
    log: LogState
    is_end_known: bool  # nothing follows the log's end
    derived_from: int  # records from here on get their units anew
    index_from: int  # and their index entries
    queue_ends: dict[QueueKey, int] = field(default_factory=dict)  # units a queue keeps
    rebuilds: dict[QueueKey, int] = field(default_factory=dict)  # queues built anew → their length at least


class Recovery:
    """One opening of a store. Caller: MessageStore.open, once; the check command calls `inspect` only."""

    def __init__(
        self,
        config: MessageStoreConfig,
        log: CommitLog,
        table: ConsumeQueueTable,
        key_index: KeyIndex,
        dispatcher: Dispatcher,
        checkpoint: StoreCheckpoint,
        deleted: DeletedTopics,
    ) -> None:
        self._config = config
        self._log = log
        self._table = table
        self._key_index = key_index
        self._dispatcher = dispatcher
        self._checkpoint = checkpoint
        self._deleted = deleted
        self._delay_levels_ms = config.delay_levels_ms
        self._inspection = LogInspection(
            log.files, checkpoint, deleted, check_crc=config.check_crc_on_recover
        )
        self._dispatched = 0
        self._light_from = sys.maxsize  # records from here on get their units in light queues

    # Deciding. Nothing is changed here.

    def inspect(self, *, clean_shutdown: bool) -> OpeningPlan:
        """Read what is there and decide. Raises StoreFilesInvalid, CorruptRecord."""
        log, checkpoint = self._log, self._checkpoint
        log.files.load()
        self._table.load()
        self._inspection.has_light = self._config.has_light_queues or any(
            is_light(queue.topic) for queue in self._table
        )
        self._deleted.load()
        if not log.files.files:
            return self._without_log(clean_shutdown)
        # Without a checkpoint at all the missing abort file proves nothing.
        clean_shutdown = clean_shutdown and checkpoint.is_present
        index_from = self._load_index(clean_shutdown)
        plan = None
        if clean_shutdown:
            plan = (
                self._clean_end(index_from) if checkpoint.point else self._after_clean_java_stop(index_from)
            )
        plan = plan or self._after_crash(index_from)
        self._refuse_damage(plan.log)
        plan.derived_from = min(plan.derived_from, plan.log.end_offset)
        self._decide_queues(plan)
        derive_from = self._derive_from(plan)
        if derive_from < plan.log.walked_from:
            self._refuse_damage(self._inspection.walk(derive_from, sys.maxsize))
        return plan

    def _derive_from(self, plan: OpeningPlan) -> int:
        return self._log.min_offset if plan.rebuilds else min(plan.derived_from, plan.index_from)

    def _load_index(self, clean_shutdown: bool) -> int:
        checkpoint, is_enabled = self._checkpoint, self._config.message_index_enable
        index_from = self._key_index.load(
            checkpoint.point if is_enabled else None,
            clean_shutdown=clean_shutdown or not is_enabled,
            safe_timestamp_ms=checkpoint.index_msg_timestamp_ms,
        )
        return max(index_from, self._log.min_offset) if is_enabled else sys.maxsize

    def _without_log(self, clean_shutdown: bool) -> OpeningPlan:
        point = self._checkpoint.point
        flushed = point.log_offset > 0 if point else self._checkpoint.physic_msg_timestamp_ms > 0
        if flushed:
            damage = (
                f"{self._config.commit_log_dir} holds no file, but the checkpoint records flushed messages"
            )
            self._refuse_damage(LogState(0, 0, 0, 0, {}, damage=damage))
        self._key_index.load(None, clean_shutdown=True, safe_timestamp_ms=0)
        return OpeningPlan(clean_shutdown, NO_LOG, True, 0, 0)

    def _refuse_damage(self, log: LogState) -> None:
        if not log.damage:
            return
        raise CorruptRecord(
            log.end_offset,
            f"{log.damage}. Nothing was changed. Restore the files from a backup, or look at"
            f" `python -m brokerd check --store {self._config.store_path_root_dir}` and then repair",
        )

    def _clean_end(self, index_from: int) -> OpeningPlan | None:
        """Return the end that the checkpoint names. None when something follows it: then it was no clean stop."""
        point = self._checkpoint.point
        assert point is not None
        files, end = self._log.files, point.log_offset
        if point.derived_offset != end:
            return None
        if not files.min_offset <= end <= files.end_offset or any(files.bytes_at(end, BLANK_BYTES)):
            return None
        self._check_newest_record(end)
        physic_ms = self._checkpoint.physic_msg_timestamp_ms
        return OpeningPlan(True, LogState(end, end, 0, physic_ms, {}), True, end, index_from)

    def _check_newest_record(self, end: int) -> None:
        """A log that was restored from an older copy, or lost its last pages, shows at its last record."""
        newest = self._newest_unit(end)
        mapped_file = self._log.files.find(newest) if newest >= 0 else None
        if mapped_file is None:
            return
        try:
            read_record(mapped_file.view, newest - mapped_file.start_offset, newest)
        except TornRecord as error:
            what = (
                f"{error.reason}; but the log was flushed up to offset {end} and closed: messages are missing"
            )
            self._refuse_damage(LogState(newest, newest, 0, 0, {}, damage=what))

    def _newest_unit(self, end: int) -> int:
        """Return the offset of the newest record with a unit before `end`, -1 without one."""
        queues = (queue for queue in self._table if queue.max_physic_offset <= end)
        newest = max(queues, key=attrgetter("max_physic_offset"), default=None)
        return -1 if newest is None else newest.last_commit_log_offset

    def _after_clean_java_stop(self, index_from: int) -> OpeningPlan | None:
        """Start the walk at the newest record with a unit. None when that is not whole."""
        newest = self._newest_unit(self._log.files.end_offset)
        mapped_file = self._log.files.find(newest) if newest >= 0 else None
        if mapped_file is None:
            return None
        try:
            record = read_record(mapped_file.view, newest - mapped_file.start_offset, newest)
        except TornRecord:
            return None
        if record is None:
            return None
        derived_from = newest + record.size_bytes
        log = self._inspection.walk(newest, derived_from)
        is_end_known = log.records == 1 and not log.torn_bytes
        index_from = derived_from if self._key_index.files else index_from
        return OpeningPlan(True, log, is_end_known, derived_from, index_from)

    def _after_crash(self, index_from: int) -> OpeningPlan:
        log, point = self._log, self._checkpoint.point
        if point is None:
            derived_from = self._start_by_time()
            start = min(derived_from, index_from)
        else:
            if point.log_offset > log.files.end_offset:
                damage = f"the log was flushed up to offset {point.log_offset}, but its files end here"
                self._refuse_damage(LogState(0, log.files.end_offset, 0, 0, {}, damage=damage))
            derived_from = max(point.derived_offset, log.min_offset)
            start = min(max(point.log_offset, log.min_offset), derived_from, index_from)
        # From a file's start: what was flushed may be damaged all the same, and the newest file suffers most.
        mapped_file = log.files.find(max(start - 1, log.min_offset))
        start = mapped_file.start_offset if mapped_file else start
        return OpeningPlan(False, self._inspection.walk(start, derived_from), False, derived_from, index_from)

    def _start_by_time(self) -> int:
        """Return the newest file whose first record is older than everything that may not be durable (Java's rule)."""
        limit_ms = self._checkpoint.min_timestamp_ms
        for mapped_file in reversed(self._log.files.files):
            try:
                first = read_record(mapped_file.view, 0, mapped_file.start_offset)
            except TornRecord:
                continue
            if first is not None and 0 < first.store_timestamp_ms <= limit_ms:
                return mapped_file.start_offset
        return self._log.min_offset

    def _decide_queues(self, plan: OpeningPlan) -> None:
        """Where the units end that each queue keeps, and which queues are built from the whole log."""
        table, firsts = self._table, plan.log.first_records
        for key, (queue_offset, _) in firsts.items():
            queue = table.queues.get(key)
            if self._ends_well(queue, key, queue_offset, plan.derived_from):
                plan.queue_ends[key] = queue_offset
            elif table.is_possible(*key):
                plan.rebuilds[key] = 0
        for queue in table:
            key = (queue.topic, queue.queue_id)
            if key not in firsts and not plan.is_end_known:
                plan.queue_ends[key] = self._durable_units(queue, plan.derived_from)
        if self._checkpoint.point is None:
            return  # another broker's store: the manifest may be older than its deletions
        manifest = table.read_manifest()
        if manifest.log_max_offset > plan.log.end_offset:
            return  # some of these units belong to messages that a crash cut off
        for topic, queue_id, length in manifest.lengths:
            key = (topic, queue_id)
            known = table.queues.get(key)
            present = plan.queue_ends.get(key, known.max_offset if known else 0)
            if present < length and self._deleted.end_of(topic) < manifest.dispatched_offset:
                logger.warning("consume queue damaged, rebuilding topic=%s queue_id=%d", topic, queue_id)
                plan.rebuilds[key] = length

    def _ends_well(self, queue: ConsumeQueue | None, key: QueueKey, queue_offset: int, limit: int) -> bool:
        """Return whether the queue holds the unit before `queue_offset`, so that the next goes behind it."""
        if queue is None or not queue.files.files:
            return queue_offset == 0
        files = queue.files
        if not files.min_offset <= queue_offset * UNIT_BYTES <= files.end_offset:
            return False
        if queue_offset * UNIT_BYTES == files.min_offset:
            return True
        return self._is_unit_of(queue, queue_offset - 1, limit)

    def _durable_units(self, queue: ConsumeQueue, limit: int) -> int:
        """Return the end of the units of records before `limit`, which are durable; behind them anything may lie.

        Halving supposes that units ascend. Garbage may lead it too far, never too short, so its result is compared
        with the log, backwards until a unit fits the log.
        """
        first = queue.files.min_offset // UNIT_BYTES
        end = number = queue.units_before(limit)
        while number > first:
            number -= 1
            if queue.peek(number)[1] == BLANK_SIZE:
                continue
            if self._is_unit_of(queue, number, limit):
                return end
            end = number
        return end

    def _is_unit_of(self, queue: ConsumeQueue, number: int, limit: int) -> bool:
        """Is this the unit of a record before `limit`? One of an expired record cannot be compared and counts."""
        offset, size_bytes, _ = queue.peek(number)
        if size_bytes == BLANK_SIZE:
            return True
        if size_bytes <= 0 or not 0 <= offset < limit:
            return False
        mapped_file = self._log.files.find(offset)
        if mapped_file is None:
            return True
        try:
            record = read_record(mapped_file.view, offset - mapped_file.start_offset, offset, check_crc=False)
        except TornRecord:
            return False
        return record is not None and record.size_bytes == size_bytes and is_record_of(queue, number, record)

    # Changing

    def apply(self, plan: OpeningPlan) -> RecoveryReport:
        """Cut, make durable, derive. Killed at any point, the next opening decides the same. Raises OSError."""
        log, state = self._log, plan.log
        end = state.end_offset
        if state.torn_bytes:
            logger.warning(
                "commit log cut at offset=%d bytes=%d reason=%s whole records behind it from=%s",
                end, state.torn_bytes, state.reason,
                state.following.commit_log_offset if state.following else "none",
            )  # fmt: skip
        self._accept_log(plan)
        self._deleted.fit(log.min_offset, end)
        self._table.remove_dropped()
        if log.files.files:
            self._fit_queues(plan)
            self._key_index.fit(end, clean_shutdown=plan.clean_shutdown)
            self._derive(plan)
        else:
            self._table.delete_all()
            self._key_index.fit(0, clean_shutdown=True)
        self._finish(plan)
        report = RecoveryReport(
            plan.clean_shutdown,
            log.min_offset,
            end,
            state.walked_from,
            state.records,
            self._dispatched,
            state.torn_bytes,
            state.reason,
        )
        logger.info("store recovered %s", report)
        return report

    def _accept_log(self, plan: OpeningPlan) -> None:
        """Cut the log at its end; what is kept counts as flushed from here on, so it is flushed before."""
        log, checkpoint, end = self._log, self._checkpoint, plan.log.end_offset
        files = log.files
        files.truncate(end, clear=not plan.is_end_known)
        if not plan.is_end_known:
            for mapped_file in files.files:
                if mapped_file.end_offset > plan.log.walked_from:
                    mapped_file.flush()
        log.start_at(end)
        log.last_store_timestamp_ms = plan.log.last_store_timestamp_ms or checkpoint.physic_msg_timestamp_ms
        if plan.is_end_known and checkpoint.point is not None:
            return
        if checkpoint.point is None:
            checkpoint.point = DurablePoint()
        checkpoint.log_flushed(end, log.last_store_timestamp_ms)

    def _fit_queues(self, plan: OpeningPlan) -> None:
        table, end = self._table, plan.log.end_offset
        for queue in table:
            # A crash may have come before all files of a deleted topic were gone.
            dead_end = self._deleted.end_of(queue.topic)
            is_dead = dead_end and queue.max_physic_offset <= dead_end
            if is_dead and (queue.topic, queue.queue_id) not in plan.log.first_records:
                table.delete_queue(queue.topic, queue.queue_id)
        for key, units in plan.queue_ends.items():
            kept = table.queues.get(key)
            if kept is not None and kept.files.files and key not in plan.rebuilds:
                kept.go_on_at(units)
        for topic, queue_id in plan.rebuilds:
            table.reset_queue(topic, queue_id)
        for queue in table:
            if queue.max_physic_offset > end:
                queue.go_on_at(self._durable_units(queue, end))

    def _derive(self, plan: OpeningPlan) -> None:
        """Give every record that needs it its unit and its index entries."""
        log, end = self._log, plan.log.end_offset
        start = self._derive_from(plan)
        if self._inspection.has_light:
            self._light_from = 0 if any(is_light(topic) for topic, _ in plan.rebuilds) else plan.derived_from
        while start < end:
            mapped_file = log.files.find(start)
            assert mapped_file is not None
            self._derive_file(plan, mapped_file, start, end)
            start = mapped_file.end_offset
        for key, length in plan.rebuilds.items():
            self._table.find_or_create(*key).fill_to(length, end)

    def _derive_file(self, plan: OpeningPlan, mapped_file: MappedFile, start: int, end: int) -> None:
        """Hot path of recovery: a record costs 5 µs, most of them its hashes."""
        base, mapped, offset = mapped_file.start_offset, mapped_file.map, start
        index_from, index = plan.index_from, self._dispatcher.index_recovered
        targets: dict[tuple[bytes, int], Target] = {}
        for walked in walk_file(mapped_file, start, end, check_crc=False, durable_offset=end):
            record_end, topic, queue_id, queue_offset, sys_flag, timestamp_ms, properties_start = walked
            target = targets.get((topic, queue_id))
            if target is None:
                target = targets[topic, queue_id] = self._target(plan, topic.decode(), queue_id, offset)
            if offset >= target.live_from and (offset >= target.units_from or offset >= index_from):
                properties = mapped[properties_start:record_end]
                queue = target.queue
                if offset >= target.units_from and gets_unit(sys_flag):
                    if queue_offset == 0 and queue.max_offset > 0:
                        # Its topic was deleted and created again, and that is not remembered: the newer one counts.
                        queue.go_on_at(0)
                    code = dispatch_tags_code(queue.topic, properties, timestamp_ms, self._delay_levels_ms)
                    size_bytes = base + record_end - offset
                    self._dispatched += queue.append(queue_offset, offset, size_bytes, code)
                    self._table.queues[queue.topic, queue_id] = queue
                if offset >= index_from:
                    index(queue, offset, timestamp_ms, sys_flag, properties)
            if offset >= self._light_from and gets_unit(sys_flag):
                unit = (offset, base + record_end - offset)
                self._derive_light(plan, topic.decode(), mapped[properties_start:record_end], *unit)
            offset = base + record_end

    def _derive_light(
        self, plan: OpeningPlan, topic: str, properties: bytes, offset: int, size_bytes: int
    ) -> None:
        """Give a record its units in light queues. Raises OSError."""
        for name, number in light_units(properties):
            target = self._target(plan, name, LIGHT_QUEUE_ID, offset)
            queue = target.queue
            if offset < max(target.live_from, target.units_from):
                continue
            if not goes_behind(queue.max_offset, topic, number):
                continue
            if queue.max_offset and number > queue.max_offset + GAP_MAX:
                logger.warning("record at %d is not in %s: message %d is far ahead", offset, name, number)
                continue
            code = tags_code(find_property(properties, TAGS))
            self._dispatched += queue.append(number, offset, size_bytes, code)
            self._table.queues[name, LIGHT_QUEUE_ID] = queue

    def _target(self, plan: OpeningPlan, topic: str, queue_id: int, offset: int) -> Target:
        key = (topic, queue_id)
        units_from = 0 if key in plan.rebuilds else plan.derived_from
        try:
            # Not in the table yet: a queue that only has entries in the index shall not show up.
            queue = self._table.queues.get(key) or self._table.make(topic, queue_id)
        except MessageIllegal as error:
            logger.warning("record at %d is not dispatched: %s", offset, error)
            queue, units_from = (
                ConsumeQueue("", 0, self._table.directory, self._table.file_size_bytes),
                sys.maxsize,
            )
        return Target(queue, self._deleted.end_of(topic), units_from)

    def _finish(self, plan: OpeningPlan) -> None:
        end = self._log.max_offset
        self._dispatcher.finish_recovery(end, self._log.last_store_timestamp_ms)
        for queue in self._table:
            queue.correct_min_offset(self._log.min_offset)
            queue.files.read_around(is_wanted=True)
        point = self._checkpoint.point
        if point is None or point.derived_offset < end or plan.rebuilds or plan.index_from < end:
            derived = DerivedFlush(self._log, self._table, self._key_index, self._dispatcher)
            note = derived.take_note()
            derived.sync()
            derived.save(note, self._checkpoint)
