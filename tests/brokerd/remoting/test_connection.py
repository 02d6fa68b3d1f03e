from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.remoting.command import RemotingCommand, SerializeType
from brokerd.remoting.connection import FRAME_BYTES_MAX, RemotingConnection
from brokerd.remoting.errors import FrameTooLarge, RemotingCommandError

COMMANDS = [
    RemotingCommand(310, opaque=1, ext_fields={"a": "P", "b": "T"}, body=b"hello"),
    RemotingCommand(34, opaque=2, body=b"{}", serialize_type=SerializeType.ROCKETMQ),
    RemotingCommand(0, "JAVA", opaque=1, flag=1, remark="ok"),
]
STREAM = b"".join(command.encode() for command in COMMANDS)
ENDS = [len(b"".join(command.encode() for command in COMMANDS[:count])) for count in range(4)]


def test_it_reads_commands_fed_whole() -> None:
    assert RemotingConnection().receive_data(STREAM) == COMMANDS


def test_it_reads_commands_fed_byte_by_byte() -> None:
    connection = RemotingConnection()
    came = [(end, connection.receive_data(STREAM[end - 1 : end])) for end in range(1, len(STREAM) + 1)]
    assert [(end, commands) for end, commands in came if commands] == [
        (ENDS[1], COMMANDS[:1]),
        (ENDS[2], COMMANDS[1:2]),
        (ENDS[3], COMMANDS[2:]),
    ]


def test_it_reads_commands_cut_anywhere() -> None:
    for cut in range(len(STREAM) + 1):
        connection = RemotingConnection()
        first = connection.receive_data(STREAM[:cut])
        whole = sum(end <= cut for end in ENDS[1:])
        assert first == COMMANDS[:whole], cut
        assert connection.buffered_bytes == cut - ENDS[whole], cut
        assert connection.receive_data(STREAM[cut:]) == COMMANDS[whole:], cut
        assert connection.buffered_bytes == 0, cut


@given(st.lists(st.integers(1, 40), max_size=40))
def test_it_reads_commands_cut_everywhere(sizes: list[int]) -> None:
    connection, commands, position = RemotingConnection(), [], 0
    for size in [*sizes, len(STREAM)]:
        commands += connection.receive_data(STREAM[position : position + size])
        position += size
    assert commands == COMMANDS


@pytest.mark.parametrize(
    "length",
    [FRAME_BYTES_MAX + 1, 0x16030102, 2**31 - 1, -1, -(2**31), 3, 0],
    ids=lambda length: f"length {length}",
)
def test_it_refuses_impossible_lengths_before_their_bytes_arrive(length: int) -> None:
    connection = RemotingConnection()
    with pytest.raises(FrameTooLarge) as caught:
        connection.receive_data(struct.pack(">i", length))
    assert (caught.value.length, caught.value.limit) == (length, 16 * 1024 * 1024)


def test_it_takes_a_frame_of_the_largest_size() -> None:
    header = b'{"code":1}'
    body = bytes(FRAME_BYTES_MAX - 4 - len(header))
    data = struct.pack(">iI", FRAME_BYTES_MAX, len(header)) + header + body
    assert RemotingConnection().receive_data(data)[0].body == body


def test_it_stays_unusable_after_an_error() -> None:
    connection = RemotingConnection()
    for _ in range(2):
        with pytest.raises(RemotingCommandError):
            connection.receive_data(b"\x00\x00\x00\x06\x00\x00\x00\x02xx")
        with pytest.raises(RemotingCommandError):
            connection.receive_data(STREAM)


def test_it_refuses_a_header_longer_than_its_frame() -> None:
    with pytest.raises(RemotingCommandError, match="header of 7 bytes in a frame of 6"):
        RemotingConnection().receive_data(b"\x00\x00\x00\x06\x00\x00\x00\x07{}")


def test_it_refuses_http_and_tls() -> None:
    for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
        with pytest.raises(RemotingCommandError):
            RemotingConnection().receive_data(data)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_it_raises_nothing_but_documented_errors(pieces: list[bytes]) -> None:
    connection = RemotingConnection()
    try:
        for piece in pieces:
            connection.receive_data(piece)
    except RemotingCommandError:
        return
    assert connection.buffered_bytes <= sum(map(len, pieces))


@given(st.binary(min_size=4, max_size=200))
def test_it_raises_nothing_else_for_framed_junk(junk: bytes) -> None:
    try:
        commands = RemotingConnection().receive_data(struct.pack(">i", len(junk)) + junk)
    except RemotingCommandError:
        return
    assert len(commands) == 1
