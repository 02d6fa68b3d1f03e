"""Judged samples made up for tests of folds: everything that may happen to a queue, at random times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark.lag.codes import ABSENT, CODE_OF, LagStatus, SampleFlag
from spark.lag.samples import Previous, Samples, SeriesKey, assemble
from spark.lag.snapshot import Int64Array

STEP = 5_000
START = 1_700_000_000_000 // 3_600_000 * 3_600_000
CALM = (LagStatus.OK, LagStatus.CATCHING_UP, LagStatus.FALLING_BEHIND)
WORDS = tuple(LagStatus)
# As long as brokers allow, with what they do not.
GROUPS = ("a", "b\0" + 200 * "ü")
# Offsets that fit 32 bits, those that do not, and those that a float rounds.
BEGINS = (0, 0, 5_000_000_000, (1 << 53) - 30_000, 1 << 62)
# By how much some queues of a history are busier: messages that 32 bits hold in an hour; in a minute, in no round.
NARROW = (1, 1, 1, 30_000)
SCALES = (*NARROW, 3_000_000, 30_000_000)


def queue(
    key: SeriesKey,
    *,
    t_ms: list[int] | Int64Array,
    high: list[int] | Int64Array,
    committed: list[int] | Int64Array,
    time_lag_ms: list[int] | Int64Array,
    status: list[LagStatus] | LagStatus = LagStatus.OK,
    low: list[int] | int = 0,
    flags: list[int] | int = 0,
    oldest_ms: list[int] | int = -1,
) -> Samples:
    """One series, column by column; a single value stands for all rounds."""
    count = len(t_ms)
    words = [status] * count if isinstance(status, LagStatus) else status
    columns = [
        np.broadcast_to(np.asarray(values, dtype=np.int64), count).copy()
        for values in (t_ms, high, low, committed, -1, time_lag_ms)
    ]
    codes = np.array([CODE_OF[word] for word in words], dtype=np.uint8)
    bits = np.broadcast_to(np.asarray(flags, dtype=np.uint8), count).copy()
    oldest = np.broadcast_to(np.asarray(oldest_ms, dtype=np.int64), count).copy()
    return Samples(
        [key], np.array([0, count]), *columns[:5], Previous.none(1), columns[5], codes, bits, oldest
    )


def together(*parts: Samples) -> Samples:
    """Several series, in key order."""
    names = (
        "t_ms",
        "max_offset",
        "min_offset",
        "committed",
        "pulled",
        "time_lag_ms",
        "status",
        "flags",
        "oldest_ms",
    )
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    counts = [len(part.t_ms) for part in parts]
    keys = [part.keys[0] for part in parts]
    return assemble(keys, np.repeat(np.arange(len(parts)), counts), columns, Previous.none(len(parts)))


@dataclass(frozen=True, slots=True)
class Made:
    """A history and its rounds."""

    samples: Samples
    t_ms: Int64Array


def made(seed: int, rounds: int = 60, groups: tuple[str, ...] = GROUPS) -> Made:
    """Two groups of a few queues each; rounds are missing, brokers silent, offsets moved, topics made again."""
    chance = np.random.default_rng(seed)
    steps = np.where(chance.random(rounds) < 0.06, chance.integers(2, 12, rounds), 1) * STEP
    t_ms = START + np.cumsum(steps) + chance.integers(0, 900, rounds)
    keys = [
        SeriesKey(group, topic, f"broker-{number % 2}", number, life)
        for group in groups
        for topic, queues in (("orders", 3), (f"%RETRY%{group}", 1))
        for number in range(queues)
        for life in ((0, 1) if chance.random() < 0.2 else (0,))
    ]
    scale = int(chance.choice(SCALES))
    silent = {broker: _run(chance, rounds) for broker in ("broker-0", "broker-1")}
    parts = []
    for key in keys:
        is_second = key.incarnation == 1
        has_two = key._replace(incarnation=1) in keys
        begin = (
            rounds // 2 if is_second else int(chance.integers(0, rounds // 3)) * int(chance.random() < 0.3)
        )
        end = rounds // 2 if has_two and not is_second else rounds
        own = _series(chance, key, t_ms[begin:end], silent[key.broker_name][begin:end], scale)
        _count_from(own, int(chance.choice(BEGINS)))
        if end < rounds:
            own.status[-1] = ABSENT
        parts.append(own)
    return Made(together(*parts), t_ms)


def steady(seed: int, rounds: int = 40, scales: tuple[int, ...] = NARROW) -> Made:
    """Two groups of a few queues, all read in every round; in many of them nothing happens, some count from far up."""
    chance = np.random.default_rng(seed)
    t_ms = START + np.arange(rounds, dtype=np.int64) * STEP
    scale, is_calm = int(chance.choice(scales)), chance.random() < 0.3
    parts = []
    for group in GROUPS:
        for topic in ("orders", "refunds"):
            for number in range(int(chance.integers(1, 6))):
                key = SeriesKey(group, topic, f"broker-{number % 2}", number, 0)
                begin = int(chance.choice(BEGINS))
                if chance.random() < 0.5:
                    fixed = begin + number
                    own = queue(
                        key,
                        t_ms=t_ms,
                        high=[fixed] * rounds,
                        committed=[fixed] * rounds,
                        time_lag_ms=[0] * rounds,
                        low=begin,
                    )
                else:
                    own = _series(chance, key, t_ms, _run(chance, rounds), scale)
                    _count_from(own, begin)
                    if is_calm:
                        _late_for_a_moment(own, int(chance.integers(0, rounds)))
                parts.append(own)
    return Made(together(*parts), t_ms)


def _count_from(own: Samples, begin: int) -> None:
    for column in (own.max_offset, own.min_offset, own.committed, own.pulled):
        column[column >= 0] += begin


def _late_for_a_moment(own: Samples, at: int) -> None:
    own.time_lag_ms[own.time_lag_ms > 0] %= 20_000
    own.time_lag_ms[at] = 50_000 if own.max_offset[at] > own.committed[at] >= 0 else own.time_lag_ms[at]


def _run(chance: np.random.Generator, rounds: int) -> np.ndarray:
    first = int(chance.integers(0, rounds))
    length = int(chance.integers(1, 15)) if chance.random() < 0.5 else 0
    return (np.arange(rounds) >= first) & (np.arange(rounds) < first + length)


def _series(
    chance: np.random.Generator, key: SeriesKey, t_ms: Int64Array, silent: np.ndarray, scale: int
) -> Samples:
    count = len(t_ms)
    rate = 0 if chance.random() < 0.3 else int(chance.integers(1, 60)) * int(chance.choice([1, scale]))
    high = 1_000 + np.cumsum(chance.poisson(rate, count))
    low = np.maximum.accumulate(np.where(chance.random(count) < 0.05, high - 200, 0))
    stopped = _run(chance, count) | (chance.random(count) < 0.1)
    gain = np.where(stopped, 0, chance.poisson(rate * chance.choice([0.8, 1.3]), count))
    moved = chance.random(count) < 0.03
    gain[moved] = chance.integers(-300, 300, int(moved.sum())) * max(1, rate // 60)
    committed = np.maximum(1_000 + np.cumsum(gain), 0)
    over = chance.random(count) < 0.01
    committed = np.where(over, high + 5, np.minimum(committed, high))
    if chance.random() < 0.1:
        committed[:] = -1
    waits = high > np.maximum(committed, low)
    lag_ms = np.where(waits, chance.integers(0, 200_000, count) // 100 * 100, 0)
    lag_ms[chance.random(count) < 0.02] = -1
    status = np.array([CODE_OF[WORDS[i]] for i in chance.integers(0, len(WORDS) - 3, count)], dtype=np.uint8)
    calm = chance.random(count) < 0.7
    status[calm] = CODE_OF[LagStatus.OK]
    status[over] = CODE_OF[LagStatus.INVALID]
    status[committed < 0] = CODE_OF[LagStatus.NEVER_COMMITTED]
    flags = np.where(moved, SampleFlag.MOVED, 0).astype(np.uint8)
    flags |= np.where(chance.random(count) < 0.03, SampleFlag.TIME_LAG_BOUND, 0).astype(np.uint8)
    flags |= np.where(chance.random(count) < 0.01, SampleFlag.LAG_BOUND, 0).astype(np.uint8)
    flags |= np.where(chance.random(count) < 0.02, SampleFlag.SWITCHED, 0).astype(np.uint8)
    if chance.random() < 0.2:
        flags |= np.uint8(SampleFlag.NOT_COUNT)
    pulled = np.where(chance.random(count) < 0.5, committed + 3, -1)
    pulled[committed < 0] = -1
    oldest = t_ms - 300_000 if chance.random() < 0.5 else np.full(count, -1)
    # What was not read has the offsets of before and no judgement.
    status[silent], flags[silent], lag_ms[silent], pulled[silent] = CODE_OF[LagStatus.UNKNOWN], 0, -1, -1
    last = np.maximum.accumulate(np.where(silent, 0, np.arange(count)))
    return Samples(
        [key],
        np.array([0, count]),
        t_ms,
        high[last],
        low[last],
        committed[last],
        pulled,
        Previous.none(1),
        lag_ms,
        status,
        flags,
        oldest[last],
    )
