"""Owns the consume queues of a store: finding, making, loading and deleting them.

Source: `store/.../queue/ConsumeQueueStore.java`. Folder: `consumequeue/<topic>/<queueId>/`.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

from brokerd.store.consume_queue import ConsumeQueue
from brokerd.store.errors import MessageIllegal
from brokerd.store.record import TOPIC_BYTES_MAX

logger = logging.getLogger(__name__)

QUEUE_ID_MAX = 65_535  # far above any real topic; a queue id becomes a folder and a mapped file
MANIFEST_NAME = "consumequeue.json"


class ConsumeQueueTable:
    """All consume queues by (topic, queue id)."""

    def __init__(self, directory: Path, file_size_bytes: int) -> None:
        self.directory = directory
        self.file_size_bytes = file_size_bytes
        # Read by flush in another thread: entries are added and removed whole, never changed.
        self.queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._manifest_path = directory.parent / MANIFEST_NAME

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self.queues.values()))

    def load(self, *, thorough: bool) -> None:
        """Find every queue folder and the end of its queue. Raises StoreFilesInvalid."""
        if not self.directory.is_dir():
            return
        for topic_dir in sorted(self.directory.iterdir()):
            if not topic_dir.is_dir():
                continue
            for queue_dir in topic_dir.iterdir():
                if queue_dir.name.isdecimal() and queue_dir.is_dir():
                    queue = self._new(topic_dir.name, int(queue_dir.name))
                    queue.recover(thorough=thorough)

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        directory = self.directory / topic / str(queue_id)
        queue = ConsumeQueue(topic, queue_id, directory, self.file_size_bytes)
        self.queues[topic, queue_id] = queue
        return queue

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Raises MessageIllegal for a name that cannot be a folder or a queue id out of range."""
        queue = self.queues.get((topic, queue_id))
        if queue is not None:
            return queue
        if not topic or topic in (".", "..") or "/" in topic or "\0" in topic:
            raise MessageIllegal(f"topic {topic!r} cannot be stored")
        if len(topic.encode()) > TOPIC_BYTES_MAX:
            raise MessageIllegal(f"topic of {len(topic.encode())} bytes, at most {TOPIC_BYTES_MAX}")
        if not 0 <= queue_id <= QUEUE_ID_MAX:
            raise MessageIllegal(f"queue id {queue_id} is not within 0 and {QUEUE_ID_MAX}")
        return self._new(topic, queue_id)

    def reset_queue(self, topic: str, queue_id: int) -> None:
        """Delete a queue's files, so that recovery builds it from the log."""
        shutil.rmtree(self.directory / topic / str(queue_id), ignore_errors=True)
        self._new(topic, queue_id)

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.queues})

    def queue_ids(self, topic: str) -> list[int]:
        return sorted(queue_id for name, queue_id in self.queues if name == topic)

    def delete_topic(self, topic: str) -> int:
        """Remove the topic's queues and their files; return how many queues it had."""
        queue_ids = self.queue_ids(topic)
        for queue_id in queue_ids:
            del self.queues[topic, queue_id]
        if queue_ids:
            shutil.rmtree(self.directory / topic, ignore_errors=True)
        return len(queue_ids)

    def delete_all(self) -> None:
        for topic in self.topics():
            self.delete_topic(topic)

    # The manifest: what a clean stop left, so that the next start notices queues that disappeared since.

    def write_manifest(self, commit_log_max_offset: int) -> None:
        queues = [[queue.topic, queue.queue_id, queue.max_offset] for queue in self]
        self._manifest_path.write_text(
            json.dumps({"commitLogMaxOffset": commit_log_max_offset, "queues": queues}), encoding="utf-8"
        )

    def missing_queues(self, commit_log_max_offset: int) -> list[tuple[str, int]]:
        """Queues that were longer at the last clean stop. Empty without a manifest of this very log end."""
        try:
            manifest = json.loads(self._manifest_path.read_text(encoding="utf-8"))
            if manifest["commitLogMaxOffset"] != commit_log_max_offset:
                return []
            return [
                (topic, queue_id)
                for topic, queue_id, max_offset in manifest["queues"]
                if max_offset
                > (self.queues[topic, queue_id].max_offset if (topic, queue_id) in self.queues else 0)
            ]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError):
            logger.warning("%s is unreadable, ignored", self._manifest_path)
            return []

    def remove_manifest(self) -> None:
        self._manifest_path.unlink(missing_ok=True)
