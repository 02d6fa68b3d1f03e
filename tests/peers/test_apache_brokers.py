"""Brokers of Apache RocketMQ 5.3.3: their figures, one key changed and undone, one drained, one killed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest
from django.test import Client

from console.broker import selectors, services
from console.broker.models import NameServerRow
from console.broker.plans import drain as drain_plan
from console.brokers.mqadmin import MQBrokerError
from console.operation.models import JobState, Plan
from consumers import ClientConfig, Message, MQClientError, Producer, ProducerConfig
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import NAME, ApacheWorld

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
KEY = "maxTransferCountOnMessageInMemory"


def survey(world: ApacheWorld) -> None:
    services.request_survey(NAME)
    assert services.survey_cluster(NAME, now_ms=world.now_ms) is not None


@contextlib.contextmanager
def producing(world: ApacheWorld, topic: str) -> Iterator[list[str]]:
    """A producer that looks at its routes twice a second; yields the broker of every message it stored."""
    brokers: list[str] = []
    stop = threading.Event()

    async def send() -> None:
        config = ProducerConfig(client=ClientConfig(route_refresh_interval_ms=500))
        async with Producer("drained-shop", world.cluster.namesrv, config) as producer:
            while not stop.is_set():
                with contextlib.suppress(MQClientError, MQBrokerError):
                    brokers.append((await producer.send(Message(topic, b"x", {}))).queue.broker_name)
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(send()), daemon=True)
    thread.start()
    try:
        yield brokers
    finally:
        stop.set()
        thread.join(60)


def test_it_explains_both_brokers(world: ApacheWorld, client: Client) -> None:
    world.cluster.wait_for_figures()
    world.create_topic("explained")
    with producing(world, "explained") as sent:
        wait_for(lambda: {"broker-a", "broker-b"} <= set(sent), within_s=60)
        wait_for(
            lambda: "drained-shop" in world.admin.producers(world.cluster.addrs["broker-a"]), within_s=60
        )
        world.collect()
        survey(world)
    views = selectors.broker_views(NAME)
    assert [(view.name, view.row.version, view.role) for view in views] == [
        ("broker-a", "V5_3_3", "master"),
        ("broker-b", "V5_3_3", "master"),
    ]
    for view in views:
        assert view.survey is not None and view.survey.config is not None
        assert view.survey.config["diskMaxUsedSpaceRatio"] == "95"
        assert (view.survey.replicas, view.survey.replicas_reason) == ([], "")
        assert view.page_cache[0] and view.row.disk_ratio is not None
        assert (view.listed_at, view.drained_at) == ([world.cluster.namesrv], [])
        assert view.put_p99_ms is not None or view.put_p99_reason
    groups = {one["group"] for one in (views[0].survey and views[0].survey.producers) or ()}
    assert "drained-shop" in groups
    assert selectors.config_table(NAME, only_differences=True).lines == []
    (server,) = NameServerRow.objects.filter(cluster=NAME)
    assert server.answered and sorted(server.brokers) == ["broker-a", "broker-b"]
    assert server.config is not None and "orderMessageEnable" in server.config
    client.force_login(world.actor)
    for tab in ("health", "runtime", "config", "topics", "connections", "drain"):
        answer = client.get(f"/c/{NAME}/brokers/broker-a?tab={tab}")
        assert answer.status_code == 200, tab
    assert "explained" in client.get(f"/c/{NAME}/brokers/broker-b?tab=topics").content.decode()
    assert client.get(f"/c/{NAME}/").status_code == 200


def test_it_changes_a_key_on_both_and_undoes_it(world: ApacheWorld) -> None:
    def values() -> list[str]:
        return [world.admin.broker_config(addr)[KEY] for addr in world.cluster.addrs.values()]

    before = values()
    plan = world.plan("broker_config_change", "*", {"key": KEY, "value": "48"})
    assert values() == before and not plan.blocked
    assert world.apply(plan).state == JobState.SUCCEEDED
    assert values() == ["48", "48"]
    assert world.apply(world.undo(plan)).state == JobState.SUCCEEDED
    assert values() == before


def finish(world: ApacheWorld, plan: Plan) -> tuple[str, str]:
    job = world.apply(plan)
    return job.state, job.error


def test_it_drains_a_broker_and_lets_it_back(world: ApacheWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_plan, "QUIET_MS", 3_000)  # these producers look at their routes twice a second
    world.create_topic("drained")
    world.collect()
    with producing(world, "drained") as sent:
        wait_for(lambda: {"broker-a", "broker-b"} <= set(sent), within_s=60)
        plan = world.plan("broker_drain", "broker-b", {"direction": "drain"})
        assert "drained" not in plan.before["stranded"] and not plan.blocked
        assert finish(world, plan) == (JobState.SUCCEEDED, "")
        count = len(sent)
        wait_for(lambda: len(sent) > count + 20, within_s=60)
        assert set(sent[count + 1 :]) == {"broker-a"}
        survey(world)
        view = selectors.broker(NAME, "broker-b")
        assert view is not None and view.drained_at == [world.cluster.namesrv]
        assert finish(world, world.undo(plan)) == (JobState.SUCCEEDED, "")
        count = len(sent)
        wait_for(lambda: "broker-b" in sent[count:], within_s=60)
    survey(world)
    view = selectors.broker(NAME, "broker-b")
    assert view is not None and view.drained_at == []


def test_it_is_honest_about_a_killed_broker(world: ApacheWorld, client: Client) -> None:
    world.cluster.wait_for_figures()
    world.collect()
    survey(world)
    world.cluster.brokers[1].kill()
    world.collect()
    silent_ms = world.now_ms
    survey(world)
    view = selectors.broker(NAME, "broker-b")
    assert view is not None
    assert (view.row.answered, view.unknown_since_ms, view.row.in_rate, view.filling) == (
        False,
        silent_ms,
        None,
        "UNKNOWN",
    )
    assert view.row.reason and view.figures["brokerVersionDesc"] == "V5_3_3"
    client.force_login(world.actor)
    for page in ("", "brokers", "brokers/broker-b"):
        text = client.get(f"/c/{NAME}/{page}").content.decode()
        assert "broker-b has not answered since" in text, page
    assert "Last reported" in client.get(f"/c/{NAME}/brokers/broker-b?tab=runtime").content.decode()
