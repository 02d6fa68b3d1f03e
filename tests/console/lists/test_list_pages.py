"""Every page of a declared list: as many cells as columns, a file of the same rows, an order for every head."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from html.parser import HTMLParser

import pytest
from django.test import Client

from console.access.services import record_audit
from console.lists import file
from console.lists.spec import LISTS
from tests.support import sample_rows
from tests.support.people import signed_in

PAGES = {
    "groups": "/c/local/groups",
    "topics": "/c/local/topics",
    "dead-letters": "/c/local/dead-letters?empty=1",
    "brokers": "/c/local/brokers",
    "activity": "/activity",
}

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


class Cells(HTMLParser):
    """Columns of the head and cells of every row of the first table that has a choice of columns."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: list[str] = []
        self.rows: list[int] = []
        self.is_inside = self.is_detail = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "table":
            self.is_inside = "data-columns" in values and not self.columns
        elif self.is_inside and "data-column" in values:
            self.columns.append(values["data-column"] or "")
        elif self.is_inside and tag == "tr":
            self.is_detail = "detail" in (values.get("class") or "")
            self.rows.append(0)
        elif self.is_inside and tag in ("th", "td") and not self.is_detail:
            self.rows[-1] += int(values.get("colspan") or 1)


def cells_of(page: bytes) -> Cells:
    cells = Cells()
    cells.feed(page.decode())
    return cells


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    sample_rows.topic_row("%DLQ%billing", kind="DLQ", messages=3)
    record_audit(actor="alice", verb="apply", subject="billing", before={"lag": 1})
    return signed_in()


def lines_of(client: Client, address: str) -> list[dict[str, str]]:
    answer = client.get(f"{address}{'&' if '?' in address else '?'}format=csv")
    assert answer.status_code == 200, address

    async def read() -> bytes:
        return b"".join([piece async for piece in answer])

    return list(csv.DictReader(io.StringIO(asyncio.run(read()).decode())))


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_row_has_a_cell_for_every_column(admin: Client, name: str) -> None:
    cells = cells_of(admin.get(PAGES[name]).content)
    assert cells.columns == LISTS[name].column_names
    # The first row is the head, whose cells were counted as columns.
    rows = [number for number in cells.rows if number]
    assert rows and set(rows) == {len(cells.columns)}


def test_who_sees_some_names_only_reads_other_columns_of_brokers(admin: Client) -> None:
    some = signed_in("some", verbs=("VIEW",), names="bill*")
    cells = cells_of(some.get(PAGES["brokers"]).content)
    assert cells.columns == LISTS["own-brokers"].column_names
    assert {number for number in cells.rows if number} == {len(cells.columns)}
    (line, *_) = lines_of(some, PAGES["brokers"])
    assert not {"out_rate", "put_p99_ms", "rpc_ms"} & set(line)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_every_head_sorts_both_ways(admin: Client, name: str) -> None:
    for sort in LISTS[name].sorts:
        for direction in ("asc", "desc"):
            address = f"{PAGES[name]}{'&' if '?' in PAGES[name] else '?'}sort={sort}&dir={direction}"
            page = admin.get(address)
            assert page.status_code == 200, address
            if sort in LISTS[name].column_names:
                sorted_by = "descending" if direction == "desc" else "ascending"
                assert re.search(rf'data-column="{sort}"[^>]*aria-sort="{sorted_by}"', page.content.decode())


def test_a_file_has_the_rows_and_the_order_of_the_page(admin: Client) -> None:
    lines = lines_of(admin, "/c/local/groups?sort=group&dir=desc&rows=25")
    names = [line["group"] for line in lines]
    assert names == sorted(names, reverse=True)
    assert len(names) > 3
    unknown = next(line for line in lines if line["lag"] == "")
    assert (unknown["status"], unknown["partial"]) == ("UNKNOWN", "False")
    assert unknown["reason"] != ""
    assert all(line["read_at_ms"].isdigit() for line in lines)
    assert [line["group"] for line in lines_of(admin, "/c/local/groups?q=bill")] == ["billing"]
    assert {line["kind"] for line in lines_of(admin, "/c/local/topics?kind=DLQ")} == {"DLQ"}
    assert [line["group"] for line in lines_of(admin, PAGES["dead-letters"])] == ["billing", "notifier"]


def test_a_file_of_too_many_rows_is_refused(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "FILE_ROWS_MAX", 2)
    refused = admin.get("/c/local/groups?format=csv")
    assert refused.status_code == 422
    assert b"rows match, and a file holds 2. Narrow the filter." in refused.content
