"""Which brokers a producer avoids for a while: slow ones and failing ones (MQFaultStrategy.java). Pure."""

from __future__ import annotations

# (a send that took so many ms or more, ms without sends to that broker), the longest first. Defaults of 5.3.3.
NOT_AVAILABLE_MS = (
    (15_000, 30_000),
    (5_000, 10_000),
    (3_000, 6_000),
    (1_800, 5_000),
    (550, 2_000),
)
# A broker that refuses, breaks off or does not answer counts as one that took so long.
ISOLATED_LATENCY_MS = 10_000


def not_available_ms(latency_ms: int) -> int:
    """Return how long to avoid a broker after a send that took `latency_ms`."""
    return next((avoided for least, avoided in NOT_AVAILABLE_MS if latency_ms >= least), 0)


class LatencyFaults:
    """Brokers by the time until which they are avoided. Caller: Producer, behind each attempt to send."""

    def __init__(self) -> None:
        self._until_ms: dict[str, int] = {}

    def record(self, broker_name: str, latency_ms: int, now_ms: int, *, is_failed: bool) -> None:
        """Take in an attempt that ended at `now_ms`. Affects: is_available. A later fast one ends the avoidance."""
        self._until_ms[broker_name] = now_ms + not_available_ms(
            ISOLATED_LATENCY_MS if is_failed else latency_ms
        )

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        return self._until_ms.get(broker_name, 0) <= now_ms
