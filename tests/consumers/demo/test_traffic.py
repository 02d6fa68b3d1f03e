"""The demo on a real broker: its groups come into the conditions that its table names."""

from __future__ import annotations

import asyncio
import json

import pytest

from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.message.names import dead_letter_topic
from consumers.admin.mqadmin import MQAdmin
from consumers.demo import groups, traffic
from consumers.demo.traffic import Demo, due_messages

LETTERS = dead_letter_topic("notifier")


def test_it_sends_what_is_due_and_keeps_the_rest():
    assert due_messages(10.0, 0.0, 250) == (2, 0.5)
    assert due_messages(10.0, 0.5, 250) == (3, 0.0)
    assert due_messages(0.0, 0.25, 250) == (0, 0.25)


async def lags(admin: MQAdmin, addr: str) -> dict[str, list[int]]:
    """Lag of the queues that a group has offsets of, smallest first."""
    offsets = (await admin.all_consumer_offsets(addr)).offset_table
    return {
        group: sorted([await admin.max_offset(addr, topic, number) - at for number, at in queues.items()])
        for (topic, group), queues in offsets.items()
        if not topic.startswith("%")
    }


async def has_its_conditions(admin: MQAdmin, addr: str) -> bool:
    found = await lags(admin, addr)
    one_stalled = len(shipping := found.get("shipping", [])) == 4 and shipping[2] < 20 < shipping[3]
    is_offline = max(found.get("nightly-export", [0])) > 60
    is_slow = sum(found.get("analytics", [])) > 300
    topics = (await admin.all_topic_config(addr)).topic_config_table
    return one_stalled and is_offline and is_slow and LETTERS in topics


@pytest.mark.timeout(90)
async def test_it_shows_a_stall_an_offline_and_a_slow_group_and_dead_letters(brokerd, monkeypatch):
    monkeypatch.setattr(groups, "NOTIFIER_FIRST_DELAY_LEVEL", 1)
    monkeypatch.setattr(traffic, "EXPORT_RUNS_S", 3.0)
    stop = asyncio.Event()
    running = asyncio.create_task(Demo(brokerd.namesrv, speed=4.0).run(stop))
    async with MQAdmin(brokerd.namesrv) as admin:
        while not running.done() and not await has_its_conditions(admin, brokerd.address):
            await asyncio.sleep(0.5)
        found = await lags(admin, brokerd.address)
        assert max(found["billing"]) < 100
        assert max(found["ledger"]) < 100
    stop.set()
    await asyncio.wait_for(running, 5)


@pytest.mark.timeout(90)
async def test_it_writes_the_cause_of_a_failure_into_its_dead_letters(brokerd, monkeypatch):
    monkeypatch.setattr(groups, "NOTIFIER_FIRST_DELAY_LEVEL", 1)
    monkeypatch.setattr(groups, "FAIL_ALWAYS_PERCENT", 60)
    stop = asyncio.Event()
    running = asyncio.create_task(Demo(brokerd.namesrv, speed=2.0).run(stop))
    async with MQAdmin(brokerd.namesrv) as admin:
        while LETTERS not in (await admin.all_topic_config(brokerd.address)).topic_config_table:
            assert not running.done()
            await asyncio.sleep(0.5)
        readable = TopicConfig(topic_name=LETTERS, read_queue_nums=1, write_queue_nums=1, perm=6)
        await admin.create_topic(brokerd.address, readable)
        letters = (await admin.pull(brokerd.address, LETTERS, 0, 0)).messages
    assert letters
    for letter in letters:
        assert letter.properties[groups.CAUSE_PROPERTY] in groups.FAILURES
        assert letter.properties["RETRY_TOPIC"] == "orders"
        assert json.loads(letter.body)["status"] == "paid"
    stop.set()
    await asyncio.wait_for(running, 5)
