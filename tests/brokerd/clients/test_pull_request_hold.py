from __future__ import annotations

import pytest

from brokerd.clients import pull_request_hold
from brokerd.clients.pull_request_hold import HeldPull, PullRequestHoldService
from tests.brokerd.fakes import MemoryChannel


class Resumed(list[int]):
    def pull(
        self,
        offset: int,
        *,
        tags: frozenset[int] | None = None,
        deadline_ms: int = 10_000,
        channel: MemoryChannel | None = None,
        group: str = "g",
    ) -> HeldPull:
        return HeldPull(channel or MemoryChannel(), group, offset, tags, deadline_ms, self.append)


def test_it_wakes_a_pull_when_a_message_arrives_behind_its_offset() -> None:
    service, resumed = PullRequestHoldService(), Resumed()
    service.hold("T", 0, resumed.pull(5))
    service.notify_arrival("T", 1, 6, 0)
    service.notify_arrival("T", 0, 5, 0)
    service.run_ready(1)
    assert (resumed, service.count) == ([], 1)
    service.notify_arrival("T", 0, 6, 0)
    service.run_ready(2)
    assert (resumed, service.count) == ([2], 0)


def test_it_sleeps_on_while_no_tag_matches() -> None:
    service, resumed = PullRequestHoldService(), Resumed()
    service.hold("T", 0, resumed.pull(5, tags=frozenset({7})))
    service.notify_arrival("T", 0, 6, 8)
    assert not service.has_ready
    service.notify_arrival("T", 0, 7, 7)
    service.run_ready(3)
    assert resumed == [3]


def test_it_answers_at_the_deadline() -> None:
    service, resumed = PullRequestHoldService(), Resumed()
    service.hold("T", 0, resumed.pull(5, deadline_ms=300))
    service.hold("T", 1, resumed.pull(5, deadline_ms=100))
    service.take_due(99)
    service.run_ready(99)
    assert resumed == []
    service.take_due(100)
    service.run_ready(100)
    assert (resumed, service.count) == ([100], 1)
    service.take_due(300)
    service.run_ready(300)
    assert (resumed, service.count) == ([100, 300], 0)


def test_many_share_a_scan() -> None:
    service, resumed = PullRequestHoldService(), Resumed()
    for number in range(2_000):
        service.hold("T", number % 50, resumed.pull(5, deadline_ms=1_000 + number))
    for now_ms, due in ((1_000, 1), (1_050, 1), (1_099, 100), (1_150, 100), (1_200, 201), (1_300, 301)):
        service.take_due(now_ms)
        service.run_ready(now_ms)
        assert (len(resumed), service.count) == (due, 2_000 - due), now_ms


def test_it_forgets_pulls_of_closed_connections() -> None:
    service, resumed = PullRequestHoldService(), Resumed()
    channel = MemoryChannel()
    service.hold("T", 0, resumed.pull(5, deadline_ms=100, channel=channel))
    channel.is_open = False
    service.take_due(100)
    service.run_ready(100)
    assert (resumed, service.count) == ([], 0)


def test_it_wakes_a_group_whose_offset_was_reset() -> None:
    service, resumed = PullRequestHoldService(), Resumed()
    old = MemoryChannel()
    service.hold("T", 0, resumed.pull(5))
    service.hold("T", 0, resumed.pull(5, group="other"))
    service.hold("T", 1, resumed.pull(5, channel=old))
    service.wake_group("T", "g", [0, 1], lambda channel: channel is not old)
    service.run_ready(4)
    assert (resumed, service.count) == ([4], 2)


def test_it_refuses_to_hold_without_limit() -> None:
    service, resumed = PullRequestHoldService(), Resumed()
    service.count = 100_000
    assert not service.hold("T", 0, resumed.pull(0))


def test_it_answers_the_others_when_one_cannot_be_resumed() -> None:
    service, resumed = PullRequestHoldService(), Resumed()

    def fail(now_ms: int) -> None:
        raise ValueError(now_ms)

    service.hold("T", 0, HeldPull(MemoryChannel(), "g", 5, None, 10_000, fail))
    service.hold("T", 0, resumed.pull(5))
    service.notify_arrival("T", 0, 6, 0)
    service.run_ready(3)
    assert (resumed, service.count, service.has_ready) == ([3], 0, False)


def test_one_connection_holds_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_request_hold, "HELD_A_CONNECTION_MAX", 3)
    service, resumed, greedy = PullRequestHoldService(), Resumed(), MemoryChannel()
    assert [service.hold("T", n, resumed.pull(5, channel=greedy)) for n in range(4)] == [True] * 3 + [False]
    assert service.hold("T", 9, resumed.pull(5))
    service.notify_arrival("T", 0, 6, 0)
    assert service.hold("T", 0, resumed.pull(5, channel=greedy))
    assert not service.has_room(greedy)
    greedy.close("gone")
    service.take_due(10_000)
    assert (service.has_room(greedy), service.count) == (True, 0)


def test_thousands_that_are_woken_share_turns() -> None:
    service, resumed, turns = PullRequestHoldService(), Resumed(), []
    service.soon = turns.append
    for _ in range(1_000):
        service.hold("T", 0, resumed.pull(5))
    service.notify_arrival("T", 0, 6, 0)
    counts = []
    service.run_ready(1)
    service.run_ready(1)  # another client's send takes no part of them
    while turns:
        counts.append(len(resumed))
        turns.pop()()
    assert (counts, len(resumed)) == ([200, 400, 600, 800], 1_000)
