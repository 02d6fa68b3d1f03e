"""What the pages of the reports that are not lag per window show: views of their rows and the columns of each.

A column is a key of `ReportRow.figures`, or `group`, `topic`, `broker_name`, `window_start_ms` of the row itself. Kinds
are those of `console.templatetags.figures.CELLS`, and `moment`, `percent` (the value is per cent), `size` (bytes).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from console import figures


def _utc(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


EPISODE_WORDS = {
    "breach": "Late",
    "stall": "A queue stood still",
    "offline": "Nothing consumed",
    "lost": "Lost to retention",
}


# Kinds of columns as plain text, for mails and downloads.
TEXTS: dict[str, Callable[[Any], str]] = {
    "optional": figures.count,
    "optional_duration": figures.duration,
    "rate": figures.rate,
    "percent": "{:,.1f} %".format,
    "size": figures.size,
    "moment": _utc,
    "text": str,
    "episode": lambda kind: EPISODE_WORDS.get(kind, kind),
}
OWN_COLUMNS = frozenset(("group", "topic", "broker_name", "window_start_ms", "kind"))
NUMBERS = frozenset(("optional", "optional_duration", "rate", "percent", "size", "moment"))


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `priority` 2 and 3 disappear first on narrow screens. `note`: what it means, in a popover."""

    key: str
    label: str
    kind: str = "optional"
    unit: str = ""
    priority: int = 1
    note: str = ""

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def order_field(self) -> str:
        return self.key if self.key in OWN_COLUMNS else f"figures__{self.key}"

    @property
    def css(self) -> str:
        words = ["num"] if self.is_number and self.kind != "moment" else []
        return " ".join([*words, *([f"p{self.priority}"] if self.priority > 1 else [])])


@dataclass(frozen=True, slots=True)
class RowsView:
    """One table of a report: the rows of a grain, their columns, and the order they come in."""

    grain: str
    label: str
    columns: tuple[Column, ...]
    sort: str
    ascending: bool = False

    def column(self, key: str) -> Column | None:
        return next((column for column in self.columns if column.key == key), None)


