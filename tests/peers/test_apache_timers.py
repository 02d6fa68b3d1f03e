"""Messages for an arbitrary time when a store changes its broker: brokerd, Apache RocketMQ 5.3.3, brokerd again."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerd.remoting.body.topic import TopicConfig
from brokerd.timer.timer_checkpoint import TimerProgress
from consumers import Message, MQAdmin, Producer
from tests.peers.test_apache_transactions import SIZES, keys_of, until_keys
from tests.support.apache_cluster import ApacheCluster
from tests.support.broker_process import BrokerProcess
from tests.support.parallel_cases import ParallelCases

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

TOPIC = "Swapped"
RECALL = {"recallMessageEnable": "true"}
# As tests/support/apache_cluster.py has it; a flush a second, as every broker has by default.
TIMER = {"mappedFileSizeTimerLog": 1_040_000, "timerFlushIntervalMs": 1_000}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Shop:
    """Sends, and what of it is due."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def send(self, key: str, deliver_at_ms: int) -> str:
        sent = await self._producer.send(Message(TOPIC, b"body", {"KEYS": key}), deliver_at_ms=deliver_at_ms)
        assert sent.recall_handle
        return sent.recall_handle

    async def recall(self, handle: str) -> None:
        await self._producer.recall(TOPIC, handle)


async def until_enqueued(admin: MQAdmin, addr: str) -> None:
    while (await admin.runtime_info(addr))["timerOffsetBehind"] != "0":
        await asyncio.sleep(0.1)


async def until_saved(store: Path) -> None:
    """Wait until a start after a kill knows what was delivered until now."""
    delivered_ms = now_ms()
    while TimerProgress.decode((store / "config" / "timercheck").read_bytes()).read_ms < delivered_ms:
        await asyncio.sleep(0.1)


def swap(clean: bool, tmp_path: Path) -> None:
    """Some are delivered, recalled and wait on each of them in turn; each comes once, and none before its time."""
    names = {"brokerName": "broker-a", "brokerClusterName": "apache"}
    ours = BrokerProcess(tmp_path / "ours", **names, **RECALL, **SIZES, **TIMER).start()
    handles: dict[str, str] = {}
    begin_ms = now_ms()
    # What is due for the last broker is recalled on the one before it, whose two JVMs may start for a minute.
    theirs_ms, again_ms = begin_ms + 25_000, begin_ms + 100_000

    async def send_here() -> None:
        async with MQAdmin([ours.namesrv]) as admin, Producer("shop", [ours.namesrv]) as producer:
            await admin.create_topic(ours.address, TopicConfig(TOPIC, read_queue_nums=4, write_queue_nums=4))
            shop = Shop(producer)
            for key, due_ms in (
                ("a1", now_ms() + 2_000), ("b1", theirs_ms), ("b2", theirs_ms), ("b3", theirs_ms),
                ("c1", again_ms), ("c2", again_ms),
            ):  # fmt: skip
                handles[key] = await shop.send(key, due_ms)
            await shop.recall(handles["b2"])
            await until_keys(admin, ours.address, TOPIC, ["a1"])
            await until_enqueued(admin, ours.address)
            await until_saved(tmp_path / "ours")

    asyncio.run(send_here())
    if clean:
        ours.stop()
    else:
        assert ours.process is not None
        ours.process.send_signal(signal.SIGKILL)
        ours.process.wait()
    cluster = ApacheCluster(
        tmp_path / "apache", names=("broker-a",), with_our_name_server=True, changes={**RECALL, **TIMER}
    )
    theirs = cluster.brokers[0]
    shutil.copytree(tmp_path / "ours", theirs.folder / "store")

    async def go_on_there() -> None:
        async with MQAdmin([cluster.namesrv]) as admin, Producer("shop", [cluster.namesrv]) as producer:
            shop = Shop(producer)
            for key, due_ms in (("b4", now_ms() + 3_000), ("c3", again_ms), ("c4", again_ms)):
                handles[key] = await shop.send(key, due_ms)
            await shop.recall(handles["c2"])
            await shop.recall(handles["c4"])
            if now_ms() < theirs_ms:
                assert "b1" not in await keys_of(admin, theirs.address, TOPIC)
            await until_keys(admin, theirs.address, TOPIC, ["a1", "b1", "b3", "b4"])
            await until_enqueued(admin, theirs.address)
            await until_saved(theirs.folder / "store")

    with cluster:
        asyncio.run(go_on_there())
    shutil.rmtree(tmp_path / "ours")
    shutil.copytree(theirs.folder / "store", tmp_path / "ours")

    async def end_here() -> None:
        async with MQAdmin([ours.namesrv]) as admin:
            if now_ms() < again_ms:
                assert (await admin.runtime_info(ours.address))["timerCongestNum"] != "0"
            await until_keys(admin, ours.address, TOPIC, ["a1", "b1", "b3", "b4", "c1", "c3"])
            await asyncio.sleep(3)
            assert await keys_of(admin, ours.address, TOPIC) == ["a1", "b1", "b3", "b4", "c1", "c3"]
            assert (await admin.runtime_info(ours.address))["timerCongestNum"] == "0"

    ours.start()
    try:
        asyncio.run(end_here())
    finally:
        ours.stop()


@pytest.fixture(scope="module")
def swaps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ParallelCases[bool, None]]:
    """By whether the broker is stopped or killed."""
    with ParallelCases(lambda clean: swap(clean, tmp_path_factory.mktemp("swap")), (True, False)) as begun:
        yield begun


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_what_waits_goes_on_when_a_store_changes_its_broker(
    clean: bool, swaps: ParallelCases[bool, None]
) -> None:
    swaps.finish(clean)
