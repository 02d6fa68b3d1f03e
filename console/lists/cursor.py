"""Cursors of lists that grow while they are read: the rows after a row, whatever was added before it.

A cursor is the query's order and the last row's values of it. The order ends with a unique field, and has no nulls
but those that it states to be last. A cursor is no secret and no right: the query that it narrows is the caller's.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple

import orjson
from django.core.exceptions import FieldError, ValidationError
from django.db.models import Field, Q, QuerySet
from django.db.models.expressions import OrderBy

CURSOR_LENGTH_MAX = 500


class CursorRefused(ValueError):
    """The text is no cursor of this list."""


class _Key(NamedTuple):
    """One field of an order; null comes last in it, or does not occur."""

    name: str
    is_descending: bool
    has_nulls_last: bool

    @property
    def text(self) -> str:
        return f"-{self.name}" if self.is_descending else self.name


def after(rows: QuerySet[Any], row: Any) -> str:
    """Return the cursor of a row in the order of a query."""
    order = _order(rows)
    kept = [[key.text for key in order], [getattr(row, key.name) for key in order]]
    return base64.urlsafe_b64encode(orjson.dumps(kept, default=str)).decode().rstrip("=")


def rows_after(rows: QuerySet[Any], cursor: str) -> QuerySet[Any]:
    """Return the rows of a query that follow a cursor's row. Raises CursorRefused."""
    order = _order(rows)
    try:
        names, values = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if names != [key.text for key in order]:
            raise CursorRefused
        wanted, same = Q(), Q()
        for key, kept in zip(order, values, strict=True):
            value = _field(rows, key.name).to_python(kept)
            if value is None and not key.has_nulls_last:
                raise CursorRefused
            if value is not None:
                wanted |= same & _following(key, value)
            same &= Q(**{f"{key.name}__isnull": True} if value is None else {key.name: value})
        return rows.filter(wanted)
    except (CursorRefused, ValidationError, FieldError, binascii.Error, ValueError, TypeError) as error:
        raise CursorRefused("Not a cursor of this list in this order.") from error


def _following(key: _Key, value: Any) -> Q:
    found = Q(**{f"{key.name}__{'lt' if key.is_descending else 'gt'}": value})
    return found | Q(**{f"{key.name}__isnull": True}) if key.has_nulls_last else found


def _field(rows: QuerySet[Any], name: str) -> Field[Any, Any]:
    """Return the field of a column, or of an annotation."""
    annotation = rows.query.annotations.get(name)
    return rows.model._meta.get_field(name) if annotation is None else annotation.output_field


def _order(rows: QuerySet[Any]) -> list[_Key]:
    """Return the fields of a query's order, most significant first."""
    return [_key(rows, one) for one in rows.query.order_by or rows.model._meta.ordering or ()]


def _key(rows: QuerySet[Any], one: object) -> _Key:
    if isinstance(one, OrderBy):
        named: Any = one.expression  # F: its stubs have no name
        name, is_descending, is_last = str(named.name), one.descending, bool(one.nulls_last)
    else:
        name, is_descending, is_last = str(one).removeprefix("-"), str(one).startswith("-"), False
    if name == "pk":
        name = rows.model._meta.pk.name
    can_be_null = name in rows.query.annotations or _field(rows, name).null
    return _Key(name, is_descending, is_last and can_be_null)
