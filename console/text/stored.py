"""Values in JSON columns, as of plans and jobs: written as plain JSON, read back as what they were.

A `Text` stays a text in both directions: the columns store it with its values. Keys that a value does not have, as
those of other versions, are ignored.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from console.text.value import JsonObject, Text, kept_text

T = TypeVar("T")


class Stored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value in a JSON column; a field that has its default is left out."""


def as_json(value: Any) -> Any:
    """Return a value as a JSON column takes it."""
    if isinstance(value, msgspec.Struct):
        omits = value.__struct_config__.omit_defaults
        fields = [(field, getattr(value, field.name)) for field in msgspec.structs.fields(value)]
        return {
            field.encode_name: as_json(found)
            for field, found in fields
            if found is not msgspec.UNSET and not (omits and found == _default(field))
        }
    if isinstance(value, Mapping):
        return {key: as_json(found) for key, found in value.items()}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [as_json(found) for found in value]
    return value


def of_json(kept: type[T], value: Any) -> T:
    """Return the value that `as_json` wrote."""
    return msgspec.convert(value, kept, dec_hook=_text)


def with_fields(kept: JsonObject, value: Stored) -> JsonObject:
    """Return the JSON of a column with the fields of a value replaced; other keys stay."""
    names = {field.encode_name for field in msgspec.structs.fields(value)}
    fields: JsonObject = as_json(value)
    return {key: found for key, found in kept.items() if key not in names} | fields


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _text(kind: type, value: Any) -> Any:
    if kind is not Text:
        raise NotImplementedError(kind)
    return kept_text(value)
