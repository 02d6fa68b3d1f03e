"""Connections: frames in pieces, malformed bytes, limits, idle peers, unknown codes."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from pathlib import Path

import pytest

from brokerd.connections import server
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.tables.topic_config import topic_config
from tests.brokerd.running import RawClient, running, send_fields


def frame(code: int, opaque: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    command = RemotingCommand.request(code, fields, body)
    command.opaque = opaque
    return command.encode()


async def test_it_understands_frames_that_come_byte_by_byte(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        reader, writer = await asyncio.open_connection(*broker.controller.address.split(":"))
        for byte in frame(RequestCode.SEND_MESSAGE_V2, 7, send_fields("T"), b"hello"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        length = int.from_bytes(await reader.readexactly(4), "big")
        answer = await reader.readexactly(length)
        assert b'"opaque":7' in answer
        assert b'"queueOffset":"0"' in answer
        writer.close()


async def test_it_answers_many_requests_of_one_read_in_order(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        broker.broker.topics.put(topic_config("T", 4, 6), 0)
        reader, writer = await asyncio.open_connection(*broker.controller.address.split(":"))
        data = b"".join(
            frame(RequestCode.SEND_MESSAGE_V2, i, send_fields("T"), b"x" * i) for i in range(1, 101)
        )
        writer.write(data[:5000])
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(data[5000:])
        offsets = []
        for i in range(1, 101):
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            assert f'"opaque":{i},'.encode() in answer
            offsets.append(answer.split(b'"queueOffset":"')[1].split(b'"')[0])
        assert offsets == [str(i).encode() for i in range(100)]
        writer.close()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "frame length 1195725856 is not within"),
        (b"\x00\x00\x00\x02\x00\x00", "frame length 2 is not within"),
        (struct.pack(">iI", 4, 9), "header of 9 bytes in a frame of 4"),
        (struct.pack(">iI", 8, 4) + b"{oo}", "JSON header"),
        (struct.pack(">iI", 8, 5 << 24 | 4) + b"abcd", "unknown serialize type 5"),
    ],
)
async def test_it_closes_only_the_connection_with_a_malformed_frame(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes, says: str
) -> None:
    async with running(tmp_path) as broker:
        good, bad = await broker.client(), await broker.client()
        with caplog.at_level(logging.WARNING):
            bad.write(data)
            await asyncio.wait_for(bad.is_closed.wait(), 60)
        assert sum(says in record.getMessage() for record in caplog.records) == 1
        assert (await good.ask(RequestCode.GET_BROKER_CONFIG)).code == 0


async def test_it_answers_what_came_before_a_malformed_frame(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        broker.broker.topics.put(topic_config("T", 4, 6), 0)
        reader, writer = await asyncio.open_connection(*broker.controller.address.split(":"))
        writer.write(frame(RequestCode.SEND_MESSAGE_V2, 1, send_fields("T"), b"kept") + b"\xff" * 8)
        received = await asyncio.wait_for(reader.read(), 60)
        assert b'"queueOffset":"0"' in received
        writer.close()


async def test_it_says_which_code_it_does_not_know(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client, namesrv = await broker.client(), await broker.namesrv_client()
        for peer in (client, namesrv):
            answer = await peer.ask(9999)
            assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


async def test_it_does_not_answer_one_way_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        reader, writer = await asyncio.open_connection(*broker.controller.address.split(":"))
        for code, fields in ((9999, {}), (RequestCode.SEND_MESSAGE_V2, send_fields("T"))):
            command = RemotingCommand.request(code, dict(fields), b"x", oneway=True)
            writer.write(command.encode())
        writer.write(frame(RequestCode.GET_MAX_OFFSET, 5, {"topic": "T", "queueId": "0"}))
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        assert b'"opaque":5' in answer
        assert b'"offset":"1"' in answer
        writer.close()


async def test_it_handles_all_that_a_peer_sent_before_it_left(tmp_path: Path) -> None:
    """The first message of each queue waits for its files, those behind it with it; its answer finds no reader."""
    async with running(tmp_path) as broker:
        broker.broker.topics.put(topic_config("T", 4, 6), 0)
        with socket.create_connection(broker.controller.address.split(":")) as leaving:
            for i in range(200):
                fields = send_fields("T", queue_id=i % 4)
                leaving.sendall(frame(RequestCode.SEND_MESSAGE_V2, i, fields, b"x"))
        async with asyncio.timeout(60):
            while [broker.broker.store.max_offset("T", queue_id) for queue_id in range(4)] != [50] * 4:
                await asyncio.sleep(0.01)
            while broker.controller._broker_server.connections:
                await asyncio.sleep(0.01)


async def test_it_refuses_connections_beyond_its_limit(tmp_path: Path) -> None:
    async with running(tmp_path, serverMaxConnections="2") as broker:
        first, second = await broker.client(), await broker.client()
        third = await broker.client()
        await asyncio.wait_for(third.is_closed.wait(), 60)
        for client in (first, second):
            assert (await client.ask(RequestCode.GET_BROKER_CONFIG)).code == 0


async def test_it_closes_idle_connections(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await client.ask(RequestCode.GET_BROKER_CONFIG)
        server = broker.controller._broker_server
        (connection,) = server.connections
        server.close_idle(connection.last_read_ms + 120_000)
        assert not client.is_closed.is_set()
        server.close_idle(connection.last_read_ms + 120_001)
        await asyncio.wait_for(client.is_closed.wait(), 60)


async def test_it_stops_reading_from_a_peer_that_does_not_read(tmp_path: Path) -> None:
    """Answers pile up to the write limit, then the peer's requests wait; once it reads, all are answered."""
    async with running(tmp_path) as broker:
        client = await broker.client()
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x" * 200_000)
        reader, writer = await asyncio.open_connection(*broker.controller.address.split(":"), limit=1024)
        fields = {"offset": "0"}
        count = 200
        for i in range(count):
            writer.write(frame(RequestCode.VIEW_MESSAGE_BY_ID, i, fields))
            await writer.drain()
            await asyncio.sleep(0.002)
        unread_bytes = max(
            connection._transport.get_write_buffer_size()  # type: ignore[union-attr]
            for connection in broker.controller._broker_server.connections
        )
        assert 5_000_000 < unread_bytes < 12_000_000  # of 40 MB
        # The broker serves others meanwhile.
        assert (await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})).code == 0
        for _ in range(count):
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        writer.close()


