"""Encode rows as JSON: mappings or structs, with texts as values, which are put into words at the edge."""

from typing import Any

import orjson
from msgspec import Struct, structs

from console.text.storable import storable_value
from console.text.value import Text, with_json

OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS


def encoded(value: object) -> bytes:
    """Encode a value as JSON, each text in it as rows store it."""
    try:
        return orjson.dumps(value, option=OPTIONS, default=_plain)
    # A text may hold half of a surrogate pair.
    except orjson.JSONEncodeError:
        return orjson.dumps(storable_value(with_json(value)), option=OPTIONS, default=_plain)


def _plain(value: Any) -> Any:
    """Convert what orjson does not encode by itself: a struct, a text, or another subclass of a JSON type."""
    if isinstance(value, Struct):
        return structs.asdict(value)
    if isinstance(value, Text):
        return value.as_json()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")
