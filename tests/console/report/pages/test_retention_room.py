"""The room before retention, from a history that was really written: as the rounds judged it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_django import Settings

from console.lag.history.log import HistoryLog
from console.report.pages.retention_room import STEP_MS, Room, room
from spark.lag.snapshot import CommitKey, HeadKey
from tests.console.report.sample_rows import DAY, HOUR
from tests.spark.lag.sample_history import rounds

pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
    pytest.mark.one_database("history in files"),
]
START = 20_000 * DAY
QUEUES = [HeadKey("orders", "broker-a", number) for number in range(2)]
STEPS = 20 * HOUR // STEP_MS


def write(
    tmp_path: Path,
    settings: Settings,
    age_ms: list[int],
    *,
    low: int = 1,
    is_kept_known: bool = True,
    gap: range = range(0),
) -> None:
    """A round every ten minutes for 20 hours. Messages of queue 0 are kept for six hours, and its first unread one has
    waited for `age_ms`; of queue 1 it is not known how long they are kept.
    """
    settings.DATA_DIR = tmp_path
    settings.HISTORY_URL = f"file://{tmp_path}/history"
    heads = {key: [(low, 10 * i + 361) for i in range(STEPS)] for key in QUEUES}
    commits = {CommitKey("billing", *key): [10 * i + 300 for i in range(STEPS)] for key in QUEUES}
    log = HistoryLog("local")
    log.catch_up(0)
    for number, one in enumerate(rounds(heads, commits, start_ms=START, interval_ms=STEP_MS)):
        oldest_ms = np.array([one.ts_ms - 6 * HOUR if is_kept_known else -1, -1])
        ages = np.array([age_ms[number], 5 * HOUR])
        if number not in gap:
            log.append(replace(one, time_lag_ms=ages, oldest_ms=oldest_ms))


def at(found: Room, hours: int) -> tuple[Any, ...]:
    """(kept, unread, room) in hours, and whether kept is a lower bound, so many hours after START."""
    place = found.times.index(START + hours * HOUR)
    names = ("kept_ms", "unread_ms", "room_ms")
    return *(round(getattr(found, name)[place] / HOUR, 1) for name in names), found.kept_lower_bound[place]


def test_it_is_what_is_kept_less_what_has_waited(tmp_path: Path, settings: Settings) -> None:
    write(tmp_path, settings, [i * STEP_MS // 4 for i in range(STEPS)])
    found = room("local", "billing", START, START + 20 * HOUR)
    assert found.queues == 1 and found.interval_ms == STEP_MS
    assert at(found, 4) == (6.0, 1.0, 5.0, False)
    assert at(found, 16) == (6.0, 4.0, 2.0, False)


def test_who_reads_everything_has_all_the_room_and_who_lost_some_none(
    tmp_path: Path, settings: Settings
) -> None:
    write(tmp_path, settings, [0 if i < STEPS // 2 else 6 * HOUR for i in range(STEPS)])
    found = room("local", "billing", START, START + 20 * HOUR)
    assert at(found, 9) == (6.0, 0.0, 6.0, False)
    assert at(found, 19) == (6.0, 6.0, 0.0, False)


def test_a_queue_that_lost_nothing_is_kept_at_least_as_configured(tmp_path: Path, settings: Settings) -> None:
    write(tmp_path, settings, [HOUR] * STEPS, low=0)
    assert at(room("local", "billing", START, START + 20 * HOUR), 9) == (6.0, 1.0, 5.0, True)


def test_a_gap_is_null_and_so_is_a_group_without_history(tmp_path: Path, settings: Settings) -> None:
    write(tmp_path, settings, [0] * STEPS, gap=range(60, 66))
    found = room("local", "billing", START, START + 20 * HOUR)
    place = found.times.index(START + 10 * HOUR + 30 * 60_000)
    assert [getattr(found, name)[place] for name in ("kept_ms", "unread_ms", "room_ms")] == [None, None, None]
    stranger = room("local", "stranger", START, START + HOUR)
    assert stranger.queues == 0 and set(stranger.room_ms) == {None}


def test_it_is_unknown_where_it_is_not_known_how_long_messages_are_kept(
    tmp_path: Path, settings: Settings
) -> None:
    write(tmp_path, settings, [HOUR] * STEPS, is_kept_known=False)
    found = room("local", "billing", START, START + 20 * HOUR)
    assert found.queues == 0 and set(found.room_ms) == {None}
