"""The listening sockets and the connections: bytes in, bytes out, limits, idle peers.

What frames mean is decided behind one seam, `process(data, peer) -> (consumed, replies)`: it gets everything one read
brought and returns what to write, in one write (hot-path rules 1 and 2).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable
from typing import cast

from brokerd.clock import steady_ms
from brokerd.connections.channel import ChannelClosed, address_text
from brokerd.connections.peer_budget import PeerBudget
from brokerd.connections.tls import FirstByte, TlsContexts
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.connection import FRAME_BYTES_MAX

logger = logging.getLogger(__name__)

Process = Callable[[bytes, "Connection"], tuple[int, list[bytes]]]

BACKLOG = 1024
WRITE_HIGH_BYTES = 8 * 1024 * 1024  # above it the peer's requests are not read until it has read its answers
PUSH_BYTES_MAX = 64 * 1024 * 1024  # a peer with that much unread is not written to any more: it is closed
READ_AHEAD_BYTES_MAX = 1024 * 1024  # of a peer whose requests wait for a thread
FRAME_HEAD_BYTES = 8
CLOSE_STEP_S = 0.005
# Requests that have not arrived completely, of all connections and of those of one address: 16 of the largest.
UNFINISHED_BYTES_MAX, UNFINISHED_OF_ADDRESS_BYTES_MAX = 512 * 1024 * 1024, 256 * 1024 * 1024
# Answers that peers have not read, as above; looked at each time so much was written, and in every scan.
UNREAD_BYTES_MAX, UNREAD_OF_ADDRESS_BYTES_MAX = 1024 * 1024 * 1024, 512 * 1024 * 1024
UNREAD_LOOK_BYTES = 64 * 1024 * 1024
# An address of documentation: finding the interface that leads there sends nothing.
NO_ADDRESS = ("192.0.2.1", 9)


class PortTaken(OSError):
    """A listening port belongs to another process."""


def own_address(bind_address: str) -> str:
    """Return the address that peers are given: the one listened on, else this host's towards others."""
    if bind_address not in ("", "0.0.0.0", "::"):
        return bind_address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(NO_ADDRESS)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


