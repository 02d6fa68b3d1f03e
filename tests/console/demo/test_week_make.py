"""The sample week: judged by the collector's code, made once, made again after a kill, deleted for good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from console.access.models import AuditEvent
from console.cluster.models import Cluster
from console.demo.week import make as making
from console.demo.week import purge, shop
from console.demo.week.make import NAME, make, note
from console.demo.week.shop import STALLED_GROUP, ShopWeek
from console.health import metrics_text
from console.lag import services as lag_services
from console.lag.collect.given_rounds import GivenRound, GivenRounds
from console.lag.episode_state import EpisodeKind
from console.lag.history.log import State
from console.lag.models import (
    CollectorLease,
    Episode,
    GroupRow,
    GroupSlo,
    HistoryFile,
    HistoryGap,
    HistoryLease,
    LagEvent,
    QueueSheet,
)
from console.report.models import ReportRow, ReportRun
from spark.lag.local_time import HOUR_MS
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
NOW_MS = 1_795_000_000_000
HOURS = 3
whole_week = ShopWeek.rounds


@pytest.fixture(autouse=True)
def small(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hours of history and the one report that needs no Spark."""
    settings.DATA_DIR = tmp_path
    settings.HISTORY_URL, settings.REPORTS_URL = f"file://{tmp_path}/history", f"file://{tmp_path}/reports"
    settings.REPORTS_DIR = tmp_path / "reports"
    monkeypatch.setattr(making, "REPORTS", ("episodes",))

    def first_hours(week: ShopWeek) -> Iterator[GivenRound]:
        return (one for one in whole_week(week) if one.at_ms < week.start_ms + HOURS * HOUR_MS)

    monkeypatch.setattr(ShopWeek, "rounds", first_hours)


def rows_left() -> dict[str, int]:
    models = (
        Cluster,
        Episode,
        GroupRow,
        GroupSlo,
        HistoryFile,
        HistoryGap,
        HistoryLease,
        LagEvent,
        QueueSheet,
        ReportRow,
        ReportRun,
    )
    found = {model.__name__: model._default_manager.count() for model in models}
    return {name: count for name, count in found.items() if count}


def hours_kept() -> int:
    """Hours in files of an hour, and in the files of a day that they were merged into."""
    live = HistoryFile.objects.filter(cluster=NAME, state=State.LIVE)
    return sum(
        len(
            {
                at.ts_lo_ms // HOUR_MS
                for at in HistoryFile.objects.filter(
                    cluster=NAME, kind="chunk_hour", ts_lo_ms__gte=one.ts_lo_ms, ts_hi_ms__lte=one.ts_hi_ms
                )
            }
        )
        for one in live
    )


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_it_is_made_once() -> None:
    assert make(NOW_MS)
    cluster = Cluster.objects.get()
    assert (cluster.name, cluster.is_generated, cluster.generated_to_ms) == (
        NAME,
        True,
        NOW_MS // HOUR_MS * HOUR_MS,
    )
    assert hours_kept() == HOURS
    assert {row.status for row in GroupRow.objects.filter(group="billing")} == {"OK"}
    assert ReportRun.objects.get().state == ReportRun.State.SUCCEEDED
    before = rows_left()
    assert not make(NOW_MS + HOUR_MS)
    assert rows_left() == before


def test_killed_in_the_middle_it_is_made_again_without_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = GivenRounds.keep

    def killed(self: GivenRounds, *args: object, **options: object) -> Iterator[int]:
        yield next(iter(kept(self, *args, **options)))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(GivenRounds, "keep", killed)
    with pytest.raises(KeyboardInterrupt):
        make(NOW_MS)
    assert not note().exists()
    assert HistoryFile.objects.filter(state=State.LIVE).count() == 1
    monkeypatch.setattr(GivenRounds, "keep", kept)
    assert make(NOW_MS + HOUR_MS)
    assert Cluster.objects.count() == 1
    assert hours_kept() == HOURS
    starts = list(Episode.objects.values_list("group", "topic", "kind", "start_ms"))
    assert len(starts) == len(set(starts))


