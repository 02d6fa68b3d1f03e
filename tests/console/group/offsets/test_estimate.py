"""What an offset change would mean, from the rows of the last round alone."""

from __future__ import annotations

from typing import Any

import pytest

from console.group import selectors
from console.group.offsets.estimate import QUEUES_SHOWN, Estimate, estimate
from console.group.offsets.targets import read_params
from console.operation.errors import PlanRejected
from console.operation.plan.params import Given
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])

NOW_MS = 1_760_000_000_000


@pytest.fixture
def cluster() -> str:
    """Billing reads two queues of orders: it stands at 50 of 0 to 100, and at 20 of 10 to 30."""
    name = sample_rows.cluster("test").name
    sample_rows.group_row("billing", cluster=name, clients=1)
    for queue_id, low, committed, high in ((0, 0, 50, 100), (1, 10, 20, 30)):
        sample_rows.queue_row(
            "billing",
            queue_id,
            cluster=name,
            topic="orders",
            min_offset=low,
            committed_offset=committed,
            max_offset=high,
        )
    return name


def means(cluster: str, **params: Any) -> Estimate:
    rows = selectors.group_queues(cluster, "billing")
    return estimate(cluster, "billing", read_params(Given(params)), rows, NOW_MS)


@pytest.mark.parametrize(
    ("params", "words", "targets"),
    [
        ({"target": "earliest"}, "Replay 60 messages on 2 queues of orders", [0, 10]),
        ({"target": "latest"}, "Skip 60 messages on 2 queues of orders", [100, 30]),
        ({"target": "shift", "shift": -5}, "Replay 10 messages on 2 queues", [45, 15]),
        ({"target": "offset", "offset": 25}, "Replay 25 messages and skip 5 messages", [25, 25]),
    ],
)
def test_it_counts_what_is_replayed_and_skipped(
    cluster: str, params: dict[str, Any], words: str, targets: list[int]
) -> None:
    found = means(cluster, **params)
    assert words in found.words
    assert [row.after for row in found.rows] == targets and found.unknown == 0


def test_it_keeps_to_the_chosen_queues(cluster: str) -> None:
    one = [{"topic": "orders", "broker_name": "broker-a", "queue_id": 1}]
    assert [row.after for row in means(cluster, target="latest", queues=one).rows] == [30]


def test_it_goes_like_another_group_where_that_has_an_offset(cluster: str) -> None:
    sample_rows.queue_row("ledger", 0, cluster=cluster, topic="orders", committed_offset=70)
    found = means(cluster, target="like_group", like_group="ledger")
    assert [row.after for row in found.rows] == [70, None]


def test_a_queue_of_unknown_offsets_is_left_out_and_counted(cluster: str) -> None:
    sample_rows.queue_row("billing", 2, cluster=cluster, topic="orders", min_offset=None, max_offset=None)
    found = means(cluster, target="earliest")
    assert len(found.rows) == 2 and found.unknown == 1


def test_the_largest_moves_are_shown(cluster: str) -> None:
    for queue_id in range(2, 30):
        sample_rows.queue_row(
            "billing",
            queue_id,
            cluster=cluster,
            topic="orders",
            min_offset=0,
            committed_offset=queue_id,
            max_offset=99,
        )
    found = means(cluster, target="earliest")
    assert len(found.shown) == QUEUES_SHOWN and found.hidden == 30 - QUEUES_SHOWN
    assert found.shown[0].delta == -50


def test_a_time_without_recorded_rounds_is_unknown(cluster: str) -> None:
    with pytest.raises(PlanRejected, match="Unknown: the history has no round of"):
        means(cluster, target="time", time_ms=NOW_MS - 1)


def test_a_time_to_come_is_the_end_of_each_queue(cluster: str) -> None:
    assert [row.after for row in means(cluster, target="time", time_ms=NOW_MS).rows] == [100, 30]


def test_the_form_shows_it_and_what_it_lacks(cluster: str) -> None:
    client, url = signed_in(), f"/c/{cluster}/groups/billing/offsets"
    form = {"part": "estimate", "topic": "orders", "target": "latest"}
    shown = client.post(url, form).content.decode()
    assert "Skip <strong>60</strong> messages" in shown and "broker-a · 0" in shown
    assert "Choose a target" in client.post(url, {**form, "target": ""}).content.decode()
    assert "Enter a value for this target." in client.post(url, {**form, "target": "shift"}).content.decode()
