"""Owns the statistics admin commands read: per topic and group, and of the broker as a whole.

Source: semantics §12 (`BrokerStatsManager.java`, `StatsItem.java`, `StoreStatsService.java`). Counting is an addition
to an object the hot path holds; rates come from samples that `sample` takes: 10 s → minute, 10 min → hour, 1 h → day.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS = "GROUP_GET_NUMS"
GROUP_GET_SIZE = "GROUP_GET_SIZE"
SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS = "BROKER_PUT_NUMS"
BROKER_GET_NUMS = "BROKER_GET_NUMS"

# Window → (how often it is sampled, how far back it reaches).
WINDOWS_MS = {"minute": (10_000, 60_000), "hour": (600_000, 3_600_000), "day": (3_600_000, 86_400_000)}
RATE_SAMPLES = 601  # one per second: the 10 s, 60 s and 600 s rates
ITEMS_MAX = 100_000  # (name, key) pairs; the oldest idle ones beyond that are not counted


class Sample(NamedTuple):
    at_ms: int
    value: int
    times: int


class Snapshot(NamedTuple):
    """What VIEW_BROKER_STATS_DATA shows of one window."""

    sum: int
    tps: float
    avgpt: float


@dataclass(slots=True)
class StatsItem:
    """A growing number: `value` counts, `times` says in how many steps."""

    value: int = 0
    times: int = 0
    minute: list[Sample] = field(default_factory=list)
    hour: list[Sample] = field(default_factory=list)
    day: list[Sample] = field(default_factory=list)

    def add(self, count: int) -> None:
        self.value += count
        self.times += 1


class BrokerTotals(NamedTuple):
    """Totals since start at one moment, for the rates of GET_BROKER_RUNTIME_INFO."""

    at_ms: int
    put: int
    get_found: int
    get_miss: int
    get_transferred: int


def append_sample(samples: list[Sample], sample: Sample, reach_ms: int) -> None:
    """Add the newest and drop what lies outside of the window. An idle item keeps two samples, not all of them:
    there may be a hundred thousand items.
    """
    if len(samples) >= 2 and samples[-2].value == samples[-1].value == sample.value:
        samples[-1] = sample
    else:
        samples.append(sample)
    while samples[0].at_ms < sample.at_ms - reach_ms:
        del samples[0]


def snapshot(samples: Sequence[Sample]) -> Snapshot:
    """Difference of the oldest and newest sample; zeros until there are two."""
    if len(samples) < 2 or samples[-1].at_ms <= samples[0].at_ms:
        return Snapshot(0, 0.0, 0.0)
    total = samples[-1].value - samples[0].value
    times = samples[-1].times - samples[0].times
    elapsed_ms = samples[-1].at_ms - samples[0].at_ms
    return Snapshot(total, total * 1000 / elapsed_ms, total / times if times else 0.0)


class BrokerStats:
    """All counters. Single-threaded: the broker's event loop."""

    def __init__(self, cluster: str, now_ms: int) -> None:
        self.boot_timestamp_ms = now_ms
        self.items: dict[tuple[str, str], StatsItem] = {}
        self.broker_put = self.item(BROKER_PUT_NUMS, cluster)
        self.broker_get = self.item(BROKER_GET_NUMS, cluster)
        self.put_size_total = 0
        self.put_failed_total = 0
        self.get_found_times = 0
        self.get_miss_times = 0
        self._totals: deque[BrokerTotals] = deque(maxlen=RATE_SAMPLES)
        self._due_ms = dict.fromkeys(WINDOWS_MS, now_ms)
        self._day = local_day(now_ms)
        self.put_yesterday_morning = self.put_today_morning = 0
        self.get_yesterday_morning = self.get_today_morning = 0

    def item(self, name: str, key: str) -> StatsItem:
        """The counter to hold on to; beyond ITEMS_MAX one that nobody reads."""
        found = self.items.get((name, key))
        if found is None:
            found = StatsItem()
            if len(self.items) < ITEMS_MAX:
                self.items[(name, key)] = found
        return found

    def find(self, name: str, key: str) -> StatsItem | None:
        return self.items.get((name, key))

    def sample(self, now_ms: int) -> None:
        """Take the samples that are due; called every second."""
        self._totals.append(
            BrokerTotals(
                now_ms,
                self.broker_put.value,
                self.get_found_times,
                self.get_miss_times,
                self.broker_get.value,
            )
        )
        self._roll_day(now_ms)
        for window, (interval_ms, reach_ms) in WINDOWS_MS.items():
            if now_ms >= self._due_ms[window]:
                self._due_ms[window] = now_ms + interval_ms
                for item in self.items.values():
                    samples: list[Sample] = getattr(item, window)
                    append_sample(samples, Sample(now_ms, item.value, item.times), reach_ms)

    def _roll_day(self, now_ms: int) -> None:
        day = local_day(now_ms)
        if day != self._day:
            self._day = day
            self.put_yesterday_morning, self.put_today_morning = self.put_today_morning, self.broker_put.value
            self.get_yesterday_morning, self.get_today_morning = self.get_today_morning, self.broker_get.value

    def rates(self, name: str) -> str:
        """Messages per second over 10, 60 and 600 s as Java prints them: `"1.0 2.0 3.0"`, fewer while young."""
        samples = self._totals
        texts = []
        for seconds in (10, 60, 600):
            if len(samples) > seconds:
                texts.append(str(self._rate(samples[-1 - seconds], samples[-1], name)))
        if not texts and len(samples) > 1:
            texts.append(str(self._rate(samples[0], samples[-1], name)))
        return " ".join(texts or ["0.0"]) + " "

    @staticmethod
    def _rate(first: BrokerTotals, last: BrokerTotals, name: str) -> float:
        elapsed_ms = max(1, last.at_ms - first.at_ms)
        if name == "get_total":
            count = last.get_found + last.get_miss - first.get_found - first.get_miss
        else:
            count = getattr(last, name) - getattr(first, name)
        return float(count) * 1000 / elapsed_ms

    def group_get_tps(self, topic: str, group: str) -> float:
        item = self.find(GROUP_GET_NUMS, f"{topic}@{group}")
        return snapshot(item.minute).tps if item is not None else 0.0

    def topic_put_tps(self, topic: str) -> float:
        item = self.find(TOPIC_PUT_NUMS, topic)
        return snapshot(item.minute).tps if item is not None else 0.0

    def remove(self, key: str) -> None:
        """Forget a deleted topic (`T`) or group-of-topic (`T@G`)."""
        for each in [each for each in self.items if each[1] == key]:
            del self.items[each]


def local_day(now_ms: int) -> int:
    return datetime.fromtimestamp(now_ms / 1000).astimezone().toordinal()
