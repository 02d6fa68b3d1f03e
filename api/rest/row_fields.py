"""`?fields=`: rows with the named fields only, in every list; the names are those of the rows' serializer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from console.text import JsonObject

NAME = "fields"
RESULTS = "results"


def names_of(schema: AutoSchema) -> list[str]:
    """Return the fields of the rows that an operation returns; [] where it returns no list."""
    found: Any = schema.get_response_serializers()
    if isinstance(found, dict):
        found = found.get(200) or found.get((200, JSONRenderer.media_type))
    if isinstance(found, type) and issubclass(found, serializers.Serializer):
        found = found()
    results = found.fields.get(RESULTS) if isinstance(found, serializers.Serializer) else None
    child = results.child if isinstance(results, serializers.ListSerializer) else None
    return list(child.fields) if isinstance(child, serializers.Serializer) else []


def parameter(names: Sequence[str]) -> OpenApiParameter:
    """Return the description of `fields` in the OpenAPI document."""
    description = f"names, separated by commas; default: all. The names: {', '.join(names)}"
    return OpenApiParameter(NAME, str, description=description)


def wanted(request: Request, names: Sequence[str]) -> frozenset[str]:
    """Return the requested fields, none for all. Raises ValidationError with the names that exist."""
    found = frozenset(name for name in request.query_params.get(NAME, "").split(",") if name)
    unknown = ", ".join(sorted(found - set(names)))
    if unknown:
        detail = f"There is no field {unknown[:200]}. Rows have {', '.join(sorted(names))}."
        raise ValidationError({NAME: [detail]})
    return found


def only(body: JsonObject, fields: frozenset[str]) -> JsonObject:
    """Return a page of a list with these fields of its rows."""
    rows = [{name: value for name, value in row.items() if name in fields} for row in body[RESULTS]]
    return {**body, RESULTS: rows}
