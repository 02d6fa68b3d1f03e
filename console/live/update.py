"""Changed rows of a live subject: encode, merge, filter by rights, translate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from console.text import JsonObject
from console.text.encoding import encoded
from console.text.locale import Locale
from console.text.value import in_words, of_json

# In place of a row.
REMOVED = b"null"
# A text among the values of a row, as `Text.as_json` returns it.
TEXT_START = b'{"text":'

# A mapping, a struct or a dataclass: what `encoded` takes.
Row = object


@dataclass(frozen=True, slots=True)
class View:
    """What a person may see of a subject: every row, or those that ``sees(key, row)`` allows.

    ``redacted(row)`` returns a row without what its reader may not see.
    """

    sees: Callable[[str, Any], bool] | None = None
    redacted: Callable[[Any], Any] | None = None


@dataclass(slots=True)
class Update:
    """What is to be sent to one browser about one subject. Shared between mailboxes, so never changed.

    ``pieces`` are the rows as published JSON: they are picked, merged and sent without being decoded, unless a
    reader may not see all of them or they hold texts.
    """

    subject: str
    sequence: int
    at_ms: int
    full: bool
    pieces: Mapping[str, bytes]
    _frames: dict[Locale, str] = field(default_factory=dict, repr=False)
    _keyed: dict[frozenset[str], Update] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, subject: str, sequence: int, at_ms: int, full: bool, rows: Mapping[str, Row | None]
    ) -> Update:
        """Create an update from rows that are not JSON yet; None removes a row."""
        return cls(subject, sequence, at_ms, full, {key: encoded(row) for key, row in rows.items()})

    @classmethod
    def from_channel(cls, data: bytes) -> Update:
        """Parse a message of the channel: "seq at_ms f|d subject", a line with keys and lengths, the rows."""
        head, lengths, rows = data.split(b"\n", 2)
        sequence, at_ms, kind, subject = head.split(b" ", 3)
        pieces, start = {}, 0
        for key, length in orjson.loads(lengths).items():
            pieces[key] = rows[start : start + length]
            start += length
        return cls(subject.decode(), int(sequence), int(at_ms), kind == b"f", pieces)

    @property
    def rows(self) -> JsonObject:
        """Return the rows, decoded anew at each call."""
        return {key: orjson.loads(piece) for key, piece in self.pieces.items()}

    def frame(self, locale: Locale) -> str:
        """Return the frame for browsers of a language and zone; built once for all of them."""
        if locale not in self._frames:
            head = orjson.dumps(
                {"subject": self.subject, "seq": self.sequence, "at_ms": self.at_ms, "full": self.full}
            )
            with locale.active():
                pairs = [(orjson.dumps(key), _in_words(piece)) for key, piece in self.pieces.items()]
            rows = b",".join(b"%b:%b" % pair for pair in pairs)
            self._frames[locale] = (head[:-1] + b',"rows":{' + rows + b"}}").decode()
        return self._frames[locale]

    def keyed(self, keys: frozenset[str]) -> Update:
        """Return the update with the rows of these keys only.

        Cached for all browsers that show the same rows: of a list of 10,000 each shows 50, and most of them the
        first 50.
        """
        known = self._keyed.get(keys)
        if known is None:
            pieces = {key: piece for key in keys if (piece := self.pieces.get(key)) is not None}
            known = Update(self.subject, self.sequence, self.at_ms, self.full, pieces)
            self._keyed[keys] = known
        return known

    def only(self, view: View) -> Update:
        """Return the update with the rows that a person may see, each without what they may not see."""
        rows = {key: row for key, row in self.rows.items() if view.sees is None or view.sees(key, row)}
        if view.redacted is not None:
            rows = {key: row and view.redacted(row) for key, row in rows.items()}
        return Update.of(self.subject, self.sequence, self.at_ms, self.full, rows)


def _in_words(piece: bytes) -> bytes:
    """Return a row with its texts in words for the active reader."""
    if TEXT_START not in piece:
        return piece
    return orjson.dumps(in_words(json.loads(piece, object_hook=of_json)))


def merged(older: Update, newer: Update) -> Update:
    """Merge two updates into one for a reader who gets only that; ``newer`` has the greater sequence."""
    if newer.full:
        return newer
    pieces = {**older.pieces, **newer.pieces}
    if older.full:
        pieces = {key: piece for key, piece in pieces.items() if piece != REMOVED}
    return Update(newer.subject, newer.sequence, newer.at_ms, older.full, pieces)
