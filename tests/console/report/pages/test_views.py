"""The report's page: rows, runs, the form, the download, and every refusal."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client

from console.access.models import AuditEvent
from console.report import process, services
from console.report.delivery import schedules
from console.report.jobs import JOBS
from console.report.models import ReportRun
from console.report.pages import views
from console.text import Text
from tests.console.report import sample_rows as rows
from tests.console.report.sample_rows import DAY, HOUR, NOW, TODAY
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = [pytest.mark.django_db(databases=["default", "metrics"]), pytest.mark.usefixtures("java")]
PAGE = "/c/local/reports/lag_hour"
READS = ["/c/local/reports", PAGE, f"{PAGE}/csv"]


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_now_ms", lambda: NOW)


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(services, "enqueue", found.append)
    return found


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    return signed_in()


def page(client: Client, query: str = "") -> str:
    answer = client.get(PAGE + query)
    assert answer.status_code == 200
    return str(answer.content.decode())


@pytest.mark.parametrize("address", [*READS, f"{PAGE}/run"])
def test_it_asks_strangers_to_sign_in(client: Client, address: str) -> None:
    for answer in (client.get(address), client.post(address)):
        assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/sign-in")


@pytest.mark.parametrize("address", READS)
def test_it_refuses_without_the_right_to_look_at_anything(address: str) -> None:
    sample_rows.sample()
    assert signed_in("none", verbs=()).get(address).status_code == 404


def test_who_may_see_some_names_reads_their_rows_only(django_assert_max_num_queries: Any) -> None:
    sample_rows.sample()
    run = rows.run()
    rows.row(run, time_lag_max_ms=4_000)
    rows.row(run, group="analytics", time_lag_max_ms=150_000, produced=7_000)
    some = signed_in("some", verbs=("VIEW",), names="bill*")
    with django_assert_max_num_queries(20):
        text = page(some)
    assert ">billing</a>" in text and "1 not shown: you do not have the VIEW permission for them." in text
    assert "analytics" not in text and "8,000" not in text  # nor in the sums
    lines = b"".join(some.get(f"{PAGE}/csv")).decode()
    assert "billing" in lines and "analytics" not in lines
    assert some.get("/c/local/reports").status_code == 200
    assert some.post(f"{PAGE}/run").status_code == some.post(f"{PAGE}/schedule").status_code == 403
    stranger = page(signed_in("other", verbs=("VIEW",), names="nobody"))
    assert "Nothing here that you may view" in stranger and "2 rows are not shown" in stranger


def test_it_refuses_other_methods(admin: Client) -> None:
    assert [admin.post(address).status_code for address in READS] == [405, 405, 405]
    assert admin.get(f"{PAGE}/run").status_code == 405


def test_it_says_which_reports_there_are(admin: Client) -> None:
    index = admin.get("/c/local/reports").content.decode()
    assert all(f'href="/c/local/reports/{job}"' in index for job in JOBS)
    for address in ("/c/local/reports/lag_year", "/c/local/reports/lag_year/csv"):
        answer = admin.get(address)
        assert answer.status_code == 404
        assert "There is no report lag_year. Reports: lag_hour, lag_day, " in answer.content.decode()
    assert admin.post("/c/local/reports/lag_year/run").status_code == 404


def test_it_explains_itself_before_the_first_run(admin: Client) -> None:
    text = page(admin)
    assert "No report yet" in text and "You can also run it now." in text
    assert 'value="2024-10-03T00:00"' in text and 'value="2024-10-04T09:05"' in text  # yesterday to now, UTC
    assert "download" not in text.split("<main")[1]


def test_it_shows_rows_worst_first(admin: Client) -> None:
    run = rows.run()
    rows.row(run, time_lag_max_ms=4_000)
    rows.row(run, group="analytics", time_lag_max_ms=150_000, time_lag_censored=2, breach_ms=1_200_000)
    text = page(admin).split("<tbody")[1]
    assert text.index(">analytics</a>") < text.index(">billing</a>")
    assert "2 m 30 s" in text and "≥" in text and "20 m" in text
    text = page(admin)
    # what runs it and its times stand above the figures, whatever number of rows there is
    assert text.index('name="span"') < text.index('<dl class="stats"') > text.index('name="end"')
    assert "by Spark 4.3.0 in 9 s" in text
    assert 'data-run="report-1" data-state="SUCCEEDED"' in text


def test_it_marks_counts_of_offsets_and_says_what_has_no_column(admin: Client) -> None:
    own = {
        "offset_is_not_count": True,
        "last_consumed_age_ms": 7_000,
        "drain_by_speed_ms": 90_000,
        "skew_cv": 1.5,
        "time_lag_spread_ms": 30_000,
        "little_mean_ms": 12_000,
        "little_agrees": False,
        "filter_sampled": 512,
        "filter_ratio": 0.4,
        "filter_ratio_low": 0.36,
        "filter_ratio_high": 0.44,
    }
    rows.row(rows.run(), lag_max=4_321, **own)
    text = page(admin).split("<tbody")[1]
    assert 'data-why-at="0">≤</span>4,321' in text
    for words in (
        "<p>Offsets of this topic do not count messages: there are at most as many.</p>",
        "The newest message consumed was 7 s old at the end.",
        "At its catch-up speed it drains in 1 m 30 s.",
        "The lags of its queues vary by 150 % of their mean.",
        "Its oldest queue is 30 s behind its median queue.",
        "By lag and throughput, messages waited 12 s on average, which contradicts their ages.",
        "Of 512 sampled waiting messages, 40 % pass its filter (36 % to 44 %).",
    ):
        assert words in text
    (line,) = csv.DictReader(io.StringIO(b"".join(admin.get(f"{PAGE}/csv")).decode()))
    assert {name: line[name] for name in own} == {name: str(value) for name, value in own.items()}
    html = b"".join(admin.get(f"{PAGE}/html")).decode()
    assert "≤ 4,321" in html and "Time lag spread" in html and "1 m 30 s" in html


def test_it_shows_since_yesterday_unless_asked_for_more(admin: Client) -> None:
    run = rows.run()
    rows.row(run)
    rows.row(run, group="older", window_start_ms=TODAY - 3 * DAY)
    rows.row(run, group="oldest", window_start_ms=TODAY - 100 * DAY)
    assert ">older</a>" not in page(admin)
    assert ">older</a>" in page(admin, "?span=7d") and ">oldest</a>" not in page(admin, "?span=31d")
    assert ">oldest</a>" in page(admin, "?span=all")
    assert ">billing</a>" in page(admin, "?span=nonsense&grain=nonsense&sort=nonsense&page=x&rows=-1")
    assert "No rows for this time" in page(admin, "?grain=queue")
    assert "Nothing matches “nobody”" in page(admin, "?q=nobody")


def test_it_shows_queues(admin: Client) -> None:
    rows.publish(rows.run(), rows.queue(queue_id=3))
    assert "broker-a · 3" in page(admin, "?grain=queue")


def test_it_asks_few_questions_of_the_database(admin: Client, django_assert_max_num_queries: Any) -> None:
    run = rows.run()
    for number in range(60):
        rows.row(run, group=f"group-{number}")
    with django_assert_max_num_queries(17):
        page(admin)


def test_the_index_asks_few_questions_of_the_database(
    admin: Client, django_assert_max_num_queries: Any
) -> None:
    for number, job in enumerate(JOBS):
        rows.run(f"report-{number}", job=job)
    admin.get("/c/local/reports")  # schedules are made by now
    with django_assert_max_num_queries(13):
        text = admin.get("/c/local/reports").content.decode()
    assert text.count("took 9 s") == len(JOBS)


def test_it_runs_the_report(admin: Client, enqueued: list[str]) -> None:
    answer = admin.post(f"{PAGE}/run", {"start": "2024-10-04T07:30", "end": "2024-10-04T08:00"})
    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    run = ReportRun.objects.get()
    assert (run.from_ms, run.to_ms, enqueued) == (TODAY + 7 * HOUR, TODAY + 8 * HOUR, [run.id])
    assert AuditEvent.objects.get(verb="run report").actor == "admin"
    text = page(admin)
    assert "Queued</span></span>" in text and 'data-as="text">waiting for a worker</span>' in text
    assert 'data-live-subject="c/local/reports" data-key="lag_hour"' in text
    assert 'type="submit" disabled>Run hourly lag' in text


def test_it_does_not_run_twice_at_once(admin: Client, enqueued: list[str]) -> None:
    admin.post(f"{PAGE}/run")
    answer = admin.post(f"{PAGE}/run", follow=True)
    assert "is already being computed" in answer.content.decode()
    assert len(enqueued) == ReportRun.objects.count() == 1


def test_it_says_what_is_wrong_with_a_window(admin: Client, enqueued: list[str]) -> None:
    answer = admin.post(f"{PAGE}/run", {"start": "2024-10-04T07:30", "end": "2024-10-04T06:00"})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert 'id="end-why" role="alert">The end must be after the start.' in text
    assert 'value="2024-10-04T06:00"' in text  # what was typed stays
    assert admin.post(f"{PAGE}/run", {"start": '"><script>'}).status_code == 422
    assert enqueued == []


def test_it_refuses_a_run_without_the_verb(enqueued: list[str]) -> None:
    sample_rows.sample()
    for number, verbs in enumerate([("VIEW",), ("VIEW", "SEND", "RESET", "REPLAY")]):
        person = signed_in(f"person-{number}", verbs=verbs)
        assert person.post(f"{PAGE}/run").status_code == 403
        text = page(person)
        assert (
            "disabled>Run hourly lag" in text
            and "This needs permission to run reports (REPORT) on local." in text
        )
    assert signed_in("maintainer", verbs=("REPORT",)).post(f"{PAGE}/run").status_code == 302
    assert len(enqueued) == 1


def test_it_says_what_to_install_without_java(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    rows.row(rows.run())
    monkeypatch.setattr(
        process, "java_problem", lambda: "On Debian: apt-get install openjdk-17-jre-headless."
    )
    text = page(admin)
    assert "Reports cannot be computed on this machine.</strong> On Debian: apt-get install" in text
    assert "disabled>Run hourly lag" in text
    assert ">billing</a>" in text  # what was computed elsewhere or before is still there


def test_it_says_why_the_last_run_failed(admin: Client) -> None:
    rows.row(rows.run())
    rows.run("report-2", requested_at_ms=NOW, state="FAILED", error=Text("The <disk> is full"))
    text = page(admin)
    assert (
        "The last run failed" in text
        and "The &lt;disk&gt; is full The rows below are from earlier runs." in text
    )


def test_it_says_who_could_not_be_told_and_what_was_left_out(admin: Client) -> None:
    told = [
        {"kind": "email", "to": "ops@example.org", "ok": True, "error": "", "at_ms": NOW, "tries": 1},
        {
            "kind": "webhook",
            "to": "chat.example.org",
            "ok": False,
            "error": "answered 500",
            "at_ms": NOW,
            "tries": 2,
        },
    ]
    schedule = next(one for one in schedules.stored_schedules("local", now_ms=NOW) if one.job == "lag_hour")
    schedule.last_run, schedule.last_outcome = (
        rows.run(deliveries=told),
        Text("left out, runs do not overlap"),
    )
    schedule.save()
    text = page(admin)
    assert (
        "The webhook to chat.example.org was not delivered" in text and "answered 500. Tried 2 times" in text
    )
    assert "Mailed to ops@example.org" in text
    assert "left out, runs do not overlap" in text and "The next scheduled run tries again." in text
    index = admin.get("/c/local/reports").content.decode()
    assert "1 of 2 receivers not reached" in index and "left out, runs do not overlap" in index
    reader = page(signed_in("reader", verbs=("VIEW",)))
    assert "The webhook was not delivered" in reader and "example.org" not in reader


def test_the_running_hour_is_marked(admin: Client) -> None:
    run = rows.run()
    rows.row(run, window_end_ms=NOW - 60_000, window_start_ms=TODAY + 9 * HOUR)
    rows.row(run)
    text = page(admin).split("<tbody")[1]
    assert text.count(">so far</span>") == 1 and "figures up to 4 Oct 2024 09:04:00 UTC" in text
    assert "by run report-1, version 0.1.0. Sampled every 5 s, the largest gap is 10 s." in text


def test_it_names_the_files_that_could_not_be_read(admin: Client) -> None:
    rows.row(rows.run(warnings=["a.parquet: ArrowInvalid", "b.wal: damaged inside"]))
    text = page(admin)
    assert "Part of the window could not be read." in text and "b.wal: damaged inside" in text


def test_it_says_how_large_a_download_is(admin: Client) -> None:
    run = rows.run()
    for number in range(120):
        rows.row(run, group=f"group-{number}", time_lag_max_ms=number)
    csv, parquet, whole = admin.get(PAGE).context["downloads"]
    real = len(b"".join(admin.get(csv.url)))
    assert abs(csv.size.bytes - real) < real * 0.1
    assert csv.size.words == f"the rows that match the filter: 120 rows, {csv.size.short}"
    assert parquet.size.words == "the rows that match the filter: 120 rows, size unknown"
    assert "at most 2,000 per table" in whole.size.words and whole.size.words in page(admin)


def test_it_downloads_what_the_filter_leaves(admin: Client) -> None:
    run = rows.run()
    rows.row(run)
    rows.row(run, group="analytics")
    rows.row(run, group="older", window_start_ms=TODAY - 3 * DAY)
    assert f"{PAGE}/csv?q=bill" in page(admin, "?q=bill")
    answer = admin.get(f"{PAGE}/csv?q=bill")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="local-lag_hour.csv"'
    lines = b"".join(answer).decode().splitlines()
    assert lines[0].startswith("run_id,grain,cluster,kind,group,topic")
    assert [line.split(",")[4] for line in lines[1:]] == ["billing"]
    everything = b"".join(admin.get(f"{PAGE}/csv?span=all"))
    assert everything.count(b"\r\n") == 4
