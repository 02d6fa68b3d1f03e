"""What the overview shows of all groups is what the page of each shows."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from console.lag.models import BrokerRow, ClientRow, GroupMembers, GroupRow, QueueOwner
from console.rebalance.observed.group import group_ownership
from console.rebalance.observed.in_cluster import cluster_findings
from tests.support import sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
NOW_MS = int(time.time() * 1000)


def group(name: str, *members: tuple[int, ...] | None, at_ms: tuple[int, ...] = (), **fields: Any) -> None:
    """A group of four queues whose members report these ones, each at its time; None does not report."""
    sample_rows.group_row(name, **fields)
    for queue_id in range(4):
        sample_rows.queue_row(name, queue_id)
    GroupMembers.objects.create(
        cluster="local", group=name, clients=len(members), model="CLUSTERING", read_at_ms=NOW_MS
    )
    for number, held in enumerate(members):
        queues = [{"topic": "orders", "broker_name": "broker-a", "queue_id": one} for one in held or ()]
        sample_rows.client_row(
            name,
            f"c-{number}",
            queues=None if held is None else queues,
            read_at_ms=at_ms[number] if at_ms else NOW_MS,
        )


def kinds() -> list[tuple[str, str]]:
    """Return the findings of the cluster, after a look at each page: one that is here is there too."""
    found = list(cluster_findings("local", NOW_MS))
    for name in {name for name, _ in found}:
        page = group_ownership(GroupRow.objects.get(group=name), NOW_MS)
        assert {one.title for group, one in found if group == name} <= {one.title for one in page.findings}
    return [(name, one.kind) for name, one in found]


def test_a_queue_has_no_owner_two_or_one() -> None:
    sample_rows.cluster()
    group("fair", (0, 1), (2, 3))
    group("torn", (0, 1), (1, 2))
    group("idle", (0, 1, 2, 3), ())
    assert kinds() == [("idle", "IDLE_CLIENT"), ("torn", "NO_OWNER"), ("torn", "TWO_OWNERS")]


def test_a_queue_without_one_owner_is_so_since_its_last_one_left() -> None:
    sample_rows.cluster()
    group("torn", (0, 1), (1, 2))
    for queue_id, left_ms in ((1, NOW_MS - 7_000), (3, NOW_MS - 9_000), (3, NOW_MS - 5_000)):
        where = {"topic": "orders", "broker_name": "broker-a", "queue_id": queue_id}
        QueueOwner.objects.create(
            cluster="local", group="torn", **where, client_id="c-9", from_ms=NOW_MS - 60_000, to_ms=left_ms
        )
    since = {one.kind: one.since_ms for _, one in cluster_findings("local", NOW_MS)}
    assert since == {"NO_OWNER": NOW_MS - 5_000, "TWO_OWNERS": NOW_MS - 7_000}


def test_a_group_that_has_just_started_still_divides_its_queues() -> None:
    sample_rows.cluster()
    group("torn", (0, 1), (1, 2))
    clients = ClientRow.objects.filter(group="torn")
    clients.update(started_at_ms=NOW_MS - 89_999)
    assert kinds() == []
    clients.filter(client_id="c-1").update(
        started_at_ms=NOW_MS - 90_000
    )  # the other one has only just joined it
    assert kinds() == [("torn", "NO_OWNER"), ("torn", "TWO_OWNERS")]


def test_the_newer_of_two_reports_counts() -> None:
    sample_rows.cluster()
    group("moved", (0, 1, 2), (2, 3), at_ms=(NOW_MS - 30_000, NOW_MS))
    assert kinds() == []


def test_a_member_that_does_not_report_may_own_the_rest() -> None:
    sample_rows.cluster()
    group("quiet", (0, 1), None)
    assert kinds() == [("quiet", "SILENT_CLIENT")]


def test_queues_of_a_silent_broker_lack_no_owner() -> None:
    sample_rows.cluster()
    group("billing", (0, 1))
    assert kinds() == [("billing", "NO_OWNER")]
    BrokerRow.objects.create(cluster="local", broker_name="broker-a", addr="h:1", answered=False)
    assert kinds() == []


@pytest.mark.parametrize("fields", [{"model": "BROADCASTING"}, {"consume_mode": "POP"}])
def test_members_that_share_queues_own_none(fields: dict[str, Any]) -> None:
    sample_rows.cluster()
    group("sharing", (0, 1), (1, 2), (), **fields)
    assert kinds() == []


def test_it_costs_as_many_queries_for_many_groups() -> None:
    sample_rows.cluster()

    def cost() -> int:
        with CaptureQueriesContext(connections["metrics"]) as seen:
            list(cluster_findings("local", NOW_MS))
        return len(seen)

    group("first", (0, 1), (2, 3))
    few = cost()
    for number in range(10):
        group(f"g-{number}", (0, 1), (1, 2))
    assert cost() == few == 5
