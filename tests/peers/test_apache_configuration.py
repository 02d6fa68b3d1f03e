"""Topics and groups of Apache RocketMQ 5.3.3 on two brokers: create, change, quarantine, delete, undo."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import Settings

from console.brokers.mqadmin import MQBrokerError
from console.operation import errors, selectors, services
from console.operation.job import runner
from console.operation.models import Job
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import ApacheWorld

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
Configs = dict[str, dict[str, Any] | None]
BOTH = ["broker-a", "broker-b"]


def topic_configs(world: ApacheWorld, topic: str) -> Configs:
    found: Configs = {}
    for name, addr in world.cluster.addrs.items():
        try:
            found[name] = world.admin.topic_config(addr, topic).to_value()
        except MQBrokerError:
            found[name] = None
    return found


def group_configs(world: ApacheWorld, group: str) -> Configs:
    found: Configs = {}
    for name, addr in world.cluster.addrs.items():
        config = world.admin.all_subscription_groups(addr).subscription_group_table.get(group)
        found[name] = None if config is None else config.to_value()
    return found


def route_perms(world: ApacheWorld, topic: str) -> dict[str, int]:
    try:
        return {data.broker_name: data.perm for data in world.admin.topic_route(topic).queue_datas}
    except MQBrokerError:
        return {}


def done(world: ApacheWorld, kind: str, subject: str, **params: Any) -> tuple[str, Job]:
    """Plan and carry out; the plan's id and the finished job."""
    plan = world.plan(kind, subject, params)
    assert plan.blocked == "", plan.blocked
    job = world.apply(plan)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    return plan.id, job


def undone(world: ApacheWorld, plan_id: str) -> Job:
    job = world.apply(services.undo(plan_id, world.actor))
    assert (job.state, job.error) == ("SUCCEEDED", "")
    return job


def test_it_creates_and_changes_a_topic_and_puts_it_back(world: ApacheWorld) -> None:
    created, job = done(
        world, "topic_create", "made-here", read_queues=4, write_queues=4, message_type="FIFO"
    )
    assert [(row["broker_name"], row["state"]) for row in job.result["brokers"]] == [
        (name, "verified") for name in BOTH
    ]
    before = topic_configs(world, "made-here")
    for config in before.values():
        assert config is not None
        assert (config["readQueueNums"], config["perm"], config["attributes"]) == (
            4,
            6,
            {"message.type": "FIFO"},
        )
    # On one broker only, with an attribute that stays as it is: 5.x wants to hear of differences alone.
    changed, _ = done(
        world, "topic_change", "made-here", brokers=["broker-b"], write_queues=8, read_queues=8, perm=4
    )
    after = topic_configs(world, "made-here")
    assert after["broker-a"] == before["broker-a"]
    assert after["broker-b"] == {
        **(before["broker-b"] or {}),
        "readQueueNums": 8,
        "writeQueueNums": 8,
        "perm": 4,
    }
    assert route_perms(world, "made-here") == {"broker-a": 6, "broker-b": 4}
    typed, _ = done(world, "topic_change", "made-here", brokers=["broker-a"], message_type="NORMAL")
    undone(world, typed)
    undone(world, changed)
    assert topic_configs(world, "made-here") == before, "to the letter"
    undone(world, created)
    assert topic_configs(world, "made-here") == {"broker-a": None, "broker-b": None}
    assert route_perms(world, "made-here") == {}


def test_it_takes_a_topic_from_one_of_two_brokers(world: ApacheWorld) -> None:
    done(world, "topic_create", "half-there", brokers=["broker-a"], read_queues=2, write_queues=2)
    added, _ = done(world, "topic_create", "half-there", read_queues=2, write_queues=2)
    assert set(route_perms(world, "half-there")) == set(BOTH)
    undone(world, added)
    assert topic_configs(world, "half-there")["broker-b"] is None
    perms = route_perms(world, "half-there")
    assert perms["broker-a"] == 6 and perms.get("broker-b", 0) == 0, "no client is led to a broker without it"
    sent = world.send("half-there", ("broker-a", 0), 1)
    assert len(sent) == 1


