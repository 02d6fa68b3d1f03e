"""The size that a list's file is said to have, beside the file itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.utils import translation

from console.access.activity_list import ACTIVITY
from console.access.models import AuditEvent
from console.lists.export_size import ExportSize, of_list
from console.lists.page import FILE_ROWS_MAX, Page, cut

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    with translation.override("en"):
        yield


def test_it_is_close_to_the_file() -> None:
    for number in range(120):
        AuditEvent.objects.create(actor="alice", verb="plan", subject="orders" * (number % 7))
    events = AuditEvent.objects.all()
    real = sum(len(line.encode()) for line in ACTIVITY.csv(events))
    size = of_list(cut(events, page=1, per_page=50), ACTIVITY)
    assert size.bytes is not None and abs(size.bytes - real) < real * 0.1
    assert size.words == f"120 rows, {size.short}" and size.short.startswith("about ")


def test_without_rows_it_is_not_known() -> None:
    size = of_list(cut(AuditEvent.objects.none(), page=1, per_page=50), ACTIVITY)
    assert (size.bytes, size.short, size.words) == (None, "", "0 rows")


def test_what_is_not_known_is_unknown_and_not_0() -> None:
    assert ExportSize(None, None).words == "size unknown"
    assert ExportSize(7, None).words == "7 rows, size unknown"
    assert ExportSize(7_000, 4_200_000, is_most=True).words == "at most 7,000 rows, at most 4.2 MB"


def test_it_says_before_that_a_file_is_refused() -> None:
    page: Page[AuditEvent] = Page([], FILE_ROWS_MAX + 1, 1, 401, 50, FILE_ROWS_MAX + 1)
    size = of_list(page, ACTIVITY)
    assert size.is_refused and size.short == "too many rows"
    assert size.words == "20,001 rows match, and a file holds 20,000. Narrow the filter."
    newest = of_list(page, ACTIVITY, 20_000)  # a file that leaves out the rest instead
    assert not newest.is_refused and newest.rows == 20_000
