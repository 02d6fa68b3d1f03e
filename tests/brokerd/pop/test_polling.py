"""Held pops: who is woken by what."""

from __future__ import annotations

from brokerd.clients.pull_request_hold import PullRequestHoldService
from brokerd.pop import polling
from brokerd.pop.checkpoint import GroupQueue
from brokerd.pop.polling import Poll, PopPolling
from tests.brokerd.fakes import MemoryChannel

RETRY = "%RETRY%g_T"


class World:
    def __init__(self) -> None:
        self.hold = PullRequestHoldService()
        self.polls = PopPolling(self.hold)
        self.resumed: list[str] = []

    def poll(
        self, name: str, queue_id: int = -1, group: str = "g", tags: frozenset[int] | None = None,
        wake_ms: int = 1_000, again: int = 0,
    ) -> MemoryChannel | None:  # fmt: skip
        channel = MemoryChannel()

        def resume(_: int) -> None:
            self.resumed.append(name)
            if again:
                self.poll(name, queue_id, group, tags, wake_ms, again - 1)

        poll = Poll(channel, GroupQueue("T", group, queue_id), tags, wake_ms, resume)
        return channel if self.polls.poll(poll, ["T", f"%RETRY%{group}_T"]) else None

    def arrive(self, topic: str = "T", queue_id: int = 0, tag: int = 0) -> list[str]:
        self.hold.notify_arrival(topic, queue_id, 1, tag)
        return self.run()

    def run(self) -> list[str]:
        self.hold.run_ready(0)
        resumed, self.resumed = self.resumed, []
        return resumed


def test_an_arrival_wakes_the_oldest_of_each_group() -> None:
    world = World()
    for name, group in (("a", "g"), ("b", "g"), ("c", "h")):
        world.poll(name, group=group)
    assert world.arrive() == ["a", "c"]
    assert world.arrive() == ["b"]
    assert world.arrive() == []
    assert (world.polls.count, world.hold.watchers) == (0, {})


def test_many_arrivals_at_once_wake_one() -> None:
    world = World()
    world.poll("a")
    world.poll("b")
    for _ in range(5):
        world.hold.notify_arrival("T", 0, 1, 0)
    assert world.run() == ["a"]
    world.polls.wake(GroupQueue("T", "g", -1))  # it left some
    assert world.run() == ["b"]


def test_requests_for_a_queue_are_woken_by_that_queue() -> None:
    world = World()
    world.poll("a", queue_id=2)
    assert world.arrive(queue_id=1) == []
    assert world.arrive(topic="Other", queue_id=2) == []
    assert world.arrive(queue_id=2) == ["a"]


def test_a_retry_wakes_its_own_group() -> None:
    world = World()
    world.poll("a", queue_id=2)
    world.poll("b", group="h")
    assert world.arrive(topic=RETRY) == ["a"]
    assert world.arrive(topic="%RETRY%h_T") == ["b"]


def test_tags_decide_who_is_woken() -> None:
    world = World()
    world.poll("a", tags=frozenset({7}))
    world.poll("b")
    assert world.arrive(tag=8) == ["b"]
    assert world.arrive(tag=8) == []
    assert world.arrive(tag=7) == ["a"]


def test_requests_end_in_time_and_closed_ones_are_dropped() -> None:
    world = World()
    world.poll("a", wake_ms=500)
    world.poll("b", wake_ms=900)
    channel = world.poll("c", wake_ms=700)
    assert channel is not None
    channel.is_open = False
    world.polls.take_due(499)
    assert world.run() == []
    world.polls.take_due(500)
    assert world.run() == ["a"]
    assert world.polls.count_of(GroupQueue("T", "g", -1)) == 1
    world.polls.take_due(900)
    assert world.run() == ["b"]
    assert (world.polls.count, world.hold.watchers) == (0, {})


def test_one_that_closes_while_it_is_woken_wakes_the_next() -> None:
    world = World()
    channel = world.poll("a")
    world.poll("b", wake_ms=5_000)
    assert channel is not None
    world.hold.notify_arrival("T", 0, 1, 0)
    channel.is_open = False
    assert world.run() == []
    world.polls.take_due(1_000)
    assert world.run() == ["b"]


def test_one_that_found_nothing_waits_again() -> None:
    world = World()
    world.poll("a", again=1)
    assert world.arrive() == ["a"]
    assert world.polls.count == 1
    assert world.arrive() == ["a"]
    assert (world.polls.count, world.hold.watchers) == (0, {})


def test_it_refuses_too_many(monkeypatch) -> None:
    monkeypatch.setattr(polling, "POLLS_OF_QUEUE_MAX", 2)
    monkeypatch.setattr(polling, "POLLS_MAX", 3)
    world = World()
    assert [world.poll("a") is not None for _ in range(3)] == [True, True, False]
    assert [world.poll("a", group="h") is not None for _ in range(2)] == [True, False]
