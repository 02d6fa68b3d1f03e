"""Pages of the reports that are not lag per window: tables, sorting by a figure, episodes as lanes, downloads."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client

from console.cluster.models import Cluster
from console.report.columns import VIEWS
from console.report.delivery import schedules
from console.report.jobs import JOBS, LAG_JOBS, WORDS
from console.report.models import ReportRow, ReportRun, ReportSchedule
from console.report.pages import line_views
from tests.console.report import sample_rows as rows
from tests.console.report.sample_rows import DAY, HOUR, NOW, TODAY
from tests.support import sample_rows
from tests.support.people import signed_in
from tests.support.shown import as_shown

pytestmark = [pytest.mark.django_db(databases=["default", "metrics"]), pytest.mark.usefixtures("java")]


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_views, "_now_ms", lambda: NOW)


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


@pytest.fixture
def run() -> ReportRun:
    return rows.run(job="capacity")


def add(run: ReportRun, job: str, grain: str, group: str, kind: str = "GROUP", **figures: Any) -> ReportRow:
    return ReportRow.objects.create(
        run=run,
        job=job,
        grain=grain,
        cluster="local",
        kind=kind,
        group=group,
        topic="orders",
        window_start_ms=TODAY,
        window_end_ms=TODAY + DAY,
        figures=figures,
        generated_at_ms=NOW,
    )


def text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def order(page: str, *names: str) -> list[str]:
    return sorted(names, key=lambda name: page.index(f">{name}</a>"))


def test_every_report_has_words_and_a_page(admin: Client) -> None:
    assert set(WORDS) == set(JOBS) == {*LAG_JOBS, *VIEWS}
    for job in JOBS:
        assert JOBS[job] in text(admin, f"/c/local/reports/{job}")


def test_it_sorts_by_a_figure_and_puts_unknown_last_both_ways(admin: Client, run: ReportRun) -> None:
    add(run, "capacity", "group", "small", utilisation_pct=9.5)
    add(run, "capacity", "group", "large", utilisation_pct=101.2)
    add(run, "capacity", "group", "unknown-one")
    page = "/c/local/reports/capacity"
    assert order(text(admin, page), "small", "large", "unknown-one") == ["large", "small", "unknown-one"]
    upward = text(admin, f"{page}?sort=utilisation_pct&dir=asc")
    assert order(upward, "small", "large", "unknown-one") == ["small", "large", "unknown-one"]
    assert "101.2 %" in upward


def test_it_filters_by_name_and_says_when_nothing_matches(admin: Client, run: ReportRun) -> None:
    add(run, "capacity", "group", "billing", utilisation_pct=9.5)
    assert ">billing</a>" in text(admin, "/c/local/reports/capacity?q=bill")
    assert "Nothing matches “nobody”" in text(admin, "/c/local/reports/capacity?q=nobody")


@pytest.mark.parametrize(("job", "grain"), [("capacity", "group"), ("lag_trend", "month"), ("episodes", "")])
def test_rows_of_system_groups_are_hidden_unless_requested(
    admin: Client, run: ReportRun, job: str, grain: str
) -> None:
    sample_rows.group_row("CID_RMQ_SYS_TRANS", is_system=True)
    moments = {"start_ms": TODAY, "end_ms": TODAY + HOUR, "duration_ms": HOUR}
    for group in ("billing", "CID_RMQ_SYS_TRANS"):
        if job == "episodes":
            add(run, job, grain, group, "stall", **moments)
        else:
            add(run, job, grain, group)
    page = f"/c/local/reports/{job}"
    shown = text(admin, f"{page}?span=all")
    assert ">billing</a>" in shown and "CID_RMQ_SYS_TRANS" not in shown
    assert "<b>1</b> system hidden" in as_shown(shown)
    everything = text(admin, f"{page}?span=all&system=1")
    assert ">CID_RMQ_SYS_TRANS</a>" in everything and "System shown" in everything
    files = [f"{page}/csv?span=all{more}" for more in ("", "&system=1")]
    held = [b"CID_RMQ_SYS" in b"".join(admin.get(one)) for one in files]
    assert held == [False, True]


def test_each_grain_has_its_table(admin: Client, run: ReportRun) -> None:
    add(run, "dead_letter", "cause", "billing", cause="retries used up", letters=3)
    add(run, "dead_letter", "group", "billing", letters=3)
    assert "retries used up" in text(admin, "/c/local/reports/dead_letter?grain=cause")
    assert "retries used up" not in text(admin, "/c/local/reports/dead_letter")


def test_episodes_are_lanes_and_rows(admin: Client, run: ReportRun) -> None:
    for group, minutes in (("billing", 5), ("analytics", 50)):
        start_ms = TODAY + HOUR
        figures = {
            "start_ms": start_ms,
            "end_ms": start_ms + minutes * 60_000,
            "duration_ms": minutes * 60_000,
        }
        add(
            run,
            "episodes",
            "episode",
            group,
            "stall",
            cause="queue stuck",
            peak_time_lag_ms=70_000,
            **figures,
        )
    page = text(admin, "/c/local/reports/episodes?sort=duration")
    assert order(page, "billing", "analytics") == ["analytics", "billing"]
    lanes = line_views.lanes(ReportRow.objects.all(), TODAY, NOW)
    assert lanes is not None
    assert [row.name for row in lanes.rows] == ["analytics", "billing"]
    assert lanes.rows[0].bars[0].kind == "stall"
    assert line_views.lanes(ReportRow.objects.none(), TODAY, NOW) is None


def test_it_downloads_what_the_page_shows(admin: Client, run: ReportRun) -> None:
    add(run, "capacity", "group", "billing", utilisation_pct=9.5)
    add(run, "capacity", "group", "other", utilisation_pct=1.0)
    answer = admin.get("/c/local/reports/capacity/csv?q=bill")
    lines = b"".join(answer).decode().splitlines()
    assert len(lines) == 2
    assert "utilisation_pct" in lines[0] and "9.5" in lines[1]


def test_parquet_and_html_hold_the_same_rows(admin: Client, run: ReportRun) -> None:
    add(run, "capacity", "group", "billing", utilisation_pct=9.5, clients=3, dead_weight="idle")
    add(run, "capacity", "group", "other", clients=4)
    answer = admin.get("/c/local/reports/capacity/parquet")
    table = pq.read_table(io.BytesIO(b"".join(answer)))
    assert table.column("group").to_pylist() == ["billing", "other"]
    assert table.column("utilisation_pct").to_pylist() == [9.5, None]
    assert table.schema.field("clients").type == pa.int64()
    html = as_shown(b"".join(admin.get("/c/local/reports/capacity/html")).decode())
    assert ">billing on orders</td>" in html and "2 rows" in html
    assert '<th scope="col" class="n">Capacity /s</th>' in html and '<td class="n">9.5 %</td>' in html
    assert "<script" not in html and "@media print" in html


def test_parquet_of_nothing_is_a_file(admin: Client, run: ReportRun) -> None:
    answer = admin.get("/c/local/reports/lag_hour/parquet")
    assert pq.read_table(io.BytesIO(b"".join(answer))).num_rows == 0


def test_the_schedule_is_changed_on_the_page(admin: Client) -> None:
    page, form = (
        "/c/local/reports/capacity",
        {"is_on": "on", "cadence": "WEEKLY", "weekday": "2", "hour": "6"},
    )
    answer = admin.post(
        f"{page}/schedule", {**form, "minute": "61", "emails": "ops", "webhook_url": "ftp://x"}
    )
    body = answer.content.decode()
    assert answer.status_code == 422
    for words in ("Enter at most 59.", "not an e-mail address", "begins with https://"):
        assert words in body
    assert '<details class="fold" open>' in body
    good = {
        **form,
        "minute": "5",
        "emails": "ops@example.org",
        "webhook_url": "https://chat.example.org/hooks/secret",
    }
    assert admin.post(f"{page}/schedule", good).status_code == 302
    body = text(admin, page)
    assert (
        "on Wednesday at 06:05 UTC" in body and "set: chat.example.org" in body and "hooks/secret" not in body
    )
    assert '<details class="fold" open>' not in body and "sent to 2 receivers" in body
    admin.post(f"{page}/schedule", {**good, "webhook_url": ""})
    assert ReportSchedule.objects.get(job="capacity").webhook_url == good["webhook_url"]
    admin.post(f"{page}/schedule", {**good, "webhook_url": "", "no_webhook": "on"})
    assert ReportSchedule.objects.get(job="capacity").webhook_url == ""


def test_only_who_may_configure_changes_schedules_and_promises() -> None:
    sample_rows.sample()
    looker = signed_in("looker", verbs=("VIEW",))
    assert looker.post("/c/local/reports/capacity/schedule", {}).status_code == 403
    assert looker.post("/c/local/reports/groups/billing/slo", {}).status_code == 403
    assert "Save schedule" not in text(looker, "/c/local/reports/capacity")


def test_a_promise_is_both_figures_or_none(admin: Client) -> None:
    address = "/c/local/reports/groups/billing/slo"
    answer = admin.post(address, {"seconds": "5", "target_pct": ""})
    assert (answer.status_code, "Enter both, or leave both empty" in answer.content.decode()) == (422, True)
    assert admin.post(address, {"seconds": "5", "target_pct": "99.9"}).status_code == 302
    assert schedules.slo_of("local", "billing")[:2] == (5_000, 0.999)
    admin.post(address, {"seconds": "", "target_pct": ""})
    assert schedules.slo_of("local", "billing")[:2] == (60_000, 0.99)
    versions = schedules.slo_versions("local", "billing")
    assert [(one.slo_ms, one.target) for one in versions] == [(None, None), (5_000, 0.999)]
    page = text(admin, "/c/local/reports/groups/billing")
    assert "Versions of the SLO" in page and page.count(versions[0].set_by) >= 2


def test_a_generated_cluster_has_no_report_of_store_files() -> None:
    sample_rows.sample()
    client = signed_in()
    assert "/reports/topic_traffic" in text(client, "/c/local/reports")
    Cluster.objects.filter(name="local").update(generated_to_ms=NOW)
    listed = text(client, "/c/local/reports")
    assert "/reports/lag_hour" in listed
    assert "/reports/topic_traffic" not in listed and "/reports/dead_letter" not in listed
    assert "Not for generated data" in text(client, "/c/local/reports/topic_traffic")
