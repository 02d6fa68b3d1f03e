"""Slaves of Apache RocketMQ 5.3.3: what the console shows of them, and what it knows while one serves for its master.

The suite gives one broker of its cluster a slave; `python -m tests.peers.real_clusters` gives both one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from django.test import Client

from console.broker import findings, selectors, services
from console.broker.survey.slaves import Link
from console.lag.models import BrokerRow, GroupRow, LagEvent
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.peers.apache_world import NAME, ApacheWorld
from tests.peers.real_clusters import PAIRS_VARIABLE
from tests.support.apache_cluster import ApacheBroker

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]
TOPIC, GROUP = "doubled", "doublers"
WITHIN_S = 120


@pytest.fixture
def slaves(world: ApacheWorld, tmp_path: Path) -> Iterator[Mapping[str, ApacheBroker]]:
    """Broker name → its slave, in the routes, with a copy of 10 messages of each queue and the offset 4 of two."""
    names = list(world.cluster.addrs)[: int(os.environ.get(PAIRS_VARIABLE, "1"))]
    world.create_topic(TOPIC)
    world.create_group(GROUP)
    world.fill(TOPIC, 10)
    places = [(name, queue_id) for name in world.cluster.addrs for queue_id in (0, 1)]
    world.commit(GROUP, TOPIC, dict.fromkeys(places, 4))
    found = {name: world.cluster.slave(tmp_path / f"slave-of-{name}", name) for name in names}
    try:
        for each in found.values():
            each.launch()
        for name, each in found.items():
            wait_for(lambda name=name: registered(world, name) == [0, 1], f"slave of {name}", WITHIN_S)
            wait_for(lambda each=each: copied(world, each) == ([10, 10], {0: 4, 1: 4}), "its copy", WITHIN_S)
        yield found
    finally:
        for each in found.values():
            each.kill()


def registered(world: ApacheWorld, name: str) -> list[int]:
    data = world.admin.cluster_info().broker_addr_table.get(name)
    return sorted(data.broker_addrs) if data else []


def copied(world: ApacheWorld, slave: ApacheBroker) -> tuple[list[int], dict[int, int]]:
    """The ends of both queues and the committed offsets, as the slave has them."""
    try:
        table = world.admin.topic_stats(slave.address, TOPIC).offset_table
        offsets = world.admin.all_consumer_offsets(slave.address).offset_table
    except Exception:  # noqa: BLE001 - it has no topic yet, or does not answer yet
        return [], {}
    ends = [table[queue].max_offset for queue in sorted(table)]
    return ends, dict(offsets.get((TOPIC, GROUP), {}))


def survey(world: ApacheWorld, name: str) -> selectors.BrokerView:
    services.request_survey(NAME)
    assert services.survey_cluster(NAME, now_ms=world.now_ms) is not None
    view = selectors.broker(NAME, name)
    assert view is not None
    return view


def collected_id(world: ApacheWorld, name: str) -> int | None:
    """The id of what the round read under a broker's name, None where nothing answered."""
    world.collect()
    row = BrokerRow.objects.get(cluster=NAME, broker_name=name)
    return row.broker_id if row.answered else None


def lag_of(group: str) -> tuple[int | None, bool, bool]:
    row = GroupRow.objects.get(cluster=NAME, group=group)
    return row.lag, row.partial, row.lag_lower_bound


def test_a_slave_serves_while_its_master_is_gone(
    world: ApacheWorld, slaves: Mapping[str, ApacheBroker], client: Client
) -> None:
    client.force_login(world.actor)
    for name, slave in slaves.items():
        wait_for(lambda name=name: collected_id(world, name) == 0, f"the master of {name}", WITHIN_S, 0.3)
        view = survey(world, name)
        assert (view.role, view.state) == ("master, 1 slave", "serving")
        (one,) = view.slaves
        assert (one.broker_id, one.addr, one.version) == (1, slave.address, "V5_3_3")
        assert (one.link, one.behind_bytes, one.serves_reads) == (Link.IN_SYNC, 0, True)
        text = client.get(f"/c/{NAME}/brokers/{name}").content.decode()
        assert slave.address in text and "in sync" in text
        assert lag_of(GROUP) == (24, False, False)
        master_dies(world, name, client)
        consumers_read_on(world, name)
        master_comes_back(world, name)


def master_dies(world: ApacheWorld, name: str, client: Client) -> None:
    """One round may know less; the next one reads the slave, and every page says so."""
    (master,) = [broker for broker in world.cluster.brokers if broker.name == name]
    master.kill()
    world.collect()
    # Of the other broker, at least; of both when the name server has dropped the master already.
    assert lag_of(GROUP) in ((12, True, True), (24, False, False))
    wait_for(lambda: registered(world, name) == [1], "the end of its registration", WITHIN_S)
    wait_for(lambda: collected_id(world, name) == 1, "a round that reads the slave", WITHIN_S, 0.3)
    assert lag_of(GROUP) == (24, False, False)
    view = survey(world, name)
    assert (view.role, view.state, view.serves_reads) == ("slave 1", "without master", True)
    (found,) = [one for one in findings.findings(view) if one.title == f"{name} has no master"]
    assert found.status == "STALLED" and view.row.addr in found.text
    for page in ("", "groups", f"groups/{GROUP}", "brokers", f"brokers/{name}", f"topics/{TOPIC}"):
        text = client.get(f"/c/{NAME}/{page}").content.decode()
        assert f"{name} has had no master since" in text, page
    for tab in ("health", "runtime", "config", "topics", "connections", "drain"):
        assert client.get(f"/c/{NAME}/brokers/{name}?tab={tab}").status_code == 200, tab
    plan = world.plan("offset_change", GROUP, {"target": "latest"})
    assert f"{name} has no master now and holds 2 of 4 queues" in plan.blocked
    part = world.plan("offset_change", GROUP, {"target": "latest", "accept_without": [name]})
    assert not part.blocked


def consumers_read_on(world: ApacheWorld, name: str) -> None:
    """A group that starts now reads the slave's queues."""
    with LiveCluster(world.cluster).member(f"late-{name}", TOPIC) as seen:  # type: ignore[arg-type]
        wait_for(lambda: len(seen) >= 40, "the messages of both brokers", WITHIN_S)
    assert len({message.offset_message_id for message in seen}) == 40


def master_comes_back(world: ApacheWorld, name: str) -> None:
    world.cluster.start_brokers()
    wait_for(lambda: registered(world, name) == [0, 1], "the master in the routes", WITHIN_S)
    wait_for(lambda: collected_id(world, name) == 0, "a round that reads it", WITHIN_S, 0.3)
    assert lag_of(GROUP) == (24, False, False)
    assert not world.plan("offset_change", GROUP, {"target": "latest"}).blocked
    changes = LagEvent.objects.filter(kind__in=("REWIND", "SKIPPED", "LOST", "HEAD_REGRESSION", "RECREATED"))
    assert not changes.filter(group=GROUP).exists()
