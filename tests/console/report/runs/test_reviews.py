"""What daily and weekly lag reports say besides lag: literal rows of days in, literal rows out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from console.lag.models import GroupRow, GroupSlo, HistoryGap, LagEvent, TopicRow
from console.report.models import ReportRow, ReportRun, Stamp
from console.report.runs.reviews import replace_reviews
from console.report.runs.weekly_review import CapacityDay, proposals
from console.text import Text
from tests.console.report.sample_rows import DAY, HOUR, TODAY, row, run

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
MONDAY = TODAY - 4 * DAY  # TODAY is a Friday


def a_day(of: ReportRun, start_ms: int, **fields: Any) -> None:
    values = {"watched_ms": DAY, "late_message_ms": 0, "window_end_ms": start_ms + DAY, "coverage_pct": 100.0}
    row(of, job="lag_day", window_start_ms=start_ms, **{**values, **fields})


def reviews(of: ReportRun, *periods: int, now_ms: int = TODAY + DAY) -> dict[str, list[ReportRow]]:
    stamp = Stamp(of.id, of.job, of.zone, TODAY + DAY, "0.1.0")
    count = replace_reviews(of, periods, stamp, claim=lambda: None, now_ms=now_ms)
    made = list(ReportRow.objects.filter(job=of.job).order_by("pk"))
    assert len(made) == count
    found: dict[str, list[ReportRow]] = {}
    for one in made:
        found.setdefault(one.grain, []).append(one)
    return found


@pytest.fixture
def daily() -> ReportRun:
    return run(job="lag_day", from_ms=TODAY, to_ms=TODAY + DAY)


def test_it_tells_of_each_group_what_is_left_of_four_weeks_budget(daily: ReportRun) -> None:
    GroupSlo.objects.create(cluster="local", group="billing", slo_ms=60_000, target=0.99)
    a_day(daily, TODAY, breach_ms=3_600_000, consumed=1_000, consumed_within_slo=900)
    a_day(daily, TODAY, topic="refunds", breach_ms=60_000, consumed=1_000, consumed_within_slo=1_000)
    a_day(daily, TODAY - DAY, breach_ms=0)
    a_day(daily, TODAY - 30 * DAY, breach_ms=DAY)  # before the four weeks
    (told,) = reviews(daily, TODAY)["slo"]
    figures = told.figures
    assert (told.group, figures["slo_ms"], figures["target_pct"]) == ("billing", 60_000, 99.0)
    # the worst topic's hour of 24; the budget is 1 % of 28 days: 6.72 hours
    assert figures["good_pct"] == 95.8333
    assert figures["good_change_points"] == -4.1667
    assert figures["budget_left_pct"] == 85.12
    assert (figures["budget_days"], figures["kept"], figures["within_slo_pct"]) == (2, False, 95.0)
    assert figures["burn_rate"] == 4.1667


def test_a_day_that_nobody_watched_keeps_no_promise_and_breaks_none(daily: ReportRun) -> None:
    a_day(daily, TODAY, watched_ms=0)
    (told,) = reviews(daily, TODAY)["slo"]
    assert "good_pct" not in told.figures and "burn_rate" not in told.figures
    assert "kept" not in told.figures and told.coverage_pct == 0


def test_it_joins_resets_with_what_people_did_here(daily: ReportRun) -> None:
    a_day(daily, TODAY)
    shared = {
        "cluster": "local",
        "group": "billing",
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": 2,
    }
    LagEvent.objects.create(
        **shared,
        kind="REWIND",
        at_ms=TODAY + HOUR,
        from_offset=90,
        to_offset=40,
        messages=50,
        cause=Text("plan op-1"),
    )
    LagEvent.objects.create(**shared, kind="SKIPPED", at_ms=TODAY + 2 * HOUR, messages=7)
    LagEvent.objects.create(**shared, kind="MEMBERS", at_ms=TODAY + 3 * HOUR, messages=2)
    LagEvent.objects.create(**shared, kind="LOST", at_ms=TODAY - HOUR, messages=9)  # the day before
    rewound, skipped = reviews(daily, TODAY)["event"]
    assert (rewound.kind, rewound.figures["by"], rewound.figures["is_ours"]) == ("REWIND", "plan op-1", True)
    assert (rewound.figures["queue"], rewound.figures["from_offset"]) == ("broker-a · 2", 90)
    assert (skipped.figures["by"], skipped.figures["is_ours"], skipped.figures["messages"]) == (
        "outside this console",
        False,
        7,
    )


def test_it_says_how_long_nobody_looked(daily: ReportRun) -> None:
    a_day(daily, TODAY, coverage_pct=91.5, max_gap_ms=HOUR)  # the collector began later than the day
    HistoryGap.objects.create(
        cluster="local", from_ms=TODAY - HOUR, to_ms=TODAY + HOUR, reason=Text("stopped")
    )
    HistoryGap.objects.create(cluster="local", broker_name="broker-b", from_ms=TODAY + 23 * HOUR)  # lasts
    collector, silent = reviews(daily, TODAY)["collector"]
    assert (collector.broker_name, collector.figures["away_ms"], collector.figures["gaps"]) == ("", HOUR, 1)
    assert (collector.figures["watched_pct"], collector.figures["coverage_least_pct"]) == (91.5, 91.5)
    assert (silent.broker_name, silent.figures["longest_ms"]) == ("broker-b", HOUR)


def test_it_names_dead_weight_only_while_it_is_known(daily: ReportRun) -> None:
    now_ms = TODAY + DAY
    for day in range(7):
        a_day(daily, TODAY - day * DAY, group="frozen", consumed=0, lag_max=10)
        a_day(daily, TODAY - day * DAY, group="works", consumed=5, lag_max=10)
    for group, status, offline_ms in (
        ("frozen", "STALLED", None), ("works", "OK", None), ("new", "NEVER_COMMITTED", None),
        ("gone", "OFFLINE", now_ms - 8 * DAY), ("away", "OFFLINE", now_ms - DAY),
    ):  # fmt: skip
        GroupRow.objects.create(cluster="local", group=group, status=status, offline_since_ms=offline_ms)
    TopicRow.objects.create(cluster="local", topic="unread", kind="NORMAL", readers=0, messages=12)
    TopicRow.objects.create(cluster="local", topic="read", kind="NORMAL", readers=1)
    told = {(each.group or each.topic): each.figures["why"] for each in reviews(daily, TODAY)["dead_weight"]}
    assert told == {
        "frozen": "no progress", "gone": "offline", "new": "never committed", "unread": "no consumer",
    }  # fmt: skip
    ReportRow.objects.all().delete()
    assert "dead_weight" not in reviews(daily, TODAY, now_ms=now_ms + 3 * DAY)


def test_a_week_is_held_against_the_one_before() -> None:
    weekly = run(job="lag_week", from_ms=MONDAY, to_ms=MONDAY + 7 * DAY)
    for day in range(21):
        start_ms = MONDAY - 14 * DAY + day * DAY
        rate = 300.0 + day % 3 if day >= 14 else 100.0 + day % 3
        a_day(
            weekly, start_ms, in_rate=rate, out_rate=50.0 + day % 2, late_message_ms=1_800_000, skew_gini=0.2
        )
    made = reviews(weekly, MONDAY, now_ms=MONDAY + 7 * DAY)
    (told,) = made["trend"]
    figures = told.figures
    assert (figures["in_before"], figures["in_now"], figures["in_verdict"]) == (101.0, 301.1429, "higher")
    assert (figures["in_p"], figures["in_days"], figures["in_change_pct"]) == (0.0156, 7, 198.2)
    assert figures["out_verdict"] == "no clear change"
    assert figures["late_message_hours"] == 3.5
    (change,) = made["change"]
    assert (change.figures["what"], change.figures["at_ms"], change.figures["days"]) == ("in", MONDAY, 21)


def test_days_that_were_hardly_watched_are_compared_with_none() -> None:
    weekly = run(job="lag_week", from_ms=MONDAY, to_ms=MONDAY + 7 * DAY)
    for day in range(14):
        covered = 40.0 if day in (2, 9, 10) else 100.0
        a_day(weekly, MONDAY - 7 * DAY + day * DAY, in_rate=10.0 * (1 + day // 7), coverage_pct=covered)
    (told,) = reviews(weekly, MONDAY, now_ms=MONDAY + 7 * DAY)["trend"]
    assert (told.figures["in_days"], told.figures["in_verdict"]) == (5, "too few days")


def test_it_proposes_what_the_week_speaks_for() -> None:
    day = CapacityDay(clients=2, consumers_needed=4, consumers_factor=2.6, queues=4)
    skewed = msgspec.structs.replace(day, skew_offender="broker-a · 1", runway_ms=5 * HOUR)
    found = list(proposals({("billing", "orders"): [day, skewed, skewed, skewed]}))
    told = {row.figures["proposal"]: row.figures for row in found}
    assert set(told) == {"more consumers", "more queues", "another key", "longer retention"}
    assert (told["more consumers"]["now"], told["more consumers"]["proposed"]) == (2, 4)
    assert (told["more queues"]["now"], told["more queues"]["proposed"]) == (4, 6)
    assert (told["another key"]["evidence"], told["another key"]["on_days"]) == ("broker-a · 1", 3)
    assert (told["longer retention"]["runway_ms"], told["longer retention"]["days"]) == (5 * HOUR, 4)
    idle = CapacityDay(dead_weight="no progress", queues=4)
    (remove,) = proposals({("old", "orders"): [idle] * 7})
    assert (remove.group, remove.figures["proposal"], remove.figures["on_days"]) == ("old", "remove", 7)
    assert list(proposals({("old", "orders"): [idle] * 6})) == []
