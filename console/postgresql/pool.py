"""Connections to PostgreSQL that the threads of a process share: opened by the caller that needs one, a limited number.

psycopg's own pool connects in threads of its own, with pauses that double up to five minutes. While the server is away
every page would wait for its whole limit, report only that it waited, and go on failing for minutes after the server is
back. Here a caller fails at once with the reason of the server or the network, and works again as soon as they do.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

Connection: TypeAlias = psycopg.Connection[Any]

IDLE_S_MAX = 600.0  # then it is closed: a quiet night frees the server's memory


class ConnectionsInUse(psycopg.OperationalError):
    """All connections were in use for as long as a caller may wait."""


@dataclass(frozen=True, slots=True)
class Idle:
    connection: Connection
    since_s: float


class Pool:
    """Has the interface that Django expects of `psycopg_pool.ConnectionPool`. Safe for threads."""

    close_returns = False  # psycopg asks its pool: close() closes

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        most: int,
        wait_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._most, self._wait_s, self._clock = most, wait_s, clock
        self._places = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._idle: deque[Idle] = deque()  # the one used last is on the right
        self._is_closed = False

    def open(self) -> None:
        """Do nothing: the first caller connects."""

    def getconn(self) -> Connection:
        """Return a connection that works; the caller returns it with `putconn`. Raises OperationalError."""
        if not self._places.acquire(timeout=self._wait_s):
            raise ConnectionsInUse(
                f"all {self._most} connections of this process to PostgreSQL were in use for {self._wait_s:g} s "
                "(DATABASE_POOL_MAX)"
            )
        try:
            connection = self._idle_one() or self._connect()
        except BaseException:
            self._places.release()
            raise
        vars(connection)["_pool"] = self  # Django gives it back there
        return connection

    def putconn(self, connection: Connection) -> None:
        """Take a connection back; an open transaction is rolled back."""
        connection._pool = None
        now_s = self._clock()
        try:
            is_kept = _at_rest(connection)
            with self._lock:
                is_kept = is_kept and not self._is_closed
                if is_kept:
                    self._idle.append(Idle(connection, now_s))
                old = self._taken_idle(lambda idle: now_s - idle.since_s > IDLE_S_MAX)
            for ended in old if is_kept else [*old, connection]:
                ended.close()
        finally:
            self._places.release()

    def close(self) -> None:
        """Close what is idle, and from now on what comes back."""
        with self._lock:
            self._is_closed = True
            idle = self._taken_idle(lambda _: True)
        for connection in idle:
            connection.close()

    def _taken_idle(self, is_wanted: Callable[[Idle], bool]) -> list[Connection]:
        """Take those from the left that are wanted. Holds the lock: the caller."""
        taken = []
        while self._idle and is_wanted(self._idle[0]):
            taken.append(self._idle.popleft().connection)
        return taken

    def _idle_one(self) -> Connection | None:
        """Return the idle connection used last that still works; close those that ended meanwhile."""
        while True:
            with self._lock:
                connection = self._idle.pop().connection if self._idle else None
            if connection is None:
                return None
            try:
                connection.execute("")
            except psycopg.Error:
                connection.close()
            else:
                return connection


def _at_rest(connection: Connection) -> bool:
    """Return whether a connection is, or could be made, as after connecting."""
    try:
        if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            connection.rollback()
        if connection.info.transaction_status != TransactionStatus.IDLE:
            return False
        connection.autocommit = True
    except psycopg.Error:
        return False
    return True
