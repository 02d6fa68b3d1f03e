"""Send a list as a CSV file: `?format=csv` on its page, with the same filters and order."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from console.lists.page import FILE_ROWS_MAX, Page
from console.lists.spec import ListSpec
from console.text import Text
from console.web.problem import refused_page
from console.web.streamed import StreamedResponse


def file_of(request: HttpRequest, page: Page[Any], spec: ListSpec, cluster: str = "") -> HttpResponseBase:
    """Return the rows of a whole page as `<cluster>-<list>.csv`; 422 where more match than a file holds."""
    found = refusal(page)
    if found is not None:
        return refused_page(request, HTTPStatus.UNPROCESSABLE_ENTITY, found)
    return streamed_file(page.rows, spec, cluster)


def refusal(page: Page[Any]) -> Text | None:
    """Return why the rows of a page are no file; None where they are."""
    if page.total <= FILE_ROWS_MAX:
        return None
    return Text(
        "%(total)s rows match, and a file holds %(most)s. Narrow the filter.",
        total=page.total,
        most=FILE_ROWS_MAX,
    )


def streamed_file(rows: Iterable[Any], spec: ListSpec, cluster: str = "") -> StreamedResponse:
    """Stream rows as `<cluster>-<list>.csv`, line by line."""
    answer = StreamedResponse(spec.csv(rows), content_type="text/csv; charset=utf-8")
    name = "-".join(part for part in (cluster, spec.name) if part)
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer
