"""Command lines of the processes of `manage.py up`."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from console.process import programs
from console.process.programs import Options
from tests.support.redis_process import RedisProcess

OPTIONS = Options(Path("/d"), "127.0.0.1", 8000, 10911, 9876, demo=True)


def test_it_gives_brokerd_its_ports_store_and_file_size() -> None:
    assert {
        "listenPort=10911",
        "bindAddress=127.0.0.1",
        "namesrvListenPort=9876",
        "storePathRootDir=/d/store",
        "mappedFileSizeCommitLog=134217728",
    } <= set(programs.brokerd_program(OPTIONS).command)


def test_it_gives_the_second_broker_a_store_and_the_first_ones_name_server() -> None:
    command = set(programs.brokerd_program(OPTIONS, programs.SECOND_BROKER_NAME).command)
    wanted = {"brokerName=broker-b", "listenPort=10921", "namesrvAddr=127.0.0.1:9876"}
    assert wanted | {"storePathRootDir=/d/store-broker-b", "bindAddress=127.0.0.1"} <= command


def test_it_runs_the_second_broker_as_long_as_it_has_messages(tmp_path: Path) -> None:
    without_demo = replace(OPTIONS, data=tmp_path, demo=False)
    assert without_demo.broker_ports() == {"broker-a": 10911}
    programs.store_folder(tmp_path, programs.SECOND_BROKER_NAME).mkdir()
    assert without_demo.broker_ports() == {"broker-a": 10911, "broker-b": 10921}
    assert replace(OPTIONS, second_broker_port=5).broker_ports() == {"broker-a": 10911, "broker-b": 5}


def test_it_serves_sockets_without_deflate() -> None:
    command = " ".join(programs.web_program(OPTIONS).command)
    assert "console.asgi:application --host 127.0.0.1 --port 8000" in command
    assert "--ws-per-message-deflate false" in command
    assert "--no-proxy-headers" in command  # console.asgi decides whom to believe


def test_it_shows_an_address_one_can_open() -> None:
    everywhere = Options(Path("/d"), "0.0.0.0", 8000, 10911, 9876, demo=True)
    assert (everywhere.url, everywhere.namesrv) == ("http://127.0.0.1:8000", "127.0.0.1:9876")


def test_it_finds_a_redis_server_that_runs() -> None:
    assert os.access(programs.redis_server_binary(), os.X_OK)


async def test_it_knows_whether_redis_answers(redis_process: RedisProcess) -> None:
    assert await programs.redis_answers(redis_process.socket) is True
    assert await programs.redis_answers(redis_process.socket.with_name("nobody")) is False


@pytest.mark.parametrize(("status", "answers"), [("200 OK", True), ("503 Service Unavailable", False)])
async def test_it_knows_whether_a_site_answers(status: str, answers: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readline()) == b"GET /healthz HTTP/1.1\r\n"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await programs.http_answers(f"http://127.0.0.1:{port}", "/healthz") is answers


async def test_it_knows_that_nobody_answers() -> None:
    assert await programs.http_answers("http://127.0.0.1:1", "/healthz") is False
