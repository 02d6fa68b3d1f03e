"""Hours of a few groups, made up round by round, that a test may bend before they become a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spark.lag.history import chunk
from spark.lag.local_time import HOUR_MS
from spark.lag.samples import SAMPLE_COLUMNS, Previous, Samples, SeriesKey, starts_of
from tests.support.judge import judged
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
        chunk.write_chunk(chunk.encode_table(self.samples(), interval_ms=STEP), str(path))
        return str(path)

    def samples(self) -> Samples:
        """The hour as it was judged; where it was not `read` with the last offsets and the status UNKNOWN."""
        previous = self.previous or Previous.none(len(self.keys))
        counts = np.full(len(self.keys), len(self.times))
        times = np.broadcast_to(self.times, self.read.shape)
        last = np.maximum.accumulate(np.where(self.read, np.arange(len(self.times)), 0), axis=1)
        offsets = [np.take_along_axis(one, last, axis=1) for one in (self.high, self.low, self.committed)]
        columns = [one.reshape(-1) for one in (times, *offsets, self.pulled)]
        found = judged(Samples(self.keys, starts_of(counts), *columns, previous))
        is_unread = ~self.read.reshape(-1)
        found.status[is_unread], found.flags[is_unread], found.time_lag_ms[is_unread] = 12, 0, -1
        return found

    def last(self) -> Previous:
        own = self.samples()
        at = own.starts[1:] - 1
        return Previous(*(getattr(own, name)[at] for name in SAMPLE_COLUMNS))


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
