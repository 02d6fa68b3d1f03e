"""The consume queues of a store: finding, making, loading and deleting them.

Source: `store/.../queue/ConsumeQueueStore.java`. Folder: `consumequeue/<topic>/<queueId>/`.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import orjson

from brokerd.store.errors import MessageIllegal, NoRoomForQueue, NotReady
from brokerd.store.files.durable_file import replace_durably
from brokerd.store.log.record import TOPIC_BYTES_MAX
from brokerd.store.queue.consume_queue import ConsumeQueue

logger = logging.getLogger(__name__)

QUEUE_ID_MAX = 65_535  # far above any real topic; a queue id becomes a folder and a mapped file
QUEUES_MAX = 1_000_000  # until the system's limits are known; recovery opens what is there
MANIFEST_NAME = "consumequeue.json"
DROPPED_NAME = "deletedqueues"  # folders of deleted topics, until a thread has removed them
QueueLength = tuple[str, int, int]  # topic, queue id, max offset


@dataclass(frozen=True, slots=True)
class Manifest:
    """Lengths of queues. They hold all units of records before `dispatched_offset`, none from `log_max_offset` on."""

    dispatched_offset: int
    log_max_offset: int
    lengths: list[QueueLength]


class QueueMissing(NotReady):
    """A message is the first of its queue: `make_with_file` runs in a thread, `adopt` takes the queue in."""

    def __init__(self, topic: str, queue_id: int) -> None:
        super().__init__(f"{topic} {queue_id}")
        self.topic = topic
        self.queue_id = queue_id


class ConsumeQueueTable:
    """All consume queues by (topic, queue id)."""

    def __init__(self, directory: Path, file_size_bytes: int) -> None:
        self.directory = directory
        self.file_size_bytes = file_size_bytes
        # Read by flush in another thread: entries are added and removed whole, never changed.
        self.queues: dict[tuple[str, int], ConsumeQueue] = {}
        self.manifest_path = directory.parent / MANIFEST_NAME
        self._manifest_written: Manifest | None = None
        self.queues_max, self.queues_max_reason = QUEUES_MAX, ""
        self.makes_files_in_thread = False
        self.is_in_batches: Callable[[str], bool] = lambda topic: False  # its queues lie elsewhere
        self._dropped_directory = directory.parent / DROPPED_NAME
        self._dropped_count = 0

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self.queues.values()))

    def limit(self, queues_max: int, reason: str) -> None:
        """Refuse messages that would make more queues: each has an open, mapped file."""
        self.queues_max, self.queues_max_reason = queues_max, reason

    @property
    def room(self) -> int:
        """How many more queues may get files."""
        return max(0, self.queues_max - len(self.queues))

    def load(self) -> None:
        """Find every queue folder and the end of its queue; nothing is changed. Raises StoreFilesInvalid."""
        for topic, queue_id in self.folders():
            self._new(topic, queue_id).load()

    def folders(self) -> Iterator[tuple[str, int]]:
        """(topic, queue id) of every queue that has a folder."""
        for topic in subfolders(self.directory):
            for name in subfolders(self.directory / topic):
                if name.isdecimal():
                    yield topic, int(name)

    def _folder(self, topic: str, queue_id: int) -> str:
        return f"{self.directory}/{topic}/{queue_id}"

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = ConsumeQueue(topic, queue_id, self._folder(topic, queue_id), self.file_size_bytes)
        self.queues[topic, queue_id] = queue
        return queue

    def make_with_file(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue with its first file, to be adopted. Caller: any thread. Raises OSError."""
        queue = self.make(topic, queue_id)
        queue.make_room()
        return queue

    def adopt(self, queue: ConsumeQueue) -> None:
        """Take in a queue that was made, unless one of its name is there."""
        self.queues.setdefault((queue.topic, queue.queue_id), queue)

    def make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue that is not in the table yet. Raises MessageIllegal."""
        self.check(topic, queue_id)
        return ConsumeQueue(topic, queue_id, self._folder(topic, queue_id), self.file_size_bytes)

    def check(self, topic: str, queue_id: int) -> None:
        """Raise MessageIllegal for a queue that cannot be."""
        check_name(topic, queue_id)
        if self.is_in_batches(topic):
            raise MessageIllegal(
                f"topic {topic} keeps its messages in batches, which this broker does not write"
            )

    def is_possible(self, topic: str, queue_id: int) -> bool:
        return is_name(topic, queue_id) and not self.is_in_batches(topic)

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Raise MessageIllegal for a name that cannot be a folder or a queue id out of range, NoRoomForQueue.

        With `makes_files_in_thread` a queue that is not there is QueueMissing instead of being made.
        """
        queue = self.queues.get((topic, queue_id))
        if queue is not None:
            return queue
        self.check(topic, queue_id)
        if len(self.queues) >= self.queues_max:
            raise NoRoomForQueue(
                f"topic {topic} gets no queue {queue_id}: {len(self.queues)} queues have files already, this system "
                f"has room for {self.queues_max} ({self.queues_max_reason}): delete topics or raise its limits"
            )
        if self.makes_files_in_thread:
            raise QueueMissing(topic, queue_id)
        return self._new(topic, queue_id)

    def reset_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Delete a queue's files, so that recovery builds it from the log. Raises OSError."""
        folder = self._folder(topic, queue_id)
        if os.path.exists(folder):
            shutil.rmtree(folder)
        return self._new(topic, queue_id)

    def delete_queue(self, topic: str, queue_id: int) -> None:
        """Remove one queue and its files. Raises OSError."""
        self.reset_queue(topic, queue_id)
        del self.queues[topic, queue_id]

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.queues})

    def queue_ids(self, topic: str) -> list[int]:
        return sorted(queue_id for name, queue_id in self.queues if name == topic)

    def drop_topic(self, topic: str) -> int:
        """Take the topic's queues out and move their folder aside; return how many they were.

        One rename: a topic that is created anew under the name has a folder of its own at once.
        """
        queue_ids = self.queue_ids(topic)
        folder = self.directory / topic
        if folder.is_dir():
            self._dropped_count += 1
            try:
                self._dropped_directory.mkdir(exist_ok=True)
                folder.rename(self._dropped_directory / str(self._dropped_count))
            except OSError:  # another file system, or what an earlier process could not remove
                shutil.rmtree(folder, ignore_errors=True)
        for queue_id in queue_ids:
            del self.queues[topic, queue_id]
        return len(queue_ids)

    def remove_dropped(self) -> None:
        """Remove the files of dropped queues. Caller: any thread; what cannot be removed is left for a later call."""
        for folder in list(self._dropped_directory.iterdir()) if self._dropped_directory.is_dir() else ():
            shutil.rmtree(folder, ignore_errors=True)

    def delete_all(self) -> None:
        for topic in self.topics():
            self.drop_topic(topic)
        self.remove_dropped()

    # The manifest: the lengths of all queues at a time when they were durable. A queue that is shorter at the next
    # start was damaged or deleted, and is rebuilt from the log.

    def lengths(self) -> list[QueueLength]:
        return [(queue.topic, queue.queue_id, queue.max_offset) for queue in self]

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest, if it changed. Raises OSError."""
        if manifest != self._manifest_written:
            content = {
                "commitLogDispatchedOffset": manifest.dispatched_offset,
                "commitLogMaxOffset": manifest.log_max_offset,
                "queues": manifest.lengths,
                "crc32": crc32(orjson.dumps(manifest.lengths)),
            }
            replace_durably(self.manifest_path, orjson.dumps(content))
            self._manifest_written = manifest

    def read_manifest(self) -> Manifest:
        """Empty when it is missing or unreadable."""
        try:
            content = orjson.loads(self.manifest_path.read_bytes())
            lengths = [(str(topic), int(number), int(end)) for topic, number, end in content["queues"]]
            if content["crc32"] != crc32(orjson.dumps(lengths)):
                raise ValueError("the checksum is not that of the lengths")  # noqa: TRY301
            return Manifest(
                int(content["commitLogDispatchedOffset"]), int(content["commitLogMaxOffset"]), lengths
            )
        except FileNotFoundError:
            return Manifest(0, 0, [])
        except (ValueError, KeyError, TypeError):
            logger.warning("%s is unreadable, ignored", self.manifest_path)
            return Manifest(0, 0, [])


def subfolders(folder: Path) -> list[str]:
    """Return their names, sorted; a start with 10,000 queues has no time for a Path of each."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def check_name(topic: str, queue_id: int) -> None:
    """Raise MessageIllegal for a name that cannot be a folder or a queue id out of range."""
    if not topic or topic in (".", "..") or "/" in topic or "\0" in topic:
        raise MessageIllegal(f"topic {topic!r} cannot be stored")
    if len(topic.encode()) > TOPIC_BYTES_MAX:
        raise MessageIllegal(f"topic of {len(topic.encode())} bytes, at most {TOPIC_BYTES_MAX}")
    if not 0 <= queue_id <= QUEUE_ID_MAX:
        raise MessageIllegal(f"queue id {queue_id} is not within 0 and {QUEUE_ID_MAX}")


def is_name(topic: str, queue_id: int) -> bool:
    try:
        check_name(topic, queue_id)
    except MessageIllegal:
        return False
    return True
