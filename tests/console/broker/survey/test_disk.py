"""How long until a disk is full, by literal figures."""

from __future__ import annotations

import pytest

from console.broker.survey import disk
from console.broker.survey.disk import Filling, LogSample, capacity_bytes, capacity_words, full_in, refuses_at

MINUTE_MS = 60_000
TB = 10**12


def log(*offsets: int, every_ms: int = 10 * MINUTE_MS) -> list[LogSample]:
    return [LogSample(place * every_ms, offset) for place, offset in enumerate(offsets)]


def test_it_divides_the_room_by_what_came_in() -> None:
    # 6 GB in half an hour are 12 GB an hour; from 78 % to 90 % of 2 TB are 240 GB: twenty hours.
    found = full_in(log(0, 2 * 10**9, 4 * 10**9, 6 * 10**9), 0.78, 2 * TB)
    assert found.filling == Filling.FILLING
    assert found.full_in_ms is not None and round(found.full_in_ms / 3_600_000, 6) == 20
    assert "12 GB an hour" in found.words and "240 GB are left until 90 %" in found.words


def test_it_looks_at_the_last_hour_only() -> None:
    busy_before = log(0, 10**12, *([10**12] * 7))
    assert full_in(busy_before, 0.5, TB).filling == Filling.IDLE


def test_it_says_nothing_before_there_is_history() -> None:
    found = full_in(log(0, 10**9, every_ms=9 * MINUTE_MS), 0.5, TB)
    assert (found.filling, found.full_in_ms) == (Filling.UNKNOWN, None)
    assert found.words.endswith("of readings; 9 m so far")
    assert full_in([], 0.5, TB).filling == Filling.UNKNOWN


def test_it_begins_anew_after_a_replaced_store() -> None:
    found = full_in(log(9 * 10**9, 10 * 10**9, 0, 10**9), 0.5, TB)
    assert found.write_bytes_per_s == pytest.approx(10**9 / 600)


@pytest.mark.parametrize(
    ("ratio", "total", "limit", "expected"),
    [
        (None, TB, 0.9, Filling.UNKNOWN),
        (0.5, None, 0.9, Filling.UNKNOWN),
        (0.9, TB, 0.9, Filling.FULL),
        (0.91, TB, 0.95, Filling.FILLING),
    ],
)
def test_it_admits_what_it_can_not_know(
    ratio: float | None, total: int | None, limit: float, expected: Filling
) -> None:
    assert full_in(log(0, 10**9), ratio, total, limit).filling == expected


def test_it_reads_what_brokers_write() -> None:
    assert capacity_bytes("Total : 252.0 GiB, Free : 75.7 GiB.") == 270_582_939_648
    assert capacity_words("Total : 252.0 GiB, Free : 75.7 GiB.") == ("252.0 GiB", "75.7 GiB")
    assert capacity_words("somewhat full") is None
    assert capacity_bytes("Total : 1.5 TiB, Free : 75.7 GiB.") == 1_649_267_441_664
    assert capacity_bytes("") is None
    assert refuses_at({"diskSpaceWarningLevelRatio": "95"}) == 0.95
    assert refuses_at({"diskSpaceWarningLevelRatio": "x"}) == refuses_at(None) == 0.9


def test_limits_name_their_share_and_when_each_is_reached() -> None:
    config = {"diskMaxUsedSpaceRatio": "70", "diskSpaceCleanForciblyRatio": "no number"}
    first, second, third = disk.limits(0.72, 1_000_000, 100.0, config)
    assert (first.key, first.share, first.is_reached, first.in_ms) == (
        "diskMaxUsedSpaceRatio",
        0.7,
        True,
        None,
    )
    assert (second.share, second.is_reached, second.in_ms) == (0.85, False, 1_300_000)
    assert [limit.is_default for limit in (first, second, third)] == [False, True, True]
    assert (third.key, third.share, third.in_ms) == ("diskSpaceWarningLevelRatio", 0.9, 1_800_000)


@pytest.mark.parametrize(
    ("ratio", "total", "per_s"), [(None, 1_000, 1.0), (0.5, None, 1.0), (0.5, 1_000, None), (0.5, 1_000, 0.0)]
)
def test_when_a_limit_is_reached_is_unknown_without_its_parts(
    ratio: float | None, total: int | None, per_s: float | None
) -> None:
    for limit in disk.limits(ratio, total, per_s, None):
        assert limit.in_ms is None and not limit.is_reached


def test_space_that_is_kept_from_the_broker_is_no_room() -> None:
    """252 GiB, of which 60 GiB are free at 35 %: 92 GiB are the broker's."""
    usable = disk.usable_bytes("Total : 252.0 GiB, Free : 59.8 GiB.", 0.35)
    assert usable == 92 * 2**30
    assert disk.usable_bytes("Total : 100 GiB, Free : 66 GiB.", 0.34) == 100 * 2**30
    assert disk.usable_bytes("Total : 100 GiB, Free : 70 GiB.", 0.34) == 100 * 2**30
    assert disk.usable_bytes("Total : 100 GiB, Free : 66 GiB.", None) == 100 * 2**30
    assert disk.usable_bytes("none", 0.34) is None
