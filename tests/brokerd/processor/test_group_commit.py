"""SYNC_FLUSH: one flush for all answers of a turn, in the loop or, on a slow disk, in a thread."""

from __future__ import annotations

import asyncio
import time

from brokerd.processor.group_commit import GroupCommit
from tests.brokerd.fakes import MemoryChannel
from tests.consumers.fake_broker import wait_until


class Disk:
    """Counts flushes; each takes `seconds`, and fails while `error` is set."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.flushes = 0
        self.error: OSError | None = None

    def flush(self) -> int:
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self.flushes += 1
        return 0


async def test_it_flushes_once_for_a_turn() -> None:
    disk, channels, dispatched = Disk(), [MemoryChannel() for _ in range(5)], []
    commit = GroupCommit(disk, lambda *times_ms: dispatched.append(times_ms))  # type: ignore[arg-type]
    for i, channel in enumerate(channels):
        commit.hold(channel, b"%d" % i, 100 + i)
    assert [channel.written for channel in channels] == [[]] * 5
    await asyncio.sleep(0)
    assert [channel.written for channel in channels] == [[b"0"], [b"1"], [b"2"], [b"3"], [b"4"]]
    assert (disk.flushes, len(dispatched)) == (1, 1)
    assert dispatched[0][0] == 100, "since when the first of them waited"


async def test_it_flushes_in_a_thread_once_the_disk_is_slow() -> None:
    disk, channel = Disk(0.05), MemoryChannel()
    commit = GroupCommit(disk, lambda *_: None)  # type: ignore[arg-type]
    commit.hold(channel, b"a", 1)
    await asyncio.sleep(0)
    assert channel.written == [b"a"]  # the first one showed how slow it is
    commit.hold(channel, b"b", 1)
    for _ in range(5):
        await asyncio.sleep(0)  # the loop turns while the thread flushes
    assert channel.written == [b"a"]
    commit.hold(channel, b"c", 1)  # comes while a flush is under way: waits for the next
    await wait_until(lambda: disk.flushes == 3 and len(channel.written) == 3)
    assert channel.written == [b"a", b"b", b"c"]


async def test_it_confirms_nothing_that_could_not_be_flushed() -> None:
    disk, channel = Disk(), MemoryChannel()
    disk.error = OSError(5, "Input/output error")
    commit = GroupCommit(disk, lambda *_: None)  # type: ignore[arg-type]
    commit.hold(channel, b"lost", 1)
    await asyncio.sleep(0)
    disk.error = None
    commit.hold(channel, b"kept", 1)
    await asyncio.sleep(0)
    assert channel.written == [b"kept"]
