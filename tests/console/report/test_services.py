"""A report's life: asked for once, computed once, its rows replaced together, its worker's death survived."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from redis import Redis

from console.access.models import AuditEvent
from console.access.rules import TokenPrincipal
from console.access.services import create_token
from console.cluster.models import Cluster
from console.lag.models import HistoryFile
from console.live import hub as live
from console.report import process, services
from console.report.models import LagRow, ReportRun
from console.report.rules import LEASE_MS, ReportRejected, Window
from console.report.services import ReportAlreadyRunning
from console.text import Text
from console.text.value import of_json
from spark.lag.round.status import WORST_FIRST
from tests.console.report import sample_rows as rows
from tests.console.report.conftest import FakeSpark
from tests.console.report.fake_job import answer
from tests.console.report.sample_rows import HOUR, NOW, TODAY, figures

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
WINDOW = Window(TODAY + 6 * HOUR, TODAY + 9 * HOUR)


def request(**changes: Any) -> ReportRun:
    values: dict[str, Any] = {
        "job": "lag_hour", "cluster": "local", "window": WINDOW, "actor": None, "now_ms": NOW,
    }  # fmt: skip
    return services.request_run(**{**values, **changes})


def computed(run: ReportRun, now_ms: int = NOW) -> ReportRun:
    services.run_report(run.id, now_ms=now_ms)
    return ReportRun.objects.get(pk=run.id)


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were handed to workers: no Redis here."""
    found: list[str] = []
    monkeypatch.setattr(services, "enqueue", found.append)
    return found


# --- asking ---


def test_it_asks_for_one_run_at_a_time(cluster: Cluster) -> None:
    first = request()
    with pytest.raises(ReportAlreadyRunning) as refusal:
        request()
    assert refusal.value.run == first
    assert str(refusal.value) == f"Hourly lag of local is already being computed ({first.id})."
    ReportRun.objects.filter(pk=first.id).update(state=ReportRun.State.FAILED)
    assert request().id != first.id
    assert request(cluster="other").state == "QUEUED"


def test_it_refuses_a_report_that_does_not_exist(cluster: Cluster) -> None:
    with pytest.raises(ReportRejected, match="There is no report lag_year. Reports: lag_hour, lag_day, "):
        request(job="lag_year")


def test_it_writes_down_who_asked(cluster: Cluster) -> None:
    person = User.objects.create_user("alice", is_superuser=True)
    run = request(actor=person, remote_addr="10.0.0.9")
    event = AuditEvent.objects.get()
    assert (event.actor, event.verb, event.cluster, event.subject) == (
        "alice",
        "run report",
        "local",
        "lag_hour",
    )
    assert (event.after, event.remote_addr) == (
        {"run": run.id, "from_ms": WINDOW.from_ms, "to_ms": WINDOW.to_ms},
        "10.0.0.9",
    )
    assert run.as_row()["requested_by"] == "alice"


def test_it_takes_a_token_for_its_owner(cluster: Cluster) -> None:
    person = User.objects.create_user("alice", is_superuser=True)
    token, _ = create_token(owner=person, name="ci", scopes=["ADMIN"])
    run = request(actor=TokenPrincipal(person, token))
    assert ReportRun.objects.get(pk=run.id).requested_by == person


def test_it_says_that_the_task_queue_is_away(cluster: Cluster) -> None:
    run = request()
    services.enqueue(run.id)  # settings of the tests name a Redis where nothing listens
    run.refresh_from_db()
    assert (run.state, run.step) == ("QUEUED", "waiting: the task queue does not answer, check Redis")


# --- computing ---


def test_it_computes_and_puts_the_rows_in_place(cluster: Cluster, spark_job: FakeSpark) -> None:
    before = rows.run("report-0")
    rows.row(before, lag_max=1)
    rows.row(before, window_start_ms=TODAY + 6 * HOUR, lag_max=2)  # an hour whose history is gone
    rows.row(before, window_start_ms=TODAY + 9 * HOUR, lag_max=3)  # an hour nobody asked about
    rows.row(before, cluster="other", lag_max=4)
    spark_job.computes(figures(lag_max=11), figures(group="=sum", lag_max=None), warnings=("a.wal: torn",))
    run = computed(request())
    assert (run.state, run.error, run.step, run.row_count, run.attempts) == ("SUCCEEDED", "", "", 2, 1)
    six = datetime.fromtimestamp(TODAY / 1000, UTC) + timedelta(hours=6)
    assert run.warnings == [f"{six:%Y-%m-%d} 06:00:00–07:00:00 UTC: no history", "a.wal: torn"]
    assert run.spark_version == "4.3.0"
    found = LagRow.objects.order_by("cluster", "window_start_ms", "group")
    assert [(row.cluster, row.run_id, row.group, row.lag_max) for row in found] == [
        ("local", "report-0", "billing", 2),
        ("local", run.id, "=sum", None),
        ("local", run.id, "billing", 11),
        ("local", "report-0", "billing", 3),
        ("other", "report-0", "billing", 4),
    ]
    assert run.started_at_ms == NOW and run.finished_at_ms is not None and run.finished_at_ms >= NOW
    assert run.output == f"{spark_job.folder}/reports/runs/lag_hour/{run.id}/attempt-1"


