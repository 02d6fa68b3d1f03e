"""Columns of database rows that hold texts: `TextColumn` one text, `TextsColumn` JSON with texts in it.

Rows of earlier versions, and rows of other programs, may hold a plain sentence: it is read as a text without values,
which a page translates where the catalogue has it. Migrations know both as the plain columns that they are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.db import models

from console.text.value import Text, of_json, with_json

if TYPE_CHECKING:
    TextBase = models.TextField[str, Text]
    JsonBase = models.JSONField[Any, Any]
else:
    TextBase, JsonBase = models.TextField, models.JSONField


def as_stored(text: Text) -> str:
    """Return a text as a column of strings stores it."""
    return json.dumps(text.as_json(), ensure_ascii=False) if text else ""


def of_stored(value: str) -> Text:
    """Return the text that `as_stored` wrote; a plain sentence is a text without values."""
    if not value.startswith('{"text":'):
        return Text(value)
    found = json.loads(value, object_hook=of_json)
    return found if isinstance(found, Text) else Text(value)


class TextsDecoder(json.JSONDecoder):
    """Decode JSON with texts in it."""

    def __init__(self) -> None:
        super().__init__(object_hook=of_json)


class TextColumn(TextBase):
    """A column of one `Text`. A string that is no `Text` is rejected when the row is written."""

    def deconstruct(self) -> Any:
        name, _, arguments, options = super().deconstruct()
        return name, "django.db.models.TextField", arguments, options

    def to_python(self, value: Any) -> Any:
        return value if value is None or isinstance(value, Text) else of_stored(value)

    def from_db_value(self, value: str | None, *_: Any) -> Text | None:
        found: Text | None = self.to_python(value)
        return found

    def get_prep_value(self, value: Any) -> Any:
        """Convert values of look-ups too, which compare and search strings."""
        if isinstance(value, Text):
            return as_stored(value)
        return super().get_prep_value(value)

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        if isinstance(value, str) and value and not isinstance(value, Text):
            raise TypeError(f"{self.model.__name__}.{self.name} takes a Text, not the sentence {value!r}")
        return super().get_db_prep_save(value, connection)

    def value_to_string(self, obj: models.Model) -> str:
        return str(self.get_prep_value(self.value_from_object(obj)))


class TextsColumn(JsonBase):
    """A JSON column that may contain texts."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("decoder", TextsDecoder)
        super().__init__(*arguments, **options)

    def deconstruct(self) -> Any:
        name, _, arguments, options = super().deconstruct()
        del options["decoder"]
        return name, "django.db.models.JSONField", arguments, options

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return super().get_db_prep_value(with_json(value), connection, prepared)
