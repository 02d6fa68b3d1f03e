"""The smaller plots of a group's report: literal hours in, literal series out."""

from __future__ import annotations

from typing import Any

import pytest

from console.lag.models import GroupSlo
from console.lag.past.measures import Bucket, Latency
from console.report.pages import group_plots, latency_heat
from console.report.pages.group_plots import Phase, Row, Skew, TopicSkew, Ways
from tests.console.report import sample_rows as rows
from tests.console.report.sample_rows import HOUR, TODAY


def row(hour: int, **fields: Any) -> Row:
    return Row("orders", TODAY + hour * HOUR, queues=4, consumed=100)._replace(**fields)


def waited(**figures: Any) -> Latency:
    """A window of nothing but these figures."""
    nothing = {
        "interval_ms": 5_000,
        "slo_ms": 1,
        "target": 0.99,
        "watched_ms": 0,
        "coverage_pct": 0.0,
        "breach_ms": 0,
        "breach_weighted_ms": 0,
        "budget_left": None,
        "burn": (),
    }
    return Latency(**{**nothing, **figures})


def test_a_point_is_an_hour_in_which_something_waited() -> None:
    quiet, unknown = row(0, time_lag_max_ms=0, catch_up_speed=1.0, time_lag_last_ms=0), row(1)
    late = row(2, time_lag_max_ms=9_000, catch_up_speed=0.5, time_lag_last_ms=7_000)
    later = row(3, time_lag_max_ms=1_000, catch_up_speed=2.0, time_lag_last_ms=0)
    assert group_plots.phase([quiet, unknown]) is None
    found = group_plots.phase([quiet, unknown, late, later])
    assert found == Phase([TODAY + 2 * HOUR, TODAY + 3 * HOUR], ["orders"] * 2, [7_000, 0], [0.5, 2.0])


def test_one_point_or_short_waits_are_no_picture() -> None:
    late = row(2, time_lag_max_ms=9_000, catch_up_speed=0.5, time_lag_last_ms=7_000, effective_queues=2.0)
    short = [each._replace(time_lag_max_ms=4_999) for each in (late, late._replace(window_start_ms=TODAY))]
    assert group_plots.phase([late]) is None and group_plots.skew([late]) is None
    assert group_plots.phase(short) is None and group_plots.skew(short) is None
    assert group_plots.ways([row(0, retry_in=0, dead_letter_in=0)]) is None


def test_skew_has_a_panel_a_topic_and_gaps_where_nobody_looked() -> None:
    found = group_plots.skew(
        [
            row(0, effective_queues=3.5, time_lag_max_ms=10),
            row(2, effective_queues=1.0, time_lag_max_ms=9_000),
            row(2, topic="one queue", queues=1, effective_queues=1.0),
            row(1, topic="idle"),
        ]
    )
    times = [TODAY, TODAY + HOUR, TODAY + 2 * HOUR]
    assert found == Skew(times, [TopicSkew("orders", [3.5, None, 1.0], [4, None, 4])], total=1)


def test_retries_of_a_group_count_once_an_hour_though_every_topic_tells_them() -> None:
    assert group_plots.ways([row(0)]) is None  # unknown, not none
    hours = [
        row(0, retry_in=5, dead_letter_in=1), row(0, topic="refunds", consumed=50, retry_in=5, dead_letter_in=1),
        row(1, retry_in=2), row(2),
    ]  # fmt: skip
    assert group_plots.ways(hours) == Ways(250, retried=7, dead=1, hours=2)
    assert group_plots.ways([row(1, retry_in=2)]) == Ways(100, retried=2, dead=None, hours=1)


@pytest.mark.django_db(databases=["default", "metrics"])
def test_it_reads_a_groups_own_rows_of_topics() -> None:
    of = rows.run()
    rows.row(of, catch_up_speed=1.2, effective_queues=1.5, retry_in=3)
    rows.row(of, group="audit", catch_up_speed=9.0)
    (hour,) = group_plots.rows_of("local", "billing", TODAY, TODAY + 24 * HOUR)
    assert (hour.catch_up_speed, hour.effective_queues, hour.retry_in) == (1.2, 1.5, 3)


@pytest.mark.django_db(databases=["default", "metrics"])
def test_waiting_times_are_cut_into_slices_and_unwatched_ones_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def latency(cluster: str, group: str, from_ms: int, to_ms: int, **_: Any) -> Latency:
        asked.append((from_ms, to_ms))
        watched_ms = 0 if from_ms < TODAY + 6 * HOUR else HOUR
        return waited(messages=5, within_slo=4, histogram=(Bucket(1_000, 5),), watched_ms=watched_ms)

    monkeypatch.setattr(latency_heat.selectors, "latency", latency)
    day = latency_heat.latency_heat("local", "billing", TODAY, TODAY + 24 * HOUR, slo_ms=1)
    assert (day.step_ms, len(day.slices)) == (HOUR, 24)
    asked.clear()
    week = latency_heat.latency_heat("local", "billing", TODAY + HOUR, TODAY + 7 * 24 * HOUR, slo_ms=1)
    assert (week.step_ms, len(week.slices)) == (6 * HOUR, 28)
    assert asked[0] == (TODAY + HOUR, TODAY + 6 * HOUR) and asked[1] == (TODAY + 6 * HOUR, TODAY + 12 * HOUR)
    assert week.slices[0].histogram is None and week.slices[1].histogram


@pytest.mark.django_db(databases=["default", "metrics"])
def test_each_slice_is_judged_by_the_promise_in_force_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for slo_ms, target, from_ms in ((7_000, 0.5, TODAY), (9_000, 0.75, TODAY + 90 * 60_000)):
        GroupSlo.objects.create(
            cluster="local", group="billing", slo_ms=slo_ms, target=target, from_ms=from_ms, set_by="mia"
        )
    judged: list[tuple[int, float]] = []

    def latency(*_: object, slo_ms: int, target: float, topic: str | None) -> Latency:
        judged.append((slo_ms, target))
        return waited()

    monkeypatch.setattr(latency_heat.selectors, "latency", latency)
    latency_heat.latency_heat("local", "billing", TODAY - HOUR, TODAY + 3 * HOUR)
    # slices of 10 minutes; the last that ends before the first promise ends at -10 minutes
    assert judged == [(60_000, 0.99)] * 5 + [(7_000, 0.5)] * 9 + [(9_000, 0.75)] * 10
    judged.clear()
    latency_heat.latency_heat("local", "billing", TODAY, TODAY + 2 * HOUR, slo_ms=1)
    assert [slo_ms for slo_ms, _ in judged] == [1] * 24
