"""The part of a list that is requested: search words, order, filters, page. For pages, REST and commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from django.http import HttpRequest

from console.lists.page import PER_PAGE_CHOICES
from console.lists.spec import ListSpec

QUERY_LENGTH_MAX = 255
PER_PAGE_DEFAULT = 50


@dataclasses.dataclass(frozen=True, slots=True)
class ListQuery:
    """The requested part of a list.

    ``filters``: values of the list's own filters. ``sort`` "" is the list's own order, ``descending`` None the
    first direction of the column. ``is_whole``: every row, for a file.
    """

    query: str = ""
    sort: str = ""
    descending: bool | None = None
    page: int = 1
    per_page: int = PER_PAGE_DEFAULT
    filters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_whole: bool = False

    @classmethod
    def of(cls, request: HttpRequest, spec: ListSpec) -> ListQuery:
        """Read the query string of a declared list's page; invalid values fall back to the defaults."""
        get = request.GET
        list_query = cls.plain(request)
        sort, descending = spec.ordering(get.get("sort", ""), list_query.descending)
        return dataclasses.replace(
            list_query,
            sort=sort,
            descending=descending,
            filters={each.name: get[each.name] for each in spec.filters if get.get(each.name) in each.values},
            is_whole=get.get("format") == "csv",
        )

    @classmethod
    def plain(
        cls,
        request: HttpRequest,
        *,
        sorts: Collection[str] = (),
        default: str = "",
        ascending: Collection[str] = (),
    ) -> ListQuery:
        """Read `?q=…&sort=…&dir=asc|desc&page=…&rows=…` of any other list.

        ``ascending`` names the orders that begin with the smallest.
        """
        get = request.GET
        sort = get.get("sort", default)
        sort = sort if sort in sorts else default
        first = (sort not in ascending) if sorts else None
        per_page = whole_number(get.get("rows", ""))
        return cls(
            query=get.get("q", "").strip()[:QUERY_LENGTH_MAX],
            sort=sort,
            descending={"asc": False, "desc": True}.get(get.get("dir", ""), first),
            page=max(1, whole_number(get.get("page", ""))),
            per_page=per_page if per_page in PER_PAGE_CHOICES else PER_PAGE_DEFAULT,
        )


def whole_number(text: str) -> int:
    """Parse a number of a query string; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
