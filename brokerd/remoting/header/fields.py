"""What the header dataclasses have in common: fields with wire names and types, read from and written to ext fields.

A number is read as Java's parseInt and parseLong do (sign and leading zeros allowed), or as JSON writes a whole number
(`3.0`, `3e2`): the typed decoder of the hot path takes those, and both must agree. Unknown fields are passed over.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import msgspec

from brokerd.remoting.command import INT32_MAX, INT32_MIN
from brokerd.remoting.errors import HeaderFieldError

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")  # 40: far beyond 64 bits, and no attack on int()


def of(wire: str, kind: str, default: Any = dataclasses.MISSING, *, kw_only: bool = False) -> Any:
    """Return a header field: wire name, kind (s text, i int32, l int64, b flag); required unless it has a default.

    `kw_only` lets one with a default stand before required ones, where the wire has that order.
    """
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"wire": wire, "kind": kind})


class HeaderFields:
    """Base of the header dataclasses."""

    @classmethod
    def from_ext_fields(cls, ext_fields: Mapping[str, str]) -> Self:
        """Raise HeaderFieldError naming the field that is missing or wrong."""
        found = {}
        for attribute, wire, read, is_required in fields_of(cls):
            value = ext_fields.get(wire)
            if value is not None:
                read_value = read(wire, value, is_required)
                if read_value is not None:
                    found[attribute] = read_value
            elif is_required:
                raise HeaderFieldError(wire, None, "is required")
        return cls(**found)

    def to_ext_fields(self) -> dict[str, str]:
        """Return what is not None, as text."""
        fields = {}
        for attribute, wire, _, _ in fields_of(type(self)):
            value = getattr(self, attribute)
            if value is not None:
                fields[wire] = ("true" if value else "false") if isinstance(value, bool) else str(value)
        return fields


Reader = Callable[[str, str, bool], Any]


class HeaderField(NamedTuple):
    """One field of a header class as it is read and written."""

    attribute: str
    wire: str
    read: Reader
    is_required: bool


_FIELDS: dict[type[HeaderFields], list[HeaderField]] = {}


def fields_of(cls: type[HeaderFields]) -> list[HeaderField]:
    """Return the fields of a header class in order; found out once per class."""
    fields = _FIELDS.get(cls)
    if fields is None:
        fields = _FIELDS[cls] = [
            HeaderField(
                each.name,
                each.metadata["wire"],
                READERS[each.metadata["kind"]],
                each.default is dataclasses.MISSING,
            )
            for each in dataclasses.fields(cls)  # type: ignore[arg-type]
        ]
    return fields


def _int32(name: str, value: str, is_required: bool) -> int | None:
    return _whole(name, value, is_required, INT32_MIN, INT32_MAX)


def _int64(name: str, value: str, is_required: bool) -> int | None:
    return _whole(name, value, is_required, INT64_MIN, INT64_MAX)


def _whole(name: str, value: str, is_required: bool, low: int, high: int) -> int | None:
    if _NUMBER.fullmatch(value):
        number = int(value)
    elif value.lower() in ("null", "") and not is_required:
        return (
            None  # String.valueOf(null) of some client; Java cannot parse it either and leaves the field null
        )
    else:
        try:
            number = msgspec.convert(value, int, strict=False)
        except msgspec.ValidationError:
            raise HeaderFieldError(name, value, "takes a whole number") from None
    if not low <= number <= high:
        raise HeaderFieldError(name, value, f"takes a number from {low} to {high}")
    return number


def _flag(name: str, value: str, is_required: bool) -> bool:
    return value.lower() == "true"


def _text(name: str, value: str, is_required: bool) -> str:
    return value


READERS: dict[str, Reader] = {"i": _int32, "l": _int64, "b": _flag, "s": _text}
