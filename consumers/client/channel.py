"""One connection of a client: frames both ways, and the requests on it that wait for their answers.

Holds the socket; reads frames (brokerd.remoting) but no meaning of any code. Limits and life follow
NettyRemotingClient.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

import msgspec

from brokerd.remoting.command import RESPONSE_FLAG, RemotingCommand
from brokerd.remoting.connection import RemotingConnection
from brokerd.remoting.errors import RemotingError
from consumers.config import RemotingClientConfig
from consumers.errors import BrokerUnavailable, Reason, TooManyRequests

logger = logging.getLogger(__name__)

NEVER_S = float("inf")
# A request timed out and the connection has been silent for this long: the peer may be gone without a word,
# so the connection is closed and the next request makes a new one (clientCloseSocketIfTimeout).
SILENT_CONNECTION_S = 3.0
# Frames of one round of the event loop are one write: a system call costs as much as the rest of a request. From so
# many bytes on they are written at once.
GATHERED_BYTES_MAX = 64 * 1024

CLOSED_BY_PEER = Reason("it closed the connection")


class ChannelOwner(Protocol):
    """What a channel needs of its client."""

    @property
    def config(self) -> RemotingClientConfig: ...

    @property
    def changes_requests(self) -> bool:
        """Whether `changed` does anything. It stays so while a connection lives."""

    def changed(self, command: RemotingCommand) -> RemotingCommand:
        """Return a request as it goes out: signed, with the fields that all have."""

    def receive_request(self, channel: Channel, command: RemotingCommand) -> None:
        """Serve a broker's request."""

    def channel_ended(self, channel: Channel) -> None:
        """The connection has ended; what waited on it has failed."""


class Answer(Protocol):
    """Where the answer of a request goes: an asyncio.Future, or what costs less than one and a task that waits."""

    def done(self) -> bool: ...
    def set_result(self, response: RemotingCommand, /) -> None: ...
    def set_exception(self, error: Exception, /) -> None: ...


class OwnRequest(Answer, Protocol):
    """A request that writes its own frame: what costs less than a command. Both are the same bytes."""

    def frame(self, opaque: int) -> bytes:
        """Raise ValueError for what no frame can hold."""

    def command(self) -> RemotingCommand: ...


class _Waiting(msgspec.Struct):
    """A request without an answer so far. Times of the event loop."""

    answer: Answer
    sent_at_s: float
    deadline_s: float


