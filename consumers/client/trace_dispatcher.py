"""Send message traces beside the client's own work: in batches, bounded, and never in its way.

Source: AsyncTraceDispatcher.java.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Protocol

from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import MessageProperty
from brokerd.remoting.message.trace import TraceRecord, encode_trace
from consumers.errors import MQBrokerError, MQClientError

logger = logging.getLogger(__name__)

# traceMsgBatchNum, flushTraceInterval, and the capacity of traceContextQueue
BATCH_RECORDS = 10
FLUSH_INTERVAL_MS = 5_000
PENDING_RECORDS_MAX = 2_048
# One trace message: records, bytes of its body (maxMsgSize less the room for properties) and of its KEYS.
MESSAGE_RECORDS_MAX = 100
BODY_BYTES_MAX = 118_000
KEYS_LENGTH_MAX = 16_000
# How long closing waits for what is pending.
CLOSE_WAIT_MS = 3_000


class TraceProducer(Protocol):
    """What the dispatcher needs of the producer that is its own."""

    async def start(self) -> None: ...
    async def close(self) -> None: ...
    async def send(self, message: Message) -> object: ...


class TraceDispatcher:
    """Takes records without waiting. Those that find no room, or whose send fails, are counted and logged."""

    def __init__(self, producer: TraceProducer, topic: str) -> None:
        self.topic = topic
        self.sent_records = 0
        self.failed_records = 0
        self.dropped_records = 0
        self._producer = producer
        self._pending: deque[TraceRecord] = deque()
        self._enough = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Begin to send. Needs no broker."""
        await self._producer.start()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Send what is pending, for CLOSE_WAIT_MS at most; the rest is dropped."""
        self._is_closed = True
        self._enough.set()
        if self._task is None:
            return
        await asyncio.wait([self._task], timeout=CLOSE_WAIT_MS / 1000)
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._pending:
            self.dropped_records += len(self._pending)
            logger.warning("traces dropped at the end topic=%s records=%d", self.topic, len(self._pending))
            self._pending.clear()
        await self._producer.close()

    def append(self, record: TraceRecord) -> None:
        """Caller: producers and consumers. Affects: what the next batch sends. Never waits, never raises."""
        if self._is_closed or len(self._pending) >= PENDING_RECORDS_MAX:
            if not self.dropped_records:
                logger.warning("traces come faster than they are sent, some are dropped topic=%s", self.topic)
            self.dropped_records += 1
            return
        self._pending.append(record)
        if len(self._pending) >= BATCH_RECORDS:
            self._enough.set()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_INTERVAL_MS / 1000):
                    await self._enough.wait()
            self._enough.clear()
            while self._pending:
                await self._send_some()
            if self._is_closed:
                return

    async def _send_some(self) -> None:
        message, records = self._next_message()
        is_sent = False
        try:
            await self._producer.send(message)
            is_sent = True
        except (MQClientError, MQBrokerError, ValueError) as error:
            logger.warning("traces not sent topic=%s records=%d: %s", self.topic, records, error)
        finally:
            if is_sent:
                self.sent_records += records
            else:
                self.failed_records += records

    def _next_message(self) -> tuple[Message, int]:
        """(a message with the oldest pending records, their number). KEYS: the ids and keys of their messages."""
        body = bytearray()
        keys: dict[str, None] = {}
        keys_length = records = 0
        while self._pending and records < MESSAGE_RECORDS_MAX:
            encoded = encode_trace(self._pending[0]).encode()
            new_keys = [key for key in _keys(self._pending[0]) if key not in keys]
            new_length = sum(len(key) + 1 for key in new_keys)
            is_full = len(body) + len(encoded) > BODY_BYTES_MAX or keys_length + new_length > KEYS_LENGTH_MAX
            if is_full and records:
                break
            self._pending.popleft()
            body += encoded
            keys.update(dict.fromkeys(new_keys))
            keys_length += new_length
            records += 1
        return Message(self.topic, bytes(body), {MessageProperty.KEYS: " ".join(keys)}), records


def _keys(record: TraceRecord) -> list[str]:
    """The message's id, and its keys unless they alone would leave no room."""
    keys = [record.message_id]
    if record.keys and len(record.keys) < KEYS_LENGTH_MAX // 2:
        keys.append(record.keys)
    return keys
