"""A queue of which every message is known: when it was stored and when it was confirmed. What history must be near."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark.lag.samples import Previous, Samples, SeriesKey, starts_of
from spark.lag.snapshot import Int64Array

KEY = SeriesKey("billing", "orders", "broker-a", 0, 0)


@dataclass(frozen=True, slots=True)
class Truth:
    """Message i was stored at `stored_ms[i]` and confirmed at `confirmed_ms[i]`; both never fall."""

    stored_ms: Int64Array
    confirmed_ms: Int64Array

    def samples(self, times_ms: Int64Array) -> Samples:
        """Return what a collector with these rounds sees."""
        high = np.searchsorted(self.stored_ms, times_ms, side="right").astype(np.int64)
        committed = np.searchsorted(self.confirmed_ms, times_ms, side="right").astype(np.int64)
        count = len(times_ms)
        return Samples(
            [KEY],
            starts_of(np.array([count], dtype=np.int64)),
            times_ms,
            high,
            np.zeros(count, dtype=np.int64),
            committed,
            np.full(count, -1, dtype=np.int64),
            Previous.none(1),
        )

    def time_lag_ms(self, at_ms: int) -> int:
        """Return the age of the first unconfirmed message, 0 when nothing waits."""
        first = int(np.searchsorted(self.confirmed_ms, at_ms, side="right"))
        if first >= len(self.stored_ms) or self.stored_ms[first] > at_ms:
            return 0
        return at_ms - int(self.stored_ms[first])


def truth(seed: int, *, messages: int = 3_000, rate: float = 2.0, speed: float = 2.4) -> Truth:
    """Poisson arrivals in bursts and lulls, one server with stalls; messages per second."""
    chance = np.random.default_rng(seed)
    gaps = chance.exponential(1000 / rate, messages) * chance.choice([0.2, 1.0, 4.0], messages)
    stored = np.cumsum(gaps).astype(np.int64) + 1
    work = chance.exponential(1000 / speed, messages)
    for at in chance.integers(0, messages, 3):
        work[at] += chance.uniform(5_000, 120_000)  # a poison message
    # done(i) = max(done(i-1), stored(i)) + work(i)
    total = np.cumsum(work)
    done = total + np.maximum.accumulate(stored - (total - work))
    return Truth(stored, done.astype(np.int64))
