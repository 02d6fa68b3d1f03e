"""Days, weeks and hours of a zone: where the clock changes, at half an hour of UTC, and around midnights of its own."""

from __future__ import annotations

import datetime as dt

import pytest

from spark.lag.local_time import (
    DAY_MS,
    HOUR_MS,
    WEEK_MS,
    days_later,
    hour_of_week,
    moment_of,
    period_end,
    period_start,
    periods,
    starts_in_hour,
    wall_ms,
    zone_problem,
)

BERLIN, KOLKATA, NEW_YORK = "Europe/Berlin", "Asia/Kolkata", "America/New_York"


def utc(text: str) -> int:
    return int(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "at", "start", "end", "hours"),
    [
        ("UTC", "2026-03-29T12:00", "2026-03-29T00:00", "2026-03-30T00:00", 24),
        (BERLIN, "2026-03-28T22:59", "2026-03-27T23:00", "2026-03-28T23:00", 24),
        (BERLIN, "2026-03-29T12:00", "2026-03-28T23:00", "2026-03-29T22:00", 23),
        (BERLIN, "2026-10-25T00:30", "2026-10-24T22:00", "2026-10-25T23:00", 25),
        (BERLIN, "2026-10-25T01:30", "2026-10-24T22:00", "2026-10-25T23:00", 25),
        (NEW_YORK, "2026-03-08T07:00", "2026-03-08T05:00", "2026-03-09T04:00", 23),
        (NEW_YORK, "2026-11-01T06:30", "2026-11-01T04:00", "2026-11-02T05:00", 25),
        (KOLKATA, "2026-03-29T18:29", "2026-03-28T18:30", "2026-03-29T18:30", 24),
        (KOLKATA, "2026-03-29T18:30", "2026-03-29T18:30", "2026-03-30T18:30", 24),
        # midnight is left out, comes twice, or lies after an hour that comes twice
        ("America/Havana", "2026-03-08T05:00", "2026-03-08T05:00", "2026-03-09T04:00", 23),
        ("America/Havana", "2026-11-01T05:30", "2026-11-01T04:00", "2026-11-02T05:00", 25),
        ("Africa/Cairo", "2026-10-29T21:30", "2026-10-28T21:00", "2026-10-29T22:00", 25),
    ],
)
def test_a_day_goes_from_midnight_to_midnight(zone: str, at: str, start: str, end: str, hours: int) -> None:
    found = period_start(utc(at), DAY_MS, zone), period_end(utc(at), DAY_MS, zone)
    assert found == (utc(start), utc(end))
    assert found[1] - found[0] == hours * HOUR_MS


def test_the_wall_clock_goes_24_hours_whatever_the_day() -> None:
    for day in ("2026-03-29T12:00", "2026-10-25T12:00"):
        start_ms, end_ms = period_start(utc(day), DAY_MS, BERLIN), period_end(utc(day), DAY_MS, BERLIN)
        assert wall_ms(start_ms, end_ms, BERLIN) == DAY_MS


def test_a_week_goes_from_local_monday_to_local_monday() -> None:
    spring, autumn = utc("2026-03-29T12:00"), utc("2026-10-25T12:00")
    assert period_start(spring, WEEK_MS, BERLIN) == utc("2026-03-22T23:00")
    assert period_end(spring, WEEK_MS, BERLIN) == utc("2026-03-29T22:00")
    assert period_start(autumn, WEEK_MS, BERLIN) == utc("2026-10-18T22:00")
    assert period_end(autumn, WEEK_MS, BERLIN) == utc("2026-10-25T23:00")
    assert period_start(utc("2026-03-29T18:30"), WEEK_MS, KOLKATA) == utc("2026-03-29T18:30")


def test_hours_are_of_utc_in_every_zone() -> None:
    at = utc("2026-03-29T18:45")
    assert period_start(at, HOUR_MS, KOLKATA) == utc("2026-03-29T18:00")
    assert period_end(at, HOUR_MS, KOLKATA) == utc("2026-03-29T19:00")


@pytest.mark.parametrize("zone", ["UTC", BERLIN, KOLKATA, NEW_YORK, "Africa/Cairo", "Australia/Lord_Howe"])
@pytest.mark.parametrize("period_ms", [DAY_MS, WEEK_MS])
def test_the_periods_of_a_year_leave_no_moment_out(zone: str, period_ms: int) -> None:
    found = list(periods(utc("2026-01-01T00:00"), utc("2027-01-01T00:00"), period_ms, zone))
    assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
    assert {(end - start - period_ms) // HOUR_MS for start, end in found} <= {-1, 0, 1}
    assert all(period_start(end - 1, period_ms, zone) == start for start, end in found)


def test_an_hour_in_which_a_day_begins_is_of_two() -> None:
    hour = utc("2026-03-29T18:00")
    from_ms, to_ms = utc("2026-03-28T18:30"), utc("2026-03-30T18:30")
    both = {utc("2026-03-28T18:30"), utc("2026-03-29T18:30")}
    assert starts_in_hour(hour, from_ms, to_ms, DAY_MS, KOLKATA) == both
    assert starts_in_hour(hour, utc("2026-03-29T18:30"), to_ms, DAY_MS, KOLKATA) == {max(both)}
    assert starts_in_hour(hour, from_ms, utc("2026-03-29T18:30"), DAY_MS, KOLKATA) == {min(both)}


def test_a_time_of_day_that_is_left_out_or_comes_twice_is_one_moment() -> None:
    assert moment_of(dt.date(2026, 3, 29), 2, 30, BERLIN) == utc("2026-03-29T01:30")  # 03:30 of the new time
    assert moment_of(dt.date(2026, 10, 25), 2, 30, BERLIN) == utc("2026-10-25T00:30")  # the first of the two


def test_days_are_counted_on_the_wall_clock() -> None:
    end_ms = utc("2026-10-25T23:00")
    assert days_later(end_ms, -28, BERLIN) == utc("2026-09-27T22:00")
    assert days_later(utc("2026-10-24T22:00"), 1, BERLIN) == end_ms


def test_the_hour_of_week_is_the_hour_of_the_wall_clock() -> None:
    assert hour_of_week(utc("2026-03-27T08:00"), BERLIN) == 4 * 24 + 9
    assert hour_of_week(utc("2026-04-03T07:00"), BERLIN) == 4 * 24 + 9
    twice = (utc("2026-10-25T00:00"), utc("2026-10-25T01:00"))
    assert [hour_of_week(at_ms, BERLIN) for at_ms in twice] == [6 * 24 + 2] * 2
    # the hour of UTC that begins at 23:30 on Sunday, whatever the minute
    assert hour_of_week(utc("2026-03-29T18:45"), KOLKATA) == 6 * 24 + 23


def test_a_name_that_is_no_zone_has_a_sentence() -> None:
    assert zone_problem(BERLIN) == ""
    for name in ("Mars/X", "", "../../etc/passwd", "UTC+3", "Europe"):
        assert zone_problem(name) == (
            f"{name!r} is no time zone; use a name of the IANA list such as Europe/Berlin or Asia/Kolkata."
        )
