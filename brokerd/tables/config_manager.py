"""Save and load a table as a file under config/: atomic, with the version before kept as `.bak`.

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

BACKUP, UNREADABLE = ".bak", ".unreadable"
_unreadable: set[Path] = set()  # files whose content must not become the backup
WRITE_BYTES = 1024 * 1024  # a table of 10,000 groups is a few calls of the system


class TableUnreadable(Exception):
    """A table under config/ was lost: neither its file nor the version before can be read."""


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


def write_pieces(path: Path, pieces: Iterable[bytes], is_private: bool = False) -> None:
    """Replace `path` so that a crash at any point leaves the old or the new content, never a part.

    1. write and fsync a temporary file; 2. rename the present file to `.bak`; 3. rename the temporary file to its
    name; 4. fsync the folder. Between 2 and 3 only `.bak` exists: load falls back to it. Raises OSError.
    `is_private`: it holds secrets, so that a new file is its owner's only; a present one keeps its permissions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb", buffering=WRITE_BYTES, opener=_private if is_private else None) as file:
        if is_private and path.exists():
            os.fchmod(file.fileno(), path.stat().st_mode)
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        os.replace(path, path.with_name(path.name + (UNREADABLE if path in _unreadable else BACKUP)))
        _unreadable.discard(path)
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def load(path: Path, parse: Callable[[bytes], Table]) -> Table | None:
    """Return the table in `path`, else in its `.bak`; None when there is neither, as before the first start.

    Changes nothing on disk: the next save sets aside what cannot be read, which must not become the backup.
    Raises TableUnreadable: an empty table in place of one that was lost would be saved over it.
    """
    errors = []
    for candidate in (path, path.with_name(path.name + BACKUP)):
        try:
            content = candidate.read_bytes()
        except FileNotFoundError:
            continue
        try:
            table = parse(content)
        except (ValueError, TypeError, KeyError, AttributeError, RemotingError) as error:
            errors.append(f"{candidate} cannot be read ({type(error).__name__}: {error})")
            continue
        if errors:
            logger.error("%s; its backup is used, and it is kept as %s", errors[0], path.name + UNREADABLE)
            _unreadable.add(path)
        return table
    if errors:
        raise TableUnreadable(
            f"{' and '.join(errors)}. brokerd does not start with an empty table in its place. Restore one of"
            f" {path.name} and {path.name}{BACKUP} from a backup, or move them away to start without what they held"
        )
    return None


def load_or_empty(path: Path, parse: Callable[[bytes], Table]) -> Table | None:
    """Load a table that is made anew when it is lost: None for one that cannot be read."""
    try:
        return load(path, parse)
    except TableUnreadable as error:
        logger.error("%s", error)  # noqa: TRY400
        _unreadable.add(path)
        return None
