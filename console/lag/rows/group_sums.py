"""Combine the queues of every group: sums, worst cases, skew, and the same for each topic of a group. Pure.

All groups at once, over columns (`QueueTable`); unknown propagates (lag.md 1.2): the sum of five known messages and a
queue of unknown lag is 5 with `partial`, never nothing and never just 5.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from console.brokers.mqadmin import is_retry_topic
from console.lag.round.columns import NULL, Runs, each, values_of
from console.lag.round.figures import GroupTopic, Sums
from console.lag.round.series import QueueKey
from console.lag.round.view import RoundView
from console.lag.rows.queue_row import NO_REASON
from console.lag.rows.queue_rows import DRAIN_NUMBERS, QueueTable
from console.lag.rows.reasons import about
from spark.lag.round.skew import skews
from spark.lag.round.status import SEVERITY, LagStatus
from spark.lag.snapshot import BoolArray, Int64Array

Column = npt.NDArray[Any]
RANKS = {status.value: rank for status, rank in SEVERITY.items()}
STATUSES = {rank: status for status, rank in SEVERITY.items()}
STANDING = frozenset({LagStatus.STALLED.value, LagStatus.STOPPED.value, LagStatus.OFFLINE.value})
NO_QUEUES = Sums()


def queue_name(key: QueueKey) -> str:
    """Return a queue's name in reasons: "topic · broker · 3"."""
    return f"{key.topic} · {key.broker_name} · {key.queue_id}"


def group_sums(view: RoundView, table: QueueTable) -> dict[str, Sums]:
    """Return the figures of every group with a queue; retry topics are separate, in columns `retry_…`.

    POP groups have one retry topic for each topic (`%RETRY%group_topic`).
    """
    is_main = np.array([not is_retry_topic(key.topic) for key in table.keys], dtype=np.bool_)
    main = table.part(is_main)
    found = _main_sums(view, main) if main.keys else {}
    if is_main.all():
        return found
    retry = table.part(~is_main)
    runs = Runs([key.group for key in retry.keys])
    lag, time_lag = retry.columns["lag"], retry.columns["time_lag_ms"]
    is_unknown = runs.any(lag == NULL)
    lists = (
        values_of(np.where(is_unknown, NULL, runs.sum(lag))),
        values_of(runs.largest(time_lag)),
        values_of(_read_at_ms(view, retry, runs)),
    )
    topics: dict[str, set[str]] = {}
    for key in retry.keys:
        topics.setdefault(key.group, set()).add(key.topic)
    for start, retry_lag, age_ms, read_at_ms in zip(runs.starts.tolist(), *lists, strict=True):
        group = retry.keys[start].group
        sums = found.get(group, NO_QUEUES)
        found[group] = msgspec.structs.replace(
            sums,
            retry_lag=retry_lag,
            retry_time_lag_ms=age_ms,
            read_at_ms=max(read_at_ms, sums.read_at_ms or read_at_ms),
            retry_topics=tuple(sorted(topics[group])),
        )
    return found


def _main_sums(view: RoundView, table: QueueTable) -> dict[str, Sums]:
    runs = Runs([key.group for key in table.keys])
    columns = table.columns
    sums = _Combined(table, runs)
    spread = skews(columns["lag"], runs.ids, len(runs.starts), unknown=NULL)
    read = columns["lag"] != NULL
    all_pulled = runs.any(read) & ~runs.any(read & (columns["in_flight"] == NULL))
    losing = runs.first_smallest(columns["time_to_loss_ms"])
    is_losing = losing >= 0
    speed = np.where(sums.oldest >= 0, columns["speed"][sums.oldest], np.nan)
    unknown_at = runs.first(~sums.known)
    keys = table.keys
    lists: dict[str, list[Any]] = {
        **sums.lists(),
        **_rates(view, table, runs),
        "speed": values_of(speed),
        "queueing_ms": values_of(runs.largest(columns["queueing_ms"])),
        "stall_ms": values_of(runs.largest(_stalls_ms(columns, view.now_ms))),
        "lost": values_of(runs.sum(columns["lost"])),
        "time_to_loss_ms": values_of(np.where(is_losing, columns["time_to_loss_ms"][losing], NULL)),
        "time_to_loss_never": (~runs.any(~columns["time_to_loss_never"])).tolist(),
        "time_to_loss_lower_bound": (is_losing & columns["time_to_loss_lower_bound"][losing]).tolist(),
        "time_to_loss_queue": ["" if at < 0 else queue_name(keys[at]) for at in losing.tolist()],
        "skew_gini": each(spread.gini, lambda one: round(one, 3)),
        "skew_max_over_mean": each(spread.max_over_mean, lambda one: round(one, 2)),
        "effective_queues": each(spread.effective_queues, lambda one: round(one, 1)),
        "in_flight": values_of(np.where(all_pulled, runs.sum(columns["in_flight"]), NULL)),
        "available": values_of(np.where(all_pulled, runs.sum(columns["available"]), NULL)),
        "unknown": runs.count(~sums.known).tolist(),
        "unknown_reason": [NO_REASON if at < 0 else columns["reason"][at] for at in unknown_at.tolist()],
        "queues": runs.counts.tolist(),
        "offset_is_not_count": runs.any(columns["offset_is_not_count"]).tolist(),
        "topics": _topics(view, table, runs),
        "read_at_ms": values_of(_read_at_ms(view, table, runs)),
        "last_commit_ms": values_of(runs.largest(columns["last_commit_ms"])),
        "retry_lag": [0] * len(runs.starts),
    }
    rows = (Sums(**dict(zip(lists, values, strict=True))) for values in zip(*lists.values(), strict=True))
    return {keys[start].group: row for start, row in zip(runs.starts.tolist(), rows, strict=True)}


