"""Connections to a PostgreSQL that ends and returns; what comes back, what is refused, and what is closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from console.postgresql.pool import IDLE_S_MAX, Connection, ConnectionsInUse, Pool
from tests.support.postgres_server import PostgresServer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    running = PostgresServer()
    yield running
    running.remove()


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(server: PostgresServer, clock: Clock) -> Iterator[Pool]:
    made = Pool(
        lambda: psycopg.connect(server.url("postgres"), autocommit=True), most=2, wait_s=0.2, clock=clock
    )
    yield made
    made.close()


def backend(connection: Connection) -> int:
    return connection.info.backend_pid


def test_it_gives_the_connection_used_last(pool: Pool) -> None:
    first, second = pool.getconn(), pool.getconn()
    assert backend(first) != backend(second)
    pool.putconn(first)
    pool.putconn(second)
    assert pool.getconn() is second


def test_it_says_how_many_are_in_use_and_serves_the_next(pool: Pool) -> None:
    first, second = pool.getconn(), pool.getconn()
    with pytest.raises(
        ConnectionsInUse, match=r"all 2 connections .* in use for 0\.2 s \(DATABASE_POOL_MAX\)"
    ):
        pool.getconn()
    pool.putconn(first)
    assert pool.getconn() is first
    pool.putconn(second)


def test_a_waiting_thread_gets_what_comes_back(server: PostgresServer) -> None:
    pool = Pool(lambda: psycopg.connect(server.url("postgres"), autocommit=True), most=1, wait_s=30)
    taken, got = pool.getconn(), []
    waiter = threading.Thread(target=lambda: got.append(pool.getconn()))
    waiter.start()
    pool.putconn(taken)
    waiter.join(30)
    assert got == [taken]
    pool.putconn(taken)
    pool.close()


def test_an_open_transaction_is_rolled_back(pool: Pool) -> None:
    connection = pool.getconn()
    connection.execute("CREATE TABLE left_over (number int)")
    connection.autocommit = False
    connection.execute("INSERT INTO left_over VALUES (1)")
    pool.putconn(connection)
    again = pool.getconn()
    assert again is connection and again.autocommit
    assert again.execute("SELECT count(*) FROM left_over").fetchone() == (0,)
    again.execute("DROP TABLE left_over")
    pool.putconn(again)


def test_it_fails_without_a_server_and_works_with_it(pool: Pool, server: PostgresServer) -> None:
    """Also what was idle, and what was in use, when it ended."""
    idle, used = pool.getconn(), pool.getconn()
    pool.putconn(idle)
    server.stop()
    try:
        with pytest.raises(psycopg.OperationalError):
            used.execute("SELECT 1")
        pool.putconn(used)
        # psycopg's own pool would say only that it waited
        with pytest.raises(psycopg.OperationalError, match="Connection refused"):
            pool.getconn()
    finally:
        server.start()
    first, second = pool.getconn(), pool.getconn()
    assert first.execute("SELECT 1").fetchone() == second.execute("SELECT 1").fetchone() == (1,)
    assert {first, second}.isdisjoint({idle, used})
    pool.putconn(first)
    pool.putconn(second)


def test_what_is_idle_for_long_is_closed(pool: Pool, clock: Clock) -> None:
    first, second = pool.getconn(), pool.getconn()
    pool.putconn(first)
    clock.now_s += IDLE_S_MAX + 1
    pool.putconn(second)
    assert first.closed and not second.closed


def test_a_closed_pool_keeps_nothing(pool: Pool) -> None:
    first, second = pool.getconn(), pool.getconn()
    pool.putconn(first)
    pool.close()
    pool.putconn(second)
    assert first.closed and second.closed
