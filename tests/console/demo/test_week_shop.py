"""The simulated week: the same every time, and what its documentation promises happens in it."""

from __future__ import annotations

import numpy as np

from console.demo.week.shop import (
    GROUPS,
    INTERVAL_MS,
    SILENT_BROKER,
    STALL_MS,
    STALLED_GROUP,
    TOPICS,
    ShopWeek,
)
from console.lag.round.broker_reads import Lookup
from spark.lag.local_time import DAY_MS, HOUR_MS

END_MS = 1_795_000_000_000 // HOUR_MS * HOUR_MS
WEEK = ShopWeek(END_MS)


def test_the_same_end_gives_the_same_week() -> None:
    again = ShopWeek(END_MS)
    for key, committed in WEEK.committed.items():
        assert (again.committed[key] == committed).all()
    assert (WEEK.times[0], WEEK.times[-1]) == (END_MS - 7 * DAY_MS, END_MS - INTERVAL_MS)


def test_no_group_reads_what_is_not_stored() -> None:
    for (group, topic), committed in WEEK.committed.items():
        high = WEEK.stored[topic].high[:, -len(WEEK.times) :]
        assert (committed <= high).all(), group
        assert (committed >= WEEK.stored[topic].low).all(), group


def test_one_message_stops_one_queue_for_five_hours() -> None:
    begin_ms, end_ms = WEEK.stall
    assert end_ms - begin_ms == STALL_MS
    inside = (WEEK.times >= begin_ms) & (WEEK.times < end_ms)
    queues = WEEK.committed[STALLED_GROUP, "parcels"][:, inside]
    stands = (np.diff(queues, axis=1) == 0).all(axis=1)
    assert stands.tolist() == [False, True, False, False]


def test_whatever_the_hour_everything_happens_within_the_week() -> None:
    for hours in range(0, 168, 5):
        week = ShopWeek(END_MS + hours * HOUR_MS)
        moments = [*week.stall, *week.silence, *week.failure, week.on_day(2, 14, 5), week.on_day(4, 10)]
        assert all(week.start_ms < at_ms < week.end_ms for at_ms in moments)


def test_a_silent_broker_answers_nothing_and_comes_back() -> None:
    begin_ms, end_ms = WEEK.silence
    silent = {
        round_.at_ms
        for round_ in WEEK.rounds()
        if begin_ms - HOUR_MS < round_.at_ms < end_ms + HOUR_MS
        and any(one.address.broker_name == SILENT_BROKER and not one.answered for one in round_.answers([]))
    }
    assert (min(silent), max(silent)) == (begin_ms + -begin_ms % INTERVAL_MS, max(silent))
    assert max(silent) < end_ms <= max(silent) + INTERVAL_MS


def test_a_lookup_returns_when_its_message_was_stored() -> None:
    stored = WEEK.stored["orders"]
    index = 500
    low, _ = stored.at(0, index)
    lookup = Lookup("shop-a", "orders", 0, low)
    given = next(one for at, one in enumerate(WEEK.rounds()) if at == index)
    answer = given.answers([lookup])[0]
    first = int(np.searchsorted(stored.high[0], low, side="right"))
    assert answer.stored_ms == {lookup: int(stored.times[first])}


def test_every_group_reads_a_topic_that_exists() -> None:
    names = {topic.name for topic in TOPICS}
    assert {group.topic for group in GROUPS} <= names