class Connection(asyncio.Protocol):
    """One peer. Implements brokerd.connections.channel.Channel."""

    def __init__(self, server: RemotingServer) -> None:
        self._server = server
        self._process = server.process
        self._transport: asyncio.Transport | None = None
        self._rest: list[bytes] = []  # of a frame that has not arrived completely
        self._rest_bytes = 0
        self._is_kept = False
        self._needed_bytes = 0
        self._opaque = 0
        self._requests: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._is_processing = False
        self._is_write_paused = False
        self._is_waiting = False  # for a thread that prepares what the next request needs
        self._is_stopping = False
        self._is_lost = False
        self._close_reason = ""
        self.remote_address = ("", 0)
        self.is_open = False
        self.last_read_ms = 0  # set by process, which reads the clock once per read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._transport = transport
        peer = transport.get_extra_info("peername") or ("", 0)
        self.remote_address = (peer[0], peer[1])
        self.last_read_ms = steady_ms()
        if not self._server.admit(self):
            transport.abort()
            return
        self.is_open = True
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)

    def secured(self, transport: asyncio.Transport) -> None:
        """Write to `transport` from now on: the TLS above the socket."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle what arrived whole before the peer left: a one-way request has no other try."""
        if not self.is_open:  # it was not admitted
            return
        self.is_open = False
        for future in self._requests.values():
            if not future.done():
                future.set_exception(ChannelClosed(f"{address_text(self.remote_address)} closed"))
        self._requests.clear()
        self._is_lost = True
        self._is_write_paused = self._is_stopping  # answers are not written any more
        self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            self._rest.append(data)
            self._keep(self._rest, self._rest_bytes + len(data))
            if not self._is_due:
                if self._is_waiting and self._rest_bytes > READ_AHEAD_BYTES_MAX:
                    self._pause_reading()
                return
            data = self._take_rest()
        self._handle(data)

    def _keep(self, rest: list[bytes], size_bytes: int) -> None:
        """Record what waits for its frame's end, here and for the whole server, which has a limit for all."""
        self._rest, self._rest_bytes = rest, size_bytes
        if size_bytes or self._is_kept:
            self._is_kept = size_bytes > 0
            self._server.hold_unfinished(self, size_bytes)

    def give_up(self) -> None:
        """Drop what has not arrived completely, and close: others need the memory."""
        reason = (
            f"{self._rest_bytes} bytes of its unfinished request are the most that is held for any client"
        )
        self._keep([], 0)
        self.close(reason)

    def _take_rest(self) -> bytes:
        data = b"".join(self._rest)
        self._keep([], 0)
        return data

    def _handle(self, data: bytes) -> None:
        """Answer the requests in `data`; keep what is incomplete, or too much to answer before the peer has read."""
        self._is_processing = True
        try:
            consumed, replies = self._process(data, self)
        finally:
            self._is_processing = False
        transport = self._transport
        assert transport is not None
        if replies and not transport.is_closing():
            answer = replies[0] if len(replies) == 1 else b"".join(replies)
            transport.write(answer)
            self._server.wrote(len(answer))
        if self._close_reason:
            self.close(self._close_reason)
        elif consumed < len(data):
            rest = data[consumed:] if consumed else data
            self._keep([rest], len(rest))
            length = int.from_bytes(rest[:4], "big") if len(rest) >= 4 else 0
            # A length that no frame has is not waited for: the next turn closes for it.
            self._needed_bytes = max(FRAME_HEAD_BYTES, 4 + length if length <= FRAME_BYTES_MAX else 0)
            if self._is_due:
                asyncio.get_running_loop().call_soon(self._go_on)

    @property
    def _is_due(self) -> bool:
        """Whether what was kept can be handled now."""
        is_held = self._is_write_paused or self._is_waiting
        return bool(self._rest) and self._rest_bytes >= self._needed_bytes and not is_held

    def _go_on(self) -> None:
        """Handle the complete frames that were left for a later turn; others had theirs meanwhile."""
        if self._is_due:
            self._handle(self._take_rest())
        if self._is_lost and not self._is_waiting and not self._is_due:
            self._is_lost = False
            self._keep([], 0)
            self._server.drop(self)

    def wait(self) -> None:
        """Keep the requests until `go_on`.

        Reading goes on: a peer that leaves meanwhile ends the connection with the first answer that is written to it,
        and what it sent and was not read by then is lost (the Go client closes behind its last one-way request).
        """
        self._is_waiting = True

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def go_on(self) -> None:
        self._is_waiting = False
        self._read_on()

    def pause_writing(self) -> None:
        """The peer does not read its answers: stop reading and handling its requests."""
        self._is_write_paused = True
        self._pause_reading()

    def resume_writing(self) -> None:
        if self._is_stopping:
            return
        self._is_write_paused = False
        self._read_on()

    def _read_on(self) -> None:
        """Handle what was kept, then read again unless that has to wait too."""
        self._go_on()
        is_held = self._is_write_paused or self._is_waiting
        if not is_held and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > PUSH_BYTES_MAX:
            logger.warning(
                "connection closed peer=%s: it does not read its answers", address_text(self.remote_address)
            )
            self.abort()
            return
        transport.write(data)
        self._server.wrote(len(data))

    def send(self, command: RemotingCommand) -> None:
        self.write(command.encode())

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Send a request to the peer and await its answer; raises TimeoutError or ChannelClosed."""
        if not self.is_open:
            raise ChannelClosed(f"{address_text(self.remote_address)} closed")
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        command.opaque = self._opaque
        future: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._requests[command.opaque] = future
        self.send(command)
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000)
        finally:
            self._requests.pop(command.opaque, None)

    def answered(self, response: RemotingCommand) -> None:
        """Hand a response to its waiting caller; drop one without a caller."""
        future = self._requests.get(response.opaque)
        if future is not None and not future.done():
            future.set_result(response)

    @property
    def unread_bytes(self) -> int:
        """Answers that wait for the peer to read."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def stop_reading(self) -> None:
        self._is_stopping = self._is_write_paused = True  # nor handle what was read and not answered
        self._pause_reading()

    @property
    def is_closing(self) -> bool:
        return self._transport is not None and self._transport.is_closing()

    def abort(self) -> None:
        """Close without waiting for a peer that does not read what was written."""
        self._keep([], 0)
        if self._transport is not None:
            self._transport.abort()

    def close(self, reason: str) -> None:
        """Close once everything written is out; while a read is being processed, after its replies."""
        if self._is_processing:
            self._close_reason = reason
            return
        if self._transport is not None and not self._transport.is_closing():
            logger.info("connection closed peer=%s: %s", address_text(self.remote_address), reason)
            self._keep([], 0)
            self._transport.close()