class _Combined:
    """Compute status, lag and drain of runs of queues, by the rules of `spark.lag.round.status` for one.

    A queue the group never committed on has no lag; what it holds is a separate figure, and makes the group
    NEVER_COMMITTED if it is well on all others.
    """

    def __init__(self, table: QueueTable, runs: Runs) -> None:
        self.table, self.columns, self.runs = table, table.columns, runs
        self.rank = np.array([RANKS[word] for word in table.columns["status"].tolist()], dtype=np.int64)
        self.known = self.rank != SEVERITY[LagStatus.UNKNOWN]
        self.committed = self.known & (self.rank != SEVERITY[LagStatus.NEVER_COMMITTED])
        self.partial = runs.any(~self.known)
        self.nothing_known = ~runs.any(self.known)
        self.is_committed = runs.any(self.committed)
        self.status = runs.largest(self.rank)
        self.oldest = runs.first_largest(self.columns["time_lag_ms"])

    def lists(self) -> dict[str, list[Any]]:
        """Return a list for each figure, a value for each run."""
        runs, columns, keys = self.runs, self.columns, self.table.keys
        culprits = self.rank == self.status[runs.ids]
        since_ms = runs.smallest(np.where(culprits, columns["since_ms"], NULL))
        is_unknown = self.status == SEVERITY[LagStatus.UNKNOWN]
        first_unknown = runs.first(culprits & (columns["since_ms"] == since_ms[runs.ids]))
        culprit = np.where(is_unknown, first_unknown, self._worst(culprits))
        is_well = self.status == SEVERITY[LagStatus.OK]
        # It stands beside the time lag: an unknown queue has none.
        worst = np.where((is_well | is_unknown) & (self.oldest >= 0), self.oldest, culprit)
        is_bound = (self.oldest >= 0) & columns["time_lag_lower_bound"][self.oldest]
        reasons = []
        for at, is_about_broker in zip(culprit.tolist(), is_unknown.tolist(), strict=True):
            words = columns["reason"][at]
            reasons.append(about(queue_name(keys[at]), words) if words and not is_about_broker else words)
        return {
            "status": [STATUSES[rank] for rank in self.status.tolist()],
            "partial": self.partial.tolist(),
            "lag": values_of(runs.sum(columns["lag"])),
            "time_lag_ms": values_of(runs.largest(columns["time_lag_ms"])),
            "time_lag_lower_bound": (~self.nothing_known & (self.partial | is_bound)).tolist(),
            "since_ms": since_ms.tolist(),
            "worst_queue": [queue_name(keys[at]) for at in worst.tolist()],
            "reason": reasons,
            **self._drains(),
        }

    def _worst(self, culprits: BoolArray) -> Int64Array:
        """Return the culprit with the largest time lag, then the largest lag, then the first."""
        runs = self.runs
        for name in ("time_lag_ms", "lag"):
            value = np.where(culprits, np.maximum(self.columns[name], 0), NULL)
            culprits = culprits & (value == runs.largest(value)[runs.ids])
        return runs.first(culprits)

    def _drains(self) -> dict[str, list[Any]]:
        """Return when the last backlog is gone.

        Queues that are OK have a few messages waiting as usual, no backlog; `never` wins over unknown and unknown over
        a number; while some queue is unknown only "never" is certain.
        """
        runs, columns = self.runs, self.columns
        judged = self.committed & (self.rank != SEVERITY[LagStatus.OK])
        never = judged & columns["drain_never"]
        is_never, is_judged = runs.any(never), runs.any(judged)
        is_open = runs.any(judged & (columns["drain_ms"] == NULL))
        last = np.where(
            is_never, runs.first(never), runs.first_largest(np.where(judged, columns["drain_ms"], NULL))
        )
        is_reported = is_never | (is_judged & ~is_open & ~self.partial)
        is_done = (
            ~is_judged & ~self.partial & self.is_committed & ~runs.any(self.committed & (columns["lag"] > 0))
        )
        found = {}
        for name in DRAIN_NUMBERS:
            value = np.where(is_reported, columns[name][last], NULL)
            if name in ("drain_low_ms", "drain_high_ms"):
                counted = judged & (columns["drain_ms"] > 0)
                is_unknown = runs.any(counted & (columns[name] == NULL))
                widest = np.where(is_unknown, NULL, runs.largest(np.where(counted, columns[name], NULL)))
                value = np.where(is_reported & ~is_never, widest, value)
            found[name] = value
        found["drain_ms"] = np.where(is_done, 0, found["drain_ms"])
        found["drain_known_ms"] = runs.largest(np.where(judged, columns["drain_ms"], NULL))
        return {"drain_never": is_never.tolist(), **{name: values_of(value) for name, value in found.items()}}


