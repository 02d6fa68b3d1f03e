"""How many bytes a replication connection carries in a second.

Source: `FlowMonitor.java`; the last whole second counts.
"""

from __future__ import annotations


class FlowMonitor:
    """Counts of this second and the one before. Times in ms."""

    def __init__(self) -> None:
        self._second = self._bytes = self._last_bytes = 0

    def add(self, size_bytes: int, now_ms: int) -> None:
        self._turn(now_ms)
        self._bytes += size_bytes

    def bytes_in_second(self, now_ms: int) -> int:
        self._turn(now_ms)
        return self._last_bytes

    def _turn(self, now_ms: int) -> None:
        second = now_ms // 1_000
        if second != self._second:
            self._last_bytes = self._bytes if second == self._second + 1 else 0
            self._second, self._bytes = second, 0
