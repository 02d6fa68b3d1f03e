"""Owns the offsets of consumer groups: committed, pulled and waiting to be reset; saved as consumerOffset.json.

Source: semantics §6 (`ConsumerOffsetManager.java`). A committed offset may go backwards: the broker does not judge.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from brokerd import config_manager
from brokerd.remoting.bodies import ConsumerOffsetWrapper, DataVersion

logger = logging.getLogger(__name__)

COMMITS_PER_VERSION = 500  # the data version moves every so many commits, as in Java
# Offsets of queues that the topic does not have are stored, as in Java: queues may be taken away under a consumer. But
# one client must not fill memory and the file with a hundred thousand of them.
STRAYS_MAX = 1_024
LOGGED_EVERY = 1_000

Key = tuple[str, str]  # topic, group


class ConsumerOffsetManager:
    """Offsets per (topic, group) and queue id. Single-threaded: the broker's event loop."""

    def __init__(self, path: Path, now_ms: int) -> None:
        self._path = path
        self.offsets: dict[Key, dict[int, int]] = {}
        self.pull_offsets: dict[Key, dict[int, int]] = {}
        self._resets: dict[Key, dict[int, int]] = {}
        self._commits = 0
        self._strays_refused = 0
        self._is_dirty = False
        self.data_version = DataVersion(timestamp=now_ms, counter=0)
        loaded = config_manager.load(path, ConsumerOffsetWrapper.from_body)
        if loaded is not None:
            self.offsets.update(loaded.offset_table)
            self.data_version = loaded.data_version

    def commit(self, group: str, topic: str, queue_id: int, offset: int, now_ms: int) -> None:
        """Store a committed offset, whatever was there before."""
        key = (topic, group)
        queues = self.offsets.get(key)
        if queues is None:
            queues = self.offsets[key] = {}
        queues[queue_id] = offset
        self._is_dirty = True
        self._commits += 1
        if self._commits % COMMITS_PER_VERSION == 0:
            version = self.data_version
            self.data_version = dataclasses.replace(version, timestamp=now_ms, counter=version.counter + 1)

    def refuses_stray(self, group: str, topic: str, queue_id: int, queues: int) -> bool:
        """Whether an offset of a queue beyond the topic's `queues` is one too many: counted, and told in the log."""
        known = self.offsets.get((topic, group), {})
        if queue_id in known or len(known) < queues + STRAYS_MAX:
            return False
        if self._strays_refused % LOGGED_EVERY == 0:
            logger.warning(
                "offset refused group=%s topic=%s queue_id=%d: %d offsets on %d queues already; refused before=%d",
                group, topic, queue_id, len(known), queues, self._strays_refused,
            )  # fmt: skip
        self._strays_refused += 1
        return True

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset a consumer starts from: a waiting reset first, then what was committed."""
        pending = self.pending_reset(group, topic, queue_id)
        return pending if pending is not None else self.committed(group, topic, queue_id)

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        queues = self.offsets.get((topic, group))
        return None if queues is None else queues.get(queue_id)

    def note_pull(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        key = (topic, group)
        queues = self.pull_offsets.get(key)
        if queues is None:
            queues = self.pull_offsets[key] = {}
        queues[queue_id] = next_offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int | None:
        return self.pull_offsets.get((topic, group), {}).get(queue_id)

    def reset(self, group: str, topic: str, targets: Mapping[int, int], now_ms: int) -> None:
        """Move queues to new offsets. Until the next pull of a queue takes note, commits to it are ignored."""
        self._resets.setdefault((topic, group), {}).update(targets)
        for queue_id, offset in targets.items():
            self.commit(group, topic, queue_id, offset, now_ms)

    def pending_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        if not self._resets:
            return None
        return self._resets.get((topic, group), {}).get(queue_id)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The reset waiting for this queue, which is then done; None if there is none."""
        if not self._resets:
            return None
        queues = self._resets.get((topic, group))
        if queues is None:
            return None
        offset = queues.pop(queue_id, None)
        if not queues:
            del self._resets[(topic, group)]
        return offset

    def topics_of_group(self, group: str) -> list[str]:
        return sorted(topic for topic, other in self.offsets if other == group)

    def groups_of_topic(self, topic: str) -> list[str]:
        return sorted(group for other, group in self.offsets if other == topic)

    def clone(self, source: str, destination: str, topic: str, now_ms: int) -> None:
        for queue_id, offset in self.offsets.get((topic, source), {}).items():
            self.commit(destination, topic, queue_id, offset, now_ms)

    def remove_group(self, group: str) -> None:
        self._remove(lambda key: key[1] == group)

    def remove_topic(self, topic: str) -> None:
        self._remove(lambda key: key[0] == topic)

    def _remove(self, matches: Callable[[Key], bool]) -> None:
        for table in (self.offsets, self.pull_offsets, self._resets):
            for key in [key for key in table if matches(key)]:
                del table[key]
        self._is_dirty = True

    def wrapper(self) -> ConsumerOffsetWrapper:
        return ConsumerOffsetWrapper(data_version=self.data_version, offset_table=self.offsets)

    def take_document(self) -> bytes | None:
        """What is to be saved, or None when nothing changed since the last call."""
        if not self._is_dirty:
            return None
        self._is_dirty = False
        table = {f"{topic}@{group}": queues for (topic, group), queues in self.offsets.items()}
        version = dataclasses.asdict(self.data_version)
        return config_manager.encode_document(
            {
                "dataVersion": {
                    "counter": version["counter"],
                    "stateVersion": version["state_version"],
                    "timestamp": version["timestamp"],
                },
                "offsetTable": table,
            }
        )

    def write(self, document: bytes) -> None:
        """Save what take_document returned; runs in a thread. Raises OSError; call mark_dirty then."""
        config_manager.write_atomically(self._path, document)

    def mark_dirty(self) -> None:
        self._is_dirty = True
