"""Messages that are popped and not acknowledged when a store changes its broker, to Apache RocketMQ 5.3.3 and back."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import RequestCode
from consumers import MQAdmin
from tests.brokerd.popping import ack, pop
from tests.brokerd.running import RawClient, send_fields
from tests.peers.test_apache_transactions import SIZES
from tests.support.apache_cluster import ApacheCluster
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

TOPIC, GROUP = "Swapped", "poppers"
WITHIN_S = 60


async def popped_until(client: RawClient, wanted: dict[bytes, int], invisible_ms: int) -> None:
    """Pop until these bodies came with these reconsume times."""
    found: dict[bytes, int] = {}
    deadline = time.monotonic() + WITHIN_S
    while found != wanted:
        assert time.monotonic() < deadline, f"{found}, not {wanted}"
        fields = {"invisibleTime": str(invisible_ms), "pollTime": "2000"}
        for message in await pop(client, GROUP, TOPIC, **fields):
            found[message.body] = message.record.reconsume_times
            assert message.body in wanted, "it was acknowledged"


async def with_client(address: str, work: Callable[[RawClient], Awaitable[None]]) -> None:
    client = await RawClient.connect(address)
    try:
        await work(client)
    finally:
        await client.close()


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_what_is_popped_comes_back_from_the_next_broker(clean: bool, tmp_path: Path) -> None:
    names = {"brokerName": "broker-a", "brokerClusterName": "apache"}
    ours = BrokerProcess(tmp_path / "ours", **names, **SIZES).start()

    async def begin(client: RawClient) -> None:
        async with MQAdmin([ours.namesrv]) as admin:
            await admin.create_topic(ours.address, TopicConfig(TOPIC, read_queue_nums=1, write_queue_nums=1))
        for body in (b"a", b"b", b"c"):
            assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields(TOPIC), body)).code == 0
        messages = await pop(client, GROUP, TOPIC, invisibleTime="15000")
        assert len(messages) == 3
        await ack(client, GROUP, messages[1])
        await asyncio.sleep(7 if not clean else 0)  # offsets are saved every 5 s

    asyncio.run(with_client(ours.address, begin))
    ours.stop() if clean else ours.kill()
    cluster = ApacheCluster(tmp_path / "apache", names=("broker-a",), with_our_name_server=True)
    theirs = cluster.brokers[0]
    shutil.copytree(tmp_path / "ours", theirs.folder / "store")

    async def go_on(client: RawClient) -> None:
        await popped_until(client, {b"a": 1, b"c": 1}, 10_000)

    with cluster:
        asyncio.run(with_client(theirs.address, go_on))
    shutil.rmtree(tmp_path / "ours")
    shutil.copytree(theirs.folder / "store", tmp_path / "ours")

    async def end(client: RawClient) -> None:
        # Apache was killed, maybe before it saved that the copies were popped; its timer has their checkpoints.
        await popped_until(client, {b"a": 2, b"c": 2}, 60_000)

    ours.start()
    try:
        asyncio.run(with_client(ours.address, end))
    finally:
        ours.stop()
