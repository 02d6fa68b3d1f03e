"""Refuse fields that a request body does not have: a misspelt one would be ignored, and with it a filter or a limit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

AnyField = serializers.Field[Any, Any, Any, Any]


def refuse_unknown(described: object, data: object) -> None:
    """Raise ValidationError for the fields of ``data`` that the described body does not have.

    ``described`` is the request of an operation in the OpenAPI document. Of a body that depends on its kind only the
    first level is checked: the kind checks its parameters.
    """
    wrong: dict[str, list[str]] = {}
    if isinstance(described, PolymorphicProxySerializer):
        kinds = described.serializers
        kind = next(iter(kinds.values() if isinstance(kinds, dict) else kinds))
        wrong = dict(_refused(set(kind().fields), data, ""))
    elif isinstance(described, type) and issubclass(described, serializers.Serializer):
        wrong = dict(_unknown(described().fields, data, ""))
    elif isinstance(described, serializers.Serializer):
        wrong = dict(_unknown(described.fields, data, ""))
    if wrong:
        raise ValidationError(wrong)


def _refused(known: Collection[str], data: object, path: str) -> Iterator[tuple[str, list[str]]]:
    if isinstance(data, dict):
        for name in sorted(set(data) - set(known)):
            names = ", ".join(sorted(known)) or "none"
            yield f"{path}{name[:100]}", [f"There is no such field. Here are {names}."]


def _unknown(fields: Mapping[str, AnyField], data: object, path: str) -> Iterator[tuple[str, list[str]]]:
    yield from _refused(fields, data, path)
    if not isinstance(data, dict):
        return
    for name, field in fields.items():
        value = data.get(name)
        inner: AnyField | None = field
        rows = [(f"{path}{name}.", value)]
        if isinstance(field, serializers.ListSerializer | serializers.ListField):
            inner = field.child
            rows = [(f"{path}{name}.{index}.", row) for index, row in enumerate(_list(value))]
        if isinstance(inner, serializers.Serializer):
            for at, row in rows:
                yield from _unknown(inner.fields, row, at)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
