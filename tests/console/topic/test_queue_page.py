"""A page of a topic's queues has the rows that a page cut from all of them has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.queue_row import TopicQueueRow
from console.lag.rows.queues import WorstReader
from console.lists.query import ListQuery
from console.topic.queue_page import SORTS, ShownQueue, queue_page

FEW = st.integers(0, 3)  # equal figures are likely
PLACES = st.tuples(st.sampled_from(["a", "b"]), FEW)


@st.composite
def topics(draw: st.DrawFn) -> tuple[list[TopicQueueRow], dict[tuple[str, int], WorstReader]]:
    places = sorted(draw(st.sets(PLACES)))
    rows = [
        TopicQueueRow(
            topic="orders",
            broker_name=broker_name,
            queue_id=queue_id,
            min_offset=draw(FEW),
            max_offset=3 + draw(FEW),
            in_rate=draw(st.none() | st.sampled_from([0.0, 1.5, 4.0])),
            last_write_ms=draw(st.none() | FEW),
        )
        for broker_name, queue_id in places
    ]
    readers = {
        place: WorstReader("billing", "OK", draw(st.none() | FEW), False, draw(st.none() | FEW), False)
        for place in places
        if draw(st.booleans())
    }
    return rows, readers


def every(
    rows: list[TopicQueueRow], silent: set[str], worst: dict[tuple[str, int], WorstReader]
) -> list[ShownQueue]:
    """All queues as the page shows them."""
    traffic = sum(row.in_rate or 0.0 for row in rows if row.broker_name not in silent)
    found = []
    for row in rows:
        is_silent = row.broker_name in silent
        is_known = row.in_rate is not None and traffic and not is_silent
        share = row.in_rate / traffic if is_known and row.in_rate is not None else None
        found.append(ShownQueue(row, share, is_silent, worst.get((row.broker_name, row.queue_id))))
    return found


# What each head sorts by; None is unknown and last.
VALUES: dict[str, Callable[[ShownQueue], Any]] = {
    "queue": lambda one: (one.row.broker_name, one.row.queue_id),
    "min": lambda one: one.row.min_offset,
    "max": lambda one: one.row.max_offset,
    "messages": lambda one: one.row.max_offset - one.row.min_offset,
    "in_rate": lambda one: None if one.is_silent else one.row.in_rate,
    "last_write": lambda one: one.row.last_write_ms,
    "time_lag": lambda one: one.reader and one.reader.time_lag_ms,
    "lag": lambda one: one.reader and one.reader.lag,
}


def test_every_sort_has_a_value_here() -> None:
    assert VALUES.keys() == set(SORTS)


@given(
    topics(),
    st.sets(st.sampled_from(["a", "b"])),
    st.sampled_from(SORTS),
    st.booleans(),
    st.integers(1, 3),
)
def test_a_page_is_cut_from_all_queues_in_order(
    topic: tuple[list[TopicQueueRow], dict[tuple[str, int], WorstReader]],
    silent: set[str],
    sort: str,
    descending: bool,
    number: int,
) -> None:
    rows, worst = topic
    shown = every(rows, silent, worst)
    value = VALUES[sort]
    known = [one for one in shown if value(one) is not None]
    ordered = sorted(known, key=value, reverse=descending) + [one for one in shown if value(one) is None]
    traffic = sum(row.in_rate or 0.0 for row in rows if row.broker_name not in silent)
    query = ListQuery(sort=sort, descending=descending, page=number, per_page=2)
    page = queue_page(ColumnRows.of(TopicQueueRow, rows), silent, traffic, worst, query)
    assert page.rows == ordered[(page.page - 1) * 2 : page.page * 2]
    assert page.page == max(1, min(number, -(-len(rows) // 2))) and page.total == len(rows)
