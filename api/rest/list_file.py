"""Lists as CSV files: `?format=csv` or `Accept: text/csv` gives what the list's page gives as a file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import Http404
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.exceptions import APIException, NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request

from console.lists import file
from console.lists.page import FILE_ROWS_MAX, Page
from console.lists.spec import ListSpec


class CsvRenderer(JSONRenderer):
    """Accept requests for CSV. Rows are streamed; only refusals are rendered here, as JSON."""

    media_type = "text/csv"
    format = "csv"


# Of a list that is also served as a file; JSON where the caller does not choose.
RENDERERS = (JSONRenderer, CsvRenderer)


class TooManyRows(APIException):
    """More rows match than a file holds."""

    status_code = 422
    default_code = "too_many_rows"


class Negotiation(DefaultContentNegotiation):
    """Choose by `?format=` and Accept; a refusal lists what is served."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer and its media type; raise NotAcceptable, also for an unknown `?format=`."""
        renderers = list(renderers)
        try:
            chosen: tuple[BaseRenderer, str] = super().select_renderer(request, renderers, format_suffix)
            return chosen
        except (Http404, NotAcceptable):
            served = ", ".join(f"{each.media_type} (format {each.format})" for each in renderers)
            raise NotAcceptable(f"Served here: {served}.", available_renderers=renderers) from None


def parameter(
    whole: str = f"page and per_page do not apply, at most {FILE_ROWS_MAX:,} rows",
) -> OpenApiParameter:
    """Return the description of `format` in the OpenAPI document; ``whole``: what a file holds."""
    return OpenApiParameter(
        "format",
        str,
        enum=[each.format for each in RENDERERS],
        description=f"csv (or Accept: text/csv): every row that matches, as the page's file ({whole})",
    )


def responses(body: Any) -> dict[tuple[int, str], Any]:
    """Return the responses of a list for the OpenAPI document: ``body`` as JSON, or the file."""
    return {
        (200, JSONRenderer.media_type): body,
        (200, CsvRenderer.media_type): OpenApiResponse(OpenApiTypes.STR),
    }


def is_wanted(request: Request) -> bool:
    """Return whether the caller chose the file."""
    return isinstance(request.accepted_renderer, CsvRenderer)


def file_of(page: Page[Any], spec: ListSpec, cluster: str) -> HttpResponseBase:
    """Return the rows of a whole page as the file of the list's page; raises TooManyRows."""
    refusal = file.refusal(page)
    if refusal is not None:
        raise TooManyRows(str(refusal))
    return file.streamed_file(page.rows, spec, cluster)
