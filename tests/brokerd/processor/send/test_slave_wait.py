"""Answers of a SYNC_MASTER: released in the order of the log, by what a slave acknowledges or by time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from brokerd.processor.send.slave_wait import SlaveWait, SlaveWriter, with_code
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.connection import RemotingConnection


class OneSlave:
    """A slave that acknowledges what the test says."""

    def __init__(self) -> None:
        self.on_ack: Callable[[], None] = lambda: None
        self.ack, self.is_near, self.wakes = 0, True, 0

    def acknowledged(self) -> int:
        return self.ack

    def has_near(self, end: int) -> bool:
        return self.is_near

    def wake(self) -> None:
        self.wakes += 1

    def acknowledge(self, offset: int) -> None:
        self.ack = offset
        self.on_ack()


class Written:
    """Collects answers as (opaque, code)."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, int]] = []

    def write(self, data: bytes) -> None:
        self.answers += [(each.opaque, each.code) for each in RemotingConnection().receive_data(data)]


def sent(opaque: int) -> bytes:
    return RemotingCommand(0, opaque=opaque, flag=1, ext_fields={"msgId": "A", "queueOffset": "5"}).encode()


def other(opaque: int, code: int = 0) -> bytes:
    return RemotingCommand(code, opaque=opaque, flag=1).encode()


async def test_it_releases_in_the_order_of_the_log() -> None:
    slave, written = OneSlave(), Written()
    wait = SlaveWait(slave, 60_000)
    for opaque, end in ((1, 100), (2, 200), (3, 300)):
        SlaveWriter(wait, written, end).write(sent(opaque))
    assert slave.wakes == 3
    slave.acknowledge(99)
    assert written.answers == []
    slave.acknowledge(200)
    assert written.answers == [(1, 0), (2, 0)]
    assert wait.is_holding
    slave.acknowledge(300)
    assert written.answers[2:] == [(3, 0)]
    assert not wait.is_holding


async def test_it_answers_what_waited_too_long_without_an_acknowledgement() -> None:
    slave, written = OneSlave(), Written()
    wait = SlaveWait(slave, 30)
    wait.hold(written, sent(1) + other(2), 100)
    async with asyncio.timeout(20):
        while wait.is_holding:
            await asyncio.sleep(0.005)
    assert written.answers == [(1, 12), (2, 0)]
    slave.acknowledge(100)
    assert len(written.answers) == 2


async def test_it_answers_at_once_without_a_slave_that_is_near() -> None:
    slave, written = OneSlave(), Written()
    slave.is_near = False
    SlaveWait(slave, 60_000).hold(written, sent(1) + other(2, 17), 100)
    assert written.answers == [(1, 11), (2, 17)]


def test_an_answer_keeps_everything_but_its_code() -> None:
    (answer,) = RemotingConnection().receive_data(with_code(sent(7), ResponseCode.FLUSH_SLAVE_TIMEOUT))
    assert (answer.code, answer.opaque, answer.ext_fields) == (12, 7, {"msgId": "A", "queueOffset": "5"})
