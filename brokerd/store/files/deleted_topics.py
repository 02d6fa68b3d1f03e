"""Deleted topics whose records are still in the commit log, so that recovery does not bring them back.

The file (ours, next to RocketMQ's): `deletedtopics.json`,
`{"topics": {"<topic>": <commit log offset>}, "crc32": <of the topics as compact JSON>}`. Records of the topic that lie
before the offset belong to the deleted topic; later ones to a topic that was created anew under the same name, whose
queues start at 0. An entry goes when the log that holds such records has expired.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from zlib import crc32

import orjson

from brokerd.store.files.durable_file import replace_durably

logger = logging.getLogger(__name__)

FILE_NAME = "deletedtopics.json"


class DeletedTopics:
    """Topic → the commit log offset below which its records count as deleted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ends: dict[str, int] = {}
        self.is_readable = True
        self._saved: dict[str, int] = {}
        self._saving = threading.Lock()

    def load(self) -> None:
        """Read the file. One that cannot be read is reported and counts as empty: nothing is lost by that."""
        try:
            content = orjson.loads(self._path.read_bytes())
            ends = content["topics"]
            if content["crc32"] != crc32(orjson.dumps(ends)):
                raise ValueError("the checksum is not that of the topics")  # noqa: TRY301
            self.ends = {str(topic): int(offset) for topic, offset in ends.items()}
            self._saved = dict(self.ends)
        except FileNotFoundError:
            self.ends = {}
        except (ValueError, KeyError, TypeError, AttributeError):
            self.is_readable = False
            logger.exception("%s cannot be read: deleted topics may come back", self._path)

    def add(self, topic: str, log_max_offset: int) -> None:
        """Record that the topic is deleted; `save` makes it durable."""
        self.ends[topic] = log_max_offset

    def fit(self, log_min_offset: int, log_max_offset: int) -> None:
        """Drop what has expired. What a crash cut off the log is written anew by other records: cut entries too."""
        ends = {topic: min(end, log_max_offset) for topic, end in self.ends.items() if end > log_min_offset}
        if ends != self.ends:
            self.ends = ends
            self.save()

    def end_of(self, topic: str) -> int:
        return self.ends.get(topic, 0)

    def save(self) -> None:
        """Make what was noted durable, if it is not. Caller: any thread. Raises OSError."""
        with self._saving:
            ends = dict(self.ends)
            if ends == self._saved:
                return
            content = {"topics": ends, "crc32": crc32(orjson.dumps(ends))}
            replace_durably(self._path, orjson.dumps(content, option=orjson.OPT_INDENT_2))
            self._saved = ends
