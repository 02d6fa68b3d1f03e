"""Rows held as columns are those that were put in, whichever of them are looked at."""

from __future__ import annotations

import pytest

from console.lag.rows.column_rows import ColumnRows
from console.lag.rows.queue_row import QueueRow
from console.text import Text

ROWS = [
    QueueRow("billing", "orders", "a", 0, lag=7, out_rate=1.5, status="OK", reason=Text("late")),
    QueueRow("billing", "orders", "a", 1, reset_pending=True),
    QueueRow("billing", "orders", "b", 0, lag=0, owner="c@1"),
]


def test_it_makes_the_rows_that_are_looked_at() -> None:
    rows = ColumnRows.of(QueueRow, ROWS)
    assert list(rows) == ROWS
    assert (len(rows), rows[0], rows[-1], list(rows[1:])) == (3, ROWS[0], ROWS[2], ROWS[1:])
    assert list(rows.part([2, 0])) == [ROWS[2], ROWS[0]]
    assert list(rows.part(rows.columns["reset_pending"])) == [ROWS[1]]
    with pytest.raises(IndexError):
        rows[3]


def test_it_gives_columns_with_none_for_unknown() -> None:
    rows = ColumnRows.of(QueueRow, ROWS)
    assert rows.values("lag") == [7, None, 0]
    assert [(one.at, one.broker_name, one.out_rate) for one in rows.records("broker_name", "out_rate")] == [
        (0, "a", 1.5),
        (1, "a", None),
        (2, "b", None),
    ]


def test_it_may_have_no_row() -> None:
    nothing = ColumnRows.of(QueueRow, [])
    assert not nothing
    assert list(nothing) == list(nothing.part([])) == nothing.records("lag") == []
