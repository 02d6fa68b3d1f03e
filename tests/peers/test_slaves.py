"""Slaves across implementations: ours follows Apache's masters of both releases, Apache's slaves follow ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokerd.remoting.body.group import SubscriptionGroupConfig
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.record import decode_records
from brokerd.timer.timer_checkpoint import TimerProgress
from consumers import BrokerUnavailable, MQAdmin, MQBrokerError
from consumers.client.remoting_client import RemotingClient
from tests.brokerd.running import pull_fields
from tests.support.apache_cluster import OLD_RELEASE, RELEASE, SMALL_JVM, ApacheBroker, build
from tests.support.broker_process import BrokerProcess, NameServerProcess
from tests.support.ports import free_port

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

PAIR: dict[str, str | int] = {
    "brokerClusterName": "pair",
    "brokerName": "broker-a",
    "mappedFileSizeCommitLog": 16 << 20,
}
AS_SLAVE: dict[str, str | int] = {"brokerRole": "SLAVE", "brokerId": 1}
# Apache's checkpoint of the timer is as old as its last flush, and each flush is a sixth of a second of CPU.
TIMER: dict[str, str | int] = {"timerFlushIntervalMs": 5_000, "mappedFileSizeTimerLog": 1_040_000}
TOPIC, GROUP, COUNT = "Copied", "copied", 300
TIMED = "Timed"
WITHIN_S = 90


@pytest.fixture(params=[RELEASE, OLD_RELEASE])
def apache_release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def name_server(tmp_path: Path) -> Iterator[NameServerProcess]:
    process = NameServerProcess(tmp_path / "ns")
    process.start()
    yield process
    process.stop()


def wait_for(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            if holds():
                return
        except (BrokerUnavailable, MQBrokerError, TimeoutError) as error:
            what = f"{what} ({error})" if str(error) not in what else what
        assert time.monotonic() < deadline, f"no {what} within {WITHIN_S} s"
        time.sleep(0.3)


def addresses(name_server: NameServerProcess) -> dict[int, str]:
    async def read() -> dict[int, str]:
        async with MQAdmin([name_server.namesrv]) as admin:
            data = (await admin.cluster_info()).broker_addr_table.get("broker-a")
            return data.broker_addrs if data else {}

    return asyncio.run(read())


def fill(name_server: NameServerProcess, master: str, first: int) -> None:
    """A topic, COUNT messages in each of its two queues, a committed offset."""

    async def send() -> None:
        async with MQAdmin([name_server.namesrv]) as admin:
            await admin.create_topic(master, TopicConfig(TOPIC, 2, 2))
            await admin.create_subscription_group(master, SubscriptionGroupConfig(group_name=GROUP))
            batch = [
                (Message(TOPIC, b"m%d" % number, {"KEYS": f"k{number}"}), number % 2)
                for number in range(first, first + 2 * COUNT)
            ]
            await admin.send_many(master, batch)
            await admin.update_consumer_offset(master, GROUP, TOPIC, 0, 7)

    asyncio.run(send())


def send_timed(name_server: NameServerProcess, master: str, due_ms: dict[bytes, int]) -> None:
    async def send() -> None:
        async with MQAdmin([name_server.namesrv]) as admin:
            await admin.create_topic(master, TopicConfig(TIMED, 1, 1))
            for body, deliver_ms in due_ms.items():
                properties = {"TIMER_DELIVER_MS": str(deliver_ms), "UNIQ_KEY": f"{deliver_ms:032}"}
                await admin.send_many(master, [(Message(TIMED, body, properties), 0)])

    asyncio.run(send())


def timer_of(address: str) -> TimerProgress:
    """How far the timer of a broker has come."""

    async def read() -> TimerProgress:
        client = RemotingClient()
        try:
            answer = await client.invoke(
                address, RemotingCommand.request(RequestCode.GET_TIMER_CHECK_POINT), 5_000
            )
            return TimerProgress.decode(answer.body)
        finally:
            await client.close()

    return asyncio.run(read())


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def bodies(address: str, queue_id: int, topic: str = TOPIC) -> list[bytes]:
    """All messages of a queue, as this broker serves them."""

    async def read() -> list[bytes]:
        found: list[bytes] = []
        client = RemotingClient()
        try:
            while True:
                fields = pull_fields("reader", topic, len(found), queue_id=queue_id)
                answer = await client.invoke(
                    address, RemotingCommand.request(RequestCode.PULL_MESSAGE, fields), 5_000
                )
                if answer.code:
                    return found
                found += [record.body for record in decode_records(answer.body)]
        finally:
            await client.close()

    return asyncio.run(read())


def expected(first: int, queue_id: int) -> list[bytes]:
    return [b"m%d" % number for number in range(first, first + 2 * COUNT) if number % 2 == queue_id]


def wait_for_copy(address: str, count: int) -> None:
    for queue_id in (0, 1):
        # Java's threads may store in another order than they were sent.
        every = sorted(each for turn in range(count) for each in expected(turn * 2 * COUNT, queue_id))
        wait_for(
            lambda q=queue_id, all_=every: sorted(bodies(address, q)) == all_, f"copy of queue {queue_id}"
        )


def ends(address: str) -> list[int]:
    """Maximum offsets of both queues: a slave of Apache reports them before it has the topic."""

    async def read() -> list[int]:
        client = RemotingClient()
        found = []
        for queue_id in (0, 1):
            fields = {"topic": TOPIC, "queueId": str(queue_id), "committed": "true"}
            answer = await client.invoke(
                address, RemotingCommand.request(RequestCode.GET_MAX_OFFSET, fields), 5_000
            )
            found.append(int(answer.ext_fields["offset"]))
        await client.close()
        return found

    return asyncio.run(read())


def log_of(store: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((store / "commitlog").iterdir())).rstrip(b"\0")


def offset_at(address: str) -> int | None:
    async def read() -> int | None:
        async with MQAdmin(["127.0.0.1:1"]) as admin:
            return (await admin.all_consumer_offsets(address)).offset_table.get((TOPIC, GROUP), {}).get(0)

    return asyncio.run(read())


def test_our_slave_follows_a_master_of_apache(
    tmp_path: Path, name_server: NameServerProcess, apache_release: str
) -> None:
    has_timer = apache_release == RELEASE
    changes = {**PAIR, **TIMER, "brokerIP2": "127.0.0.1"}
    master = ApacheBroker(
        tmp_path / "master", build(apache_release), "broker-a", name_server.namesrv, changes, SMALL_JVM
    )
    slave = BrokerProcess(tmp_path / "slave", namesrvAddr=name_server.namesrv, **PAIR, **TIMER, **AS_SLAVE)
    soon_ms = 0
    try:
        master.launch()
        wait_for(lambda: addresses(name_server) == {0: master.address}, "master in the routes")
        fill(name_server, master.address, 0)
        if has_timer:
            soon_ms = now_ms() + 2_000
            send_timed(name_server, master.address, {b"soon": soon_ms, b"late": soon_ms + 15_000})
        slave.start()
        wait_for_copy(slave.address, 1)
        slave.kill()
        fill(name_server, master.address, 2 * COUNT)
        slave.start()
        wait_for_copy(slave.address, 2)
        wait_for(lambda: offset_at(slave.address) == 7, "committed offset")
        assert addresses(name_server) == {0: master.address, 1: slave.address}
        for queue_id in (0, 1):
            assert bodies(slave.address, queue_id) == bodies(master.address, queue_id)
        if has_timer:
            wait_for(lambda: b"soon" in bodies(slave.address, 0, TIMED), "copy of the delivered message")
            wait_for(lambda: timer_of(slave.address).queue_offset == 2, "waiting message in the wheel")
            wait_for(lambda: timer_of(slave.address).read_ms > soon_ms, "progress of the timer")
        master.kill()
        wait_for_copy(slave.address, 2)
        if has_timer:
            slave.stop()
            slave.settings |= {"brokerRole": "ASYNC_MASTER", "brokerId": 0}
            slave.start()
            wait_for(lambda: b"late" in bodies(slave.address, 0, TIMED), "delivery by the slave")
            assert bodies(slave.address, 0, TIMED).count(b"soon") == 1
    finally:
        slave.stop()
        master.kill()


def test_a_slave_of_apache_follows_our_master(
    tmp_path: Path, name_server: NameServerProcess, apache_release: str
) -> None:
    # Apache's slave reads the topics from the VIP port.
    vip: dict[str, str | int] = {"vipPortEnable": "true", "listenPort": free_port(neighbours=(-2,))}
    master = BrokerProcess(tmp_path / "master", namesrvAddr=name_server.namesrv, **PAIR, **vip)
    master.port = int(vip["listenPort"])
    master.start()
    slave = ApacheBroker(
        tmp_path / "slave",
        build(apache_release),
        "broker-a",
        name_server.namesrv,
        {**PAIR, **AS_SLAVE, "slaveReadEnable": "true"},  # otherwise 5.3.3 answers pulls 20
        SMALL_JVM,
    )
    try:
        wait_for(lambda: addresses(name_server) == {0: master.address}, "master in the routes")
        fill(name_server, master.address, 0)
        slave.launch()
        wait_for(lambda: ends(slave.address) == [COUNT, COUNT], "copy of both queues")
        master.kill()
        master.start()
        fill(name_server, master.address, 2 * COUNT)
        wait_for(lambda: ends(slave.address) == [2 * COUNT, 2 * COUNT], "copy of what followed")
        assert log_of(slave.folder / "store") == log_of(master.data)
        wait_for(lambda: offset_at(slave.address) == 7, "committed offset")
        assert addresses(name_server) == {0: master.address, 1: slave.address}
        wait_for_copy(slave.address, 2)
        for queue_id in (0, 1):
            assert bodies(slave.address, queue_id) == bodies(master.address, queue_id)
        if apache_release == RELEASE:
            sent_ms = now_ms()
            send_timed(name_server, master.address, {b"later": sent_ms + 60_000})
            wait_for(lambda: timer_of(slave.address).master_queue_offset == 1, "timer's offset at the slave")
            wait_for(lambda: timer_of(slave.address).read_ms > sent_ms, "timer's time at the slave")
    finally:
        slave.kill()
        master.stop()
