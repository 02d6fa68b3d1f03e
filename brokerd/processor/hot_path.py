"""The fast way of what arrives most: typed header, one implementation of the checks, reply from a template.

JSON and binary headers both. Everything unusual (keys in odd order, signed requests, errors in the header) is left to
the plain handlers, which must give the same answers: tests/brokerd/processor/test_hot_path.py compares both.
"""

from __future__ import annotations

from brokerd.clock import steady_ms
from brokerd.connections.channel import Channel
from brokerd.processor.broker import AnswerWriter, Broker
from brokerd.processor.consumer.pop_ack import acknowledge_run
from brokerd.processor.consumer.pull_message import pull_message
from brokerd.processor.dispatch import Run
from brokerd.processor.send.end_transaction import end
from brokerd.processor.send.group_commit import GroupCommit, refused
from brokerd.processor.send.send_message import Sender, SendOutcome, outcome_fields
from brokerd.processor.send.slave_wait import SlaveWait, SlaveWriter
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand, SerializeType
from brokerd.remoting.errors import HeaderFieldError, MQBrokerError
from brokerd.remoting.header.binary_send_header import BinarySendReplyTemplate, decode_binary_send_head
from brokerd.remoting.header.send_header import (
    ACK_BEGINNING,
    EndTransactionHead,
    PullHead,
    SendReplyTemplate,
    decode_hot_head,
    done_reply,
)
from brokerd.store.errors import StoreError

SEND_BATCH_MESSAGE = int(RequestCode.SEND_BATCH_MESSAGE)
# The half message is found in the log, and what is acknowledged was popped in an earlier read.
WITHOUT_UNITS = frozenset({int(RequestCode.END_TRANSACTION), int(RequestCode.ACK_MESSAGE)})
# A read can hold a pull for each of hundreds of queues; with a SQL92 filter one costs up to 2 ms.
FILTERED_ENTRIES_A_TURN = 800


