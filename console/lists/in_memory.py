"""A page of a declared list whose rows are all at hand, as those of one object are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from console.lists.page import Page, cut
from console.lists.query import ListQuery
from console.lists.spec import ListSpec

Row = TypeVar("Row")


def page_in_memory(
    rows: Sequence[Row], spec: ListSpec, list_query: ListQuery, *, not_shown: int = 0
) -> Page[Row]:
    """Search, order and cut a declared list whose rows are all at hand, in the order of their key."""
    matching = spec.matching(rows, list_query.query) if list_query.query else rows
    return cut(
        spec.in_order(matching, list_query.sort, list_query.descending),
        page=list_query.page,
        per_page=list_query.per_page,
        all_total=len(rows),
        not_shown=not_shown,
        is_whole=list_query.is_whole,
    )
