"""The walk over the records of a log file when a store is opened.

Hot path of recovery: a start after kill -9 looks at every record since the last flush of the queues, maybe millions.
`read_record` with its named result costs 2.6 µs per record in recovery, `walk_records` 1.1 µs. It only reads V1
records with IPv4 hosts and stops, without judging, at anything else; `read_record` then decides what that is. The
tests hold both against each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from brokerd.remoting.message.record import RECORD_BYTES_MIN
from brokerd.store.errors import TornRecord
from brokerd.store.files.mapped_file import MappedFile
from brokerd.store.log.record import (
    BORN_HOST_V6,
    HEADER_BYTES_MIN,
    HEADER_V4,
    MAGIC_V1,
    SHORT,
    STORE_HOST_V6,
    StoredRecord,
    read_record,
)

# (position behind it, topic, queue id, queue offset, sys flag, store timestamp ms, position of its properties)
WalkedRecord = tuple[int, bytes, int, int, int, int, int]
WALKED_END: Final = 0
HOST_V6 = BORN_HOST_V6 | STORE_HOST_V6


def walk_records(mapped_file: MappedFile, position: int, *, check_crc: bool) -> Iterator[WalkedRecord]:
    """Ordinary, whole records one after the other from `position` on, until the first that is not."""
    mapped, view, base = mapped_file.map, mapped_file.view, mapped_file.start_offset
    unpack, unpack_short = HEADER_V4.unpack_from, SHORT.unpack_from
    last_position = mapped_file.size_bytes - RECORD_BYTES_MIN
    while position <= last_position:
        (
            size,
            magic,
            crc,
            queue_id,
            _,
            queue_offset,
            own_offset,
            sys_flag,
            _,
            _,
            stored_ms,
            _,
            _,
            _,
            body_length,
        ) = unpack(view, position)
        if magic != MAGIC_V1 or own_offset != base + position or sys_flag & HOST_V6:
            return
        end = position + size
        body_start = position + HEADER_BYTES_MIN
        body_end = body_start + body_length
        if not body_start <= body_end <= end - 3 or end > mapped_file.size_bytes:
            return
        topic_end = body_end + 1 + mapped[body_end]
        properties_start = topic_end + 2
        if properties_start > end or properties_start + unpack_short(view, topic_end)[0] != end:
            return
        if mapped[end - 1] == 0 and properties_start < end:
            # Properties with a zero at the end may be a lost page.
            return
        if check_crc and crc32(view[body_start:body_end]) & 0x7FFFFFFF != crc:
            return
        yield (
            end,
            mapped[body_end + 1 : topic_end],
            queue_id,
            queue_offset,
            sys_flag,
            stored_ms,
            properties_start,
        )
        position = end


def walk_file(
    mapped_file: MappedFile, start_offset: int, end_offset: int, *, check_crc: bool, durable_offset: int
) -> Iterator[WalkedRecord]:
    """Yield all records from commit log offset `start_offset` to the end of the file, or to `end_offset`.

    Raises TornRecord where a record is not whole. Properties have no CRC: when those of a record that ends behind
    `durable_offset` end in zeros and no record follows, their page was lost.
    """
    view, base = mapped_file.view, mapped_file.start_offset
    position, end_position = start_offset - base, end_offset - base
    while position < end_position:
        for walked in walk_records(mapped_file, position, check_crc=check_crc):
            position = walked[WALKED_END]
            yield walked
            if position >= end_position:
                return
        record = read_record(view, position, base + position, check_crc=check_crc)
        if record is None:
            return
        following = position + record.size_bytes
        if record.properties.endswith(b"\0") and base + following > durable_offset:
            check_lost_page(view, following, record)
        position = following
        yield (
            position,
            record.topic.encode(),
            record.queue_id,
            record.queue_offset,
            record.sys_flag,
            record.store_timestamp_ms,
            position - len(record.properties),
        )


def check_lost_page(view: memoryview, following: int, record: StoredRecord) -> None:
    """Raise TornRecord when no record starts after `record`, at position `following`."""
    try:
        read_record(view, following, record.commit_log_offset + record.size_bytes)
    except TornRecord:
        raise TornRecord(record.commit_log_offset, "its properties end in zeros") from None
