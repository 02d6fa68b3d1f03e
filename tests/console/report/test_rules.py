"""Windows and spans: whole UTC hours, and refusals that name the field."""

from __future__ import annotations

import pytest

from console.report import rules
from console.report.rules import (
    SPANS,
    ReportRejected,
    Window,
    last_two_hours,
    span_start,
    window,
    yesterday_to_now,
)
from tests.console.report.sample_rows import DAY, HOUR, NOW, TODAY


def test_it_widens_a_window_to_whole_hours() -> None:
    assert window(TODAY + 1, TODAY + HOUR + 1, now_ms=NOW) == Window(TODAY, TODAY + 2 * HOUR)
    assert window(TODAY, TODAY + HOUR, now_ms=NOW) == Window(TODAY, TODAY + HOUR)
    assert Window(TODAY, TODAY + 2 * HOUR).hours == 2


def test_it_ends_a_window_with_the_running_hour() -> None:
    assert window(TODAY, NOW + DAY, now_ms=NOW) == Window(TODAY, TODAY + 10 * HOUR)


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "field", "text"),
    [
        (TODAY, TODAY, "to_ms", "The end must be after the start."),
        (TODAY, TODAY - 1, "to_ms", "The end must be after the start."),
        (NOW, NOW + 1, "from_ms", "The window is in the future: nothing has been measured yet."),
        (
            0,
            NOW,
            "from_ms",
            "One run covers at most 744 hours, and the window has 480,010: run the report in parts.",
        ),
    ],
)
def test_it_refuses_a_window_and_names_the_field(from_ms: int, to_ms: int, field: str, text: str) -> None:
    with pytest.raises(ReportRejected) as refusal:
        window(from_ms, to_ms, now_ms=NOW)
    assert (refusal.value.field, str(refusal.value)) == (field, text)


def test_it_takes_a_whole_month_and_no_hour_more() -> None:
    assert window(TODAY - 31 * DAY, TODAY, now_ms=NOW).hours == 744
    with pytest.raises(ReportRejected):
        window(TODAY - 31 * DAY - 1, TODAY, now_ms=NOW)


def test_it_knows_the_windows_of_page_and_beat() -> None:
    assert yesterday_to_now(NOW) == Window(TODAY - DAY, TODAY + 10 * HOUR)
    assert last_two_hours(NOW) == Window(TODAY + 7 * HOUR, TODAY + 9 * HOUR)


def test_it_knows_where_the_spans_of_the_page_begin() -> None:
    assert {span: span_start(span, now_ms=NOW) for span in SPANS} == {
        "": TODAY - DAY,
        "7d": TODAY - 6 * DAY,
        "31d": TODAY - 30 * DAY,
        "all": None,
    }


def test_the_page_of_weeks_reaches_back_to_whole_weeks() -> None:
    assert list(rules.spans_of("lag_day")) == ["", "7d", "31d", "all"]
    assert list(rules.spans_of("lag_week")) == ["31d", "all"]
    assert (rules.span_of("", "lag_day"), rules.span_of("nonsense", "lag_day")) == ("", "")
    assert (rules.span_of("", "lag_week"), rules.span_of("all", "lag_week")) == ("31d", "all")
