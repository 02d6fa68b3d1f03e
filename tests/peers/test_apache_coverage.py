"""Two brokers of Apache RocketMQ of which one is killed and gone from the name server: what plans say and do."""

from __future__ import annotations

from typing import Any

import pytest

from console.brokers.mqadmin import BrokerUnavailable, SubscriptionGroupConfig, TopicConfig
from console.lag.models import GroupRow
from console.lag.past import history_reads
from console.lag.round import broker_reads
from console.operation import errors, services
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import NAME, ApacheWorld
from tests.support import sample_queues

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
PLACES = [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]


def lose_broker_b(world: ApacheWorld) -> None:
    """Killed after a round saw it; its connection to the name server ends with it."""
    world.collect()
    world.cluster.brokers[1].kill()
    wait_for(lambda: set(world.admin.cluster_info().broker_addr_table) == {"broker-a"}, within_s=200)
    world.collect()


def test_half_a_change_is_named_accepted_and_told_in_the_verdict(world: ApacheWorld) -> None:
    world.create_topic("halves")
    world.create_group("halved")
    world.fill("halves", 10)
    wait_for(lambda: world.end("halves") == 40)
    world.commit("halved", "halves", dict.fromkeys(PLACES, 10))
    # A broker that was just started saves no offsets for ten seconds, and kill -9 loses what is not saved.
    saved = world.cluster.brokers[1].folder / "store" / "config" / "consumerOffset.json"
    wait_for(lambda: saved.exists() and "halves@halved" in saved.read_text())

    lose_broker_b(world)
    plan = world.plan("offset_change", "halved", {"target": "earliest"})
    assert [(row["broker_name"], row["queue_id"], row["how"]) for row in plan.diff] == [
        ("broker-a", 0, "15"),
        ("broker-a", 1, "15"),
        ("broker-b", 0, "left_out"),
        ("broker-b", 1, "left_out"),
    ]
    assert [row["before"] for row in plan.diff] == [10] * 4
    assert plan.blocked.startswith("broker-b has not answered since ")
    assert " and holds 2 of 4 queues. Wait until it answers" in plan.blocked
    with pytest.raises(errors.PlanBlocked):
        services.apply_plan(plan.id, world.actor, plan.confirm_text)
    accepted = world.plan("offset_change", "halved", {"target": "earliest", "accept_without": ["broker-b"]})
    job = world.apply(accepted)
    assert (job.state, job.error, job.result["verified"]) == ("SUCCEEDED", "", 2)
    last = job.events.order_by("-at", "-id")[0].text
    assert last.endswith("the target values on 2 of 4 queues; broker-b left out, accepted by alice")
    kinds: list[tuple[str, str, dict[str, Any]]] = [
        ("group_change", "halved", {"retry_max_times": 3}),
        ("group_force_delete", "halved", {}),
        ("topic_create", "another", {"read_queues": 2, "write_queues": 2}),
        ("topic_change", "halves", {"perm": 4}),
        ("group_pause", "halved", {"topics": ["halves"]}),
        ("broker_config_change", "*", {"key": "maxTransferCountOnMessageInMemory", "value": "40"}),
    ]
    for kind, subject, params in kinds:
        made = world.plan(kind, subject, params)
        assert made.blocked.startswith("broker-b has not answered since "), kind
        again = world.plan(kind, subject, {**params, "accept_without": ["broker-b"]})
        assert again.blocked == "", kind
    created = world.apply(world.plan("topic_create", "another", {"accept_without": ["broker-b"]}))
    assert (created.state, created.error) == ("SUCCEEDED", "")
    assert (created.result["coverage"]["covered"], created.result["coverage"]["expected"]) == (1, 2)
    world.cluster.start_brokers()
    wait_for(lambda: world.routed("halves") == set(world.cluster.addrs), within_s=120)
    assert world.committed("halved", "halves") == {
        ("broker-a", 0): 0,
        ("broker-a", 1): 0,
        ("broker-b", 0): 10,
        ("broker-b", 1): 10,
    }
    rest = world.plan("offset_change", "halved", {"target": "earliest"})
    assert (rest.blocked, rest.before["coverage"]["absent"]) == ("", [])


def test_what_lies_on_the_killed_broker_alone_is_not_unknown(world: ApacheWorld) -> None:

    addr = world.cluster.addrs["broker-b"]
    world.admin.create_topic(addr, TopicConfig("alone", 1, 1, 6))
    world.admin.create_subscription_group(addr, SubscriptionGroupConfig(group_name="loner"))
    wait_for(lambda: world.routed("alone") == {"broker-b"}, within_s=60)
    world.send("alone", ("broker-b", 0), 5)
    world.admin.update_consumer_offset(addr, "loner", "alone", 0, 2)
    lose_broker_b(world)
    for kind, subject, params in (
        ("offset_change", "loner", {"target": "earliest"}),
        ("topic_change", "alone", {"perm": 4}),
        ("group_change", "loner", {"retry_max_times": 3}),
    ):
        with pytest.raises(BrokerUnavailable, match=f"{subject} exists on broker-b only. broker-b has not"):
            world.plan(kind, subject, params)


def test_a_broker_that_dies_in_the_middle_of_a_round_makes_its_queues_unknown(
    world: ApacheWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its committed offsets and the ends of its queues: half an answer is no answer."""
    world.create_topic("midway")
    world.create_group("midways")
    world.fill("midway", 10)
    wait_for(lambda: world.end("midway") == 40)
    places = [(name, queue_id) for name in world.cluster.addrs for queue_id in (0, 1)]
    world.commit("midways", "midway", dict.fromkeys(places, 4))
    world.collect()
    ask_stats = broker_reads._ask_stats

    async def then_it_dies(admin: Any, answer: broker_reads.BrokerAnswers, *rest: Any) -> None:
        if answer.address.broker_name == "broker-b":
            world.cluster.brokers[1].kill()
        await ask_stats(admin, answer, *rest)

    monkeypatch.setattr(broker_reads, "_ask_stats", then_it_dies)
    done = world.collect()
    assert (done.brokers_answered, done.brokers_total) == (1, 2)
    group = GroupRow.objects.get(cluster=NAME, group="midways")
    assert (group.lag, group.lag_lower_bound, group.known_lag) == (12, True, 24)
    unknown = sample_queues.find(NAME, group="midways", broker_name="broker-b")
    assert {(row.status, row.lag) for row in unknown} == {("UNKNOWN", None)}
    at_ms = world.now_ms
    recorded = history_reads.offsets_at(NAME, "midways", at_ms)
    ages = {queue.broker_name: at_ms - reading.read_at_ms for queue, reading in recorded.items()}
    assert ages == {"broker-a": 0, "broker-b": 5_000}, "nothing of half an answer is recorded"
