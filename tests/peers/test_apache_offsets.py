"""Offset changes on Apache RocketMQ 5.3.3: plan, apply, verify, undo; offline, and with members of both
languages."""

from __future__ import annotations

import time
from typing import Any

import pytest

from console.brokers.mqadmin import MessageRecord
from console.group.offsets import apply as offset_apply
from console.lag import services as lag_services
from console.lag.models import ClientRow
from console.operation import selectors as operation_selectors
from console.operation import services as operation_services
from console.operation.errors import PlanRejected
from console.operation.job import runner
from console.operation.models import Job
from tests.console.operation.live_cluster import LiveCluster, wait_for
from tests.peers.apache_world import NAME, ApacheWorld, moves, wait_for_places
from tests.support import java_peer
from tests.support.java_peer import JavaPeer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
PLACES = [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]


def test_it_moves_an_offline_group_and_takes_it_back(world: ApacheWorld) -> None:
    world.create_topic("offline")
    world.create_group("sleepers")
    world.fill("offline", 10)
    wait_for(lambda: world.end("offline") == 40)
    before = {("broker-a", 0): 7, ("broker-a", 1): 10, ("broker-b", 0): 3, ("broker-b", 1): 0}
    world.commit("sleepers", "offline", before)
    plan = world.plan("offset_change", "sleepers", {"target": "earliest"})
    assert moves(plan) == [(*place, before[place], 0) for place in PLACES]
    assert {row["how"] for row in plan.diff if row["moves"]} == {"15"}
    assert world.committed("sleepers", "offline") == before, "a plan changes nothing"
    job = world.apply(plan)
    assert (job.state, job.error, job.result["verified"]) == ("SUCCEEDED", "", 3)
    assert world.committed("sleepers", "offline") == dict.fromkeys(PLACES, 0)
    undo = world.undo(plan)
    assert [(row[0], row[1], row[3]) for row in moves(undo)] == [
        (*place, before[place]) for place in PLACES if before[place]
    ]
    job = world.apply(undo)
    assert (job.state, job.error) == ("SUCCEEDED", "")
    assert world.committed("sleepers", "offline") == before


def test_it_moves_an_offline_group_to_a_time(world: ApacheWorld) -> None:
    world.create_topic("timed")
    world.create_group("timers")
    world.fill("timed", 5)
    time.sleep(0.05)
    between_ms = int(time.time() * 1000)
    time.sleep(0.05)
    world.send("timed", ("broker-a", 0), 5)
    wait_for(lambda: world.end("timed") == 25)
    world.commit("timers", "timed", dict.fromkeys(PLACES, 1))
    plan = world.plan("offset_change", "timers", {"target": "time", "time_ms": between_ms})
    assert moves(plan) == [(*place, 1, 5) for place in PLACES]
    assert world.apply(plan).state == "SUCCEEDED"
    assert world.committed("timers", "timed") == dict.fromkeys(PLACES, 5)


def test_it_restores_a_group_to_a_recorded_moment(world: ApacheWorld) -> None:
    world.create_topic("restored")
    world.create_group("restorers")
    world.fill("restored", 10)
    wait_for(lambda: world.end("restored") == 40)
    then = {("broker-a", 0): 2, ("broker-a", 1): 9, ("broker-b", 0): 4, ("broker-b", 1): 1}
    world.commit("restorers", "restored", then)
    world.collect()
    moment_ms = world.now_ms + 1_000
    world.commit("restorers", "restored", dict.fromkeys(PLACES, 10))
    world.collect()
    wait_for(lambda: lag_services.system_now_ms() > world.now_ms, within_s=30)  # the rounds' clock ran ahead
    plan = world.plan("offset_change", "restorers", {"target": "as_of", "time_ms": moment_ms})
    assert moves(plan) == [(*place, 10, then[place]) for place in PLACES]
    assert plan.diff[0]["note"] == "at that moment between 2 and 10"
    assert world.apply(plan).state == "SUCCEEDED"
    assert world.committed("restorers", "restored") == then
    with pytest.raises(PlanRejected, match="it begins later, or this console did not collect then"):
        wish = {"target": "as_of", "time_ms": moment_ms - 3_600_000}
        world.plan("offset_change", "restorers", wish)


