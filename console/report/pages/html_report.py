"""A report as one self-contained HTML page: the page's tables, for reading, mailing and printing.

CSV and Parquet contain every column; this page contains those that people read, in their units.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django.conf import settings
from django.db.models import F, QuerySet
from django.template.loader import render_to_string
from django.utils import translation

from console.report import selectors
from console.report.columns import EPISODES_VIEW, LAG_VIEWS, VIEWS, Column, RowsView
from console.report.jobs import JOBS, PERIODS_MS
from console.report.kept_rows import queue_rows
from console.report.kept_rows.queue_rows import QueueRows
from console.report.models import LagRow
from console.report.selectors import KEY, AnyRows
from console.text import Text
from spark.lag.local_time import DAY_MS, HOUR_MS, UTC, local

ROWS_MAX = 2_000
SO_FAR = "so far"
Cell = tuple[str, str]
NUMBER = "n"  # the class of cells and heads of numbers


def page(rows: AnyRows, job: str, cluster: str, now_ms: int) -> str:
    """Return the page, a table per kind of row, the worst first; at most ROWS_MAX rows each."""
    tables = [table for view in views_of(rows, job) if (table := _table(rows, view, job))]
    context = {
        "title": f"{JOBS[job]} of {cluster}",
        "tables": tables,
        "rows_max": ROWS_MAX,
        "made": moment(now_ms),
        "url": settings.PUBLIC_URL.rstrip("/"),
        "gaps": [gap.sentence for gap in selectors.gaps(rows)],
        "has_partial": any(table.has_partial for table in tables),
    }
    with translation.override(settings.LANGUAGE_CODE):
        return render_to_string("report/export.html", context)


def views_of(rows: AnyRows, job: str) -> Sequence[RowsView]:
    """Return the possible tables, without those that show a part of another one's rows."""
    if isinstance(rows, QueueRows) or rows.model is LagRow:
        return LAG_VIEWS
    whole = {view.grain for view in VIEWS[job] if not view.where}
    own = [view for view in VIEWS[job] if not view.where or view.grain not in whole]
    return own or [EPISODES_VIEW]


@dataclass(frozen=True, slots=True)
class Table:
    """One table; cells are (text, CSS class)."""

    label: Text
    total: int
    heads: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]

    @property
    def has_partial(self) -> bool:
        return any(window.endswith(SO_FAR) for _, (window, _), *_ in self.rows)


def _table(rows: AnyRows, view: RowsView, job: str) -> Table | None:
    total, ordered = _ordered(rows, view)
    if not total:
        return None
    columns = [each for each in view.columns if each.key != "window_start_ms"]
    heads = [("Name", ""), ("Window", ""), *((_head(each), NUMBER * each.is_number) for each in columns)]
    return Table(view.label, total, heads, list(_lines(ordered, columns, job)))


def _ordered(rows: AnyRows, view: RowsView) -> tuple[int, Iterable[Any]]:
    """Return the number of rows of a view, and the first ROWS_MAX in its order."""
    if isinstance(rows, QueueRows):
        if view.grain != LagRow.Grain.QUEUE:
            return 0, []
        page = queue_rows.page(
            rows, view.sort, descending=not view.ascending, page=1, per_page=ROWS_MAX, whole=None
        )
        return page.total, page.rows
    found = cast("QuerySet[Any]", rows).filter(grain=view.grain, **dict(view.where))
    column = view.column(view.sort)
    field = view.sort if rows.model is LagRow or column is None else column.order_field
    order = F(field).asc(nulls_last=True) if view.ascending else F(field).desc(nulls_last=True)
    ordered = found.order_by(order, "-window_start_ms", *KEY, "pk")[:ROWS_MAX]
    return found.count(), ordered.iterator(chunk_size=500)


def _head(column: Column) -> str:
    return f"{column.label} {column.unit}".rstrip()


def _lines(rows: Iterable[Any], columns: Sequence[Column], job: str) -> Iterator[list[Cell]]:
    for row in rows:
        texts = [(each.text(row), NUMBER * each.is_number) for each in columns]
        queue = f"{row.broker_name} · {row.queue_id}" if row.queue_id >= 0 else ""
        name = " on ".join(part for part in (row.group, row.topic, queue) if part) or row.cluster
        yield [(name, ""), (window(row, job), ""), *texts]


def window(row: Any, job: str) -> str:
    """Return the hour, day or week of a row, with a zone that is not UTC, marked if it was not over."""
    length = PERIODS_MS[job]
    long_period = getattr(row, "long_period", None)
    start = local(row.window_start_ms, UTC if length == HOUR_MS else row.zone)
    if long_period is not None:
        text = long_period.name
    elif length == HOUR_MS:
        text = f"{start:%Y-%m-%d %H:%M}"
    elif length == DAY_MS:
        text = f"{start:%Y-%m-%d}"
    else:
        text = f"{start:%Y-%m-%d} to {start + dt.timedelta(days=6):%Y-%m-%d}"
    if length > HOUR_MS and row.zone != UTC:
        text = f"{text} {row.zone}"
    return f"{text} {SO_FAR}" if row.is_partial else text


def moment(at_ms: int) -> str:
    return f"{dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
