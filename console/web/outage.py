"""What an error of the database means: it is away, or its tables are of another version; and its lines in the log."""

import logging
import threading
import time
from typing import ClassVar

from django.db import InterfaceError, OperationalError, ProgrammingError

from console.text import Text
from console.web.disk_room import no_room

AGAIN_AFTER_S = 10.0
KEPT_MAX = 1_000  # reasons contain paths and hosts, of which there are few
# In errors of SQLite, which has one class for them and for a file that cannot be read.
SQLITE_WORDS = ("no such table", "no such column", "has no column named")
# PostgreSQL's undefined_table and undefined_column.
UNDEFINED = ("42P01", "42703")
# Code and title over REST.
OLD_SCHEMA = ("database_outdated", "The console's database is of another version")
ADVICE = Text(
    "The tables of the console’s database are of another version of the console. Run “manage.py prepare --migrate” "
    "on the console’s machine"
)


def is_old_schema(error: BaseException | None) -> bool:
    """Return whether a statement failed because a table or a column is missing."""
    if isinstance(error, OperationalError):
        return any(words in str(error) for words in SQLITE_WORDS)
    return isinstance(error, ProgrammingError) and getattr(error.__cause__, "sqlstate", "") in UNDEFINED


def why_away(error: BaseException) -> str:
    """Return the error of a database, preceded by its cause where that is known: a full disk, or tables of old."""
    reason = " ".join(str(error).split())
    cause = ADVICE if is_old_schema(error) else no_room()
    return f"{cause}; it said: {reason}" if cause else reason


class OneLine(logging.Filter):
    """Drops the tracebacks of database outages, and passes each kind of record only every AGAIN_AFTER_S.

    Every task and page fails then: their tracebacks, forty thousand lines a minute, would fill the rest of the disk.
    """

    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the record."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, OperationalError | InterfaceError) or is_old_schema(error):
            return True
        record.exc_info = record.exc_text = None
        key = record.name, str(error)
        now = time.monotonic()
        with self._lock:
            last, left_out = self._last.get(key, (-AGAIN_AFTER_S, 0))
            if now - last < AGAIN_AFTER_S:
                self._last[key] = last, left_out + 1
                return False
            if len(self._last) >= KEPT_MAX:
                self._last.clear()
            self._last[key] = now, 0
        message = record.getMessage()
        more = f" ({left_out} more like it before)" if left_out else ""
        text = "" if str(error) in message else f": {error}"
        record.msg, record.args = f"{message}{text}{more}", None
        return True
