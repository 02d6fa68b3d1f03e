"""Pausing a group on topics of Apache RocketMQ 5.3.3: members stop and go on; what a broker would forget stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from console.group import refusals
from console.group.pauses import pauses_of
from console.operation import services
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import NAME, ApacheWorld
from tests.support import java_peer
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
BOTH = ["broker-a", "broker-b"]


def paused(world: ApacheWorld, group: str) -> dict[str, set[str]]:
    """Broker → topics the group may not read there."""
    return {
        name: set((world.admin.group_refusals(addr).topics or {}).get(group, ()))
        for name, addr in world.cluster.addrs.items()
    }


def done(world: ApacheWorld, plan: Plan) -> Job:
    assert plan.blocked == "", plan.blocked
    job = world.apply(plan)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    return job


def ready(world: ApacheWorld, group: str, *topics: str) -> None:
    world.create_group(group)
    for topic in topics:
        world.create_topic(topic)
        world.commit(group, topic, {("broker-a", 0): 0})


@pytest.fixture
def reader(world: ApacheWorld) -> Iterator[JavaPeer]:
    """A push consumer of Java's in group ``held`` on ``flow``."""
    ready(world, "held", "flow")
    arguments = ["consume", "--namesrv", world.cluster.namesrv, "--group", "held", "--topic", "flow"]
    peer = JavaPeer(java_peer.build("5.3.3"), [*arguments, "--expect", "1000", "--seconds", "200"])
    yield peer
    peer.stop()


def test_a_java_member_stops_and_goes_on(world: ApacheWorld, reader: JavaPeer) -> None:
    world.fill("flow", 2)
    reader.wait_for(lambda one: len(one.consumed) == 8, "the first messages", 90)
    plan = world.plan("group_pause", "held", {"topics": ["flow"]})
    assert plan.warnings[0]["title"] == "1 client is online"
    job = done(world, plan)
    assert {(row["broker_name"], row["state"]) for row in job.result["brokers"]} == {
        (name, "verified") for name in BOTH
    }
    world.fill("flow", 5)
    # Each queue's held pull is woken by these and refused: what is read after the pause is none of them.
    ends = {(name, queue_id): 7 for name in BOTH for queue_id in (0, 1)}
    wait_for(lambda: world.end("flow") == 28, within_s=60)
    done(world, world.plan("group_change", "held", {"notify_members": True, "retry_max_times": 3}))
    assert len(reader.consumed) == 8
    done(world, world.plan("group_resume", "held", {}))
    reader.wait_for(lambda one: len(one.consumed) == 28, "what was held", 90)
    wait_for(lambda: world.committed("held", "flow") == ends, within_s=60)


def test_the_others_stay_paused_and_a_restart_remembers(world: ApacheWorld) -> None:
    ready(world, "holders", "still-paused", "opened")
    plan = world.plan("group_pause", "holders", {"topics": ["still-paused", "opened"]})
    done(world, plan)
    assert paused(world, "holders") == dict.fromkeys(BOTH, {"still-paused", "opened"})
    opened = world.plan("group_resume", "holders", {"topics": ["opened"]})
    assert "still-paused at broker-a stays paused" in [warning["title"] for warning in opened.warnings]
    done(world, opened)
    assert paused(world, "holders") == dict.fromkeys(BOTH, {"still-paused"}), (
        "Apache's broker forgets it otherwise"
    )
    restart(world, "broker-a")
    assert paused(world, "holders") == dict.fromkeys(BOTH, {"still-paused"})
    done(world, world.plan("group_resume", "holders", {}))
    restart(world, "broker-b")
    assert paused(world, "holders") == dict.fromkeys(BOTH, set()), "saved, not in memory only"


def test_it_is_read_back_and_undone(world: ApacheWorld) -> None:
    ready(world, "undone", "first", "second")
    configs: Mapping[str, object] = {
        name: world.admin.all_subscription_groups(addr).subscription_group_table["undone"].to_value()
        for name, addr in world.cluster.addrs.items()
    }
    plan = world.plan("group_pause", "undone", {"topics": ["first"], "brokers": ["broker-b"]})
    done(world, plan)
    assert refusals.survey_cluster(NAME, now_ms=world.now_ms) == 2
    (pause,) = pauses_of(NAME, "undone", world.now_ms).paused
    assert (pause.topic, pause.brokers, pause.by) == ("first", ("broker-b",), "alice")
    done(world, services.undo(plan.id, world.actor))
    assert paused(world, "undone") == dict.fromkeys(BOTH, set())
    assert configs == {
        name: world.admin.all_subscription_groups(addr).subscription_group_table["undone"].to_value()
        for name, addr in world.cluster.addrs.items()
    }, "writing the settings once more changed none of them"


def restart(world: ApacheWorld, broker_name: str) -> None:
    """One is enough: the other has nothing to remember that differs, and a start is seconds of CPU."""
    next(broker for broker in world.cluster.brokers if broker.name == broker_name).kill()
    world.cluster.start_brokers()