def test_it_deletes_a_topic_from_quarantine(world: ApacheWorld, settings: Settings) -> None:
    world.create_topic("doomed")
    world.fill("doomed", 3)
    wait_for(lambda: world.end("doomed") == 12, within_s=30)
    before = topic_configs(world, "doomed")
    done(world, "topic_quarantine", "doomed")
    assert route_perms(world, "doomed") == {"broker-a": 0, "broker-b": 0}
    refused = world.admin.gather(
        {"pull": lambda admin: admin.pull(world.cluster.addrs["broker-a"], "doomed", 0, 0)}, 10_000
    )["pull"]
    assert isinstance(refused, MQBrokerError) and refused.code == 16, "nobody reads it now"
    assert "it can be deleted after 24 hours" in world.plan("topic_delete", "doomed", {}).blocked
    done(world, "topic_release", "doomed")
    assert topic_configs(world, "doomed") == before
    done(world, "topic_quarantine", "doomed")
    settings.QUARANTINE_HOURS = 0
    plan = world.plan("topic_delete", "doomed", {})
    assert (plan.messages, plan.confirm) == (12, "typed")
    assert any("would create it again" in warning["title"] for warning in plan.warnings)
    job = world.apply(plan)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert topic_configs(world, "doomed") == {"broker-a": None, "broker-b": None}
    assert route_perms(world, "doomed") == {}
    undone(world, plan.id)
    done(world, "topic_release", "doomed")
    assert topic_configs(world, "doomed") == before, "the settings are back; the messages are not"
    assert world.end("doomed") == 0


def test_it_shows_unread_messages_of_queues_that_vanish(world: ApacheWorld) -> None:
    world.create_topic("shrinking", queues=2)
    world.create_group("shrinkers")
    world.fill("shrinking", 5)
    wait_for(lambda: world.end("shrinking") == 20, within_s=30)
    world.commit("shrinkers", "shrinking", {("broker-a", 1): 5, ("broker-b", 1): 2})
    plan = world.plan("topic_change", "shrinking", {"read_queues": 1, "write_queues": 1})
    assert (plan.messages, plan.confirm) == (3, "typed")
    assert "shrinkers 3." in plan.warnings[0]["text"]


def test_it_creates_changes_and_deletes_a_group(world: ApacheWorld, settings: Settings) -> None:
    world.create_topic("consumed")
    world.fill("consumed", 5)
    wait_for(lambda: world.end("consumed") == 20, within_s=30)
    done(world, "group_create", "made-group", retry_max_times=5)
    before = group_configs(world, "made-group")
    assert {name: (config or {})["retryMaxTimes"] for name, config in before.items()} == dict.fromkeys(
        BOTH, 5
    )
    changed, _ = done(
        world, "group_change", "made-group", brokers=["broker-a"], retry_max_times=2, notify_members=False
    )
    assert group_configs(world, "made-group")["broker-b"] == before["broker-b"]
    undone(world, changed)
    assert group_configs(world, "made-group") == before, "to the letter"
    offsets = {("broker-a", 0): 4, ("broker-b", 1): 2}
    world.commit("made-group", "consumed", offsets)
    done(world, "group_quarantine", "made-group")
    refused = world.admin.gather(
        {
            "pull": lambda admin: admin.pull(
                world.cluster.addrs["broker-a"], "consumed", 0, 0, group="made-group"
            )
        },
        10_000,
    )["pull"]
    assert isinstance(refused, MQBrokerError) and refused.code == 16, "its members may not consume"
    settings.QUARANTINE_HOURS = 0
    plan = world.plan("group_delete", "made-group", {})
    assert plan.blocked == ""
    job = world.apply(plan)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert group_configs(world, "made-group") == {"broker-a": None, "broker-b": None}
    wait_for(lambda: world.committed("made-group", "consumed") == {}, within_s=30)
    undone(world, plan.id)
    done(world, "group_release", "made-group")
    assert group_configs(world, "made-group") == before
    assert world.committed("made-group", "consumed") == offsets


def test_it_finishes_when_a_broker_that_went_away_is_back(world: ApacheWorld) -> None:
    world.create_topic("resumed")
    plan = world.plan("topic_change", "resumed", {"read_queues": 6, "write_queues": 6})
    job = services.apply_plan(plan.id, world.actor, plan.confirm_text)
    broker_b = world.cluster.brokers[1]
    broker_b.kill()
    runner.run(job.id, "worker-1")
    waiting = selectors.job(job.id)
    states = {row["broker_name"]: row["state"] for row in waiting.result["brokers"]}
    assert (waiting.state, states) == ("RUNNING", {"broker-a": "applied", "broker-b": "waiting"})
    assert "broker-b does not answer" in next(
        row["error"] for row in waiting.result["brokers"] if row["broker_name"] == "broker-b"
    )
    with pytest.raises(errors.UndoImpossible, match="is still running"):
        services.undo(plan.id, world.actor)
    world.cluster.start_brokers()
    Job.objects.filter(pk=job.id).update(lease_until=None)
    runner.run(job.id, "worker-2")
    finished = selectors.job(job.id)
    assert (finished.state, finished.error) == ("SUCCEEDED", "")
    assert {(config or {})["readQueueNums"] for config in topic_configs(world, "resumed").values()} == {6}
