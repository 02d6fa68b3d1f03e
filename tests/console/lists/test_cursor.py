"""Cursors continue after a row, also when rows are added before it or have the same time."""

from __future__ import annotations

import base64
import datetime
import json

import pytest

from console.access.models import AuditEvent
from console.lists.cursor import CursorRefused, after, rows_after
from console.lists.page import cut_after

pytestmark = pytest.mark.django_db

AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ORDER = ["-at", "-id"]


def write(number: int) -> None:
    for _ in range(number):
        event = AuditEvent.objects.create(actor="alice", verb="plan")
        AuditEvent.objects.filter(pk=event.pk).update(at=AT)  # all at one moment: the id decides


def test_following_cursors_reads_each_row_once_while_others_are_added() -> None:
    write(7)
    wanted = list(AuditEvent.objects.values_list("pk", flat=True))
    found: list[int] = []
    cursor = ""
    while True:
        page = cut_after(AuditEvent.objects.all(), page=1, per_page=3, after=cursor)
        found += [row.pk for row in page.rows]
        write(2)  # newer than all of them
        if not page.cursor:
            break
        cursor = page.cursor
    assert found == wanted
    assert page.total == 7 + 2 * 2  # those of the list, not those left


def test_a_page_by_number_has_a_cursor_too() -> None:
    write(5)
    page = cut_after(AuditEvent.objects.all(), page=2, per_page=2, after="")
    assert (page.page, page.pages, len(page.rows)) == (2, 3, 2)
    last = cut_after(AuditEvent.objects.all(), page=1, per_page=2, after=page.cursor or "")
    assert len(last.rows) == 1 and last.cursor == ""
    assert cut_after(AuditEvent.objects.none(), page=1, per_page=2, after="").cursor == ""


def test_a_query_without_an_order_of_its_own_has_its_models() -> None:
    write(2)
    newest = AuditEvent.objects.first()
    assert newest is not None
    assert [
        row.pk for row in rows_after(AuditEvent.objects.all(), after(AuditEvent.objects.all(), newest))
    ] == [newest.pk - 1]


def packed(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "ü",
        "!!!!",
        packed({}),
        packed([["-id", "-at"], ["2026-01-01T00:00:00Z", 1]]),
        packed([]),
        packed([ORDER, ["2026-01-01", 1, 2]]),
        packed([ORDER, ["never", 1]]),
        packed([ORDER, [None, 1]]),
        packed([ORDER, ["2026-01-01T00:00:00Z", "x"]]),
        packed([ORDER, ["2026-01-01T00:00:00Z", [1]]]),
    ],
)
def test_it_refuses_what_is_no_cursor(cursor: str) -> None:
    with pytest.raises(CursorRefused):
        list(rows_after(AuditEvent.objects.all(), cursor))
