"""The second port of a broker, listenPort - 2: the same requests, TLS as on the first, refused where it is taken."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from brokerd.config import BrokerConfig, ConfigError, NamesrvConfig, check
from brokerd.connections.server import PortTaken
from brokerd.remoting.codes import RequestCode
from tests.brokerd.running import RawClient, heartbeat, pull_fields, running, send_fields
from tests.support.certificates import Authority, Issued
from tests.support.ports import free_port


async def test_it_serves_the_same_requests(tmp_path: Path, authority: Authority, server: Issued) -> None:
    port = free_port(neighbours=(-2,))
    settings = {"listenPort": str(port), "vipPortEnable": "true", **server.server_settings}
    async with running(tmp_path, **settings) as broker:
        address = f"127.0.0.1:{port - 2}"
        encrypted, plain = (
            await RawClient.connect(address, authority.client_context()),
            await RawClient.connect(address),
        )
        for number, client in enumerate((encrypted, plain)):
            sent = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x")
            assert (sent.code, sent.ext_fields["queueOffset"]) == (0, str(number))
            assert (
                await client.ask(RequestCode.HEART_BEAT, body=heartbeat(f"c{number}", "g", "T"))
            ).code == 0
        members = broker.broker.consumers.get("g")
        assert members is not None and len(members.members) == 2
        pulled = await (await broker.client()).ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0))
        assert pulled.code == 0
        await plain.close()
        await encrypted.close()


async def test_it_is_off_unless_set(tmp_path: Path) -> None:
    port = free_port(neighbours=(-2,))
    async with running(tmp_path, listenPort=str(port)):
        with pytest.raises(ConnectionRefusedError):
            await RawClient.connect(f"127.0.0.1:{port - 2}")


async def test_it_names_the_port_that_is_taken_and_the_way_out(tmp_path: Path) -> None:
    port = free_port(neighbours=(-2,))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port - 2))
        taken.listen()
        with pytest.raises(PortTaken) as caught:
            async with running(tmp_path, listenPort=str(port), vipPortEnable="true"):
                pass
    assert caught.value.strerror == (
        f"port {port - 2} (listenPort or vipPortEnable) is taken by another process: stop it or set "
        "listenPort or vipPortEnable"
    )


def test_it_refuses_a_port_without_another_below() -> None:
    with pytest.raises(ConfigError, match="listenPort=2: vipPortEnable takes listenPort - 2"):
        check(BrokerConfig(listen_port=2, vip_port_enable=True), NamesrvConfig())
