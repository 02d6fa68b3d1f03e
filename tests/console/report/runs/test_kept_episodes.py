"""The episodes report takes over what the collector kept: one row for each, however many days it lasts."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from console.cluster.models import Cluster
from console.lag.episode_state import episode_id
from console.lag.models import Episode, LagEvent
from console.report import selectors, services
from console.report.models import ReportRow, ReportRun
from console.report.rules import Window
from console.text import Text
from tests.console.report.conftest import FakeSpark
from tests.console.report.sample_rows import DAY, HOUR, NOW, TODAY

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
MINUTE = 60_000


def episode(start_ms: int, end_ms: int, state: str = "OVER", **figures: Any) -> Episode:
    values = {
        "cluster": "local", "group": "billing", "topic": "orders", "kind": "stall", "state": state,
        "start_ms": start_ms, "end_ms": end_ms, "seen_ms": end_ms, "bad_ms": end_ms - start_ms, "slo_ms": 60_000,
        "target": 0.99, "cause": "queue stuck", "peak_lag": 40, "peak_time_lag_ms": 90_000, **figures,
    }  # fmt: skip
    name = episode_id("local", values["group"], "orders", values["kind"], start_ms)
    return Episode.objects.create(id=name, **values)


def computed(window: Window, now_ms: int = NOW) -> ReportRun:
    run = services.request_run(job="episodes", cluster="local", window=window, actor=None, now_ms=now_ms)
    services.run_report(run.id, now_ms=now_ms)
    return ReportRun.objects.get(pk=run.id)


def test_it_takes_them_over_without_spark(cluster: Cluster, spark_job: FakeSpark) -> None:
    spark_job.does("print('ERROR Spark is not needed'); sys.exit(1)")
    one = episode(
        TODAY + HOUR, TODAY + 2 * HOUR, kind="breach", cause="reset", is_intentional=True,
        reset_by=Text("alice: plan-1"), forecast_at_ms=TODAY + HOUR + 5_000, forecast_ms=1_800_000,
    )  # fmt: skip
    episode(TODAY + HOUR, TODAY + 2 * HOUR, group="audit", cluster="other")
    run = computed(Window(TODAY, TODAY + 9 * HOUR))
    assert (run.state, run.error, run.row_count) == ("SUCCEEDED", "", 1)
    (row,) = ReportRow.objects.all()
    assert (row.kind, row.group, row.topic, row.grain) == ("breach", "billing", "orders", "episode")
    assert row.figures["id"] == one.id
    assert {name: row.figures[name] for name in ("cause", "is_intentional", "reset_by", "is_ongoing")} == {
        "cause": "reset",
        "is_intentional": True,
        "reset_by": "alice: plan-1",
        "is_ongoing": False,
    }
    assert (row.figures["forecast_ms"], row.figures["drained_ms"]) == (1_800_000, HOUR - 5_000)
    assert row.figures["budget_burnt_pct"] == round(100 * HOUR / (0.01 * 28 * DAY), 4)


def test_an_episode_of_days_is_one_row_that_grows(cluster: Cluster) -> None:
    start_ms = TODAY - 3 * DAY + HOUR
    one = episode(start_ms, NOW - 2 * HOUR, "ONGOING")
    computed(Window(TODAY - 4 * DAY, TODAY))
    Episode.objects.filter(pk=one.pk).update(end_ms=NOW, bad_ms=NOW - start_ms, peak_lag=9_000)
    computed(Window(TODAY, TODAY + 9 * HOUR), NOW + MINUTE)
    (row,) = ReportRow.objects.all()
    assert (row.figures["start_ms"], row.figures["end_ms"]) == (start_ms, NOW)
    assert (row.figures["peak_lag"], row.figures["is_ongoing"], row.window_start_ms) == (
        9_000,
        True,
        TODAY - 3 * DAY,
    )
    # the list of today has it, though it began days ago
    assert selectors.report_rows("local", "episodes", from_ms=TODAY).count() == 1
    Episode.objects.filter(pk=one.pk).update(state="OVER")
    computed(Window(TODAY, TODAY + 9 * HOUR), NOW + 2 * MINUTE)
    assert ReportRow.objects.get().figures["is_ongoing"] is False


def test_it_grows_in_its_one_row_when_runs_were_left_out_for_days(cluster: Cluster) -> None:
    start_ms = TODAY - 5 * DAY
    one = episode(start_ms, start_ms + HOUR, "ONGOING")
    computed(Window(start_ms, start_ms + 2 * HOUR), start_ms + HOUR)
    Episode.objects.filter(pk=one.pk).update(end_ms=NOW)
    computed(Window(TODAY, TODAY + 9 * HOUR))
    assert [row.figures["end_ms"] for row in ReportRow.objects.all()] == [NOW]


def test_its_row_keeps_what_happened(cluster: Cluster, admin_client: Client) -> None:
    episode(TODAY + HOUR, TODAY + 2 * HOUR)
    LagEvent.objects.create(
        cluster="local", group="billing", kind="MEMBERS", at_ms=TODAY + HOUR + MINUTE, from_offset=1, messages=0,
        members={"left": {"count": 1, "names": ["10.0.0.1@7"]}},
    )  # fmt: skip
    computed(Window(TODAY, TODAY + 9 * HOUR))
    (row,) = ReportRow.objects.all()
    assert row.figures["happened"] == [
        {
            "at_ms": TODAY + HOUR + MINUTE, "kind": "MEMBERS", "clients_before": 1, "clients": 0,
            "left": {"count": 1, "names": ["10.0.0.1@7"]},
        }
    ]  # fmt: skip
    assert "happened_lower_bound" not in row.figures
    LagEvent.objects.all().delete()
    text = admin_client.get("/c/local/reports/episodes?span=all").content.decode()
    assert "Events: 1" in text and "1 client left (10.0.0.1@7); 1 → 0 clients" in text
