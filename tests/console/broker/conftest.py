"""A cluster of two brokerd at one name server, registered with the console; a producer that sends all the time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from console.broker import services
from console.broker.models import Survey
from console.brokers.mqadmin import (
    BlockingMQAdmin,
    Connection,
    MQBrokerError,
    TopicConfig,
    close_admins,
    with_admin,
)
from console.cluster.models import Cluster
from console.lag import services as lag_services
from console.operation import selectors as operation_selectors
from console.operation import services as operation_services
from console.operation.job import runner
from console.operation.models import Job, Plan
from consumers import ClientConfig, Message, MQClientError, Producer, ProducerConfig
from tests.console.operation.live_cluster import wait_for
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port

NAME = "pair"


@dataclass
class Pair:
    """Cluster ``pair``: broker-a with the name server's role, broker-b registered with it."""

    a: BrokerProcess
    b: BrokerProcess
    actor: User
    now_ms: int

    @property
    def admin(self) -> BlockingMQAdmin:
        return with_admin(Connection(self.a.namesrv))

    @property
    def addrs(self) -> Mapping[str, str]:
        return {"broker-a": self.a.address, "broker-b": self.b.address}

    def create_topic(self, topic: str, *brokers: str) -> None:
        """On these brokers, or both; known to the name server when it returns."""
        names = brokers or tuple(self.addrs)
        for name in names:
            self.admin.create_topic(self.addrs[name], TopicConfig(topic, 2, 2, 6))
        wait_for(lambda: self.routed(topic) == set(names), f"the route of {topic}", within_s=30)

    def routed(self, topic: str) -> set[str]:
        try:
            return {one.broker_name for one in self.admin.topic_route(topic).queue_datas}
        except MQBrokerError:
            return set()

    def collect(self, step_ms: int = 5_000) -> None:
        """Let time pass on the collector's clock and run a round."""
        self.now_ms += step_ms
        assert lag_services.collect(NAME, now_ms=self.now_ms) is not None

    def survey(self) -> Survey:
        services.request_survey(NAME)
        done = services.survey_cluster(NAME, now_ms=self.now_ms)
        assert done is not None
        return done

    def plan(self, kind: str, subject: str, params: Mapping[str, Any]) -> Plan:
        return operation_services.create_plan(kind, NAME, subject, params, self.actor)

    def apply(self, plan: Plan) -> Job:
        """Run the plan's job to its end."""
        job = operation_services.apply_plan(plan.id, self.actor, plan.confirm_text)
        for _ in range(20):  # slices
            runner.run(job.id, "worker-1")
            job = operation_selectors.job(job.id)
            if job.is_final:
                break
        return job

    def undo(self, plan: Plan) -> Plan:
        return operation_services.undo(plan.id, self.actor)

    @contextlib.contextmanager
    def producing(self, topic: str) -> Iterator[list[str]]:
        """A producer that looks at its routes twice a second; yields the broker of every message it stored."""
        brokers: list[str] = []
        stop, ready = threading.Event(), threading.Event()

        async def send() -> None:
            config = ProducerConfig(client=ClientConfig(route_refresh_interval_ms=500))
            async with Producer("shop", self.a.namesrv, config) as producer:
                while not stop.is_set():
                    with contextlib.suppress(MQClientError, MQBrokerError):
                        brokers.append((await producer.send(Message(topic, b"x", {}))).queue.broker_name)
                    ready.set()
                    await asyncio.sleep(0.01)

        thread = threading.Thread(target=lambda: asyncio.run(send()), daemon=True)
        thread.start()
        assert ready.wait(30)
        try:
            yield brokers
        finally:
            stop.set()
            thread.join(30)


@pytest.fixture
def pair(
    tmp_path: Path, redis_url: str, settings: Settings, request: pytest.FixtureRequest
) -> Iterator[Pair]:
    """No round and no survey has run yet."""
    request.node.add_marker(pytest.mark.django_db(databases=["default", "metrics"]))
    request.getfixturevalue("db")
    settings.DATA_DIR = tmp_path / "data"
    settings.HISTORY_URL = f"file://{tmp_path / 'data' / 'history'}"
    lag_services.collectors.clear()
    a = BrokerProcess(tmp_path / "a").start()
    b = BrokerProcess(tmp_path / "b", brokerName="broker-b", namesrvAddr=a.namesrv).start()
    Cluster.objects.create(name=NAME, namesrv_addrs=a.namesrv)
    made = Pair(
        a,
        b,
        User.objects.create_user("alice", is_superuser=True),
        lag_services.system_now_ms() // 5_000 * 5_000 - 60_000,
    )
    wait_for(
        lambda: len(made.admin.cluster_info().broker_addr_table) == 2, "broker-b in the routes", within_s=30
    )
    yield made
    for process in (b, a):
        process.stop()
    lag_services.collectors.clear()
    close_admins()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A third brokerd with a name server of its own, which knows only itself, as broker-b."""
    process = BrokerProcess(tmp_path / "stranger", brokerName="broker-b").start()
    yield process
    process.stop()


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    return f"127.0.0.1:{free_port()}"
