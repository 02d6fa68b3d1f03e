"""A connection that this broker opens: to a name server, or to its master. Requests go one after another.

A peer that closed the connection since the request before (it was restarted) is connected to again at once: every
request sent here may be repeated.
"""

from __future__ import annotations

import asyncio
import ssl

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.connection import RemotingConnection
from brokerd.remoting.errors import RemotingError

REQUEST_TIMEOUT_S = 3.0
READ_BYTES = 65_536
# What a request to a peer raises when there is no answer.
UNANSWERED = (OSError, TimeoutError, RemotingError)


class RemotingLink:
    """One address. The connection is opened by the first request and stays open."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        self.address = address
        self._tls = tls
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._frames = RemotingConnection()
        self._lock = asyncio.Lock()
        self._opaque = 0

    async def ask(self, command: RemotingCommand, timeout_s: float = REQUEST_TIMEOUT_S) -> RemotingCommand:
        """Raise UNANSWERED; the connection is then opened anew at the next call."""
        async with self._lock:
            try:
                return await asyncio.wait_for(self._ask_again_if_closed(command), timeout_s)
            except BaseException:
                self.close()
                raise

    async def _ask_again_if_closed(self, command: RemotingCommand) -> RemotingCommand:
        if self._writer is not None:
            try:
                return await self._ask(command)
            except ConnectionError:
                self.close()
        return await self._ask(command)

    async def _ask(self, command: RemotingCommand) -> RemotingCommand:
        if self._writer is None:
            host, _, port = self.address.rpartition(":")
            self._frames = RemotingConnection()
            self._reader, self._writer = await asyncio.open_connection(host, int(port), ssl=self._tls)
        assert self._reader is not None
        self._opaque += 1
        command.opaque = self._opaque
        self._writer.write(command.encode())
        while True:
            data = await self._reader.read(READ_BYTES)
            if not data:
                raise ConnectionError(f"{self.address} closed the connection")
            for response in self._frames.receive_data(data):
                if response.is_response and response.opaque == command.opaque:
                    return response

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
