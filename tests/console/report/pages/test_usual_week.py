"""When the usual traffic of the coming hours lets a backlog drain."""

from __future__ import annotations

from typing import Any

import pytest

from console.report.pages import group_report, group_views
from console.report.pages.usual_week import usual_drain
from tests.console.report import sample_rows as rows
from tests.console.report.sample_rows import HOUR, TODAY
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
BUSY = (1, 2)  # hours after the newest row, a week ago: more came than the group can read


def week(hours: int = 168, lag: int = 36_000, **newest: Any) -> None:
    """So many hours until now: 1 message a second, 10 in those that are `BUSY` again next; 5 can be read."""
    run = rows.run()
    for back in range(hours):
        start_ms = TODAY - back * HOUR
        rows.row(
            run,
            window_start_ms=start_ms,
            window_end_ms=start_ms + HOUR,
            in_rate=10.0 if 168 - back in BUSY else 1.0,
            out_rate=5.0,
            lag_last=lag if back == 0 else 40,
            **(newest if back == 0 else {}),
        )


def test_it_waits_for_the_trough_that_clears_it() -> None:
    week()
    found = usual_drain("local", "billing", group_report.runways_of("local", "billing"))
    assert found is not None
    # two busy hours add 36,000; then 4 a second more are read than come
    assert (found.drain.ms, found.drain.never) == (7 * HOUR, False)
    assert (found.topic, found.lag, found.capacity, found.weeks) == ("orders", 36_000, 5.0, 1)


def test_an_hour_that_was_never_seen_makes_it_unknown() -> None:
    week(hours=100)
    found = usual_drain("local", "billing", group_report.runways_of("local", "billing"))
    assert found is not None
    assert (found.drain.ms, found.drain.never) == (None, False)


def test_nothing_is_forecast_where_nothing_waits(django_assert_num_queries: Any) -> None:
    week(hours=1, lag=0)
    runways = group_report.runways_of("local", "billing")
    with django_assert_num_queries(0):
        assert usual_drain("local", "billing", runways) is None


def test_the_report_of_the_group_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_views, "_now_ms", lambda: TODAY + HOUR + 1)
    sample_rows.sample()
    week()
    text = signed_in().get("/c/local/reports/groups/billing").content.decode()
    assert "the 36,000 messages of orders drain within 7 h" in text
