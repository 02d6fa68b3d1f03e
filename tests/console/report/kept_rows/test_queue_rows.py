"""Questions about rows of single queues: as the database would answer them."""

from __future__ import annotations

import csv
import dataclasses
import io
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.db import IntegrityError

from console.access.name_scope import NameScope
from console.cluster.models import Cluster
from console.report import selectors
from console.report.kept_rows import queue_files, queue_rows
from console.report.kept_rows.queue_rows import QueueRows
from console.report.models import LagRow, QueueRowFile, ReportRun
from console.report.pages import exports
from tests.console.report import sample_rows as rows
from tests.console.report.sample_rows import HOUR, NOW, TODAY, queue
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def run(cluster: Cluster) -> ReportRun:
    return rows.run()


def some(count: int = 120) -> list[dict[str, Any]]:
    """Rows of three hours with ties and unknown figures in them."""
    dice = random.Random(7)
    keys = [
        (group, topic, broker, number)
        for group in "abc"
        for topic in "xy"
        for broker in "pq"
        for number in range(4)
    ]
    found = []
    for hour in range(3):
        for group, topic, broker, number in dice.sample(keys, count // 3):
            start_ms = TODAY + hour * HOUR
            found.append(
                queue(
                    group=f"team-{group}",
                    topic=topic,
                    broker_name=broker,
                    queue_id=number,
                    window_start_ms=start_ms,
                    window_end_ms=start_ms + HOUR,
                    time_lag_max_ms=dice.choice([None, 0, 5, 5, 70]),
                    coverage_pct=dice.choice([50.0, 99.5]),
                    produced=dice.randrange(9),
                )
            )
    return found


def name_of(row: Any) -> tuple[Any, ...]:
    get = row.get if isinstance(row, dict) else lambda name: getattr(row, name)
    return tuple(get(name) for name in ("window_start_ms", *selectors.KEY))


def plainly_sorted(found: list[dict[str, Any]], column: str, descending: bool) -> list[tuple[Any, ...]]:
    """Three stable sorts, the plainest way there is."""
    order = sorted(found, key=lambda row: (-row["window_start_ms"], *(row[name] for name in selectors.KEY)))
    known = [row for row in order if row[column] is not None]
    known = (
        sorted(known, key=lambda row: row[column], reverse=False)
        if not descending
        else [
            row
            for value in sorted({row[column] for row in known}, reverse=True)
            for row in known
            if row[column] == value
        ]
    )
    return [name_of(row) for row in [*known, *(row for row in order if row[column] is None)]]


@pytest.mark.one_database("rows of single queues lie in files")
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sort", ["time_lag_max", "coverage", "group", "window_start", "produced"])
def test_every_order_page_by_page(run: ReportRun, sort: str, descending: bool) -> None:
    found = some()
    rows.publish(run, *found)
    seen: list[tuple[Any, ...]] = []
    for number in range(1, 12):
        page = selectors.row_page(
            selectors.rows_of_grain("queue", "local", job="lag_hour"),
            sort=sort, descending=descending, page=number, per_page=11,
        )  # fmt: skip
        assert (page.total, page.pages, page.page) == (120, 11, number)
        seen += map(name_of, page.rows)
    assert seen == plainly_sorted(found, selectors.SORTS[sort], descending)


def test_page_numbers_stay_in_bounds_and_the_end_of_a_long_list_is_not_reached(
    run: ReportRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.publish(run, *some())
    asked: dict[str, Any] = {"descending": True, "whole": None}
    found = QueueRows("local", "lag_hour")
    assert queue_rows.page(found, "lag_max", page=99, per_page=50, **asked).page == 3
    monkeypatch.setattr(queue_rows, "ROWS_REACHED_MAX", 60)
    page = queue_rows.page(found, "lag_max", page=99, per_page=20, **asked)
    assert (page.page, page.pages, page.total, len(page.rows)) == (3, 3, 120, 20)
    assert (
        queue_rows.page(QueueRows("nothing", "lag_hour"), "lag_max", page=5, per_page=20, **asked).pages == 1
    )


def test_it_filters_as_the_database_does(run: ReportRun) -> None:
    found = some()
    rows.publish(run, *found)
    only_c = [row for row in found if row["group"] == "team-c"]
    for asked in ({"group": "AM-C"}, {"only_group": "team-c"}, {"scope": NameScope(("*-c",))}):
        question = QueueRows("local", "lag_hour", **asked)  # type: ignore[arg-type]
        assert question.count() == len(only_c)
        assert {name_of(row) for row in selectors.row_page(question, per_page=500).rows} == set(
            map(name_of, only_c)
        )
    assert QueueRows("local", "lag_hour", from_ms=TODAY + HOUR).count() == 80
    assert QueueRows("local", "lag_hour", to_ms=TODAY + HOUR).count() == 40
    assert QueueRows("local", "lag_hour", scope=NameScope(())).count() == 0
    assert QueueRows("local", "lag_hour", run_id="report-0").count() == 0
    assert QueueRows("local", "lag_day").count() == QueueRows("other", "lag_hour").count() == 0
    seen = QueueRows("local", "lag_hour", scope=NameScope(("team-a",)))
    assert selectors.row_page(seen, whole=QueueRows("local", "lag_hour")).not_shown == 120 - seen.count()


def test_it_sums_up_without_adding_unknowns(run: ReportRun) -> None:
    found = some()
    rows.publish(run, *found)
    figures = selectors.summary(QueueRows("local", "lag_hour"))
    assert figures.produced == sum(row["produced"] for row in found)
    assert (figures.time_lag_max_ms, figures.worst.time_lag_max_ms) == (70, 70)
    assert (figures.coverage_pct, figures.generated_at_ms) == (50.0, NOW)
    assert (figures.from_ms, figures.to_ms) == (TODAY, TODAY + 3 * HOUR)
    nothing = selectors.summary(QueueRows("local", "lag_hour", group="nobody"))
    assert set(dataclasses.astuple(nothing)) == {None}


@pytest.mark.parametrize("group", ["", "team-b"])
def test_one_reading_gives_a_page_and_what_all_rows_have_in_common(run: ReportRun, group: str) -> None:
    rows.publish(run, *some())
    asked: dict[str, Any] = {"sort": "produced", "page": 2, "per_page": 11}
    page, figures = selectors.page_and_summary(QueueRows("local", "lag_hour", group=group), **asked)
    apart = selectors.summary(QueueRows("local", "lag_hour", group=group))
    assert [name_of(row) for row in page.rows] == [
        name_of(row) for row in selectors.row_page(QueueRows("local", "lag_hour", group=group), **asked).rows
    ]
    assert name_of(figures.worst) == name_of(apart.worst)
    assert dataclasses.replace(figures, worst=None) == dataclasses.replace(apart, worst=None)


def test_a_row_has_what_the_file_says_and_defaults_for_what_it_does_not(run: ReportRun) -> None:
    rows.publish(run, queue(status_ms=[0, 7, *[0] * 10], in_rate=0.5, lag_counts=[1]))
    ((row,), _) = (selectors.row_page(QueueRows("local", "lag_hour")).rows, None)
    assert (row.run_id, row.job, row.generated_at_ms, row.in_rate) == (run.id, "lag_hour", NOW, 0.5)
    assert list(row.status_ms.values()) == [7]
    assert (row.retry_in, row.counted_ms, row.status_worst) == (None, 0, "")


@pytest.fixture
def damaged(run: ReportRun) -> QueueRowFile:
    """Two whole hours and between them one whose file has a changed byte in the figures of its first rows."""
    files = rows.publish(run, *some())
    path = Path(queue_files.location(files[1]))
    data = bytearray(path.read_bytes())
    figures = pq.ParquetFile(path)
    column = figures.metadata.row_group(0).column(figures.schema_arrow.names.index("time_lag_max_ms"))
    begin = column.dictionary_page_offset or column.data_page_offset
    data[begin + column.total_compressed_size - 1] ^= 255
    path.write_bytes(bytes(data))
    return files[1]


def test_damage_is_a_gap_and_never_a_zero(damaged: QueueRowFile) -> None:
    heat_of = QueueRows("local", "lag_hour", only_group="team-a")
    assert {start_ms for *_, start_ms, _ in queue_rows.cells(heat_of, "GROUP")} <= {TODAY, TODAY + 2 * HOUR}
    admin = signed_in()
    for address in ("lag_hour?grain=queue&span=all", "lag_hour?grain=queue&span=all&q=nobody"):
        page = admin.get(f"/c/local/reports/{address}").content.decode()
        assert (
            "another checksum than when it was made" in page and "run the report over this time again" in page
        )
    assert page.count("run the report over this time again") == 1


def test_exports_say_in_a_line_of_its_own_what_is_missing(damaged: QueueRowFile) -> None:
    def asked() -> QueueRows:
        return QueueRows("local", "lag_hour")

    lines = list(csv.DictReader(io.StringIO("".join(selectors.csv_lines(asked())))))
    told = [line for line in lines if line["gap"]]
    whole = [line for line in lines if not line["gap"]]
    assert (
        len(told) == 1 and len([line for line in whole if line["window_start_ms"] != str(TODAY + HOUR)]) == 80
    )
    assert (told[0]["window_start_utc"], told[0]["group"], told[0]["lag_max"]) == (
        "2024-10-04T01:00:00Z",
        "",
        "",
    )
    assert [name_of(line) for line in whole] == sorted(name_of(line) for line in whole)
    table = pq.read_table(
        io.BytesIO(b"".join(exports.export("parquet", asked(), job="lag_hour", cluster="local", now_ms=NOW)))
    )
    assert table["gap"].null_count == table.num_rows - 1
    (html,) = exports.export("html", asked(), job="lag_hour", cluster="local", now_ms=NOW)
    assert "another checksum" in html and "Queues" in html


def test_it_streams_no_more_than_asked_for(run: ReportRun) -> None:
    rows.publish(run, *some())
    assert len(list(queue_rows.by_window(QueueRows("local", "lag_hour"), 7))) == 7


def test_the_database_refuses_rows_of_queues(run: ReportRun) -> None:
    with pytest.raises(IntegrityError):
        LagRow.objects.create(run=run, generated_at_ms=NOW, **queue())
