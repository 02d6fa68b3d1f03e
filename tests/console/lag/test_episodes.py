"""Episodes: one per trouble, with one name, through pauses, gaps, restarts and a second process."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pytest_django import Settings

from console.lag import episodes
from console.lag.episode_state import (
    Course,
    EpisodeKind,
    EpisodeState,
    TopicState,
    after,
    beginning,
    episode_id,
    gone,
    holds,
)
from console.lag.episodes import Episodes
from console.lag.models import Episode, GroupSlo, LagEvent
from console.lag.round.figures import GroupFigures, GroupTopic
from console.text import Text

INTERVAL = 5_000
START = 1_700_000_000_000
MINUTE = 60_000
BAD, WELL, DARK = True, False, None


def course(*rounds: bool | None, step_ms: int = INTERVAL) -> Course:
    """A course that begins at START and sees a round every step after it."""
    found = beginning(START)
    for number, is_bad in enumerate(rounds, 1):
        found = after(found, is_bad, START + number * step_ms, INTERVAL)
    return found


def lasted(one: Course) -> tuple[int, int, int, str]:
    """(seconds from start to end, seconds bad, seconds unknown, state)"""
    return (
        (one.end_ms - one.start_ms) // 1_000,
        one.bad_ms // 1_000,
        one.unknown_ms // 1_000,
        one.state.value,
    )


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ([BAD] * 12, (60, 60, 0, "ONGOING")),
        # it ends when it was well first, once it has been well for six intervals
        ([BAD] * 11 + [WELL], (60, 60, 0, "ENDING")),
        ([BAD] * 11 + [WELL] * 6, (60, 60, 0, "ENDING")),
        ([BAD] * 11 + [WELL] * 7, (60, 60, 0, "OVER")),
        # less is a pause: not counted, and the same episode
        ([BAD] * 5 + [WELL] * 6 + [BAD] * 7, (90, 60, 0, "ONGOING")),
        # a broker that is silent for a minute ends nothing; that time is unknown
        ([BAD] * 5 + [DARK] * 12 + [BAD] * 6, (115, 55, 60, "ONGOING")),
        ([BAD] * 5 + [DARK] * 12, (30, 30, 55, "UNKNOWN")),
        ([BAD] * 5 + [DARK] * 12 + [WELL] * 7, (30, 30, 60, "OVER")),
        ([WELL] * 7, (5, 5, 0, "OVER")),
    ],
)
def test_an_episode_takes_its_course(rounds: list[bool | None], expected: tuple[int, int, int, str]) -> None:
    assert lasted(course(*rounds)) == expected


def test_a_stall_of_five_hours_is_one_episode() -> None:
    found = course(*[BAD] * (5 * 720))
    assert lasted(found) == (5 * 3_600, 5 * 3_600, 0, "ONGOING") and found.pauses == 0


def test_a_round_holds_for_four_intervals_and_no_longer() -> None:
    """The collector was off for an hour between two rounds."""
    found = after(beginning(START), BAD, START + 3_600_000, INTERVAL)
    assert lasted(found) == (3_600, 20, 3_580, "ONGOING")
    found = after(beginning(START), WELL, START + 3_600_000, INTERVAL)
    assert lasted(found) == (20, 20, 3_580, "ENDING")


def test_every_millisecond_is_bad_unknown_or_a_pause() -> None:
    rng = random.Random(7)
    for _ in range(300):
        found, now_ms, pauses_ms = beginning(START), START, 0
        for _ in range(rng.randrange(1, 60)):
            span_ms = rng.choice([INTERVAL, INTERVAL, INTERVAL, 7_001, 4 * INTERVAL, 90_000])
            was = found.state
            now_ms += span_ms
            found = after(found, rng.choice([BAD, BAD, WELL, DARK]), now_ms, INTERVAL)
            if was is EpisodeState.ENDING:
                pauses_ms += min(span_ms, 4 * INTERVAL)
            if found.state is EpisodeState.OVER:
                break
        assert found.bad_ms + found.unknown_ms + pauses_ms == now_ms - START
        assert START <= found.end_ms <= now_ms and found.start_ms == START


def test_a_topic_that_is_gone_ends_where_it_was_known() -> None:
    assert lasted(gone(course(*[BAD] * 6))) == (30, 30, 0, "OVER")


@pytest.mark.parametrize(
    ("status", "lag", "time_lag_ms", "is_bound", "breach", "stall"),
    [
        ("OK", 0, 0, False, False, False),
        ("FALLING_BEHIND", 9, 60_001, False, True, False),
        ("FALLING_BEHIND", 9, 60_000, False, False, False),
        ("STALLED", 9, 5_000, False, False, True),
        ("STOPPED", 9, 70_000, True, True, True),  # at least that: late whatever else
        ("STALLED", 9, 5_000, True, None, True),  # a queue is unknown, and may be late
        ("UNKNOWN", None, None, True, None, None),
        ("UNKNOWN", 9, 90_000, True, True, None),
        ("NEVER_COMMITTED", None, None, False, False, False),
        ("INVALID", 4, None, False, None, False),
    ],
)
def test_what_is_unknown_is_neither_well_nor_bad(
    status: str,
    lag: int | None,
    time_lag_ms: int | None,
    is_bound: bool,
    breach: bool | None,
    stall: bool | None,
) -> None:
    seen = TopicState(status, lag, time_lag_ms, is_bound)
    assert holds(EpisodeKind.BREACH, seen, 60_000) is breach
    assert holds(EpisodeKind.STALL, seen, 60_000) is stall


def test_its_name_is_the_same_for_ever() -> None:
    assert episode_id("local", "billing", "orders", "stall", START) == "4d688b2b20fb1c46"
    assert episode_id("local", "billing", "orders", "breach", START) != "4d688b2b20fb1c46"


# --- in the database ---


def topic(status: str = "OK", *, name: str = "orders", lag: int | None = 0, **figures: Any) -> GroupTopic:
    figures = {"time_lag_ms": 0, **figures}
    return GroupTopic(topic=name, queues=2, status=status, lag=lag, **figures)


def rows(*topics: GroupTopic, **figures: Any) -> dict[str, GroupFigures]:
    """The row of group billing, as a round makes it."""
    figures = {
        "clients": 2,
        "in_rate": 10.0,
        "out_rate": 10.0,
        "worst_queue": "orders · broker-a · 1",
        **figures,
    }
    return {"billing": GroupFigures(group="billing", status="OK", topics=topics, **figures)}


class Rounds:
    """A collector's rounds, one each interval."""

    def __init__(self) -> None:
        self.now_ms = START - INTERVAL
        self.tracker = self.restarted()

    def restarted(self) -> Episodes:
        self.tracker = Episodes("local", INTERVAL)
        self.tracker.load()
        return self.tracker

    def see(self, groups: dict[str, GroupFigures], count: int = 1) -> None:
        for _ in range(count):
            self.now_ms += INTERVAL
            self.tracker.note(groups, self.now_ms)


