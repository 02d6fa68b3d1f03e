"""The master's side: every slave that connects is sent the log from where it wants to go on.

Source: store-format §18 (`DefaultHAService.java`, `DefaultHAConnection.java`). Without a slave it is a listening
socket and nothing else: a send does no work for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from brokerd.clock import steady_ms
from brokerd.connections.channel import address_text
from brokerd.ha.flow_monitor import FlowMonitor
from brokerd.ha.frames import TRANSFER, ReportFrames, TransferError
from brokerd.remoting.body.broker import HAConnectionInfo, HARuntimeInfo
from brokerd.store.errors import StoreError
from brokerd.store.message_store import MessageStore

logger = logging.getLogger(__name__)

LOOK_S = 0.01  # at the log's end, while a slave is there and has everything
READ_BYTES = 65_536
BYTES_A_TURN = 256 * 1024
BEHIND_BYTES = 64 * 1024 * 1024  # what lies further back may have to be read from the disk: a thread does
SLAVES_MAX = 64


class HaConnection:
    """One slave. Single-threaded: the event loop."""

    def __init__(
        self, store: MessageStore, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._store = store
        self._reader, self._writer = reader, writer
        self._heartbeat_ms = store.config.ha_send_heartbeat_interval_ms
        self._housekeeping_s = store.config.ha_housekeeping_interval_ms / 1000
        self._reports = ReportFrames()
        self.news = asyncio.Event()  # a sender waits: do not sleep
        self.on_ack: Callable[[], None] = lambda: None
        self.address = address_text(writer.get_extra_info("peername") or ("", 0))
        self.ack_offset = -1  # of the slave's log end; -1 before its first report
        self.next_offset = -1  # to be sent
        self._flow = FlowMonitor()
        self._sent_ms = 0  # a sign of life at once: the slave then counts as following

    async def run(self) -> None:
        """Serve until it ends. Raises OSError, TimeoutError, TransferError or StoreError."""
        await self._read_report()
        self.next_offset = self._begin(self.ack_offset)
        logger.info("slave connected slave=%s offset=%d", self.address, self.next_offset)
        reading = asyncio.create_task(self._read_reports())
        sending = asyncio.create_task(self._send())
        try:
            await asyncio.wait((reading, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reading, sending):
                task.cancel()
            results = await asyncio.gather(reading, sending, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _begin(self, requested: int) -> int:
        """An empty slave gets the newest file from its start. Raises TransferError for one that is ahead."""
        end = self._store.commit_log_max_offset
        if requested > end:
            raise TransferError(
                f"the slave requests offset {requested}, this log ends at {end}: it followed another master, or this "
                "one lost its end"
            )
        return requested or end - end % self._store.config.mapped_file_size_commit_log

    async def _read_reports(self) -> None:
        while True:
            await self._read_report()

    async def _read_report(self) -> None:
        """Wait for the next one. Raises TimeoutError, ConnectionError or TransferError."""
        while True:
            data = await asyncio.wait_for(self._reader.read(READ_BYTES), self._housekeeping_s)
            if not data:
                raise ConnectionError("the slave closed the connection")
            offset = self._reports.receive(data)
            if offset is not None:
                self.ack_offset = offset
                self.on_ack()
                return

    async def _send(self) -> None:
        while True:
            if self.next_offset < self._store.commit_log_max_offset:
                await self._send_turn()
            elif steady_ms() - self._sent_ms >= self._heartbeat_ms:
                self._write(b"")
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.news.wait(), LOOK_S)
                self.news.clear()

    async def _send_turn(self) -> None:
        """Send some; others have their turn then. Raises StoreError when the log does not hold it any more."""
        store, batch_bytes = self._store, self._store.config.ha_transfer_batch_size
        if store.commit_log_max_offset - self.next_offset > BEHIND_BYTES:
            await asyncio.to_thread(store.pieces.read_ahead, self.next_offset, BYTES_A_TURN)
        for _ in range(max(1, BYTES_A_TURN // batch_bytes)):
            if self.next_offset == store.commit_log_max_offset:
                break
            self._write(store.pieces.piece(self.next_offset, batch_bytes))
        await self._writer.drain()
        await asyncio.sleep(0)

    def _write(self, piece: bytes | memoryview) -> None:
        self._writer.write(TRANSFER.pack(self.next_offset, len(piece)))
        if piece:
            self._writer.write(piece)
        self.next_offset += len(piece)
        self._sent_ms = steady_ms()
        self._flow.add(len(piece), self._sent_ms)

    def info(self, end: int) -> HAConnectionInfo:
        """How far it is, with `end` of the master's log."""
        behind = end - self.ack_offset
        return HAConnectionInfo(
            self.address,
            self.ack_offset,
            behind,
            behind < self._store.config.ha_max_gap_not_in_sync,
            self._flow.bytes_in_second(steady_ms()),
            self.next_offset,
        )


class HaService:
    """The listening socket and its slaves."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self.slaves: set[HaConnection] = set()
        self.port = 0
        self.on_ack: Callable[[], None] = lambda: None  # a slave has more, or is gone
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def bind(self, host: str, port: int) -> None:
        """Take the port without accepting yet. Raises OSError."""
        self._server = await asyncio.start_server(self._accept, host, port, start_serving=False)
        self.port = self._server.sockets[0].getsockname()[1]

    async def start_serving(self) -> None:
        if self._server is not None:
            await self._server.start_serving()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        slave = HaConnection(self._store, reader, writer)
        if len(self.slaves) >= SLAVES_MAX:
            logger.warning("slave refused slave=%s: %d are connected", slave.address, SLAVES_MAX)
            writer.close()
            return
        slave.on_ack = lambda: self.on_ack()
        self.slaves.add(slave)
        try:
            await slave.run()
        except (OSError, TimeoutError, TransferError, StoreError) as error:
            logger.warning("slave gone slave=%s: %s: %s", slave.address, type(error).__name__, error)
        finally:
            self.slaves.discard(slave)
            writer.close()

    def acknowledged(self) -> int:
        """Return up to where a slave has the log; -1 without one."""
        return max((slave.ack_offset for slave in self.slaves), default=-1)

    def has_near(self, end: int) -> bool:
        """Return whether a slave is near enough to be waited for (haMaxGapNotInSync)."""
        gap = self._store.config.ha_max_gap_not_in_sync
        return any(slave.ack_offset >= 0 and end - slave.ack_offset < gap for slave in self.slaves)

    def wake(self) -> None:
        """Have what is new sent now."""
        for slave in self.slaves:
            slave.news.set()

    def runtime_info(self) -> HARuntimeInfo:
        """As 907 shows it."""
        end = self._store.commit_log_max_offset
        slaves = [slave.info(end) for slave in self.slaves]
        return HARuntimeInfo(True, end, sum(slave.in_sync for slave in slaves), slaves)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
