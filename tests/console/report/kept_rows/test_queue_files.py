"""Files of rows of single queues: published with the run, superseded, deleted in time, damage told."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from pytest_django import Settings

from console.cluster.models import Cluster
from console.report import selectors, services
from console.report.kept_rows import queue_files
from console.report.kept_rows.queue_rows import QueueRows
from console.report.models import LagRow, QueueRowFile, ReportRun
from console.report.rules import Window
from tests.console.report import sample_rows as rows
from tests.console.report.conftest import FakeSpark
from tests.console.report.sample_rows import DAY, HOUR, NOW, TODAY, figures, queue

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
State = QueueRowFile.State
WINDOW = Window(TODAY + 7 * HOUR, TODAY + 9 * HOUR)


def computed(now_ms: int = NOW, job: str = "lag_hour") -> ReportRun:
    asked = services.request_run(job=job, cluster="local", window=WINDOW, actor=None, now_ms=now_ms)
    services.run_report(asked.id, now_ms=now_ms)
    return ReportRun.objects.get(pk=asked.id)


def at(hour: int) -> dict[str, int]:
    return {"window_start_ms": TODAY + hour * HOUR, "window_end_ms": TODAY + (hour + 1) * HOUR}


def path_of(file: QueueRowFile) -> Path:
    return Path(queue_files.location(file))


def test_it_publishes_them_with_the_run_and_keeps_them_out_of_the_database(
    cluster: Cluster, spark_job: FakeSpark
) -> None:
    spark_job.computes(
        figures(), queue(group="b", **at(7)), queue(group="a", **at(7)), queue(group="c", **at(8))
    )
    run = computed()
    assert (run.error, run.row_count, LagRow.objects.count()) == ("", 4, 1)
    early, late = QueueRowFile.objects.order_by("window_start_ms")
    assert (early.group_first, early.group_last, early.rows, early.state) == ("a", "b", 2, State.LIVE)
    assert early.path == f"runs/lag_hour/{run.id}/attempt-1/part-00000-queue-000.parquet"
    assert (late.window_end_ms, late.run_id) == (TODAY + 9 * HOUR, run.id)
    assert path_of(late).stat().st_size == late.bytes
    # where the job wrote them
    assert path_of(early) == Path(run.output) / "part-00000-queue-000.parquet"


def test_the_next_run_over_the_same_time_replaces_them(cluster: Cluster, spark_job: FakeSpark) -> None:
    spark_job.computes(figures(), queue(lag_max=1, **at(7)), queue(lag_max=2, **at(8)))
    first = computed()
    spark_job.computes(figures(), queue(lag_max=3, **at(7)))
    second = computed(NOW + HOUR)
    live = QueueRowFile.objects.filter(state=State.LIVE)
    # nothing was left of the second hour when it was computed again
    assert [(file.run_id, file.window_start_ms) for file in live] == [(second.id, TODAY + 7 * HOUR)]
    before = list(QueueRowFile.objects.filter(run=first))
    # a page that listed them may still be reading
    assert [(file.state, path_of(file).exists()) for file in before] == [(State.SUPERSEDED, True)] * 2
    assert queue_files.maintain("local", NOW + 2 * HOUR + 60_000) == 2
    assert not any(path_of(file).exists() for file in before)
    assert list(QueueRowFile.objects.all()) == list(live)


def test_a_run_that_fails_leaves_what_was_there(
    cluster: Cluster, spark_job: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_job.computes(figures(), queue(**at(8)))
    assert computed().error == ""
    (before,) = QueueRowFile.objects.all()

    def refuse(*given: object) -> int:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(services, "replace_rows", refuse)
        assert computed(NOW + HOUR).state == ReportRun.State.FAILED
    assert QueueRowFile.objects.get(state=State.LIVE) == before and path_of(before).exists()
    left = QueueRowFile.objects.get(state=State.WRITING)
    assert path_of(left).exists()
    queue_files.maintain("local", NOW + 3 * HOUR)
    assert not path_of(left).exists() and list(QueueRowFile.objects.all()) == [before]


def test_it_keeps_those_of_hours_for_two_weeks(cluster: Cluster, settings: Settings) -> None:
    older = TODAY - settings.REPORT_QUEUE_DAYS * DAY
    starts = [
        {"window_start_ms": older + offset, "window_end_ms": older + offset + HOUR} for offset in (-HOUR, DAY)
    ]
    hours = rows.publish(rows.run(), *(queue(**start) for start in starts))
    days = rows.publish(rows.run("report-2", job="lag_day"), *(queue(**start) for start in starts))
    assert queue_files.maintain("local", TODAY) == 1
    assert set(QueueRowFile.objects.all()) == {hours[1], *days}
    assert not path_of(hours[0]).exists()


def test_removed_by_hand_or_changed_is_damage_until_the_report_is_run_again(
    cluster: Cluster, spark_job: FakeSpark
) -> None:
    early, late = rows.publish(rows.run(), queue(**at(7)), queue(**at(8)))
    path_of(early).unlink()
    path_of(late).write_bytes(path_of(late).read_bytes()[:-1] + b"?")
    found = QueueRows("local", "lag_hour")
    assert (list(found.read(["lag_max"])), [gap.window_start_ms for gap in found.gaps]) == (
        [],
        [TODAY + 8 * HOUR, TODAY + 7 * HOUR],
    )
    changed, gone = found.gaps
    assert "another checksum" in changed.reason
    assert gone.sentence == (
        "The file of 2024-10-04 07:00 UTC, groups billing to billing, is not read: it is gone: it was removed from the "
        "storage"
    )
    # the next reader does not have to find out
    assert [gap.reason for gap in QueueRows("local", "lag_hour").gaps] == []
    again = QueueRows("local", "lag_hour")
    assert (again.files(), len(again.gaps)) == ([], 2)
    spark_job.computes(figures(), queue(**at(7)), queue(**at(8)))
    assert computed().error == ""
    mended = QueueRows("local", "lag_hour")
    assert (mended.count(), mended.gaps) == (2, [])


def test_a_file_that_is_whole_and_cannot_be_read_is_tried_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = rows.publish(rows.run(), queue())

    def refuse(*given: object, **named: object) -> None:
        raise OSError("timed out")

    with monkeypatch.context() as patched:
        patched.setattr("pyarrow.parquet.ParquetFile.read_row_groups", refuse)
        found = QueueRows("local", "lag_hour")
        assert not list(found.read(["lag_max"]))
    assert [gap.reason for gap in found.gaps] == ["it cannot be read now (OSError: timed out)"]
    file.refresh_from_db()
    assert file.state == State.LIVE


def test_they_lie_in_any_storage(
    cluster: Cluster, settings: Settings, request: pytest.FixtureRequest
) -> None:
    settings.REPORTS_URL = "memory://queues-of-tests/"
    request.addfinalizer(lambda: fsspec.filesystem("memory").rm("/queues-of-tests", recursive=True))
    run = rows.run()
    (early, late) = rows.publish(run, queue(lag_max=1, **at(7)), queue(lag_max=2, **at(8)))
    assert queue_files.location(early).startswith("memory://queues-of-tests/runs/lag_hour/")
    found = QueueRows("local", "lag_hour")
    assert [row.lag_max for row in selectors.row_page(found, sort="lag_max").rows] == [2, 1]
    fsspec.filesystem("memory").rm(queue_files.location(late))
    again = QueueRows("local", "lag_hour")
    assert [row.lag_max for row in selectors.row_page(again).rows] == [1]
    assert [gap.window_start_ms for gap in again.gaps] == [TODAY + 8 * HOUR]
    rows.publish(rows.run("report-2"), queue(lag_max=3, **at(7)), at_ms=NOW + 1)
    assert queue_files.maintain("local", NOW + 2 * HOUR) == 1
    assert [row.lag_max for row in selectors.row_page(QueueRows("local", "lag_hour")).rows] == [3]
