"""A live connection as the rest of the broker uses it: an address, a way to send, a way to request.

`server` implements it over a socket. The managers below keep channels as keys and never see asyncio.
"""

from __future__ import annotations

from typing import Protocol

from brokerd.remoting.command import RemotingCommand


class ChannelClosed(ConnectionError):
    """The connection went away before the peer answered."""


class Channel(Protocol):
    """One connection. Equality is identity."""

    remote_address: tuple[str, int]
    is_open: bool

    def send(self, command: RemotingCommand) -> None:
        """Write a frame; silently dropped when the connection is closed or the peer does not read."""

    def write(self, data: bytes) -> None:
        """Write ready frames; as `send`."""

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Send a request (opaque is assigned here) and await its answer; raises TimeoutError or ChannelClosed."""

    def close(self, reason: str) -> None:
        """Close after what was written is out; the reason is logged."""


def address_text(address: tuple[str, int]) -> str:
    """`host:port`, as connection lists show it."""
    return f"{address[0]}:{address[1]}"