def test_it_keeps_every_kind_of_value(cluster: Cluster, spark_job: FakeSpark) -> None:
    spent = [0] * len(WORST_FIRST)
    spent[0], spent[-1] = 60_000, 3_540_000
    odd = 'a, "quoted" \\ name'
    spark_job.computes(
        figures(topic="a", worst_queue="", drain_never=True, lag_max=2**60, status_ms=spent, lag_counts=[1]),
        figures(topic="b", worst_queue=odd, drain_never=None, in_rate=0.1, status_ms=None, lag_counts=[2]),
    )
    computed(request())
    first, second = LagRow.objects.order_by("topic")
    assert (first.worst_queue, first.drain_never, first.lag_max) == ("", True, 2**60)
    assert first.status_ms == {WORST_FIRST[0].value: 60_000, WORST_FIRST[-1].value: 3_540_000}
    assert (second.worst_queue, second.drain_never, second.in_rate) == (odd, None, 0.1)
    assert (second.status_ms, second.counted_ms, second.lag_first) == ({}, 0, None)  # as the model says


def test_it_gives_spark_the_hours_with_history_and_their_files(
    cluster: Cluster, spark_job: FakeSpark
) -> None:
    run = computed(request())
    spec = run.spec
    assert [(hour["hour_ms"], len(hour["files"]), len(hour["older"])) for hour in spec["hours"]] == [
        (TODAY + 7 * HOUR, 1, 0),
        (TODAY + 8 * HOUR, 1, 1),  # the hour before too: time lags reach back
    ]
    assert spec["hours"][0]["files"][0].endswith("/history/kind=chunk_hour/hour=7.parquet")
    assert (spec["interval_ms"], spec["slo_ms"], spec["as_of_ms"]) == (5_000, 60_000, NOW)
    assert (spec["job_id"], spec["code_version"]) == (run.id, "0.1.0")


def test_it_keeps_the_old_rows_when_anything_fails(cluster: Cluster, spark_job: FakeSpark) -> None:
    rows.row(rows.run("report-0"), lag_max=1)
    for rows_of_job, reason in (
        ((figures(lag_max=9), figures(lag_max=9)), "unique constraint"),  # the same key twice
        ((figures(lag_max=9), figures(group="b", produced=None)), "not null constraint"),
    ):
        spark_job.computes(*rows_of_job)
        run = computed(request())
        assert run.state == "FAILED" and reason in run.error.lower().replace("not-null", "not null")
    spark_job.does("print('ERROR the disk is full'); sys.exit(1)")
    assert computed(request()).error == "the disk is full"
    assert [row.lag_max for row in LagRow.objects.all()] == [1]


def test_it_fails_honestly_on_a_result_that_does_not_fit(
    cluster: Cluster, spark_job: FakeSpark, caplog: pytest.LogCaptureFixture
) -> None:
    spark_job.computes(figures(colour="red"))
    run = computed(request())
    assert (run.state, run.error) == ("FAILED", "Internal error of the console; see the worker's log.")
    assert "columns that its table lacks: colour" in caplog.text
    part = "part-00000-topic-000.parquet"
    spark_job.does(
        f"os.makedirs(spec['output']); open(spec['output'] + '/{part}', 'w').write('none')\n" + answer(1)
    )
    assert "Parquet" in computed(request()).error


def test_it_states_what_of_the_window_nobody_knows(cluster: Cluster, spark_job: FakeSpark) -> None:
    """Of an hour that was set aside the rows of before stay, also where the file of its day says it has everything."""
    eight = HistoryFile.objects.get(ts_lo_ms=TODAY + 8 * HOUR)
    eight.state, eight.reason = "quarantined", Text("it is gone")
    eight.save()
    HistoryFile.objects.create(
        path="day.parquet", kind="chunk_day", state="live", cluster="local",
        ts_lo_ms=TODAY, ts_hi_ms=TODAY + 24 * HOUR,
    )  # fmt: skip
    rows.row(rows.run("report-0"), window_start_ms=TODAY + 8 * HOUR, lag_max=2)
    spark_job.computes(figures(window_start_ms=TODAY + 7 * HOUR), warnings=("a.wal: torn",))
    run = computed(request(window=Window(TODAY - 3 * HOUR, TODAY + 9 * HOUR)))
    day = datetime.fromtimestamp(TODAY / 1000, UTC)
    assert run.warnings == [
        f"{day - timedelta(hours=3):%Y-%m-%d} 21:00:00 – {day:%Y-%m-%d} 00:00:00 UTC: no history",
        f"{day:%Y-%m-%d} 08:00:00–09:00:00 UTC: a history file was set aside, it is gone ({eight.path})",
        "a.wal: torn",
    ]
    assert [hour["hour_ms"] for hour in run.spec["hours"]] == [TODAY + hour * HOUR for hour in range(8)]
    assert LagRow.objects.get(window_start_ms=TODAY + 8 * HOUR).lag_max == 2