DAY = Column("window_start_ms", "Day", "moment", priority=2)
CAPACITY = RowsView(
    "group",
    "Groups",
    (
        DAY,
        Column("utilisation_pct", "Used", "percent", note="peak of what came over what the group can do"),
        Column("mu_max", "Can do", "rate", "/s", note="95th percentile of its busy minutes"),
        Column("lambda_peak", "Peak in", "rate", "/s", note="99th percentile of the minutes"),
        Column("lag_max", "Lag max", unit="msgs", priority=2),
        Column("queues", "Queues", priority=2),
        Column("clients", "Clients", priority=2),
        Column("consumers_needed", "Needed", note="clients to be current again in the recovery time"),
        Column("runway_ms", "Data loss in", "optional_duration"),
        Column("skew_offender", "Worst queue", "text", priority=3),
        Column("dead_weight", "Dead weight", "text"),
    ),
    "utilisation_pct",
)
SCORES = (
    DAY,
    Column("backlogs", "Backlogs"),
    Column("forecasts", "Forecasts"),
    Column("mape_pct", "Error", "percent", note="mean of |forecast − actual| / actual"),
    Column("covered_pct", "In the band", "percent", note="share of the bands that held the actual"),
    Column("backlogs_covered_pct", "First band", "percent", note="the first band of each backlog"),
    Column("said_never", "Said never", priority=2),
    Column("never_wrong", "Wrongly", priority=2),
    Column("unseen", "Not judged", priority=2, note="their end was not seen: the day or a gap cut it"),
)
TRAFFIC = (
    Column("messages", "Messages"),
    Column("size_bytes", "Size", "size"),
    Column("peak_per_s", "Peak", "rate", "/s", note="the busiest minute"),
    Column("body_bytes_mean", "Body mean", "size", priority=2),
    Column("queues", "Queues", priority=2),
    Column(
        "store_delay_p95_ms",
        "Store delay p95",
        "optional_duration",
        priority=2,
        note="by the producer's clock",
    ),
    Column("resent", "Came back", note="reconsume times above 0"),
    Column("undispatched", "No unit", priority=2, note="records that no consume queue leads to"),
    Column("wrong_units", "Wrong units", priority=3),
)
LETTERS = (
    Column("letters", "Letters"),
    Column("arrived", "Came in"),
    Column("peak_per_h", "Peak", unit="/h", priority=2),
    Column("oldest_ms", "Oldest", "moment"),
    Column("age_p95_ms", "Age p95", "optional_duration", priority=2),
    Column("repeated", "Failed again", note="sent again and failed again"),
    Column("size_bytes", "Size", "size", priority=2),
)
_DISTRIBUTION = (
    Column("time_lag_p50_ms", "Time lag p50", "optional_duration"),
    Column("time_lag_p95_ms", "p95", "optional_duration"),
    Column("time_lag_p99_ms", "p99", "optional_duration"),
    Column("time_lag_max_ms", "max", "optional_duration"),
    Column("lag_max", "Lag max", unit="msgs"),
    Column("produced", "Produced", unit="msgs"),
    Column("consumed", "Consumed", unit="msgs"),
    Column("breach_ms", "In breach", "optional_duration"),
    Column("within_slo_pct", "Within SLO", "percent"),
    Column("burn_rate", "Burn", "rate", "×"),
    Column("coverage_pct", "Coverage", "percent"),
)
# For the HTML download; the page of lag reports has a template of its own.
LAG_VIEWS = (
    RowsView("topic", "Groups and topics", _DISTRIBUTION, "time_lag_max_ms"),
    RowsView("queue", "Queues", _DISTRIBUTION, "time_lag_max_ms"),
)
EPISODES_VIEW = RowsView(
    "episode",
    "Episodes",
    (
        Column("kind", "Kind", "episode"),
        Column("start_ms", "Began", "moment"),
        Column("duration_ms", "Lasted", "optional_duration"),
        Column("peak_time_lag_ms", "Peak time lag", "optional_duration"),
        Column("messages_late", "Messages late"),
        Column("lost", "Lost", unit="msgs"),
        Column("cause", "First cause", "text"),
        Column("worst_queue", "First on", "text"),
        Column("forecast_ms", "Forecast", "optional_duration"),
        Column("drained_ms", "Drained in", "optional_duration"),
    ),
    "start_ms",
)
VIEWS: dict[str, tuple[RowsView, ...]] = {
    "episodes": (),  # a page of its own
    "capacity": (CAPACITY,),
    "forecast_scorecard": (
        RowsView("group", "Groups", SCORES, "backlogs"),
        RowsView("cluster", "All together", SCORES, "window_start_ms"),
    ),
    "topic_traffic": (
        RowsView("topic", "By day", (DAY, *TRAFFIC), "messages"),
        RowsView("hour", "By hour", (Column("hour_ms", "Hour", "moment"), *TRAFFIC), "hour_ms"),
    ),
    "dead_letter": (
        RowsView("group", "Groups", (DAY, *LETTERS), "letters"),
        RowsView("cause", "Causes", (DAY, Column("cause", "Cause", "text"), *LETTERS), "letters"),
    ),
}
WORDS = {
    "lag_hour": "Lag of every group, topic and queue per UTC hour.",
    "lag_day": "Lag of every group, topic and queue per UTC day.",
    "lag_week": "Lag of every group, topic and queue per week, Monday to Monday UTC.",
    "episodes": "When a group was late, stood still or lost messages, why, and how it ended.",
    "capacity": "What each group can do, what is asked of it, and how much room retention leaves.",
    "topic_traffic": "What came into each topic, message by message, from the brokers’ store files.",
    "dead_letter": "Dead letters from the brokers’ store files: how many, why, how old.",
    "forecast_scorecard": "How good our drain forecasts were.",
}
