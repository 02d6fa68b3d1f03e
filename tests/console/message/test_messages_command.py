"""`manage.py messages`."""

from __future__ import annotations

import json
import threading
import time
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests.console.operation.live_cluster import LiveCluster

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def call(*arguments: str) -> str:
    out = StringIO()
    call_command("messages", *arguments, stdout=out)
    return out.getvalue()


def test_it_finds_gets_and_follows(live: LiveCluster) -> None:
    live.create_topic("orders", queues=1)
    live.send("orders", 0, [b"one", b"two", b"three"], KEYS="k")
    lines = call("find", "orders", "--limit", "2").splitlines()
    assert [line.split()[-1] for line in lines] == ["three", "two"]
    assert "broker-a · 0 @ 2" in lines[0]
    row = json.loads(call("find", "orders", "--key", "k", "--limit", "1", "--format", "json"))
    assert (row["queue_offset"], row["body_text"]) == (2, "three")
    assert "three" in call("get", row["message_id"], "orders")

    def later() -> None:
        time.sleep(0.5)
        live.send("orders", 0, [b"four", b"five"])

    sender = threading.Thread(target=later)
    sender.start()
    assert [line.split()[-1] for line in call("tail", "orders", "--count", "2").splitlines()] == [
        "four",
        "five",
    ]
    sender.join()


def test_it_refuses_clearly(live: LiveCluster) -> None:
    with pytest.raises(CommandError, match="There is no topic nowhere"):
        call("find", "nowhere")
    live.create_topic("orders", queues=1)
    with pytest.raises(CommandError, match="No broker has a message x of orders"):
        call("get", "x", "orders")
