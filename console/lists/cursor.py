"""Cursors of lists that grow while they are read: the rows after a row, whatever was added before it.

A cursor is the last row's values of the query's order, which ends with a unique field and has no nulls. It is no
secret and no right: the query that it narrows is the caller's.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import orjson
from django.core.exceptions import FieldError, ValidationError
from django.db.models import Q, QuerySet

CURSOR_LENGTH_MAX = 500


class CursorRefused(ValueError):
    """The text is no cursor of this list."""


def after(rows: QuerySet[Any], row: Any) -> str:
    """Return the cursor of a row in the order of a query."""
    values = [getattr(row, name) for name, _ in _order(rows)]
    return base64.urlsafe_b64encode(orjson.dumps(values, default=str)).decode().rstrip("=")


def rows_after(rows: QuerySet[Any], cursor: str) -> QuerySet[Any]:
    """Return the rows of a query that follow a cursor's row. Raises CursorRefused."""
    order = _order(rows)
    try:
        values = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(values, list) or len(values) != len(order):
            raise CursorRefused
        wanted, same = Q(), Q()
        for (name, is_descending), value in zip(order, values, strict=True):
            value = rows.model._meta.get_field(name).to_python(value)
            if value is None:
                raise CursorRefused
            wanted |= same & Q(**{f"{name}__{'lt' if is_descending else 'gt'}": value})
            same &= Q(**{name: value})
        return rows.filter(wanted)
    except (CursorRefused, ValidationError, FieldError, binascii.Error, ValueError, TypeError) as error:
        raise CursorRefused("Not a cursor of this list.") from error


def _order(rows: QuerySet[Any]) -> list[tuple[str, bool]]:
    """Return the fields of a query's order, most significant first, and whether each descends."""
    meta = rows.model._meta
    found = [str(name) for name in rows.query.order_by or meta.ordering or ()]
    plain = [(name.removeprefix("-"), name.startswith("-")) for name in found]
    return [(meta.pk.name if name == "pk" else name, is_descending) for name, is_descending in plain]