def test_deleted_by_a_person_it_leaves_nothing_and_does_not_come_back(tmp_path: Path) -> None:
    make(NOW_MS)
    fold = tmp_path / "reports" / "folds" / f"cluster={NAME}" / "date=2026-11-22" / "hour=17" / "a.parquet"
    fold.parent.mkdir(parents=True)
    fold.touch()
    browser = signed_in()
    page = browser.get(f"/c/{NAME}/reports").content.decode()
    assert "Generated data: seven days up to" in page
    assert signed_in("reader", verbs=("VIEW",)).post(f"/c/{NAME}/demo/week/delete").status_code == 403
    assert browser.post(f"/c/{NAME}/demo/week/delete").status_code == 302
    assert rows_left() == {}
    assert files_in(tmp_path / "history") == [] == files_in(tmp_path / "reports" / "folds")
    assert list(tmp_path.rglob("cluster=*")) == []
    event = AuditEvent.objects.get(verb="remove cluster")
    assert (event.cluster, event.subject) == (NAME, NAME)
    assert not make(NOW_MS + HOUR_MS)
    assert rows_left() == {}


def test_deleted_while_it_is_made_it_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require = making._require

    def delete_after_an_hour(cluster: Cluster) -> None:
        if HistoryFile.objects.filter(state=State.LIVE).count() == 1:
            assert signed_in().post(f"/c/{NAME}/demo/week/delete").status_code == 302
        require(cluster)

    monkeypatch.setattr(making, "_require", delete_after_an_hour)
    assert not make(NOW_MS)
    assert rows_left() == {}
    assert files_in(tmp_path / "history") == []


def test_who_deletes_it_second_is_told_that_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    make(NOW_MS)
    browser, delete = signed_in(), purge.delete

    def delete_twice(*arguments: Any, **more: Any) -> None:
        delete(*arguments, **more)
        delete(*arguments, **more)

    monkeypatch.setattr(purge, "delete", delete_twice)
    assert browser.post(f"/c/{NAME}/demo/week/delete").status_code == 404
    assert AuditEvent.objects.filter(verb="remove cluster").count() == 1


def test_only_generated_clusters_can_be_deleted_so() -> None:
    Cluster.objects.create(name="prod", namesrv_addrs="127.0.0.1:1")
    assert signed_in().post("/c/prod/demo/week/delete").status_code == 404


def test_a_cluster_of_that_name_is_left_alone() -> None:
    Cluster.objects.create(name=NAME, namesrv_addrs="127.0.0.1:1")
    assert not make(NOW_MS)
    assert not Cluster.objects.get().is_generated


def test_no_round_reads_it_and_nothing_on_it_can_be_planned() -> None:
    make(NOW_MS)
    assert lag_services.due_clusters(NOW_MS) == []
    assert not CollectorLease.objects.filter(cluster=NAME).exists()
    browser = signed_in()
    assert NAME not in metrics_text(NOW_MS).decode()
    body = {"topics": ["orders"], "target": "latest", "group": "billing"}
    url = f"/api/v1/clusters/{NAME}/offset-plans"
    answer = browser.post(url, body, content_type="application/json")
    assert answer.status_code == 422, answer.content
    assert "is generated data: it has no broker" in answer.json()["detail"]


def test_the_stall_is_one_episode_of_five_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    week = ShopWeek(NOW_MS // HOUR_MS * HOUR_MS)
    begin_ms, end_ms = week.stall

    def around_it(self: ShopWeek) -> Iterator[GivenRound]:
        return (one for one in whole_week(self) if begin_ms - HOUR_MS <= one.at_ms < end_ms + HOUR_MS)

    monkeypatch.setattr(ShopWeek, "rounds", around_it)
    assert make(NOW_MS)
    stall = Episode.objects.get(group=STALLED_GROUP, kind=EpisodeKind.STALL)
    assert stall.worst_queue == "shop-a · 1"
    # Ten minutes of standstill are a stall.
    assert shop.STALL_MS - 15 * 60_000 <= stall.end_ms - stall.start_ms <= shop.STALL_MS
    page = signed_in().get(f"/c/{NAME}/reports/episodes?span=7d").content.decode()
    assert page.count("Queue stalled") == 1


def test_its_reports_end_where_its_data_end() -> None:
    make(NOW_MS)
    run = ReportRun.objects.get()
    assert run.to_ms == NOW_MS // HOUR_MS * HOUR_MS
    page = signed_in().get(f"/c/{NAME}/reports/groups/nightly-export")
    assert page.status_code == 200
    assert page.context["to_ms"] == run.to_ms
