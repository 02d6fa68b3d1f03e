"""Connections that brokerd opens: one request after another, and again over a new one when the peer was restarted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from brokerd.connections.link import RemotingLink
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.connection import RemotingConnection

Answer = Callable[[RemotingCommand], bytes]


@asynccontextmanager
async def peer(answer: Answer) -> AsyncIterator[tuple[RemotingLink, list[int]]]:
    """A peer that answers each request; b"" closes the connection. The list: requests of each connection."""
    requests: list[int] = []
    tasks: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        requests.append(0)
        frames, number = RemotingConnection(), len(requests) - 1
        while data := await reader.read(65_536):
            for command in frames.receive_data(data):
                requests[number] += 1
                reply = answer(command)
                writer.write(reply)
                if not reply:
                    writer.close()
                    return

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    link = RemotingLink(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", None)
    try:
        yield link, requests
    finally:
        link.close()
        server.close()
        await asyncio.gather(*(task for task in tasks if task is not None))


async def test_it_keeps_its_connection_and_matches_answers() -> None:
    def answer(command: RemotingCommand) -> bytes:
        stranger = RemotingCommand.request(1)
        stranger.opaque = command.opaque  # a request is no answer, whatever its number
        other = command.response(9)
        other.opaque += 1_000
        return stranger.encode() + other.encode() + command.response(0, str(command.code)).encode()

    async with peer(answer) as (link, requests):
        commands = [link.ask(RemotingCommand.request(code)) for code in (101, 102, 103)]
        assert [each.remark for each in await asyncio.gather(*commands)] == ["101", "102", "103"]
        assert requests == [3]


async def test_it_asks_again_over_a_new_connection_when_the_old_one_was_closed() -> None:
    codes: list[int] = []

    def answer(command: RemotingCommand) -> bytes:
        codes.append(command.code)
        return b"" if command.code == 2 and codes.count(2) < 2 else command.response(0).encode()

    async with peer(answer) as (link, requests):
        assert (await link.ask(RemotingCommand.request(1))).code == 0
        assert (await link.ask(RemotingCommand.request(2))).code == 0
        assert requests == [2, 1]


async def test_it_fails_when_the_first_connection_is_closed_or_silent() -> None:
    async with peer(lambda _: b"") as (link, requests):
        with pytest.raises(ConnectionError, match="closed the connection"):
            await link.ask(RemotingCommand.request(1))
        assert requests == [1]
    late = RemotingCommand.request(1)
    async with peer(lambda command: late.encode() if command.code == 1 else command.response(0).encode()) as (
        link,
        requests,
    ):
        with pytest.raises(TimeoutError):
            await link.ask(RemotingCommand.request(1), 0.05)
        assert (await link.ask(RemotingCommand.request(2))).code == 0
        assert requests == [1, 1], "a late answer must not meet the next request"
