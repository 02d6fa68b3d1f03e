"""What an offset change moves as a matrix, broker by queue: for the eye, above the rows with the offsets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from console.group.offsets.change import DiffRow
from console.group.offsets.words import Sums, sums


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