def test_it_fails_without_history_or_cluster(cluster: Cluster, spark_job: FakeSpark) -> None:
    run = computed(request(window=Window(TODAY, TODAY + HOUR)))
    assert run.state == "FAILED" and run.error.startswith("There is no history of local in this window.")
    assert run.finished_at_ms is not None
    assert computed(request(cluster="gone")).error == "The cluster gone was removed in the meantime."


def test_it_empties_an_hour_in_which_nothing_was_there(cluster: Cluster, spark_job: FakeSpark) -> None:
    rows.row(rows.run("report-0"))
    spark_job.computes()
    assert (computed(request()).row_count, LagRow.objects.count()) == (0, 0)


def test_it_computes_a_run_once(cluster: Cluster, spark_job: FakeSpark) -> None:
    run = computed(request())
    spark_job.does("print('ERROR a second time'); sys.exit(1)")
    assert computed(run).state == "SUCCEEDED"
    other = request()
    ReportRun.objects.filter(pk=other.id).update(state="RUNNING", attempts=1, lease_until_ms=NOW + 1)
    assert computed(other).attempts == 1


def test_it_waits_while_spark_computes_another_report(
    cluster: Cluster, spark_job: FakeSpark, settings: Settings, enqueued: list[str]
) -> None:
    with process.a_place(Path(settings.REPORTS_DIR), 1):
        run = computed(request())
        assert (run.state, run.step) == ("QUEUED", "waiting: another report is being computed")
    assert computed(run).state == "SUCCEEDED"


def test_a_cluster_computes_several_at_once(
    cluster: Cluster, spark_job: FakeSpark, settings: Settings, enqueued: list[str]
) -> None:
    settings.REPORTS_AT_ONCE = 2
    folder = Path(settings.REPORTS_DIR)
    with process.a_place(folder, 2) as first:
        assert first and computed(request()).state == "SUCCEEDED"
        with process.a_place(folder, 2) as second, process.a_place(folder, 2) as third:
            assert (second, third) == (True, False)
    found = [request(cluster=name, now_ms=NOW + number) for number, name in enumerate(("a", "b", "c"))]
    services.recover_runs(now_ms=NOW + 10)
    assert enqueued == [run.id for run in found[:2]]


def test_it_hands_on_the_next_waiting_run(
    cluster: Cluster, spark_job: FakeSpark, enqueued: list[str]
) -> None:
    run = request()
    waiting = request(cluster="other", now_ms=NOW + 1)
    computed(run)
    assert enqueued == [waiting.id]


