"""Days of a zone as tasks compute them: cut at local midnight, inside an hour of UTC too, nothing lost or twice."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
import pytest

from spark.job import HourFiles, JobSpec, JobSpecError
from spark.jobs.store_job import days
from spark.lag.local_time import HOUR_MS
from spark.output.lag_rows import period_rows
from spark.sources.work import work_items
from tests.spark.history_files import AS_OF, HOUR, START, STEP, generated
from tests.spark.work_of import day_rows, queue_chunk, spec

MINUTE = 60_000
DAY = 24 * HOUR_MS


def utc(text: str) -> int:
    return int(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


def of_topics(rows: list[dict[str, Any]]) -> list[tuple[int, int, int, int]]:
    """(start, end, produced, time that was known) of the days."""
    topics = [row for row in rows if row["grain"] == "topic"]
    return [
        (row["window_start_ms"], row["window_end_ms"], row["produced"], sum(row["status_ms"]))
        for row in topics
    ]


def test_a_day_is_cut_at_half_an_hour_of_utc(tmp_path: Path) -> None:
    start_ms, midnight = utc("2026-03-29T18:00"), utc("2026-03-29T18:30")
    lags = [10 * number for number in range(120)]
    path = queue_chunk(tmp_path / "a.parquet", lags, lags, start_ms=start_ms)
    asked = spec([path], start_ms, 2, zone="Asia/Kolkata", from_ms=midnight - DAY, to_ms=midnight + DAY)
    rows, warnings = day_rows(asked)
    # the sample of 18:00 has none before it, the other 119 have ten messages each
    assert (warnings, of_topics(rows)) == (
        [],
        [
            (midnight - DAY, midnight, 290, 30 * MINUTE),
            (midnight, start_ms + 2 * HOUR, 900, 90 * MINUTE),
        ],
    )


@pytest.mark.parametrize(
    ("zone", "midnight", "hours"),
    [
        ("Europe/Berlin", "2026-03-29T22:00", 23),
        ("Europe/Berlin", "2026-10-25T23:00", 25),
        ("America/New_York", "2026-03-09T04:00", 23),
    ],
)
def test_a_day_has_as_many_hours_as_the_clock_leaves(
    zone: str, midnight: str, hours: int, tmp_path: Path
) -> None:
    end_ms = utc(midnight)
    lags = [10 * number for number in range(120)]
    path = queue_chunk(tmp_path / "a.parquet", lags, lags, start_ms=end_ms - HOUR)
    files = tuple(HourFiles("local", at_ms, (path,)) for at_ms in (end_ms - HOUR, end_ms))
    asked = msgspec.structs.replace(spec([path], end_ms - hours * HOUR, hours + 1, zone=zone), hours=files)
    rows, _ = day_rows(asked)
    assert of_topics(rows) == [
        (end_ms - hours * HOUR, end_ms, 590, HOUR),
        (end_ms, end_ms + HOUR, 600, HOUR),
    ]


def test_a_day_may_begin_inside_of_an_hour_in_the_log(tmp_path: Path) -> None:
    history = generated()
    chunk, logs = history.write_chunk(tmp_path), tuple(history.write_log(tmp_path))
    hours = (HourFiles("local", START, (chunk,)), HourFiles("local", START + HOUR, logs, (chunk,)))
    asked = msgspec.structs.replace(spec([], START, 2, as_of_ms=AS_OF, interval_ms=STEP), hours=hours)
    (whole,) = work_items(asked, period_ms=DAY)
    middle = START + HOUR + HOUR // 3
    first = msgspec.structs.replace(whole, from_ms=START, to_ms=middle)
    last = msgspec.structs.replace(whole, from_ms=middle, to_ms=AS_OF, hours=whole.hours[1:])
    names = ("produced", "consumed", "lost", "skipped", "rewinds")
    sums = []
    for items in ([msgspec.structs.replace(whole, from_ms=START)], [first, last]):
        found: dict[tuple[str, str], list[int]] = {}
        for item in items:
            for table in period_rows(item, []):
                for row in table.to_pylist():
                    if row["grain"] == "topic":
                        own = found.setdefault((row["group"], row["topic"]), [0] * (len(names) + 1))
                        values = [*(row[name] for name in names), sum(row["status_ms"])]
                        own[:] = [before + value for before, value in zip(own, values, strict=True)]
        sums.append(found)
    assert len(sums[0]) > 1
    assert sums[1] == sums[0]


def test_messages_belong_to_the_day_of_the_zone() -> None:
    asked = spec([], utc("2026-10-24T22:00"), 26, zone="Europe/Berlin", as_of_ms=utc("2026-10-25T23:10"))
    assert days(asked) == [
        (utc("2026-10-24T22:00"), utc("2026-10-25T23:00")),
        (utc("2026-10-25T23:00"), utc("2026-10-25T23:10")),
    ]


def test_a_spec_names_what_is_no_zone() -> None:
    with pytest.raises(JobSpecError) as refusal:
        spec([], START, 1, zone="Mars/X")
    assert str(refusal.value) == (
        "zone: 'Mars/X' is no time zone; use a name of the IANA list such as Europe/Berlin or Asia/Kolkata."
    )
    assert JobSpec.from_json(spec([], START, 1).to_json()).zone == "UTC"
