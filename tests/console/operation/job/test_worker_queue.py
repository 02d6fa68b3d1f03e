"""A task for the workers: taken by Redis, or left to recovery where Redis refuses or hangs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import redis
from celery import current_app

from console.operation.job import worker_queue

TASK = worker_queue.RUN_JOB_TASK
# Workers wait fifteen seconds for Redis; a button must not.
A_BUTTON_S = 12


def send_to(url: str, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What `send` returned; empty while it still waits."""
    monkeypatch.setattr(current_app.conf, "broker_url", url)
    taken: list[bool] = []
    sending = threading.Thread(target=lambda: taken.append(worker_queue.send(TASK, "job-1")), daemon=True)
    sending.start()
    sending.join(A_BUTTON_S)
    return taken


@pytest.fixture
def hanging() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


def test_redis_has_it(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert send_to(redis_url.replace("unix://", "redis+socket://"), monkeypatch) == [True]
    with redis.Redis.from_url(redis_url) as client:
        assert any(b"job-1" in message for message in client.lrange("operate", 0, -1))


def test_a_redis_that_hangs_holds_no_button(hanging: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert send_to(hanging, monkeypatch) == [False]


def test_a_redis_that_is_away_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert send_to("redis://127.0.0.1:1/0", monkeypatch) == [False]
