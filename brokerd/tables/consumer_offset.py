"""The offsets of consumer groups: committed, pulled and waiting to be reset; saved as consumerOffset.json.

Source: semantics §6 (`ConsumerOffsetManager.java`). A committed offset may go backwards: the broker does not judge.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import orjson

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.offset import ConsumerOffsetWrapper
from brokerd.remoting.body.topic import DataVersion
from brokerd.remoting.message.names import LIGHT_QUEUE_ID, is_light
from brokerd.tables import config_manager
from brokerd.tables.table_file import TableFile

logger = logging.getLogger(__name__)

COMMITS_PER_VERSION = 500  # the data version moves every so many commits, as in Java
RESETS = "resetOffsetTable"
# With light queues Apache keeps all offsets in another file, and those of groups of light queues as bare numbers.
LIGHT_FILE, LIGHT_OFFSETS = "lmqConsumerOffset.json", "lmqOffsetTable"

Key = tuple[str, str]  # topic, group
OffsetTable = dict[Key, dict[int, int]]


class ConsumerOffsetManager:
    """Offsets per (topic, group) and queue id. Single-threaded: the broker's event loop."""

    def __init__(self, path: Path, now_ms: int, *, has_light_queues: bool = False) -> None:
        """Load the younger of the two files, whichever broker wrote it; with light queues both are written."""
        light_path = path.with_name(LIGHT_FILE)
        self.file = TableFile(path, self._document)
        self.files = [self.file]
        if has_light_queues:
            self.files.append(TableFile(light_path, self._light_document))
        self.offsets: OffsetTable = {}
        self.pull_offsets: OffsetTable = {}
        self._resets: OffsetTable = {}
        self._commits = 0
        self._is_dirty = False
        self.data_version = DataVersion(timestamp=now_ms, counter=0)
        loaded = config_manager.load(younger(path, light_path), parse)
        if loaded is not None:
            committed, self._resets = loaded
            self.offsets.update(committed.offset_table)
            self.data_version = committed.data_version

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

    def follow(self, master: ConsumerOffsetWrapper) -> None:
        """Take over a master's committed offsets, on its slave; resets are the master's to carry out."""
        if master.offset_table != self.offsets:
            self.offsets = dict(master.offset_table)
            self._is_dirty = True
        self.data_version = master.data_version

    def has(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether an offset of this queue is stored."""
        return queue_id in self.offsets.get((topic, group), {})

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset a consumer starts from: a waiting reset first, then what was committed."""
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

    def fit(self, max_offset: Callable[[str, int], int], now_ms: int) -> None:
        """Bring offsets behind a queue's end back to it: the end of the log was lost in a crash.

        Left there, they would skip the next messages, which get the lost ones' numbers. `max_offset(topic, queue_id)`.
        """
        for (topic, group), queues in self.offsets.items():
            for queue_id, offset in list(queues.items()):
                end = max_offset(topic, queue_id)
                if offset > end:
                    logger.warning(
                        "offset after the queue's end following a crash group=%s topic=%s queue_id=%d from=%d to=%d",
                        group, topic, queue_id, offset, end,
                    )  # fmt: skip
                    self.commit(group, topic, queue_id, end, now_ms)

    def pending_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        if not self._resets:
            return None
        return self._resets.get((topic, group), {}).get(queue_id)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the reset waiting for this queue, which is then done; None without one."""
        if not self._resets:
            return None
        queues = self._resets.get((topic, group))
        if queues is None:
            return None
        offset = queues.pop(queue_id, None)
        self._is_dirty = True
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

    def body(self) -> bytes:
        """The answer of GET_ALL_CONSUMER_OFFSET (43), as Java writes it: consoles request it every few seconds."""
        # The text of a dictionary of numbers is their JSON in Java's dialect, made in C.
        table = (
            b"%b:%b" % (orjson.dumps(f"{topic}@{group}"), str(queues).replace(" ", "").encode())
            for (topic, group), queues in self.offsets.items()
        )
        return b'{"dataVersion":%b,"offsetTable":{%b}}' % (self.data_version.to_body(), b",".join(table))

    def save(self) -> None:
        """Have what changed written; by the table writer, in its thread."""
        if self._is_dirty:
            self._is_dirty = False
            for file in self.files:
                file.changed()

    def _document(self) -> Iterator[bytes]:
        return self._pieces(self.offsets, {})

    def _light_document(self) -> Iterator[bytes]:
        ordinary: OffsetTable = {}
        numbers = {}
        for (topic, group), queues in self.offsets.items():
            if not is_light(group):
                ordinary[topic, group] = queues
            elif LIGHT_QUEUE_ID in queues:
                numbers[f"{topic}@{group}"] = queues[LIGHT_QUEUE_ID]
        return self._pieces(ordinary, numbers)

    def _pieces(self, ordinary: OffsetTable, numbers: dict[str, int]) -> Iterator[bytes]:
        """Strict JSON in RocketMQ's shape; pending resets are ours, and left out when empty."""
        version = self.data_version
        head = {
            "counter": version.counter,
            "stateVersion": version.state_version,
            "timestamp": version.timestamp,
        }
        offsets, resets = snapshot(ordinary), snapshot(self._resets)

        def pieces() -> Iterator[bytes]:
            yield b'{"dataVersion":%b,' % orjson.dumps(head)
            if numbers:
                yield b'"%b":%b,' % (LIGHT_OFFSETS.encode(), orjson.dumps(numbers))
            yield b'"offsetTable":{'
            yield from entries(offsets)
            if resets:
                yield b'},"%b":{' % RESETS.encode()
                yield from entries(resets)
            yield b"}}\n"

        return pieces()


def snapshot(table: OffsetTable) -> list[tuple[Key, dict[int, int]]]:
    return [(key, dict(queues)) for key, queues in table.items()]


def entries(table: list[tuple[Key, dict[int, int]]]) -> Iterator[bytes]:
    """`"topic@group":{"0":5}`, one after the other. Runs in a thread."""
    separator = b""
    for (topic, group), queues in sorted(table):
        offsets = orjson.dumps(queues, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS)
        yield b"%b%b:%b" % (separator, orjson.dumps(f"{topic}@{group}"), offsets)
        separator = b","


def younger(path: Path, light_path: Path) -> Path:
    """Return the file that was written last."""
    if not light_path.exists():
        return path
    if not path.exists():
        return light_path
    return max(path, light_path, key=lambda each: each.stat().st_mtime_ns)


def parse(content: bytes) -> tuple[ConsumerOffsetWrapper, OffsetTable]:
    """Return what the file holds: offsets, and resets that wait. Raises BodyError or ValueError."""
    offsets = ConsumerOffsetWrapper.from_body(content)
    if not any(f'"{name}"'.encode() in content for name in (RESETS, LIGHT_OFFSETS)):
        return offsets, {}
    tables = fastjson.loads(content)
    light = {key: {LIGHT_QUEUE_ID: offset} for key, offset in (tables.get(LIGHT_OFFSETS) or {}).items()}
    offsets.offset_table.update(ConsumerOffsetWrapper.from_value({"offsetTable": light}).offset_table)
    return offsets, ConsumerOffsetWrapper.from_value({"offsetTable": tables.get(RESETS)}).offset_table
