"""All clusters at once: worst budgets, losses, growth, and times without data.

All from stored rows; no broker is called. Only names of groups that the reader may see are included.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Min, Q, QuerySet

from console.access.name_scope import NameScope, view_scope
from console.cluster.models import Cluster
from console.lag import metrics
from console.lag.episode_state import EpisodeState
from console.lag.facts import Gap
from console.lag.models import Episode, GroupRow, HistoryFile, HistoryGap, Round
from console.lag.promise_courses import Budgets
from console.lag.promise_versions import promises_of
from console.lag.selectors import last_round, silent_brokers, system_groups, without_master_count
from console.overview.selectors import TopGroup, growing_groups, losing_groups
from console.text import Text, text_of
from spark.lag.local_time import DAY_MS, HOUR_MS

TOP_ROWS = 10
DAYS_SHOWN = 7
GAPS_SHOWN = 20
WINDOWS_MS = HOUR_MS, 6 * HOUR_MS  # of the rates that are shown
LOW_COVERAGE_PCT = 95.0  # below it a budget is unknown (lag.md 7)


@dataclass(frozen=True, slots=True)
class ClusterLine:
    """One cluster in a line; `is_current` is false when its last round is too old to describe the present."""

    cluster: Cluster
    round: Round | None
    is_current: bool
    groups: int
    late: int
    unknown: int
    open_episodes: int
    silent: int
    without_master: int
    days: Sequence[float | None]


class Burning(NamedTuple):
    """A group's topic that was late, and its budget burn rate over the last hour and six hours.

    A rate is None when too little of that time is known. ``known_since_ms``: without a break; None is not yet.
    """

    cluster: str
    group: str
    topic: str
    hour: float | None
    six_hours: float | None
    known_since_ms: int | None


class Burns(NamedTuple):
    """The worst topics of all clusters.

    ``unknown_since_ms``: of each cluster whose last six hours are not known, since when it is known without a break.
    """

    worst: Sequence[Burning]
    unknown_since_ms: Sequence[int | None]

    @property
    def is_known(self) -> bool:
        """Return whether the last six hours of every cluster are known."""
        return not self.unknown_since_ms

    @property
    def known_from_ms(self) -> int | None:
        """Return when every rate is known if no round is missed; None if all are, or that is not in sight."""
        shown = [one.known_since_ms for one in self.worst if one.six_hours is None or one.hour is None]
        since = shown if self.worst else self.unknown_since_ms
        if not since or None in since:
            return None
        # The longer window is known last.
        return max(one for one in since if one is not None) + round(6 * HOUR_MS * LOW_COVERAGE_PCT / 100)


class Unwatched(NamedTuple):
    """A time without collection (`broker_name` empty) or in which a broker was silent."""

    cluster: str
    broker_name: str
    from_ms: int
    to_ms: int | None
    lasted_ms: int
    reason: Text


def lines(clusters: Sequence[Cluster], person: Any, now_ms: int) -> list[ClusterLine]:
    """Return a line for each cluster."""
    current = set(metrics.fresh_clusters(now_ms))
    found = []
    for cluster in clusters:
        scope = view_scope(person, cluster.name)
        rows = scope.filter(GroupRow.objects.filter(cluster=cluster.name, is_system=False), "group")
        going = Episode.objects.filter(cluster=cluster.name).exclude(state=EpisodeState.OVER)
        found.append(
            ClusterLine(
                cluster=cluster,
                round=last_round(cluster.name),
                is_current=cluster.name in current,
                groups=rows.count(),
                late=_late(cluster.name, rows, now_ms),
                unknown=rows.filter(Q(status="UNKNOWN") | Q(partial=True)).count(),
                open_episodes=scope.filter(going, "group").count(),
                silent=len(silent_brokers(cluster.name)),
                without_master=without_master_count(cluster.name),
                days=watched_pct(_gaps(cluster.name, now_ms), _first_ms(cluster.name), now_ms),
            )
        )
    return found


def _late(cluster: str, rows: QuerySet[GroupRow], now_ms: int) -> int:
    """Return how many groups are later than each promises."""
    promises = promises_of(cluster)
    own = rows.filter(group__in=promises.versions)
    late = sum(
        age_ms is not None and age_ms > promises.at(group, now_ms).slo_ms
        for group, age_ms in own.values_list("group", "time_lag_ms")
    )
    others = rows.exclude(group__in=promises.versions)
    return late + others.filter(time_lag_ms__gt=promises.default.slo_ms).count()


def watched_pct(gaps: Sequence[Gap], first_ms: int | None, now_ms: int) -> list[float | None]:
    """Return the share of each of the last DAYS_SHOWN UTC days in which everything was watched, today so far.

    `gaps` of the collector and of single brokers may overlap. `first_ms` is when rounds began; None: they never did.
    Days before it have no share; its own day is counted from it.
    """
    apart = _apart(gaps, now_ms)
    found: list[float | None] = []
    for start_ms in days_shown(now_ms):
        end_ms = min(start_ms + DAY_MS, now_ms)
        if first_ms is None or first_ms >= end_ms:
            found.append(None)
            continue
        begin_ms = max(start_ms, first_ms)
        away_ms = sum(max(0, min(away_to, end_ms) - max(from_ms, begin_ms)) for from_ms, away_to in apart)
        found.append(round(100 * max(0, end_ms - begin_ms - away_ms) / max(1, end_ms - begin_ms), 1))
    return found


def _apart(gaps: Sequence[Gap], now_ms: int) -> list[tuple[int, int]]:
    """Return the times that some gap covers, as stretches that do not overlap."""
    found: list[tuple[int, int]] = []
    for from_ms, to_ms in sorted((gap.from_ms, gap.to_ms or now_ms) for gap in gaps):
        if found and from_ms <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], to_ms)
        else:
            found.append((from_ms, to_ms))
    return found


def days_shown(now_ms: int) -> list[int]:
    """Return the start times of the days of `watched_pct`."""
    today_ms = now_ms - now_ms % DAY_MS
    return [today_ms - back * DAY_MS for back in range(DAYS_SHOWN - 1, -1, -1)]


def burning(clusters: Sequence[Cluster], person: Any, now_ms: int) -> Burns:
    """Return the topics of groups that burned their budget fastest in the last hour, of all clusters.

    A topic of which too little is known ranks below those of which enough is known.
    """
    found: list[Burning] = []
    unknown_since_ms = []
    for cluster in clusters:
        budgets = Budgets(cluster.name, cluster.poll_interval_s * 1_000, now_ms, WINDOWS_MS)
        found += _burning(cluster, view_scope(person, cluster.name), budgets, now_ms)
        if _rates(budgets, "", "")[1] is None:
            unknown_since_ms.append(budgets.known_since("", ""))
    return Burns(heapq.nlargest(TOP_ROWS, found, key=_rank), unknown_since_ms)


def _burning(cluster: Cluster, scope: NameScope, budgets: Budgets, now_ms: int) -> list[Burning]:
    """Return the worst of a cluster: since when each is known is looked up for these alone."""
    system = set(system_groups(cluster.name))
    late = [
        Burning(cluster.name, group, topic, *_rates(budgets, group, topic), None)
        for group, topic in budgets.late_since(now_ms - 6 * HOUR_MS)
        if group not in system and scope.covers(group)
    ]
    return [
        one._replace(known_since_ms=budgets.known_since(one.group, one.topic))
        for one in heapq.nlargest(TOP_ROWS, late, key=_rank)
    ]


def _rates(budgets: Budgets, group: str, topic: str) -> tuple[float | None, float | None]:
    """Return the burn rates of the last hour and of the last six; None where unknown."""
    hour, six_hours = (one.rate for one in budgets.burns(group, topic))
    return hour, six_hours


def _rank(one: Burning) -> tuple[float, float]:
    return (-1.0 if one.hour is None else one.hour, -1.0 if one.six_hours is None else one.six_hours)


def losing(clusters: Sequence[Cluster], person: Any) -> list[TopGroup]:
    """Return the groups that lose messages or will lose them first, of all clusters."""
    found = [one for each in clusters for one in losing_groups(each.name, view_scope(person, each.name))]
    return sorted(found, key=_loss)[:TOP_ROWS]


def _loss(one: TopGroup) -> tuple[bool, bool, bool, int]:
    row = one.row
    return row.status != "LOST", not one.is_in_sight, row.time_to_loss_lower_bound, row.time_to_loss_ms or 0


def growing(clusters: Sequence[Cluster], person: Any) -> list[TopGroup]:
    """Return the groups whose lag grows fastest, of all clusters."""
    found = [one for each in clusters for one in growing_groups(each.name, view_scope(person, each.name))]
    return sorted(found, key=lambda one: -(one.growth or 0))[:TOP_ROWS]


def unwatched(clusters: Sequence[Cluster], now_ms: int) -> list[Unwatched]:
    """Return the longest gaps in the data of the last days, of all clusters."""
    from_ms = days_shown(now_ms)[0]
    recent = Q(to_ms__isnull=True) | Q(to_ms__gt=from_ms)
    rows = HistoryGap.objects.filter(recent, cluster__in=[one.name for one in clusters])
    found = [
        Unwatched(
            gap.cluster,
            gap.broker_name,
            gap.from_ms,
            gap.to_ms,
            (gap.to_ms or now_ms) - max(gap.from_ms, from_ms),
            text_of(gap.reason),
        )
        for gap in rows.iterator(chunk_size=2_000)
    ]
    return heapq.nlargest(GAPS_SHOWN, found, key=lambda one: one.lasted_ms)


def _first_ms(cluster: str) -> int | None:
    first: int | None = HistoryFile.objects.filter(cluster=cluster).aggregate(at=Min("ts_lo_ms"))["at"]
    return first


def _gaps(cluster: str, now_ms: int) -> list[Gap]:
    recent = Q(to_ms__isnull=True) | Q(to_ms__gt=now_ms - DAYS_SHOWN * DAY_MS)
    rows = HistoryGap.objects.filter(recent, cluster=cluster)
    return [Gap(*times) for times in rows.values_list("from_ms", "to_ms")]
