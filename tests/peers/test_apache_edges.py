"""States of lag.md 1.3 that only Apache RocketMQ can be brought into: timer wheel, half messages."""

from __future__ import annotations

import pytest

from console.broker import selectors as broker_selectors
from console.broker import services as broker_services
from console.broker.held_back import HeldBack
from tests.console.operation.live_cluster import wait_for
from tests.peers.apache_world import NAME, ApacheWorld

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def held_by(world: ApacheWorld, broker_name: str) -> HeldBack:
    """What a survey counts now."""
    broker_services.request_survey(NAME)
    assert broker_services.survey_cluster(NAME, now_ms=world.now_ms) is not None
    view = broker_selectors.broker(NAME, broker_name)
    assert view is not None
    return view.held_back


def test_messages_that_are_held_back_are_counted_by_what_they_wait_for(world: ApacheWorld) -> None:
    world.create_topic("later")
    world.collect()
    place = ("broker-a", 0)
    world.send("later", place, 5, DELAY="18")
    world.send("later", place, 4, TIMER_DELAY_SEC="600")
    world.send("later", place, 6, TRAN_MSG="true", PGROUP="nobody")
    addr = world.cluster.addrs["broker-a"]
    wait_for(lambda: world.admin.runtime_info(addr)["timerCongestNum"] == "4", "the wheel", within_s=60)
    world.collect()
    held = held_by(world, "broker-a")
    # The level is at 0 or in no table at all, for nothing of it was ever delivered.
    assert [(one.level, one.delay_ms, one.waiting) for one in held.levels] == [(18, 7_200_000, 5)]
    assert (held.delayed, held.late, held.timed, held.timed_topics) == (5, [], 4, [("later", 4)])
    assert held.half is not None and held.half >= 6  # at most: each check stores what it asks about anew
    assert world.admin.max_offset(addr, "later", 0) == 0  # none of them is in its topic, so in any lag
    other = held_by(world, "broker-b")
    assert (other.delayed, other.timed, other.half) == (0, 0, 0)