def _read_at_ms(view: RoundView, table: QueueTable, runs: Runs) -> Int64Array:
    """Return when each group was last read: in this round (as old as its beginning), or longer ago."""
    return np.where(runs.any(table.place >= 0), view.now_ms, runs.largest(table.columns["read_at_ms"]))


def _rates(view: RoundView, table: QueueTable, runs: Runs) -> dict[str, list[Any]]:
    """Return messages per second in and out of the queues that were read; unknown when none has a rate."""
    produced, read = np.full(len(table.keys), np.nan), table.place >= 0
    produced[read] = view.window.produce_rates()[view.columns.heads[table.place[read]]]
    consumed = runs.total(table.columns["out_rate"])
    return {"in_rate": values_of(runs.total(produced)), "out_rate": values_of(consumed)}


def _held(columns: Mapping[str, Column]) -> Int64Array:
    """Return the messages in queues the group never committed on: they may become lag, or be skipped."""
    never = columns["status"] == LagStatus.NEVER_COMMITTED.value
    return np.where(never, columns["max_offset"] - columns["min_offset"], 0)


def _stalls_ms(columns: Mapping[str, Column], now_ms: int) -> Int64Array:
    """Return how long queues with messages made no progress; unknown if progress was never seen or needed."""
    stands = np.array([word in STANDING for word in columns["status"].tolist()], dtype=np.bool_)
    moved_ms = columns["last_commit_ms"]
    stalled_ms = np.where(stands, now_ms - columns["since_ms"], NULL)
    stalled_ms = np.where(moved_ms == NULL, stalled_ms, now_ms - moved_ms)
    return np.where(columns["lag"] > 0, stalled_ms, NULL)


def _topics(view: RoundView, table: QueueTable, groups: Runs) -> list[tuple[GroupTopic, ...]]:
    """Return the topics of each group."""
    runs = Runs([key[:2] for key in table.keys])
    sums = _Combined(table, runs).lists()
    columns, starts = table.columns, runs.starts
    lists: dict[str, list[Any]] = {
        "topic": [table.keys[start].topic for start in starts.tolist()],
        "queues": runs.counts.tolist(),
        "status": [status.value for status in sums["status"]],
        **{name: sums[name] for name in ("partial", "lag", "time_lag_ms", "time_lag_lower_bound")},
        "lag_lower_bound": [
            is_partial and lag is not None
            for is_partial, lag in zip(sums["partial"], sums["lag"], strict=True)
        ],
        "never_committed_lag": values_of(runs.sum(_held(columns))),
        "offset_is_not_count": columns["offset_is_not_count"][starts].tolist(),
        **_rates(view, table, runs),
        "stall_ms": values_of(runs.largest(_stalls_ms(columns, view.now_ms))),
        "time_to_loss_ms": values_of(runs.smallest(columns["time_to_loss_ms"])),
        "time_to_loss_never": (~runs.any(~columns["time_to_loss_never"])).tolist(),
    }
    found: list[list[GroupTopic]] = [[] for _ in groups.starts]
    group_of = groups.ids[starts].tolist()
    for group, values in zip(group_of, zip(*lists.values(), strict=True), strict=True):
        found[group].append(GroupTopic(**dict(zip(lists, values, strict=True))))
    return [tuple(topics) for topics in found]