async def test_it_answers_a_thousand_requests_of_one_read_a_part_at_a_time(tmp_path: Path) -> None:
    """One small read can ask for gigabytes; what is not answered yet takes no memory."""
    async with running(tmp_path) as broker:
        client = await broker.client()
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x" * 200_000)
        reader, writer = await asyncio.open_connection(*broker.controller.address.split(":"), limit=1024)
        count = 300  # 60 MB of answers for 30 kB of requests
        writer.write(
            b"".join(frame(RequestCode.VIEW_MESSAGE_BY_ID, i, {"offset": "0"}) for i in range(count))
        )
        assert (await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})).code == 0
        most = 0
        for i in range(count):
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            assert b'"opaque":%d,' % i in answer
            most = max(
                most,
                *(
                    connection._transport.get_write_buffer_size()  # type: ignore[union-attr]
                    for connection in broker.controller._broker_server.connections
                ),
            )
        assert 1_000_000 < most < 20_000_000
        writer.close()


async def test_who_holds_most_of_unfinished_requests_gives_up_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "UNFINISHED_BYTES_MAX", 1_000_000)
    async with running(tmp_path) as broker:
        whole = frame(RequestCode.SEND_MESSAGE_V2, 1, send_fields("T"), b"x" * 700_000)
        greedy, newcomer = await broker.client(), await broker.client()
        listener = broker.controller._broker_server
        greedy.write(whole[:600_000])
        while listener.unfinished_bytes < 600_000:
            await asyncio.sleep(0.01)
        newcomer.write(whole[:500_000])
        await asyncio.wait_for(greedy.is_closed.wait(), 30)
        while listener.unfinished_bytes != 500_000:
            await asyncio.sleep(0.01)
        newcomer.write(whole[500_000:])
        assert [answer.code for answer in await received(newcomer, 1)] == [0]
        assert listener.unfinished_bytes == 0


