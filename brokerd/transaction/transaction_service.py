"""Transactions: half messages wait until their producers commit or roll them back.

Producers of those that stay undecided are asked.

    send ──► half topic ──► END_TRANSACTION commit   ──► real topic, op topic
                 ▲   │      END_TRANSACTION rollback ──► op topic
                 │   └ due ─► a copy with one more check, CHECK_TRANSACTION_STATE to a producer of the group
                 └────────┘   after transactionCheckMax of them ──► TRANS_CHECK_MAX_TIME_TOPIC, op topic

Source: TransactionalMessageServiceImpl.java, EndTransactionProcessor.java. States and events are the table in
docs/reference/transactions.md. Messages and offsets lie in the store as Java's do, so that either broker continues with
what the other has left. What Java reads from the store in every round is a table in memory here, made anew at the
start: a transaction ends once, however often its end is requested and whichever of its copies the request names.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from msgspec.structs import replace

from brokerd.clients.producer_manager import ProducerManager
from brokerd.config import LiveConfig
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.headers import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from brokerd.remoting.header.send_header import EndTransactionFields
from brokerd.remoting.message.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, MessageProperty, SysFlag
from brokerd.store.cold_pages import FileRange
from brokerd.store.errors import StoreError
from brokerd.store.message_store import MessageStore
from brokerd.store.queue.consume_queue_table import QueueMissing
from brokerd.store.results import PutResult
from brokerd.tables.consumer_offset import ConsumerOffsetManager
from brokerd.tables.topic_config import TopicConfigManager
from brokerd.timer.timer_message import Parking
from brokerd.transaction.half_message import REMOVE_TAG, HalfMessage, check_body, ended_offsets
from brokerd.transaction.half_store import HalfStore
from brokerd.transaction.progress import TransactionProgress
from brokerd.transaction.waiting_halves import WaitingHalves

ReadAhead = Callable[[list[FileRange]], Future[None]]
EndHeader = EndTransactionRequestHeader | EndTransactionFields
MakeQueue = Callable[[str, int], asyncio.Future[None]]

logger = logging.getLogger(__name__)

CHECKS_A_TICK = 200  # of 100 ms: many due at once must not hold up the event loop
SAVE_MS = 1_000
RETRY_MS = 1_000  # after a message that could not be put
NOT_FOUND = "Find prepared transaction message failed"


class Committed(NamedTuple):
    """A message that consumers can see."""

    topic: str
    size_bytes: int


class TransactionService:
    """The transactions of this broker. Single-threaded: the broker's event loop."""

    def __init__(
        self,
        config: LiveConfig,
        retention_ms: Callable[[], int],
        topics: TopicConfigManager,
        offsets: ConsumerOffsetManager,
        producers: ProducerManager,
    ) -> None:
        self._config = config
        self._retention_ms = retention_ms
        self._topics = topics
        self._offsets = offsets
        self._producers = producers
        self.waiting = WaitingHalves()
        self._round: deque[int] = deque()  # copies that this round has still to check
        # Op messages that could not be put yet: of which copy, and the checks of the one that replaced it.
        self._owed_ops: deque[tuple[int, int | None]] = deque()
        self._next_round_ms = 0
        self._next_save_ms = 0
        self._go_on_ms = 0
        self._preparing: Future[None] | asyncio.Future[None] | None = None

    def start(
        self,
        store: MessageStore,
        store_host: tuple[str, int],
        parking: Parking,
        now_ms: int,
        elapsed_ms: int,
        read_ahead: ReadAhead | None = None,
        make_queue: MakeQueue | None = None,
    ) -> None:
        """Find the transactions that go on: every half message without an op message."""
        self._store = store
        self._halves = HalfStore(store, store_host, parking)
        self._read_ahead, self._make_queue = read_ahead, make_queue
        self._progress = TransactionProgress(store, self._offsets, self.waiting)
        self._recover(now_ms)
        self._next_round_ms = elapsed_ms + self._config.broker.transaction_check_interval

    def _recover(self, now_ms: int) -> None:
        begin, end = self._progress.start(), self._progress.ends()
        ended: set[int] = set()
        replaced: set[int] = set()
        for op in self._halves.ops(begin.op_offset, end.op_offset):
            if op.tags == REMOVE_TAG:
                has_copy = MessageProperty.TRANSACTION_CHECK_TIMES in op.properties
                (replaced if has_copy else ended).update(ended_offsets(op.body))
        for half in self._halves.halves(begin.half_offset, end.half_offset, ended | replaced):
            if half.first_offset not in ended:
                before = self.waiting.newest(half.first_offset)
                self._wait(half)
                if before is not None:
                    # The broker died between this copy and the op message of the one before, which would go on at a
                    # later start: that one reads only copies without an op message, so not the end of this one.
                    self._owe_op(before, half.check_times or 0, now_ms)
        ended_last = self._halves.ended_last()
        newest = None if ended_last is None else self.waiting.newest(ended_last.first_offset)
        if newest is not None:
            logger.warning("half message ended without its op message offset=%d", newest)
            self._end(newest, now_ms)
        if self.waiting:
            logger.info("transactions go on count=%d from=%d", len(self.waiting), begin.half_offset)

    def _wait(self, half: HalfMessage) -> None:
        first_check_ms = half.first_check_ms(self._config.broker.transaction_time_out)
        self.waiting.add(half.record.queue_offset, half.first_offset, first_check_ms)

    # Requests of producers

    def put_half(self, half: HalfMessage, now_ms: int) -> PutResult:
        """Store a message whose transaction begins. Raises PutRefused, QueueMissing."""
        result = self._halves.put_half(half, half.record.properties, now_ms)
        offset = result.queue_offset  # of the first copy: what is put here has no property of a check
        due_ms = result.store_timestamp_ms + half.immunity_ms(self._config.broker.transaction_time_out)
        self.waiting.add(offset, offset, due_ms)
        return result

    def end(self, header: EndHeader, now_ms: int) -> Committed | None:
        """Commit or roll back; returns a committed message. Raises MQBrokerError, PutRefused, NotReady.

        Java commits a second time what has ended already; here that is refused.
        """
        half = self._half_of(header, now_ms)
        newest = self.waiting.newest(half.first_offset)
        if newest is None:
            raise error_for(
                ResponseCode.SYSTEM_ERROR,
                f"the transaction of half message {half.record.queue_offset} has ended, or its producers did not "
                f"answer {self._config.broker.transaction_check_max} checks",
            )
        self._halves.need_op_queue()
        committed = None
        if header.commit_or_rollback == SysFlag.TRANSACTION_COMMIT:
            committed = Committed(half.real_topic, self._halves.put_real(half, now_ms).size_bytes)
        self._end(newest, now_ms)
        return committed

    def _half_of(self, header: EndHeader, now_ms: int) -> HalfMessage:
        """Return the half message a request is about, checked in Java's order. Raises MQBrokerError, NotInMemory."""
        half = self._halves.half_at(header.commit_log_offset)
        if half is None:
            raise error_for(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        if (
            half.has_own_immunity
            and not header.from_transaction_check
            and now_ms > half.first_check_ms(self._config.broker.transaction_time_out)
        ):
            raise error_for(
                ResponseCode.ILLEGAL_OPERATION, "its producers are asked from now on: wait for the check"
            )
        if half.producer_group != header.producer_group:
            raise error_for(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
        if half.record.queue_offset != header.tran_state_table_offset:
            raise error_for(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
        return half

    def _end(self, newest: int, now_ms: int) -> None:
        """The transaction ends here; an op message that cannot be put now follows, unless the broker dies before."""
        self.waiting.remove(newest)
        self._owe_op(newest, None, now_ms)

    def _owe_op(self, half_offset: int, check_times: int | None, now_ms: int) -> None:
        """Put an op message, now or as soon as it can be."""
        self._owed_ops.append((half_offset, check_times))
        try:
            self._pay_ops(now_ms)
        except (StoreError, OSError, QueueMissing) as error:
            logger.warning("op message not put half_offset=%d: %s; trying again", half_offset, error)

    def _pay_ops(self, now_ms: int) -> None:
        while self._owed_ops:
            self._halves.put_op(*self._owed_ops[0], now_ms)
            self._owed_ops.popleft()

    def resume(self, commit_log_offset: int, now_ms: int) -> None:
        """Check a message anew from the first check on (323). Raises MQBrokerError, PutRefused, NotReady."""
        half = self._halves.half_at(commit_log_offset)
        if half is not None:
            newest = self.waiting.newest(half.first_offset)
            if newest is None:
                raise error_for(
                    ResponseCode.SYSTEM_ERROR,
                    f"the transaction of half message {half.record.queue_offset} has ended; one that was checked too "
                    f"often is resumed by its message in {CHECK_MAX_TIME_TOPIC}",
                )
            self._halves.need_op_queue()
            self._put_copy(half, newest, 0, now_ms, now_ms)
            return
        half = self._halves.discarded_at(commit_log_offset)
        if half is None:
            raise error_for(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        self.put_half(half.begun_anew(), now_ms)

    # Checks

    def tick(self, now_ms: int, elapsed_ms: int) -> int:
        """Check what is due; returns how many messages were put. The caller dispatches.

        Half messages are due by the wall clock (`now_ms`), rounds begin by the monotonic one (`elapsed_ms`).
        """
        if elapsed_ms >= self._next_save_ms:
            self._next_save_ms = elapsed_ms + SAVE_MS
            self._progress.save(now_ms)
        if not self._round and elapsed_ms >= self._next_round_ms:
            self._next_round_ms = elapsed_ms + self._config.broker.transaction_check_interval
            self._round.extend(self.waiting.take_due(now_ms))
            self._round.extend(self.waiting.far_behind(self._progress.ends().half_offset))
        if not (self._round or self._owed_ops) or elapsed_ms < self._go_on_ms or self._is_preparing():
            return 0
        log_end = self._store.commit_log_max_offset
        try:
            self._pay_ops(now_ms)
            for _ in range(CHECKS_A_TICK):
                if not self._round or self._waits_for_disk(self._round[0]):
                    break
                self._check(self._round[0], now_ms)
                self._round.popleft()
        except QueueMissing as missing:
            if self._make_queue is not None:
                self._preparing = self._make_queue(missing.topic, missing.queue_id)
        except (StoreError, OSError) as error:
            logger.warning("half message not checked: %s; trying again", error)
            self._go_on_ms = elapsed_ms + RETRY_MS
        return self._store.commit_log_max_offset - log_end

    def _is_preparing(self) -> bool:
        """Whether a thread still reads, or makes a queue."""
        if self._preparing is None or not self._preparing.done():
            return self._preparing is not None
        error = self._preparing.exception()
        if error is not None:
            logger.error("half messages cannot be checked: %s; trying again", error)
        self._preparing = None
        return False

    def _waits_for_disk(self, queue_offset: int) -> bool:
        if self._read_ahead is None or queue_offset not in self.waiting:
            return False
        cold = self._halves.cold_pages(queue_offset)
        if cold:
            self._preparing = self._read_ahead(cold)
        return bool(cold)

    def _check(self, queue_offset: int, now_ms: int) -> None:
        """Ask a producer about one half message, or give it up. Raises PutRefused, QueueMissing, OSError."""
        if queue_offset not in self.waiting:
            return
        half = self._halves.half(queue_offset)
        if half is None:
            if queue_offset < self._progress.ends().half_offset:
                logger.error("half message lost offset=%d: it expired or is damaged", queue_offset)
                self.waiting.remove(queue_offset)
            else:
                self.waiting.check_again(queue_offset, now_ms)  # it waits for its flush
            return
        check_times = half.check_times or 0
        self._halves.need_op_queue()
        due_ms = half.first_check_ms(self._config.broker.transaction_time_out)
        if due_ms > now_ms:  # it is far behind the others
            self._put_copy(half, queue_offset, check_times, due_ms, now_ms)
            return
        is_expired = now_ms - half.record.born_timestamp_ms > self._retention_ms()
        if is_expired or check_times >= self._config.broker.transaction_check_max:
            self._discard(half, now_ms)
        else:
            self._ask(self._put_copy(half, queue_offset, check_times + 1, now_ms, now_ms))

    def _discard(self, half: HalfMessage, now_ms: int) -> None:
        """Move it to where an operator finds it, and can have it checked anew."""
        self._topics.create_for_send_back(CHECK_MAX_TIME_TOPIC, 1, now_ms)
        self._halves.put_discarded(half, now_ms)
        logger.error(
            "half message given up offset=%d topic=%s key=%s group=%s: not decided after %d checks",
            half.record.queue_offset, half.real_topic, half.unique_key, half.producer_group, half.check_times or 0,
        )  # fmt: skip
        self._end(half.record.queue_offset, now_ms)

    def _put_copy(
        self, half: HalfMessage, newest: int, check_times: int, due_ms: int, now_ms: int
    ) -> HalfMessage:
        """Put the next copy and return it.

        Copies before it are done with: the op message is for Apache's broker and for a start, which reads the
        first offset of the copy too, should this broker die in between.
        """
        properties = half.copy_properties(check_times)
        copy = HalfMessage(replace(half.record, properties=properties))
        copy = copy.stored_at(self._halves.put_half(copy, properties, now_ms))
        self.waiting.add(copy.record.queue_offset, half.first_offset, due_ms)
        self._halves.put_op(newest, check_times, now_ms)
        return copy

    def _ask(self, half: HalfMessage) -> None:
        """Send CHECK_TRANSACTION_STATE to one producer of the group; without one the next round asks again."""
        group = half.producer_group
        channel = self._producers.available_channel(group)
        if channel is None:
            logger.warning(
                "transaction not checked group=%s offset=%d: no producer", group, half.record.queue_offset
            )
            return
        record = half.record
        header = CheckTransactionStateRequestHeader(
            tran_state_table_offset=record.queue_offset,
            commit_log_offset=record.commit_log_offset,
            topic=HALF_TOPIC,
            msg_id=half.unique_key,
            transaction_id=half.unique_key,
            offset_msg_id=record.offset_message_id,
            broker_name=self._config.broker.broker_name,
        )
        channel.send(
            RemotingCommand.request(
                RequestCode.CHECK_TRANSACTION_STATE, header.to_ext_fields(), check_body(half), oneway=True
            )
        )

    def save_last(self, now_ms: int) -> None:
        """At the broker's stop, before the offsets are saved: what they rely on reaches the disk first."""
        try:
            self._store.flush()
        except StoreError as error:
            logger.error("progress of transactions not saved: %s", error)  # noqa: TRY400
        else:
            self._progress.save_last(now_ms)
