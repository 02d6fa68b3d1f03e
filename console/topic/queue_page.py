"""A page of a topic's queues: ordered as records, each made where it is shown, for a topic may have 10,000."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.queue_row import TopicQueueRow
from console.lag.rows.queues import WorstReader
from console.lists.page import Page, cut
from console.lists.query import ListQuery
from console.lists.spec import ListSpec
from console.topic.topic_list import QUEUE_ORDERS

SORTS = (*QUEUE_ORDERS, "time_lag", "lag")
ORDERED = "broker_name", "queue_id", "min_offset", "max_offset", "last_write_ms", "in_rate"
Readers = Mapping[tuple[str, int], WorstReader]


@dataclass(frozen=True, slots=True)
class ShownQueue:
    """A queue with its share of the topic's known traffic, None where nothing flows, and who is furthest behind on it.

    `reader` is null where no group has committed.
    `is_silent`: its broker does not answer, so its figures are those of `row.read_at_ms`.
    """

    row: TopicQueueRow
    share: float | None
    is_silent: bool
    reader: WorstReader | None


def queue_page(
    queues: ColumnRows[TopicQueueRow],
    silent: Collection[str],
    traffic: float,
    worst: Readers,
    query: ListQuery,
) -> Page[ShownQueue]:
    """Return the page of the query; queues of `silent` brokers have no rates of now, and no share of `traffic`."""
    spec = ListSpec(
        name="shown-topic-queues", key="queue", default="queue", columns=(), orders=_orders(silent, worst)
    )
    ordered = spec.in_order(queues.records(*ORDERED), query.sort, query.descending)
    page = cut(ordered, page=query.page, per_page=query.per_page)
    rows = queues.part([one.at for one in page.rows])
    return replace(page, rows=[_shown(row, silent, traffic, worst) for row in rows])


def _orders(silent: Collection[str], worst: Readers) -> Mapping[str, Callable[[Any], Any]]:
    def of_reader(name: str) -> Callable[[Any], Any]:
        return lambda row: getattr(worst.get((row.broker_name, row.queue_id)), name, None)

    return {
        **QUEUE_ORDERS,
        "in_rate": lambda row: None if row.broker_name in silent else row.in_rate,
        "time_lag": of_reader("time_lag_ms"),
        "lag": of_reader("lag"),
    }


def _shown(row: TopicQueueRow, silent: Collection[str], traffic: float, worst: Readers) -> ShownQueue:
    is_silent = row.broker_name in silent
    is_known = bool(traffic) and row.in_rate is not None and not is_silent
    share = (row.in_rate or 0.0) / traffic if is_known else None
    return ShownQueue(row, share, is_silent, worst.get((row.broker_name, row.queue_id)))
