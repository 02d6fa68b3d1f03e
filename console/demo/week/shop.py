"""Simulate a shop's week of producers and consumers, round by round: what its brokers would have answered. Pure.

The same end gives the same week. Its days are whole days of UTC after the first midnight; what happens on them:

    every day    a tide at 20:00, too much for `warehouse` for half an hour; `nightly-export` runs from 01:00 to 03:00
    day 1        02:10 one message stops `shipping` on a queue for five hours
    day 2        14:05 `recommendations` is set back by two hours, to repeat them
    day 3        03:20 broker `shop-b` does not answer for 40 minutes
    day 4        10:00 topic `campaigns` is deleted and made again; 16:00 mails fail, 240 become dead letters
    Monday       09:00 to 11:00 a peak that `warehouse` cannot take

Queue 0 of `clicks` on `shop-a` gets most of its messages: one product is on television.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from console.brokers.mqadmin import GroupRefusals, dead_letter_topic, retry_topic
from console.lag.collect.given_rounds import GivenRound
from console.lag.round.broker_reads import BrokerAddress, BrokerAnswers, Lookup, QueueOffsets, TopicFacts
from console.lag.round.view import Members
from console.text import Text
from spark.lag.local_time import DAY_MS, HOUR_MS, MINUTE_MS
from spark.lag.snapshot import Int64Array

DAYS = 7
INTERVAL_MS = 4 * MINUTE_MS
KEPT_MS = 3 * DAY_MS
BROKERS = ("shop-a", "shop-b")
SILENT_BROKER = "shop-b"
STALLED_GROUP, STALL_MS = "shipping", 5 * HOUR_MS
SEED = 20_260_316
READ_WRITE = 6
# Messages that are with clients between two commits, in seconds of traffic.
UNCOMMITTED_S = 3


@dataclass(frozen=True, slots=True)
class Topic:
    """`rate`: messages a second at the usual noon. `shares`: how queues divide them; equally without."""

    name: str
    queues_per_broker: int
    rate: float
    brokers: Sequence[str] = BROKERS
    shares: Sequence[float] = ()

    @property
    def queues(self) -> list[tuple[str, int]]:
        return [(broker, number) for broker in self.brokers for number in range(self.queues_per_broker)]


@dataclass(frozen=True, slots=True)
class Group:
    """`power`: messages a second that it can process of the topic, over all queues."""

    name: str
    topic: str
    power: float
    clients: int = 2
    consume_mode: str = "CONCURRENTLY"


MAILER_RETRY, MAILER_DEAD = retry_topic("mailer"), dead_letter_topic("mailer")
TOPICS = (
    Topic("campaigns", 1, 4.0),
    Topic("clicks", 2, 120.0, shares=(0.55, 0.15, 0.15, 0.15)),
    Topic("invoices", 1, 6.0),
    Topic("mails", 1, 12.0),
    Topic("orders", 2, 60.0),
    Topic("parcels", 2, 14.0),
    Topic(MAILER_DEAD, 1, 0.0, brokers=("shop-a",)),
    Topic(MAILER_RETRY, 1, 0.05, brokers=("shop-a",)),
)
GROUPS = (
    Group("billing", "orders", 400.0, clients=4),
    Group("coupons", "campaigns", 40.0),
    Group("mailer", "mails", 60.0),
    Group("mailer", MAILER_RETRY, 5.0),
    Group("nightly-export", "invoices", 60.0),
    Group("recommendations", "clicks", 420.0, clients=4),
    Group("shipping", "parcels", 80.0, consume_mode="ORDERLY"),
    Group("warehouse", "orders", 70.0, clients=3),
)


# Of groups that promise something else than the installation: how long a message may wait, for what share of time.
PROMISES = {
    "billing": (30_000, 0.999),
    "nightly-export": (26 * HOUR_MS, 0.99),
    "shipping": (5 * MINUTE_MS, 0.99),
    "warehouse": (2 * MINUTE_MS, 0.97),
}


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    """A topic's queues by round: `high` reaches `KEPT_MS` further back than `low`, a row a queue."""

    topic: Topic
    times: Int64Array
    high: Int64Array
    low: Int64Array
    # The first round of the week after it was made again; 0: it never was.
    remade: int = 0

    def at(self, row: int, index: int) -> tuple[int, int]:
        """Return (min offset, max offset) of a queue in a round of the week."""
        return int(self.low[row, index]), int(self.high[row, index - self.low.shape[1]])

    def stored_ms(self, row: int, offset: int, index: int) -> int:
        """Return when the message at an offset was stored, as of a round of the week."""
        remade = self.remade - self.low.shape[1] + self.high.shape[1]
        own = (
            slice(remade, None)
            if self.remade and index >= self.remade
            else slice(remade if self.remade else None)
        )
        found = np.searchsorted(self.high[row, own], offset, side="right")
        return int(self.times[own][min(int(found), len(self.times[own]) - 1)])