class RemotingServer:
    """One listening address and its connections. Single-threaded: the event loop."""

    def __init__(
        self,
        name: str,
        process: Process,
        on_close: Callable[[Connection], None],
        max_connections: int,
        idle_timeout_ms: int,
        tls: TlsContexts,
    ) -> None:
        self.name = name
        self.process = process
        self.connections: set[Connection] = set()
        self.port = 0
        self._unfinished: PeerBudget[Connection] = PeerBudget(
            UNFINISHED_BYTES_MAX, UNFINISHED_OF_ADDRESS_BYTES_MAX
        )
        self._written_bytes = 0  # since the last look at what is unread
        self._on_close = on_close
        self._max_connections = max_connections
        self._idle_timeout_ms = idle_timeout_ms
        self._tls = tls
        self._server: asyncio.Server | None = None

    async def bind(self, host: str, port: int) -> None:
        """Take the port without accepting yet. Raises PortTaken or OSError, with the setting's key."""
        try:
            await self._bind(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                text = f"port {port} ({self.name}) is taken by another process: stop it or set {self.name}"
                raise PortTaken(error.errno, text) from error
            raise OSError(error.errno, f"{host}:{port} ({self.name}): {error}") from error

    async def _bind(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: FirstByte(Connection(self), self._tls),
            host,
            port,
            backlog=BACKLOG,
            reuse_address=True,
            start_serving=False,
        )
        listening: list[socket.socket] = list(self._server.sockets)
        self.port = listening[0].getsockname()[1]

    async def start_serving(self) -> None:
        assert self._server is not None
        await self._server.start_serving()

    def admit(self, connection: Connection) -> bool:
        if len(self.connections) >= self._max_connections:
            logger.warning(
                "connection refused server=%s peer=%s: %d connections are open",
                self.name,
                address_text(connection.remote_address),
                len(self.connections),
            )
            return False
        self.connections.add(connection)
        return True

    @property
    def unfinished_bytes(self) -> int:
        """Of requests that have not arrived completely."""
        return self._unfinished.total_bytes

    def hold_unfinished(self, connection: Connection, size_bytes: int) -> None:
        self._unfinished.hold(connection, connection.remote_address[0], size_bytes)
        if size_bytes and self._unfinished.is_over(connection.remote_address[0]):
            while (holder := self._unfinished.one_too_many()) is not None:
                holder.give_up()

    def wrote(self, size_bytes: int) -> None:
        self._written_bytes += size_bytes
        if self._written_bytes > UNREAD_LOOK_BYTES:
            self.limit_unread()

    def limit_unread(self) -> None:
        """Cut the connections whose peers leave most of their answers unread, beyond what all may."""
        self._written_bytes = 0
        unread: PeerBudget[Connection] = PeerBudget(UNREAD_BYTES_MAX, UNREAD_OF_ADDRESS_BYTES_MAX)
        for connection in self.connections:
            if unread_bytes := connection.unread_bytes:
                unread.hold(connection, connection.remote_address[0], unread_bytes)
        while (holder := unread.one_too_many()) is not None:
            logger.warning(
                "connection cut peer=%s: it leaves %d bytes of answers unread, the most of all clients",
                address_text(holder.remote_address),
                holder.unread_bytes,
            )
            unread.hold(holder, holder.remote_address[0], 0)
            holder.abort()

    def drop(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._on_close(connection)

    def close_idle(self, now_ms: int) -> None:
        """Close connections without a request for the idle time (Java's IdleStateHandler, 120 s).

        Those that an earlier scan closed and that still hold answers that are never read are cut.
        """
        self.limit_unread()
        for connection in list(self.connections):
            if now_ms - connection.last_read_ms > self._idle_timeout_ms and connection.is_closing:
                connection.abort()
            elif now_ms - connection.last_read_ms > self._idle_timeout_ms:
                connection.close(f"idle for {self._idle_timeout_ms // 1000} s")

    def stop_reading(self) -> None:
        """Accept no connection and read no request any more; what was read is still answered."""
        if self._server is not None:
            self._server.close()
        for connection in self.connections:
            connection.stop_reading()

    async def stop(self, within_s: float) -> None:
        """Close every connection after its last answer; one whose peer does not read is cut after `within_s`."""
        self.stop_reading()
        for connection in list(self.connections):
            connection.close("brokerd stops")
        deadline = time.monotonic() + within_s
        while self.connections and time.monotonic() < deadline:  # noqa: ASYNC110  once, at the stop
            await asyncio.sleep(CLOSE_STEP_S)
        for connection in list(self.connections):
            connection.abort()
