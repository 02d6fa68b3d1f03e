"""Pages of lists: numbered pages of all, cursors of those that grow while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict, TypeVar, overload

from django.db.models.expressions import OrderBy
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api.rest import list_file
from console.lists.cursor import CURSOR_LENGTH_MAX
from console.lists.in_memory import page_in_memory
from console.lists.page import PER_PAGE_MAX, Page
from console.lists.query import ListQuery
from console.lists.spec import ListSpec
from console.text import JsonObject

Handler = TypeVar("Handler", bound=Callable[..., Any])

PER_PAGE = 50

PAGE_PARAMETERS = [
    OpenApiParameter("page", int, description="from 1; beyond the end gives the last page"),
    OpenApiParameter("per_page", int, description=f"1 to {PER_PAGE_MAX}, default {PER_PAGE}"),
]
CURSOR_PARAMETERS = [
    *PAGE_PARAMETERS,
    OpenApiParameter(
        "cursor",
        str,
        description="of the page before: the rows after it, none twice or left out while the list grows",
    ),
]


@overload
def integer(request: Request, name: str, default: int, *, low: int = ..., high: int = ...) -> int: ...


@overload
def integer(request: Request, name: str, *, low: int = ..., high: int = ...) -> int | None: ...


def integer(
    request: Request, name: str, default: int | None = None, *, low: int = 0, high: int = 2**63 - 1
) -> int | None:
    """Return an integer query parameter within bounds; raises ValidationError."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    try:
        value = int(text)
    except ValueError:
        raise ValidationError({name: [f"Send a whole number, not {text[:40]}."]}) from None
    if not low <= value <= high:
        raise ValidationError({name: [f"Must be from {low} to {high}."]})
    return value


def boolean(request: Request, name: str, default: bool = False) -> bool:
    """Return a query parameter of ``true``, ``false``, ``1`` or ``0``; raises ValidationError."""
    text = request.query_params.get(name, "").lower()
    if text == "":
        return default
    if text not in ("true", "false", "1", "0"):
        raise ValidationError({name: ["Send true or false."]})
    return text in ("true", "1")


def text(request: Request, name: str, default: str = "", *, most: int = 255) -> str:
    """Return a text query parameter; raises ValidationError when it is too long or holds a zero byte."""
    value = request.query_params.get(name, default)
    if len(value) > most or "\x00" in value:
        raise ValidationError({name: [f"Must have at most {most} characters and no zero byte."]})
    return value


def choice(request: Request, name: str, choices: Sequence[str], default: str) -> str:
    """Return a query parameter that is one of some words; raises ValidationError."""
    value = request.query_params.get(name, default)
    if value not in choices:
        raise ValidationError({name: [f"One of: {', '.join(each or '(empty)' for each in choices)}."]})
    return value


class PageArguments(TypedDict):
    """The requested page, as every selector of a list takes it."""

    page: int
    per_page: int


def page_arguments(request: Request) -> PageArguments:
    """Return ``page`` and ``per_page`` of a request, as keyword arguments of a selector."""
    page, per_page = (
        integer(request, "page", 1, low=1),
        integer(request, "per_page", PER_PAGE, low=1, high=PER_PAGE_MAX),
    )
    return {"page": page, "per_page": per_page}


class CursorArguments(PageArguments):
    """The requested page of a list that grows; ``after`` is a cursor, or ""."""

    after: str


def cursor_arguments(request: Request) -> CursorArguments:
    """Return `page_arguments` and ``after``, as keyword arguments of a selector."""
    after = text(request, "cursor", most=CURSOR_LENGTH_MAX)
    if after and "page" in request.query_params:
        raise ValidationError({"cursor": ["Send page or cursor, not both."]})
    return {**page_arguments(request), "after": after}


def ordering(request: Request, sorts: Sequence[str], default: str) -> tuple[str, bool]:
    """Return ``ordering=-lag`` as ("lag", True); raises ValidationError for an unknown column."""
    value = request.query_params.get("ordering", default)
    name = value.removeprefix("-")
    if name not in sorts:
        raise ValidationError({"ordering": [f"One of: {', '.join(sorts)}, with - for descending."]})
    return name, value.startswith("-")


def order_parameter(spec: ListSpec) -> OpenApiParameter:
    """Return the description of `order_of` in the OpenAPI document."""
    return ordering_parameter(spec.sorts, spec.default)


def ordering_parameter(sorts: Sequence[str], default: str) -> OpenApiParameter:
    """Return the description of `ordering` in the OpenAPI document."""
    values = [sign + name for name in sorts for sign in ("", "-")]
    return OpenApiParameter("ordering", str, enum=values, description=f"default {default}")


def order_of(request: Request, spec: ListSpec) -> list[OrderBy]:
    """Return the requested order of a declared list, [] without one; raises ValidationError."""
    if "ordering" not in request.query_params:
        return []
    return spec.order_by(*ordering(request, spec.sorts, spec.default))