def test_it_makes_a_group_stand_like_another(world: ApacheWorld) -> None:
    world.create_topic("cloned")
    world.create_group("model")
    world.create_group("copy")
    world.fill("cloned", 10)
    wait_for(lambda: world.end("cloned") == 40)
    model = {("broker-a", 0): 3, ("broker-a", 1): 5, ("broker-b", 1): 8}
    world.commit("model", "cloned", model)
    world.commit("copy", "cloned", dict.fromkeys(PLACES, 10))
    plan = world.plan("offset_change", "copy", {"target": "like_group", "like_group": "model"})
    assert moves(plan) == [(*place, 10, model.get(place, 10)) for place in PLACES]
    assert plan.diff[2]["note"] == "model has no committed offset there"
    assert world.apply(plan).state == "SUCCEEDED"
    assert world.committed("copy", "cloned") == {**model, ("broker-b", 0): 10}
    assert world.committed("model", "cloned") == model
    only = [{"topic": "cloned", "broker_name": "broker-a", "queue_id": 1}]
    taken_back = world.plan("offset_change", "copy", {"target": "undo", "undo_plan": plan.id, "queues": only})
    assert world.apply(taken_back).state == "SUCCEEDED"
    assert world.committed("copy", "cloned") == {**model, ("broker-a", 1): 10, ("broker-b", 0): 10}


