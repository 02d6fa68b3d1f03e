"""What was recorded of one queue of a group over time: the last reading of each step, and what was not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np
from msgspec import Struct

from console.brokers.mqadmin import MessageQueue
from console.lag import selectors as lag_selectors
from console.lag.models import HistoryGap
from console.lag.past import history_reads
from console.lists.spec import MSGS, Column, ListSpec
from console.text import Text
from spark.lag.codes import SampleFlag
from spark.lag.folds.rounds import GAP_INTERVALS
from spark.lag.local_time import DAY_MS, HOUR_MS, MINUTE_MS
from spark.lag.snapshot import UNKNOWN_TIME

SPAN_MS_MAX = 31 * DAY_MS
HISTORY_STEPS_MAX = 10_000
# A step of its own choice is the shortest of these with so few rows.
STEPS_SHOWN = 120
STEPS_MS = (MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, DAY_MS)
NOT_RECORDED = Text(
    "nothing was recorded: no round took place, its broker was silent, or nothing was committed"
)
RECREATED = Text("the topic was recreated: its offsets begin again")
SWITCHED = Text(
    "read from another machine than before: a slave that may be some seconds behind, or the master again"
)


class QueueReading(Struct, frozen=True, kw_only=True):
    """The last reading of [at_ms, to_ms), or with offsets None a time without one, for a ``reason``.

    ``moved``: messages since the reading before, negative after a rewind, None where the two are of different machines.
    ``age_ms``: how old the reading was when the step ended. ``lag_max``: the largest lag of the step.
    ``…_lower_bound``: at least that. ``offset_is_not_count``: there are at most as many messages. ``is_recreated``: the
    topic was, since the reading before.
    """

    at_ms: int
    to_ms: int
    read_at_ms: int | None = None
    age_ms: int | None = None
    committed_offset: int | None = None
    moved: int | None = None
    max_offset: int | None = None
    min_offset: int | None = None
    lag: int | None = None
    lag_max: int | None = None
    time_lag_ms: int | None = None
    time_lag_lower_bound: bool = False
    lag_lower_bound: bool = False
    offset_is_not_count: bool = False
    is_recreated: bool = False
    reason: Text = Text()


QUEUE_HISTORY = ListSpec(
    name="queue-history",
    key="at_ms",
    default="-at",
    columns=(
        Column("at", Text("From"), css="", order=lambda row: row.at_ms, fields=("at_ms", "to_ms")),
        Column("read", Text("Read"), css="", fields=("read_at_ms", "age_ms")),
        Column("committed", Text("Committed"), fields=("committed_offset",)),
        Column("moved", Text("Moved"), MSGS, css="num hide-s", fields=("moved", "is_recreated")),
        Column("min", Text("Min"), css="num p3", fields=("min_offset",)),
        Column("max", Text("Max"), css="num hide-s", fields=("max_offset",)),
        Column(
            "lag",
            Text("Lag"),
            MSGS,
            order=lambda row: row.lag,
            fields=("lag", "lag_lower_bound", "offset_is_not_count"),
        ),
        Column(
            "lag_max",
            Text("Largest lag"),
            MSGS,
            css="num p2",
            order=lambda row: row.lag_max,
            fields=("lag_max",),
        ),
        Column(
            "time_lag",
            Text("Time lag"),
            order=lambda row: row.time_lag_ms,
            fields=("time_lag_ms", "time_lag_lower_bound"),
        ),
    ),
    file_fields=("reason",),
    searched=("reason",),
)


class _Round(Struct, frozen=True):
    """One round's reading of the queue."""

    t_ms: int
    committed: int
    max_offset: int
    min_offset: int
    time_lag_ms: int
    flags: int
    incarnation: int

    @property
    def lag(self) -> int:
        return max(0, self.max_offset - self.committed)


def usual_step_ms(span_ms: int, interval_ms: int) -> int:
    """Return the shortest step that gives a page of rows for a range."""
    steps = (step_ms for step_ms in (interval_ms, *STEPS_MS) if interval_ms <= step_ms)
    return next((step_ms for step_ms in steps if span_ms <= step_ms * STEPS_SHOWN), STEPS_MS[-1])


