"""No page asks a database the same question twice."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("how often views ask; what they ask is tested by each of them on both"),
]
PAGES = (
    "/c/local/",
    "/c/local/topics",
    "/c/local/topics/orders",
    "/c/local/topics/orders?tab=groups",
    "/c/local/groups",
    "/c/local/groups/billing",
    "/c/local/groups/billing?tab=activity",
    "/c/local/dead-letters",
    "/c/local/brokers",
    "/c/local/brokers/broker-a",
    "/c/local/brokers/broker-a?tab=config",
    "/c/local/operations",
    "/c/local/reports",
    "/activity",
    "/tokens",
)


@pytest.mark.parametrize("page", PAGES)
def test_it_makes_no_query_twice(db: None, page: str) -> None:
    sample_rows.sample()
    client = signed_in()
    client.get(page)  # what is read once a process
    with (
        CaptureQueriesContext(connections["default"]) as people,
        CaptureQueriesContext(connections["metrics"]) as data,
    ):
        assert client.get(page).status_code == 200
    asked = Counter(one["sql"] for one in (*people, *data))
    assert [sql for sql, times in asked.items() if times > 1] == []
