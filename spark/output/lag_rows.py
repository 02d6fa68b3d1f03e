"""Rows of lag reports: the output of a task for a work item, by the hour or added up to one period.

One row per group-topic, and one per queue with a backlog, traffic, or nothing known of it. What the columns mean:
`spark.lag.folds.figures`. Besides:

    slo_ms              what the group promises; a breach is longer. Every hour is judged by the version in force when
                        it began; a longer window names the last one, with its `slo_target` and `slo_from_ms`, and in
                        `slo_versions` how many it had
    retry_in            produced into the group's %RETRY% topic, `dead_letter_in` into %DLQ%: of the whole group, the
                        same on each of its topics; null: such a topic was not collected
    clients_min, _max   members of the whole group, as far as changes were seen; null: unknown, and of single queues
    filter_ratio        share of the waiting messages that pass the group's filter, of `filter_sampled` ones that were
                        looked at in the window in parts of the whole backlog; `_low`, `_high` are its Wilson 95 %
                        interval, `filtered_lag_last` so much of `lag_last`; null: no filter, or not sampled
    *_buckets, *_counts histograms of group-topics (`spark.lag.folds.histogram`)

A module of its own, so that executors import it: what is defined in a job's `__main__` would travel with every task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark.job import JobSpec, Promise
from spark.lag.folds import figures
from spark.lag.folds.figures import PERCENTILES, Columns
from spark.lag.folds.level import Level
from spark.lag.folds.window import Fold, merge
from spark.lag.round.filter_ratio import FilterSample, filtered_lag, wilson
from spark.lag.samples import SeriesKey, SeriesKind
from spark.lag.snapshot import BoolArray
from spark.notes import Note
from spark.schemas import KEY, STAMP, WINDOW, row_schema
from spark.sources.folded_hours import FoldedHours
from spark.sources.work import HistoryReader, WorkItem

GRAIN_TOPIC, GRAIN_QUEUE = "topic", "queue"
DISTRIBUTION = ("last", *(f"p{share}" for share in PERCENTILES), "max")
HISTOGRAMS = ("lag", "time_lag", "latency")
FOLDS_KEPT = 24  # hours that are folded and not yet added up
LAG_FIGURES = (
    pa.field("slo_ms", pa.int64()),
    pa.field("slo_target", pa.float64()),
    pa.field("slo_from_ms", pa.int64()),
    pa.field("slo_versions", pa.int32()),
    pa.field("queues", pa.int32()),
    pa.field("lag_first", pa.int64()),
    *[pa.field(f"lag_{name}", pa.int64()) for name in DISTRIBUTION],
    *[pa.field(f"time_lag_{name}_ms", pa.int64()) for name in DISTRIBUTION],
    pa.field("time_lag_censored", pa.int32()),
    *[pa.field(f"message_latency_p{share}_ms", pa.int64()) for share in PERCENTILES],
    pa.field("latency_mean_ms", pa.int64()),
    pa.field("little_mean_ms", pa.int64()),
    pa.field("little_agrees", pa.bool_()),
    pa.field("consumed_within_slo", pa.int64()),
    pa.field("within_slo_pct", pa.float64()),
    pa.field("in_flight_p95", pa.int64()),
    pa.field("ready_p95", pa.int64()),
    pa.field("produced", pa.int64()),
    pa.field("consumed", pa.int64()),
    pa.field("counted_ms", pa.int64()),
    pa.field("in_rate", pa.float64()),
    pa.field("out_rate", pa.float64()),
    pa.field("catch_up_speed", pa.float64()),
    pa.field("last_consumed_age_ms", pa.int64()),
    pa.field("offset_is_not_count", pa.bool_()),
    pa.field("breach_ms", pa.int64()),
    pa.field("breach_weighted_ms", pa.int64()),
    pa.field("late_message_ms", pa.int64()),
    pa.field("watched_ms", pa.int64()),
    pa.field("burn_rate", pa.float64()),
    pa.field("burn_lo", pa.float64()),
    pa.field("burn_hi", pa.float64()),
    pa.field("drain_ms", pa.int64()),
    pa.field("drain_lo_ms", pa.int64()),
    pa.field("drain_hi_ms", pa.int64()),
    pa.field("drain_never", pa.bool_()),
    pa.field("drain_by_speed_ms", pa.int64()),
    pa.field("time_to_loss_ms", pa.int64()),
    pa.field("lost", pa.int64()),
    pa.field("skipped", pa.int64()),
    pa.field("rewinds", pa.int32()),
    pa.field("retry_in", pa.int64()),
    pa.field("dead_letter_in", pa.int64()),
    pa.field("skew_max_mean", pa.float64()),
    pa.field("skew_cv", pa.float64()),
    pa.field("skew_gini", pa.float64()),
    pa.field("effective_queues", pa.float64()),
    pa.field("time_lag_spread_ms", pa.int64()),
    pa.field("worst_queue", pa.string()),
    pa.field("stall_ms_max", pa.int64()),
    pa.field("clients_min", pa.int32()),
    pa.field("clients_max", pa.int32()),
    pa.field("filter_ratio", pa.float64()),
    pa.field("filter_ratio_low", pa.float64()),
    pa.field("filter_ratio_high", pa.float64()),
    pa.field("filter_sampled", pa.int64()),
    pa.field("filtered_lag_last", pa.int64()),
    pa.field("status_worst", pa.string()),
    pa.field("status_ms", pa.list_(pa.int64())),
    pa.field("samples", pa.int32()),
    pa.field("partial_samples", pa.int32()),
    pa.field("expected_samples", pa.int32()),
    *[
        field
        for name in HISTOGRAMS
        for field in (
            pa.field(f"{name}_buckets", pa.list_(pa.int32())),
            pa.field(f"{name}_counts", pa.list_(pa.int64())),
        )
    ],
)
LAG_SCHEMA = row_schema(KEY, WINDOW, LAG_FIGURES, STAMP)


def hour_rows(item: WorkItem, notes: list[Note]) -> Iterator[pa.Table]:
    """Yield the rows of an item's hours, in each table those of a grain in the order of their keys.

    What cannot be read comes into `notes`.
    """
    reader = FoldedHours(item, stores=True)
    hours = {hour.hour_ms for hour in item.hours}
    for folds in reader.folds():
        for one in folds:
            if one.fold.from_ms in hours:
                yield from tables(one.fold, reader, one.dead_letters)
    reader.close()
    notes += reader.notes


def period_rows(item: WorkItem, notes: list[Note]) -> Iterator[pa.Table]:
    """Yield the same for the whole period of an item: the folds of its hours are added up."""
    reader = FoldedHours(item)
    for folds in reader.folds():
        found: list[Fold] = []
        dead_letters: Counter[str] = Counter()
        for one in folds:
            found.append(one.fold)
            dead_letters.update(one.dead_letters)
            if len(found) > FOLDS_KEPT:
                found = [merge(found)]
        if found:
            whole = replace(merge(found), from_ms=item.from_ms, to_ms=item.to_ms)
            yield from tables(whole, reader, dead_letters)
    reader.close()
    notes += reader.notes


def tables(own: Fold, reader: HistoryReader, dead_letters: Mapping[str, int]) -> Iterator[pa.Table]:
    """Yield the rows of both grains of some groups."""
    item, spec = reader.item, reader.spec
    into = _retries(own, dead_letters)
    worst = [
        figures.queue_name(key) if waited else ""
        for key, waited in zip(own.queues.keys, (own.queues.sums.lag_max > 0).tolist(), strict=True)
    ]
    more = {
        GRAIN_TOPIC: {**figures.of_topics(own), **_histograms(own.topics)},
        GRAIN_QUEUE: {"worst_queue": worst},
    }
    for grain, level in ((GRAIN_QUEUE, own.queues), (GRAIN_TOPIC, own.topics)):
        kept = level.sums.exists_ms > 0
        if grain == GRAIN_QUEUE:
            kept &= _has_news(level)
        if kept.any():
            columns = _columns(grain, level, spec, own, into)
            columns |= {"cluster": item.cluster, **more[grain]}
            table = pa.Table.from_arrays(
                [_array(columns.get(field.name), field.type, len(level)) for field in LAG_SCHEMA],
                schema=LAG_SCHEMA,
            )
            yield table if kept.all() else table.filter(pa.array(kept))


def _has_news(level: Level) -> BoolArray:
    sums = level.sums
    has: BoolArray = (sums.lag_max > 0) | (sums.produced + sums.consumed > 0) | (sums.known_ms == 0)
    return has


def _columns(
    grain: str,
    level: Level,
    spec: JobSpec,
    own: Fold,
    into: dict[str, tuple[int | None, int | None]],
) -> Columns:
    coded = pa.array([key.group for key in level.keys]).dictionary_encode()
    groups, group_of = coded.dictionary.to_pylist(), coded.indices.to_numpy()

    def each(values: Sequence[Any]) -> pa.Array:
        return pa.array(values).take(coded.indices)

    promises = [spec.promises(group, own.from_ms, own.to_ms) for group in groups]
    last = [versions[-1][0] for versions in promises]
    slo_ms = np.array([one.slo_ms for one in last], dtype=np.int64)[group_of]
    target = np.array([_mean_target(versions) for versions in promises])[group_of]
    columns: Columns = {
        **_names(grain, level.keys),
        **figures.of_level(level, spec.interval_ms, slo_ms, target),
        "slo_target": each([one.target for one in last]),
        "slo_from_ms": each([one.from_ms for one in last]),
        "slo_versions": each([len(versions) for versions in promises]),
        "window_start_ms": own.from_ms,
        "window_end_ms": own.to_ms,
        "retry_in": each([into[group][0] for group in groups]),
        "dead_letter_in": each([into[group][1] for group in groups]),
        **spec.stamp,
    }
    if grain == GRAIN_TOPIC:
        counts = [spec.clients_between(group, own.from_ms, own.to_ms) for group in groups]
        columns["clients_min"] = each([least for least, _ in counts])
        columns["clients_max"] = each([most for _, most in counts])
        if spec.filter_samples:
            columns |= _filtered(level, spec, own, columns["lag_last"])
    return columns


def _filtered(level: Level, spec: JobSpec, own: Fold, lag_last: pa.Array) -> Columns:
    """Return how much of the lag passes the groups' filters (lag.md 1.2, 25); all of a retry topic does."""
    samples: list[FilterSample | None] = []
    for key in level.keys:
        is_filtered = key.group in spec.filter_samples and key.kind is not SeriesKind.RETRY
        samples.append(spec.filter_between(key.group, own.from_ms, own.to_ms) if is_filtered else None)
    ratios = [None if one is None else wilson(one) for one in samples]
    lags = [filtered_lag(lag, ratio) for lag, ratio in zip(lag_last.to_pylist(), ratios, strict=True)]
    return {
        "filter_ratio": [one and round(one.value, 4) for one in ratios],
        "filter_ratio_low": [one and round(one.low, 4) for one in ratios],
        "filter_ratio_high": [one and round(one.high, 4) for one in ratios],
        "filter_sampled": [one.scanned if one and one.scanned else None for one in samples],
        "filtered_lag_last": [one and one[0] for one in lags],
    }


