"""A fold by owner: queues cut where owners change, added up by owner, nothing lost and nothing counted twice."""

from __future__ import annotations

import random

from spark.lag.folds import level
from spark.lag.folds.level import Level
from spark.lag.folds.owners import UNKNOWN_OWNER, Tenure, fold_by_owner
from spark.lag.folds.window import fold
from spark.lag.grid import Grid, grid_of
from spark.lag.samples import from_snapshots
from spark.lag.snapshot import CommitKey, HeadKey
from tests.spark.lag.sample_history import rounds
from tests.support.judge import judged, with_judgements

INTERVAL, ROUNDS = 5_000, 60
END = INTERVAL * ROUNDS
QUEUES = [("orders", "broker-a", 0), ("orders", "broker-b", 0), ("refunds", "broker-a", 0)]


def past() -> Grid:
    """Three queues with 10, 20 and 30 messages a round; the first is read 40 s late."""
    snapshots = rounds(
        {HeadKey(*queue): [(0, 10 * (at + 1) * i) for i in range(ROUNDS)] for at, queue in enumerate(QUEUES)},
        {
            CommitKey("billing", *queue): [
                10 * (at + 1) * max(0, i - (8 if at == 0 else 0)) for i in range(ROUNDS)
            ]
            for at, queue in enumerate(QUEUES)
        },
    )
    return grid_of(
        from_snapshots(with_judgements(snapshots, judged(from_snapshots(snapshots)))).select(
            lambda key: bool(key.group)
        ),
        interval_ms=INTERVAL,
    )


def by_owner(tenures: list[Tenure]) -> Level:
    parts = fold_by_owner(past(), tenures, 0, END, slo_ms=30_000)
    return level.merge([part for _, part in parts])


def sums(found: Level, name: str) -> dict[str, int]:
    values = getattr(found.sums, name).tolist()
    return {key.topic: value for key, value in zip(found.keys, values, strict=True)}


def test_queues_of_one_owner_add_up_across_topics_and_brokers() -> None:
    found = by_owner(
        [Tenure(QUEUES[0], "slow", 0, END), *(Tenure(one, "fast", 0, END) for one in QUEUES[1:])]
    )
    assert sums(found, "consumed") == {"slow": 51 * 10, "fast": 59 * 50}
    assert sums(found, "queues") == {"slow": 1, "fast": 2}
    # the first 8 rounds and 6 more know a bound; from the seventh round on the oldest waits longer than 30 s
    assert sums(found, "breach_ms")["fast"] == 0
    assert sums(found, "breach_ms")["slow"] > 200_000


def test_a_change_cuts_a_queue_at_its_moment() -> None:
    half = END // 2
    found = by_owner([Tenure(QUEUES[2], "app-1", 0, half), Tenure(QUEUES[2], "app-2", half, END)])
    assert sums(found, "consumed") == {UNKNOWN_OWNER: 51 * 10 + 59 * 20, "app-1": 29 * 30, "app-2": 30 * 30}
    assert sums(found, "exists_ms") == {UNKNOWN_OWNER: END, "app-1": half, "app-2": half}


def test_whatever_the_owners_all_of_them_together_are_the_group() -> None:
    grid = past()
    whole = fold(grid, 0, END, lambda _: 30_000).queues.sums
    for seed in range(20):
        draw = random.Random(seed)
        tenures = []
        for queue in QUEUES:
            at_ms = draw.randrange(END)
            while at_ms < END:
                to_ms = at_ms + draw.randrange(1, 90_000)
                tenures.append(Tenure(queue, f"app-{draw.randrange(3)}", at_ms, to_ms))
                at_ms = to_ms + draw.choice([0, 0, 7_001])
        found = by_owner(tenures)
        for name in ("produced", "consumed", "lost", "skipped", "timed", "in_time", "latency_ms", "lag_area"):
            assert sum(sums(found, name).values()) == int(getattr(whole, name).sum()), (seed, name)
        owned = sum((min(one.to_ms, END) - one.from_ms for one in tenures if one.queue == QUEUES[0]), start=0)
        assert 0 < owned <= END, seed
