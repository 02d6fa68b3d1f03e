"""How many messages of each topic wait for their time: config/timermetrics and GET_TIMER_METRICS (61).

Source: `TimerMetrics.java`. Recalls count -1 from when they come, in Java and here.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import orjson

from brokerd.remoting.body import fastjson
from brokerd.tables import config_manager


class TopicCount(NamedTuple):
    waiting_count: int
    changed_ms: int


class TimerMetrics:
    """Single-threaded: the broker's event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.counts: dict[str, TopicCount] = config_manager.load(path, parse_counts) or {}
        self._counter = 0
        self._changed_ms = 0

    def add(self, topic: str, count: int, now_ms: int) -> None:
        before = self.counts.get(topic)
        self.counts[topic] = TopicCount(count + (before.waiting_count if before else 0), now_ms)
        self._counter += 1
        self._changed_ms = now_ms

    def drop_topic(self, topic: str) -> None:
        self.counts.pop(topic, None)

    def follow(self, document: bytes) -> None:
        """Take over a master's counts (61), on its slave. Raises ValueError, KeyError or TypeError for another form."""
        self.counts = parse_counts(document)

    def clear(self) -> None:
        """Nothing waits: what a kill has left of the counts is wrong."""
        self.counts = {topic: TopicCount(0, each.changed_ms) for topic, each in self.counts.items()}

    def document(self) -> bytes:
        """Return the counts as both brokers read them."""
        version = {"counter": self._counter, "stateVersion": 0, "timestamp": self._changed_ms}
        counts = {
            topic: {"count": each.waiting_count, "timeStamp": each.changed_ms}
            for topic, each in self.counts.items()
        }
        return orjson.dumps({"dataVersion": version, "timingCount": counts})

    def write(self, document: bytes) -> None:
        """Save a document. Caller: a thread. Raises OSError."""
        config_manager.write_atomically(self._path, document)


def parse_counts(content: bytes) -> dict[str, TopicCount]:
    table = fastjson.loads(content)["timingCount"]
    return {topic: TopicCount(int(each["count"]), int(each["timeStamp"])) for topic, each in table.items()}
