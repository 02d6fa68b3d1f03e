"""The window as a person types it."""

from __future__ import annotations

import pytest

from console.report.forms import RunForm, ScheduleForm, as_input
from console.report.jobs import JOBS, SAME_DAYS
from console.report.rules import Window
from tests.console.report.sample_rows import DAY, HOUR, NOW, TODAY


def test_it_reads_both_ends_as_utc() -> None:
    form = RunForm({"start": "2024-10-04T01:30", "end": "2024-10-04T03:00:30"}, now_ms=NOW)
    assert form.is_valid()
    assert form.window == Window(TODAY + HOUR, TODAY + 4 * HOUR)


def test_it_takes_yesterday_to_now_when_nothing_is_said() -> None:
    form = RunForm({}, now_ms=NOW)
    assert form.is_valid()
    assert form.window == Window(TODAY - DAY, TODAY + 10 * HOUR)


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        ({"start": "soon"}, {"start": ["Enter a time like 2026-03-12T08:00."]}),
        ({"end": "2024-10-03T00:00"}, {"end": ["The end must be after the start."]}),
        (
            {"start": "2024-10-05T00:00", "end": "2024-10-06T00:00"},
            {"start": ["The window is in the future: nothing has been measured yet."]},
        ),
        (
            {"start": "0001-01-01T00:00"},
            {
                "start": [
                    "One run covers at most 744 hours, and the window has 17,739,898: run the report in parts."
                ]
            },
        ),
    ],
)
def test_it_refuses_beside_the_field(data: dict[str, str], errors: dict[str, list[str]]) -> None:
    form = RunForm(data, now_ms=NOW)
    assert not form.is_valid()
    assert form.errors == errors
    assert form.window is None


def test_it_fills_the_input_in_utc() -> None:
    assert as_input(NOW) == "2024-10-04T09:05"


def test_the_zone_names_every_report_that_shares_it() -> None:
    words = str(ScheduleForm().fields["zone"].help_text).lower()
    assert [job for job in SAME_DAYS if JOBS[job].lower() not in words] == []
