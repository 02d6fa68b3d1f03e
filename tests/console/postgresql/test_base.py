"""Django on a PostgreSQL that ends and returns: each thread's connection comes from one pool."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.db import OperationalError
from django.db.utils import ConnectionHandler

from console import settings
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.django_db  # else pytest-django refuses every connection


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    running = PostgresServer("drill")
    yield running
    running.remove()


@pytest.fixture
def handler(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectionHandler]:
    """Databases as the settings make them of an address."""
    monkeypatch.setenv("DRILL_URL", server.url("drill"))
    found = settings.database("DRILL_URL", "unused", synchronous="FULL")
    handler = ConnectionHandler({"default": found, "drill": found})
    yield handler
    handler["drill"].close()
    handler["drill"].close_pool()


def one(handler: ConnectionHandler) -> int:
    with handler["drill"].cursor() as cursor:
        cursor.execute("SELECT 1")
        return int(cursor.fetchone()[0])


def test_threads_share_the_connections(handler: ConnectionHandler) -> None:
    assert one(handler) == 1
    backend = handler["drill"].connection.info.backend_pid
    handler["drill"].close()
    seen: list[int] = []

    def look() -> None:
        one(handler)
        seen.append(handler["drill"].connection.info.backend_pid)
        handler["drill"].close()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(30)
    assert seen == [backend]


def test_times_are_utc(handler: ConnectionHandler) -> None:
    with handler["drill"].cursor() as cursor:
        cursor.execute("SHOW timezone")
        assert cursor.fetchone() == ("UTC",)


def test_a_server_that_is_away_is_named_and_used_again(
    handler: ConnectionHandler, server: PostgresServer
) -> None:
    assert one(handler) == 1
    server.stop()
    try:
        for reason in ("terminat|closed", "Connection refused", "Connection refused"):
            with pytest.raises(OperationalError, match=reason):
                one(handler)
            handler["drill"].close()  # as at the end of a request
    finally:
        server.start()
    assert one(handler) == 1
