"""RemotingClient: one connection per address, many requests at once on each, requests of brokers to us.

Holds sockets and the matching of answers to requests; reads frames (brokerd.remoting) but no meaning of any
code.
The bytes are the protocol's section 1; limits and life follow NettyRemotingClient.

Life of a connection: the first request to an address connects. After a failed connect, requests to that
address fail at once with the last reason until the back-off delay is over; then the next request tries again.
When a connection ends, everything that waited on it fails with BrokerUnavailable.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.signature import sign
from consumers.client.channel import NEVER_S, Channel, OwnRequest
from consumers.config import RemotingClientConfig
from consumers.errors import (
    BrokerUnavailable,
    ClientClosed,
    MQClientError,
    Reason,
    RemotingTimeout,
)

logger = logging.getLogger(__name__)

OPAQUE_MAX = 2**31 - 1
# Requests of one bulk call that wait at once: enough to hide the round trip, few enough that a broker's other
# clients are not kept waiting behind us.
PIPELINE_WINDOW = 128
# Requests of a broker to this client: (command, address) → answer, or None when it was one-way.
RequestProcessor = Callable[[RemotingCommand, str], Awaitable[RemotingCommand | None]]
# The first frame on a new connection (a heartbeat), or None.
Greeting = Callable[[str], RemotingCommand | None]


def parse_addr(addr: str) -> tuple[str, int]:
    """ "host:port" or "[v6]:port" → (host, port).

    Raises BrokerUnavailable: such an address can never be reached.
    """
    host, _, port = addr.strip().rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise BrokerUnavailable(addr, Reason("the address is not host:port"))
    return host.strip("[]"), int(port)


@dataclass(slots=True)
class _Backoff:
    """Why the last connect failed, and when the next may be tried."""

    reason: Reason
    delay_ms: int
    retry_at_s: float


class RemotingClient:
    """Shared by everything in one client: producers, consumers, admin. Belongs to one event loop."""

    def __init__(self, config: RemotingClientConfig | None = None) -> None:
        self.config = config or RemotingClientConfig()
        self.processors: dict[int, RequestProcessor] = {}
        # What the header of every request has beside its own fields.
        self.request_fields: Mapping[str, str] = {}
        self.greeting: Greeting | None = None
        self.connection_ended: Callable[[str], None] | None = None
        self._channels: dict[str, Channel] = {}
        self._connecting: dict[str, asyncio.Task[Channel]] = {}
        self._backoffs: dict[str, _Backoff] = {}
        self._server_requests: set[asyncio.Task[None]] = set()
        self._opaques = itertools.count(1)
        self._is_closed = False

    def __repr__(self) -> str:
        waiting = sum(len(channel.waiting) for channel in self._channels.values())
        return f"<RemotingClient {len(self._channels)} connections, {waiting} requests waiting>"

    async def invoke(
        self,
        addr: str,
        command: RemotingCommand,
        timeout_ms: int | None = None,
        *,
        send_until_s: float = NEVER_S,
    ) -> RemotingCommand:
        """Send one request and return its answer, whatever its code.

        After ``send_until_s`` of the monotonic clock nothing is sent; that is a RemotingTimeout too.
        Raises BrokerUnavailable, RemotingTimeout (connecting counts), TooManyRequests, ClientClosed.
        """
        timeout_ms = self.config.invoke_timeout_ms if timeout_ms is None else timeout_ms
        command.opaque = self._next_opaque()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        channel = self._channels.get(addr)
        try:
            if channel is None or not channel.is_ready:
                channel = await self._ready_channel(addr, deadline_s)
            # Directly before the frame is written: this process may have been frozen anywhere before.
            if time.monotonic() >= send_until_s:
                raise TimeoutError
            future = channel.expect(command.opaque, deadline_s)
            channel.send((command,), is_urgent=send_until_s < NEVER_S)
            return await future
        except TimeoutError:
            raise RemotingTimeout(addr, command.code, timeout_ms) from None
        finally:
            if channel is not None:
                channel.waiting.pop(command.opaque, None)

    def begin(self, addr: str, request: OwnRequest, timeout_ms: int) -> bool:
        """Send one request now; False, and it is not sent, where it would have to wait for the connection.

        Its answer may be BrokerUnavailable or, after `timeout_ms`, TimeoutError. Raises TooManyRequests, ValueError.
        """
        channel = self._channels.get(addr)
        if channel is None or not channel.is_ready:
            return False
        channel.begin(request, self._next_opaque(), timeout_ms / 1000)
        return True

    async def invoke_many(
        self,
        addr: str,
        commands: Sequence[RemotingCommand],
        timeout_ms: int | None = None,
        *,
        window: int = PIPELINE_WINDOW,
    ) -> list[RemotingCommand | MQClientError]:
        """Send many requests on one connection in their order; the answers come in the same order.

        `window` of them are unanswered at a time.

        Two halves of that size are under way together, so that the broker works on one while we read the
        answers of the other: measured, 1.2 times as many sends a second. `timeout_ms` is for each half.
        A request without answer yields its error in its place; nothing is raised.
        """
        size = max(1, window // 2)
        answers: list[RemotingCommand | MQClientError] = []
        under_way: deque[asyncio.Task[list[RemotingCommand | MQClientError]]] = deque()
        try:
            for start in range(0, len(commands), size):
                if len(under_way) == 2:
                    answers += await under_way.popleft()
                half = self._invoke_window(addr, commands[start : start + size], timeout_ms)
                under_way.append(asyncio.create_task(half))
            while under_way:
                answers += await under_way.popleft()
        finally:
            for task in under_way:  # Cancelled: the rest is not needed.
                task.cancel()
        return answers

    async def invoke_oneway(self, addr: str, command: RemotingCommand, timeout_ms: int | None = None) -> None:
        """Send a request without an answer (`command` has the one-way flag).

        Returns when it is written to the socket.

        Raises BrokerUnavailable, RemotingTimeout (while connecting or while the socket is full),
        ClientClosed.
        """
        assert command.is_oneway, command.code
        timeout_ms = self.config.invoke_timeout_ms if timeout_ms is None else timeout_ms
        command.opaque = self._next_opaque()
        channel = self._channels.get(addr)
        if channel is None or not channel.is_ready:
            deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000
            try:
                channel = await self._ready_channel(addr, deadline_s)
            except TimeoutError:
                raise RemotingTimeout(addr, command.code, timeout_ms) from None
        channel.send((command,))

    def connected_addrs(self) -> list[str]:
        return sorted(addr for addr, channel in self._channels.items() if channel.is_open)

    def disconnect(self, addr: str, reason: Reason) -> None:
        """End the connection to an address that no route names any more, if there is one."""
        channel = self._channels.get(addr)
        if channel is not None:
            channel.close(reason)

    async def close(self) -> None:
        """End all connections; whatever waits fails with BrokerUnavailable.

        Further calls raise ClientClosed.
        """
        self._is_closed = True
        tasks = [*self._connecting.values(), *self._server_requests]
        for task in tasks:
            task.cancel()
        for channel in list(self._channels.values()):
            channel.close(Reason("this client is closing"))
        await asyncio.gather(*tasks, return_exceptions=True)

    # called by Channel

    @property
    def changes_requests(self) -> bool:
        """Whether requests are signed, or have further fields."""
        return self.config.keys is not None or bool(self.request_fields)

    def changed(self, command: RemotingCommand) -> RemotingCommand:
        """Return a request signed, with the fields that all have; a response as it is."""
        if not command.is_response:
            if self.request_fields:
                command.ext_fields = {**command.ext_fields, **self.request_fields}
            if self.config.keys is not None:
                sign(command, self.config.keys)
        return command

    def receive_request(self, channel: Channel, command: RemotingCommand) -> None:
        """Serve a broker's request, in a task of its own.

        Answers to our requests must not wait for it.
        """
        processor = self.processors.get(command.code)
        if processor is None:
            refusal = f" request type {command.code} not supported"
            self._answer(channel, command, command.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, refusal))
        elif len(self._server_requests) >= self.config.server_requests_max:
            busy = f"[OVERLOAD]{len(self._server_requests)} requests are being worked on"
            self._answer(channel, command, command.response(ResponseCode.SYSTEM_BUSY, busy))
        else:
            task = asyncio.get_running_loop().create_task(self._process(channel, processor, command))
            self._server_requests.add(task)
            task.add_done_callback(self._server_requests.discard)

    def channel_ended(self, channel: Channel) -> None:
        if self._channels.get(channel.addr) is channel:
            del self._channels[channel.addr]
            logger.info("connection ended addr=%s reason=%s", channel.addr, channel.closed_reason)
            if self.connection_ended is not None and not self._is_closed:
                self.connection_ended(channel.addr)

    # inside

    def _next_opaque(self) -> int:
        return next(self._opaques) & OPAQUE_MAX

    async def _ready_channel(self, addr: str, deadline_s: float) -> Channel:
        """As `_channel`, when its socket takes more. Raises TimeoutError at the loop's time `deadline_s`."""
        async with asyncio.timeout_at(deadline_s):
            channel = await self._channel(addr)
            await channel.wait_writable()
            return channel

    async def _channel(self, addr: str) -> Channel:
        """Return the open connection to `addr`; callers that come while it is being made share the attempt."""
        if self._is_closed:
            raise ClientClosed("the remoting client is closed")
        channel = self._channels.get(addr)
        if channel is not None and channel.is_open:
            return channel
        task = self._connecting.get(addr)
        if task is None:
            loop = asyncio.get_running_loop()
            backoff = self._backoffs.get(addr)
            if backoff is not None and loop.time() < backoff.retry_at_s:
                raise BrokerUnavailable(addr, backoff.reason)
            task = loop.create_task(self._connect(addr))
            self._connecting[addr] = task
            task.add_done_callback(lambda done: self._connect_done(addr, done))
        return await asyncio.shield(task)

    async def _connect(self, addr: str) -> Channel:
        host, port = parse_addr(addr)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.config.connect_timeout_ms / 1000):
                _, channel = await loop.create_connection(
                    lambda: Channel(self, addr), host, port, ssl=self.config.ssl_context
                )
        except (OSError, TimeoutError) as error:
            reason = self._connect_failed(addr, error, loop.time())
            raise BrokerUnavailable(addr, reason) from error
        if self._backoffs.pop(addr, None) is not None:
            logger.info("connected again addr=%s", addr)
        self._channels[addr] = channel
        self._greet(channel)
        return channel

    def _connect_failed(self, addr: str, error: Exception, now_s: float) -> Reason:
        """Record the failure; the delay doubles each time. Returns the reason in words."""
        if isinstance(error, TimeoutError):
            reason = Reason("no connection within %(number)s ms", {"number": self.config.connect_timeout_ms})
        else:
            reason = Reason("cannot connect: %(why)s", {"why": _cause(error)})
        before = self._backoffs.get(addr)
        if before is None:
            logger.warning("cannot connect addr=%s reason=%s", addr, reason)
            delay_ms = self.config.reconnect_delay_min_ms
        else:
            delay_ms = min(before.delay_ms * 2, self.config.reconnect_delay_max_ms)
        self._backoffs[addr] = _Backoff(reason, delay_ms, now_s + delay_ms / 1000)
        return reason

    def _connect_done(self, addr: str, task: asyncio.Task[Channel]) -> None:
        self._connecting.pop(addr, None)
        if not task.cancelled():
            task.exception()  # callers may have timed out: it would stay unread

    def _greet(self, channel: Channel) -> None:
        """Write the first frame before any caller's.

        So the broker has the client: a pull needs its heartbeat.
        """
        command = self.greeting(channel.addr) if self.greeting is not None else None
        if command is None:
            return
        command.opaque = self._next_opaque()
        future = channel.expect(command.opaque)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        channel.send((command,))

    async def _invoke_window(
        self, addr: str, commands: Sequence[RemotingCommand], timeout_ms: int | None
    ) -> list[RemotingCommand | MQClientError]:
        timeout_ms = self.config.invoke_timeout_ms if timeout_ms is None else timeout_ms
        sent_at_s = NEVER_S
        futures: list[asyncio.Future[RemotingCommand]] = []
        channel: Channel | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                channel = await self._channel(addr)
                await channel.wait_writable()
                sent_at_s = asyncio.get_running_loop().time()
                for command in commands:
                    command.opaque = self._next_opaque()
                    futures.append(channel.expect(command.opaque))
                channel.send(commands)
                await asyncio.wait(futures)
        except TimeoutError:
            if channel is not None:
                channel.close_if_silent(sent_at_s)  # those that are not done are named below
        except MQClientError as error:
            return [error] * len(commands)
        finally:
            if channel is not None:
                for command in commands:
                    channel.waiting.pop(command.opaque, None)
        if len(futures) < len(commands):
            return [RemotingTimeout(addr, command.code, timeout_ms) for command in commands]
        pairs = zip(commands, futures, strict=True)
        return [
            _outcome(future, RemotingTimeout(addr, command.code, timeout_ms)) for command, future in pairs
        ]

    async def _process(self, channel: Channel, processor: RequestProcessor, command: RemotingCommand) -> None:
        try:
            response = await processor(command, channel.addr)
        except Exception as error:  # root of a task: the requesting broker must get an answer
            logger.exception("request from broker failed addr=%s code=%d", channel.addr, command.code)
            response = command.response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if response is not None:
            self._answer(channel, command, response)

    def _answer(self, channel: Channel, request: RemotingCommand, response: RemotingCommand) -> None:
        if request.is_oneway:
            return
        try:
            channel.send((response,))
        except BrokerUnavailable as error:
            logger.info("answer not sent code=%d: %s", request.code, error)


def _cause(error: Exception) -> str:
    """Return why a connect failed, without the address: sentences have it already, asyncio and ssl repeat it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error)


def _outcome(
    future: asyncio.Future[RemotingCommand], otherwise: RemotingTimeout
) -> RemotingCommand | MQClientError:
    if not future.done() or future.cancelled():
        return otherwise
    error = future.exception()
    if error is None:
        return future.result()
    assert isinstance(error, MQClientError), error
    return error
