"""Searching messages over two Apache RocketMQ brokers: cursors both ways, filters at the broker, the life line."""

from __future__ import annotations

import time

import pytest

from console.access.name_scope import EVERYTHING
from console.brokers.mqadmin import Message
from console.cluster.models import Cluster
from console.message import services
from console.message.life_line.events import life_line
from console.message.search import message_search as search
from console.message.search.message_search import source_of
from console.message.search.query import Query, QueryRefused
from console.message.search.tail import Tail
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import NAME, ApacheWorld

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

TOPIC = "searched"
PLACES = [("broker-a", 0), ("broker-b", 0), ("broker-a", 1), ("broker-b", 1)]


def fill(world: ApacheWorld, count: int) -> None:
    """Message n is the n-th in time over all queues; every third has the tag third; property n is n."""
    world.create_topic(TOPIC)
    for number in range(count):
        name, queue_id = PLACES[number % len(PLACES)]
        properties = {"TAGS": "third" if number % 3 == 0 else "other", "n": str(number), "KEYS": f"k{number}"}
        world.admin.send(
            world.cluster.addrs[name], Message(TOPIC, b"%d" % number, properties), queue_id=queue_id
        )
        time.sleep(0.002)  # the same store time would leave the order to the queue's name
    wait_for(lambda: world.end(TOPIC) == count)


def pages(query: Query, limit: int) -> list[list[int]]:
    """Every page on, and on the way back the same ones."""
    found: list[list[int]] = []
    backs: list[str | None] = []
    cursor = ""
    while True:
        page = services.find(NAME, query, limit=limit, cursor=cursor, time_ms=60_000)
        assert page.silent == {}
        found.append([int(row.body_text) for row in page.rows])
        backs.append(page.previous)
        if page.cursor is None:
            break
        cursor = page.cursor
    for index in range(len(found) - 1, 0, -1):
        back = services.find(NAME, query, limit=limit, cursor=backs[index] or "", time_ms=60_000)
        assert [int(row.body_text) for row in back.rows] == found[index - 1]
    return found


def test_it_searches_two_brokers_as_one(world: ApacheWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    # A JVM that has just started may take longer than people are kept waiting for one broker.
    monkeypatch.setattr(search, "ROUND_DEADLINE_MS", 60_000)
    fill(world, 120)
    newest = pages(Query(TOPIC), 25)
    assert [number for page in newest for number in page] == list(range(119, -1, -1))
    assert [len(page) for page in newest] == [25, 25, 25, 25, 20]
    oldest = pages(Query(TOPIC, newest=False, brokers=frozenset({"broker-b"})), 40)
    assert [number for page in oldest for number in page] == [n for n in range(120) if n % 2]
    tagged = pages(Query(TOPIC, newest=False, tags=("third",)), 15)
    assert [number for page in tagged for number in page] == list(range(0, 120, 3))
    with pytest.raises(QueryRefused, match="does not filter by SQL92.*enablePropertyFilter=true"):
        services.find(NAME, Query(TOPIC, sql="n > 100"))
    for addr in world.cluster.addrs.values():
        world.admin.update_broker_config(addr, {"enablePropertyFilter": "true"})
    try:
        found = pages(Query(TOPIC, sql="n > 100 AND TAGS = 'third'"), 5)
        assert [number for page in found for number in page] == [117, 114, 111, 108, 105, 102]
        with pytest.raises(QueryRefused, match="cannot read this expression"):
            services.find(NAME, Query(TOPIC, sql="n >"))
    finally:
        for addr in world.cluster.addrs.values():
            world.admin.update_broker_config(addr, {"enablePropertyFilter": "false"})
    tail = Tail(source_of(NAME, TOPIC), Query(TOPIC, tags=("late",)))
    world.send(TOPIC, ("broker-b", 1), 2, TAGS="late")
    seen: list[str] = []
    wait_for(lambda: bool(seen.extend(hit.broker_name for hit in tail.step().hits) or len(seen) == 2))
    assert seen == ["broker-b", "broker-b"]


def test_it_sends_a_copy_and_tells_its_life(world: ApacheWorld) -> None:
    world.create_topic("copied")
    world.create_group("readers")
    world.send("copied", ("broker-a", 1), 1, KEYS="k", amount="1")
    world.commit("readers", "copied", {("broker-a", 1): 1})
    source = {"topic": "copied", "broker_name": "broker-a", "queue_id": 1, "queue_offset": 0}
    plan = world.plan("message_send", "copied", {"source": source, "body": "edited", "keys": "k"})
    job = world.apply(plan)
    assert (job.state, job.error, job.result["queue_offset"]) == ("SUCCEEDED", "", 1)
    world.collect()
    original, copy = (services.record_at(NAME, "copied", "broker-a", 1, offset) for offset in (0, 1))
    assert original is not None and copy is not None and copy.record.body == b"edited"
    cluster = Cluster.objects.get(name=NAME)
    life = life_line(cluster, original, EVERYTHING, now_ms=world.now_ms)
    assert [(each.group, each.state) for each in life.groups] == [("readers", "CONSUMED")]
    assert [step.plan_id for step in life.steps if step.plan_id] == [plan.id] and life.problems == []
    later = life_line(cluster, copy, EVERYTHING, now_ms=world.now_ms)
    assert [each.state for each in later.groups] == ["NOT_YET"]
