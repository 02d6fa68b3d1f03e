"""Tables of reviews on pages and in downloads: tabs, cells by kind, parts of a report's rows, how many queries."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.report.columns import REVIEWS, VIEWS
from console.report.models import ReportRow, ReportRun
from console.report.pages import line_views, views
from tests.console.report import sample_rows as rows
from tests.console.report.sample_rows import DAY, HOUR, NOW, TODAY
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = [pytest.mark.django_db(databases=["default", "metrics"]), pytest.mark.usefixtures("java")]


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (line_views, views):
        monkeypatch.setattr(module, "_now_ms", lambda: NOW)


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


def add(run: ReportRun, grain: str, kind: str = "GROUP", group: str = "billing", **figures: Any) -> None:
    ReportRow.objects.create(
        run=run, job=run.job, grain=grain, cluster="local", kind=kind, group=group, topic="", coverage_pct=97.5,
        window_start_ms=TODAY, window_end_ms=TODAY + DAY, figures=figures, generated_at_ms=NOW,
    )  # fmt: skip


def text(client: Client, address: str) -> str:
    answer = client.get(f"/c/local/reports/{address}")
    assert answer.status_code == 200, address
    return answer.content.decode()


@pytest.mark.parametrize(("job", "view"), [(job, view) for job in VIEWS for view in VIEWS[job]])
def test_every_table_has_a_page_with_its_tab_also_while_it_is_empty(
    admin: Client, job: str, view: Any
) -> None:
    page = text(admin, f"{job}?grain={view.key}")
    assert f'grain={view.key}" aria-current="page"' in page or len(VIEWS[job]) == 1
    assert ('grain=queue"' in page) == (job in REVIEWS)


def test_a_promise_that_was_broken_shows_how_far_its_budget_is_overspent(admin: Client) -> None:
    run = rows.run(job="lag_day")
    add(run, "slo", good_pct=95.8333, target_pct=99.0, budget_left_pct=-116.4, budget_days=28, slo_ms=60_000)
    add(run, "slo", group="audit", good_pct=99.99, target_pct=99.0, budget_left_pct=82.1, budget_days=3)
    page = text(admin, "lag_day?grain=slo")
    assert "95.83 %" in page and "116 % over" in page and "82.1 %" in page
    assert page.index("billing") < page.index("audit")  # the one with the least left first
    assert b"95.83 %" in b"".join(admin.get("/c/local/reports/lag_day/html?grain=slo"))
    lines = b"".join(admin.get("/c/local/reports/lag_day/csv?grain=slo")).decode().splitlines()
    assert len(lines) == 3 and "budget_left_pct" in lines[0]


def test_a_change_is_strong_only_where_it_is_clear(admin: Client) -> None:
    run = rows.run(job="lag_week")
    known = {"in_before": 100.0, "in_now": 288.0, "in_change_pct": 188.0, "in_days": 7, "in_p": 0.0156}
    add(run, "trend", **known, in_verdict="higher", late_message_hours=3.5)
    add(run, "trend", group="audit", **{**known, "in_change_pct": 4_000.0}, in_verdict="no clear change")
    page = text(admin, "lag_week?grain=trend")
    assert (
        'class="strong" tabindex="0" data-tip="100 → 288, higher, 7 pairs of days, p = 0.016">+188.0 %'
        in page
    )
    assert 'class="muted"' in page and "× 41" in page


def test_resets_say_who(admin: Client) -> None:
    run = rows.run(job="lag_day")
    add(run, "event", kind="REWIND", at_ms=TODAY + HOUR, messages=1_234, queues=1, by="outside this console")
    page = text(admin, "lag_day?grain=event")
    assert "Set back" in page and "1,234" in page and "outside this console" in page


def test_the_worst_of_each_hour_are_ranked_by_one_figure_a_table(admin: Client) -> None:
    run = rows.run(job="lag_hour")
    add(run, "topn", by="time_lag", rank=1, value=90_000.0, worst_queue="broker-a · 1")
    add(run, "topn", group="audit", by="burn", rank=1, value=33.25)
    page = text(admin, "lag_hour?grain=top-time_lag")
    assert "1 m 30 s" in page and "audit" not in page
    assert "33.2 ×" in text(admin, "lag_hour?grain=top-burn")


def test_parts_of_a_report_leave_the_other_rows_out(admin: Client) -> None:
    run = rows.run(job="capacity")
    add(run, "group", runway_ms=5 * HOUR)
    add(run, "group", group="audit", runway_ms=3 * DAY, skew_offender="broker-a · 1", skew_share_pct=62.5)
    assert "audit" not in text(admin, "capacity?grain=retention")
    skew = text(admin, "capacity?grain=skew")
    assert "billing" not in skew and "62.5 %" in skew
    assert len(b"".join(admin.get("/c/local/reports/capacity/csv?grain=retention")).splitlines()) == 2
    html = b"".join(admin.get("/c/local/reports/capacity/html?grain=retention")).decode()
    assert html.count("<h2>") == 1


def test_more_rows_take_no_more_queries(admin: Client) -> None:
    run = rows.run(job="lag_day")
    text(admin, "lag_day?grain=slo")  # schedules are made when they are first looked at
    counts = []
    for more in (1, 30):
        for number in range(more):
            add(run, "slo", group=f"group-{more}-{number}", good_pct=99.0, budget_left_pct=10.0)
        with CaptureQueriesContext(connections["default"]) as queries:
            text(admin, "lag_day?grain=slo")
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("job", ["lag_hour", "lag_day", "lag_week"])
def test_lag_and_reviews_are_downloads_of_their_own(admin: Client, job: str) -> None:
    run = rows.run(job=job)
    rows.row(run, job=job)
    add(run, REVIEWS[job][0].grain, by="time_lag", rank=1, value=1.0, group="audit")
    lag = b"".join(admin.get(f"/c/local/reports/{job}/html?span=all")).decode()
    assert "Groups and topics" in lag and "billing" in lag and "audit" not in lag
    review = b"".join(admin.get(f"/c/local/reports/{job}/html?span=all&grain={REVIEWS[job][0].key}")).decode()
    assert "audit" in review and "billing" not in review
