"""Rows are replaced only by rows: whatever fails, at whatever step, every period has the old ones or all of the new."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.db import DatabaseError

from console.cluster.models import Cluster
from console.report import selectors, services
from console.report.kept_rows import output, queue_files
from console.report.kept_rows.queue_rows import QueueRows
from console.report.models import LagRow, QueueRowFile, ReportRow, ReportRun
from console.report.rules import LEASE_MS, Window
from console.report.runs import replacement
from tests.console.report import sample_rows as rows
from tests.console.report.conftest import FakeSpark
from tests.console.report.fake_job import answer
from tests.console.report.sample_rows import HOUR, NOW, TODAY, figures, queue

pytestmark = pytest.mark.django_db(databases=["default", "metrics"], transaction=True)
WINDOW = Window(TODAY + 7 * HOUR, TODAY + 9 * HOUR)
OLD, NEW = 1, 2


class Killed(BaseException):
    """The process ends here: nothing of it may clean up."""


def at(hour: int) -> dict[str, int]:
    return {"window_start_ms": TODAY + hour * HOUR, "window_end_ms": TODAY + (hour + 1) * HOUR}


def asked(job: str = "lag_hour", now_ms: int = NOW) -> ReportRun:
    return services.request_run(job=job, cluster="local", window=WINDOW, actor=None, now_ms=now_ms)


def computed(job: str = "lag_hour", now_ms: int = NOW) -> ReportRun:
    run = asked(job, now_ms)
    services.run_report(run.id, now_ms=now_ms)
    return ReportRun.objects.get(pk=run.id)


def makes(spark_job: FakeSpark, mark: int, **more: object) -> None:
    """Two hours, each with a group-topic and a queue, all marked."""
    made = [make(lag_max=mark, **at(hour)) for hour in (7, 8) for make in (figures, queue)]
    spark_job.computes(*made, **more)


def marks() -> dict[int, tuple[int, int]]:
    """Hour → the mark of its group-topic and of its queue."""
    topics = {row.window_start_ms: row.lag_max for row in LagRow.objects.all()}
    queues = {
        row.window_start_ms: row.lag_max for row in selectors.row_page(QueueRows("local", "lag_hour")).rows
    }
    assert topics.keys() == queues.keys()
    return {(start_ms - TODAY) // HOUR: (topics[start_ms], queues[start_ms]) for start_ms in sorted(topics)}


def failing(error: BaseException, call: Callable[..., Any], at_call: int) -> Callable[..., Any]:
    """`call`, but the `at_call`-th time it raises; a negative one: after it was done."""
    seen = 0

    def wrapped(*args: Any, **named: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == at_call:
            raise error
        result = call(*args, **named)
        if seen == -at_call:
            raise error
        return result

    return wrapped


STEPS = [
    (services.output, "output_url", 1),
    (services.process, "run_job", 1),
    (services.process, "run_job", -1),
    (queue_files, "note", 1),
    (queue_files, "note", -1),
    (queue_files, "publish", 1),
    (queue_files, "publish", 2),
    (replacement, "insert_lag_rows", 1),
    (replacement, "insert_lag_rows", -1),
    (replacement, "insert_lag_rows", 2),
    (replacement, "insert_lag_rows", -2),
    (services, "replace_rows", -1),
    (services, "unread", 1),
]


HOW = pytest.mark.one_database("every step fails there once; a transaction ends alike whatever is raised")
DEATHS = [
    pytest.param(OSError("no space left"), marks=HOW),
    pytest.param(Killed(), marks=HOW),
    DatabaseError("locked"),
]


@pytest.mark.parametrize("death", DEATHS, ids=repr)
@pytest.mark.parametrize(
    ("module", "name", "at_call"), STEPS, ids=[f"{name}[{number}]" for _, name, number in STEPS]
)
def test_whatever_step_fails_a_period_has_old_or_new_rows_and_running_again_mends_it(
    cluster: Cluster,
    spark_job: FakeSpark,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    at_call: int,
    death: BaseException,
) -> None:
    makes(spark_job, OLD)
    assert computed().error == ""
    makes(spark_job, NEW)
    run = asked(now_ms=NOW + 1)
    with monkeypatch.context() as patched:
        patched.setattr(module, name, failing(death, getattr(module, name), at_call))
        try:
            services.run_report(run.id, now_ms=NOW + 1)
        except Killed:
            assert isinstance(death, Killed)
    run.refresh_from_db()
    assert run.state == ("RUNNING" if isinstance(death, Killed) else "FAILED")
    left = marks()
    assert set(left) == {7, 8} and set(left.values()) <= {(OLD, OLD), (NEW, NEW)}, left
    if isinstance(death, Killed):
        services.release_dead_runs(now_ms=NOW + 10 * LEASE_MS)
        services.run_report(run.id, now_ms=NOW + 10 * LEASE_MS)
        run.refresh_from_db()
        assert (run.state, run.attempts) == ("SUCCEEDED", 2)
    else:
        assert computed(now_ms=NOW + 20 * LEASE_MS).error == ""
    assert marks() == {7: (NEW, NEW), 8: (NEW, NEW)}


def test_a_run_that_can_read_nothing_fails_and_the_rows_stay(cluster: Cluster, spark_job: FakeSpark) -> None:
    makes(spark_job, OLD)
    computed()
    unread = [{"path": f"/history/{hour}.parquet", "reason": "FileNotFoundError: gone"} for hour in (7, 8)]
    spark_job.computes(unread=unread, lost_ms=[TODAY + 7 * HOUR, TODAY + 8 * HOUR])
    run = computed(now_ms=NOW + 1)
    assert (run.state, run.error) == (
        "FAILED",
        (
            "None of the 2 history files of local could be read; earlier rows are kept. The first: "
            "FileNotFoundError: gone (/history/7.parquet). Check that HISTORY_URL can be reached with its credentials, "
            "and run the report again."
        ),
    )
    assert marks() == {7: (OLD, OLD), 8: (OLD, OLD)}


def test_only_the_periods_that_were_produced_are_replaced_and_the_gap_is_named(
    cluster: Cluster, spark_job: FakeSpark
) -> None:
    makes(spark_job, OLD)
    computed()
    path = next(hour for hour in ReportRun.objects.get().spec["hours"] if hour["hour_ms"] == TODAY + 8 * HOUR)
    unread = [{"path": path["files"][0], "reason": "OSError: Input/output error"}]
    makes(spark_job, NEW, unread=unread, lost_ms=[TODAY + 8 * HOUR])  # some tasks read it: half of an hour
    run = computed(now_ms=NOW + 1)
    assert run.state == "SUCCEEDED"
    assert marks() == {7: (NEW, NEW), 8: (OLD, OLD)}
    assert run.warnings == [
        (
            "2024-10-04 08:00:00–09:00:00 UTC: a history file could not be read, OSError: Input/output error "
            f"({path['files'][0]})"
        ),
        "2024-10-04 08:00:00–09:00:00 UTC: nothing could be read, earlier rows are kept",
    ]
    assert QueueRowFile.objects.filter(run=run).count() == 1


@pytest.mark.parametrize("job", ["lag_hour", "capacity"])
def test_a_job_whose_output_is_not_there_fails(cluster: Cluster, spark_job: FakeSpark, job: str) -> None:
    """As when the executors wrote into folders of their own."""
    makes(spark_job, OLD)
    computed()
    before = rows.run("report-0", job="capacity")
    ReportRow.objects.create(
        run=before, job="capacity", grain="group", cluster="local", window_start_ms=TODAY,
        window_end_ms=NOW, generated_at_ms=NOW,
    )  # fmt: skip
    spark_job.does("print('STEP computing', flush=True)\n" + answer(4))
    run = computed(job, now_ms=NOW + 1)
    assert run.state == "FAILED"
    folder = f"{spark_job.folder}/reports/runs/{job}/{run.id}/attempt-1"
    assert run.error == (
        f"The job made 4 rows, and 0 are in its output {folder}: earlier rows are kept. Set REPORTS_URL to "
        "storage that the console and every Spark worker share."
    )
    assert marks() == {7: (OLD, OLD), 8: (OLD, OLD)} and ReportRow.objects.count() == 1


def test_an_output_that_lost_a_part_fails(cluster: Cluster, spark_job: FakeSpark) -> None:
    makes(spark_job, NEW)
    (Path(spark_job.folder) / "made" / "part-00001-queue-000.parquet").unlink()
    run = computed()
    assert run.state == "FAILED" and run.error.startswith("The job made 4 rows, and 3 are in its output")


def test_a_part_of_several_windows_is_refused(cluster: Cluster, spark_job: FakeSpark) -> None:
    """A transaction is about one window: rows of another one would be doubled by the next part."""
    made = [figures(**at(hour)) for hour in (7, 8)]
    spark_job.computes(*made)
    folder = Path(spark_job.folder) / "made"
    pq.write_table(pa.Table.from_pylist(made), folder / "part-00000-topic-000.parquet")
    run = computed()
    assert run.state == "FAILED" and "has rows of several windows" in run.error
    assert output.output_url(run).endswith(f"/runs/lag_hour/{run.id}/attempt-1")
