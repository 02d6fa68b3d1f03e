"""The history of one queue: a real broker's rounds, read back step by step; what was not read is a gap."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from console.brokers.mqadmin import MessageQueue
from console.group.queue_history.readings import queue_history, refusal, usual_step_ms
from console.lag import services as lag_services
from tests.console.operation.live_cluster import LiveCluster

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("history in files; rows of rounds are written as in lag/test_edge_cases"),
]
MINUTE_MS = 60_000
START_MS = 1_773_300_000_000 - 1_773_300_000_000 % 3_600_000
AT_MS = (0, 5_000, 10_000, 65_000, 70_000, 600_000)  # 10 s, then 55 s and 530 s without a round
COMMITS = (2, 4, 4, 1, 9, 10)
PLACE = {"topic": "orders", "broker_name": "broker-a", "queue_id": 1}
PAGE = f"/c/test/groups/billing/queue-history?topic=orders&broker=broker-a&queue=1&since={START_MS}"


@pytest.fixture
def recorded(
    live: LiveCluster, tmp_path: Path, settings: Settings, client: Client, alice: User
) -> Iterator[LiveCluster]:
    """Six rounds in which billing reads queue 1 of orders, goes back once, and ends at 10 of 10."""
    settings.DATA_DIR, settings.HISTORY_URL = tmp_path / "data", f"file://{tmp_path / 'data' / 'history'}"
    lag_services.collectors.clear()
    live.create_topic("orders", queues=2)
    live.create_group("billing")
    for queue_id in (0, 1):
        live.send("orders", queue_id, [b"x"] * 10)
    for at_ms, offset in zip(AT_MS, COMMITS, strict=True):
        live.commit("billing", "orders", 1, offset)
        assert lag_services.collect("test", now_ms=START_MS + at_ms) is not None
    client.force_login(alice)
    yield live
    lag_services.collectors.clear()


def readings(live: LiveCluster, to_ms: int, step_ms: int) -> list[tuple[int | None, ...]]:
    queue, end_ms = MessageQueue("orders", live.broker_name, 1), START_MS + to_ms
    found = queue_history("test", "billing", queue, START_MS, end_ms, step_ms, end_ms)
    return [
        (row.at_ms - START_MS, row.committed_offset, row.moved, row.lag, row.lag_max, row.age_ms)
        for row in found
    ]


def test_a_step_has_its_last_reading_and_a_silence_is_a_row_of_its_own(recorded: LiveCluster) -> None:
    assert readings(recorded, 605_000, MINUTE_MS) == [
        (0, 4, None, 6, 8, 50_000),
        (10_000, None, None, None, None, None),
        (60_000, 9, 5, 1, 9, 50_000),
        (70_000, None, None, None, None, None),
        (600_000, 10, 1, 0, 0, 5_000),
    ]


def test_every_round_is_shown_and_a_rewind_is_negative(recorded: LiveCluster) -> None:
    found = readings(recorded, 71_000, 5_000)
    assert [(at, offset, moved) for at, offset, moved, *_ in found] == [
        (0, 2, None),
        (5_000, 4, 2),
        (10_000, 4, 0),
        (10_000, None, None),
        (65_000, 1, -3),
        (70_000, 9, 8),
    ]


def test_steps_begin_at_multiples_and_the_first_with_the_range(recorded: LiveCluster) -> None:
    queue, end_ms = MessageQueue("orders", recorded.broker_name, 1), START_MS + 71_000
    found = queue_history("test", "billing", queue, START_MS + 7_000, end_ms, MINUTE_MS, end_ms)
    read = [row for row in found if row.read_at_ms is not None]
    assert [(row.at_ms - START_MS, row.committed_offset) for row in read] == [(7_000, 4), (60_000, 9)]


def test_what_follows_the_last_reading_is_a_gap_and_no_zero(recorded: LiveCluster) -> None:
    assert readings(recorded, 700_000, 3_600_000)[-1] == (600_000, None, None, None, None, None)
    queue = MessageQueue("orders", recorded.broker_name, 0)
    assert (
        queue_history("test", "billing", queue, START_MS, START_MS + 60_000, 5_000, START_MS + 60_000) == []
    )


@pytest.mark.parametrize(
    ("span_ms", "step_ms"),
    [(600_000, 5_000), (3_600_000, 60_000), (86_400_000, 3_600_000), (2**33, 86_400_000)],
)
def test_the_usual_step_fits_a_page(span_ms: int, step_ms: int) -> None:
    assert usual_step_ms(span_ms, 5_000) == step_ms


@pytest.mark.parametrize(
    ("to_ms", "step_ms", "words"),
    [
        (0, 5_000, "The end must lie after the start"),
        (32 * 86_400_000, 86_400_000, "at most 31 days"),
        (86_400_000, 5_000, "more than 10,000 steps"),
    ],
)
def test_a_range_too_long_is_refused(to_ms: int, step_ms: int, words: str) -> None:
    assert words in str(refusal(0, to_ms, step_ms))


def test_page_and_file_have_the_rows_in_the_zone_of_the_reader(recorded: LiveCluster, client: Client) -> None:
    since, until = "2026-03-12T07:00:00%2B00:00", "2026-03-12T07:10:05%2B00:00"
    client.cookies["zone"] = "Asia/Shanghai"
    address = f"{PAGE.partition('&since')[0]}&since={since}&until={until}"
    html = client.get(address).content.decode()
    assert client.get(address).status_code == 200
    assert "15:00" in html and 'id="lag-history"' in html and "no round took place" in html
    lines = b"".join(client.get(address + "&format=csv").streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert lines[0].startswith("at_ms,to_ms,read_at_ms,age_ms,committed_offset,moved")
    assert len(lines) > 1 and all(line.split(",")[4] != "0" for line in lines[1:])


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("topic=orders&broker=broker-a", 404, "Name a queue: its topic, broker and number."),
        ("topic=orders&broker=broker-a&queue=1&since=yesterday", 422, "Enter a time like"),
        (
            "topic=orders&broker=broker-a&queue=1&until=1999-01-01T00:00:00&since=2000-01-01T00:00:00",
            422,
            "The end",
        ),
        ("topic=orders&broker=broker-a&queue=1&step=7", 422, "Select a valid choice"),
        ("topic=orders&broker=broker-a&queue=9", 200, "No records"),
    ],
)
def test_what_cannot_be_shown_is_named(
    recorded: LiveCluster, client: Client, query: str, status: int, words: str
) -> None:
    answer = client.get(f"/c/test/groups/billing/queue-history?{query}")
    assert (answer.status_code, words in answer.content.decode()) == (status, True)


def test_rest_has_the_same_rows_and_names_what_is_missing(recorded: LiveCluster, alice: User) -> None:
    client, url = APIClient(), "/api/v1/clusters/test/groups/billing/queue-history"
    client.force_authenticate(alice)
    window = {"from_ms": START_MS, "to_ms": START_MS + 605_000, "ordering": "at"}
    body = client.get(url, {**PLACE, **window, "step_ms": MINUTE_MS}).json()
    found = [(row["committed_offset"], row["lag"], row["read_at_ms"]) for row in body["results"]]
    assert found[:2] == [(4, 6, START_MS + 10_000), (None, None, None)]
    assert body["results"][1]["reason"]
    assert "Name the queue." in str(client.get(url, {"topic": "orders"}).json())
    assert "longer" in str(
        client.get(url, {**PLACE, "from_ms": 0, "to_ms": 86_400_000, "step_ms": 5_000}).json()
    )
    assert client.get(url, {**PLACE, **window, "format": "csv"})["Content-Type"].startswith("text/csv")


def test_the_command_shows_the_same_steps(recorded: LiveCluster) -> None:
    def printed(*words: str) -> str:
        out = StringIO()
        end = datetime.datetime.fromtimestamp((START_MS + 605_000) / 1000, tz=datetime.UTC).isoformat()
        call_command(
            "offsets",
            "history",
            "billing",
            "orders/broker-a/1",
            "--until",
            end,
            "--step",
            "60",
            *words,
            stdout=out,
        )
        return out.getvalue()

    rows = json.loads(printed("--format", "json"))
    shown = [(row["at_ms"] - START_MS, row["committed_offset"], row["lag"]) for row in rows]
    assert shown[-5:-2] == [(0, 4, 6), (10_000, None, None), (60_000, 9, 1)]
    assert printed("--format", "csv").splitlines()[0].startswith("at_ms,to_ms,read_at_ms,")
    table = printed().splitlines()
    assert len(table) == len(rows) + 1 and table[0].split()[:3] == ["at_ms", "to_ms", "read_at_ms"]
    with pytest.raises(CommandError, match="Nothing is recorded in this range"):
        call_command("offsets", "history", "billing", "orders/broker-a/9")
    with pytest.raises(CommandError, match="at most 31 days"):
        printed("--since", "2020-01-01T00:00Z")
