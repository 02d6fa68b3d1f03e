"""A message of `send_async` on its way, without a task: that costs as much as all the rest of a send."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Protocol

import msgspec

from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import RemotingError
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.queue import MessageQueue
from consumers.errors import RemotingTimeout
from consumers.producer.in_flight import InFlight
from consumers.producer.send_result import SendResult
from consumers.producer.send_template import SendTemplate


class Attempts(Protocol):
    """What an AsyncSend needs of the sender."""

    def command_of(self, send: AsyncSend) -> RemotingCommand:
        """Return the request of the first attempt."""

    def read_answer(self, send: AsyncSend, response: RemotingCommand) -> SendResult:
        """Raise MQBrokerError where the message is not stored, RemotingError for what is no answer to a send."""

    def go_on(self, send: AsyncSend) -> Coroutine[object, object, SendResult]:
        """Do what there is to do after a first attempt that did not simply succeed, perhaps further ones."""


class AsyncSend(msgspec.Struct, eq=False):
    """The first attempt; the connection gives it its answer as it gives one to a future.

    `result` is the application's: it may cancel it, and what is sent stays sent.
    """

    message: Message
    body: bytes  # as sent, that is, compressed
    sys_flag: int
    template: SendTemplate
    addr: str
    began_ms: int
    deadline_ms: int
    attempts: Attempts
    room: InFlight
    size_bytes: int  # of the room that it has taken; the application may change the message
    result: asyncio.Future[SendResult]
    answer: RemotingCommand | Exception | None = None

    @property
    def queue(self) -> MessageQueue:
        return self.template.queue

    def frame(self, opaque: int) -> bytes:
        """Return what `command` encodes to. Caller: the connection, once."""
        return self.template.encode(self.message, self.body, self.sys_flag, self.began_ms, opaque)

    def command(self) -> RemotingCommand:
        """Return the request without its opaque. Caller: the connection, where requests are signed."""
        return self.attempts.command_of(self)

    def done(self) -> bool:
        return self.answer is not None

    def set_result(self, response: RemotingCommand) -> None:
        """Caller: the connection."""
        self.answer = response
        if response.code != ResponseCode.SUCCESS:
            self._go_on()
            return
        try:
            result = self.attempts.read_answer(self, response)
        except RemotingError as error:
            self._end(error)
        else:
            self._end(result)

    def set_exception(self, error: Exception) -> None:
        """Caller: the connection, when it ends or at the deadline (TimeoutError)."""
        if isinstance(error, TimeoutError):
            error = RemotingTimeout(self.addr, RequestCode.SEND_MESSAGE_V2, self.deadline_ms - self.began_ms)
        self.answer = error
        self._go_on()

    def first_result(self) -> SendResult:
        """Return what became of the first attempt, or raise it."""
        assert self.answer is not None
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.attempts.read_answer(self, self.answer)

    def _go_on(self) -> None:
        if self.result.done():
            self.room.leave(self.size_bytes)
            return
        task = asyncio.get_running_loop().create_task(self.attempts.go_on(self))
        self.result.add_done_callback(lambda _: task.cancel())
        task.add_done_callback(self._end_by_task)

    def _end_by_task(self, task: asyncio.Task[SendResult]) -> None:
        if task.cancelled():
            self.result.cancel()
            self.room.leave(self.size_bytes)
        else:
            self._end(task.exception() or task.result())

    def _end(self, outcome: SendResult | BaseException) -> None:
        self.room.leave(self.size_bytes)
        if self.result.done():
            return
        if isinstance(outcome, SendResult):
            self.result.set_result(outcome)
        else:
            self.result.set_exception(outcome)
