"""What holds for every page: lists cost the same however long they are, and templates keep the house rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.support import sample_rows
from tests.support.people import signed_in

TEMPLATES = sorted((Path(__file__).parents[2] / "templates").rglob("*.html"))
LISTS = (
    "groups",
    "clients",
    "topics",
    "dead-letters",
    "operations",
    "brokers",
    "jump?q=o",
    "groups?q=more",
    "topics?q=more",
)
FORBIDDEN = {
    "a title cannot be reached by keyboard or touch: use data-tip or the tag tip": re.compile(r"\stitle="),
    "the policy allows no inline style": re.compile(r"\sstyle="),
    "the policy allows no inline handler": re.compile(r"\son[a-z]+="),
}


def queries_of(client: Client, address: str) -> int:
    with (
        CaptureQueriesContext(connections["default"]) as own,
        CaptureQueriesContext(connections["metrics"]) as metrics,
    ):
        assert client.get(address).status_code == 200, address
    return len(own) + len(metrics)


@pytest.mark.django_db(databases=["default", "metrics"])
@pytest.mark.parametrize(
    "person", [lambda: signed_in(), lambda: signed_in("wide", verbs=("VIEW",))], ids=["admin", "viewer"]
)
def test_lists_ask_the_database_as_often_for_sixty_rows_as_for_few(person: Callable[[], Client]) -> None:
    sample_rows.sample()
    client = person()
    few = {address: queries_of(client, f"/c/local/{address}") for address in LISTS}
    for number in range(60):
        sample_rows.group_row(f"more-{number}")
        sample_rows.client_row(f"more-{number}", f"10.0.0.{number}@7")
        sample_rows.topic_row(f"more-{number}")
        sample_rows.topic_row(f"%DLQ%more-{number}", kind="DLQ")
    many = {address: queries_of(client, f"/c/local/{address}") for address in LISTS}
    # An empty page needs fewer: no row, no last round of it. Nothing may grow with the rows.
    assert {
        address: many[address] - few[address] for address in LISTS if many[address] > few[address] + 1
    } == {}
    assert max(many.values()) <= 25


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_templates_keep_the_house_rules(template: Path) -> None:
    text = re.sub(r"\{#.*?#\}|\{% comment %\}.*?\{% endcomment %\}", "", template.read_text(), flags=re.S)
    tags = re.findall(r"<[a-z][^>]*>", text)
    for reason, pattern in FORBIDDEN.items():
        assert [tag for tag in tags if pattern.search(tag)] == [], reason
    assert [tag for tag in tags if tag.startswith("<th") and tag[3] in " >" and "scope=" not in tag] == []


OUTLINED = (
    "",
    "groups",
    "clients",
    "clients?q=zzz",
    "topics",
    "groups?q=zzz",
    "brokers",
    "brokers/broker-a/config",
    "operations",
    "dead-letters",
)


@pytest.mark.django_db(databases=["default", "metrics"])
@pytest.mark.parametrize("page", OUTLINED)
def test_headings_leave_no_level_out_and_ids_stand_once(page: str) -> None:
    sample_rows.sample()
    text = signed_in().get(f"/c/local/{page}").content.decode()
    levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", text)]
    assert levels.count(1) == 1
    assert [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1] == []
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert [one for one in ids if ids.count(one) > 1] == []
