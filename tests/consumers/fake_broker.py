"""A broker in this process that answers as a test tells it: real sockets and frames, no RocketMQ behind
them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.connection import RemotingConnection

# Gets a request, gives the answer; None: never answers.
Answer = Callable[[RemotingCommand], Awaitable[RemotingCommand | None] | RemotingCommand | None]

NOT_SERVED = 9_999  # a request code of which a client answers that it does not support it


class FakeBroker:
    """`async with FakeBroker() as broker: broker.answers[10] = lambda command: command.response(0)`."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.answers: dict[int, Answer] = {}
        self.received: list[RemotingCommand] = []
        self.responses: list[RemotingCommand] = []  # what clients answered to our requests
        self.writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def addr(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> FakeBroker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.drop_connections()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def drop_connections(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    def push(self, command: RemotingCommand) -> None:
        """Send a request to the client that connected last."""
        self.writers[-1].write(command.encode())

    async def until_answers_are_read(self) -> None:
        """Wait until the client has read all answers to what it sent so far: it answers a request behind them."""
        await asyncio.gather(*self._tasks)
        self.push(RemotingCommand.request(NOT_SERVED, {}))
        await wait_until(lambda: bool(self.responses))

    def write_raw(self, data: bytes) -> None:
        self.writers[-1].write(data)

    def codes(self) -> list[int]:
        return [command.code for command in self.received]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        connection = RemotingConnection()
        while data := await self._read(reader):
            for command in connection.receive_data(data):
                if command.is_response:
                    self.responses.append(command)
                    continue
                self.received.append(command)
                task = asyncio.create_task(self._answer(command, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.read(65_536)
        except (ConnectionError, asyncio.CancelledError):
            return b""

    async def _answer(self, command: RemotingCommand, writer: asyncio.StreamWriter) -> None:
        answer = self.answers.get(command.code)
        if answer is None:
            response: RemotingCommand | None = command.response(
                3, f" request type {command.code} not supported"
            )
        else:
            outcome = answer(command)
            response = await outcome if isinstance(outcome, Awaitable) else outcome
        if response is not None and not command.is_oneway:
            writer.write(response.encode())


def pass_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time of the event loop be later than each deadline of a request, however slow the machine."""
    loop = asyncio.get_running_loop()
    now_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: now_s() + 60)


async def wait_until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    """Fails the test when the condition does not come true in time."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {within_s} s")
        await asyncio.sleep(0.005)
