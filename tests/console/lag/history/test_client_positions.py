"""Offsets of broadcasting members: kept while they run, and when they left."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from rest_framework.test import APIClient

from console.lag.collect import sweep
from console.lag.history import client_positions
from console.lag.models import ClientPosition, ClientRow, CollectorLease
from consumers import MessageModel
from tests.console.lag.conftest import CollectedCluster
from tests.console.lag.running_consumers import CONFIG, RunningConsumers, eventually
from tests.support.people import person

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
MINUTE_MS = 60_000


def sweep_now(cluster: CollectedCluster) -> int | None:
    CollectorLease.objects.update(sweep_until_ms=0)
    return sweep.sweep_clients("local", now_ms=cluster.now_ms)


@pytest.mark.one_database("waits for members; the rows are written alike in the test below")
def test_what_a_member_reported_is_kept_after_it_left(
    collected: CollectedCluster, running: RunningConsumers, tmp_path: Path, client: Client
) -> None:
    collected.make_topic("orders", 1)
    collected.make_group("casting")
    config = replace(
        CONFIG, message_model=MessageModel.BROADCASTING, local_offset_store_dir=str(tmp_path / "offsets")
    )
    member = running.start("casting", {"orders": "*"}, config=config)
    collected.collect()
    collected.send("orders", 6)
    eventually(lambda: {one.commit_offset for one in member.running_info().mq_table.values()} == {6})
    collected.collect()
    eventually(lambda: sweep_now(collected) == 1)
    collected.send("orders", 2)
    eventually(lambda: {one.commit_offset for one in member.running_info().mq_table.values()} == {8})
    collected.collect()
    assert sweep_now(collected) == 1
    assert ClientPosition.objects.count() == 1, "the next one in a quarter of an hour"
    running.stop(member)
    eventually(lambda: sweep_now(collected) == 0)
    assert not ClientRow.objects.exists()
    last, first = client_positions.between("local", "casting", 0, collected.now_ms + 1)
    found = [client_positions.queues_of(each)[0] for each in (first, last)]
    assert [(each.max_offset, each.committed_offset) for each in found] == [(6, 6), (8, 8)]

    alice: User = person("alice", "viewer")
    client.force_login(alice)
    window = {"since": "1970-01-02T00:00:00Z", "until": "2100-01-01T00:00:00Z", "client": first.client_id}
    address = "/c/local/groups/casting/client-offsets"
    page = client.get(address, window).content.decode()
    assert first.client_id in page and "orders · broker-a · 0" in page
    assert "No records" in client.get(address, {**window, "client": "other"}).content.decode()
    file = b"".join(client.get(address, {**window, "format": "csv"}).streaming_content)  # type: ignore[attr-defined]
    names = "at_ms,client_id,topic,broker_name,queue_id,committed_offset,min_offset,max_offset,lag"
    assert file.decode().splitlines()[0] == names
    rest = APIClient()
    rest.force_authenticate(alice)
    span = {"from_ms": 0, "to_ms": collected.now_ms + 1, "ordering": "at"}
    body = rest.get("/api/v1/clusters/local/groups/casting/client-offsets", span).json()
    assert [(row["committed_offset"], row["lag"]) for row in body["results"]] == [(6, 0), (8, 0)]
    out = StringIO()
    words = ("--since", window["since"], "--until", window["until"], "--format", "json")
    call_command("offsets", "clients", "casting", "--cluster", "local", *words, stdout=out)
    assert [(row["committed_offset"], row["lag"]) for row in json.loads(out.getvalue())] == [(8, 0), (6, 0)]


def row_of(at_ms: int, position: int, group: str = "casting") -> ClientRow:
    samples = [[at_ms, 0, 9, position]]
    progress = [{"topic": "orders", "broker_name": "broker-a", "queue_id": 0, "samples": samples}]
    return ClientRow(cluster="local", group=group, client_id="c@1", progress=progress)


def kept() -> list[tuple[int, int]]:
    found = client_positions.between("local", "casting", 0, 10**15)
    return [(each.at_ms // MINUTE_MS, client_positions.queues_of(each)[0].committed_offset) for each in found]


def test_a_member_is_kept_each_quarter_of_an_hour_and_once_when_it_leaves() -> None:
    before: list[ClientRow] = []
    for minute in range(0, 40, 4):
        after = [row_of((100 + minute) * MINUTE_MS, minute)]
        client_positions.record("local", before, after, (100 + minute) * MINUTE_MS)
        before = after
    assert kept() == [(132, 32), (116, 16), (100, 0)]
    for minute in (140, 144):
        client_positions.record("local", before, [], minute * MINUTE_MS)
    assert kept()[0] == (136, 36) and len(kept()) == 4
    client_positions.delete_expired(110 * MINUTE_MS + client_positions.KEPT_MS)
    assert [at for at, _ in kept()] == [136, 132, 116]
