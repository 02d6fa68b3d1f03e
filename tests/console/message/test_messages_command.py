"""`manage.py messages`."""

from __future__ import annotations

import json
import threading
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command

from tests.console.operation.live_cluster import LiveCluster

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("messages of a broker"),
]


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
    assert "dGhyZWU=" in call("get", row["message_id"], "orders", "--as", "base64")
    assert [line.split()[-1] for line in call("find", "orders", "--find", "t").splitlines()] == [
        "three",
        "two",
    ]
    ended = threading.Event()

    def later() -> None:
        while not ended.wait(0.5):  # until the tail has seen enough, however late it began
            live.send("orders", 0, [b"four", b"five"])

    sender = threading.Thread(target=later)
    sender.start()
    try:
        seen = [line.split()[-1] for line in call("tail", "orders", "--count", "2").splitlines()]
    finally:
        ended.set()
        sender.join()
    assert seen == ["four", "five"]


def test_it_exports(live: LiveCluster, tmp_path: Path) -> None:
    live.create_topic("orders", queues=2)
    for queue_id in (0, 1):
        live.send("orders", queue_id, [b"%d" % number for number in range(1_500)], TAGS="x")
    path = tmp_path / "orders.parquet"
    call("export", "orders", "--file", "parquet", "--out", str(path), "--tag", "x")
    table = pq.ParquetFile(path)
    assert (table.metadata.num_rows, table.metadata.num_row_groups) == (3_000, 3)
    call("export", "orders", "--out", str(tmp_path / "some"), "--limit", "5")
    end = json.loads((tmp_path / "some").read_text().splitlines()[-1])["end"]
    assert (end["messages"], end["complete"], end["ended_because"]) == (
        5,
        False,
        "the limit of one export, 5 messages, is reached",
    )


def test_it_sends_a_copy_with_where_it_came_from(live: LiveCluster) -> None:
    live.create_topic("orders", queues=1)
    live.send("orders", 0, [b"wrong"], KEYS="k1", TAGS="new", amount="1")
    shown = call(
        "send", "orders", "--copy", "orders/broker-a/0/0", "--body", "right", "--tag", "new", "--key", "k1"
    )
    plan = shown.split(":")[0]
    assert "wrong → right" in shown and "amount" in shown
    assert "SUCCEEDED" in call("apply", plan, "--here")
    copy = json.loads(call("find", "orders", "--limit", "1", "--format", "json"))
    assert (copy["body_text"], copy["keys"], copy["tags"]) == ("right", "k1", "new")
    assert copy["properties"]["TIDEMARK_PLAN"] == plan
    assert copy["properties"]["TIDEMARK_COPY_OF"].endswith(" orders · broker-a · 0 @ 0")
    assert "amount" not in copy["properties"]


def test_it_refuses_clearly(live: LiveCluster) -> None:
    with pytest.raises(CommandError, match="test has no topic nowhere"):
        call("find", "nowhere")
    live.create_topic("orders", queues=1)
    for arguments, words in (
        (("get", "x", "orders"), "No broker stores the message x of orders"),
        (("find", "orders", "--queue", "0"), "0 is not a queue"),
        (("find", "orders", "--find-in", "json", "--find", "x"), "Enter it like"),
        (("find", "orders", "--limit", "0"), "--limit is 1 to"),
        (("send", "orders"), "Send exactly one of body"),
        (("send", "orders", "--body", "x", "--property", "x"), "is not a property; write NAME=VALUE"),
    ):
        with pytest.raises(CommandError, match=words):
            call(*arguments)
    with pytest.raises(CommandError, match="does not filter by SQL92|cannot read this expression"):
        call("find", "orders", "--sql", "amount >")