@pytest.fixture
def rounds(db: None) -> Rounds:
    return Rounds()


LATE = {"lag": 500, "time_lag_ms": 90_000}


def test_it_keeps_an_episode_from_its_first_round_to_its_last(rounds: Rounds) -> None:
    rounds.see(rows(topic()))
    rounds.see(
        rows(topic("FALLING_BEHIND", **LATE), drain_ms=30_000, drain_low_ms=20_000, drain_high_ms=60_000)
    )
    rounds.see(rows(topic("FALLING_BEHIND", lag=700, time_lag_ms=120_000)), 11)
    (found,) = Episode.objects.all()
    assert (found.kind, found.state, found.group, found.topic) == ("breach", "ONGOING", "billing", "orders")
    assert (found.start_ms, found.end_ms - found.start_ms, found.bad_ms) == (START + INTERVAL, 55_000, 55_000)
    rounds.see(rows(topic()), 7)
    (found,) = Episode.objects.all()
    assert (found.state, found.duration_ms, found.bad_ms, found.pauses) == ("OVER", 60_000, 60_000, 0)
    assert (found.peak_lag, found.peak_time_lag_ms, found.worst_queue) == (700, 120_000, "broker-a · 1")
    assert (found.forecast_ms, found.forecast_low_ms, found.recovered_ms) == (30_000, 20_000, 60_000)
    assert round(found.budget_burnt, 6) == round(60 / (0.01 * 28 * 86_400), 6)
    assert found.id == episode_id("local", "billing", "orders", "breach", START + INTERVAL)


def test_a_stall_and_its_breach_are_two_episodes_and_other_topics_are_left_alone(rounds: Rounds) -> None:
    rounds.see(rows(topic("STALLED", **LATE), topic(name="invoices")), 3)
    found = Episode.objects.order_by("kind").values_list("kind", "topic", "cause")
    assert list(found) == [("breach", "orders", "unclear"), ("stall", "orders", "queue stuck")]


def test_it_goes_on_after_a_restart_and_after_rounds_of_another_process(rounds: Rounds) -> None:
    rounds.see(rows(topic("STALLED", lag=5, time_lag_ms=5_000)), 6)
    rounds.restarted()
    rounds.see(rows(topic("STALLED", lag=5, time_lag_ms=5_000)), 6)
    (found,) = Episode.objects.all()
    assert (found.start_ms, found.bad_ms, found.state) == (START, 55_000, "ONGOING")
    rounds.now_ms += 3_600_000  # this console was off for an hour
    rounds.restarted()
    rounds.see(rows(topic("STALLED", lag=5, time_lag_ms=5_000)))
    (found,) = Episode.objects.all()
    rounds.see(rows(topic()), 7)
    (found,) = Episode.objects.all()
    assert (found.state, found.bad_ms, found.unknown_ms) == ("OVER", 55_000 + 20_000 + 5_000, 3_585_000)


