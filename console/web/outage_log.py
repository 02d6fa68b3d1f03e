"""Shorten the log of an unavailable database to one line per ten seconds and kind of error.

Every task and page fails then: their tracebacks, forty thousand lines a minute, would fill the rest of the disk.
"""

import logging
import threading
import time
from typing import ClassVar

from django.db import InterfaceError, OperationalError

from console.web.old_schema import is_old_schema

AGAIN_AFTER_S = 10.0
KEPT_MAX = 1_000  # reasons contain paths and hosts, of which there are few


class OneLine(logging.Filter):
    """Drops the tracebacks of database outages, and passes each kind of record only every AGAIN_AFTER_S."""

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
