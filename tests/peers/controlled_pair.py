"""A pair of Apache RocketMQ 5.3.3 whose master a controller chooses: what the console shows of it.

Not in the suite, but in `python -m tests.peers.real_clusters`: three JVMs, and a controller that waits for heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import Client

from console.broker import selectors, services
from console.brokers.mqadmin import BrokerUnavailable, MQBrokerError
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import NAME, ApacheWorld
from tests.support.apache_cluster import WITHOUT_TIMERS, ApacheBroker, ApacheCluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]
WITHIN_S = 120


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ApacheCluster, ApacheBroker]]:
    """One name server with a controller, a broker, and another one of its name."""
    cluster = ApacheCluster(tmp_path / "pair", ("broker-a",), WITHOUT_TIMERS, with_controller=True)
    second = cluster.slave(tmp_path / "second", "broker-a")
    try:
        with cluster:
            second.launch()
            yield cluster, second
    finally:
        second.kill()


def replicas(world: ApacheWorld) -> tuple[int | None, list[tuple[str, bool, bool]]]:
    """The epoch of the master, and (address, is master, in sync) of each replica, after a round and a survey."""
    world.collect()
    services.request_survey(NAME)
    assert services.survey_cluster(NAME, now_ms=world.now_ms) is not None
    view = selectors.broker(NAME, "broker-a")
    if view is None or view.survey is None or not view.has_master:
        return None, []
    found = sorted((one["addr"], one["is_master"], one["in_sync"]) for one in view.survey.sync_set or ())
    return view.survey.master_epoch, found


def master_addr(world: ApacheWorld) -> str | None:
    try:
        return world.admin.cluster_info().broker_addr_table["broker-a"].master_addr
    except (BrokerUnavailable, MQBrokerError, KeyError):
        return None


def test_the_replicas_of_a_controller_and_its_choice_of_another_master(
    pair: tuple[ApacheCluster, ApacheBroker],
    console: Callable[[ApacheCluster], ApacheWorld],
    client: Client,
) -> None:
    cluster, second = pair
    first = cluster.brokers[0]
    world = console(cluster)
    client.force_login(world.actor)
    both = sorted([(first.address, True, True), (second.address, False, True)])
    wait_for(lambda: replicas(world) == (1, both), "both in sync", WITHIN_S, 0.5)
    view = selectors.broker(NAME, "broker-a")
    assert view is not None and view.has_controller
    (slave,) = view.slaves
    assert (slave.addr, slave.epoch, slave.serves_reads) == (second.address, 1, True)
    text = client.get(f"/c/{NAME}/brokers/broker-a").content.decode()
    assert (
        "Replicas by the controller" in text and "Epoch of the master: 1." in text and second.address in text
    )

    first.kill()
    wait_for(lambda: master_addr(world) == second.address, "another master", WITHIN_S, 0.5)
    after = sorted([(first.address, False, False), (second.address, True, True)])
    wait_for(lambda: replicas(world) == (2, after), "its epoch", WITHIN_S, 0.5)
    world.collect()  # the one before still read the address that is gone
    view = selectors.broker(NAME, "broker-a")
    assert view is not None and (view.row.broker_id, view.row.addr, view.row.answered) == (
        0,
        second.address,
        True,
    )
