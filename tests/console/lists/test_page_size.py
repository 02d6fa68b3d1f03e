"""The longest lists are at most 60 kB before compression, and their cells get the look of their column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from console.group.group_list import GROUPS
from console.group.group_page import QUEUES
from console.lists.spec import ListSpec
from console.rebalance.observed.group_list import REBALANCED
from console.templatetags.lists import cell_classes
from console.text import Text
from console.topic.topic_list import TOPICS
from tests.support import sample_rows
from tests.support.people import signed_in

BYTES_MAX = 60_000
ROWS = 50
HOUR = [minute * 37 % 61 for minute in range(60)]
REASON = Text("broker-b has not answered since 08:41:20")
STYLES = Path("static/css/list.css").read_text()


@pytest.mark.django_db(databases=["default", "metrics"])
@pytest.mark.one_database("how large a page is does not depend on the database")
@pytest.mark.parametrize("page", ["groups", "topics"])
@pytest.mark.parametrize(
    "known", [{}, {"in_rate": None, "out_rate": None, "partial": True, "reason": REASON}]
)
def test_fifty_rows_are_at_most_60_kb(page: str, known: dict[str, object]) -> None:
    sample_rows.cluster()
    for number in range(ROWS):
        name = f"payment-service-{number:05}"
        row = {"trend": HOUR, **known}
        if page == "groups":
            sample_rows.group_row(name, **row)
        else:
            sample_rows.topic_row(name, worst_group=name, worst_time_lag_ms=600, **row)
    content = signed_in().get(f"/c/local/{page}").content
    assert content.count(b'<tr data-key="payment-service-') == ROWS
    assert len(content) <= BYTES_MAX


@pytest.mark.parametrize("spec", [GROUPS, TOPICS, REBALANCED, QUEUES], ids=lambda spec: spec.name)
def test_every_place_of_a_column_class_has_its_style(spec: ListSpec) -> None:
    """Cells have no classes of their own: a place without a rule would lose its alignment, or never go."""
    wanted = cell_classes(spec).split()
    assert wanted
    for one in wanted:
        place = one.rpartition("-")[2]
        assert re.search(rf"\.{one} > tbody > tr > td:nth-child\({place}\)", STYLES), one
