"""Restore drills on Apache RocketMQ 5.3.3: lost offsets return as of the last round, here, elsewhere, and by time."""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from console.brokers.mqadmin import close_admins
from console.group.offset_file.export import exported
from console.group.offset_file.layout import as_csv_lines, file_params, read_offset_file
from console.lag import services as lag_services
from console.operation import services as operation_services
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.peers.apache_world import NAME, ApacheWorld
from tests.support.apache_cluster import ApacheBroker
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
FILES = ("consumerOffset.json", "consumerOffset.json.bak")
Saved = dict[str, str]


def saved(broker: ApacheBroker) -> Saved:
    """Each table of offsets in the broker's file, in the very words of the file."""
    path = broker.folder / "store" / "config" / FILES[0]
    text = path.read_text() if path.exists() else ""
    return dict(re.findall(r'"([^"@]+@[^"]+)":(\{[^}]*\})', text))


def lose_offsets(world: ApacheWorld, broker: ApacheBroker) -> None:
    """Kill the broker, delete its file of offsets with the copy, and start it again."""
    broker.kill()
    for name in FILES:
        (broker.folder / "store" / "config" / name).unlink(missing_ok=True)
    world.cluster.start_brokers()


def after_the_rounds(world: ApacheWorld) -> int:
    """Wait until the clock has passed the rounds' own, which runs ahead, and return their last moment."""
    wait_for(lambda: lag_services.system_now_ms() > world.now_ms, within_s=30)
    return world.now_ms


def iso(at_ms: int) -> str:
    return datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC).isoformat()


@pytest.fixture
def lost(world: ApacheWorld) -> tuple[ApacheWorld, Saved]:
    """Two groups with offsets on both brokers, one round; then broker-a has lost its file and broker-b moved on.

    With what broker-a had saved of them.
    """
    world.create_topic("kept")
    world.fill("kept", 10)
    wait_for(lambda: world.end("kept") == 40)
    broker_a = world.cluster.brokers[0]
    for group, first in (("keepers", 3), ("seekers", 7)):
        world.create_group(group)
        places = [(name, queue_id) for name in world.cluster.addrs for queue_id in (0, 1)]
        world.commit(group, "kept", {place: first + number % 2 for number, place in enumerate(places)})
    world.collect()
    wait_for(lambda: {"kept@keepers", "kept@seekers"} <= saved(broker_a).keys(), within_s=30)
    before = {key: table for key, table in saved(broker_a).items() if key.startswith("kept@")}
    assert [len(re.findall("[0-9]:", table)) for table in before.values()] == [2, 2], before
    lose_offsets(world, broker_a)
    world.commit("keepers", "kept", {("broker-b", 0): 9})
    assert world.committed("keepers", "kept").keys() == {("broker-b", 0), ("broker-b", 1)}
    return world, before


def test_a_deleted_file_of_offsets_returns_byte_for_byte(lost: tuple[ApacheWorld, Saved]) -> None:
    """By one command for all groups of the broker; what moved on the other broker stays."""
    world, before = lost
    moment, broker_a, out = iso(after_the_rounds(world)), world.cluster.brokers[0], StringIO()
    words = ("restore-broker", "broker-a", "--cluster", NAME, "--time", moment)
    call_command("offsets", *words, "--apply", "--confirm", NAME, "--format", "json", stdout=out)
    states = {row["group"]: row["state"] for row in json.loads(out.getvalue())}
    assert {states[group] for group in ("keepers", "seekers")} == {"SUCCEEDED"}
    wait_for(lambda: before.items() <= saved(broker_a).items(), within_s=30)
    assert world.committed("keepers", "kept")["broker-b", 0] == 9


@pytest.fixture
def ours(tmp_path: Path, world: ApacheWorld) -> Iterator[LiveCluster]:
    """A cluster of brokerd beside it."""
    process = BrokerProcess(tmp_path / "ours", brokerName="broker-z", brokerClusterName="ours").start()
    yield LiveCluster(process, "ours").register()
    close_admins()
    process.stop()


def test_a_cluster_of_ours_takes_the_offsets_of_an_apache_broker(
    world: ApacheWorld, ours: LiveCluster
) -> None:
    """Rebuilt elsewhere with the same messages: by the file of the export, under another broker name."""
    world.create_topic("moving")
    world.create_group("movers")
    ours.create_topic("moving", queues=2)
    ours.create_group("movers")
    for queue_id in (0, 1):
        world.send("moving", ("broker-a", queue_id), 10)
        ours.send("moving", queue_id, [b"m%d" % number for number in range(10)])
    world.commit("movers", "moving", {("broker-a", 0): 4, ("broker-a", 1): 9})
    world.collect()
    text = "".join(as_csv_lines(exported(NAME, "movers", after_the_rounds(world))))
    params = file_params(read_offset_file(text), {"broker-a": "broker-z"}, ["moving"])
    plan = operation_services.create_plan("offset_change", "ours", "movers", params, world.actor)
    done = world.apply(plan)
    assert (done.state, done.error) == ("SUCCEEDED", "")
    assert ours.committed("movers", "moving") == {0: 4, 1: 9}


@pytest.mark.parametrize("to_apache", [True, False])
def test_a_group_is_cloned_by_time_between_brokerd_and_apache(
    world: ApacheWorld, ours: LiveCluster, to_apache: bool
) -> None:
    topic, group = f"mirrored-{to_apache}", f"cloners-{to_apache}"
    world.create_topic(topic)
    world.create_group(group)
    ours.create_topic(topic, queues=2)
    ours.create_group(group)
    sends = [
        lambda: world.send(topic, ("broker-a", 0), 1),
        lambda: world.send(topic, ("broker-b", 1), 1),
        lambda: ours.send(topic, 0, [b"x"]),
        lambda: ours.send(topic, 1, [b"x"]),
    ]
    for _ in range(6):  # an original, then its copy, then the next one in a later millisecond
        for send in (*sends[2:], *sends[:2]) if to_apache else sends:
            send()
        now_ms = time.time_ns() // 1_000_000
        wait_for(lambda now_ms=now_ms: time.time_ns() // 1_000_000 > now_ms + 1)
    wait_for(lambda: world.end(topic) == 12)
    if to_apache:
        for queue_id, offset in ((0, 2), (1, 5)):
            ours.commit(group, topic, queue_id, offset)
        source, target = "ours", NAME
    else:
        world.commit(
            group, topic, {("broker-a", 0): 5, ("broker-b", 1): 2, ("broker-a", 1): 0, ("broker-b", 0): 0}
        )
        source, target = NAME, "ours"
    params = {"target": "clone", "clone_of": f"{source}/{group}"}
    plan = operation_services.create_plan("offset_change", target, group, params, world.actor)
    done = world.apply(plan)
    assert (done.state, done.error) == ("SUCCEEDED", "")
    if to_apache:
        places = {("broker-a", 0): 2, ("broker-b", 1): 2, ("broker-a", 1): 0, ("broker-b", 0): 0}
        assert world.committed(group, topic) == places
    else:
        assert ours.committed(group, topic) == {0: 2, 1: 2}
