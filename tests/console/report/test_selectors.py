"""What pages, REST and exports read."""

from __future__ import annotations

import csv
import io

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.report import selectors
from console.report.models import LagRow, ReportRun
from tests.console.report import sample_rows as rows
from tests.console.report.sample_rows import HOUR, NOW, TODAY

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> ReportRun:
    made = rows.run()
    for group, time_lag_ms in (("billing", 4_000), ("analytics", 90_000), ("silent", None), ("idle", 0)):
        rows.row(made, group=group, time_lag_max_ms=time_lag_ms)
    return made


def groups(**arguments: object) -> list[str]:
    page = selectors.row_page(selectors.rows("local"), **arguments)  # type: ignore[arg-type]
    return [row.group for row in page.rows]


def test_it_sorts_unknown_figures_last_both_ways(run: ReportRun) -> None:
    assert groups() == ["analytics", "billing", "idle", "silent"]
    assert groups(descending=False) == ["idle", "billing", "analytics", "silent"]
    assert groups(sort="group", descending=False) == ["analytics", "billing", "idle", "silent"]
    assert groups(sort="id; drop table") == ["analytics", "billing", "idle", "silent"]


def test_it_pages_and_keeps_numbers_in_bounds(run: ReportRun) -> None:
    page = selectors.row_page(selectors.rows("local"), page=2, per_page=3)
    assert ([row.group for row in page.rows], page.total, page.pages) == (["silent"], 4, 2)
    assert selectors.row_page(selectors.rows("local"), page=99, per_page=3).page == 2
    assert selectors.row_page(selectors.rows("local"), per_page=10_000).per_page == 500
    assert selectors.row_page(selectors.rows("nothing")).pages == 1


def test_it_filters(run: ReportRun) -> None:
    rows.row(run, cluster="other")
    rows.row(run, window_start_ms=TODAY)
    assert selectors.rows("local").count() == 5
    assert selectors.rows("local", group="BILL").count() == 2
    assert selectors.rows("local", from_ms=TODAY + 1).count() == 4
    assert selectors.rows("local", to_ms=TODAY + 8 * HOUR).count() == 1


def test_it_sums_up_without_adding_unknowns(run: ReportRun) -> None:
    figures = selectors.summary(selectors.rows("local"))
    assert figures.worst.group == "analytics"
    assert (figures.time_lag_max_ms, figures.produced) == (90_000, 4_000)
    assert (figures.breach_ms, figures.coverage_pct) == (0, 99.86)
    nothing = selectors.summary(selectors.rows("nothing"))
    assert (nothing.worst, nothing.time_lag_max_ms, nothing.produced) == (None, None, None)
    LagRow.objects.filter(group="analytics").delete()
    LagRow.objects.filter(group="billing").delete()
    assert selectors.summary(selectors.rows("local")).worst is None  # nothing waited: nobody is the worst


def test_it_reads_a_page_with_few_queries(run: ReportRun) -> None:
    with CaptureQueriesContext(connection) as queries:
        selectors.row_page(selectors.rows("local"))
        selectors.summary(selectors.rows("local"))
        [each.as_row() for each in selectors.runs("local", "lag_hour")]
        selectors.last_success("local", "lag_hour")
    assert len(queries) == 6


def test_it_lists_runs_newest_first(run: ReportRun) -> None:
    rows.run("report-2", requested_at_ms=NOW, state="QUEUED", finished_at_ms=None)
    rows.run("report-3", cluster="other")
    assert [each.id for each in selectors.runs("local", "lag_hour")] == ["report-2", "report-1"]
    assert [each.id for each in selectors.run_page("local", state="QUEUED").rows] == ["report-2"]
    assert selectors.run_page("local", job="lag_day").total == 0
    found = selectors.last_success("local", "lag_hour")
    assert found is not None and found.id == "report-1"
    with pytest.raises(ReportRun.DoesNotExist):
        selectors.run("report-9")


def test_it_exports_every_column_and_no_formula(run: ReportRun) -> None:
    for name in ("=cmd|' /C calc'!A0", "+1", "-1", "@sum", "\tx", 'comma, "quote"'):
        rows.row(run, group=name, window_start_ms=TODAY)
    rows.row(run, group="negative", window_start_ms=TODAY + 9 * HOUR, lag_max=-5)
    text = "".join(selectors.csv_lines(selectors.rows("local")))
    table = list(csv.DictReader(io.StringIO(text, newline="")))
    assert tuple(table[0]) == (*selectors.COLUMNS, "window_start_utc", "is_partial")
    assert (table[0]["window_start_utc"], table[0]["is_partial"]) == ("2024-10-04T00:00:00Z", "False")
    assert {"run_id", "group", "time_lag_p99_ms", "worst_queue", "code_version"} <= set(table[0])
    assert sorted(row["group"] for row in table[:6]) == [
        "'\tx", "'+1", "'-1", "'=cmd|' /C calc'!A0", "'@sum", 'comma, "quote"',
    ]  # fmt: skip
    (silent,) = [row for row in table if row["group"] == "silent"]
    assert (silent["time_lag_max_ms"], silent["lag_max"]) == ("", "40")
    assert table[-1]["lag_max"] == "-5"  # a number is no formula
