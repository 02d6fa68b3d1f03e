"""What a list page is asked for in its address: search words, order, page; the same on every list."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from django.http import HttpRequest

QUERY_LENGTH_MAX = 255
PER_PAGE_CHOICES = (25, 50, 100, 200)
PER_PAGE_DEFAULT = 50


@dataclasses.dataclass(frozen=True, slots=True)
class ListQuery:
    """`?q=…&sort=…&dir=asc|desc&page=…&rows=…`; what is not understood falls back to the default."""

    query: str
    sort: str
    descending: bool
    page: int
    per_page: int

    @classmethod
    def of(
        cls, request: HttpRequest, *, sorts: Collection[str], default: str, ascending: Collection[str] = ()
    ) -> ListQuery:
        """``ascending`` names the orders that begin with the smallest; figures begin with the largest."""
        get = request.GET
        sort = get.get("sort", default)
        sort = sort if sort in sorts else default
        direction = get.get("dir", "")
        per_page = whole_number(get.get("rows", ""))
        return cls(
            query=get.get("q", "").strip()[:QUERY_LENGTH_MAX],
            sort=sort,
            descending=direction == "desc" if direction in ("asc", "desc") else sort not in ascending,
            page=max(1, whole_number(get.get("page", ""))),
            per_page=per_page if per_page in PER_PAGE_CHOICES else PER_PAGE_DEFAULT,
        )


def whole_number(text: str) -> int:
    """What an address says a number is; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
