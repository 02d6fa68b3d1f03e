"""The list of groups counts the owners that the page of each group shows."""

from __future__ import annotations

import time

import pytest

from console.lag.history.owners import KNOWN_MS
from console.lag.models import BrokerRow, GroupMembers, GroupRow
from console.rebalance.observed.group import group_ownership
from console.rebalance.observed.group_list import GroupState, rebalanced_groups
from console.rebalance.observed.ownership import State
from tests.support import sample_rows

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
NOW_MS = int(time.time() * 1000)
OLD_MS = NOW_MS - KNOWN_MS - 1


@pytest.mark.parametrize(
    ("members", "state", "counts"),
    [
        ([((0, 1), NOW_MS), ((2, 3), NOW_MS)], GroupState.OK, (4, 0, 0, 0, 0, 0)),
        ([((0, 1), NOW_MS), ((1, 2), NOW_MS)], GroupState.NO_OWNER, (2, 1, 1, 0, 0, 0)),
        ([((0, 1, 2, 3), NOW_MS), ((3,), NOW_MS - 30_000)], GroupState.OK, (4, 0, 0, 0, 0, 0)),
        ([((3,), NOW_MS - 30_000), ((0, 1, 2, 3), NOW_MS)], GroupState.OK, (4, 0, 0, 0, 0, 0)),
        ([((0, 1, 2, 3), NOW_MS), ((), NOW_MS)], GroupState.IDLE, (4, 0, 0, 0, 1, 0)),
        ([((0, 1), NOW_MS), (None, NOW_MS)], GroupState.UNKNOWN, (2, 0, 0, 2, 0, 1)),
        ([((0, 1, 2), NOW_MS), ((2, 3), OLD_MS)], GroupState.UNKNOWN, (3, 0, 0, 1, 0, 1)),
    ],
)
@pytest.mark.parametrize(("is_silent", "is_listed"), [(False, True), (True, True), (False, False)])
def test_the_list_counts_what_the_page_shows(
    members: list[tuple[tuple[int, ...] | None, int]],
    state: GroupState,
    counts: tuple[int, ...],
    is_silent: bool,
    is_listed: bool,
) -> None:
    sample_rows.cluster()
    sample_rows.group_row("billing")
    for queue_id in range(4):
        sample_rows.queue_row("billing", queue_id)
    sample_rows.queue_row("billing", 0, topic="%RETRY%billing")
    if is_silent:
        BrokerRow.objects.create(cluster="local", broker_name="broker-a", addr="h:1", answered=False)
    GroupMembers.objects.create(
        cluster="local", group="billing", clients=len(members) if is_listed else None, read_at_ms=NOW_MS
    )
    for number, (held, at_ms) in enumerate(members):
        queues = [{"topic": "orders", "broker_name": "broker-a", "queue_id": one} for one in held or ()]
        retry = {"topic": "%RETRY%billing", "broker_name": "broker-a", "queue_id": 0}
        sample_rows.client_row(
            "billing", f"c-{number}", queues=None if held is None else [*queues, retry], read_at_ms=at_ms
        )
    (row,) = rebalanced_groups("local", NOW_MS)
    found = (row.one_owner, row.no_owner, row.two_owners, row.unknown, row.idle, row.silent)
    page = group_ownership(GroupRow.objects.get(), NOW_MS)
    (topic,) = page.topics
    assert row.queues == 4 and found == (
        topic.count(State.ONE),
        topic.count(State.NONE),
        topic.count(State.TWO),
        topic.count(State.UNKNOWN, State.LAST_KNOWN),
        len(page.idle),
        len(page.silent),
    )
    if is_listed and not is_silent:
        assert (row.state, found) == (state, counts)
