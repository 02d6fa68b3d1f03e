"""Judgements for made-up histories: those a collector would have stored with these offsets.

Simple on purpose: ages from the observed rises of max offsets, and the statuses that tests and benchmarks need.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spark.lag.codes import CODE_OF, LagStatus, SampleFlag
from spark.lag.samples import Previous, Samples, samples_of
from spark.lag.snapshot import Int64Array, Snapshot

QUIET_MS, ALLOWED_MS, MINUTE_MS = 60_000, 30_000, 60_000


def judge(
    t_ms: Int64Array,
    high: Int64Array,
    low: Int64Array,
    committed: Int64Array,
    *,
    moved: np.ndarray | None = None,
    before_t: Int64Array | None = None,
    before_high: Int64Array | None = None,
) -> tuple[Int64Array, np.ndarray, np.ndarray]:
    """Return (time lag, status, flags) of one queue for some groups: `committed` has a row for each, the rest none.

    `before_*`: rounds before these, by which messages are dated that have waited since then.
    """
    seen_t = t_ms if before_t is None else np.concatenate([before_t, t_ms])
    seen = high if before_high is None else np.concatenate([before_high, high])
    heads = np.maximum.accumulate(seen)
    effective = np.maximum(committed, low)
    waits = (committed >= 0) & (effective < high) & (committed <= high)
    after = np.searchsorted(heads, effective.reshape(-1), side="right").reshape(effective.shape)
    is_old = after == 0
    later = np.clip(after, 1, len(heads) - 1)
    rise = np.maximum(heads[later] - heads[later - 1], 1)
    share = (effective + 0.5 - heads[later - 1]) / rise
    stored = seen_t[later - 1] + np.rint(share * (seen_t[later] - seen_t[later - 1])).astype(np.int64)
    stored = np.where(is_old | (len(heads) == 1), seen_t[0], stored)
    age = np.where(waits, np.maximum(t_ms - stored, 0) // 100 * 100, 0)
    flags = np.where(waits & is_old, SampleFlag.TIME_LAG_BOUND, 0).astype(np.uint8)
    back = np.zeros(committed.shape, dtype=np.bool_)
    back[:, 1:] = (committed[:, 1:] < committed[:, :-1]) & (committed[:, 1:] >= 0)
    flags[back if moved is None else back | moved] |= np.uint8(SampleFlag.MOVED)
    return age, _status(t_ms, high, low, committed, age, waits), flags


def _status(
    t_ms: Int64Array,
    high: Int64Array,
    low: Int64Array,
    committed: Int64Array,
    age: Int64Array,
    waits: np.ndarray,
) -> np.ndarray:
    status = np.full(committed.shape, CODE_OF[LagStatus.OK], dtype=np.uint8)
    late = waits & (age > ALLOWED_MS)
    rounds = max(1, int(MINUTE_MS // max(np.diff(t_ms).min(initial=MINUTE_MS), 1)))
    was = np.concatenate([np.repeat(age[:, :1], rounds, axis=1), age[:, :-rounds]], axis=1)[:, : age.shape[1]]
    status[late] = np.where(age > was, CODE_OF[LagStatus.FALLING_BEHIND], CODE_OF[LagStatus.CATCHING_UP])[
        late
    ]
    changes = np.ones(committed.shape, dtype=np.bool_)
    changes[:, 1:] = (committed[:, 1:] != committed[:, :-1]) | ~waits[:, 1:]
    since = np.maximum.accumulate(np.where(changes, t_ms, 0), axis=1)
    status[waits & (t_ms - since > QUIET_MS)] = CODE_OF[LagStatus.STOPPED]
    status[(committed >= 0) & (committed < low)] = CODE_OF[LagStatus.LOST]
    status[committed > high] = CODE_OF[LagStatus.INVALID]
    status[(committed < 0) & (high > low)] = CODE_OF[LagStatus.NEVER_COMMITTED]
    return status


def judged(samples: Samples, before: Samples | None = None) -> Samples:
    """Return samples of any series with judgements; `before` holds the same series earlier: it dates old messages, and
    its last samples are the ones before the first.
    """
    ages, words, bits = [], [], []
    previous = samples.previous.take(np.arange(len(samples.keys)))
    known = dict(before.slices()) if before is not None else {}
    for row, (key, place) in enumerate(samples.slices()):
        own = known.get(key)
        early = None if own is None or before is None else (before.t_ms[own], before.max_offset[own])
        age, status, flags = judge(
            samples.t_ms[place],
            samples.max_offset[place],
            samples.min_offset[place],
            samples.committed[place][None, :],
            before_t=None if early is None else early[0],
            before_high=None if early is None else early[1],
        )
        if own is not None and before is not None:
            last = Previous(*(getattr(before, name)[own.stop - 1 : own.stop] for name in NAMES))
            previous.put(np.array([row]), last, np.array([0]))
        is_head = not key.group
        ages.append(np.full_like(age[0], -1) if is_head else age[0])
        words.append(np.ones_like(status[0]) if is_head else status[0])
        bits.append(np.zeros_like(flags[0]) if is_head else flags[0])
    if not ages:
        return samples
    columns = [getattr(samples, name) for name in NAMES[:5]]
    columns += [np.concatenate(ages), np.concatenate(words), np.concatenate(bits), samples.oldest_ms]
    return samples_of(samples.keys, samples.starts, columns, previous)


NAMES = (
    "t_ms", "max_offset", "min_offset", "committed", "pulled", "time_lag_ms", "status", "flags", "oldest_ms",
)  # fmt: skip


def with_judgements(snapshots: list[Snapshot], samples: Samples) -> list[Snapshot]:
    """Return rounds with the judgements of their samples."""
    cells = {
        (key, int(at)): (int(age), int(status), int(flags))
        for key, place in samples.slices()
        for at, age, status, flags in zip(
            samples.t_ms[place],
            samples.time_lag_ms[place],
            samples.status[place],
            samples.flags[place],
            strict=True,
        )
    }
    found = []
    for one in snapshots:
        own = [cells[key, one.ts_ms] for key in one.commit_keys]
        columns = np.array(own, dtype=np.int64).reshape(-1, 3)
        found.append(
            replace(
                one,
                time_lag_ms=columns[:, 0].copy(),
                status=columns[:, 1].astype(np.uint8),
                flags=columns[:, 2].astype(np.uint8),
            )
        )
    return found
