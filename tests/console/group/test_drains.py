"""What the page of a group says of its drain."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from console.lag.models import GroupRow
from tests.support import sample_rows
from tests.support.people import signed_in
from tests.support.shown import as_shown

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


def test_it_names_the_queue_that_never_drains(admin: Client) -> None:
    sample_rows.group_row("torn", status="STALLED", drain_never=True, drain_ms=None, lag=70)
    ends: list[dict[str, Any]] = [
        {"status": "OK"},
        {"status": "STALLED", "drain_never": True, "time_lag_ms": 9_000},
        {"status": "STALLED", "drain_never": True, "time_lag_ms": 90_000},
        {"status": "OK", "drain_never": True, "topic": "%RETRY%torn"},
    ]
    for number, end in enumerate(ends):
        sample_rows.queue_row("torn", number, **end)
    text = as_shown(admin.get("/c/local/groups/torn").content.decode())
    assert "by 2 of 3 queues:" in text and "topic=orders&amp;broker=broker-a&amp;queue=2" in text
    for number in (0, 1):
        sample_rows.queue_row("torn", number, status="STALLED", drain_never=True)
    assert "of 3 queues:" not in as_shown(admin.get("/c/local/groups/torn").content.decode()), (
        "no queue decides"
    )


def test_well_is_not_keeping_up_while_half_is_read(admin: Client) -> None:
    for out_rate, expected in ((4.0, "not known yet"), (9.0, "keeps up")):
        GroupRow.objects.filter(group="young").delete()
        sample_rows.group_row("young", status="OK", drain_ms=None, lag=70, in_rate=10.0, out_rate=out_rate)
        assert expected in as_shown(admin.get("/c/local/groups/young").content.decode())