class Channel(asyncio.Protocol):
    """One connection. Created by RemotingClient; everything happens in its event loop."""

    def __init__(self, client: ChannelOwner, addr: str) -> None:
        self.addr = addr
        self.waiting: dict[int, _Waiting] = {}  # by opaque
        self.closed_reason: Reason | None = None
        # Whether a request can be sent without waiting.
        self.is_ready = False
        self._loop = asyncio.get_running_loop()
        self.last_received_s = self._loop.time()
        self._client = client
        self._changes_requests = client.changes_requests
        self._connection = RemotingConnection()
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        # One timer for all that wait: a timer for each would cost more than its answer.
        self._expire_at_s = NEVER_S
        self._expiry: asyncio.TimerHandle | None = None

    # asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._transport = transport
        self.is_ready = True
        transport.set_write_buffer_limits(high=self._client.config.write_buffer_bytes_max)

    def data_received(self, data: bytes) -> None:
        self.last_received_s = self._loop.time()
        try:
            commands = self._connection.receive_data(data)
        except RemotingError as error:
            logger.warning("closing connection addr=%s after a bad frame: %s", self.addr, error)
            self.close(Reason("it sent a bad frame: %(why)s", {"why": error}))
            return
        for command in commands:
            if not command.flag & RESPONSE_FLAG:
                self._client.receive_request(self, command)
                continue
            request = self.waiting.pop(command.opaque, None)
            if request is None:
                # Java drops it as well: the request has timed out, or was cancelled.
                late = self.addr, command.code, command.opaque
                logger.debug("late response addr=%s code=%d opaque=%d", *late)
            elif not request.answer.done():
                request.answer.set_result(command)

    def connection_lost(self, exc: Exception | None) -> None:
        lost = Reason("connection lost: %(why)s", {"why": exc})
        self._fail(lost if exc else CLOSED_BY_PEER)

    def pause_writing(self) -> None:
        self.is_ready = False
        self._writable.clear()

    def resume_writing(self) -> None:
        self.is_ready = self.is_open
        self._writable.set()

    # RemotingClient's calls

    @property
    def is_open(self) -> bool:
        return self.closed_reason is None

    def send(self, commands: Iterable[RemotingCommand], *, is_urgent: bool = False) -> None:
        """Write whole frames, requests signed, in this round of the event loop; at once where urgent.

        Raises BrokerUnavailable when the connection has ended.
        """
        if self._transport is None or self.closed_reason is not None:
            raise BrokerUnavailable(self.addr, self.closed_reason or Reason("not connected"))
        if self._changes_requests:
            commands = [self._client.changed(command) for command in commands]
        self._gather([command.encode() for command in commands])
        if is_urgent:
            self._write()

    def begin(self, request: OwnRequest, opaque: int, timeout_s: float) -> None:
        """Send a request now: the connection is ready. Raises ValueError, TooManyRequests, and nothing is sent."""
        if self._changes_requests:
            command = request.command()
            command.opaque = opaque
            frame = self._client.changed(command).encode()
        else:
            frame = request.frame(opaque)
        self.expect_for(request, opaque, time.monotonic() + timeout_s)
        self._gather((frame,))

    async def wait_writable(self) -> None:
        """Return when the socket takes more; raises BrokerUnavailable if it ends instead."""
        await self._writable.wait()
        if self.closed_reason is not None:
            raise BrokerUnavailable(self.addr, self.closed_reason)

    def expect(self, opaque: int, deadline_s: float = NEVER_S) -> asyncio.Future[RemotingCommand]:
        """Register a request before it is sent, and return its answer to come. Raises TooManyRequests."""
        answer: asyncio.Future[RemotingCommand] = self._loop.create_future()
        self.expect_for(answer, opaque, deadline_s)
        return answer

    def expect_for(self, answer: Answer, opaque: int, deadline_s: float) -> None:
        """As `expect`; at `deadline_s` the answer is TimeoutError."""
        if len(self.waiting) >= self._client.config.outstanding_requests_max:
            raise TooManyRequests(self.addr, len(self.waiting))
        self.waiting[opaque] = _Waiting(answer, time.monotonic(), deadline_s)
        if deadline_s < self._expire_at_s:
            self._set_expiry(deadline_s)

    def close_if_silent(self, sent_at_s: float) -> None:
        """End a connection on which nothing came since `sent_at_s`, when a request of then timed out."""
        now_s = self._loop.time()
        if self.last_received_s <= sent_at_s and now_s - sent_at_s >= SILENT_CONNECTION_S:
            silent_s = {"number": round(now_s - sent_at_s)}
            self.close(Reason("it was silent for %(number)s s while requests waited", silent_s))

    def close(self, reason: Reason) -> None:
        self._write()  # one-way requests have nothing else to wait for
        self._fail(reason)
        if self._transport is not None:
            self._transport.abort()

    def _gather(self, frames: Sequence[bytes]) -> None:
        """Have frames written in this round of the event loop, together with the others."""
        if not self._unsent:
            self._loop.call_soon(self._write)
        for frame in frames:
            self._unsent.append(frame)
            self._unsent_bytes += len(frame)
        if self._unsent_bytes >= GATHERED_BYTES_MAX:
            self._write()

    def _write(self) -> None:
        if self._unsent and self._transport is not None:
            frames, self._unsent, self._unsent_bytes = self._unsent, [], 0
            self._transport.write(b"".join(frames))

    def _set_expiry(self, at_s: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expire_at_s = at_s
        self._expiry = self._loop.call_at(at_s, self._expire)

    def _expire(self) -> None:
        """Give up what waits too long, and look again when the next may."""
        due_s = max(self._loop.time(), self._expire_at_s)
        next_s = sent_at_s = NEVER_S
        for opaque, request in list(self.waiting.items()):
            if request.deadline_s > due_s:
                next_s = min(next_s, request.deadline_s)
                continue
            del self.waiting[opaque]
            sent_at_s = min(sent_at_s, request.sent_at_s)
            if not request.answer.done():
                request.answer.set_exception(TimeoutError())
        self._expiry, self._expire_at_s = None, NEVER_S
        if next_s < NEVER_S:
            self._set_expiry(next_s)
        self.close_if_silent(sent_at_s)

    def _fail(self, reason: Reason) -> None:
        if self.closed_reason is not None:
            return
        self.closed_reason = reason
        self.is_ready = False
        self._writable.set()
        self._unsent.clear()
        if self._expiry is not None:
            self._expiry.cancel()
        waiting, self.waiting = self.waiting, {}
        for request in waiting.values():
            if not request.answer.done():
                request.answer.set_exception(BrokerUnavailable(self.addr, reason))
            if isinstance(request.answer, asyncio.Future) and not request.answer.cancelled():
                request.answer.exception()  # mark as seen: a cancelled waiter would leave it unread
        self._client.channel_ended(self)
