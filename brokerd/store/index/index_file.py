"""One index file: a hash table on disk from message key to commit log offsets.

    0           8           16          24          32       36       40          40+4·slots
    +-----------+-----------+-----------+-----------+--------+--------+---- … ----+----- … -----+
    | begin     | end       | begin     | end       | slots  | next   | slots     | entries     |
    | timestamp | timestamp | offset    | offset    | used   | entry  | 4 bytes   | 20 bytes    |
    +-----------+-----------+-----------+-----------+--------+--------+---- … ----+----- … -----+

    entry   0         4                     12            16               20
            +---------+---------------------+-------------+----------------+
            | key     | commit log offset   | seconds     | previous entry |
            | hash    |                     | after begin | of the slot    |
            +---------+---------------------+-------------+----------------+

A slot holds the number of its newest entry; entries count from 1 (0 = none). Only hashes are stored: a caller
must compare topic and key of what it finds. Source: `store/.../index/IndexFile.java`, store-format §8.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from brokerd.store.errors import LookupTooLong
from brokerd.store.files.mapped_file import MappedFile, Ready

HEADER = struct.Struct(">qqqqii")
HEADER_BYTES = HEADER.size
assert HEADER_BYTES == 40
SLOT = struct.Struct(">i")
SLOT_BYTES = SLOT.size
ENTRY = struct.Struct(">iqii")
ENTRY_BYTES = ENTRY.size
assert ENTRY_BYTES == 20
READY_ENTRIES = 3276  # 64 KiB
SECONDS_MAX = 0x7FFFFFFF


def index_file_bytes(hash_slot_num: int, index_num: int) -> int:
    return HEADER_BYTES + hash_slot_num * SLOT_BYTES + index_num * ENTRY_BYTES


def slot_hash(java_hash: int) -> int:
    """|hashCode| as Java computes it from the unsigned 32-bit hash; 0 for Integer.MIN_VALUE."""
    if java_hash < 0x80000000:
        return java_hash
    return (1 << 32) - java_hash & 0x7FFFFFFF


# (unsigned Java hash, commit log offset, store time in ms): a plain tuple, as one is made per key.
Key = tuple[int, int, int]


class IndexEntry(NamedTuple):
    """What an entry holds for checks: where the record is, and the hash of its key."""

    commit_log_offset: int
    key_hash: int


class Visits:
    """How many entries a lookup may still look at, over all files."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class IndexFile:
    """Put and find keys. The header is written by `write_header`, once per batch of puts."""

    __slots__ = (
        "_entries_start",
        "_ready_count",
        "begin_offset",
        "begin_timestamp_ms",
        "count",
        "end_offset",
        "end_timestamp_ms",
        "hash_slot_num",
        "index_num",
        "mapped_file",
        "slots_used",
    )

    def __init__(self, path: Path, hash_slot_num: int, index_num: int) -> None:
        """Raise OSError, or ValueError when the file has another size."""
        # Header and slots of a new file have room: a full disk is an error here, not a SIGBUS at a key.
        self.mapped_file = MappedFile(
            path,
            index_file_bytes(hash_slot_num, index_num),
            reserved_bytes=HEADER_BYTES + hash_slot_num * SLOT_BYTES,
        )
        self.hash_slot_num = hash_slot_num
        self.index_num = index_num
        self._entries_start = HEADER_BYTES + hash_slot_num * SLOT_BYTES
        (
            self.begin_timestamp_ms,
            self.end_timestamp_ms,
            self.begin_offset,
            self.end_offset,
            self.slots_used,
            count,
        ) = HEADER.unpack_from(self.mapped_file.map, 0)
        self.count = max(1, count)  # the number the next entry gets
        self._ready_count = 0  # entries below it have their pages ready

    def __repr__(self) -> str:
        return f"<IndexFile {self.mapped_file.path.name} {self.count - 1} of {self.index_num - 1} entries>"

    @property
    def is_full(self) -> bool:
        """Entry 0 is never used, so a file holds index_num - 1 entries."""
        return bool(self.count >= self.index_num)

    def seed(self, end_offset: int, end_timestamp_ms: int) -> None:
        """Start a new file where the previous one ended (until the first put sets it)."""
        self.begin_offset = self.end_offset = end_offset
        self.begin_timestamp_ms = self.end_timestamp_ms = end_timestamp_ms
        self.write_header()

    @property
    def room(self) -> int:
        """How many keys one `put` may have; 0 when the file is full."""
        left: int = self.index_num - self.count
        return min(left, READY_ENTRIES)

    def put(self, keys: list[Key], functions: ModuleType | None = None) -> None:
        """Add keys in the order of their records, at most `room`. Raises OSError (disk full): nothing is added.

        `functions` has the compiled twin of what this does.

        Entries come before the slots that name them, so that another thread follows whole chains at any moment.
        """
        first = count = self.count
        if first + len(keys) > self._ready_count:
            self._make_room()
        _, offset, timestamp_ms = keys[0]
        if first <= 1:
            self.begin_offset, self.begin_timestamp_ms = offset, timestamp_ms
        begin_ms, slot_num, mapped = self.begin_timestamp_ms, self.hash_slot_num, self.mapped_file.map
        if functions is not None:
            self.slots_used += functions.index_keys(
                mapped, keys, first, begin_ms, slot_num, self._entries_start
            )
            _, self.end_offset, self.end_timestamp_ms = keys[-1]
            self.count = first + len(keys)
            return
        unpack_from, pack = SLOT.unpack_from, ENTRY.pack
        newest: dict[int, int] = {}  # slot position → its newest entry among these
        entries = []
        for java_hash, offset, timestamp_ms in keys:
            key_hash = java_hash if java_hash < 0x80000000 else slot_hash(java_hash)
            slot_position = HEADER_BYTES + key_hash % slot_num * SLOT_BYTES
            previous = newest.get(slot_position)
            if previous is None:
                (previous,) = unpack_from(mapped, slot_position)
                if not 0 < previous < first:
                    if previous == 0:
                        self.slots_used += 1
                    previous = 0
            seconds = 0
            if timestamp_ms > begin_ms > 0:
                seconds = min((timestamp_ms - begin_ms) // 1000, SECONDS_MAX)
            entries.append(pack(key_hash, offset, seconds, previous))
            newest[slot_position] = count
            count += 1
        position = self._entries_start + first * ENTRY_BYTES
        mapped[position : position + len(entries) * ENTRY_BYTES] = b"".join(entries)
        self.end_offset, self.end_timestamp_ms = offset, timestamp_ms
        self.count = count
        pack_into = SLOT.pack_into
        for slot_position, number in newest.items():
            pack_into(mapped, slot_position, number)

    def _make_room(self) -> None:
        """Ready the pages of the next entries, the first time room for all slots. Raises OSError (disk full)."""
        if self._ready_count == 0:
            self.reserve_slots()
        self.mapped_file.prefault(self._entries_start + self.count * ENTRY_BYTES, READY_ENTRIES * ENTRY_BYTES)
        self._ready_count = self.count + READY_ENTRIES

    def reserve_slots(self) -> None:
        """Reserve room for header and slots, in a file that a crash may have left with holes. Raises OSError."""
        self.mapped_file.reserve_blocks(0, self._entries_start)

    def prefault_slots(self) -> None:
        """Ready the pages of all slots: keys hit them at random. Caller: any thread. Raises OSError."""
        self.mapped_file.prefault(0, self._entries_start)

    def write_header(self) -> None:
        self.mapped_file.map[:HEADER_BYTES] = HEADER.pack(
            self.begin_timestamp_ms,
            self.end_timestamp_ms,
            self.begin_offset,
            self.end_offset,
            self.slots_used,
            self.count,
        )

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        return bool(self.begin_timestamp_ms <= end_ms and self.end_timestamp_ms >= begin_ms)

    def find(
        self,
        java_hash: int,
        begin_ms: int,
        end_ms: int,
        visits: Visits | None = None,
        ready: Ready = MappedFile.ready_now,
    ) -> Iterator[int]:
        """Commit log offsets of entries with this hash and time, newest first.

        Raises LookupTooLong, and what `ready` raises.
        """
        visits = visits or Visits(sys.maxsize)
        key_hash = slot_hash(java_hash)
        mapped = self.mapped_file.map
        slot_position = HEADER_BYTES + key_hash % self.hash_slot_num * SLOT_BYTES
        ready(self.mapped_file, slot_position, SLOT_BYTES)
        number: int = SLOT.unpack_from(mapped, slot_position)[0]
        # An entry above `count` was written by a process that died before the header; a chain only goes down.
        limit = self.count
        while 0 < number < limit:
            limit = number
            visits.left -= 1
            if visits.left < 0:
                raise LookupTooLong("a key with very many messages")
            position = self._entries_start + number * ENTRY_BYTES
            ready(self.mapped_file, position, ENTRY_BYTES)
            entry_hash, commit_log_offset, seconds, number = ENTRY.unpack_from(mapped, position)
            if seconds < 0:
                return
            timestamp_ms = self.begin_timestamp_ms + seconds * 1000
            if entry_hash == key_hash and begin_ms <= timestamp_ms <= end_ms:
                yield commit_log_offset
            if timestamp_ms < begin_ms:
                return

    @property
    def is_plausible(self) -> bool:
        """False for a header that cannot be one: reading by it would leave the file."""
        return bool(self.count <= self.index_num)

    @property
    def number(self) -> int:
        """The name, which is a time of 17 digits."""
        return int(self.mapped_file.path.name)

    def written_count(self) -> int:
        """Return the number of the next entry as of the end of a batch: records before it have all their entries.

        Caller: any thread; the header is one copy under the interpreter's lock.
        """
        count: int = HEADER.unpack_from(self.mapped_file.map, 0)[5]
        return max(1, count)

    def entry_offset(self, number: int) -> int:
        """Return the commit log offset of an entry."""
        offset: int = ENTRY.unpack_from(self.mapped_file.map, self._entries_start + number * ENTRY_BYTES)[1]
        return offset

    def entries(self) -> Iterator[IndexEntry]:
        """Yield every entry, in order."""
        written = self.mapped_file.view[
            self._entries_start + ENTRY_BYTES : self._entries_start + self.count * ENTRY_BYTES
        ]
        for key_hash, commit_log_offset, _, _ in ENTRY.iter_unpack(written):
            yield IndexEntry(commit_log_offset, key_hash)

    def fault(self) -> str:
        """Return why entries could not be found through their slots; "" when all can. Reads the whole file."""
        if not self.is_plausible:
            return f"its header counts {self.count} entries, at most {self.index_num}"
        mapped = self.mapped_file.map
        newest: dict[int, int] = {}
        written = self.mapped_file.view[
            self._entries_start + ENTRY_BYTES : self._entries_start + self.count * ENTRY_BYTES
        ]
        for number, (key_hash, _, seconds, previous) in enumerate(ENTRY.iter_unpack(written), 1):
            slot = key_hash % self.hash_slot_num
            if previous != newest.get(slot, 0) or seconds < 0:
                return f"entry {number} does not continue the chain of its slot"
            newest[slot] = number
        for slot in range(self.hash_slot_num):
            if SLOT.unpack_from(mapped, HEADER_BYTES + slot * SLOT_BYTES)[0] != newest.get(slot, 0):
                return f"slot {slot} does not name its newest entry"
        return ""

    def restore(self, count: int) -> None:
        """Go back to the entries below `count`, which are whole; slots may point behind them or be torn there.

        A slot that names a later entry gets its newest one below `count`: they are found by reading all entries
        once, 0.1 µs each.
        """
        mapped = self.mapped_file.map
        slots = array("i", mapped[HEADER_BYTES : self._entries_start])
        if sys.byteorder == "little":
            slots.byteswap()
        newest = {slot: 0 for slot, number in enumerate(slots) if not 0 <= number < count}
        if newest:
            entries = memoryview(mapped)[
                self._entries_start + ENTRY_BYTES : self._entries_start + count * ENTRY_BYTES
            ]
            for number, (key_hash, _, _, _) in enumerate(ENTRY.iter_unpack(entries), 1):
                slot = key_hash % self.hash_slot_num
                if slot in newest:
                    newest[slot] = number
            for slot, number in newest.items():
                slots[slot] = number
                SLOT.pack_into(mapped, HEADER_BYTES + slot * SLOT_BYTES, number)
        self.slots_used = len(slots) - slots.count(0)
        self.count = count
        self.end_offset = self.entry_offset(count - 1)
        self.write_header()

    def flush(self) -> None:
        """Make what was put durable. Caller: any thread. Raises OSError."""
        self.mapped_file.flush()
