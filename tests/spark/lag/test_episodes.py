"""Episodes: one for each thing that happened, in whatever pieces the time is looked at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.lag.codes import LagStatus, SampleFlag
from spark.lag.episodes import Episode, episodes
from spark.lag.grid import grid_of
from spark.lag.line import LineKey, joined, topic_lines
from spark.lag.samples import Samples, SeriesKey
from tests.spark.lag.judged import START, STEP, made, queue, together

MINUTE, HOUR = 60_000, 3_600_000
KEY = SeriesKey("billing", "orders", "broker-a", 0, 0)
OTHER = KEY._replace(broker_name="broker-b")
BILLING = LineKey("billing", "orders")


def found(samples: Samples, from_ms: int, edges: list[int], slo_ms: int = MINUTE) -> dict[tuple, Episode]:
    """Episodes of the windows between edges, each going on from the ones before."""
    line = topic_lines([grid_of(samples, STEP)])[BILLING]
    known: dict[tuple, Episode] = {}
    for a, b in zip([from_ms, *edges], edges, strict=False):
        upto = joined([line]).since(0)
        own = replace(upto, **{name: getattr(upto, name)[line.t_ms < b] for name in COLUMNS})
        before = [one for one in known.values() if one.is_open]
        for one in episodes(BILLING, own, a, b, slo_ms, before):
            known[one.key] = one
    return known


COLUMNS = (
    "t_ms", "exists", "states", "is_read", "is_counted", "is_aged", "is_bound", "moved", "lag", "age_ms", "produced",
    "consumed", "lost", "worst", "committed", "max_offset",
)  # fmt: skip


def stall(hours: float = 5) -> Samples:
    """Twenty messages a round, read at once but for some hours from the second one on."""
    t_ms = START + np.arange(8 * HOUR // STEP) * STEP
    begin, end = START + HOUR, START + HOUR + int(hours * HOUR)
    high = 20 * np.arange(len(t_ms))
    still = (t_ms >= begin) & (t_ms < end)
    at = int(np.searchsorted(t_ms, begin))
    committed = np.where(still, high[at - 1], high)
    age = np.where(still, t_ms - t_ms[at - 1], 0)
    words = [
        LagStatus.STOPPED if one and t > begin + MINUTE else LagStatus.OK
        for one, t in zip(still, t_ms, strict=True)
    ]
    return queue(KEY, t_ms=t_ms, high=high, committed=committed, time_lag_ms=age, status=words)


def test_a_standstill_of_five_hours_is_one_episode_hour_by_hour() -> None:
    hours = [START + HOUR * number for number in range(1, 9)]
    for edges in ([hours[-1]], hours, [START + HOUR * 3 + 123_456, hours[-1]]):
        known = found(stall(), START, edges)
        (one,) = [episode for episode in known.values() if episode.kind == "stall"]
        assert one.start_ms == START + HOUR + MINUTE + STEP
        assert one.end_ms == START + 6 * HOUR
        assert (one.is_open, one.began_before, one.cause) == (False, False, "queue stuck")
        assert one.peak_time_lag_ms == 5 * HOUR
        (late,) = [episode for episode in known.values() if episode.kind == "breach"]
        assert late.breach_ms == late.end_ms - late.start_ms == 5 * HOUR - MINUTE


def test_an_episode_that_goes_on_is_open_and_keeps_its_identity() -> None:
    early = found(stall(), START, [START + 2 * HOUR])
    later = found(stall(), START, [START + 3 * HOUR])
    assert [one.is_open for one in early.values()] == [True, True]
    assert set(early) == set(later)


def test_short_oks_do_not_part_an_episode_and_longer_ones_do() -> None:
    for rounds, parts in ((5, 1), (7, 2)):
        samples = stall()
        at = int(np.searchsorted(samples.t_ms, START + 3 * HOUR))
        samples.status[at : at + rounds] = 1
        known = found(samples, START, [START + 8 * HOUR])
        assert len([one for one in known.values() if one.kind == "stall"]) == parts


def test_unknown_time_does_not_part_an_episode() -> None:
    samples = stall()
    at = int(np.searchsorted(samples.t_ms, START + 3 * HOUR))
    samples.status[at : at + 700] = 12
    samples.time_lag_ms[at : at + 700] = -1
    hours = [START + HOUR * number for number in range(1, 9)]
    for edges in ([hours[-1]], hours, [START + 3 * HOUR + 60_000, START + 3 * HOUR + 120_000, hours[-1]]):
        known = found(samples, START, edges)
        (one,) = [episode for episode in known.values() if episode.kind == "stall"]
        assert one.end_ms == START + 6 * HOUR


def test_what_a_reset_causes_is_intentional() -> None:
    samples = stall(0)
    at = int(np.searchsorted(samples.t_ms, START + HOUR))
    samples.committed[at : at + 100] -= 5_000
    samples.time_lag_ms[at : at + 100] = 30 * MINUTE
    samples.flags[at] = SampleFlag.MOVED
    samples.status[at : at + 100] = 6
    (one,) = found(samples, START, [START + 8 * HOUR]).values()
    assert (one.kind, one.cause, one.is_intentional) == ("breach", "reset", True)
    assert (one.start_ms, one.end_ms) == (START + HOUR, START + HOUR + 100 * STEP)


def test_it_names_the_queue_that_was_first() -> None:
    good = stall(0)
    bad = stall()
    both = together(Samples([OTHER], *[getattr(good, name) for name in good.__slots__[1:]]), bad)
    (one,) = [one for one in found(both, START, [START + 8 * HOUR]).values() if one.kind == "stall"]
    assert one.worst_queue == "broker-a · 0"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.floats(0.05, 0.95), min_size=1, max_size=3))
def test_any_cut_gives_the_same_episodes(seed: int, cuts: list[float]) -> None:
    """But for their cause and what came before them, which are told by the window in which they begin."""
    samples = made(seed).samples
    line = topic_lines([grid_of(samples, STEP)]).get(LineKey("a", "orders"))
    if line is None:
        return
    from_ms, to_ms = START, int(line.t_ms[-1]) + 3 * MINUTE
    edges = sorted({*(from_ms + int((to_ms - from_ms) * cut) for cut in cuts), to_ms})
    known: dict[tuple, Episode] = {}
    for a, b in zip([from_ms, *edges], edges, strict=False):
        own = replace(line, **{name: getattr(line, name)[line.t_ms < b] for name in COLUMNS})
        for one in episodes(LineKey("a", "orders"), own, a, b, MINUTE, list(known.values())):
            known[one.key] = one
    whole = episodes(LineKey("a", "orders"), line, from_ms, to_ms, MINUTE)
    names = (
        "began_before",
        "cause",
        "is_intentional",
        "forecast_at_ms",
        "forecast_ms",
        "forecast_lo_ms",
        "forecast_hi_ms",
    )
    assert [
        replace(one, **dict.fromkeys(names)) for one in sorted(known.values(), key=lambda one: one.key)
    ] == [replace(one, **dict.fromkeys(names)) for one in sorted(whole, key=lambda one: one.key)]
