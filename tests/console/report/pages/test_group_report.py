"""The report of one group: hours with gaps, the error budget, the words, the page."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from console.report.models import LagRow, ReportRow, ReportRun, ReportSchedule
from console.report.pages import group_report, group_views
from tests.console.report import sample_rows as rows
from tests.console.report.sample_rows import DAY, HOUR, NOW, TODAY
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
PAGE = "/c/local/reports/groups/billing"


@pytest.fixture
def run() -> ReportRun:
    return rows.run()


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_views, "_now_ms", lambda: NOW)


def add(run: ReportRun, hour: int, **fields: Any) -> None:
    start_ms = TODAY + hour * HOUR
    rows.row(run, window_start_ms=start_ms, window_end_ms=start_ms + HOUR, watched_ms=HOUR, **fields)


def add_episode(run: ReportRun, kind: str, start_ms: int, duration_ms: int, **figures: Any) -> ReportRow:
    values = {
        "start_ms": start_ms,
        "end_ms": start_ms + duration_ms,
        "duration_ms": duration_ms,
        "cause": "surge",
        "worst_queue": "broker-a · 1",
        "peak_time_lag_ms": 90_000,
        "messages_late": 12,
        "lost": 0,
        **figures,
    }
    return ReportRow.objects.create(
        run=run,
        job="episodes",
        grain="episode",
        cluster="local",
        kind=kind,
        group="billing",
        topic="orders",
        window_start_ms=TODAY,
        window_end_ms=TODAY + DAY,
        figures=values,
        generated_at_ms=NOW,
    )


def test_an_hour_without_a_row_is_a_gap_and_not_zero(run: ReportRun) -> None:
    add(run, 1, time_lag_max_ms=7_000, breach_ms=0)
    add(run, 3, time_lag_max_ms=None, breach_ms=0)
    hours = group_report.hours_of("local", "billing", TODAY, TODAY + 4 * HOUR)
    assert hours.max_ms == [None, 7_000, None, None]
    assert hours.breach_ms == [None, 0, None, 0]
    assert hours.seen == 1
    assert hours.coverage_pct == pytest.approx(2 * 99.86 / 3, abs=0.1)


def test_of_several_topics_the_worst_counts(run: ReportRun) -> None:
    add(run, 1, topic="orders", time_lag_p95_ms=4_000, breach_ms=60_000, produced=10)
    add(run, 1, topic="payments", time_lag_p95_ms=9_000, breach_ms=20_000, produced=5)
    add(run, 1, topic="%RETRY%billing", kind="RETRY", time_lag_p95_ms=99_000, breach_ms=HOUR)
    add(run, 1, topic="orders", group="other", time_lag_p95_ms=99_000)
    hours = group_report.hours_of("local", "billing", TODAY + HOUR, TODAY + 2 * HOUR)
    assert (hours.p95_ms, hours.breach_ms, hours.produced) == ([9_000], [60_000], 15)


def test_the_budget_is_spent_by_breaches_and_can_be_overspent(run: ReportRun) -> None:
    for hour, breach_ms in ((0, 0), (2, 72_000), (3, HOUR)):
        add(run, hour, breach_ms=breach_ms)
    hours = group_report.hours_of("local", "billing", TODAY, TODAY + 4 * HOUR)
    budget = group_report.budget_of(hours, 0.99)  # 144 s in four hours
    assert budget.left_pct == [100.0, None, 50.0, -2450.0]
    assert budget.even_pct == [75.0, 50.0, 25.0, 0.0]
    assert budget.now_pct == -2450.0


def test_each_hour_is_allowed_what_was_promised_then(run: ReportRun) -> None:
    """Two hours at 90 %, then a stricter promise: 360 s each, then 36 s each; an hour without a row as now."""
    for hour, breach_ms, target in ((0, 396_000, 0.9), (1, 0, 0.9), (2, 0, 0.99)):
        add(run, hour, breach_ms=breach_ms, slo_target=target)
    hours = group_report.hours_of("local", "billing", TODAY, TODAY + 4 * HOUR)
    budget = group_report.budget_of(hours, 0.99)
    assert budget.left_pct == [50.0, 50.0, 50.0, None]
    assert budget.even_pct == [54.55, 9.09, 4.55, 0.0]


def test_nobody_looked_is_no_budget() -> None:
    hours = group_report.hours_of("local", "billing", TODAY, TODAY + 4 * HOUR)
    assert group_report.budget_of(hours, 0.99).now_pct is None
    assert (hours.coverage_pct, hours.slo_ms) == (None, None)


def test_queues_by_hour_worst_first(run: ReportRun) -> None:
    found = [
        rows.queue(
            window_start_ms=TODAY + hour * HOUR,
            window_end_ms=TODAY + (hour + 1) * HOUR,
            queue_id=queue_id,
            time_lag_max_ms=lag_ms,
        )
        for queue_id, hour, lag_ms in ((0, 0, 5_000), (1, 0, 50_000), (1, 1, 70_000))
    ]
    rows.publish(run, *found, rows.queue(window_start_ms=TODAY, group="other"))
    heat = group_report.queue_heat("local", "billing", TODAY, TODAY + 2 * HOUR)
    assert heat.rows == ["broker-a · 1", "broker-a · 0"]
    assert heat.values == [[50_000, 70_000], [5_000, None]]
    assert heat.total == 2


def test_it_finds_the_daily_tide_and_nothing_in_noise(run: ReportRun) -> None:
    for day in range(4):
        for hour in range(24):
            add(run, 24 * day + hour, time_lag_p95_ms=60_000 if hour == 20 else 2_000 + 100 * (hour % 3))
    hours = group_report.hours_of("local", "billing", TODAY, TODAY + 4 * DAY)
    tide = group_report.daily_tide(hours)
    assert tide is not None
    assert (tide.hour, tide.days, tide.high_ms) == (20, 4, 60_000)
    LagRow.objects.filter(time_lag_p95_ms=60_000).update(time_lag_p95_ms=2_100)
    assert group_report.daily_tide(group_report.hours_of("local", "billing", TODAY, TODAY + 4 * DAY)) is None


def test_words_name_episodes_overspending_and_what_nobody_saw(run: ReportRun) -> None:
    add(run, 0, breach_ms=HOUR)
    add(run, 2)
    episode = add_episode(run, "breach", TODAY, HOUR // 2)
    hours = group_report.hours_of("local", "billing", TODAY, TODAY + 4 * HOUR)
    assert hours.unseen == 1  # what is before the first and after the last row is not observed yet
    found = group_report.sentences(hours, group_report.budget_of(hours, 0.99), [episode])
    assert [(each.kind, each.status) for each in found] == [
        ("breach", "FALLING_BEHIND"),
        ("overspent", "STOPPED"),
        ("unseen", "UNKNOWN"),
    ]
    assert found[0].share_pct == 50.0


def test_episodes_of_the_window_longest_first(run: ReportRun) -> None:
    short = add_episode(run, "stall", TODAY + HOUR, 60_000)
    long = add_episode(run, "offline", TODAY, 2 * HOUR)
    add_episode(run, "breach", TODAY - DAY, HOUR)
    found = group_report.episodes_of("local", "billing", TODAY, TODAY + DAY)
    assert [each.pk for each in found] == [long.pk, short.pk]


class TestPage:
    @pytest.fixture
    def admin(self) -> Client:
        sample_rows.sample()
        return signed_in()

    def text(self, client: Client, query: str = "") -> str:
        answer = client.get(PAGE + query)
        assert answer.status_code == 200
        return answer.content.decode()

    def test_it_shows_words_plots_and_episodes(self, admin: Client, run: ReportRun) -> None:
        add(run, 8, breach_ms=120_000, drain_ms=60_000, drain_lo_ms=40_000, drain_hi_ms=None)
        add_episode(run, "stall", TODAY + 8 * HOUR, 120_000)
        page = self.text(admin)
        for words in (
            "A queue stalled for 2 m",
            "broker-a · 1",
            "1 of 168 hours observed",
            "needs 72 observed hours; 1 so far",
            'id="plot-drain"',
        ):
            assert words in page

    def test_what_has_no_picture_is_a_line_with_its_reason(self, admin: Client, run: ReportRun) -> None:
        add(run, 8, consumed=0, retry_in=0)
        page = self.text(admin)
        shown = re.findall(r"<dt>\s*(.*?)\s*</dt><dd>(.*?)</dd>", page.partition('id="n-h"')[2], re.DOTALL)
        reasons = {part: re.sub("<.*?>", "", why) for part, why in shown}
        ends = reasons["Time lag by the hour, queues, cumulative flow, error budget"]
        assert ends.startswith("a line needs two observed hours; the second ends at ") and "10:00:00" in ends
        assert reasons["How long messages waited"] == "no message was consumed in this time"
        assert reasons["Retries and dead letters"] == "no message was sent back for a retry"
        assert reasons["Episodes"] == "none in this time"
        assert "data-plot" not in page
        # nothing is asked for but the room, which history alone has
        assert re.findall(r'data-asked="([^"]+)"', page) == ["room"]

    def test_its_charts_begin_with_the_first_observed_hour(self, admin: Client, run: ReportRun) -> None:
        for hour in (5, 6, 8):
            add(run, hour, time_lag_p95_ms=9_000, breach_ms=60_000)
        page = self.text(admin)
        drawn = {
            name: json.loads(re.findall(rf'id="plot-{name}"[^>]*>(.*?)</script>', page)[0])
            for name in ("hours", "budget", "flow")
        }
        assert drawn["hours"]["times"][0] == drawn["budget"]["times"][0] == TODAY + 5 * HOUR
        assert drawn["hours"]["p95_ms"][:4] == [9_000, 9_000, None, 9_000]
        assert drawn["flow"]["times"][0] == TODAY + 6 * HOUR  # where its first hour ends
        assert f"from_ms={TODAY + 5 * HOUR}&amp;" in page
        assert "Time without observation is not included." in page  # the hour between

    def test_a_budget_of_which_nothing_is_used_is_a_line(self, admin: Client, run: ReportRun) -> None:
        for hour in (5, 6):
            add(run, hour, breach_ms=0)
        page = self.text(admin)
        assert 'id="plot-hours"' in page and 'id="plot-budget"' not in page
        assert "<dt>Error budget</dt><dd>no part of it was used in this time</dd>" in re.sub(
            r"\s*\n\s*", "", page
        )

    def test_the_week_is_one_of_the_reports_zone(self, admin: Client, run: ReportRun) -> None:
        """18:00 UTC on Monday is 23:30 in India, 18:30 there is Tuesday: the hour of UTC keeps its beginning."""
        ReportSchedule.objects.create(
            cluster="local", job="lag_day", cadence="DAILY", minute=20, zone="Asia/Kolkata"
        )
        monday = TODAY - (TODAY // DAY + 3) % 7 * DAY
        for hour in range(72):
            add(run, (monday - TODAY) // HOUR + hour, time_lag_p95_ms=9_000 if hour == 18 else None)
        page = self.text(admin, "?span=28d")
        assert "hours of Asia/Kolkata" in page
        week = json.loads(re.findall(r'id="plot-hour-of-week"[^>]*>(.*?)</script>', page)[0])
        assert week["minute"] == 30
        assert [
            place for place, ms in zip(week["hours_of_week"], week["p95_ms"], strict=True) if ms == 9_000
        ] == [23]

    def test_it_says_that_nothing_was_computed(self, admin: Client) -> None:
        page = self.text(admin, "?span=28d")
        assert "No hour of this time has been computed" in page
        next_hour_ms = NOW - NOW % HOUR + HOUR
        assert re.search(rf'current hour a few minutes after\s+<time data-at="{next_hour_ms}"', page)

    def test_a_group_nobody_knows_is_not_found(self, admin: Client) -> None:
        assert admin.get("/c/local/reports/groups/nobody").status_code == 404

    def test_it_asks_for_the_right_to_see_the_group(self, run: ReportRun) -> None:
        sample_rows.sample()
        add(run, 8)
        stranger = signed_in("stranger", verbs=("VIEW",), cluster="local", names="other*")
        assert stranger.get(PAGE).status_code == 403
        narrow = signed_in("narrow", verbs=("VIEW",), cluster="local", names="bill*")
        assert narrow.get(PAGE).status_code == 200


def test_the_flow_is_as_high_as_the_lag_and_has_gaps(db: None) -> None:
    run = rows.run()
    rows.row(run, window_start_ms=TODAY, window_end_ms=TODAY + HOUR, produced=100, lag_last=40)
    rows.row(run, topic="clicks", window_start_ms=TODAY, window_end_ms=TODAY + HOUR, produced=10, lag_last=2)
    rows.row(
        run,
        window_start_ms=TODAY + 2 * HOUR,
        window_end_ms=TODAY + 2 * HOUR + 60_000,
        produced=5,
        lag_last=None,
    )
    found = group_report.flow_of(group_report.hours_of("local", "billing", TODAY, TODAY + 3 * HOUR))
    assert found.produced == [110, None, 115]
    assert found.committed == [68, None, None]
    assert found.times == [TODAY + HOUR, TODAY + 2 * HOUR, TODAY + 2 * HOUR + 60_000]
