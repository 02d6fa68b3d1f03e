"""Count the writes of a process and run into a fault at one of them: commits, single statements, changes of brokers."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from console.brokers.mqadmin import MQAdmin, RemotingTimeout

WORDS = "made by the fault harness"
CHANGES = ("INSERT", "UPDATE", "DELETE")


@dataclasses.dataclass(frozen=True, slots=True)
class Mode:
    """What happens at the write: ``when`` before or after it."""

    what: str
    when: str

    @property
    def name(self) -> str:
        return f"{self.what} {self.when}"

    @property
    def freezes(self) -> bool:
        return self.what == "frozen"


MODES = tuple(Mode(what, when) for what in ("killed", "failed", "frozen") for when in ("before", "after"))


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """At the ``number``-th write of the story; 0: never."""

    number: int
    mode: Mode


class Writes:
    """The writes of all processes of a story, counted in a file; the fault happens once."""

    def __init__(self, fault: Fault, counter: Path) -> None:
        self.fault = fault
        self.file = os.open(counter, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.locks = locks_note(counter)
        self.lock = threading.Lock()

    def before(self, error: Exception, *, locks: bool = False) -> bool:
        """Count a write; returns whether its fault happens after it. ``locks``: the database waits for it."""
        with self.lock:
            os.write(self.file, b".")
            is_it = os.fstat(self.file).st_size == self.fault.number
        if is_it and self.fault.mode.when == "before":
            if locks:
                self.locks.touch()
            self.happen(error)
        return is_it and self.fault.mode.when == "after"

    def happen(self, error: Exception) -> None:
        if self.fault.mode.what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault.mode.what == "frozen":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            raise error


def locks_note(counter: Path) -> Path:
    """Exists when the frozen process holds the database: others can only wait for it."""
    return counter.with_suffix(".locks")


def install(fault: Fault, counter: Path) -> None:
    """Watch this process's writes from now on."""
    writes = Writes(fault, counter)
    commit, execute = BaseDatabaseWrapper._commit, CursorWrapper.execute

    def counted_commit(self: BaseDatabaseWrapper) -> Any:
        error = OperationalError(WORDS)
        follows = writes.before(error, locks=True)
        result = commit(self)
        if follows:
            writes.happen(error)
        return result

    def counted_execute(self: CursorWrapper, sql: str, params: Any = None) -> Any:
        if self.db.in_atomic_block or not sql.lstrip().startswith(CHANGES):
            return execute(self, sql, params)
        error = OperationalError(WORDS)
        follows = writes.before(error)
        result = execute(self, sql, params)
        if follows:
            writes.happen(error)
        return result

    BaseDatabaseWrapper._commit = counted_commit  # type: ignore[method-assign]
    CursorWrapper.execute = counted_execute  # type: ignore[method-assign]
    for request in ("send_many", "update_consumer_offset", "reset_offset"):
        setattr(MQAdmin, request, _counted_request(writes, getattr(MQAdmin, request)))


def _counted_request(
    writes: Writes, original: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    """A request that changes the broker: the last thing before its frames are written."""

    async def counted(self: MQAdmin, addr: str, *arguments: Any, **options: Any) -> Any:
        error = RemotingTimeout(addr, 0, 0)
        follows = writes.before(error)
        result = await original(self, addr, *arguments, **options)
        if follows:
            writes.happen(error)
        return result

    return counted
