"""Consume modes on Apache RocketMQ 5.3.3: set, read back, put back; a Java member that follows comes to pop."""

from __future__ import annotations

import pytest

from console.operation import services
from console.operation.models import Job, Plan
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import ApacheWorld
from tests.support import java_peer
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
BOTH = ["broker-a", "broker-b"]


def modes(world: ApacheWorld, topic: str, group: str) -> dict[str, tuple[str, int] | None]:
    """Broker → what was set there."""
    found = {}
    for name, addr in world.cluster.addrs.items():
        one = world.admin.message_request_modes(addr).get(topic, {}).get(group)
        found[name] = None if one is None else (one.mode, one.pop_share_queue_num)
    return found


def done(world: ApacheWorld, plan: Plan) -> Job:
    assert plan.blocked == "", plan.blocked
    job = world.apply(plan)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    return job


def test_it_sets_a_mode_and_puts_it_back(world: ApacheWorld) -> None:
    world.create_topic("moded")
    world.create_group("moders")
    plan = world.plan("group_mode", "moders", {"topic": "moded", "mode": "POP", "pop_share_queues": 2})
    assert plan.summary == (
        "Set how clients of moders get messages of moded: POP, shared by 2 at broker-a and broker-b."
    )
    assert {row["note"] for row in plan.diff} == {"currently the broker's default"}
    job = done(world, plan)
    assert {row["state"] for row in job.result["brokers"]} == {"verified"}
    assert modes(world, "moded", "moders") == dict.fromkeys(BOTH, ("POP", 2))
    half = world.plan("group_mode", "moders", {"topic": "moded", "mode": "PULL", "brokers": ["broker-b"]})
    assert "The brokers will differ" in [warning["title"] for warning in half.warnings]
    done(world, half)
    assert modes(world, "moded", "moders") == {"broker-a": ("POP", 2), "broker-b": ("PULL", 0)}
    done(world, services.undo(half.id, world.actor))
    assert modes(world, "moded", "moders") == dict.fromkeys(BOTH, ("POP", 2))
    done(world, services.undo(plan.id, world.actor))
    assert modes(world, "moded", "moders") == dict.fromkeys(BOTH, ("PULL", 0)), "the default, now set as such"


def test_a_java_member_that_follows_pops(world: ApacheWorld) -> None:
    world.create_topic("switched")
    world.create_group("switchers")
    arguments = ["consume", "--namesrv", world.cluster.namesrv, "--group", "switchers", "--topic", "switched"]
    arguments += ["--broker-assigns", "true", "--expect", "1000", "--seconds", "200"]
    peer = JavaPeer(java_peer.build("5.3.3"), arguments)
    try:
        wait_for(
            lambda: any(
                world.admin.consumer_connection(addr, "switchers") for addr in world.cluster.addrs.values()
            ),
            within_s=90,
        )
        plan = world.plan("group_mode", "switchers", {"topic": "switched", "mode": "POP"})
        assert plan.warnings[0]["title"] == "1 client will follow within 20 s"
        assert plan.confirm == "typed"
        done(world, plan)
        world.fill("switched", 3)
        peer.wait_for(lambda one: len({each.key or each.body for each in one.consumed}) > 0, "a message", 90)
        wait_for(lambda: has_popped(world), within_s=90)
    finally:
        peer.stop()


def has_popped(world: ApacheWorld) -> bool:
    """The member says itself which queues it pops."""
    for addr in world.cluster.addrs.values():
        connection = world.admin.consumer_connection(addr, "switchers")
        for client in connection.connection_set if connection else ():
            if world.admin.consumer_running_info(addr, "switchers", client.client_id).mq_pop_table:
                return True
    return False
