"""A wall clock that jumps by up to an hour either way under load: nothing stops, and searches by time stay right.

The broker runs in this process and reads a wall clock that the round sets; the monotonic one is the machine's.
Promised: a held pull is answered at its deadline, an arrival wakes one, the log is flushed by its interval, a delayed
message comes within its delay (or earlier, after a step forward), no connection counts as idle, store times ascend in
the log, and an offset by time is what a look at every message gives.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from brokerd.remoting.codes import RequestCode
from brokerd.store.results import BoundaryType
from tests.brokerd.running import RawClient, RunningBroker, pull_fields, running, send_fields
from tests.hard.tally import main

HOUR_MS = 3_600_000
TOPIC, QUEUES = "T", 2
HELD_MS = 700
LATE_MS = 5_000  # what a busy machine may add to a deadline; a frozen one takes an hour
DELAY_MS = 1_000  # of level 1
ROUND_S = 3.0
SETTINGS = {
    "diskMaxUsedSpaceRatio": "100",
    "diskSpaceCleanForciblyRatio": "100",
    "diskSpaceWarningLevelRatio": "100",
    "flushCommitLogThoroughInterval": "1000",
    "flushConsumeQueueThoroughInterval": "1000",
}


class WallClock:
    """time.time_ns for the round; `set_by` moves it."""

    def __init__(self) -> None:
        self._real = time.time_ns
        self._offset_ns = 0

    def time_ns(self) -> int:
        return self._real() + self._offset_ns

    def set_by(self, step_ms: int) -> None:
        self._offset_ns += step_ms * 1_000_000


@contextmanager
def wall_clock() -> Iterator[WallClock]:
    clock = WallClock()
    with mock.patch("time.time_ns", clock.time_ns):
        yield clock


def elapsed_ms(since: float) -> float:
    return (time.monotonic() - since) * 1000


async def sender(client: RawClient, rng: random.Random, end: float) -> int:
    count = 0
    while time.monotonic() < end:
        fields = send_fields(TOPIC, queue_id=rng.randrange(QUEUES))
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, fields, bytes(rng.randrange(3_000)))).code == 0
        count += 1
        await asyncio.sleep(0.005)
    return count


async def held_pulls(client: RawClient, end: float) -> int:
    """Pulls of a queue that gets nothing: each is answered at its deadline."""
    count = 0
    while time.monotonic() < end:
        began = time.monotonic()
        fields = pull_fields("g", "Idle", 1, flags=6, suspendTimeoutMillis=str(HELD_MS))
        answer = await client.ask(RequestCode.PULL_MESSAGE, fields)
        took_ms = elapsed_ms(began)
        assert answer.code == 19 and HELD_MS - 50 <= took_ms <= HELD_MS + LATE_MS, (answer.code, took_ms)
        count += 1
    return count


async def delayed_messages(client: RawClient, end: float) -> int:
    """Messages of level 1: a pull that waits for each is woken in time."""
    count = 0
    while time.monotonic() < end:
        began = time.monotonic()
        fields = send_fields("Later", properties="DELAY\x011\x02")
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"%d" % count)).code == 0
        pull = pull_fields("g", "Later", count, flags=6, suspendTimeoutMillis="15000")
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull)
        # A step back within the delay makes it wait once more at most.
        assert answer.code == 0 and elapsed_ms(began) <= 2 * DELAY_MS + LATE_MS, (answer, elapsed_ms(began))
        count += 1
    return count


async def steps(clock: WallClock, rng: random.Random, end: float) -> int:
    """Clock jumps; the sum stays within an hour behind the furthest point, as a zone or summer time does."""
    count, behind_ms = 0, 0
    while time.monotonic() < end:
        await asyncio.sleep(rng.uniform(0.1, 0.6))
        step_ms = rng.choice((-HOUR_MS, HOUR_MS, -1_500, 1_500, rng.randint(-HOUR_MS, HOUR_MS)))
        if behind_ms - step_ms > HOUR_MS:
            step_ms = abs(step_ms)
        behind_ms = max(0, behind_ms - step_ms)
        clock.set_by(step_ms)
        count += 1
    return count


async def flushed_in_time(broker: RunningBroker) -> None:
    store, began = broker.broker.store, time.monotonic()
    end_offset = store.commit_log_max_offset
    while store.flushed_offset < end_offset:
        assert elapsed_ms(began) < 2_000 + LATE_MS, f"flushed {store.flushed_offset} of {end_offset}"
        await asyncio.sleep(0.02)


def check_times(broker: RunningBroker, rng: random.Random) -> None:
    store = broker.broker.store
    for queue_id in range(QUEUES):
        count = store.max_offset(TOPIC, queue_id)
        times = [store.store_timestamp(TOPIC, queue_id, offset) for offset in range(count)]
        assert times == sorted(times), f"queue {queue_id}: store times run backwards"
        for _ in range(30):
            wanted = rng.choice(times) + rng.randint(-2, 2)
            expected = next((offset for offset, at in enumerate(times) if at >= wanted), count)
            assert store.offset_by_time(TOPIC, queue_id, wanted, BoundaryType.LOWER) == expected


async def round_in(root: Path, rng: random.Random, clock: WallClock) -> str:
    flush = rng.choice(("ASYNC_FLUSH", "SYNC_FLUSH"))
    async with running(root, flushDiskType=flush, **SETTINGS) as broker:
        member = await broker.consumer("c", "members", TOPIC)
        clients = [await broker.client() for _ in range(3)]
        await clients[0].ask(RequestCode.SEND_MESSAGE_V2, send_fields("Idle"), b"x")
        end = time.monotonic() + ROUND_S
        sent, held, delayed, stepped = await asyncio.gather(
            sender(clients[0], rng, end),
            held_pulls(clients[1], end),
            delayed_messages(clients[2], end),
            steps(clock, rng, end),
        )
        await flushed_in_time(broker)
        broker.controller._close_idle(
            broker.broker.consumers.groups["members"].members.popitem()[1].last_update_ms
        )
        assert not member.is_closed.is_set(), "a step makes no connection idle"
        assert sent > 0 and held > 0 and delayed > 0 and stepped > 0
        check_times(broker, rng)
    return flush


def run_round(seed: int) -> str:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, wall_clock() as clock:
        return asyncio.run(round_in(Path(name), rng, clock))


if __name__ == "__main__":
    main("clock_steps", run_round, rounds=40)
