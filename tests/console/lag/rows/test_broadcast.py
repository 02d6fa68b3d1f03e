"""Broadcasting groups: how far each client is by its own word, and what a group says of those that do not tell."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from brokerd.remoting.body.client import ProcessQueueInfo
from console.brokers.mqadmin import MessageQueue
from console.group import findings
from console.group import selectors as group_selectors
from console.lag import selectors
from console.lag.collect import sweep
from console.lag.models import ClientRow, CollectorLease, GroupRow
from console.lag.round.figures import GroupFigures
from console.lag.round.view import ClientProgress, Members, QueueProgress, RoundView, Sample
from console.lag.rows import broadcast
from console.text import Text
from consumers import MessageModel
from spark.lag.round.status import LagStatus
from tests.console.lag.conftest import CollectedCluster
from tests.console.lag.rows.test_rows import answer, groups_of, view
from tests.console.lag.running_consumers import CONFIG, RunningConsumers, eventually

PLACE = ("orders", "broker-a", 0)


def sweep_now(cluster: CollectedCluster) -> int | None:
    CollectorLease.objects.update(sweep_until_ms=0)
    return sweep.sweep_clients("local", now_ms=cluster.now_ms)


@pytest.mark.django_db(databases=["default", "metrics"])
def test_row_broadcast_groups_are_as_far_behind_as_their_furthest_client(
    collected: CollectedCluster, running: RunningConsumers, tmp_path: Path
) -> None:
    """lag.md 1.3: one member reads everything, another hangs in its first messages; brokers know of neither."""
    collected.make_topic("orders", 2)
    collected.make_group("casting")
    config = replace(
        CONFIG, message_model=MessageModel.BROADCASTING, local_offset_store_dir=str(tmp_path / "offsets")
    )
    well = running.start("casting", {"orders": "*"}, config=config)
    collected.collect()
    collected.send("orders", 6)
    collected.send("orders", 4, queue_id=1)
    eventually(lambda: {one.commit_offset for one in well.running_info().mq_table.values()} == {6, 4})
    collected.collect()
    eventually(lambda: sweep_now(collected) == 1)
    collected.collect()
    row = GroupRow.objects.get(group="casting")
    assert (row.model, row.status, row.lag, row.time_lag_ms, row.partial) == (
        "BROADCASTING",
        "OK",
        0,
        0,
        False,
    )
    assert (row.clients_told, row.read_at_ms, row.out_rate) == (1, collected.now_ms - 5_000, None)
    assert row.reason == "broadcasting: the furthest behind of 1 client, as they report"

    stuck = running.start("casting", {"orders": "*"}, config=config, hangs=True)
    eventually(lambda: sum(one.cached_msg_count for one in stuck.running_info().mq_table.values()) == 10)
    eventually(lambda: sweep_now(collected) == 2)
    for _ in range(5):  # two minutes in which nothing of it is done
        for _ in range(6):
            collected.collect()
        assert sweep_now(collected) == 2
    collected.collect()
    row = GroupRow.objects.get(group="casting")
    assert (row.status, row.lag, row.lag_lower_bound, row.clients_told) == ("STALLED", 10, False, 2)
    assert row.attention == 6 and row.drain_never and (row.stall_ms or 0) >= 120_000
    assert (row.time_lag_ms or 0) >= 150_000
    assert f"{stuck.client.client_id}: orders · broker-a · " in row.reason
    assert [(one["client_id"], one["lag"], one["status"]) for one in row.client_progress] == [
        (stuck.client.client_id, 10, "STALLED"),
        (well.client.client_id, 0, "OK"),
    ]
    assert [(one["topic"], one["lag"], one["status"]) for one in row.topics] == [("orders", 10, "STALLED")]
    client = ClientRow.objects.get(client_id=stuck.client.client_id)
    queues = group_selectors.client_queues(client)
    assert [(one.queue_id, one.lag, one.committed_offset) for one in queues] == [(0, 6, 0), (1, 4, 0)]
    (found,) = findings.findings(row, [], [])
    assert found.title == f"{stuck.client.client_id}: has stalled"
    hour = (collected.now_ms - 3_600_000, collected.now_ms)
    assert selectors.lag_history("local", "casting", *hour).lag == []  # brokers know no offset

    running.stop(stuck)
    running.stop(well)
    eventually(lambda: sweep_now(collected) == 0)
    collected.collect()
    row = GroupRow.objects.get(group="casting")
    assert (row.status, row.lag, row.partial) == ("OFFLINE", None, False)


def progress(*samples: tuple[int, int, int, int], queue_id: int = 0) -> QueueProgress:
    return QueueProgress("orders", "broker-a", queue_id, tuple(Sample(*one) for one in samples))


def row_of(*clients: ClientProgress, of: int | None = 2, seen: RoundView | None = None) -> GroupFigures:
    members = Members(clients=of, model="BROADCASTING", topics=("orders",), progress=clients)
    return groups_of(replace(seen or view([answer()]), members={"casting": members}))["casting"]


def test_who_does_not_tell_may_be_further_behind() -> None:
    now_ms = view([answer()]).now_ms
    told = ClientProgress("a", [progress((now_ms - 1_000, 0, 100, 93))])
    row = row_of(told, ClientProgress("b", [progress()]))
    assert (row.lag, row.lag_lower_bound, row.partial, row.clients_told) == (7, True, True, 1)
    assert row.reason.startswith(
        "broadcasting: 1 of 2 clients reported their offsets; others may be further behind"
    )
    assert row.known_lag is None and row.drain_ms is None
    (one,) = row.topics
    assert (one.lag, one.lag_lower_bound) == (7, True)
    row = row_of(told, of=1)
    assert (row.lag, row.lag_lower_bound, row.known_lag) == (7, False, 7)


def test_what_a_client_did_not_tell_of_one_queue_makes_its_lag_a_lower_bound() -> None:
    now_ms = view([answer()]).now_ms
    told = ClientProgress("a", [progress((now_ms - 1_000, 0, 100, 93)), progress(queue_id=1)])
    row = row_of(told, of=1)
    assert (row.lag, row.lag_lower_bound, row.partial) == (7, True, True)


def test_nobody_who_told_is_unknown_and_so_is_what_was_told_long_ago() -> None:
    now_ms = view([answer()]).now_ms
    old = ClientProgress("a", [progress((now_ms - broadcast.VALID_MS, 0, 100, 93))])
    for row in (row_of(), row_of(old)):
        assert (row.status, row.lag, row.partial) == ("UNKNOWN", None, True)
        assert row.reason == "broadcasting: each client keeps its own offsets, brokers do not store them"
        assert (row.time_lag_ms, row.in_flight, row.drain_ms) == (None, None, None)


def test_a_client_that_retention_passed_is_lost() -> None:
    now_ms = view([answer()]).now_ms
    row = row_of(ClientProgress("a", [progress((now_ms - 1_000, 50, 100, 20))]), of=1)
    assert (row.status, row.lag) == (LagStatus.LOST, 50)
    assert row.reason.endswith("30 messages were deleted by retention before they were consumed")


def test_a_client_beyond_the_end_is_no_good_client() -> None:
    now_ms = view([answer()]).now_ms
    row = row_of(ClientProgress("a", [progress((now_ms - 1_000, 0, 100, 120))]), of=1)
    assert (row.status, row.lag, row.partial) == (LagStatus.INVALID, None, True)


def test_the_same_answers_give_the_same_figures_without_another_look() -> None:
    first = view([answer()])
    told = ClientProgress("a", [progress((first.now_ms - 1_000, 0, 100, 100))])
    row = row_of(told, of=1)
    later = replace(
        first, previous_groups={"casting": msgspec.structs.replace(row, reason=Text("as it was"))}
    )
    assert row_of(told, of=1, seen=later).reason == "as it was"
    newer = ClientProgress("a", [progress((first.now_ms, 0, 100, 99))])
    assert row_of(newer, of=1, seen=later).lag == 1


def test_brokers_offsets_of_such_a_group_are_not_believed() -> None:
    """They are left of a time when it was clustering, or set by hand."""
    members = Members(clients=2, model="BROADCASTING", topics=("orders",))
    row = groups_of(replace(view([answer()]), members={"billing": members}))["billing"]
    assert (row.status, row.lag) == ("UNKNOWN", None)


def test_it_keeps_ten_minutes_and_forgets_a_topic_that_was_made_again() -> None:
    kept: list[QueueProgress] = []
    for number in range(40):
        kept = broadcast.progress_of(kept, {PLACE: number}, {PLACE: (0, 100)}, 30_000 * number)
    (one,) = kept
    assert len(one.samples) == 20 and one.samples[-1] == (1_170_000, 0, 100, 39)
    assert broadcast.kept_progress(json.loads(json.dumps(msgspec.to_builtins(kept)))) == kept
    (one,) = broadcast.progress_of(kept, {PLACE: 2}, {PLACE: (0, 5)}, 1_200_000)
    assert one.samples == ((1_200_000, 0, 5, 2),)
    (one,) = broadcast.progress_of(kept, {PLACE: 2}, {}, 1_200_000)
    assert one.samples[-1] == (1_170_000, 0, 100, 39)  # no broker told how far the queue reaches
    (one,) = broadcast.progress_of(kept, {PLACE: None}, {PLACE: (100, 100)}, 1_200_000)
    assert one.samples[-1] == (1_200_000, 100, 100, 100)  # nothing there for anybody


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (ProcessQueueInfo(commit_offset=9), 9),
        (ProcessQueueInfo(commit_offset=-1), None),
        (ProcessQueueInfo(commit_offset=-1, cached_msg_min_offset=4, cached_msg_count=3), 4),
    ],
)
def test_it_reads_where_a_client_is(held: ProcessQueueInfo, expected: int | None) -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    table = {queue: held, MessageQueue("%RETRY%casting", "broker-a", 0): held}
    assert broadcast.positions_of(table) == {PLACE: expected}
