"""A channel that keeps what is sent to it: for parts of the broker that need a peer but no socket."""

from __future__ import annotations

from brokerd.remoting.command import RemotingCommand, decode_frame


class MemoryChannel:
    """Implements brokerd.connections.channel.Channel and the dispatcher's Peer in memory."""

    def __init__(self, host: str = "127.0.0.1", port: int = 50_000) -> None:
        self.remote_address = (host, port)
        self.is_open = True
        self.last_read_ms = 0
        self.written: list[bytes] = []
        self.closed_for = ""
        self.answers: list[RemotingCommand] = []
        self.responses: list[RemotingCommand] = []

    def send(self, command: RemotingCommand) -> None:
        self.write(command.encode())

    def write(self, data: bytes) -> None:
        self.written.append(data)

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        self.send(command)
        if not self.responses:
            raise TimeoutError
        return self.responses.pop(0)

    def answered(self, response: RemotingCommand) -> None:
        self.answers.append(response)

    def wait(self) -> None:
        raise AssertionError("what reads no socket cannot wait for a queue: make it before")

    def go_on(self) -> None:
        pass

    def close(self, reason: str) -> None:
        self.closed_for = reason
        self.is_open = False

    @property
    def sent(self) -> list[RemotingCommand]:
        return [decode_frame(frame[4:]) for frame in self.written]
