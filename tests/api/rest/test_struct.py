"""A serializer of a struct has its columns, with their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import pytest
from msgspec import Struct
from rest_framework import serializers

from api.rest.struct import HelpTexts, StructSerializer
from console.text import Text


class Mark(NamedTuple):
    at_ms: int


class Base(Struct, frozen=True, kw_only=True):
    key: ClassVar[str] = "kept"
    group: str


class Line(Base, frozen=True, kw_only=True):
    lag: int | None
    rate: float
    reasons: Mapping[str, Text]
    counts: Sequence[int | None] | None = None
    marks: tuple[Mark, ...] = ()

    @property
    def is_late(self) -> bool | None:
        return None if self.lag is None else self.lag > 10


class MarkSerializer(StructSerializer):
    struct = Mark


class LineSerializer(StructSerializer):
    struct = Line
    hidden = ("rate",)
    properties = ("is_late",)
    help_texts: ClassVar[HelpTexts] = {"lag": "messages", "is_late": "null: unknown"}

    marks = MarkSerializer(many=True)
    place = serializers.CharField(source="group")


LINE = Line(group="billing", lag=12, rate=1.5, reasons={"broker-a": Text("none")}, counts=[1, None])


def test_it_has_the_columns_then_properties_then_what_is_declared() -> None:
    assert list(LineSerializer().fields) == [
        *("group", "lag", "reasons", "counts", "marks", "is_late", "place"),
    ]


def test_it_renders_values_and_null() -> None:
    assert LineSerializer(LINE).data == {
        "group": "billing",
        "lag": 12,
        "reasons": {"broker-a": "none"},
        "counts": [1, None],
        "marks": [],
        "is_late": True,
        "place": "billing",
    }
    unknown = LineSerializer(Line(group="billing", lag=None, rate=0, reasons={}, marks=(Mark(7),))).data
    assert (unknown["lag"], unknown["counts"], unknown["is_late"]) == (None, None, None)
    assert unknown["marks"] == [{"at_ms": 7}]


def test_it_states_type_nullability_and_meaning() -> None:
    fields = LineSerializer().fields
    assert isinstance(fields["lag"], serializers.IntegerField)
    assert (fields["lag"].allow_null, fields["lag"].help_text) == (True, "messages")
    assert isinstance(fields["group"], serializers.CharField) and not fields["group"].allow_null
    assert isinstance(fields["is_late"], serializers.BooleanField)
    assert fields["is_late"].help_text == "null: unknown"
    counts = fields["counts"]
    assert isinstance(counts, serializers.ListField) and counts.allow_null and counts.child.allow_null


def test_it_takes_meanings_from_a_dataclass() -> None:
    @dataclass(frozen=True)
    class Row:
        owner: str = field(default="", metadata={"help_text": "empty: none"})

    class RowSerializer(StructSerializer):
        struct = Row

    assert RowSerializer().fields["owner"].help_text == "empty: none"


@pytest.mark.parametrize("wrong", [{"hidden": ("gone",)}, {"help_texts": {"gone": "what"}}])
def test_it_refuses_names_that_the_struct_does_not_have(wrong: dict[str, object]) -> None:
    kind = type("WrongSerializer", (LineSerializer,), wrong)
    with pytest.raises(AssertionError, match="Line has no .*gone"):
        _ = kind().fields


def test_it_refuses_a_struct_in_a_struct_that_is_not_declared() -> None:
    @dataclass(frozen=True)
    class Outer:
        mark: Sequence[Mark]

    class OuterSerializer(StructSerializer):
        struct = Outer

    with pytest.raises(AssertionError, match="declare it"):
        _ = OuterSerializer().fields
