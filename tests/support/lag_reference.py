"""Reference data of lag history: the same groups, queues and episodes for the same seed, made with whole arrays.

`python -m tests.support.lag_reference FOLDER --size full --hours 1` writes hour chunks in the collector's layout and a
`manifest.json` with a row per file (fields of `console.lag.models.HistoryFile`). Sizes:

    small   20 groups x   8 queues, 15 s:    38,400 group samples an hour, for tests; one broker falls silent
    medium 100 groups x 200 queues, 15 s: 4,800,000 group samples an hour
    quarter 250 groups x 200 queues, 15 s: 12,000,000 group samples an hour
    full 1,000 groups x 200 queues, 15 s: 48,000,000 group samples an hour (lag.md 5), and 9,600,000 of heads

Traffic: each queue has a log-normal rate, or none (`active_share`), under a wave of `shape`: a diurnal "tide", a
"campaign" (an hour of 2.5 times in six), "bursts" (three an hour), "noise" (a random walk); arrivals are Poisson. A
group's committed offset follows c(i) = min(c(i-1) + capacity(i), arrivals(i) - pending), whose solution is a running
minimum; an interval of capacity 0 is a stall (one queue) or an offline group (all). Some series are reset backwards or
forwards, retention moves min offsets once an hour, and from `silent_broker_hour` on one broker answers no round for a
few minutes. Time lags, statuses and flags are those of `tests.support.judge`. Everything is drawn per topic and hour
from `default_rng([seed, topic, hour])`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spark.lag.codes import UNKNOWN_CODE
from spark.lag.history import chunk
from spark.lag.samples import Previous, Samples, SeriesKey, samples_of
from spark.lag.snapshot import Int64Array
from tests.support.judge import judge

HOUR_MS = 3_600_000
START_MS = 1_760_000_400_000  # 2025-10-09T09:00:00Z, a Thursday
HOURS_SEEN = 2  # a message that has waited longer is as old as that at least
FloatArray = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.uint8]
LastRound = dict[str, npt.NDArray[np.generic]] | None


@dataclass(frozen=True, slots=True)
class Size:
    """How much; `groups_per_topic` groups read every queue of a topic."""

    groups: int
    queues: int
    interval_ms: int = 15_000
    brokers: int = 10
    groups_per_topic: int = 5
    active_share: float = 0.55
    retention_hours: int = 6
    seed: int = 7
    silent_broker_hour: int | None = None
    shape: str = "tide"

    @property
    def topics(self) -> int:
        return -(-self.groups // self.groups_per_topic)

    @property
    def rounds(self) -> int:
        """Rounds of an hour."""
        return HOUR_MS // self.interval_ms


SIZES = {
    "small": Size(20, 8, brokers=2, silent_broker_hour=0),
    "medium": Size(100, 200),
    "quarter": Size(250, 200),
    "full": Size(1_000, 200),
}


@dataclass(slots=True)
class _Topic:
    """Where a topic stands between two hours. Arrays run over its queues; `committed` has a row per group."""

    max_offset: Int64Array
    min_offset: Int64Array
    committed: Int64Array
    rates: FloatArray  # messages per second at the wave's mean
    capacity: FloatArray  # of each group and queue, as a multiple of the rate
    past_max: list[Int64Array]  # at the start of each hour, for retention
    seen: list[
        tuple[Int64Array, Int64Array]
    ]  # times and max offsets of the last hours, by which messages are dated
    lasts: tuple[LastRound, LastRound]  # of heads and of groups


class Reference:
    """The data, hour after hour: `hour()` returns the topics of the next one."""

    def __init__(self, size: Size, start_ms: int = START_MS) -> None:
        assert start_ms % HOUR_MS == 0
        self.size = size
        self.start_ms = start_ms
        self.hours_done = 0
        self.topics = [self._begin(number) for number in range(size.topics)]

    def _begin(self, number: int) -> _Topic:
        size = self.size
        chance = np.random.default_rng([size.seed, number])
        active = chance.random(size.queues) < size.active_share
        rates = np.where(active, chance.lognormal(1.5, 1.2, size.queues), 0.0)
        high = chance.integers(1_000, 1_000_000, size.queues)
        shape = (self._groups_of(number), size.queues)
        capacity = 1.15 + chance.lognormal(0.0, 0.8, shape)
        committed = np.tile(high, (shape[0], 1))
        return _Topic(high, high - 900, committed, rates, capacity, [], [], (None, None))

    def _groups_of(self, topic: int) -> int:
        return min(self.size.groups_per_topic, self.size.groups - topic * self.size.groups_per_topic)

    def hour(self) -> Iterator[tuple[Samples, Samples]]:
        """Yield (heads, groups) of every topic for the next hour, in the order of topics."""
        hour = self.hours_done
        for number in range(self.size.topics):
            yield self._topic_hour(number, hour)
        self.hours_done += 1

    def _topic_hour(self, number: int, hour: int) -> tuple[Samples, Samples]:
        size, topic = self.size, self.topics[number]
        chance = np.random.default_rng([size.seed, number, hour + 1])
        times = self.start_ms + hour * HOUR_MS + np.arange(size.rounds, dtype=np.int64) * size.interval_ms
        of_day = times % (24 * HOUR_MS) / HOUR_MS
        per_round = topic.rates[:, None] * self._wave(number, hour, of_day) * (size.interval_ms / 1000)
        high = topic.max_offset[:, None] + np.cumsum(chance.poisson(per_round), axis=1)
        low = np.repeat(topic.min_offset[:, None], size.rounds, axis=1)
        topic.past_max.append(topic.max_offset)
        if len(topic.past_max) > size.retention_hours:
            cut_at = int(chance.integers(1, size.rounds))
            low[:, cut_at:] = topic.past_max.pop(0)[:, None]
        # What a group can read swings with the day (as its people and machines do), not with a burst of messages.
        usual = per_round
        if size.shape != "tide":
            usual = np.repeat(topic.rates[:, None] * (size.interval_ms / 1000), size.rounds, axis=1)
        committed = self._committed(topic, chance, high, usual)
        judged = self._judged(topic, times, high, low, committed)
        topic.seen = [*topic.seen, (times, high)][-HOURS_SEEN:]
        topic.max_offset, topic.min_offset, topic.committed = high[:, -1], low[:, -1], committed[:, :, -1]
        read = np.ones(high.shape, dtype=np.bool_)
        if hour == size.silent_broker_hour:
            read[: self._per_broker, size.rounds // 3 : size.rounds // 3 + max(5, size.rounds // 12)] = False
        return self._samples(topic, number, times, high, low, committed, judged, read)

    def _judged(
        self,
        topic: _Topic,
        times: Int64Array,
        high: Int64Array,
        low: Int64Array,
        committed: Int64Array,
    ) -> tuple[Int64Array, CodeArray, CodeArray]:
        """Return (time lag, status, flags), groups x queues x rounds, by the heads of the last hours."""
        found = [np.empty(committed.shape, dtype=kind) for kind in (np.int64, np.uint8, np.uint8)]
        before_t = np.concatenate([t for t, _ in topic.seen]) if topic.seen else None
        before = np.concatenate([one for _, one in topic.seen], axis=1) if topic.seen else None
        for queue in range(len(high)):
            own = judge(
                times,
                high[queue],
                low[queue],
                committed[:, queue],
                before_t=before_t,
                before_high=None if before is None else before[queue],
            )
            for matrix, values in zip(found, own, strict=True):
                matrix[:, queue] = values
        return found[0], found[1], found[2]

    def _wave(self, number: int, hour: int, of_day: FloatArray) -> FloatArray:
        """What the rates are multiplied with, by the round."""
        size = self.size
        if size.shape == "tide":
            return 1 + 0.6 * np.sin((of_day - 9) / 24 * 2 * np.pi)
        chance = np.random.default_rng(
            [size.seed, number, hour + 1, 1]
        )  # others leave the first one's numbers alone
        if size.shape == "campaign":
            return np.where((of_day % 6 >= 2) & (of_day % 6 < 3), 2.5, 0.7)
        if size.shape == "bursts":
            wave = np.ones(size.rounds)
            for begin in chance.integers(0, size.rounds, 3):
                wave[begin : begin + chance.integers(size.rounds // 30, size.rounds // 6)] *= 2.5
            return wave
        assert size.shape == "noise", size.shape
        steps = np.cumsum(chance.normal(0, 0.06, size.rounds))
        return np.exp(steps - np.linspace(0, steps[-1], size.rounds))  # each hour begins and ends at 1

    def _committed(
        self, topic: _Topic, chance: np.random.Generator, high: Int64Array, per_round: FloatArray
    ) -> Int64Array:
        """Return the committed offsets, groups x queues x rounds."""
        groups, (queues, rounds) = len(topic.committed), high.shape
        capacity = np.rint(per_round * topic.capacity[:, :, None]).astype(np.int64) + 1
        for group, queue in np.argwhere(chance.random((groups, queues)) < 0.004):  # a poison message
            first, length = chance.integers(0, rounds), chance.integers(4, rounds // 2)
            capacity[group, queue, first : first + length] = 0
        for group in np.flatnonzero(chance.random(groups) < 0.02):  # no client is connected
            first, length = chance.integers(0, rounds), chance.integers(rounds // 10, rounds)
            capacity[group, :, first : first + length] = 0
        pending = np.minimum(chance.poisson(3.0, (groups, queues, rounds)), high - topic.max_offset[:, None])
        room = high - pending
        total = np.cumsum(capacity, axis=2)
        ahead = np.minimum.accumulate(room - total, axis=2)
        committed = np.maximum(
            total + np.minimum(ahead, topic.committed[:, :, None]), topic.committed[:, :, None]
        )
        committed = np.maximum.accumulate(committed, axis=2)
        for group, queue in np.argwhere(chance.random((groups, queues)) < 0.001):  # an operator moved it
            at, moved = int(chance.integers(1, rounds)), int(chance.integers(100, 50_000))
            back = chance.random() < 0.7
            own = committed[group, queue]
            if back:
                own[at:] = np.maximum(own[at:] - moved, 0)
            else:
                own[at:] = np.maximum(own[at:], high[queue, at])
        return committed

    @property
    def _per_broker(self) -> int:
        return -(-self.size.queues // self.size.brokers)

    def _queue_keys(self, topic: int) -> list[tuple[str, str, int]]:
        per_broker = self._per_broker
        return [
            (f"topic-{topic:04}", f"broker-{queue // per_broker:02}", queue % per_broker)
            for queue in range(self.size.queues)
        ]

    def _samples(
        self,
        topic: _Topic,
        number: int,
        times: Int64Array,
        high: Int64Array,
        low: Int64Array,
        committed: Int64Array,
        judged: tuple[Int64Array, CodeArray, CodeArray],
        read: npt.NDArray[np.bool_],
    ) -> tuple[Samples, Samples]:
        queues = self._queue_keys(number)
        groups = [
            f"group-{number * self.size.groups_per_topic + place:04}" for place in range(len(committed))
        ]
        first_ms = int(times[0]) - self.size.interval_ms if self.hours_done else -1
        head_keys = [SeriesKey("", *key, 0) for key in queues]
        heads, head_lasts = _flat(head_keys, times, high, low, None, None, topic.lasts[0], read, first_ms)
        keys = [SeriesKey(group, *key, 0) for group in groups for key in queues]
        wide = (len(groups), 1)
        own, lasts = _flat(
            keys,
            times,
            np.tile(high, wide),
            np.tile(low, wide),
            committed.reshape(len(keys), -1),
            (
                judged[0].reshape(len(keys), -1),
                judged[1].reshape(len(keys), -1),
                judged[2].reshape(len(keys), -1),
            ),
            topic.lasts[1],
            np.tile(read, wide),
            first_ms,
        )
        topic.lasts = head_lasts, lasts
        return heads, own


def _flat(
    keys: list[SeriesKey],
    times: Int64Array,
    high: Int64Array,
    low: Int64Array,
    committed: Int64Array | None,
    judged: tuple[Int64Array, CodeArray, CodeArray] | None,
    before: dict[str, npt.NDArray[np.generic]] | None,
    read: npt.NDArray[np.bool_],
    first_ms: int,
) -> tuple[Samples, dict[str, npt.NDArray[np.generic]]]:
    """Return series x rounds matrices as samples, and what their last round says. Cells that were not read have the
    offsets of before and the status UNKNOWN.
    """
    shape = high.shape
    unknown = np.full(shape, -1, dtype=np.int64)
    matrices: dict[str, npt.NDArray[np.generic]] = {
        "max_offset": high,
        "min_offset": low,
        "committed": unknown if committed is None else committed,
        "pulled": unknown,
        "time_lag_ms": unknown if judged is None else judged[0],
        "status": np.ones(shape, dtype=np.uint8) if judged is None else judged[1],
        "flags": np.zeros(shape, dtype=np.uint8) if judged is None else judged[2],
        "oldest_ms": np.repeat(times[None, :1] - 24 * HOUR_MS, shape[0], axis=0).repeat(shape[1], axis=1),
    }
    if not read.all():
        last = np.maximum.accumulate(np.where(read, np.arange(shape[1]), 0), axis=1)
        for name in ("max_offset", "min_offset", "committed"):
            matrices[name] = np.take_along_axis(matrices[name], last, axis=1)
        for name, value in (("time_lag_ms", -1), ("status", UNKNOWN_CODE), ("flags", 0)):
            matrices[name] = np.where(read, matrices[name], matrices[name].dtype.type(value))
    previous = Previous.none(len(keys))
    if first_ms >= 0 and before is not None:
        previous = Previous(np.full(len(keys), first_ms), **before)
    columns = [
        np.broadcast_to(times, shape).reshape(-1),
        *(matrix.reshape(-1) for matrix in matrices.values()),
    ]
    starts = np.arange(len(keys) + 1, dtype=np.int64) * shape[1]
    return samples_of(keys, starts, columns, previous), {
        name: matrix[:, -1].copy() for name, matrix in matrices.items()
    }


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """A file, as `HistoryFile` names its columns."""

    path: str
    kind: str
    cluster: str
    ts_lo_ms: int
    ts_hi_ms: int
    rows: int
    samples: int
    bytes: int
    sha256: str
    generation: int = 1
    state: str = "live"


def write_hour(reference: Reference, folder: Path, *, cluster: str = "reference") -> ManifestRow:
    """Write the next hour as one chunk under `folder`, as the collector would: heads first, then groups."""
    hour_ms = reference.start_ms + reference.hours_done * HOUR_MS
    hour = datetime.fromtimestamp(hour_ms / 1000, UTC)
    path = f"kind=chunk_hour/cluster={cluster}/date={hour:%Y-%m-%d}/hour={hour:%H}/b=0-g1.parquet"
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    interval_ms = reference.size.interval_ms
    heads, groups = [], []  # as rows: a tenth of the memory that samples take
    for head_samples, group_samples in reference.hour():
        heads.append(chunk.encode_table(head_samples, interval_ms=interval_ms))
        groups.append(chunk.encode_table(group_samples, interval_ms=interval_ms))
    with chunk.ChunkWriter(str(target)) as writer:
        for table in [*heads, *groups]:
            writer.write(table)
    written = writer.written
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return ManifestRow(
        path,
        "chunk_hour",
        cluster,
        hour_ms,
        hour_ms + HOUR_MS,
        written.rows,
        written.samples,
        target.stat().st_size,
        digest,
    )


def write_history(size: Size, folder: Path, hours: int, *, cluster: str = "reference") -> list[ManifestRow]:
    """Write so many hours and `manifest.json`; return its rows."""
    reference = Reference(size)
    rows = [write_hour(reference, folder, cluster=cluster) for _ in range(hours)]
    (folder / "manifest.json").write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    parser.add_argument("--hours", type=int, default=1)
    arguments = parser.parse_args()
    for row in write_history(SIZES[arguments.size], arguments.folder, arguments.hours):
        print(f"{row.path} {row.rows} rows {row.samples} samples {row.bytes} bytes")


if __name__ == "__main__":
    main()
