"""The slave's connection to its master: requests the log from its own end on, acknowledges what was written.

Source: store-format §18 (`DefaultHAClient.java`). A master that is away, or whose log does not go on where this one
ends, is tried again for ever; the slave serves what it has meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from brokerd.clock import steady_ms, wall_ms
from brokerd.ha.flow_monitor import FlowMonitor
from brokerd.ha.frames import REPORT, TransferError, TransferFrames
from brokerd.remoting.body.broker import HAClientRuntimeInfo, HARuntimeInfo
from brokerd.store.errors import StoreError
from brokerd.store.message_store import MessageStore
from brokerd.store.queue.consume_queue_table import QueueMissing

logger = logging.getLogger(__name__)

RECONNECT_S = 1.0  # Java: 5 s
CONNECT_WITHIN_S = 3.0
READ_BYTES = 256 * 1024  # a turn of the event loop: 250 records of 1 KiB, 3 ms


class HaClient:
    """Follows one master. Single-threaded: the event loop."""

    def __init__(
        self,
        store: MessageStore,
        after_put: Callable[[int], None],
        make_queue: Callable[[str, int], Awaitable[None]],
    ) -> None:
        """`after_put` makes what was written visible; `make_queue` makes a queue that the master has and this not."""
        self._store = store
        self._after_put = after_put
        self._make_queue = make_queue
        self._heartbeat_ms = store.config.ha_send_heartbeat_interval_ms
        self._housekeeping_ms = store.config.ha_housekeeping_interval_ms
        self.address = store.config.ha_master_address  # "": not known yet
        self.is_following = False  # the master's log goes on where this one ends
        self.on_news: Callable[[], None] = lambda: None  # it follows now, or has a queue that is new
        self.fault = ""  # why nothing is received; "" while it is
        self._reported_offset = self._reported_ms = 0
        self._received_at_ms = self._reported_at_ms = 0  # by the wall clock
        self._flow = FlowMonitor()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            if self.address:
                try:
                    await self._follow(self.address)
                except (OSError, TimeoutError, TransferError, StoreError) as error:
                    self._failed(f"{type(error).__name__}: {error}")
            await asyncio.sleep(RECONNECT_S)

    def _failed(self, fault: str) -> None:
        if fault != self.fault:  # logged once
            logger.error("not following master=%s: %s; trying again", self.address, fault)
        self.fault = fault

    async def _follow(self, address: str) -> None:
        """Receive until the connection ends. Raises OSError, TimeoutError, TransferError or StoreError."""
        host, _, port = address.rpartition(":")
        connecting = asyncio.open_connection(host, int(port), limit=READ_BYTES)
        reader, writer = await asyncio.wait_for(connecting, CONNECT_WITHIN_S)
        try:
            frames = TransferFrames()
            begin = self._store.transferred.begin()
            logger.info("following master=%s from offset=%d", address, begin)
            self._report(writer, begin)
            received_ms = steady_ms()
            while self.address == address:
                data = await self._read(reader)
                if data:
                    for piece in frames.receive(data):
                        await self._take(piece.offset, piece.data)
                        if not self.is_following:
                            self.is_following, self.fault = True, ""
                            self.on_news()
                    self._after_put(steady_ms())
                    received_ms, self._received_at_ms = steady_ms(), wall_ms()
                    self._flow.add(len(data), received_ms)
                elif steady_ms() - received_ms > self._housekeeping_ms:
                    raise TimeoutError(f"the master sent nothing for {self._housekeeping_ms} ms")
                end = self._store.commit_log_max_offset
                if end != self._reported_offset or steady_ms() - self._reported_ms >= self._heartbeat_ms:
                    self._report(writer, end)
        finally:
            self.is_following = False
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """Return what arrived; b"" when it is time to report. Raises ConnectionError at the end."""
        due_ms = self._reported_ms + self._heartbeat_ms - steady_ms()
        try:
            data = await asyncio.wait_for(reader.read(READ_BYTES), max(due_ms, 1) / 1000)
        except TimeoutError:
            return b""
        if not data:
            raise ConnectionError("the master closed the connection")
        return data

    async def _take(self, offset: int, data: bytes) -> None:
        """Write what is complete; a queue that is new is made first, in a thread."""
        transferred = self._store.transferred
        try:
            transferred.receive(offset, data)
        except QueueMissing as missing:
            await self._make(missing)

    async def _make(self, missing: QueueMissing) -> None:
        while True:
            self.on_news()
            await self._make_queue(missing.topic, missing.queue_id)
            try:
                self._store.transferred.append()
            except QueueMissing as another:
                missing = another
            else:
                return

    def runtime_info(self) -> HARuntimeInfo:
        """As 907 shows it; `activated` while records are taken."""
        client = HAClientRuntimeInfo(
            self.address or None,
            self._flow.bytes_in_second(steady_ms()),
            self._store.commit_log_max_offset,
            self._received_at_ms,
            self._reported_at_ms,
            activated=self.is_following,
        )
        return HARuntimeInfo(ha_client_runtime_info=client)

    def _report(self, writer: asyncio.StreamWriter, offset: int) -> None:
        writer.write(REPORT.pack(offset))
        self._reported_offset, self._reported_ms, self._reported_at_ms = offset, steady_ms(), wall_ms()
