"""Limits over all processes: how often a minute, and how many at once, counted in Redis.

While Redis is away each process counts for itself: pages and REST keep working, and a caller gets at most the limit in
each process.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import queue
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import redis
from django.conf import settings
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

PREFIX = "tidemark:quota:"
# A request must not wait for the counter longer than its own work takes.
ANSWER_LIMIT_S = 0.5
# A Redis that failed is not called again for this long.
AWAY_S = 5.0
LOCAL_KEYS_MAX = 10_000  # people times scopes; the oldest windows go first
# The places of a killed process are free after this.
LEASE_S = 60
RENEW_EVERY_S = 15.0

# KEYS: counter. ARGV: window in ms, limit. Returns 0, or the ms until the window ends.
TAKE_SCRIPT = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
if count > tonumber(ARGV[2]) then return redis.call('PTTL', KEYS[1]) end
return 0
"""
# KEYS: leases by the ms when they end. ARGV: name of the lease, its life in ms, limit (0: renew). Returns 1, or 0 when
# none is free.
HOLD_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local most = tonumber(ARGV[3])
if most > 0 and redis.call('ZCARD', KEYS[1]) >= most then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""


class _Away(Exception):
    """Redis does not answer, or did not a moment ago."""


class _Counter:
    """Access to Redis. Caller: any thread."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(
            url, socket_timeout=ANSWER_LIMIT_S, socket_connect_timeout=ANSWER_LIMIT_S
        )
        self._take = self._redis.register_script(TAKE_SCRIPT)
        self._hold = self._redis.register_script(HOLD_SCRIPT)
        self._away_until_s = 0.0

    def take(self, key: str, most: int, window_s: float) -> float:
        return float(self._answer(self._take, [PREFIX + key], [int(window_s * 1000), most])) / 1000

    def hold(self, key: str, lease: str, most: int) -> bool:
        return bool(self._answer(self._hold, [PREFIX + key], [lease, LEASE_S * 1000, most]))

    def release(self, key: str, lease: str) -> None:
        self._answer(lambda keys, args: self._redis.zrem(keys[0], *args), [PREFIX + key], [lease])

    def _answer(self, call: Any, keys: list[str], args: list[Any]) -> int:
        if time.monotonic() < self._away_until_s:
            raise _Away
        try:
            return int(call(keys=keys, args=args))
        except (RedisError, OSError) as error:
            self._away_until_s = time.monotonic() + AWAY_S
            logger.warning("limits count in this process alone: %s", error)
            raise _Away from error


@functools.cache
def _counter(url: str) -> _Counter:
    return _Counter(url)


# --- How often ----------------------------------------------------------------------------------------------


class _LocalWindows:
    """The same counters in this process. Caller: any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[str, tuple[float, int]] = {}  # key → (its end on the monotonic clock, taken)

    def take(self, key: str, most: int, window_s: float) -> float:
        now_s = time.monotonic()
        with self._lock:
            end_s, taken = self._windows.pop(key, (0.0, 0))
            if now_s >= end_s:
                end_s, taken = now_s + window_s, 0
            self._windows[key] = (end_s, taken + 1)
            while len(self._windows) > LOCAL_KEYS_MAX:
                del self._windows[next(iter(self._windows))]
        return 0.0 if taken < most else end_s - now_s

    def clear(self) -> None:
        with self._lock:
            self._windows.clear()


_local = _LocalWindows()


def take(key: str, *, most: int, window_s: float = 60.0) -> float:
    """Count one of ``most`` in a window; return 0.0, or the seconds that the caller must wait.

    The first call opens the window.
    """
    try:
        return _counter(settings.REDIS_URL).take(key, most, window_s)
    except _Away:
        return _local.take(key, most, window_s)


def clear_local() -> None:
    """Reset the counters of this process, for tests."""
    _local.clear()


# --- How many at once ---------------------------------------------------------------------------------------


class _Renewal:
    """The thread that renews and releases this process's leases. Caller: any thread.

    It also releases them, because the caller may be an event loop that must not wait.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._held: set[tuple[str, str]] = set()
        self._left: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="quota", daemon=True).start()

    def add(self, key: str, lease: str) -> None:
        self._held.add((key, lease))

    def give_back(self, key: str, lease: str) -> None:
        self._held.discard((key, lease))
        self._left.put((key, lease))

    def _run(self) -> None:
        renew_at_s = time.monotonic() + RENEW_EVERY_S
        while True:
            try:
                with contextlib.suppress(queue.Empty):
                    left = self._left.get(timeout=max(0.0, renew_at_s - time.monotonic()))
                    _counter(settings.REDIS_URL).release(*left)
                if time.monotonic() >= renew_at_s:
                    renew_at_s = time.monotonic() + RENEW_EVERY_S
                    for key, lease in list(self._held):
                        _counter(settings.REDIS_URL).hold(key, lease, 0)
            except _Away:
                pass  # the leases expire by themselves
            except Exception:
                logger.exception("leases not renewed held=%d", len(self._held))


_renewal_lock = threading.Lock()
_renewals: list[_Renewal] = []


def _renewal() -> _Renewal:
    """Return this process's renewal thread; threads do not survive a fork."""
    with _renewal_lock:
        if not _renewals or _renewals[0].pid != os.getpid():
            _renewals[:] = [_Renewal()]
        return _renewals[0]


@contextlib.contextmanager
def place(key: str, *, most: int) -> Iterator[bool]:
    """Hold one of ``most`` places while the block runs; yields False when none is free.

    Yields True while Redis is away: the caller counts in its own process as well.
    """
    lease = secrets.token_hex(8)
    try:
        has_place = _counter(settings.REDIS_URL).hold(key, lease, most)
    except _Away:
        yield True
        return
    if not has_place:
        yield False
        return
    _renewal().add(key, lease)
    try:
        yield True
    finally:
        _renewal().give_back(key, lease)