def test_it_goes_on_where_it_stood_when_one_of_two_brokers_leaves(
    world: ApacheWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create_topic("parted")
    world.create_group("parters")
    world.fill("parted", 10)
    wait_for(lambda: world.end("parted") == 40)
    world.commit("parters", "parted", dict.fromkeys(PLACES, 10))
    plan = world.plan("offset_change", "parters", {"target": "earliest"})
    job = operation_services.apply_plan(plan.id, world.actor, plan.confirm_text)
    apply_chunk = offset_apply._apply_chunk

    def then_one_leaves(*arguments: Any) -> None:
        apply_chunk(*arguments)
        world.cluster.brokers[1].kill()

    monkeypatch.setattr(offset_apply, "CHUNK_QUEUES", 2)  # broker-a's queues first
    monkeypatch.setattr(offset_apply, "_apply_chunk", then_one_leaves)
    runner.run(job.id, "worker-1")
    waiting = operation_selectors.job(job.id)
    assert [row["state"] for row in waiting.result["queues"]] == ["applied", "applied", "waiting", "waiting"]
    assert waiting.state == "RUNNING"
    monkeypatch.setattr(offset_apply, "_apply_chunk", apply_chunk)
    world.cluster.start_brokers()
    wait_for(lambda: world.routed("parted") == set(world.cluster.addrs), within_s=120)

    def is_over() -> bool:
        """As the beat runs it again: a broker that has just started may still take longer than a call waits."""
        Job.objects.filter(pk=job.id).update(lease_until=None)
        runner.run(job.id, "worker-2")
        return operation_selectors.job(job.id).state != "RUNNING"

    wait_for(is_over, within_s=120)
    done = operation_selectors.job(job.id)
    assert (done.state, done.error, done.result["verified"]) == ("SUCCEEDED", "", 4)
    assert world.committed("parters", "parted") == dict.fromkeys(PLACES, 0)


def test_it_moves_a_group_whose_member_is_ours_and_takes_it_back(world: ApacheWorld) -> None:
    world.create_topic("ours")
    live = LiveCluster(world.cluster)  # type: ignore[arg-type]
    pause_s = [0.0]
    settings = {"persist_consumer_offset_interval_ms": 200, "broker_suspend_max_ms": 3_000}
    settings |= {"consume_concurrency": 1}

    def handle(_: MessageRecord) -> bool:
        time.sleep(pause_s[0])
        return True

    with live.member("readers", "ours", handle, **settings) as seen:
        world.fill("ours", 20)
        wait_for(lambda: len(seen) == 80, within_s=90)
        wait_for_places(world, "readers", "ours", dict.fromkeys(PLACES, 20))
        plan = world.plan("offset_change", "readers", {"target": "earliest"})
        assert moves(plan) == [(*place, 20, 0) for place in PLACES]
        pause_s[0] = 0.8  # 64 s for all, one by one: the undo comes in between, whatever the watch takes
        job = world.apply(plan)
        assert (job.state, job.error) == ("SUCCEEDED", "")
        assert (job.result["verified"], job.result["clients"]) == (4, 1)
        wait_for(
            lambda: len(seen) > 80, within_s=90
        )  # in the watch or, when the broker's hold is long, after it
        undo = world.undo(plan)
        assert [row[3] for row in moves(undo)] == [20] * 4
        job = world.apply(undo)
        assert (job.state, job.error) == ("SUCCEEDED", "")
        read_again = len(seen) - 80
        assert 0 < read_again < 80, "undo came before everything was read again"
        pause_s[0] = 0.0
        world.fill("ours", 1)
        wait_for(
            lambda: {reader_place(world, each) for each in seen if each.queue_offset == 20} == set(PLACES)
        )
        wait_for_places(world, "readers", "ours", dict.fromkeys(PLACES, 21))


def test_it_moves_a_group_of_brokers_that_only_tell_members(world: ApacheWorld) -> None:
    """useServerSideResetOffset=false is the way of 4.x: the broker pushes 220 and keeps no target itself."""
    world.create_topic("pushed")
    live = LiveCluster(world.cluster)  # type: ignore[arg-type]
    for addr in world.cluster.addrs.values():
        world.admin.update_broker_config(addr, {"useServerSideResetOffset": "false"})
    try:
        with live.member("pushed-to", "pushed", persist_consumer_offset_interval_ms=200) as seen:
            world.fill("pushed", 10)
            wait_for(lambda: len(seen) == 40, within_s=40)
            wait_for_places(world, "pushed-to", "pushed", dict.fromkeys(PLACES, 10))
            plan = world.plan("offset_change", "pushed-to", {"target": "earliest"})
            assert {row["how"] for row in plan.diff} == {"222_time"}
            job = world.apply(plan)
            assert (job.state, job.error, job.result["resumed"]) == ("SUCCEEDED", "", 4)
            wait_for(lambda: len(seen) == 80, within_s=30)
            wait_for_places(world, "pushed-to", "pushed", dict.fromkeys(PLACES, 10))
            plan = world.plan("offset_change", "pushed-to", {"target": "offset", "offset": 3})
            assert plan.blocked.startswith("broker-a, broker-b can send running clients only a time")
    finally:
        for addr in world.cluster.addrs.values():
            world.admin.update_broker_config(addr, {"useServerSideResetOffset": "true"})


def reader_place(world: ApacheWorld, message: MessageRecord) -> tuple[str, int]:
    names = {broker.port: broker.name for broker in world.cluster.brokers}
    return names[message.store_host[1]], message.queue_id


def test_it_moves_a_group_whose_member_is_java_and_takes_it_back(world: ApacheWorld) -> None:
    world.create_topic("theirs")
    class_path = java_peer.build("5.3.3")
    options = {"namesrv": world.cluster.namesrv, "topic": "theirs", "group": "javanese", "work": "500"}
    options |= {"threads": "1", "seconds": "200"}
    member = JavaPeer(
        class_path, ["consume", *(f"{word}" for o in options.items() for word in ("--" + o[0], o[1]))]
    )
    try:
        member.wait_for(lambda peer: ["READY"] in peer.lines, "start")
        world.fill("theirs", 20)  # one thread at 2/s: 40 s to read again
        member.wait_for(lambda peer: len(peer.consumed) == 80, "80 messages", patience_s=150)
        wait_for_places(world, "javanese", "theirs", dict.fromkeys(PLACES, 20))
        world.collect()
        assert world.sweep() == 1
        client = ClientRow.objects.get(cluster=NAME, group="javanese")
        assert (client.language, client.version, client.reason) == ("JAVA", "5.3.3", "")
        queues = [each for each in client.queues or () if each["topic"] == "theirs"]
        owned = {(each["broker_name"], each["queue_id"]) for each in queues}
        assert owned == set(PLACES)
        plan = world.plan("offset_change", "javanese", {"target": "earliest"})
        job = world.apply(plan)
        assert (job.state, job.error) == ("SUCCEEDED", "")
        assert (job.result["verified"], job.result["clients"]) == (4, 1)
        assert 1 <= job.result["resumed"] <= 4, (
            "its one thread reads queue after queue, the watch ends before"
        )
        assert {row["how"] for row in job.result["queues"]} == {"222_queue"}
        member.wait_for(lambda peer: len(peer.consumed) > 80, "the first message read again")
        undo = world.undo(plan)
        assert [row[3] for row in moves(undo)] == [20] * 4
        job = world.apply(undo)
        assert (job.state, job.error) == ("SUCCEEDED", "")
        assert len(member.consumed) < 160, "undo came before everything was read again"
        world.fill("theirs", 1)
        member.wait_for(
            lambda peer: sum(each.queue_offset == 20 for each in peer.consumed) == 4, "new messages"
        )
        wait_for_places(world, "javanese", "theirs", dict.fromkeys(PLACES, 21))
    finally:
        member.stop()
