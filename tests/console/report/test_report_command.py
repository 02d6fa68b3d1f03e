"""`manage.py report`: run, list, export."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from console.cluster.models import Cluster
from console.report import services
from console.report.models import LagRow, ReportRun
from console.report.rules import Window
from tests.console.report import sample_rows as rows
from tests.console.report.conftest import FakeSpark
from tests.console.report.sample_rows import HOUR, NOW, TODAY

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
WINDOW = ("--from", "2024-10-04T07:00", "--to", "2024-10-04T09:00Z")


def report(*arguments: str) -> str:
    out = io.StringIO()
    call_command("report", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_it_computes_in_the_terminal(cluster: Cluster, spark_job: FakeSpark) -> None:
    text = report("run", "lag_hour", *WINDOW)
    run = ReportRun.objects.get()
    assert text.startswith(
        f"{run.id}  SUCCEEDED  2024-10-04T07:00+00:00 to 2024-10-04T09:00+00:00  1 rows in "
    )
    assert LagRow.objects.count() == 1
    (listed,) = json.loads(report("list", "lag_hour", "--format", "json"))
    assert (listed["id"], listed["state"], listed["requested_by"]) == (run.id, "SUCCEEDED", None)


def test_it_ends_with_the_reason(cluster: Cluster, spark_job: FakeSpark) -> None:
    spark_job.does("print('ERROR the disk is full'); sys.exit(1)")
    with pytest.raises(CommandError, match="failed: the disk is full") as failure:
        report("run", "lag_hour", *WINDOW)
    assert failure.value.returncode == 4


def test_it_takes_over_a_run_that_waits(cluster: Cluster, spark_job: FakeSpark) -> None:
    window = Window(TODAY + 7 * HOUR, TODAY + 9 * HOUR)
    waiting = services.request_run(job="lag_hour", cluster="local", window=window, actor=None, now_ms=NOW)
    assert waiting.id in report("run", "lag_hour")
    assert ReportRun.objects.get().state == "SUCCEEDED"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--from", "yesterday"], "yesterday is no ISO 8601 time"),
        (["--from", "2024-10-04", "--to", "2024-10-03"], "The end must be after the start."),
        (["--from", "2124-10-04", "--to", "2124-10-05"], "The window is in the future"),
        (["--cluster", "nowhere"], "There is no cluster nowhere. Clusters: local."),
    ],
)
def test_it_refuses_bad_words(cluster: Cluster, arguments: list[str], reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        report("run", "lag_hour", *arguments)
    assert not ReportRun.objects.exists()


def test_it_asks_which_cluster_where_there_are_several(cluster: Cluster) -> None:
    Cluster.objects.create(name="staging", namesrv_addrs="127.0.0.1:1")
    with pytest.raises(CommandError, match=r"Name the cluster: --cluster local\|staging\."):
        report("list", "lag_hour")


def test_it_exports_a_window(cluster: Cluster) -> None:
    run = rows.run()
    rows.row(run)
    rows.row(run, group="later", window_start_ms=TODAY + 9 * HOUR)
    text = report("export", "lag_hour", "--to", "2024-10-04T09:00")
    assert [line.split(",")[4] for line in text.splitlines()] == ["group", "billing"]
    assert len(report("export", "lag_hour", "--grain", "queue").splitlines()) == 1