def test_it_tells_the_browsers(cluster: Cluster, spark_job: FakeSpark, redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis, redis.pubsub() as channel:
        channel.subscribe(live.CHANNEL)
        run = computed(request())
        steps = []
        while (message := channel.get_message(timeout=0.5)) is not None:
            if message["type"] == "message":
                update = live.Update.from_channel(message["data"])
                assert (update.subject, update.full) == ("c/local/reports", False)
                row = update.rows["lag_hour"]
                assert row["id"] == run.id
                steps.append((row["state"], of_json(row["step"]) if row["step"] else ""))
        last = redis.hget("tidemark:live:last:c/local/reports", "lag_hour")
    assert steps == [
        ("QUEUED", "waiting for a worker"),
        ("RUNNING", "starting Spark"),
        ("RUNNING", "computing"),
        ("RUNNING", "writing rows"),
        ("SUCCEEDED", ""),
    ]
    assert last is not None and json.loads(last)["state"] == "SUCCEEDED"  # type: ignore[arg-type]


# --- a worker dies ---


def dead(attempts: int = 1) -> ReportRun:
    run = request()
    ReportRun.objects.filter(pk=run.id).update(
        state="RUNNING", attempts=attempts, started_at_ms=NOW, lease_until_ms=NOW + LEASE_MS
    )
    return run


def test_it_takes_up_a_run_whose_worker_died(
    cluster: Cluster, spark_job: FakeSpark, enqueued: list[str]
) -> None:
    run = dead()
    services.recover_runs(now_ms=NOW + LEASE_MS)
    assert (ReportRun.objects.get().state, enqueued) == ("RUNNING", [])
    services.recover_runs(now_ms=NOW + LEASE_MS + 1)
    run.refresh_from_db()
    assert (run.state, run.step) == ("QUEUED", "waiting: the worker stopped; the run will be resumed")
    assert enqueued == [run.id]
    run = computed(run)
    assert (run.state, run.attempts) == ("SUCCEEDED", 2)
    assert run.output.endswith(f"/{run.id}/attempt-2")  # the first one may still be writing


def test_it_gives_up_after_the_second_worker(cluster: Cluster, enqueued: list[str]) -> None:
    run = dead(attempts=2)
    services.recover_runs(now_ms=NOW + LEASE_MS + 1)
    run.refresh_from_db()
    assert (run.state, run.finished_at_ms, enqueued) == ("FAILED", NOW + LEASE_MS + 1, [])
    assert run.error.startswith(
        "The worker stopped 2 times before the report was done. No hour or day is half-written"
    )


def test_it_clears_a_dead_run_out_of_the_way_of_a_new_one(cluster: Cluster) -> None:
    run = dead(attempts=2)
    assert request(now_ms=NOW + LEASE_MS + 1).id != run.id


def test_it_writes_nothing_once_another_has_taken_over(cluster: Cluster, spark_job: FakeSpark) -> None:
    """The job itself takes the run away, as recovery would after a laptop's sleep."""
    rows.row(rows.run("report-0"), lag_max=1)
    run = request()
    attempt = services._Attempt(run, NOW)  # it never claimed: the run is not its own
    attempt.work()
    run.refresh_from_db()
    assert (run.state, run.error) == ("QUEUED", "")
    assert [row.lag_max for row in LagRow.objects.all()] == [1]


def test_it_prolongs_the_lease_while_it_works(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    run = dead()
    run.refresh_from_db()
    attempt = services._Attempt(run, NOW)
    now = NOW
    monkeypatch.setattr(attempt, "now_ms", lambda: now)
    attempt.renew()
    assert ReportRun.objects.get().lease_until_ms == NOW + LEASE_MS
    now = NOW + 5_000
    attempt.renew()
    assert ReportRun.objects.get().lease_until_ms == NOW + 5_000 + LEASE_MS
    ReportRun.objects.update(attempts=2)
    now = NOW + 10_000
    with pytest.raises(services.RunLost):
        attempt.renew()


def test_it_ends_the_run_that_is_stopped_by_hand(
    cluster: Cluster, spark_job: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(services._Attempt, "renew", interrupted)
    run = request()
    with pytest.raises(KeyboardInterrupt):
        services.run_report(run.id, now_ms=NOW)
    run.refresh_from_db()
    assert (run.state, run.error) == ("FAILED", "Stopped by a user. No hour or day is half-written.")


# --- files ---


def test_it_keeps_the_newest_twenty_outputs(
    cluster: Cluster, spark_job: FakeSpark, settings: Settings
) -> None:
    """Of older runs the files of single queues stay, which are published where they were written."""
    folder = Path(settings.REPORTS_DIR) / "runs" / "lag_hour"
    for number in range(25):
        run = rows.run(f"report-{number:02}", attempts=1, finished_at_ms=NOW - 1_000 + number)
        output = folder / run.id / "attempt-1"
        if number == 3:
            (live,) = rows.publish(run, rows.queue())
        output.mkdir(parents=True, exist_ok=True)
        (output / "part-00000-topic-000.parquet").touch()
        ReportRun.objects.filter(pk=run.pk).update(output=str(output))
    rows.run("report-failed", attempts=1, state="FAILED", output=str(folder / "report-failed" / "attempt-1"))
    (folder / "report-failed" / "attempt-1").mkdir(parents=True)
    (folder / "report-failed" / "attempt-1" / ".draft").touch()
    (folder / "notes of an operator").mkdir()
    run = computed(request())
    kept = sorted(path.name for path in folder.iterdir())
    newest = [f"report-{number:02}" for number in range(6, 25)]
    assert kept == sorted(["notes of an operator", run.id, "report-03", *newest])
    assert [path.name for path in (folder / "report-03" / "attempt-1").iterdir()] == [Path(live.path).name]
    assert ReportRun.objects.get(pk="report-05").output == ""
    assert ReportRun.objects.get(pk="report-06").output == str(folder / "report-06" / "attempt-1")


def test_it_needs_no_java_with_a_spark_elsewhere(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "java_problem", lambda: "no Java")
    assert services.java_problem() == "no Java"
    settings.SPARK_REMOTE = "sc://spark:15002"
    assert services.java_problem() is None


def test_it_reads_the_manifest_in_the_order_of_time(cluster: Cluster) -> None:
    HistoryFile.objects.filter(ts_lo_ms=TODAY + 7 * HOUR).update(state=HistoryFile.State.SUPERSEDED)
    found = services.selectors.history_files("local", TODAY, NOW)
    assert [file.ts_lo_ms for file in found] == [TODAY + 8 * HOUR]
