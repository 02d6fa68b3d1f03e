"""POP: checkpoints of what was popped, acknowledgements, and the revival of what was not acknowledged in time.

    pop ──► checkpoint ─────────► every message acknowledged: done
                  └─ invisible time is over ─► messages to the retry topic of group and topic, acknowledgement of them

Source: `PopMessageProcessor.java`, `AckMessageProcessor.java`, `PopReviveService.java`. The table of states is
docs/reference/pop.md. Apache's broker keeps checkpoints in its timer and reads them back when they are due; here they
go to the revive log at once, and what waits is a table in memory, made anew from the log at the start.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from brokerd.clients.pull_request_hold import PullRequestHoldService
from brokerd.config import LiveConfig
from brokerd.pop import order_info
from brokerd.pop.checkpoint import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_TAG,
    Ack,
    Checkpoint,
    GroupQueue,
    parse_ack,
    parse_checkpoint,
)
from brokerd.pop.order_info import OrderInfoTable
from brokerd.pop.polling import PopPolling
from brokerd.pop.progress import PopProgress
from brokerd.pop.retry_message import RetryMessages
from brokerd.pop.revive_log import ReviveLog
from brokerd.pop.revive_state import ORPHAN_MS, ReviveState
from brokerd.remoting.message.names import REVIVE_GROUP, REVIVE_QUEUES
from brokerd.remoting.message.record import MessageRecord
from brokerd.store.cold_pages import FileRange
from brokerd.store.errors import FlushFailed, StoreError
from brokerd.store.message_store import MessageStore
from brokerd.store.queue.consume_queue_table import QueueMissing
from brokerd.tables import config_manager
from brokerd.tables.consumer_offset import ConsumerOffsetManager
from brokerd.tables.subscription_group import SubscriptionGroupManager
from brokerd.tables.table_file import TableFile
from brokerd.tables.topic_config import TopicConfigManager

ReadAhead = Callable[[list[FileRange]], Future[None]]
MakeQueue = Callable[[str, int], asyncio.Future[None]]

logger = logging.getLogger(__name__)

REVIVED_A_TICK = 300  # messages; of 100 ms: many due at once must not hold up the event loop
PUT_AGAIN_A_TICK = 100  # checkpoints that move to the end of the log
SAVE_MS = 1_000
SAVE_ORDER_MS = 5_000
RETRY_MS = 5_000  # after a message that could not be put
CHECKPOINTS_MAX = 1_000_000  # 400 bytes each; clients of 32 messages a pop would hold 32,000,000


class Due(NamedTuple):
    """A checkpoint whose messages are visible again."""

    queue_id: int  # of the revive log
    checkpoint: Checkpoint


class PopService:
    """What was popped of this broker. Single-threaded: the broker's event loop."""

    def __init__(
        self,
        config: LiveConfig,
        order_path: Path,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        offsets: ConsumerOffsetManager,
        hold: PullRequestHoldService,
    ) -> None:
        self._config = config
        self._topics, self._groups, self._offsets = topics, groups, offsets
        self.progress = PopProgress(offsets)
        self.polls, self.notifications = PopPolling(hold), PopPolling(hold)
        self.order = OrderInfoTable(config_manager.load_or_empty(order_path, order_info.parse))
        self.order_file = TableFile(order_path, self.order.document_pieces)
        self.in_flight: Counter[GroupQueue] = Counter()
        self._states: list[ReviveState] = []
        self._due: deque[Due] = deque()
        self._next_revive_queue = 0
        self._next_save_ms = self._next_order_ms = self._go_on_ms = 0
        self._preparing: Future[None] | asyncio.Future[None] | None = None

    def start(
        self,
        store: MessageStore,
        store_host: tuple[str, int],
        now_ms: int,
        read_ahead: ReadAhead | None = None,
        make_queue: MakeQueue | None = None,
    ) -> None:
        """Find what waits for acknowledgements: every checkpoint that is not done with."""
        self._store = store
        self._log = ReviveLog(store, self._config.broker.broker_cluster_name, store_host)
        self._retries = RetryMessages(self._config, store, self._topics, self._offsets, store_host)
        self._read_ahead, self._make_queue = read_ahead, make_queue
        for queue_id in range(REVIVE_QUEUES):
            low, high = self._log.offsets(queue_id)
            done = self._offsets.committed(REVIVE_GROUP, self._log.topic, queue_id)
            begin = low if done is None else min(max(done + 1, low), high)
            self._states.append(ReviveState(begin, self.in_flight))
            while self._read(queue_id, now_ms):
                pass
        self._noted = [state.progress for state in self._states]
        if self.waiting_count:
            logger.info("popped messages wait for acknowledgements checkpoints=%d", self.waiting_count)

    @property
    def waiting_count(self) -> int:
        """How many checkpoints wait."""
        return sum(map(len, self._states))

    @property
    def has_room(self) -> bool:
        return self.waiting_count < CHECKPOINTS_MAX

    def in_flight_of(self, queue: GroupQueue) -> int:
        """Return how many messages are popped and not acknowledged; of all queues for the queue id -1."""
        if queue.queue_id >= 0:
            return self.in_flight[queue]
        return sum(
            count
            for each, count in self.in_flight.items()
            if (each.topic, each.group) == (queue.topic, queue.group)
        )

    # Records of the log

    def _read(self, queue_id: int, now_ms: int) -> bool:
        """Apply records of the revive log that others put; False when there are none."""
        state = self._states[queue_id]
        low, high = self._log.offsets(queue_id)
        begin = state.next_offset = max(state.next_offset, low)
        if high <= begin:
            return False
        for record in self._log.read(queue_id, begin):
            self._apply(state, record, now_ms)
        return state.next_offset > begin

    def _apply(self, state: ReviveState, record: MessageRecord | None, now_ms: int) -> None:
        """Pass over what cannot be read, with a log line: the others must not wait for it."""
        broker_name = self._config.broker.broker_name
        try:
            if record is None:
                raise ValueError("it is damaged or has expired")
            if record.tags == CHECKPOINT_TAG:
                state.apply_checkpoint(parse_checkpoint(record.body, broker_name), now_ms)
            elif record.tags in (ACK_TAG, BATCH_ACK_TAG):
                state.apply_ack(parse_ack(record.body, broker_name), now_ms + ORPHAN_MS)
            else:
                state.pass_over()
        except ValueError as error:
            logger.error("revive message passed over offset=%d: %s", state.next_offset, error)  # noqa: TRY400
            state.pass_over()

    # Requests

    def take_revive_queue(self) -> int:
        """Return the queue of the revive log for one pop; a different one each time. Raises QueueMissing."""
        queue_id = self._next_revive_queue
        self._log.need_queue(queue_id)
        self._next_revive_queue = (queue_id + 1) % REVIVE_QUEUES
        return queue_id

    def need_queue(self, queue_id: int) -> None:
        """Raise QueueMissing before anything is changed."""
        self._log.need_queue(queue_id)

    def put_checkpoint(self, queue_id: int, checkpoint: Checkpoint, now_ms: int) -> None:
        """Make what was popped durable. Raises PutRefused."""
        state = self._states[queue_id]
        if self._log.put_checkpoint(queue_id, checkpoint, now_ms) == state.next_offset:
            state.apply_checkpoint(checkpoint)

    def popped(self, queue: GroupQueue, next_offset: int) -> None:
        """Let the next pop of a queue go on there; committed when what was put before it is on the disk."""
        self.progress.popped(queue, next_offset, self._store.commit_log_max_offset)

    def acknowledge(self, queue_id: int, ack: Ack, revive_ms: int, now_ms: int) -> None:
        """Make an acknowledgement durable. Raises PutRefused. One that comes too late has no effect, as in Java."""
        state = self._states[queue_id]
        if self._log.put_ack(queue_id, ack, revive_ms, now_ms) == state.next_offset:
            state.apply_ack(ack, max(revive_ms, now_ms) + ORPHAN_MS)

    # Revival

    def tick(self, now_ms: int, elapsed_ms: int) -> bool:
        """Revive what is due; return whether messages were put. The caller dispatches, and runs woken polls.

        Messages are due by the wall clock (`now_ms`), the rest by the monotonic one (`elapsed_ms`).
        """
        for polling in (self.polls, self.notifications):
            polling.take_due(elapsed_ms)
        if elapsed_ms >= self._next_save_ms:
            self._next_save_ms = elapsed_ms + SAVE_MS
            self._save(now_ms)
        if self.order.is_changed and elapsed_ms >= self._next_order_ms:
            self._next_order_ms = elapsed_ms + SAVE_ORDER_MS
            self.order.drop_old(now_ms)
            self.order_file.changed()
        if elapsed_ms < self._go_on_ms or self._is_preparing():
            return False
        log_end = self._store.commit_log_max_offset
        try:
            self._revive(now_ms)
        except QueueMissing as missing:
            if self._make_queue is not None:
                self._preparing = self._make_queue(missing.topic, missing.queue_id)
        except (StoreError, OSError) as error:
            logger.warning("popped messages not revived: %s; trying again", error)
            self._go_on_ms = elapsed_ms + RETRY_MS
        return self._store.commit_log_max_offset != log_end

    def _revive(self, now_ms: int) -> None:
        """Raises PutRefused, QueueMissing, OSError; what was not put stays due."""
        budget = REVIVED_A_TICK
        for queue_id, state in enumerate(self._states):
            if self._log.offsets(queue_id)[1] > state.next_offset:
                if self._waits_for_disk(self._log.cold_pages(queue_id, state.next_offset)):
                    return
                self._read(queue_id, now_ms)
            for ack, revive_ms in state.owed_acks()[:PUT_AGAIN_A_TICK]:
                self.acknowledge(queue_id, ack, revive_ms, now_ms)
            for checkpoint in state.far_behind()[:PUT_AGAIN_A_TICK]:
                self.put_checkpoint(queue_id, checkpoint, now_ms)
            if len(self._due) < budget:
                self._due.extend(Due(queue_id, each) for each in state.take_due(now_ms, budget))
        while self._due and budget > 0:
            due = self._due[0]
            budget -= 1 + due.checkpoint.unacked_count
            if self._waits_for_disk(self._retries.cold_pages(due.checkpoint)):
                return
            self._revive_one(due, now_ms)
            self._due.popleft()

    def _revive_one(self, due: Due, now_ms: int) -> None:
        """Put the messages again, then note that they are done with: a kill in between delivers them once more."""
        key, state = due.checkpoint.key, self._states[due.queue_id]
        offsets = state.unacked_of(key)
        if not offsets:
            return
        if self._is_wanted(due.checkpoint.queue):
            self._log.need_queue(due.queue_id)
            self._retries.put(due.checkpoint, offsets, now_ms)
            ack = Ack(key, tuple(offsets))
            self.acknowledge(due.queue_id, ack, due.checkpoint.revive_ms, now_ms)
        state.done(key)

    def _is_wanted(self, queue: GroupQueue) -> bool:
        """Whether topic and group exist: what was popped of deleted ones is dropped, as in Java."""
        return self._retries.has_topic(queue) and self._groups.get(queue.group) is not None

    def _is_preparing(self) -> bool:
        """Whether a thread still reads, or makes a queue."""
        if self._preparing is None or not self._preparing.done():
            return self._preparing is not None
        error = self._preparing.exception()
        if error is not None:
            logger.error("popped messages cannot be revived: %s; trying again", error)
        self._preparing = None
        return False

    def _waits_for_disk(self, cold: list[FileRange]) -> bool:
        if self._read_ahead is None or not cold:
            return False
        self._preparing = self._read_ahead(cold)
        return True

    # Progress

    def _save(self, now_ms: int) -> None:
        for queue_id, state in enumerate(self._states):
            if state.progress != self._noted[queue_id]:
                self._noted[queue_id] = state.progress
                queue = GroupQueue(self._log.topic, REVIVE_GROUP, queue_id)
                self.progress.revived(queue, state.progress, self._store.commit_log_max_offset)
        # A group that pops little waits for its offset, and so do the lag and who pulls after a change of mode.
        if self.progress.hand_over(self._store.flushed_offset, now_ms):
            self._store.flush_soon()

    def save_last(self, now_ms: int) -> None:
        """At the broker's stop, before the tables are saved: what offsets rely on reaches the disk first."""
        if not self._states:
            return
        try:
            self._store.flush()
        except (StoreError, FlushFailed) as error:
            logger.error("progress of pops not saved: %s", error)  # noqa: TRY400
        else:
            self._save(now_ms)
        if self.order.is_changed:
            self.order_file.changed()

    # Deletions and resets

    def take_reset(self, queue: GroupQueue, now_ms: int) -> int | None:
        """Follow the reset that waits for a queue; returns its offset, None without one."""
        target = self._offsets.take_reset(queue.group, queue.topic, queue.queue_id)
        if target is not None:
            self.order.clear(queue)
            self.progress.move_to(queue, target, now_ms)
        return target

    def drop(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Drop what is known of a deleted topic or group."""
        for state in self._states:
            state.drop(topic=topic, group=group)
        self.order.drop(topic=topic, group=group)
        self.progress.drop(topic=topic, group=group)
