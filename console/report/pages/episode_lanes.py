"""Episodes of groups on one time axis: a lane per group, a bar per episode."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from console.cluster.models import Cluster
from console.report import selectors
from console.report.models import ReportRow
from console.text import Text

LANES_MAX = 30


@dataclass(frozen=True, slots=True)
class Bar:
    """An episode in its lane."""

    start_ms: int
    end_ms: int
    kind: str
    word: str
    peak_ms: int | None


@dataclass(frozen=True, slots=True)
class Lane:
    """The episodes of a group."""

    name: str
    bars: list[Bar]

    @property
    def length_ms(self) -> int:
        return sum(bar.end_ms - bar.start_ms for bar in self.bars)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of the groups with the longest sums, of `groups`."""

    from_ms: int
    to_ms: int
    rows: list[Lane]
    groups: int


def copied_until_ms(cluster: Cluster, now_ms: int) -> int:
    """Return until when episodes are known: the collector's records were copied then."""
    done = selectors.last_success(cluster.name, "episodes")
    until_ms = cluster.until_ms(now_ms)
    return until_ms if done is None else min(until_ms, done.finished_at_ms or until_ms)


def lanes(found: QuerySet[ReportRow], from_ms: int | None, to_ms: int) -> Lanes | None:
    """Return the episodes as bars, a lane per group: the longest sums first, at most LANES_MAX."""
    words = {
        "breach": Text("late"),
        "stall": Text("queue stalled"),
        "offline": Text("nothing consumed"),
        "lost": Text("lost to retention"),
    }
    own: dict[str, Lane] = {}
    for group, kind, figures in found.values_list("group", "kind", "figures").iterator(chunk_size=2_000):
        word, peak_ms = words.get(kind, kind), figures.get("peak_time_lag_ms")
        bar = Bar(figures["start_ms"], figures["end_ms"], kind, word, peak_ms)
        own.setdefault(group, Lane(group, [])).bars.append(bar)
    for lane in own.values():
        # Of several at one time the last is drawn on top: being late follows from the others.
        lane.bars.sort(key=lambda bar: (bar.kind != "breach", bar.start_ms))
    if not own:
        return None
    first_ms = min(bar.start_ms for lane in own.values() for bar in lane.bars)
    return Lanes(
        from_ms=first_ms if from_ms is None else max(from_ms, first_ms),
        to_ms=to_ms,
        rows=sorted(own.values(), key=lambda lane: -lane.length_ms)[:LANES_MAX],
        groups=len(own),
    )
