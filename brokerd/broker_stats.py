"""The statistics that admin commands read: per topic and group, and of the broker as a whole.

Source: semantics §12 (`BrokerStatsManager.java`, `StatsItem.java`, `StoreStatsService.java`). Counting is an addition
to an object the hot path holds; rates come from samples that `sample` takes: 10 s → minute, 10 min → hour, 1 h → day.

A put is timed from the read of a socket that brought it to its place in the queues, with SYNC_FLUSH to the end of its
flush: puts of one read share one clock call (hot-path rule 15).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate, chain, repeat
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
TURN_SAMPLES = 10  # seconds
MINUTE_MS = 60_000
# Upper ends, exclusive from the second on, and their names.
SPANS_MS = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
SPAN_NAMES = (
    ("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s")
    + ("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~")
)  # fmt: skip
# Upper ends, inclusive, of the steps that percentiles are read from: 1 ms wide up to 20 ms, and so on up to 10 s.
STEPS_MS = tuple(
    accumulate(
        chain.from_iterable(
            repeat(width, times)
            for width, times in ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1_000, 9))
        )
    )
)
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
    """A growing number: `value` is the total, `times` the number of steps."""

    value: int = 0
    times: int = 0
    minute: list[Sample] = field(default_factory=list)
    hour: list[Sample] = field(default_factory=list)
    day: list[Sample] = field(default_factory=list)

    def add(self, count: int) -> None:
        self.value += count
        self.times += 1

    def add_many(self, count: int, times: int) -> None:
        self.value += count
        self.times += times


class BrokerTotals(NamedTuple):
    """Totals since start at one moment, for the rates of GET_BROKER_RUNTIME_INFO."""

    at_ms: int
    put: int
    get_found: int
    get_miss: int
    get_transferred: int


def append_sample(samples: list[Sample], sample: Sample, reach_ms: int) -> None:
    """Add the newest and drop what lies outside of the window.

    An idle item keeps two samples, not all of them: there may be a hundred thousand items.
    """
    if len(samples) >= 2 and samples[-2].value == samples[-1].value == sample.value:
        samples[-1] = sample
    else:
        samples.append(sample)
    while samples[0].at_ms < sample.at_ms - reach_ms:
        del samples[0]


def snapshot(samples: Sequence[Sample]) -> Snapshot:
    """Return the difference of the oldest and newest sample; zeros until there are two."""
    if len(samples) < 2 or samples[-1].at_ms <= samples[0].at_ms:
        return Snapshot(0, 0.0, 0.0)
    total = samples[-1].value - samples[0].value
    times = samples[-1].times - samples[0].times
    elapsed_ms = samples[-1].at_ms - samples[0].at_ms
    return Snapshot(total, total * 1000 / elapsed_ms, total / times if times else 0.0)


class PutTimes:
    """Counts of the running minute in `_counts`, of the last whole one in `_last`: {milliseconds: puts}.

    Few different times occur, so that they are kept as they are and sorted into spans when the figures are read.
    """

    def __init__(self, now_ms: int) -> None:
        self.total = 0
        self.longest_ms = 0
        self._counts: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._due_ms = now_ms + MINUTE_MS

    def add(self, puts: int, took_ms: int) -> None:
        """Hot path: once per read of a socket."""
        self.total += puts
        counts = self._counts
        counts[took_ms] = counts.get(took_ms, 0) + puts
        if took_ms > self.longest_ms:
            self.longest_ms = took_ms

    def roll(self, now_ms: int) -> None:
        """Begin the next minute when it is time; called every second."""
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + MINUTE_MS
            self._last, self._counts = self._counts, {}

    def distribution_text(self) -> str:
        """`[<=0ms]:23 [0~10ms]:11 … ` of the last whole minute; zeros until there was one."""
        spans = [0] * len(SPAN_NAMES)
        for took_ms, puts in self._last.items():
            spans[bisect_right(SPANS_MS, took_ms)] += puts
        return "".join(f"[{name}]:{puts} " for name, puts in zip(SPAN_NAMES, spans, strict=True))

    def percentile_text(self, share: float) -> str:
        """Return the milliseconds that `share` of the last minute's puts did not exceed.

        As Java estimates them: evenly spread within a step. What took more than 10 s counts as 10 s.
        """
        steps = [0] * (len(STEPS_MS) + 1)
        for took_ms, puts in self._last.items():
            steps[bisect_left(STEPS_MS, took_ms)] += puts
        rank = int(sum(steps) * share)
        low_ms = passed = 0
        for high_ms, puts in zip(STEPS_MS, steps, strict=False):
            if puts and rank <= passed + puts:
                return f"{low_ms + (high_ms - low_ms) * (rank - passed) / puts:.2f}"
            passed += puts
            low_ms = high_ms
        return f"{STEPS_MS[-1] if passed < sum(steps) else 0:.2f}"


class BrokerStats:
    """All counters. Single-threaded: the broker's event loop."""

    def __init__(self, cluster: str, now_ms: int) -> None:
        self.boot_timestamp_ms = now_ms
        self.items: dict[tuple[str, str], StatsItem] = {}
        self.broker_put = self.item(BROKER_PUT_NUMS, cluster)
        self.broker_get = self.item(BROKER_GET_NUMS, cluster)
        self.put_times = PutTimes(now_ms)
        self.get_longest_ns = 0  # of one look into a queue for a pull
        self.turn_longest_ms = 0  # of the reads that stored something since the last sample
        self._turns_ms: deque[int] = deque(maxlen=TURN_SAMPLES)
        self.put_failed_total = 0
        self.get_found_times = 0
        self.get_miss_times = 0
        self._totals: deque[BrokerTotals] = deque(maxlen=RATE_SAMPLES)
        self._due_ms = dict.fromkeys(WINDOWS_MS, now_ms)
        self._day = local_day(now_ms)
        self.put_yesterday_morning = self.put_today_morning = 0
        self.get_yesterday_morning = self.get_today_morning = 0

    def item(self, name: str, key: str) -> StatsItem:
        """Return the counter to keep; beyond ITEMS_MAX one that is never read."""
        found = self.items.get((name, key))
        if found is None:
            found = StatsItem()
            if len(self.items) < ITEMS_MAX:
                self.items[(name, key)] = found
        return found

    def find(self, name: str, key: str) -> StatsItem | None:
        return self.items.get((name, key))

    def sample(self, now_ms: int, wall_ms: int) -> None:
        """Take the samples that are due; called every second. Rates go by a steady clock, days by the wall's."""
        self._totals.append(
            BrokerTotals(
                now_ms,
                self.put_times.total,
                self.get_found_times,
                self.get_miss_times,
                self.broker_get.value,
            )
        )
        self._roll_day(wall_ms)
        self.put_times.roll(now_ms)
        self._turns_ms.append(self.turn_longest_ms)
        self.turn_longest_ms = 0
        for window, (interval_ms, reach_ms) in WINDOWS_MS.items():
            if now_ms >= self._due_ms[window]:
                self._due_ms[window] = now_ms + interval_ms
                for item in self.items.values():
                    samples: list[Sample] = getattr(item, window)
                    if not samples:  # what came before the first sample counts too, as in Java
                        samples.append(Sample(now_ms - interval_ms, 0, 0))
                    append_sample(samples, Sample(now_ms, item.value, item.times), reach_ms)

    def _roll_day(self, now_ms: int) -> None:
        day = local_day(now_ms)
        if day != self._day:
            self._day = day
            self.put_yesterday_morning, self.put_today_morning = self.put_today_morning, self.broker_put.value
            self.get_yesterday_morning, self.get_today_morning = self.get_today_morning, self.broker_get.value

    def log_held_ms(self) -> int:
        """Return the longest turn of the last 10 s in which the log was not free for others."""
        return max(self.turn_longest_ms, *self._turns_ms, 0)

    def rates(self, name: str) -> str:
        """Return messages per second over 10, 60 and 600 s as Java prints them: `"1.0 2.0 3.0"`.

        Pulls for get_found, get_miss, get_total. Blanks for what the broker is too young for; in its first 10 s,
        where Java has none, the first is that since the start. get_total has zeros for blanks.
        """
        samples = self._totals
        texts = []
        for seconds in (10, 60, 600):
            first = samples[-1 - seconds] if len(samples) > seconds else None
            if seconds == 10 and first is None and len(samples) > 1:
                first = samples[0]
            texts.append("" if first is None else str(self._rate(first, samples[-1], name)))
        if name == "get_total" or not texts[0]:
            texts = [text or "0.0" for text in texts]
        return " ".join(texts)

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

    def remove(self, topic: str) -> None:
        """Drop the counters of a deleted topic."""
        for each in [each for each in self.items if each[1] == topic]:
            del self.items[each]

    def remove_group(self, group: str) -> None:
        """Drop the counters of a deleted group on all its topics."""
        for each in [each for each in self.items if each[1].endswith(f"@{group}")]:
            del self.items[each]


def local_day(now_ms: int) -> int:
    return datetime.fromtimestamp(now_ms / 1000).astimezone().toordinal()