def list_query(request: Request, spec: ListSpec) -> ListQuery:
    """Return search words, order, filters and page of a declared list; raises ValidationError.

    All rows are one page where the caller chose the file.
    """
    sort, descending = ordering(request, spec.sorts, spec.default)
    chosen = {each.name: choice(request, each.name, ["", *each.values], "") for each in spec.filters}
    return ListQuery(
        query=text(request, "query"),
        sort=sort,
        descending=descending,
        filters={name: value for name, value in chosen.items() if value},
        is_whole=list_file.is_wanted(request),
        **page_arguments(request),
    )


def list_parameters(spec: ListSpec, *, query: str) -> list[OpenApiParameter]:
    """Return the parameters of `list_query`, for the OpenAPI document; ``query`` describes the search words."""
    return [
        *PAGE_PARAMETERS,
        OpenApiParameter("query", str, description=query),
        *(OpenApiParameter(each.name, str, enum=["", *each.values]) for each in spec.filters),
        order_parameter(spec),
        *([list_file.parameter()] if spec.fields else ()),
    ]


def list_operation(
    spec: ListSpec,
    name: str,
    serializer: type[serializers.BaseSerializer[Any]],
    *,
    query: str,
    operation_id: str,
    tags: list[str],
    more: Sequence[OpenApiParameter] = (),
) -> Callable[[Handler], Handler]:
    """Describe a GET of a declared list in the OpenAPI document: its parameters, and pages of ``name``.

    ``query`` describes the search words; ``more`` are parameters of this list only.
    """
    body = page_of(name, serializer(many=True))
    return extend_schema(
        operation_id=operation_id,
        tags=tags,
        parameters=[*list_parameters(spec, query=query), *more],
        responses=list_file.responses(body) if spec.fields else body,
    )


def answer_in_memory(
    request: Request,
    rows: Sequence[Any],
    spec: ListSpec,
    serializer: type[serializers.BaseSerializer[Any]],
    *,
    cluster: str = "",
    not_shown: int = 0,
) -> HttpResponseBase:
    """Return the requested page of a declared list whose rows are all at hand, in the order of their key."""
    page = page_in_memory(rows, spec, list_query(request, spec), not_shown=not_shown)
    return list_answer(request, page, spec, cluster, serializer)


def list_answer(
    request: Request,
    page: Page[Any],
    spec: ListSpec,
    cluster: str,
    serializer: type[serializers.BaseSerializer[Any]],
) -> HttpResponseBase:
    """Return a page of a declared list, or its file where the caller chose that; raises TooManyRows."""
    if list_file.is_wanted(request):
        return list_file.file_of(page, spec, cluster)
    return Response(page_body(request, page, serializer(page.rows, many=True).data))


def page_body(request: Request, page: Page[Any], results: Iterable[object]) -> JsonObject:
    """Return the body of one page with its rendered rows. Where there are cursors, ``next`` continues by its cursor."""
    body = {
        "count": page.total,
        "page": page.page,
        "pages": page.pages,
        "not_shown": page.not_shown,
        "next": _link(request, page=page.page + 1) if page.page < page.pages else None,
        "previous": _link(request, page=page.page - 1) if page.page > 1 else None,
        "results": results,
    }
    if page.cursor is None:
        return body
    following = _link(request, cursor=page.cursor) if page.cursor else None
    return body | {"next": following, "cursor": page.cursor or None}


def _link(request: Request, **place: str | int) -> str:
    query = request.query_params.copy()
    for name in ("page", "cursor"):
        query.pop(name, None)
    query.update({name: str(value) for name, value in place.items()})
    return f"{request.path}?{query.urlencode()}"


def page_of(
    name: str, child: serializers.BaseSerializer[Any], **more: serializers.Field[Any, Any, Any, Any]
) -> serializers.Serializer[Any]:
    """Return the serializer of a numbered page of ``child`` (many=True); ``more`` fields of this list only."""
    return inline_serializer(
        name=f"{name}Page",
        fields={
            "count": serializers.IntegerField(help_text="rows that match, over all pages"),
            "page": serializers.IntegerField(),
            "pages": serializers.IntegerField(),
            "not_shown": serializers.IntegerField(help_text="rows that the caller has no right to VIEW"),
            "next": serializers.CharField(allow_null=True),
            "previous": serializers.CharField(allow_null=True),
            "results": child,
            **more,
        },
    )


def moving_page_of(name: str, child: serializers.BaseSerializer[Any]) -> serializers.Serializer[Any]:
    """Return the serializer of a page of a list that grows, with its cursor."""
    meaning = (
        "send it back for the rows after these; null at the end. page and pages then count the rows left"
    )
    return page_of(name, child, cursor=serializers.CharField(allow_null=True, help_text=meaning))
