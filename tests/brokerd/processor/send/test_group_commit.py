"""SYNC_FLUSH: one flush for all answers that came meanwhile, always in a thread; a failed one answers the reason."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from brokerd.processor.send.group_commit import GroupCommit
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import RESPONSE_FLAG, RemotingCommand, decode_frame
from brokerd.store.errors import FlushFailed
from tests.brokerd.fakes import MemoryChannel
from tests.consumers.fake_broker import wait_until


class Disk:
    """Counts flushes; each waits for `is_fast`, and fails while `error` is set."""

    def __init__(self) -> None:
        self.is_fast = threading.Event()
        self.is_fast.set()
        self.threads: list[str] = []
        self.error: FlushFailed | None = None

    def flush(self) -> int:
        self.is_fast.wait()
        if self.error is not None:
            raise self.error
        self.threads.append(threading.current_thread().name)
        return 0


def commit_on(disk: Any, flushed: list[int]) -> GroupCommit:
    return GroupCommit(disk, flushed.append)


async def test_it_flushes_once_for_a_turn_and_never_in_the_loop() -> None:
    disk, channels, flushed = Disk(), [MemoryChannel() for _ in range(5)], []
    commit = commit_on(disk, flushed)
    for i, channel in enumerate(channels):
        commit.hold(channel, [b"%d" % i], 100 + i)
    assert [channel.written for channel in channels] == [[]] * 5
    await wait_until(lambda: channels[4].written != [])
    assert [channel.written for channel in channels] == [[b"0"], [b"1"], [b"2"], [b"3"], [b"4"]]
    assert disk.threads == ["group-commit_0"]
    assert flushed == [100], "since when the first of them waited"
    commit.close()


async def test_what_comes_during_a_flush_waits_for_the_next() -> None:
    disk, channel, flushed = Disk(), MemoryChannel(), []
    commit = commit_on(disk, flushed)
    disk.is_fast.clear()
    commit.hold(channel, [b"a", b"b"], 1)
    for _ in range(5):
        await asyncio.sleep(0)  # the loop turns while the thread flushes
    commit.hold(channel, [b"c"], 2)
    assert channel.written == []
    disk.is_fast.set()
    await wait_until(lambda: len(channel.written) == 2)
    assert channel.written == [b"ab", b"c"]
    assert flushed == [1, 2]
    commit.close()


async def test_what_no_client_waits_for_is_flushed_too() -> None:
    disk, flushed = Disk(), []
    commit = commit_on(disk, flushed)
    commit.commit(7)
    await wait_until(lambda: flushed == [7])
    commit.close()


async def test_a_failed_flush_answers_senders_with_the_reason() -> None:
    disk, channel, flushed = Disk(), MemoryChannel(), []
    disk.error = FlushFailed("the commit log could not be flushed")
    commit = commit_on(disk, flushed)
    sent = RemotingCommand(0, "JAVA", opaque=1, flag=RESPONSE_FLAG, ext_fields={"msgId": "A0"})
    refused = RemotingCommand(2, "JAVA", opaque=2, flag=RESPONSE_FLAG, remark="busy")
    pulled = RemotingCommand(0, "JAVA", opaque=3, flag=RESPONSE_FLAG, body=b"records")
    commit.hold(channel, [sent.encode(), refused.encode(), pulled.encode()], 1)
    await wait_until(lambda: channel.written != [])
    data, answers = channel.written[0], []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        answers.append(decode_frame(data[4:end]))
        data = data[end:]
    assert [(a.opaque, a.code, a.remark, a.body) for a in answers] == [
        (1, ResponseCode.SERVICE_NOT_AVAILABLE, "the commit log could not be flushed", b""),
        (2, ResponseCode.SYSTEM_BUSY, "busy", b""),
        (3, ResponseCode.SUCCESS, None, b"records"),
    ]
    assert flushed == []
    commit.close()


async def test_an_unexpected_error_ends_no_flushing() -> None:
    """Neither one of the flush nor one of what follows it: each is logged, and every answer goes out."""
    disk, flushed = Disk(), []

    def follow(since_ms: int) -> None:
        flushed.append(since_ms)
        if len(flushed) == 1:
            raise ZeroDivisionError

    commit, channels = GroupCommit(disk, follow), [MemoryChannel() for _ in range(3)]  # type: ignore[arg-type]
    commit.hold(channels[0], [b"stored"], 1)
    await wait_until(lambda: channels[0].written == [b"stored"])
    disk.error = OSError(5, "Input/output error")  # type: ignore[assignment]
    answer = RemotingCommand(0, "JAVA", opaque=7, flag=RESPONSE_FLAG).encode()
    commit.hold(channels[1], [answer], 2)
    await wait_until(lambda: channels[1].written != [])
    assert channels[1].sent[0].code == ResponseCode.SERVICE_NOT_AVAILABLE
    disk.error = None
    commit.hold(channels[2], [b"again"], 3)
    await wait_until(lambda: channels[2].written == [b"again"])
    commit.close()
