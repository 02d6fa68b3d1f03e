"""One cluster of brokers of ours, Apache 5.3.3 and Apache 4.9.7, registered at a name server of ours and at Apache's.

Clients and tools of both releases find the same routes at either.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from brokerd.remoting.body.topic import TopicConfig, TopicQueueMappingInfo
from brokerd.remoting.codes import RequestCode
from consumers import MQAdmin, MQBrokerError
from tests.brokerd.running import RawClient
from tests.peers.apache_world import ApacheWorld
from tests.support import java_peer
from tests.support.apache_cluster import (
    OLD_RELEASE,
    SMALL_JVM,
    WITHOUT_TIMERS,
    ApacheBroker,
    ApacheCluster,
    build,
)
from tests.support.broker_process import BrokerProcess, NameServerProcess
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

CLUSTER = {"brokerClusterName": "mixed", **WITHOUT_TIMERS}
# 5.3.3 announces its compressed body as a plain one, which a name server of Apache refuses.
OLD = {**CLUSTER, "compressedRegister": "true"}
WITHIN_S = 120


class MixedCluster:
    """Brokers ours, apache and old; `namesrv` is ours, `other` is Apache's."""

    def __init__(self, folder: Path) -> None:
        self.name_server = NameServerProcess(folder / "ns")
        self.namesrv = self.name_server.namesrv
        self.apache = ApacheCluster(
            folder / "apache", names=("apache",), changes=CLUSTER, more_namesrv=self.namesrv
        )
        self.other = self.apache.namesrv
        both = f"{self.other};{self.namesrv}"
        self.old = ApacheBroker(folder / "old", build(OLD_RELEASE), "old", both, OLD, SMALL_JVM)
        self.ours = BrokerProcess(
            folder / "ours", brokerName="ours", namesrvAddr=both, brokerClusterName="mixed"
        )
        self.addrs = {**self.apache.addrs, "old": self.old.address, "ours": self.ours.address}

    def start(self) -> None:
        self.name_server.start()
        self.old.launch()
        self.apache.__enter__()
        self.ours.start()
        self.wait_for(lambda: all(self.brokers(each) == self.addrs for each in self.both), "three brokers")

    @property
    def both(self) -> tuple[str, str]:
        return self.namesrv, self.other

    def kill(self) -> None:
        self.ours.stop()
        self.old.kill()
        self.apache.kill()
        self.name_server.stop()

    def start_brokers(self) -> None:
        """Nothing: no test stops one that another needs."""

    def brokers(self, namesrv: str) -> Mapping[str, str]:
        """Broker name → address of its master."""

        async def read() -> dict[str, str]:
            async with MQAdmin([namesrv]) as admin:
                table = (await admin.cluster_info()).broker_addr_table
                return {name: data.master_addr or "" for name, data in table.items()}

        return asyncio.run(read())

    def queues(self, namesrv: str, topic: str) -> dict[str, tuple[int, int, int]]:
        """Broker name → its queues to read and to write, and permission."""

        async def read() -> dict[str, tuple[int, int, int]]:
            async with MQAdmin([namesrv]) as admin:
                try:
                    route = await admin.topic_route(topic)
                except MQBrokerError:
                    return {}
            rows = route.queue_datas
            return {row.broker_name: (row.read_queue_nums, row.write_queue_nums, row.perm) for row in rows}

        return asyncio.run(read())

    def create_topic(self, topic: str) -> None:
        async def create() -> None:
            async with MQAdmin([self.namesrv]) as admin:
                for address in self.addrs.values():
                    await admin.create_topic(address, TopicConfig(topic, 2, 2))

        asyncio.run(create())
        everywhere = dict.fromkeys(self.addrs, (2, 2, 6))
        for each in self.both:
            self.wait_for(lambda each=each: self.queues(each, topic) == everywhere, f"routes of {topic}")

    @staticmethod
    def wait_for(holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < deadline, f"no {what} within {WITHIN_S} s"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    cluster = MixedCluster(tmp_path_factory.mktemp("mixed"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def finished(peer: JavaPeer) -> str:
    """Its whole output."""
    assert peer.finish() == 0, peer.lines
    return "\n".join("\t".join(line) for line in peer.lines)


def test_java_clients_send_and_consume_over_either_name_server(
    mixed: MixedCluster, release: str, class_path: str
) -> None:
    topic = f"Mixed{release.replace('.', '')}"
    mixed.create_topic(topic)
    sent_by, read_by = mixed.both if release == java_peer.RELEASES[0] else reversed(mixed.both)
    finished(JavaPeer(class_path, ["produce", "--namesrv", sent_by, "--topic", topic, "--count", "60"]))
    where = ["--namesrv", read_by, "--topic", topic, "--group", topic, "--expect", "60", "--seconds", "120"]
    consumer = JavaPeer(class_path, ["consume", *where])
    finished(consumer)
    assert {message.key for message in consumer.consumed} == {f"k{i}" for i in range(60)}


def test_mqadmin_lists_the_same_brokers_and_routes(mixed: MixedCluster, class_path: str) -> None:
    commands = ("clusterList", "topicRoute -t ours")
    table, route = java_peer.mqadmin(class_path, *(f"{command} -n {mixed.namesrv}" for command in commands))
    for name, address in mixed.addrs.items():
        assert any(line.split()[:4] == ["mixed", name, "0", address] for line in table.splitlines()), table
    assert mixed.ours.address in route


async def make_static(address: str, topic: str, queues: int, broker: str) -> None:
    """As `mqadmin updateStaticTopic` does, which needs all brokers of 5.x: queues of one broker, none moved yet."""
    item = {"gen": 0, "bname": broker, "logicOffset": 0, "startOffset": 0}
    open_end = dict.fromkeys(("endOffset", "timeOfStart", "timeOfEnd"), -1)
    detail = {
        "topic": topic, "scope": "__global__", "totalQueues": queues, "bname": broker, "dirty": False,
        "epoch": time.time_ns() // 1_000_000, "currIdMap": {},
        "hostedQueues": {str(n): [{**item, **open_end, "queueId": n}] for n in range(queues)},
    }  # fmt: skip
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues),
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "force": "false",
    }  # fmt: skip
    client = await RawClient.connect(address)
    code = RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC
    answer = await client.ask(code, fields, json.dumps(detail).encode())
    assert answer.code == 0, answer
    await client.close()


@pytest.mark.parametrize("release", ["5.3.3"], indirect=True)
def test_a_static_topic_of_apache_is_used_over_our_name_server(mixed: MixedCluster, class_path: str) -> None:
    """Its clients see queues of no broker; the route says which broker has them."""
    asyncio.run(make_static(mixed.addrs["apache"], "Fixed", 3, "apache"))

    def mappings(namesrv: str) -> dict[str, TopicQueueMappingInfo]:
        async def read() -> dict[str, TopicQueueMappingInfo]:
            async with MQAdmin([namesrv]) as admin:
                try:
                    return (await admin.topic_route("Fixed")).topic_queue_mapping_by_broker or {}
                except MQBrokerError:
                    return {}

        return asyncio.run(read())

    mixed.wait_for(lambda: all(map(mappings, mixed.both)), "mapped queues")
    ours, theirs = map(mappings, mixed.both)
    assert ours == theirs
    assert (ours["apache"].total_queues, ours["apache"].curr_id_map.keys()) == (3, {0, 1, 2})
    where = ["--namesrv", mixed.namesrv, "--topic", "Fixed"]
    finished(JavaPeer(class_path, ["produce", *where, "--count", "30"]))
    consume = ["consume", *where, "--group", "fixed", "--expect", "30", "--seconds", "120"]
    consumer = JavaPeer(class_path, consume)
    finished(consumer)
    assert {message.key for message in consumer.consumed} == {f"k{i}" for i in range(30)}


def test_the_console_collects_all_three_brokers(
    mixed: MixedCluster, console: Callable[[MixedCluster], ApacheWorld]
) -> None:
    world = console(mixed)
    mixed.create_topic("Shown")
    world.create_group("readers")
    for name in mixed.addrs:
        world.send("Shown", (name, 0), 5)
        world.commit("readers", "Shown", {(name, 0): 2})
    done = world.collect()
    assert (done.brokers_answered, done.brokers_total, done.error) == (3, 3, "")
    assert world.end("Shown") == 15
    assert world.committed("readers", "Shown") == {(name, 0): 2 for name in mixed.addrs}


def test_a_broker_that_is_killed_leaves_both_name_servers(mixed: MixedCluster) -> None:
    """The last test: what is killed stays away."""
    mixed.old.kill()
    left = {name: address for name, address in mixed.addrs.items() if name != "old"}
    mixed.wait_for(
        lambda: all(mixed.brokers(each) == left for each in mixed.both), "end of the killed broker"
    )
    mixed.ours.stop()
    for each in mixed.both:
        assert mixed.brokers(each) == mixed.apache.addrs, "it unregisters when it stops"
        assert "ours" not in mixed.queues(each, "TBW102")
