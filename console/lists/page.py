"""One page of a list: what every list selector returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from django.db import models
from django.db.models import QuerySet

from console.lists import cursor

# Of a page in the browser: more rows scroll with frames that are seen to wait; a file has them all.
PER_PAGE_CHOICES = (25, 50, 100)
PER_PAGE_MAX = 200
# 20,000 rows of groups are about 60 MB of memory while the file is written; more is a report.
FILE_ROWS_MAX = 20_000
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Rows of one page, and counts of the rest.

    `total` rows match query and filter, `all_total` exist (system ones included only if shown), `hidden_system`
    were left out for being RocketMQ's own. `counts_by_status` counts every row that matches the query, by chip.
    `not_shown` rows exist that the reader has no right to VIEW; no other number counts them. `cursor` continues after
    the last row: "" at the end, None in a list without cursors.
    """

    rows: Sequence[Row]
    total: int
    page: int
    pages: int
    per_page: int
    all_total: int
    hidden_system: int = 0
    counts_by_status: Mapping[str, int] = field(default_factory=dict)
    not_shown: int = 0
    cursor: str | None = None

    @property
    def is_long(self) -> bool:
        """Whether the smallest page would not show all rows."""
        return self.total > PER_PAGE_CHOICES[0]


def cut(
    rows: "QuerySet[Any] | Sequence[Any]",
    *,
    page: int,
    per_page: int,
    total: int | None = None,
    all_total: int | None = None,
    hidden_system: int = 0,
    counts_by_status: Mapping[str, int] | None = None,
    not_shown: int = 0,
    per_page_max: int = PER_PAGE_MAX,
    is_whole: bool = False,
) -> "Page[Any]":
    """Fetch one page of a query or of rows at hand; an out-of-range page number returns the nearest page.

    ``total`` is counted where the caller does not know it; ``all_total`` is the same where nothing was left
    out. ``is_whole``: all rows are one page, for a file, which refuses more than FILE_ROWS_MAX.
    """
    if total is None:
        total = rows.count() if isinstance(rows, QuerySet) else len(rows)
    if is_whole:
        page, per_page, per_page_max = 1, FILE_ROWS_MAX, FILE_ROWS_MAX
    per_page = max(1, min(per_page, per_page_max))
    pages = max(1, -(-total // per_page))
    page = max(1, min(page, pages))
    start = (page - 1) * per_page
    return Page(
        rows=list(rows[start : start + per_page]) if total else [],
        total=total,
        page=page,
        pages=pages,
        per_page=per_page,
        all_total=total if all_total is None else all_total,
        hidden_system=hidden_system,
        counts_by_status=counts_by_status or {},
        not_shown=not_shown,
    )


def cut_after(rows: QuerySet[Any], *, page: int, per_page: int, after: str) -> "Page[Any]":
    """Fetch one page of a query whose list grows: by number, or with a cursor the rows after it.

    Raises CursorRefused.
    """
    total = rows.count()
    if after:
        found = cut(cursor.rows_after(rows, after), page=1, per_page=per_page)
    else:
        found = cut(rows, page=page, per_page=per_page, total=total)
    is_last = found.page == found.pages
    following = "" if is_last else cursor.after(rows, found.rows[-1])
    return replace(found, total=total, all_total=total, cursor=following)


def count_if(condition: models.Q) -> models.Count:
    """Count the rows that meet a condition, for several chips in one query."""
    return models.Count("pk", filter=condition)
