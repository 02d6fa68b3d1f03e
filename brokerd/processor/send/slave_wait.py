"""SYNC_MASTER: answers to sends wait until a slave has what they confirm.

Source: store-format §18, 4.x (`CommitLog.submitReplicaRequest`, `GroupTransferService.java`). The message is stored in
any case: without a slave that is near the answer is SLAVE_NOT_AVAILABLE (11) at once, behind syncFlushTimeout it is
FLUSH_SLAVE_TIMEOUT (12); both with everything that a success has.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from brokerd.clock import steady_ms
from brokerd.processor.broker import AnswerWriter, Slaves
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import LENGTH, decode_frame


class WaitingAnswers(NamedTuple):
    writer: AnswerWriter
    data: bytes
    end: int  # of the log when they were made
    deadline_ms: int


class SlaveWait:
    """Held answers, in the order of the log. Single-threaded: the event loop."""

    def __init__(self, slaves: Slaves, timeout_ms: int) -> None:
        self._slaves = slaves
        self._timeout_ms = timeout_ms
        self._held: deque[WaitingAnswers] = deque()
        self._timer: asyncio.TimerHandle | None = None
        slaves.on_ack = self._release

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def hold(self, writer: AnswerWriter, data: bytes, end: int) -> None:
        """Write these frames once a slave has the log up to `end`, or their time is over."""
        if not self._slaves.has_near(end):
            writer.write(with_code(data, ResponseCode.SLAVE_NOT_AVAILABLE))
            return
        self._held.append(WaitingAnswers(writer, data, end, steady_ms() + self._timeout_ms))
        self._slaves.wake()
        self._release()

    def _release(self) -> None:
        """Write what a slave has acknowledged, and what has waited too long."""
        acknowledged, now_ms = self._slaves.acknowledged(), steady_ms()
        while self._held:
            first = self._held[0]
            if first.end <= acknowledged:
                first.writer.write(first.data)
            elif first.deadline_ms <= now_ms:
                first.writer.write(with_code(first.data, ResponseCode.FLUSH_SLAVE_TIMEOUT))
            else:
                break
            self._held.popleft()
        self._set_timer(now_ms)

    def _set_timer(self, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            wait_ms = max(self._held[0].deadline_ms - now_ms, 1)
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._release)


@dataclass(frozen=True, slots=True)
class SlaveWriter:
    """Answers written here wait for a slave to have the log up to `end`."""

    wait: SlaveWait
    writer: AnswerWriter
    end: int

    def write(self, data: bytes) -> None:
        self.wait.hold(self.writer, data, self.end)


def with_code(data: bytes, code: ResponseCode) -> bytes:
    """Return frames of answers in which those that confirm a send have `code`."""
    frames, position = [], 0
    while position < len(data):
        end = position + LENGTH.size + LENGTH.unpack_from(data, position)[0]
        answer = decode_frame(data[position + LENGTH.size : end])
        if answer.code == ResponseCode.SUCCESS and "msgId" in answer.ext_fields:
            answer.code = code
            frames.append(answer.encode())
        else:
            frames.append(data[position:end])
        position = end
    return b"".join(frames)
