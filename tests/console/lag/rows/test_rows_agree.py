"""Rows made of columns say what the plain twins say, queue by queue, whatever happens to a cluster."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec import Struct, structs

from console.lag.round.broker_reads import BrokerAddress, BrokerAnswers, QueueOffsets, TopicFacts
from console.lag.round.keyed_columns import KeyedColumns
from console.lag.round.series import columns_of, learn_store_times, series_of, snapshot_of
from console.lag.round.view import Members, RoundView, SampledFilter, Silence
from console.lag.rows.group_rows import group_rows
from console.lag.rows.queue_row import QueueRow, TopicQueueRow, kinds_of
from console.lag.rows.queue_rows import queue_table
from console.lag.rows.topic_rows import topic_queue_table, topic_rows
from console.text import Text
from spark.lag.round.filter_ratio import FilterSample
from spark.lag.round.window import LagWindow
from tests.support import plain_group_rows, plain_queue_rows, plain_topic_rows

INTERVAL_MS = 15_000  # the ten minutes of the window are over after 40 rounds
ROUNDS = 60
BROKERS = ("broker-a", "broker-b", "broker-c")
TOPICS = ("orders", "payments", "%RETRY%billing", "%DLQ%billing", "TBW102", "quiet")
GROUPS = ("billing", "shipping", "audit", "idle", "fresh", "nightly")
CONSUMED = {
    "orders": ("billing", "shipping", "audit", "idle"),
    "payments": ("billing", "fresh", "nightly"),
    "%RETRY%billing": ("billing",),
}


class World:
    """Brokers on which everything happens that lag.md 1.3 lists, by a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now_ms = 1_790_000_000_000
        self.window = LagWindow(INTERVAL_MS)
        self.low = {(b, t, q): 0 for b in BROKERS for t in TOPICS for q in range(2)}
        self.high = {key: self.dice.choice([0, 50, 5_000]) for key in self.low}
        self.high |= {key: 2_000_000 for key in self.high if key[1] == "payments"}
        self.committed: dict[tuple[str, str, str, int], int] = {
            (g, key[0], key[1], key[2]): self.dice.randint(0, high)
            for key, high in self.high.items()
            for g in CONSUMED.get(key[1], ())
            if g != "fresh" and self.dice.random() < 0.9
        }
        self.pace = {key: self.dice.choice([0, 3, 200, 30_000]) for key in self.high}
        self.rows: dict[str, Any] = {}
        self.silent_since: dict[str, int] = {}

    def step(self) -> None:
        """Let an interval pass, sometimes a longer one."""
        dice = self.dice
        self.now_ms += INTERVAL_MS * dice.choice([1, 1, 1, 1, 1, 1, 1, 4]) + dice.choice([0, 0, 37])
        for key, pace in self.pace.items():
            self.high[key] += dice.randint(0, pace)
            if dice.random() < 0.03:
                self.low[key] = dice.randint(self.low[key], self.high[key])
            if dice.random() < 0.006:  # made again
                self.low[key], self.high[key] = 0, dice.randint(0, 5)
            if dice.random() < 0.01 and self.high[key] > self.low[key]:  # a lost tail
                self.high[key] -= 1
        for group, broker, topic, queue_id in list(self.committed):
            self._consume(group, (broker, topic, queue_id))

    def _consume(self, group: str, queue: tuple[str, str, int]) -> None:
        dice, kind = self.dice, self.dice.random()
        committed, high, low = self.committed[group, *queue], self.high[queue], self.low[queue]
        if group == "audit" and kind < 0.97:
            return  # stands still
        if group == "nightly" and kind < 0.99:  # catches up, here faster than there
            committed = min(max(high, committed), max(committed, high - 300_000) + dice.randint(3_000, 9_000))
            kind = 1
        if kind < 0.75:
            committed = max(committed, min(high, committed + dice.randint(0, self.pace[queue] + 1)))
        elif kind < 0.9:
            committed = max(committed, high)
        elif kind < 0.915:
            committed = dice.randint(low, max(low, high))  # a reset, either way
        elif kind < 0.92:
            committed = high + 7  # nobody knows why
        self.committed[group, *queue] = committed

    def answer(self, broker: str) -> BrokerAnswers:
        """What a broker says in this round."""
        address = BrokerAddress(broker, 0, f"{broker}:1", "C")
        if self.dice.random() < (0.6 if broker in self.silent_since else 0.03):
            self.silent_since.setdefault(broker, self.now_ms)
            return BrokerAnswers(address, error=Text("connection refused"))
        self.silent_since.pop(broker, None)
        found = BrokerAnswers(address, answered=True, read_max_ms=self.now_ms + self.dice.randint(1, 9))
        offsets: dict[tuple[str, str], dict[int, int]] = {
            (topic, group): {} for topic, groups in CONSUMED.items() for group in groups
        }
        for (group, name, topic, queue_id), offset in self.committed.items():
            if name == broker and self.dice.random() < 0.995:
                offsets[topic, group][queue_id] = offset
                if self.dice.random() < 0.4:
                    pulled = offset + self.dice.randint(0, 40)
                    found.pulled[group, topic, queue_id] = min(pulled, self.high[broker, topic, queue_id])
        found.offsets = offsets
        for topic in TOPICS:
            if self.dice.random() < 0.02 and topic in CONSUMED:
                found.unread[topic] = "no answer within 3000 ms"
            elif self.dice.random() < (0.98 if topic in CONSUMED else 0.5):
                found.stats[topic] = [self._queue(broker, topic, queue_id) for queue_id in range(2)]
        return found

    def _queue(self, broker: str, topic: str, queue_id: int) -> QueueOffsets:
        key = broker, topic, queue_id
        return QueueOffsets(
            queue_id, self.low[key], self.high[key], self.dice.choice([0, self.now_ms - 90_000])
        )

    def round(self, number: int) -> RoundView:
        """Ask everybody, as the collector does."""
        answers = [self.answer(broker) for broker in BROKERS]
        series = series_of(answers, self.window)
        self.window.append(snapshot_of(answers, series, ts_ms=self.now_ms, number=number))
        learn_store_times(self.window, series, answers, {"broker-b": 400})
        dice = self.dice
        members = {
            group: Members(dice.choice([None, 0, 2, 2, 2]), "CLUSTERING", "", ("orders",), self.now_ms - 5)
            for group in (*GROUPS, "newcomer")
            if dice.random() < 0.8
        }
        owners = {key: "client@1" for key in series.groups.keys if dice.random() < 0.5}
        silences = {
            name: Silence(since, Text.foreign("connection refused"))
            for name, since in self.silent_since.items()
        }
        known = self.rows.get("previous_topic_queues")
        heard_of = {key.broker_name for key in known.keys} if known else set()
        return RoundView(
            "local",
            self.now_ms,
            self.window,
            answers,
            series,
            columns_of(self.window, series, plain_queue_rows.KEPT_MS),
            silences=silences,
            blind=frozenset(silences.keys() - heard_of),
            topics=dict.fromkeys(
                BROKERS[:2], {topic: TopicFacts(2, 1, 6, message_type="FIFO") for topic in TOPICS[:5]}
            ),
            groups={"broker-a": frozenset({"billing", "configured"})},
            members=members,
            owners=owners,
            filters={"billing": SampledFilter(FilterSample(30, 100, 8), self.now_ms - 1_000)},
            own_topics=frozenset({"C"}),
            offset_kinds={"payments": "COMPACTION"} if dice.random() < 0.5 else {},
            **self.rows,
        )


