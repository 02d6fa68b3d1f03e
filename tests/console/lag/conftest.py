"""A registered cluster on a real brokerd, with history in a folder of the test."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_django import Settings

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    Connection,
    Message,
    SubscriptionGroupConfig,
    TopicConfig,
    close_admins,
    with_admin,
)
from console.cluster.models import Cluster
from console.lag import services
from console.lag.collect import presence
from console.lag.models import Round
from tests.console.lag.running_consumers import RunningConsumers
from tests.support.broker_process import BrokerProcess


@dataclass
class CollectedCluster:
    """Cluster "local": its broker, and rounds on a clock that the test moves."""

    broker: BrokerProcess
    admin: BlockingMQAdmin
    now_ms: int

    def make_topic(self, name: str, queues: int = 2, addr: str = "") -> None:
        config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
        self.admin.create_topic(addr or self.broker.address, config)

    def make_group(self, name: str, addr: str = "") -> None:
        self.admin.create_subscription_group(
            addr or self.broker.address, SubscriptionGroupConfig(group_name=name)
        )

    def send(self, topic: str, count: int, queue_id: int = 0, addr: str = "", **properties: str) -> None:
        message = Message(topic=topic, body=b"x", properties=properties)
        for _ in range(count):
            self.admin.send(addr or self.broker.address, message, queue_id=queue_id)

    def commit(self, group: str, topic: str, offset: int, queue_id: int = 0, addr: str = "") -> None:
        self.admin.update_consumer_offset(addr or self.broker.address, group, topic, queue_id, offset)

    def has_committed(self, group: str, topic: str) -> bool:
        """Whether the broker has an offset of the group for the topic."""
        return (topic, group) in self.admin.all_consumer_offsets(self.broker.address).offset_table

    def collect(self, step_ms: int = 5_000) -> Round:
        """Let time pass and run a round."""
        self.now_ms += step_ms
        done = services.collect("local", now_ms=self.now_ms)
        assert done is not None
        return done

    def collect_until_answered(self, brokers: int) -> Round:
        """Run rounds until so many brokers answer: the client waits a moment before it calls a failed one
        again.
        """
        for _ in range(50):
            done = self.collect()
            if done.brokers_answered == brokers:
                return done
            time.sleep(0.1)
        raise AssertionError(f"{done.brokers_answered} of {brokers} brokers answer")


@pytest.fixture
def local_history(tmp_path: Path, settings: Settings) -> Path:
    """History and log in a folder of the test; no collector of another test in memory."""
    settings.DATA_DIR = tmp_path / "data"
    settings.HISTORY_URL = f"file://{tmp_path / 'data' / 'history'}"
    services.collectors.clear()
    return tmp_path / "data" / "history"


@pytest.fixture
def collected(
    brokerd: BrokerProcess,
    redis_url: str,
    local_history: Path,
    transactional_metrics: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[CollectedCluster]:
    """A cluster with an empty broker; no round has run yet."""
    # A round that could not ask in time who is connected leaves it open: on a busy machine a second is short.
    monkeypatch.setattr(presence, "DEADLINE_MS", 30_000)
    Cluster.objects.create(name="local", namesrv_addrs=brokerd.namesrv)
    yield CollectedCluster(
        brokerd, with_admin(Connection(brokerd.namesrv)), services.system_now_ms() // 5_000 * 5_000 - 5_000
    )
    services.collectors.clear()
    close_admins()


@pytest.fixture
def transactional_metrics(django_db_setup: None, request: pytest.FixtureRequest) -> None:
    """Both databases, each test in a transaction of its own."""
    request.node.add_marker(pytest.mark.django_db(databases=["default", "metrics"]))
    request.getfixturevalue("db")


@pytest.fixture
def running(collected: CollectedCluster) -> Iterator[RunningConsumers]:
    """Real consumers of the cluster; whatever runs at the end is stopped."""
    found = RunningConsumers(collected.broker.namesrv)
    yield found
    found.close()


@dataclass
class TwoBrokers:
    """A cluster with a second broker behind the same name server, which a test may freeze: it keeps its connections
    and answers nothing.
    """

    cluster: CollectedCluster
    other: BrokerProcess

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        assert self.other.process is not None
        self.other.process.send_signal(number)


@pytest.fixture
def two_brokers(collected: CollectedCluster, tmp_path: Path) -> Iterator[TwoBrokers]:
    """The cluster of `collected` with broker-b."""
    other = BrokerProcess(
        tmp_path / "broker-b", brokerName="broker-b", namesrvAddr=collected.broker.namesrv
    ).start()
    found = TwoBrokers(collected, other)
    yield found
    found.thaw()
    other.stop()
