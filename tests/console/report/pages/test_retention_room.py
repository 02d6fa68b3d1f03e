"""The room before retention by store time, from a history that was really written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from console.lag.history.log import HistoryLog
from console.report.pages.retention_room import STEP_MS, Room, room
from spark.lag.snapshot import CommitKey, HeadKey
from tests.console.report.sample_rows import DAY, HOUR
from tests.spark.lag.sample_history import rounds

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
START = 20_000 * DAY
QUEUES = [HeadKey("orders", "broker-a", number) for number in range(2)]
STEPS = 20 * HOUR // STEP_MS


def write(tmp_path: Path, settings: Settings, committed: list[int], *, gap: range = range(0)) -> None:
    """A round every ten minutes for 20 hours, ten messages each; of queue 0 retention leaves six hours, of queue 1 it
    has removed nothing. Queue 0 began six hours before the history.
    """
    settings.DATA_DIR = tmp_path
    settings.HISTORY_URL = f"file://{tmp_path}/history"
    heads = {
        QUEUES[0]: [(10 * i + 1, 10 * i + 361) for i in range(STEPS)],
        QUEUES[1]: [(0, 10 * i) for i in range(STEPS)],
    }
    commits = {
        CommitKey("billing", *QUEUES[0]): committed,
        CommitKey("billing", *QUEUES[1]): [10 * i for i in range(STEPS)],
    }
    log = HistoryLog("local")
    log.catch_up(0)
    for number, one in enumerate(rounds(heads, commits, start_ms=START, interval_ms=STEP_MS)):
        if number not in gap:
            log.append(one)


def at(found: Room, hours: int) -> tuple[Any, ...]:
    """(kept, unread, room) in hours, and whether kept is a lower bound, so many hours after START."""
    place = found.times.index(START + hours * HOUR)
    names = ("kept_ms", "unread_ms", "room_ms")
    return *(round(getattr(found, name)[place] / HOUR, 1) for name in names), found.kept_lower_bound[place]


def test_it_tells_how_far_retention_is_by_store_time(tmp_path: Path, settings: Settings) -> None:
    write(tmp_path, settings, [10 * i + 361 - 120 for i in range(STEPS)])  # two hours late
    found = room("local", "billing", START, START + 20 * HOUR)
    assert found.queues == 1 and found.interval_ms == STEP_MS
    assert at(found, 18) == (6.0, 2.0, 4.0, False)
    assert at(found, 3) == (3.0, 2.0, 1.0, True)  # the history is no older: at least so


def test_who_reads_everything_has_all_the_room_and_who_lost_some_none(
    tmp_path: Path, settings: Settings
) -> None:
    half = STEPS // 2
    write(tmp_path, settings, [10 * i + 361 if i < half else 10 * half for i in range(STEPS)])
    found = room("local", "billing", START, START + 20 * HOUR)
    assert at(found, 9) == (6.0, 0.0, 6.0, False)
    assert at(found, 19)[1:3] == (6.0, 0.0)


def test_a_gap_is_null_and_a_group_without_history_has_no_edge(tmp_path: Path, settings: Settings) -> None:
    write(tmp_path, settings, [10 * i for i in range(STEPS)], gap=range(60, 66))
    found = room("local", "billing", START, START + 20 * HOUR)
    place = found.times.index(START + 10 * HOUR + 30 * 60_000)
    assert [getattr(found, name)[place] for name in ("kept_ms", "unread_ms", "room_ms")] == [None, None, None]
    nobody = room("local", "nobody", START, START + HOUR)
    assert nobody.queues == 0 and set(nobody.room_ms) == {None}
