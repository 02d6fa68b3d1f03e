"""`python -m brokerd namesrv` with brokers of ours behind it, all real processes that are killed and come back."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from brokerd.remoting.body.route import ClusterInfo, GetBrokerMemberGroupResponseBody, TopicRouteData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from tests.brokerd.running import RawClient, send_fields
from tests.support.broker_process import BrokerProcess, NameServerProcess

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


@pytest.fixture
def name_server(tmp_path: Path) -> Iterator[NameServerProcess]:
    process = NameServerProcess(tmp_path / "ns").start()
    yield process
    process.stop()


@pytest.fixture
def brokers(tmp_path: Path, name_server: NameServerProcess) -> Iterator[dict[str, BrokerProcess]]:
    """Two brokers of one cluster; the second also registers at a name server that does not exist."""
    started = {}
    for name, addresses in (("a", name_server.namesrv), ("b", f"127.0.0.1:1;{name_server.namesrv}")):
        started[name] = BrokerProcess(tmp_path / name, brokerName=name, namesrvAddr=addresses).start()
    yield started
    for process in started.values():
        process.stop()


@pytest.fixture
async def namesrv(name_server: NameServerProcess) -> AsyncIterator[RawClient]:
    client = await RawClient.connect(name_server.namesrv)
    yield client
    await client.close()


async def until(namesrv: RawClient, topic: str, holds: Callable[[RemotingCommand], bool]) -> RemotingCommand:
    """Return the topic's route once it is as wanted."""
    async with asyncio.timeout(30):
        while not holds(answer := await namesrv.ask(ROUTE, {"topic": topic})):
            await asyncio.sleep(0.02)
    return answer


def names(answer: RemotingCommand) -> set[str]:
    if answer.code:
        return set()
    return {data.broker_name for data in TopicRouteData.from_body(answer.body).broker_datas}


async def test_brokers_of_one_cluster_join_and_leave(
    namesrv: RawClient, name_server: NameServerProcess, brokers: dict[str, BrokerProcess]
) -> None:
    await until(namesrv, "TBW102", lambda answer: names(answer) == {"a", "b"})
    for broker in brokers.values():
        client = await RawClient.connect(broker.address)
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Fresh"), b"x")).code == 0
        await client.close()
    await until(namesrv, "Fresh", lambda answer: names(answer) == {"a", "b"})
    info = ClusterInfo.from_body((await namesrv.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
    assert info.cluster_addr_table == {"DefaultCluster": ["a", "b"]}
    members = await namesrv.ask(
        RequestCode.GET_BROKER_MEMBER_GROUP, {"clusterName": "DefaultCluster", "brokerName": "a"}
    )
    group = GetBrokerMemberGroupResponseBody.from_body(members.body).broker_member_group
    assert (group.cluster, group.broker_name, group.broker_addrs) == (
        "DefaultCluster",
        "a",
        {0: brokers["a"].address},
    )
    brokers["a"].kill()  # its connection is what its life is judged by: 120 s are not waited for
    await until(namesrv, "Fresh", lambda answer: names(answer) == {"b"})
    brokers["a"].start()
    await until(namesrv, "Fresh", lambda answer: names(answer) == {"a", "b"})
    brokers["b"].stop()
    assert names(await namesrv.ask(ROUTE, {"topic": "Fresh"})) == {"a"}


async def test_brokers_come_back_to_a_name_server_that_was_killed(
    namesrv: RawClient, name_server: NameServerProcess, brokers: dict[str, BrokerProcess]
) -> None:
    await until(namesrv, "TBW102", lambda answer: names(answer) == {"a", "b"})
    entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"}
    assert (await namesrv.ask(RequestCode.PUT_KV_CONFIG, {**entry, "value": "a:1"})).code == 0
    name_server.kill()
    name_server.start()
    again = await RawClient.connect(name_server.namesrv)
    assert (await again.ask(RequestCode.GET_KV_CONFIG, entry)).ext_fields == {"value": "a:1"}
    client = await RawClient.connect(brokers["a"].address)
    # A new topic is registered over a new connection, and every other topic with it.
    assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Fresh"), b"x")).code == 0
    await until(again, "Fresh", lambda answer: names(answer) == {"a"})
    await until(again, "TBW102", lambda answer: "a" in names(answer))
    await client.close()
    await again.close()


def run(*settings: str) -> subprocess.CompletedProcess[str]:
    arguments = [item for setting in settings for item in ("--set", setting)]
    command = [sys.executable, "-m", "brokerd", "namesrv", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_it_names_a_taken_port_and_a_wrong_setting(tmp_path: Path) -> None:
    file = f"kvConfigPath={tmp_path / 'kvConfig.json'}"
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(f"listenPort={port}", file)
    assert (done.returncode, done.stderr) == (
        3,
        f"brokerd: port {port} (listenPort) is taken by another process: stop it or set listenPort\n",
    )
    done = run("listenPort=70000", file)
    assert (done.returncode, done.stderr) == (2, "brokerd: listenPort=70000: takes a port from 0 to 65535\n")


def test_it_does_not_start_without_settings_that_were_lost(tmp_path: Path) -> None:
    for name in ("kvConfig.json", "kvConfig.json.bak"):
        (tmp_path / name).write_bytes(b"\xff\xfe")
    done = run("listenPort=0", f"kvConfigPath={tmp_path / 'kvConfig.json'}")
    assert done.returncode == 4
    assert f"{tmp_path / 'kvConfig.json'} cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
