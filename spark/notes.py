"""Notes of a task besides its rows: files that it could not read, and periods of which it read nothing.

A note crosses from executor to driver as JSON, in the column `warning` or beside the names of written files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from spark.job import UnreadFile

NOTES_MAX = 100  # a page shows a few; more than that is a broken volume, not single files


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is missing in the rows.

    `path`: a history file that could not be read, `text` why. `lost_ms`: the start of a period of which a task could
    read nothing at all; it has no rows, and the rows of before must stay. Neither: `text` is the whole sentence.
    """

    text: str = ""
    path: str = ""
    lost_ms: int = -1

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Note:
        return msgspec.json.decode(text, type=cls)


def with_losses(notes: Iterable[Note], own_files: Iterable[str], from_ms: int) -> list[Note]:
    """Add the loss of an item's period, which starts at `from_ms`, when none of its own files could be read."""
    found = list(notes)
    own, unread = set(own_files), {note.path for note in found if note.path}
    if own and own <= unread:
        found.append(Note(lost_ms=from_ms))
    return found


def result_fields(notes: Sequence[Note]) -> dict[str, Any]:
    """Return the fields of a `JobResult` from notes: each file, period and sentence once, in order."""
    unread = {note.path: note.text for note in notes if note.path}
    return {
        "warnings": tuple(sorted({note.text for note in notes if not note.path and note.lost_ms < 0}))[
            :NOTES_MAX
        ],
        "unread": tuple(UnreadFile(path, reason) for path, reason in sorted(unread.items())),
        "lost_ms": tuple(sorted({note.lost_ms for note in notes if note.lost_ms >= 0})),
    }