def test_a_silent_broker_makes_no_new_episodes(rounds: Rounds) -> None:
    rounds.see(rows(topic("STALLED", lag=5, time_lag_ms=5_000)), 3)
    rounds.see(rows(topic("UNKNOWN", lag=None, time_lag_ms=None, partial=True)), 200)
    rounds.see(rows(topic("STALLED", lag=5, time_lag_ms=5_000)), 3)
    (found,) = Episode.objects.all()
    assert (found.state, found.bad_ms, found.unknown_ms) == ("ONGOING", 25_000, 1_000_000)


def test_a_reset_of_ours_makes_it_intentional_and_one_of_others_does_not(rounds: Rounds) -> None:
    event = {"cluster": "local", "kind": "REWIND", "topic": "orders", "at_ms": START - MINUTE}
    LagEvent.objects.create(**event, group="billing", cause=Text("reset by alice: plan-1"))
    LagEvent.objects.create(**event, group="audit")
    late = rows(topic("CATCHING_UP", **LATE))["billing"]
    rounds.see({"billing": late, "audit": late, "other": late})
    found = Episode.objects.order_by("group").values_list("group", "cause", "is_intentional", "reset_by")
    assert list(found) == [
        ("audit", "reset", False, ""),
        ("billing", "reset", True, "reset by alice: plan-1"),
        ("other", "unclear", False, ""),
    ]


@pytest.mark.parametrize(
    ("figures", "cause"),
    [({"in_rate": 16.0}, "surge"), ({"out_rate": 6.0}, "slow"), ({"clients": 0}, "offline"), ({}, "unclear")],
)
def test_it_names_what_changed_first(rounds: Rounds, figures: dict[str, Any], cause: str) -> None:
    rounds.see(rows(topic()), 12)
    rounds.see(rows(topic("FALLING_BEHIND", **LATE), **figures))
    assert Episode.objects.get().cause == cause


def test_the_promise_of_the_group_decides(rounds: Rounds) -> None:
    GroupSlo.objects.create(cluster="local", group="billing", slo_ms=120_000, target=0.9)
    rounds.see(rows(topic("CATCHING_UP", **LATE)))
    assert not Episode.objects.exists()
    rounds.see(rows(topic("CATCHING_UP", lag=1, time_lag_ms=120_001)))
    assert (Episode.objects.get().slo_ms, Episode.objects.get().target) == (120_000, 0.9)
    assert Episode.objects.get().slo_from_ms == 0


def test_an_episode_has_the_version_in_force_at_its_start(rounds: Rounds) -> None:
    for slo_ms, from_ms in ((10_000, 1), (20_000, 2), (5_000, 4 * 10**15)):
        GroupSlo.objects.create(cluster="local", group="billing", slo_ms=slo_ms, target=0.9, from_ms=from_ms)
    rounds.see(rows(topic("CATCHING_UP", lag=1, time_lag_ms=15_000)))
    assert not Episode.objects.exists()
    rounds.see(rows(topic("CATCHING_UP", lag=1, time_lag_ms=20_001)))
    assert (Episode.objects.get().slo_ms, Episode.objects.get().slo_from_ms) == (20_000, 2)


def test_a_deleted_topic_ends_its_episodes(rounds: Rounds) -> None:
    rounds.see(rows(topic("STALLED", lag=5, time_lag_ms=5_000)), 3)
    rounds.see(rows(topic(name="invoices")))
    (found,) = Episode.objects.all()
    assert (found.state, found.duration_ms) == ("OVER", 10_000)


def test_a_round_without_news_is_one_statement(rounds: Rounds, django_assert_max_num_queries: Any) -> None:
    groups = {f"g{number}": rows(topic("STALLED", **LATE))["billing"] for number in range(50)}
    groups |= {f"ok{number}": rows(topic())["billing"] for number in range(1_000)}
    rounds.see(groups)
    assert Episode.objects.count() == 100
    with django_assert_max_num_queries(1):
        rounds.see(groups)
    assert set(Episode.objects.values_list("bad_ms", "end_ms")) == {(INTERVAL, START + INTERVAL)}


def test_it_keeps_them_as_long_as_the_setting_says(rounds: Rounds, settings: Settings) -> None:
    settings.EPISODE_DAYS = 2
    rounds.see(rows(topic("STALLED", lag=5, time_lag_ms=5_000)), 3)
    rounds.see(rows(topic()), 7)
    rounds.now_ms += 3 * 86_400_000
    rounds.see(rows(topic("STALLED", lag=5, time_lag_ms=5_000)))
    assert [one.state for one in Episode.objects.all()] == ["ONGOING"]


def test_it_lists_those_that_touch_a_window(rounds: Rounds) -> None:
    rounds.see(rows(topic("STALLED", lag=5, time_lag_ms=5_000)), 3)
    rounds.see(rows(topic()), 7)
    end_ms = Episode.objects.get().end_ms
    assert [one.kind for one in episodes.between("local", START, START + 1)] == ["stall"]
    assert not episodes.between("local", end_ms) and not episodes.between("local", None, START)
    assert not episodes.between("elsewhere")
