"""One connection without a socket: what is written when, and which answer each request gets."""

from __future__ import annotations

import asyncio

import pytest

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.connection import RemotingConnection
from consumers.client.channel import Channel
from consumers.config import RemotingClientConfig
from consumers.errors import BrokerUnavailable, Reason, TooManyRequests


class Owner:
    """A client that adds a field to its requests where that is switched on."""

    def __init__(self, **settings: int) -> None:
        self.config = RemotingClientConfig(**settings)
        self.changes_requests = False
        self.received: list[RemotingCommand] = []
        self.ended: list[Channel] = []

    def changed(self, command: RemotingCommand) -> RemotingCommand:
        command.ext_fields = {**command.ext_fields, "ns": "emea"}
        return command

    def receive_request(self, channel: Channel, command: RemotingCommand) -> None:
        self.received.append(command)

    def channel_ended(self, channel: Channel) -> None:
        self.ended.append(channel)


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is full here."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def abort(self) -> None:
        """There is no socket."""


class Own:
    """A request that writes its own frame."""

    def __init__(self) -> None:
        self.answer: object = None

    def frame(self, opaque: int) -> bytes:
        return RemotingCommand(310, opaque=opaque, body=b"own").encode()

    def command(self) -> RemotingCommand:
        return RemotingCommand(310, body=b"own")

    def done(self) -> bool:
        return self.answer is not None

    def set_result(self, response: RemotingCommand) -> None:
        self.answer = response.code

    def set_exception(self, error: Exception) -> None:
        self.answer = type(error)


def opened(owner: Owner) -> tuple[Channel, Transport]:
    channel, transport = Channel(owner, "broker:1"), Transport()
    assert not channel.is_ready
    channel.connection_made(transport)
    assert channel.is_ready
    return channel, transport


def written(transport: Transport) -> list[RemotingCommand]:
    return RemotingConnection().receive_data(b"".join(transport.writes))


@pytest.mark.parametrize("is_changed", [False, True])
async def test_own_frames_and_commands_of_one_round_are_one_write(is_changed: bool) -> None:
    owner = Owner()
    owner.changes_requests = is_changed
    channel, transport = opened(owner)
    channel.begin(Own(), 7, 10)
    channel.send([RemotingCommand(15, opaque=8)])
    assert transport.writes == []
    await asyncio.sleep(0)
    assert len(transport.writes) == 1
    first, second = written(transport)
    fields = {"ns": "emea"} if is_changed else {}
    assert (first.code, first.opaque, first.body, first.ext_fields) == (310, 7, b"own", fields)
    assert (second.code, second.opaque, second.ext_fields) == (15, 8, fields)


async def test_answers_go_to_their_requests_and_the_rest_to_the_owner() -> None:
    owner = Owner()
    channel, _ = opened(owner)
    own, future = Own(), channel.expect(8)
    channel.begin(own, 7, 10)
    came = [
        RemotingCommand(0, opaque=8, flag=1),
        RemotingCommand(40, opaque=7),
        RemotingCommand(10, opaque=7, flag=1),
    ]
    channel.data_received(b"".join(command.encode() for command in came))
    assert (own.answer, (await future).opaque, [each.code for each in owner.received]) == (10, 8, [40])
    assert channel.waiting == {}


async def test_what_finds_no_room_is_not_sent() -> None:
    channel, transport = opened(Owner(outstanding_requests_max=1))
    channel.begin(Own(), 1, 10)
    with pytest.raises(TooManyRequests):
        channel.begin(Own(), 2, 10)
    await asyncio.sleep(0)
    assert [command.opaque for command in written(transport)] == [1]


async def test_it_is_not_ready_while_the_socket_is_full_or_when_it_has_ended() -> None:
    owner = Owner()
    channel, _ = opened(owner)
    channel.pause_writing()
    assert not channel.is_ready
    channel.resume_writing()
    assert channel.is_ready
    own = Own()
    channel.begin(own, 1, 10)
    channel.close(Reason("this client is closing"))
    channel.resume_writing()
    assert (channel.is_ready, own.answer, owner.ended) == (False, BrokerUnavailable, [channel])
    with pytest.raises(BrokerUnavailable):
        channel.send([RemotingCommand(15)])
