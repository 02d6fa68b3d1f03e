"""Text that both databases can keep: what one of them refuses becomes a visible escape, in this one place.

PostgreSQL takes no NUL in text or JSON, and nothing encodes half of a surrogate pair. Keys, causes and client ids of
messages, answers of brokers and what people type may hold both. Each such character is kept as Python writes it:
``\\x00``, ``\\ud83d``. Every statement and every JSON value of every connection passes here; code that compares a text
with a stored one, or must keep to a length, calls ``storable`` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper


def storable(text: str, limit: int | None = None) -> str:
    """Return the text as the databases store it, at most ``limit`` characters."""
    if "\0" in text or not (text.isascii() or _encodes(text)):
        text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return text if limit is None else text[:limit]


def storable_value(value: Any) -> Any:
    """Return a JSON value with all its texts, including keys, as the databases store them."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable_value(key): storable_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(each) for each in value]
    return value


def install(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Make every statement of a new connection storable (signal ``connection_created``)."""
    if _guard in connection.execute_wrappers:
        return
    connection.execute_wrappers.insert(0, _guard)  # first: others are pushed and popped at the end
    adapt = connection.ops.adapt_json_value

    def adapt_storable(value: Any, encoder: Any) -> Any:
        return adapt(storable_value(value), encoder)

    connection.ops.adapt_json_value = adapt_storable  # type: ignore[method-assign]


def _guard(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    if params:
        params = [_row(row) for row in params] if many else _row(params)
    return execute(sql, params, many, context)


def _row(params: Any) -> Any:
    if isinstance(params, Mapping):
        return {name: _one(value) for name, value in params.items()}
    if isinstance(params, Sequence):
        return tuple(_one(value) for value in params)
    return params


def _one(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
