"""Overlaps of claims: which clients reported a queue at once, and from when to when."""

from __future__ import annotations

import random

from console.rebalance.observed.overlaps import Overlap, overlaps_of
from spark.lag.folds.owners import Queue, Tenure

MINUTE_MS = 60_000
FIRST, SECOND = ("orders", "broker-a", 0), ("orders", "broker-a", 1)


def claim(queue: Queue, owner: str, from_min: int, to_min: int) -> Tenure:
    return Tenure(queue, owner, from_min * MINUTE_MS, to_min * MINUTE_MS)


def test_queues_of_the_same_clients_and_time_are_one_overlap() -> None:
    found = overlaps_of(
        [claim(queue, owner, 1, 3) for queue in (FIRST, SECOND) for owner in ("app-2", "app-1")]
    )
    assert found == [Overlap(("app-1", "app-2"), (FIRST, SECOND), MINUTE_MS, 3 * MINUTE_MS)]
    assert str(found[0].words) == (
        "broker-a · 0 and broker-a · 1: reported by app-1 and app-2 at once from 1970-01-01 00:01:00 UTC to "
        "1970-01-01 00:03:00 UTC, so messages may have been handled twice"
    )


def test_a_third_client_is_another_overlap_and_what_touches_is_one() -> None:
    claims = [
        claim(FIRST, "app-1", 0, 2),
        claim(FIRST, "app-1", 2, 6),
        claim(FIRST, "app-2", 0, 6),
        claim(FIRST, "app-3", 4, 6),
    ]
    assert [(one.clients, one.from_ms, one.to_ms) for one in overlaps_of(claims)] == [
        (("app-1", "app-2"), 0, 4 * MINUTE_MS),
        (("app-1", "app-2", "app-3"), 4 * MINUTE_MS, 6 * MINUTE_MS),
    ]


def test_claims_of_different_times_or_queues_do_not_overlap() -> None:
    claims = [claim(FIRST, "app-1", 0, 2), claim(FIRST, "app-2", 2, 4), claim(SECOND, "app-2", 0, 2)]
    assert overlaps_of(claims) == []


def test_they_say_of_every_minute_what_the_claims_say() -> None:
    rng = random.Random(15)
    for _ in range(200):
        claims = []
        for owner in ("app-1", "app-2", "app-3"):
            at = 0
            for _ in range(rng.randrange(4)):
                at += rng.randrange(4)
                claims.append(claim(FIRST, owner, at, at + 1 + rng.randrange(4)))
                at = claims[-1].to_ms // MINUTE_MS
        found = overlaps_of(claims)
        for minute in range(30):
            at_ms = minute * MINUTE_MS
            plain = sorted({one.owner for one in claims if one.from_ms <= at_ms < one.to_ms})
            shown = [one.clients for one in found if one.from_ms <= at_ms < one.to_ms]
            assert shown == ([tuple(plain)] if len(plain) > 1 else []), (claims, minute)
