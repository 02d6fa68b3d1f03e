"""The newest reports of all groups at once: what is left of error budgets, and a week's episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F

from console.access.name_scope import EVERYTHING, NameScope
from console.cluster.models import Cluster
from console.report import selectors
from console.report.columns import SLO_COLUMNS, Column
from console.report.models import ReportRow
from console.report.pages.episode_lanes import Lanes, copied_until_ms, lanes
from spark.lag.local_time import DAY_MS

BUDGETS_SHOWN = 10
EPISODE_DAYS = 7
# Column → its place in the two lines of a row on a phone.
_SHOWN = {"budget_left_pct": "s2", "slo_ms": "s3", "target_pct": "s4", "budget_days": ""}
BUDGET_COLUMNS = tuple((column, _SHOWN[column.key]) for column in SLO_COLUMNS if column.key in _SHOWN)


@dataclass(frozen=True, slots=True)
class Summary:
    """`budgets` as of the last computed day, least first, of `groups`; `episodes`: the lanes of the last seven days."""

    budgets: Sequence[ReportRow]
    groups: int
    episodes: Lanes | None
    columns: tuple[tuple[Column, str], ...] = BUDGET_COLUMNS


def summary(cluster: Cluster, now_ms: int, scope: NameScope = EVERYTHING) -> Summary:
    """Return the newest budgets and the week's episodes of the groups in a scope. Five queries."""
    of_system = selectors.of_system_groups(cluster.name)
    days = selectors.report_rows(cluster.name, "lag_day", grain="slo", scope=scope).exclude(of_system)
    newest = days.order_by("-window_start_ms").values_list("window_start_ms", flat=True).first()
    last_day = days.filter(window_start_ms=newest or 0)
    worst = last_day.order_by(F("figures__budget_left_pct").asc(nulls_last=True), "group")
    to_ms = cluster.until_ms(now_ms)
    from_ms = to_ms - EPISODE_DAYS * DAY_MS
    episodes = selectors.report_rows(cluster.name, "episodes", from_ms=from_ms, scope=scope)
    return Summary(
        budgets=list(worst[:BUDGETS_SHOWN]),
        groups=last_day.count(),
        episodes=lanes(episodes.exclude(of_system), from_ms, copied_until_ms(cluster, now_ms)),
    )
