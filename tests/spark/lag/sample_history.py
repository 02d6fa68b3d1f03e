"""Small histories to test with: rounds written as tables of numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from spark.lag.snapshot import BrokerRead, CommitKey, HeadKey, Snapshot


def rounds(
    heads: Mapping[HeadKey, Sequence[tuple[int, int] | None]],
    commits: Mapping[CommitKey, Sequence[int | None]],
    *,
    start_ms: int = 0,
    interval_ms: int = 5_000,
) -> list[Snapshot]:
    """Return one snapshot per column; heads give (min, max), None is "not read in this round"."""
    count = max(len(one) for one in [*heads.values(), *commits.values()])
    return [
        snapshot(
            start_ms + i * interval_ms,
            {key: seen[i] for key, seen in heads.items() if seen[i] is not None},
            {key: seen[i] for key, seen in commits.items() if seen[i] is not None},
            number=i,
        )
        for i in range(count)
    ]


def snapshot(
    ts_ms: int,
    heads: Mapping[HeadKey, tuple[int, int]],
    commits: Mapping[CommitKey, int],
    *,
    number: int = 0,
    pulled: Mapping[CommitKey, int] | None = None,
    brokers: Sequence[BrokerRead] = (),
) -> Snapshot:
    """Return one round from dictionaries."""
    return Snapshot(
        ts_ms,
        number,
        brokers,
        list(heads),
        np.array([high for _, high in heads.values()], dtype=np.int64),
        np.array([low for low, _ in heads.values()], dtype=np.int64),
        list(commits),
        np.array(list(commits.values()), dtype=np.int64),
        np.array([(pulled or {}).get(key, -1) for key in commits], dtype=np.int64),
        status=np.ones(len(commits), dtype=np.uint8),  # OK
    )


def judged(one: Snapshot, chance: int) -> Snapshot:
    """Return a round with judgements drawn at random, mostly those of the round before, as files keep them."""
    draw = np.random.default_rng([chance, one.ts_ms // 2])
    heads, commits = len(one.head_keys), len(one.commit_keys)
    is_rare = draw.random(commits) < 0.3
    oldest = 1_700_000_000_000 + 100 * draw.integers(0, 2_000_000_000, heads)
    return replace(
        one,
        time_lag_ms=np.where(is_rare, -1, 100 * draw.integers(0, 10_000_000, commits)),
        status=np.where(is_rare, draw.integers(0, 13, commits), 1).astype(np.uint8),
        flags=np.where(is_rare, draw.integers(0, 128, commits), 0).astype(np.uint8),
        head_status=draw.choice(np.array([0, 1, 12], dtype=np.uint8), heads),
        oldest_ms=np.where(draw.random(heads) < 0.3, -1, oldest),
    )
