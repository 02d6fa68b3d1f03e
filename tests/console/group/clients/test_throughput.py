"""What a member takes and confirms, by the queues it owns."""

from __future__ import annotations

from typing import Any

import pytest

from console.group.clients.throughput import NO_OWNER, NO_PULLED_YET, NOT_REPORTED, Throughput, throughput_of
from console.lag.models import ClientRow
from console.lag.rows.queue_row import QueueRow
from console.text import Text
from tests.support import sample_queues, sample_rows
from tests.support.people import signed_in

HERE = "10.0.0.1@7"
SILENT = Text("broker-b: connection refused")


def queue(queue_id: int, **fields: Any) -> QueueRow:
    known = {"out_rate": 2.5, "in_flight": 40, "lag": 50, "status": "OK", "owner": HERE}
    values = {"group": "g", "topic": "orders", "broker_name": "broker-a", **known, **fields}
    return QueueRow(queue_id=queue_id, **values)


def held(*ids: int) -> list[dict[str, Any]]:
    return [{"topic": "orders", "broker_name": "broker-a", "queue_id": one} for one in ids]


def figures(*queues: QueueRow, **client: Any) -> Throughput:
    return throughput_of(ClientRow(**{"client_id": HERE, "queues": held(0, 1), **client}), queues)


def test_it_sums_the_queues_a_member_owns() -> None:
    found = figures(queue(0), queue(1), queue(2, owner="10.0.0.2@8"), queue(0, topic="%RETRY%g"))
    assert (found.out_rate, found.in_flight) == (5.0, 80)
    assert not found.partial and not found.lag_lower_bound


def test_sums_with_an_unknown_queue_are_lower_bounds() -> None:
    gone = queue(1, status="UNKNOWN", since_ms=900, out_rate=None, in_flight=None, lag=None, reason=SILENT)
    found = figures(queue(0), gone)
    assert (found.out_rate, found.in_flight) == (2.5, 40)
    assert found.partial and found.lag_lower_bound
    assert (found.reason, found.unknown_since_ms) == (SILENT, 900)


def test_in_flight_without_pulled_offsets_is_unknown_with_its_reason() -> None:
    found = figures(queue(0, in_flight=None), queue(1, in_flight=None))
    assert (found.out_rate, found.in_flight, found.reason) == (5.0, None, NO_PULLED_YET)


def test_a_member_that_did_not_answer_has_unknown_figures() -> None:
    found = figures(queue(0), queues=None)
    assert (found.out_rate, found.in_flight, found.reason) == (None, None, NOT_REPORTED)
    assert found.applies


def test_figures_do_not_apply_to_a_member_without_committed_queues() -> None:
    assert not figures(queue(0, status="NEVER_COMMITTED", lag=None, out_rate=None)).applies
    assert not figures(queue(0, owner="10.0.0.2@8"), queues=[]).applies


def test_figures_are_unknown_until_a_round_has_the_owner() -> None:
    found = figures(queue(0, owner=""), queue(1, owner=""))
    assert found.applies and (found.out_rate, found.reason) == (None, NO_OWNER)


def test_a_popping_member_has_what_it_holds_in_flight() -> None:
    popped = [{**held(0)[0], "popped": 30}, {**held(1)[0], "popped": 2}]
    found = figures(queue(0, owner=""), queues=popped)
    assert (found.out_rate, found.in_flight) == (None, 32)
    assert "pops" in found.reason


@pytest.mark.django_db(databases=["default", "metrics"])
def test_the_group_page_shows_both_figures_beside_each_client() -> None:
    sample_rows.sample()
    client_id = ClientRow.objects.get(group="billing").client_id
    sample_queues.change({"group": "billing"}, owner=client_id, out_rate=6.5, in_flight=17)
    count = len(sample_queues.find(group="billing"))
    part = signed_in().get("/c/local/groups/billing?part=clients").content.decode()
    assert "<html" not in part
    row = part[part.index(client_id) :]
    assert f">{6.5 * count:g}<" in "".join(row.split())
    assert f">{17 * count}<" in "".join(row.split())