def both(view: RoundView) -> list[tuple[Mapping[Any, Any], Mapping[Any, Any]]]:
    """Rows of queues, topics' queues, topics and groups: ours and the plain ones."""
    table, topic_table = queue_table(view), topic_queue_table(view)
    topics = topic_rows(view, topic_table, table)
    ours = (
        figures(table, QueueRow),
        figures(topic_table, TopicQueueRow),
        topics,
        group_rows(view, table, topics),
    )
    queues, topic_queues = plain_queue_rows.queue_rows(view), plain_topic_rows.topic_queue_rows(view)
    plain_topics = plain_topic_rows.topic_rows(view, topic_queues, queues)
    plain = queues, topic_queues, plain_topics, plain_group_rows.group_rows(view, queues, plain_topics)
    return list(zip(ours, plain, strict=True))


def figures(columns: KeyedColumns[Any], row: type[Any]) -> Mapping[Any, Any]:
    return {key: plain_queue_rows.plain(one) for key, one in columns.rows(row).items()}


def as_dict(row: Any) -> dict[str, Any]:
    """A row with its structs as dictionaries and its tuples as lists."""
    found = structs.asdict(row) if isinstance(row, Struct) else dict(row)
    return {
        name: [as_dict(one) if isinstance(one, Struct) else one for one in value]
        if isinstance(value, tuple)
        else value
        for name, value in found.items()
    }


def as_columns(row: type[Any], rows: Mapping[Any, Any]) -> KeyedColumns[Any]:
    """Rows as the next round knows them; nothing is lost on the way."""
    typed = {key: row(**key._asdict(), **one) for key, one in rows.items()}
    names = next(iter(rows)).__class__._fields
    kinds = {name: kind for name, kind in kinds_of(row).items() if name not in names}
    columns: KeyedColumns[Any] = KeyedColumns.of_rows(kinds, typed)
    assert columns.rows(row) == typed
    return columns


def differences(ours: Mapping[Any, Any], plain: Mapping[Any, Any]) -> Sequence[str]:
    """Every column of every row in which they differ; sums of fractions may differ in the last digit."""
    found = [f"only one has {key}" for key in ours.keys() ^ plain.keys()]
    for key in ours.keys() & plain.keys():
        if ours[key].keys() != plain[key].keys():
            found.append(f"{key}: columns {ours[key].keys() ^ plain[key].keys()}")
        for name, value in plain[key].items():
            if not same(ours[key].get(name), value):
                found.append(f"{key} {name}: {ours[key].get(name)!r} for {value!r}")
    return found


def same(one: Any, other: Any) -> bool:
    """Equal and of one type; fractions but for the last digit of a row."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=0.0011)
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    return type(one) is type(other) and bool(one == other)


@pytest.mark.parametrize("seed", range(3))
def test_columns_say_what_plain_rows_say(seed: int) -> None:
    world = World(seed)
    statuses = set()
    for number in range(1, ROUNDS):
        world.step()
        view = world.round(number)
        pairs = both(view)
        for ours, plain in pairs:
            assert differences({key: as_dict(row) for key, row in ours.items()}, plain) == [], (
                f"round {number}"
            )
        queues, topic_queues = pairs[0][1], pairs[1][1]
        statuses |= {row["status"] for row in queues.values()}
        world.rows = {
            "previous_queues": as_columns(QueueRow, queues),
            "previous_topic_queues": as_columns(TopicQueueRow, topic_queues),
            "previous_topics": pairs[2][0],
            "previous_groups": pairs[3][0],
        }
    assert len(statuses) >= 9, f"the world is too quiet: {statuses}"
