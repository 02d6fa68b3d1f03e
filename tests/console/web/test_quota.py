"""Limits over all processes: two processes are two counters here, with a real Redis between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import redis
from pytest_django import Settings

from console.message.search.quota import PER_PERSON_MAX, SearchQuota, TooManySearches
from console.web import quota
from tests.support.redis_process import RedisProcess


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    quota._counter.cache_clear()


def test_two_processes_count_together(redis_url: str) -> None:
    first, second = quota._Counter(redis_url), quota._Counter(redis_url)
    waits = [counter.take("rest:read:u1", 3, 60) for counter in (first, second, first, second)]
    assert waits[:3] == [0, 0, 0]
    assert 59 < waits[3] <= 60
    assert first.take("rest:read:u2", 3, 60) == 0


def test_parallel_callers_pass_no_limit(redis_url: str) -> None:
    passed: list[float] = []
    callers = [
        threading.Thread(target=lambda: passed.append(quota.take("x", most=5, window_s=60)))
        for _ in range(30)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert passed.count(0.0) == 5


def test_a_window_ends(redis_url: str) -> None:
    assert [quota.take("x", most=1, window_s=1) > 0 for _ in range(2)] == [False, True]
    time.sleep(1.05)
    assert quota.take("x", most=1, window_s=1) == 0


def test_a_process_counts_for_itself_while_redis_is_away(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    started_s = time.monotonic()
    assert [quota.take("x", most=2, window_s=60) > 0 for _ in range(200)] == [False, False] + [True] * 198
    assert time.monotonic() - started_s < 10
    with quota.place("searches:alice", most=1) as first, quota.place("searches:alice", most=1) as second:
        assert (first, second) == (True, True)


def test_local_counters_do_not_grow_for_ever(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    for number in range(quota.LOCAL_KEYS_MAX + 50):
        quota.take(f"x{number}", most=1)
    assert len(quota._local._windows) == quota.LOCAL_KEYS_MAX


def test_a_person_has_four_searches_in_all_processes_together(redis_url: str) -> None:
    here, there = SearchQuota(), SearchQuota()
    held = [place.place("alice") for place in (here, here, there, there)]
    for place in held:
        place.__enter__()
    with (
        pytest.raises(TooManySearches, match=f"You are running {PER_PERSON_MAX} searches"),
        here.place("alice"),
    ):
        pass
    with here.place("bob"):
        pass
    held[2].__exit__(None, None, None)
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        try:
            with here.place("alice"):
                break
        except TooManySearches:
            time.sleep(0.01)
    else:
        pytest.fail("a place that was left is not given back")
    for place in (held[0], held[1], held[3]):
        place.__exit__(None, None, None)
    assert (here.running("alice"), there.running("alice")) == (0, 0)


def test_places_of_a_killed_process_come_back(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "LEASE_S", 1)
    counter = quota._Counter(redis_url)
    assert [counter.hold("searches:alice", name, 1) for name in ("dead", "late")] == [True, False]
    time.sleep(1.1)
    assert counter.hold("searches:alice", "late", 1)


def test_places_are_renewed_while_they_are_held(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "LEASE_S", 1)
    monkeypatch.setattr(quota, "RENEW_EVERY_S", 0.1)
    monkeypatch.setattr(quota, "_renewals", [])
    with quota.place("searches:alice", most=1) as has_place:
        assert has_place
        time.sleep(1.5)
        assert not quota._Counter(redis_url).hold("searches:alice", "late", 1)


def test_a_redis_that_came_back_counts_again(
    redis_url: str, redis_process: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "AWAY_S", 0.05)
    redis_process.kill()
    assert quota.take("x", most=1, window_s=60) == 0
    redis_process.start()
    time.sleep(0.1)
    assert quota.take("x", most=1, window_s=60) == 0
    with redis.Redis.from_url(redis_url) as client:
        assert client.get("tidemark:quota:x") == b"1"