def _mean_target(versions: list[tuple[Promise, int]]) -> float:
    """Return the target of a window: of several versions each counts for its time."""
    if len(versions) == 1:
        return versions[0][0].target
    return sum(one.target * length_ms for one, length_ms in versions) / sum(ms for _, ms in versions)


def _names(grain: str, keys: Sequence[SeriesKey]) -> Columns:
    topics = [key.topic for key in keys]
    # of a group each: what they are follows from the topic
    kinds = dict(zip(topics, keys, strict=True))
    words = {topic: key.kind.value for topic, key in kinds.items()}
    return {
        "grain": grain,
        "kind": [words[topic] for topic in topics],
        "group": [key.group for key in keys],
        "topic": topics,
        "broker_name": [key.broker_name for key in keys],
        "queue_id": [key.queue_id for key in keys],
    }


def _retries(own: Fold, dead_letters: Mapping[str, int]) -> dict[str, tuple[int | None, int | None]]:
    """Return group → messages into its %RETRY% and its %DLQ% topic; a topic that was not collected is unknown."""
    retry: dict[str, int] = {}
    for key, count in zip(own.topics.keys, own.topics.sums.produced.tolist(), strict=True):
        if key.kind is SeriesKind.RETRY:
            retry[key.group] = retry.get(key.group, 0) + count
    groups = {key.group for key in own.topics.keys}
    return {group: (retry.get(group), dead_letters.get(group)) for group in groups}


def _histograms(level: Level) -> Columns:
    found: Columns = {}
    for name in HISTOGRAMS:
        own = level.histograms[name]
        offsets = pa.array(own.starts(len(level)).astype(np.int32))
        found[f"{name}_buckets"] = pa.ListArray.from_arrays(offsets, pa.array(own.buckets.astype(np.int32)))
        found[f"{name}_counts"] = pa.ListArray.from_arrays(offsets, pa.array(own.counts))
    return found


def _array(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, pa.Array):
        return values.cast(kind)
    return pa.array(values, kind) if isinstance(values, list) else pa.repeat(pa.scalar(values, kind), count)