class ShopWeek:
    """The week that ends at `end_ms`, a whole hour."""

    def __init__(self, end_ms: int) -> None:
        assert end_ms % HOUR_MS == 0
        self.end_ms, self.start_ms = end_ms, end_ms - DAYS * DAY_MS
        self.times = np.arange(self.start_ms, end_ms, INTERVAL_MS, dtype=np.int64)
        self.first_midnight_ms = self.start_ms + -self.start_ms % DAY_MS
        self._random = np.random.default_rng(SEED)

    def on_day(self, day: int, hour: int, minute: int = 0) -> int:
        """Return a moment of a whole day of the week."""
        return self.first_midnight_ms + day * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS

    @property
    def stall(self) -> tuple[int, int]:
        """Return when one message stops a queue of `STALLED_GROUP`, and when it is skipped."""
        begin_ms = self.on_day(1, 2, 10)
        return begin_ms, begin_ms + STALL_MS

    @property
    def silence(self) -> tuple[int, int]:
        """Return from when to when `SILENT_BROKER` does not answer."""
        return self.on_day(3, 3, 20), self.on_day(3, 4)

    @property
    def failure(self) -> tuple[int, int]:
        """Return from when to when mails fail."""
        return self.on_day(4, 16), self.on_day(4, 16, 20)

    def rounds(self) -> Iterator[GivenRound]:
        """Yield the rounds of the week."""
        for index, at_ms in enumerate(self.times.tolist()):
            yield GivenRound(at_ms, self._answering(index, at_ms), self._members(at_ms))

    # ---- producers ----

    @cached_property
    def stored(self) -> dict[str, _Stored]:
        """Every topic's queues, from `KEPT_MS` before the week on."""
        return {topic.name: self._produced(topic) for topic in TOPICS}

    def _produced(self, topic: Topic) -> _Stored:
        times = np.arange(self.start_ms - KEPT_MS, self.end_ms, INTERVAL_MS, dtype=np.int64)
        count = len(topic.queues)
        shares = np.array(topic.shares or [1 / count] * count)
        rates = topic.rate * _rhythm(times) * INTERVAL_MS / 1000
        if topic.name in (MAILER_DEAD, MAILER_RETRY):
            begin_ms, end_ms = self.failure
            fails = (times >= begin_ms) & (times < end_ms)
            rates = np.where(fails, 12.0 if topic.name == MAILER_DEAD else 36.0, rates)
        came = self._random.poisson(shares[:, None] * rates)
        # Far apart, so that no two queues look alike.
        began = self._random.integers(1_000_000, 9_000_000, size=(count, 1)) if topic.rate else 0
        high = began + np.cumsum(came, axis=1)
        before = len(times) - len(self.times)
        # Files are deleted once an hour.
        deleted = np.arange(len(self.times)) // (HOUR_MS // INTERVAL_MS) * (HOUR_MS // INTERVAL_MS)
        low = high[:, deleted] if topic.rate else np.zeros((count, len(self.times)), dtype=np.int64)
        if topic.name != "campaigns":
            return _Stored(topic, times, high, low)
        remade = int(np.searchsorted(self.times, self.on_day(4, 10)))
        high[:, before + remade :] -= high[:, before + remade, None]
        low[:, remade:] = 0
        return _Stored(topic, times, high, low, remade)

    # ---- consumers ----

    @cached_property
    def committed(self) -> dict[tuple[str, str], Int64Array]:
        """The committed offsets of each (group, topic), a row a queue, a column a round."""
        return {(group.name, group.topic): self._consumed(group) for group in GROUPS}

    def _consumed(self, group: Group) -> Int64Array:
        stored = self.stored[group.topic]
        high = stored.high[:, -len(self.times) :]
        held = np.diff(high, axis=1, prepend=high[:, :1]) * UNCOMMITTED_S * 1000 // INTERVAL_MS
        within_reach = high - np.maximum(held, 0)
        count = len(high)
        power = np.ceil(group.power * self._strength(group) * INTERVAL_MS / 1000 / count).astype(np.int64)
        power = np.repeat(power[None, :], count, axis=0)
        if group.name == STALLED_GROUP:
            power[1, self._between(*self.stall)] = 0
        back = self._set_back(group)
        found = np.empty_like(high)
        at = high[:, 0] - held[:, 0]
        for index in range(high.shape[1]):
            if index == back:
                at = high[:, index - 2 * HOUR_MS // INTERVAL_MS].copy()
            if stored.remade and index == stored.remade:
                at = np.zeros_like(at)
            at = np.maximum(at, np.minimum(at + power[:, index], within_reach[:, index]))
            found[:, index] = at
        return found

    def _between(self, begin_ms: int, end_ms: int) -> slice:
        first, last = np.searchsorted(self.times, [begin_ms, end_ms]).tolist()
        return slice(first, last)

    def _strength(self, group: Group) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Return how much of its power a group has, round by round."""
        if group.name != "nightly-export":
            return np.ones(len(self.times))
        return np.where(_runs_at_night(self.times), 1.0, 0.0)

    def _set_back(self, group: Group) -> int:
        """Return the round in which a group is set back; -1: none."""
        is_meant = group.name == "recommendations"
        return int(np.searchsorted(self.times, self.on_day(2, 14, 5))) if is_meant else -1

    def _members(self, at_ms: int) -> dict[str, Members]:
        return {group.name: self._members_of(group, at_ms) for group in GROUPS if group.topic != MAILER_RETRY}

    def _members_of(self, group: Group, at_ms: int) -> Members:
        clients, offline_since_ms = group.clients, None
        if group.name == "nightly-export" and not _runs_at_night(np.array([at_ms]))[0]:
            clients, offline_since_ms = 0, at_ms - (at_ms - 3 * HOUR_MS) % DAY_MS
        return Members(clients, "CLUSTERING", group.consume_mode, (group.topic,), offline_since_ms)

    # ---- brokers ----

    def _answering(self, index: int, at_ms: int) -> Callable[[Sequence[Lookup]], list[BrokerAnswers]]:
        def answers(lookups: Sequence[Lookup]) -> list[BrokerAnswers]:
            return [self._answer(broker, index, at_ms, lookups) for broker in BROKERS]

        return answers

    def _answer(self, broker: str, index: int, at_ms: int, lookups: Sequence[Lookup]) -> BrokerAnswers:
        address = BrokerAddress(broker, 0, f"{broker}.invalid:10911", "shop")
        begin_ms, end_ms = self.silence
        if broker == SILENT_BROKER and begin_ms <= at_ms < end_ms:
            return BrokerAnswers(address, error=Text("no answer in time"))
        offsets: dict[tuple[str, str], dict[int, int]] = {}
        for group, topic, number, row in _consumed_queues(broker):
            own = offsets.setdefault((topic, group), {})
            own[number] = int(self.committed[group, topic][row, index])
        stats: dict[str, list[QueueOffsets]] = {}
        for topic, number, row in _queues_of(broker):
            low, high = self.stored[topic].at(row, index)
            stats.setdefault(topic, []).append(QueueOffsets(number, low, high, at_ms - 1 if high else 0))
        return BrokerAnswers(
            address,
            answered=True,
            read_committed_ms=at_ms,
            read_max_ms=at_ms,
            max_answered_ms=at_ms,
            offsets=offsets,
            stats=stats,
            topics=_table_of(broker),
            groups=frozenset(group.name for group in GROUPS),
            refusals=GroupRefusals({}, frozenset(), frozenset(group.name for group in GROUPS)),
            stored_ms={one: self._stored_ms(one, index) for one in lookups if one.broker_name == broker},
            kept_ms=KEPT_MS,
        )

    def _stored_ms(self, lookup: Lookup, index: int) -> int:
        stored = self.stored[lookup.topic]
        row = stored.topic.queues.index((lookup.broker_name, lookup.queue_id))
        return stored.stored_ms(row, lookup.offset, index)


@cache
def _queues_of(broker: str) -> list[tuple[str, int, int]]:
    """Return (topic, queue id, row in its arrays) of a broker's queues."""
    return [
        (topic.name, number, row)
        for topic in TOPICS
        for row, (name, number) in enumerate(topic.queues)
        if name == broker
    ]


@cache
def _consumed_queues(broker: str) -> list[tuple[str, str, int, int]]:
    """Return (group, topic, queue id, row) of the queues of a broker that groups read."""
    return [
        (group.name, topic, number, row)
        for group in GROUPS
        for topic, number, row in _queues_of(broker)
        if topic == group.topic
    ]


@cache
def _table_of(broker: str) -> dict[str, TopicFacts]:
    return {
        topic.name: TopicFacts(topic.queues_per_broker, topic.queues_per_broker, READ_WRITE)
        for topic in TOPICS
        if broker in topic.brokers
    }


def _rhythm(times: Int64Array) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the traffic of each moment as a share of the usual noon's."""
    hour = times % DAY_MS / HOUR_MS
    day = 0.15 + 0.85 * np.exp(-(((hour - 13) / 4.5) ** 2)) + 1.0 * np.exp(-(((hour - 20) / 1.1) ** 2))
    weekday = (times // DAY_MS + 3) % 7  # 0 is Monday
    peak = (weekday == 0) & (hour >= 9) & (hour < 11)
    return np.where(peak, 2.4, 1.0) * np.where(weekday >= 5, 0.75, 1.0) * day


def _runs_at_night(times: Int64Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    hour = times % DAY_MS // HOUR_MS
    return (hour >= 1) & (hour < 3)
