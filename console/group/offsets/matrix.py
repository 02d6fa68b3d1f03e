"""Broker by queue: what an offset change may move, with checkboxes, and what its plan moves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from console.brokers.mqadmin import is_retry_topic
from console.group.offsets.change import DiffRow
from console.group.offsets.target_request import queue_value
from console.group.offsets.words import Sums, sums
from console.lag.rows.queue_row import QueueRow
from console.lag.rows.queues import NEVER_COMMITTED, Behind
from console.text import Text

NOT_READ = Text("the last round did not read these queues")


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """The queues of one broker by id, and their sums."""

    broker_name: str
    queues: Sequence[DiffRow]
    total: Sums


@dataclass(frozen=True, slots=True)
class TopicMatrix:
    """The brokers of one topic by name."""

    topic: str
    brokers: Sequence[MatrixRow]


@dataclass(frozen=True, slots=True)
class PlanSums:
    """The sums of a plan, and its queues by topic and broker."""

    total: Sums
    topics: Sequence[TopicMatrix]


def plan_sums(diff: Sequence[DiffRow]) -> PlanSums:
    """Return sums and matrix of all rows, including those on other pages."""
    ordered = sorted(diff, key=lambda row: (row.topic, row.broker_name, row.queue_id))
    topics = []
    for topic, rows in groupby(ordered, key=attrgetter("topic")):
        brokers = [(name, list(own)) for name, own in groupby(rows, key=attrgetter("broker_name"))]
        topics.append(TopicMatrix(topic, [MatrixRow(name, own, sums(own)) for name, own in brokers]))
    return PlanSums(sums(diff), topics)


@dataclass(frozen=True, slots=True)
class LagSum:
    """Lag over queues, without those never committed; None is unknown, or where `status` is set, not applicable."""

    lag: int | None
    lag_lower_bound: bool
    offset_is_not_count: bool
    status: str
    reason: Text = NOT_READ


@dataclass(frozen=True, slots=True)
class QueueBox:
    """The checkbox of a queue."""

    row: QueueRow
    value: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class BrokerBoxes:
    """The queues of a topic on one broker."""

    broker_name: str
    queues: Sequence[QueueBox]
    behind: LagSum


@dataclass(frozen=True, slots=True)
class TopicBoxes:
    """The queues of a topic, with the checkbox of all of them."""

    name: str
    queues: Sequence[QueueBox]
    brokers: Sequence[BrokerBoxes]
    behind: LagSum

    @property
    def is_chosen(self) -> bool:
        """Whether any queue of it is chosen."""
        return any(box.is_chosen for box in self.queues)


@dataclass(frozen=True, slots=True)
class Ticked:
    """What a submitted form chose: queues by their value, and whole topics."""

    queues: frozenset[str]
    topics: frozenset[str]


def scope_matrix(queues: Sequence[QueueRow], ticked: Ticked | None) -> list[TopicBoxes]:
    """Return queues by topic and broker with their checkboxes; by default all but the retry topic's are chosen."""
    topics: dict[str, list[QueueBox]] = {}
    for row in queues:
        value = queue_value(row)
        is_own = not is_retry_topic(row.topic)
        is_chosen = is_own if ticked is None else value in ticked.queues or row.topic in ticked.topics
        topics.setdefault(row.topic, []).append(QueueBox(row, value, is_chosen))
    return [
        TopicBoxes(
            name,
            boxes,
            [
                BrokerBoxes(broker_name, own, lag_sum(own))
                for broker_name, own in (
                    (broker_name, list(own))
                    for broker_name, own in groupby(boxes, key=attrgetter("row.broker_name"))
                )
            ],
            lag_sum(boxes),
        )
        for name, boxes in topics.items()
    ]


def lag_sum(boxes: Sequence[QueueBox]) -> LagSum:
    """Return the lag over the queues of these boxes."""
    behind = Behind()
    for box in boxes:
        if box.row.status != NEVER_COMMITTED:
            behind.add(box.row.lag, box.row.time_lag_ms)
    return LagSum(
        behind.lag,
        behind.lag_lower_bound or any(box.row.lag_lower_bound for box in boxes),
        any(box.row.offset_is_not_count for box in boxes),
        "" if behind.queues else NEVER_COMMITTED,
    )
