"""Serializers of values: fields are made of the columns of a struct, so that a column stands in one place.

A `StructSerializer` has the columns of `struct` (a dataclass, msgspec struct or named tuple) but `hidden`, then its
`properties`. Type and nullability are those of the annotations, help texts those of `help_texts` or of a dataclass's
``metadata``. A declared field takes the place of its column, as one for a struct in a struct must; one of another name
comes last. A name that the struct does not have is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

from rest_framework import serializers

from console.text import Text

AnyField = serializers.Field[Any, Any, Any, Any]
HelpTexts = Mapping[str, str]
FIELDS: dict[type, type[AnyField]] = {
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    str: serializers.CharField,
    Text: serializers.CharField,
}


class StructSerializer(serializers.Serializer[Any]):
    # Without a docstring, which the OpenAPI document would repeat for each class that has none.
    struct: ClassVar[type]
    hidden: ClassVar[tuple[str, ...]] = ()
    properties: ClassVar[tuple[str, ...]] = ()
    help_texts: ClassVar[HelpTexts] = {}

    def get_fields(self) -> dict[str, AnyField]:
        declared = super().get_fields()
        columns = _columns(self.struct)
        kinds = columns | {name: _property_kind(self.struct, name) for name in self.properties}
        unknown = {*self.hidden, *self.help_texts} - kinds.keys()
        assert not unknown, f"{self.struct.__name__} has no {', '.join(sorted(unknown))}"
        texts = {**_metadata_texts(self.struct), **self.help_texts}
        found = {
            name: declared[name] if name in declared else _field(kind, help_text=texts.get(name))
            for name, kind in kinds.items()
            if name not in self.hidden
        }
        return found | declared


@cache
def _columns(struct: type) -> dict[str, object]:
    """Return column → type, those of base classes first."""
    hints = get_type_hints(struct)
    return {name: kind for name, kind in hints.items() if get_origin(kind) is not ClassVar}


@cache
def _property_kind(struct: type, name: str) -> object:
    return get_type_hints(getattr(struct, name).fget)["return"]


@cache
def _metadata_texts(struct: type) -> dict[str, str]:
    columns = dataclasses.fields(struct) if dataclasses.is_dataclass(struct) else ()
    return {one.name: one.metadata["help_text"] for one in columns if "help_text" in one.metadata}


def _field(kind: Any, **options: Any) -> AnyField:
    """Return the field of a type: figure or text, null or not, and sequences and mappings of them."""
    if kind in FIELDS:
        return FIELDS[kind](**options)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (known,) = (one for one in inner if one is not NoneType)
        return _field(known, allow_null=True, **options)
    assert isinstance(origin, type), f"no field for {kind}: declare it"
    if issubclass(origin, Mapping):
        return serializers.DictField(child=_field(inner[1]), **options)
    assert issubclass(origin, Sequence), kind
    return serializers.ListField(child=_field(inner[0]), **options)
