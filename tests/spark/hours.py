"""Hours of a few groups, made up round by round, that a test may bend before they become a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spark.job import HOUR_MS
from spark.lag import chunk
from spark.lag.samples import Previous, Samples, SeriesKey, starts_of
from tests.support.lag_reference import START_MS

STEP = 15_000
WIDTH = HOUR_MS // STEP
Int64Array = np.typing.NDArray[np.int64]


@dataclass
class Hour:
    """Offsets of an hour, series x rounds, that a test may bend before they become a file."""

    keys: list[SeriesKey]
    times: Int64Array
    high: Int64Array
    low: Int64Array
    committed: Int64Array
    pulled: Int64Array
    read: np.typing.NDArray[np.bool_]
    previous: Previous | None = field(default=None)

    def write(self, path: Path) -> str:
        previous = self.previous or Previous.none(len(self.keys))
        counts = self.read.sum(axis=1)
        times = np.broadcast_to(self.times, self.read.shape)
        columns = [one[self.read] for one in (times, self.high, self.low, self.committed, self.pulled)]
        samples = Samples(self.keys, starts_of(counts), *columns, previous)
        chunk.write_chunk(chunk.encode_table(samples, interval_ms=STEP), str(path))
        return str(path)

    def last(self) -> Previous:
        return Previous(
            np.full(len(self.keys), self.times[-1]), self.high[:, -1], self.low[:, -1], self.committed[:, -1]
        )


def an_hour(seed: int, start_ms: int = START_MS, before: Hour | None = None) -> Hour:
    """Groups with busy, slow, idle and stuck queues, and a retry topic each; `before` is the hour before it."""
    chance = np.random.default_rng(seed)
    keys = sorted(
        SeriesKey(f"group-{group}", topic, f"broker-{queue // 3}", queue % 3, 0)
        for group in range(4)
        for topic in (f"topic-{group % 2}", f"%RETRY%group-{group}")
        for queue in range(6 if topic.startswith("topic") else 1)
    )
    count = len(keys)
    rate = np.where(chance.random(count) < 0.3, 0.0, chance.lognormal(1.0, 2.0, count))
    first = before.last() if before else None
    base = first.max_offset if first else chance.integers(10_000, 10**9, count)
    high = base[:, None] + np.cumsum(chance.poisson(rate[:, None] * 5, (count, WIDTH)), axis=1)
    pace = np.where(chance.random(count) < 0.7, 1.3, chance.random(count)) * rate * 5 + 1
    committed = np.empty_like(high)
    now = first.committed.copy() if first else base - chance.integers(0, 3, count)
    stuck = chance.random((count, 2)) * WIDTH * np.where(chance.random(count) < 0.2, 1, 0)[:, None]
    for number in range(WIDTH):
        moves = (number < stuck.min(axis=1)) | (number >= stuck.max(axis=1))
        room = np.maximum(high[:, number] - chance.poisson(2, count), now)
        now = np.where(moves, np.minimum(now + chance.poisson(pace), np.minimum(room, high[:, number])), now)
        committed[:, number] = now
    low = np.repeat((first.min_offset if first else base - 5_000)[:, None], WIDTH, axis=1)
    times = start_ms + np.arange(WIDTH, dtype=np.int64) * STEP
    unread = np.full_like(high, -1)
    everything = np.ones(high.shape, dtype=np.bool_)
    return Hour(keys, times, high, low, committed, unread, everything, first)