class HotPath:
    """What the broker's dispatcher does per frame before, and per read after the plain handlers."""

    def __init__(self, broker: Broker, sender: Sender) -> None:
        self._broker = broker
        self._sender = sender
        self._send = sender.send
        self._store = broker.store
        self._hold = broker.hold
        self._topics = broker.topics
        self._stats = broker.stats
        self._put_times = broker.stats.put_times
        self._dispatched_early = 0  # messages of this read that before_plain has made visible
        self._log_end = broker.store.commit_log_max_offset  # when the last read was done
        self._make_templates()
        sender.on_region_change = self._make_templates
        self._group_commit: GroupCommit | None = None
        if broker.store_config.is_sync_flush:
            self._group_commit = GroupCommit(broker.store, self._after_flush)
        self._slave_wait: SlaveWait | None = None
        if broker.store_config.broker_role == "SYNC_MASTER":
            self._slave_wait = SlaveWait(broker.slaves, broker.store_config.sync_flush_timeout_ms)

    def _make_templates(self) -> None:
        self._template = SendReplyTemplate(self._sender.region_fields)
        self._binary_template = BinarySendReplyTemplate(self._sender.region_fields)

    def run_for(self, peer: Channel) -> Run | None:
        return self._run

    def _run(self, data: bytes, position: int, peer: tuple[str, int], now_ms: int) -> tuple[int, list[bytes]]:
        if data.startswith(ACK_BEGINNING, position + 8):
            return acknowledge_run(self._broker, data, position, peer, now_ms)
        compiled = self._sender.compiled
        return compiled.sends(data, position, peer, now_ms) if compiled is not None else (position, [])

    def try_frame(self, data: bytes, start: int, end: int, peer: Channel, now_ms: int) -> bytes | None:
        """Answer one frame if its header reads typed; None leaves it to the plain handlers."""
        decoded = decode_hot_head(data, start, end) or decode_binary_send_head(data, start, end)
        if decoded is None:
            return None
        head, body_start = decoded
        flag = head.flag
        if flag & RESPONSE_FLAG:
            return None
        if isinstance(head, PullHead):
            return self._pull(head, peer, now_ms)
        if isinstance(head, EndTransactionHead):
            return self._end_transaction(head, now_ms) if body_start == end else None
        fields = head.extFields
        is_batch = fields.batch_text != "false" and bool(fields.batch)
        if head.code == SEND_BATCH_MESSAGE and not is_batch:
            return None
        is_binary = data[start + 4] == SerializeType.ROCKETMQ
        try:
            outcome = self._send(fields, is_batch, head.version, data[body_start:end], peer, now_ms)
        except MQBrokerError as error:
            return b"" if flag & ONEWAY_FLAG else self._refusal(head.opaque, error, is_binary)
        except OSError:
            return None  # nothing was stored; the plain way tries again and answers with the reason
        if flag & ONEWAY_FLAG:
            return b""
        if is_binary:
            encoded = self._binary_template.encode(head.opaque, *outcome)
        else:
            encoded = self._template.encode(head.opaque, *outcome)
        return encoded or self._encode_plainly(head.opaque, outcome, is_binary)

    @property
    def is_holding(self) -> bool:
        """Answers wait for a flush, or for a slave."""
        is_flushing = self._group_commit is not None and self._group_commit.is_holding
        return is_flushing or (self._slave_wait is not None and self._slave_wait.is_holding)

    @property
    def is_turn_over(self) -> bool:
        return self._broker.filtered_entries >= FILTERED_ENTRIES_A_TURN

    def _pull(self, head: PullHead, peer: Channel, now_ms: int) -> bytes | None:
        if self._broker.filtered_entries >= FILTERED_ENTRIES_A_TURN:
            return None
        try:
            return pull_message(self._broker, peer, head.extFields, head.code, head.opaque, now_ms) or b""
        except (OSError, StoreError):
            return None  # the group could not be made, or a record is damaged: the plain way reports which

    def _end_transaction(self, head: EndTransactionHead, now_ms: int) -> bytes | None:
        try:
            is_answered = end(self._broker, head.extFields, now_ms)
        except (OSError, HeaderFieldError, MQBrokerError, StoreError):
            return None  # nothing was changed; the plain way answers with the reason
        return done_reply(head.opaque) if is_answered and not head.flag & ONEWAY_FLAG else b""

    def _refusal(self, opaque: int, error: MQBrokerError, is_binary: bool) -> bytes:
        refusal = RemotingCommand(error.code, "JAVA", opaque=opaque, flag=RESPONSE_FLAG, remark=error.remark)
        refusal.ext_fields = dict(self._sender.region_fields)
        if is_binary:
            refusal.serialize_type = SerializeType.ROCKETMQ
        return refusal.encode()

    def _encode_plainly(self, opaque: int, outcome: SendOutcome, is_binary: bool) -> bytes:
        """For ids that need escaping in JSON, and messages that can be recalled."""
        response = RemotingCommand(0, "JAVA", opaque=opaque, flag=RESPONSE_FLAG)
        response.ext_fields = outcome_fields(self._sender.region_fields, outcome)
        if is_binary:
            response.serialize_type = SerializeType.ROCKETMQ
        return response.encode()

    def before_plain(self, code: int) -> None:
        """Most requests read offsets, and so must see what the same read stored before them."""
        if self._group_commit is None and code not in WITHOUT_UNITS and self._store.dispatch_behind_bytes:
            self._dispatched_early += self._store.dispatch_pending()

    def after_read(self, peer: Channel, replies: list[bytes], began_ms: int) -> list[bytes]:
        """Make what the read stored visible and wake who waits for it; with SYNC_FLUSH hold the answers back.

        `began_ms`: when the read began, by the steady clock, as all times from here on.
        """
        self._broker.filtered_entries = 0
        if self._topics.is_made_by_message:
            self._topics.is_made_by_message = False
            self._hold_until_saved(peer, replies)
            replies = []
        store = self._store
        if self._group_commit is not None:
            log_end = store.commit_log_max_offset
            if log_end != self._log_end:
                self._log_end = log_end
                self._group_commit.hold(self._writer(peer), replies, began_ms)
                self._note_turn(began_ms)
                return []
        elif store.dispatch_behind_bytes or self._dispatched_early:
            self._note_turn(began_ms, store.dispatch_pending() + self._dispatched_early)
            self._dispatched_early = 0
        if self._hold.has_ready:
            self._hold.run_ready(began_ms)
        if self._slave_wait is not None and self._log_end != store.commit_log_max_offset:
            self._log_end = store.commit_log_max_offset
            if replies:
                self._writer(peer).write(b"".join(replies))
            return []
        return replies

    def _writer(self, peer: Channel) -> AnswerWriter:
        """Where answers go that confirm what is in the log now."""
        if self._slave_wait is None:
            return peer
        return SlaveWriter(self._slave_wait, peer, self._store.commit_log_max_offset)

    def _hold_until_saved(self, peer: Channel, replies: list[bytes]) -> None:
        """A message made its topic: a restart must find the topic of what was acknowledged."""

        writer = self._writer(peer)

        def answer(error: Exception | None) -> None:
            frames = replies
            if error is not None:
                frames = [
                    refused(frame, f"the message's topic cannot be saved: {error}") for frame in replies
                ]
            if self._group_commit is not None:
                self._group_commit.hold(writer, frames, steady_ms())
            else:
                writer.write(b"".join(frames))

        self._broker.tables.when_saved(answer)

    def _note_turn(self, began_ms: int, puts: int = 0) -> None:
        took_ms = steady_ms() - began_ms
        if puts:
            self._put_times.add(puts, took_ms)
        if took_ms > self._stats.turn_longest_ms:
            self._stats.turn_longest_ms = took_ms

    def after_put(self, began_ms: int) -> None:
        """The same for messages the broker itself stored (delayed ones that became due)."""
        if self._group_commit is not None:
            self._log_end = self._store.commit_log_max_offset
            self._group_commit.commit(began_ms)
            self._note_turn(began_ms)
            return
        self._log_end = self._store.commit_log_max_offset
        self._note_turn(began_ms, self._store.dispatch_pending())
        self._hold.run_ready(began_ms)

    def _after_flush(self, began_ms: int) -> None:
        """What was read from `began_ms` on is on the disk."""
        now_ms = steady_ms()
        puts = self._store.dispatch_pending()
        if puts:
            self._put_times.add(puts, now_ms - began_ms)
        self._hold.run_ready(now_ms)

    def close(self) -> None:
        """Wait for the flush under way. Caller: the broker's stop."""
        if self._group_commit is not None:
            self._group_commit.close()


class SlavePath(HotPath):
    """Leaves every frame to the plain handlers: they refuse sends, and a pull costs a tenth more there."""

    def _make_templates(self) -> None:
        self._template = SendReplyTemplate(self._sender.region_fields)
        self._binary_template = BinarySendReplyTemplate(self._sender.region_fields)

    def run_for(self, peer: Channel) -> None:
        return None

    def try_frame(self, data: bytes, start: int, end: int, peer: Channel, now_ms: int) -> None:
        return None
