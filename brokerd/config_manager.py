"""Owns how a table becomes a file under config/ and comes back: atomic, with the version before kept as `.bak`.

Source: store-format §10 (`ConfigManager.java`). Files are strict JSON, which a Java broker reads too; what a Java
broker wrote (fastjson's dialect) is read here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import orjson

from brokerd.remoting.errors import RemotingError

logger = logging.getLogger(__name__)

Table = TypeVar("Table")

WRITE_BYTES = 1024 * 1024  # a table of 10,000 groups is a few calls of the system


def encode_document(document: object) -> bytes:
    """Sorted, indented JSON; integer keys become strings."""
    return orjson.dumps(
        document,
        option=orjson.OPT_INDENT_2
        | orjson.OPT_NON_STR_KEYS
        | orjson.OPT_SORT_KEYS
        | orjson.OPT_APPEND_NEWLINE,
    )


def write_atomically(path: Path, content: bytes) -> None:
    """As write_pieces, of one piece. Raises OSError."""
    write_pieces(path, [content])


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Replace `path` so that a crash at any point leaves the old or the new content, never a part.

    1. write and fsync a temporary file; 2. rename the present file to `.bak`; 3. rename the temporary file to its
    name; 4. fsync the folder. Between 2 and 3 only `.bak` exists: load falls back to it. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb", buffering=WRITE_BYTES) as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        os.replace(path, path.with_name(path.name + ".bak"))
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: Path, parse: Callable[[bytes], Table]) -> Table | None:
    """The table in `path`, else in its `.bak`; None when neither is there or readable.

    One that cannot be read is logged and set aside as `.unreadable`: the next save would replace the backup with it.
    """
    for candidate in (path, path.with_name(path.name + ".bak")):
        try:
            content = candidate.read_bytes()
        except FileNotFoundError:
            continue
        try:
            return parse(content)
        except (ValueError, TypeError, KeyError, AttributeError, RemotingError) as error:
            aside = candidate.with_name(candidate.name + ".unreadable")
            os.replace(candidate, aside)
            logger.error(  # noqa: TRY400
                "cannot read %s (%s: %s); kept as %s", candidate, type(error).__name__, error, aside.name
            )
    return None
