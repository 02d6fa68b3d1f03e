"""The rate of a replay: a token bucket saved with the job, so that every process keeps one rate. Pure."""

from __future__ import annotations

import msgspec

BURST_S = 0.5  # seconds' worth of messages that may be caught up after a stall; a batch is a fifth of it
BATCH_S = 0.1  # a batch's share of a second: pause, cancel and a new rate take effect after this


class TokenBucket(msgspec.Struct):
    """Token bucket; ``at_ms`` is the wall clock time of ``tokens``, None before the first take."""

    tokens: float = 0.0
    at_ms: float | None = None

    def take(self, count: int, rate_per_s: int | None, now_ms: float) -> float:
        """Take ``count`` tokens and return 0.0, or return the seconds to wait before the next try.

        Without a rate it never waits. A clock that was set back adds nothing.
        """
        if rate_per_s is None:
            self.tokens, self.at_ms = 0.0, now_ms
            return 0.0
        elapsed_s = 0.0 if self.at_ms is None else max(0.0, now_ms - self.at_ms) / 1_000
        self.at_ms = now_ms
        self.tokens = min(max(rate_per_s * BURST_S, float(count)), self.tokens + elapsed_s * rate_per_s)
        if self.tokens >= count:
            self.tokens -= count
            return 0.0
        return (count - self.tokens) / rate_per_s

    def kept(self) -> TokenBucket:
        """Return the bucket as the job's progress keeps it, for another process to go on with."""
        return TokenBucket(round(self.tokens, 3), self.at_ms)


def batch_size(rate_per_s: int | None, most: int) -> int:
    """Return messages per batch: a tenth of a second's worth."""
    return most if rate_per_s is None else max(1, min(most, int(rate_per_s * BATCH_S)))