def refusal(from_ms: int, to_ms: int, step_ms: int) -> Text | None:
    """Return why a range is not shown in these steps; None where it is."""
    if not 0 < to_ms - from_ms <= SPAN_MS_MAX:
        return Text("The end must lie after the start, at most %(days)s days.", days=SPAN_MS_MAX // DAY_MS)
    if to_ms - from_ms > HISTORY_STEPS_MAX * step_ms:
        return Text(
            "These are more than %(most)s steps: choose longer ones, or a shorter range.",
            most=HISTORY_STEPS_MAX,
        )
    return None


def queue_history(
    cluster: str, group: str, queue: MessageQueue, from_ms: int, to_ms: int, step_ms: int, now_ms: int
) -> list[QueueReading]:
    """Return the readings of a queue in [from_ms, to_ms), oldest first; [] where nothing was ever read in it.

    Steps begin at multiples of their length; one has a row where it has a reading. Times of more than GAP_INTERVALS
    collection intervals without a reading are rows of their own.
    """
    end_ms, gap_ms = min(to_ms, now_ms), GAP_INTERVALS * lag_selectors.collect_interval_ms(cluster)
    steps: list[QueueReading] = []
    silent: list[tuple[int, int]] = []
    before: _Round | None = None
    in_order = _rounds(cluster, group, queue, from_ms, end_ms)
    for number, found in groupby(in_order, lambda each: each.t_ms // step_ms):
        own, at_ms = list(found), number * step_ms
        times = (from_ms if before is None else before.t_ms, *(each.t_ms for each in own))
        silent += [(start, end) for start, end in pairwise(times) if end - start > gap_ms]
        steps.append(_of_step(own, before, max(at_ms, from_ms), min(at_ms + step_ms, end_ms)))
        before = own[-1]
    if before is None:
        return []
    if end_ms - before.t_ms > gap_ms:
        silent.append((before.t_ms, end_ms))
    known = [
        gap
        for gap in (lag_selectors.gaps(cluster, from_ms, end_ms) if silent else ())
        if gap.broker_name in ("", queue.broker_name)
    ]
    gaps = (QueueReading(at_ms=start, to_ms=end, reason=_why(known, start, end)) for start, end in silent)
    return sorted([*steps, *gaps], key=lambda row: (row.at_ms, row.read_at_ms is None))


def _rounds(cluster: str, group: str, queue: MessageQueue, from_ms: int, to_ms: int) -> Iterator[_Round]:
    """Yield the recorded readings in time order, day after day: a month costs the memory of a day."""
    for day_ms in range(from_ms, to_ms, DAY_MS):
        samples = history_reads.load(cluster, group, day_ms, min(day_ms + DAY_MS, to_ms))
        own = samples.select(lambda key: MessageQueue(key.topic, key.broker_name, key.queue_id) == queue)
        columns = (own.t_ms, own.committed, own.max_offset, own.min_offset, own.time_lag_ms, own.flags)
        incarnations = np.fromiter((key.incarnation for key in own.keys), dtype=np.int64, count=len(own.keys))
        rounds = zip(*(each.tolist() for each in (*columns, incarnations[own.series])), strict=True)
        yield from (_Round(*values) for values in sorted(rounds))


def _of_step(own: Sequence[_Round], before: _Round | None, at_ms: int, to_ms: int) -> QueueReading:
    """Return the last reading of a step, compared with the last one of the steps before."""
    last = own[-1]
    is_recreated = before is not None and before.incarnation != last.incarnation
    is_switched = any(each.flags & SampleFlag.SWITCHED for each in own)
    is_comparable = before is not None and not is_recreated and not is_switched
    return QueueReading(
        at_ms=at_ms,
        to_ms=to_ms,
        read_at_ms=last.t_ms,
        age_ms=to_ms - last.t_ms,
        committed_offset=last.committed,
        moved=last.committed - before.committed if before is not None and is_comparable else None,
        max_offset=last.max_offset,
        min_offset=last.min_offset,
        lag=last.lag,
        lag_max=max(each.lag for each in own),
        time_lag_ms=None if last.time_lag_ms == UNKNOWN_TIME else last.time_lag_ms,
        time_lag_lower_bound=bool(last.flags & SampleFlag.TIME_LAG_BOUND),
        lag_lower_bound=bool(last.flags & SampleFlag.LAG_BOUND),
        offset_is_not_count=bool(last.flags & SampleFlag.NOT_COUNT),
        is_recreated=is_recreated,
        reason=SWITCHED if is_switched and not is_recreated else _read_as(last.flags, is_recreated),
    )


def _read_as(flags: int, is_recreated: bool) -> Text:
    """Return how the figures of a reading are to be read."""
    if is_recreated:
        return RECREATED
    if flags & (SampleFlag.LAG_BOUND | SampleFlag.TIME_LAG_BOUND):
        return Text("a lower bound: more or older messages may wait than this reading shows")
    return Text()


def _why(gaps: Sequence[HistoryGap], start_ms: int, end_ms: int) -> Text:
    """Return why nothing was read in a time, as far as it was recorded."""
    for gap in gaps:
        if gap.from_ms < end_ms and (gap.to_ms is None or gap.to_ms > start_ms) and gap.reason:
            return gap.reason
    return NOT_RECORDED