async def test_half_sent_frames_keep_no_other_client_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """32 clients that stop amid frames of 1 MiB, where there is room for 16: another one's frames go through."""
    monkeypatch.setattr(server, "UNFINISHED_BYTES_MAX", 16 * 1024 * 1024)
    monkeypatch.setattr(server, "UNFINISHED_OF_ADDRESS_BYTES_MAX", 16 * 1024 * 1024)
    async with running(tmp_path) as broker:
        half = frame(RequestCode.SEND_MESSAGE_V2, 1, send_fields("T"), b"x" * 1024 * 1024)[:-1]
        for _ in range(32):
            (await broker.client()).write(half)
        good = await broker.client()
        for _ in range(10):
            answer = await good.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x" * 700_000)
            assert answer.code == 0
        assert broker.controller._broker_server.unfinished_bytes <= 16 * 1024 * 1024


async def writer_with_little_to_receive(address: str) -> asyncio.StreamWriter:
    """Return a connection whose side of the kernel keeps at most some 100 KB that its program does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    host, port = address.split(":")
    connection.connect((host, int(port)))
    connection.setblocking(False)
    _, writer = await asyncio.open_connection(sock=connection, limit=1024)
    return writer


async def test_who_leaves_most_answers_unread_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "UNREAD_BYTES_MAX", 8_000_000)
    monkeypatch.setattr(server, "UNREAD_LOOK_BYTES", 1_000_000)
    async with running(tmp_path) as broker:
        good = await broker.client()
        await good.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x" * 200_000)
        listener = broker.controller._broker_server
        writers = [await writer_with_little_to_receive(broker.controller.address) for _ in range(4)]
        while len(listener.connections) < 5:
            await asyncio.sleep(0.01)
        # What the kernel takes, 4 MB to send on Linux, is read as far as the broker knows.
        for writer, requests in zip(writers, (100, 10, 10, 10), strict=True):
            for i in range(requests):
                writer.write(frame(RequestCode.VIEW_MESSAGE_BY_ID, i, {"offset": "0"}))
        while len(listener.connections) > 4:
            assert (await good.ask(RequestCode.GET_BROKER_CONFIG)).code == 0
            await asyncio.sleep(0.01)
        unread = sorted(connection.unread_bytes for connection in listener.connections)
        assert sum(unread) <= 8_000_000
        assert unread[-1] < 4_000_000  # the one with 20 MB is gone
        for writer in writers:
            writer.close()


async def received(client: RawClient, count: int) -> list[RemotingCommand]:
    while len(client.received) < count:
        await asyncio.sleep(0.01)
    return client.received


async def test_it_speaks_binary_headers(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        sent = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x", binary=True)
        assert (sent.code, sent.ext_fields["queueOffset"]) == (0, "0")
        answer = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}, binary=True)
        assert answer.ext_fields == {"offset": "1"}


async def test_it_drops_a_held_pull_with_its_connection(tmp_path: Path) -> None:
    from tests.brokerd.running import pull_fields

    async with running(tmp_path) as broker:
        client = await broker.client()
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x")
        waiting = await RawClient.connect(broker.controller.address)
        waiting.send(RemotingCommand.request(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 1, flags=6)))
        await asyncio.sleep(0.1)
        assert broker.broker.hold.count == 1
        await waiting.close()
        await asyncio.sleep(0.1)
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"y")
        assert broker.broker.hold.count == 0


async def test_it_cuts_a_closed_connection_whose_peer_never_reads(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x" * 200_000)
        _, writer = await asyncio.open_connection(*broker.controller.address.split(":"), limit=1024)
        for i in range(100):
            writer.write(frame(RequestCode.VIEW_MESSAGE_BY_ID, i, {"offset": "0"}))
            await asyncio.sleep(0.002)
        server = broker.controller._broker_server
        (stuck,) = [each for each in server.connections if each._transport.get_write_buffer_size()]  # type: ignore[union-attr]
        server.close_idle(stuck.last_read_ms + 121_000)
        await asyncio.sleep(0.05)
        assert stuck in server.connections  # its answers are still waiting
        server.close_idle(stuck.last_read_ms + 131_000)
        await asyncio.sleep(0.05)
        assert stuck not in server.connections
        writer.close()
