"""Requests of browsers on the live socket, validated before use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

# "c/<63>/group/<255>", percent-encoded.
SUBJECT_LENGTH_MAX = 600
# Of one subscription; a page of a list names its 50 rows.
KEYS_MAX = 2_000
REQUEST_BYTES_MAX = 128 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rows of a subject by their keys (None: all). `seq`: the number as of which the browser shows them already."""

    keys: frozenset[str] | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """Subjects to join, and subjects to leave."""

    join: Mapping[str, Wanted]
    leave: tuple[str, ...]

    @classmethod
    def from_text(cls, text: str | None) -> "Request":
        """Parse a request. Raises ValueError if it is not valid."""
        if text is None or len(text) > REQUEST_BYTES_MAX:
            raise ValueError("send JSON text of at most 128 KiB")
        try:
            message = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"send JSON ({error})") from None
        if not isinstance(message, dict):
            raise ValueError("send an object with subscribe or unsubscribe")
        wanted, left = message.get("subscribe", []), message.get("unsubscribe", [])
        if not isinstance(wanted, list) or not isinstance(left, list):
            raise ValueError("subscribe and unsubscribe must be lists")
        return cls(dict(cls._wanted(item) for item in wanted), tuple(cls._subject(item) for item in left))

    @classmethod
    def _wanted(cls, item: Any) -> tuple[str, Wanted]:
        if not isinstance(item, dict):
            raise ValueError("each entry of subscribe must be an object with a subject")
        keys, seq = item.get("keys"), item.get("seq")
        if keys is not None and (
            not isinstance(keys, list)
            or len(keys) > KEYS_MAX
            or not all(isinstance(key, str) for key in keys)
        ):
            raise ValueError(f"keys must be at most {KEYS_MAX:,} texts")
        if seq is not None and not isinstance(seq, int):
            raise ValueError("seq must be a number")
        return cls._subject(item.get("subject")), Wanted(None if keys is None else frozenset(keys), seq)

    @staticmethod
    def _subject(subject: Any) -> str:
        if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_LENGTH_MAX or "\n" in subject:
            raise ValueError(f"a subject must be one line of 1 to {SUBJECT_LENGTH_MAX} characters")
        return subject
