"""What the tables of `ReportRow` show: views of the rows of a report and the columns of each.

A column is a key of `ReportRow.figures`, or `group`, `topic`, `broker_name`, `window_start_ms` of the row itself. Kinds
are those of `console.templatetags.figures.CELLS`, and `moment`, `percent` and `percent2` (the value is per cent, with
one or two digits behind the point), `budget` (per cent that are left, with a bar), `points`, `size` (bytes), `shift`
(a week against the one before: the figures that begin with the key), `ranked` (of `by`), and words.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from console.text import figures


def _utc(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


EPISODE_WORDS = {
    "breach": "Late",
    "stall": "A queue stood still",
    "offline": "Nothing consumed",
    "lost": "Lost to retention",
}


EVENT_WORDS = {
    "REWIND": "Set back",
    "SKIPPED": "Skipped",
    "LOST": "Lost to retention",
    "RECREATED": "Topic made anew",
    "HEAD_REGRESSION": "Broker lost its tail",
}
EVENT_STATUS = {"REWIND": "REWOUND", "SKIPPED": "SKIPPED", "LOST": "LOST"}
TIMES_FROM_PCT = 900
# By what rows of `topn` are ranked, and how the figure reads.
RANKED: dict[str, Callable[[Any], str]] = {
    "time_lag": figures.duration,
    "burn": lambda value: f"{value:,.1f} ×",
    "time_to_loss": figures.duration,
    "growth": figures.count,
}


def signed(value: float, digits: int = 1) -> str:
    """`+12.5`, `−3.0`, `0.0`."""
    sign = "+" if value > 0 else figures.MINUS if value < 0 else ""
    return f"{sign}{abs(value):,.{digits}f}"


def changed(change_pct: float) -> str:
    """`+12.5 %`; beyond ten times nobody reads per cent: `× 341`."""
    return f"{signed(change_pct)} %" if change_pct < TIMES_FROM_PCT else f"× {1 + change_pct / 100:,.0f}"


def shift_text(row: Mapping[str, Any], key: str) -> str:
    """`+188.2 %, higher`, `+4.0 %, no clear change`; "" where neither week is known."""
    verdict, change = row.get(f"{key}_verdict"), row.get(f"{key}_change_pct")
    if verdict is None:
        return ""
    return verdict if change is None else f"{changed(change)}, {verdict}"


# Kinds of columns as plain text, for mails and downloads.
TEXTS: dict[str, Callable[[Any], str]] = {
    "optional": figures.count,
    "optional_duration": figures.duration,
    "rate": figures.rate,
    "percent": "{:,.1f} %".format,
    "percent2": "{:,.2f} %".format,
    "budget": "{:,.1f} %".format,
    "points": lambda value: signed(value, 2),
    "p_value": lambda value: "< 0.001" if value < 0.001 else f"{value:.3f}",
    "event": lambda kind: EVENT_WORDS.get(kind, kind),
    "kept": lambda kept: "kept" if kept else "broken",
    "size": figures.size,
    "moment": _utc,
    "text": str,
    "episode": lambda kind: EPISODE_WORDS.get(kind, kind),
}
OWN_COLUMNS = frozenset(("group", "topic", "broker_name", "window_start_ms", "kind"))
NUMBERS = frozenset(
    (
        "optional", "optional_duration", "rate", "percent", "percent2", "budget", "points", "p_value", "shift",
        "ranked", "size", "moment",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `priority` 2 and 3 disappear first on narrow screens. `note`: what it means, in a popover."""

    key: str
    label: str
    kind: str = "optional"
    unit: str = ""
    priority: int = 1
    note: str = ""
    is_summed: bool = False  # at least that, in a row with `is_lower_bound`
    is_of_offsets: bool = False  # at most that, in a row with `offset_is_not_count`

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def order_field(self) -> str:
        if self.kind == "shift":
            return f"figures__{self.key}_change_pct"
        return self.key if self.key in OWN_COLUMNS else f"figures__{self.key}"

    def text(self, row: Mapping[str, Any]) -> str:
        """The cell in plain English; "" for what is unknown or does not apply."""
        if self.kind == "shift":
            return shift_text(row, self.key)
        value = row.get(self.key)
        if value is None or value == "":
            return ""
        text = RANKED[row["by"]](value) if self.kind == "ranked" else TEXTS[self.kind](value)
        if self.is_of_offsets and row.get("offset_is_not_count"):
            return f"≤ {text}"
        return f"≥ {text}" if self.is_bound(row) else text

    def is_bound(self, row: Mapping[str, Any]) -> bool:
        """Whether the figure of a row is the least that it can be."""
        return self.is_summed and bool(row.get("is_lower_bound"))

    @property
    def css(self) -> str:
        words = ["num"] if self.is_number and self.kind not in ("moment", "budget") else []
        words += ["nowrap"] if self.kind in ("moment", "budget") else []
        return " ".join([*words, *([f"p{self.priority}"] if self.priority > 1 else [])])


@dataclass(frozen=True, slots=True)
class RowsView:
    """One table of a report: the rows of a grain, their columns, and the order they come in. `where` leaves only some
    of them (conditions on `figures`); such a view has a `name` of its own in the address. `words` say what it is.
    """

    grain: str
    label: str
    columns: tuple[Column, ...]
    sort: str
    ascending: bool = False
    name: str = ""
    where: tuple[tuple[str, Any], ...] = ()
    words: str = ""

    @property
    def key(self) -> str:
        return self.name or self.grain

    def column(self, key: str) -> Column | None:
        return next((column for column in self.columns if column.key == key), None)


DAY = Column("window_start_ms", "Day", "moment", "UTC", priority=2)
WEEK = Column("window_start_ms", "Week", "moment", "UTC", priority=2)
HOUR = Column("window_start_ms", "Hour", "moment", priority=2)
CAPACITY = RowsView(
    "group",
    "Groups",
    (
        DAY,
        Column("utilisation_pct", "Used", "percent", note="peak of what came over what the group can do"),
        Column(
            "mu_max",
            "Can do",
            "rate",
            "/s",
            note="95th percentile of the minutes in which it was behind; a dash: it never was",
        ),
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
DAY_OF_MS = 86_400_000
CAPACITY_VIEWS = (
    CAPACITY,
    RowsView(
        "group",
        "Retention risk",
        (
            DAY,
            Column(
                "runway_ms",
                "Data loss in",
                "optional_duration",
                note="until retention reaches the first unread",
            ),
            Column("lag_max", "Lag max", unit="msgs"),
            Column("utilisation_pct", "Used", "percent"),
            Column("coverage_pct", "Coverage", "percent", priority=2),
        ),
        "runway_ms",
        ascending=True,
        name="retention",
        where=(("figures__runway_ms__lt", DAY_OF_MS),),
        words="Groups that retention could reach within a day, at the rates of the day.",
    ),
    RowsView(
        "group",
        "Skew",
        (
            DAY,
            Column("skew_offender", "Worst queue", "text"),
            Column("skew_share_pct", "Worst in", "percent", note="share of the hours with a backlog"),
            Column("queues", "Queues"),
            Column("lag_max", "Lag max", unit="msgs"),
            Column("coverage_pct", "Coverage", "percent", priority=2),
        ),
        "skew_share_pct",
        name="skew",
        where=(("figures__skew_offender__isnull", False),),
        words="The same queue was worst in at least half of the hours: another key may help, more consumers would not.",
    ),
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
    Column("lag_max", "Lag max", unit="msgs", is_of_offsets=True),
    Column("produced", "Produced", unit="msgs", is_of_offsets=True),
    Column("consumed", "Consumed", unit="msgs", is_of_offsets=True),
    Column("last_consumed_age_ms", "Last consumed", "optional_duration"),
    Column("drain_by_speed_ms", "Drains in", "optional_duration"),
    Column("skew_cv", "Skew", "rate"),
    Column("time_lag_spread_ms", "Time lag spread", "optional_duration"),
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
COVERAGE = Column("coverage_pct", "Coverage", "percent", priority=2)
SLO_COLUMNS = (
    Column("good_pct", "Kept", "percent2", note="share of the watched time in which no message was late"),
    Column("budget_left_pct", "Budget left", "budget", note="of 28 days that end with this one"),
    Column("breach_ms", "In breach", "optional_duration"),
    Column("burn_rate", "Burn", "rate", "×", note="1: just what the target allows"),
    Column("slo_ms", "SLO", "optional_duration"),
    Column("target_pct", "Target", "percent2"),
    Column("within_slo_pct", "In time", "percent2", priority=3, note="share of the messages"),
    Column(
        "budget_days",
        "Of days",
        note="days of the 28 that were computed; the others spend nothing and prove nothing",
    ),
)
SLO_WORDS = "The topic of each group that was worst; promises are set on the report of the group."


def _slo(window: Column, change: str) -> RowsView:
    last = Column("good_change_points", "Change", "points", "points", priority=3, note=change)
    return RowsView(
        "slo", "SLO", (window, *SLO_COLUMNS, last, COVERAGE), "budget_left_pct", True, words=SLO_WORDS
    )


def _top(by: str, label: str, head: str, note: str = "") -> RowsView:
    columns = (
        Column("rank", "Rank"),
        HOUR,
        Column("value", head, "ranked", note=note),
        Column("worst_queue", "Worst queue", "text", priority=2),
        COVERAGE,
    )
    return RowsView(
        "topn",
        label,
        columns,
        "rank",
        True,
        f"top-{by}",
        (("figures__by", by),),
        "The worst 50 of each hour.",
    )


REVIEWS: dict[str, tuple[RowsView, ...]] = {
    "lag_hour": (
        _top("time_lag", "Top: time lag", "Time lag max"),
        _top("burn", "Top: burn", "Burn", "1: just what the target allows"),
        _top("time_to_loss", "Top: data loss", "Data loss in"),
        _top("growth", "Top: growth", "Lag grew by"),
    ),
    "lag_day": (
        _slo(DAY, "against the day before"),
        RowsView(
            "event",
            "Resets and losses",
            (
                Column("at_ms", "When", "moment"),
                Column("kind", "What", "event"),
                Column("messages", "Messages"),
                Column("queues", "Queues", priority=2),
                Column("queue", "Most of it on", "text", priority=2),
                Column("from_offset", "From", priority=3),
                Column("to_offset", "To", priority=3),
                Column("by", "By", "text"),
            ),
            "at_ms",
            words="Moves of committed offsets that are no progress, beside what was done here at that time.",
        ),
        RowsView(
            "dead_weight",
            "Dead weight",
            (
                DAY,
                Column("why", "Why", "text"),
                Column("since_ms", "Offline since", "moment"),
                Column("still_days", "Days without progress"),
                Column("lag", "Lag", unit="msgs"),
                Column("messages", "Messages kept", priority=2),
                Column("last_write_ms", "Last write", "moment", priority=2),
            ),
            "why",
            True,
            words="Groups and topics that nobody would miss, as known when the report was made.",
        ),
        RowsView(
            "collector",
            "Collector",
            (
                DAY,
                Column("watched_pct", "Watched", "percent2", note="share of the time in which it answered"),
                Column("gaps", "Gaps"),
                Column("away_ms", "Away", "optional_duration"),
                Column("longest_ms", "Longest", "optional_duration"),
                Column("coverage_least_pct", "Least coverage", "percent", note="of any row of the day"),
                Column("damaged_files", "Damaged files", priority=2),
                Column("reason", "Last reason", "text"),
            ),
            "watched_pct",
            True,
            words="How well the day was watched: the collector itself, and every broker that was silent.",
        ),
    ),
    "lag_week": (
        _slo(WEEK, "against the week before"),
        RowsView(
            "trend",
            "Week over week",
            (
                WEEK,
                Column("in", "In", "shift"),
                Column("out", "Out", "shift"),
                Column("time_lag_p95", "Time lag p95", "shift"),
                Column("skew", "Skew", "shift", priority=2),
                Column(
                    "late_message_hours",
                    "Cost",
                    "rate",
                    "msg·h",
                    note="messages times the hours they waited beyond the promise",
                ),
                Column("days", "Days", priority=2, note="of the week that were computed"),
                COVERAGE,
            ),
            "late_message_hours",
            words="Day by day against the week before; clear is what chance does in at most one case of twenty.",
        ),
        RowsView(
            "change",
            "Change points",
            (
                Column("at_ms", "From", "moment"),
                Column("what", "What", "text"),
                Column("before", "Before", "rate"),
                Column("after", "After", "rate"),
                Column("change_pct", "Change", "points", "%"),
                Column("p", "p", "p_value", priority=2, note="how often chance alone does as much"),
                Column("days", "Of days", priority=2),
            ),
            "at_ms",
            words="Days of the week from which a rate (messages a second) or the skew (Gini) has another level.",
        ),
        RowsView(
            "proposal",
            "Proposals",
            (
                WEEK,
                Column("proposal", "Proposal", "text"),
                Column("proposed", "Proposed"),
                Column("now", "Now"),
                Column("evidence", "Evidence", "text"),
                Column("runway_ms", "Data loss in", "optional_duration"),
                Column("on_days", "On days", note="days that speak for it"),
                Column("days", "Of days"),
            ),
            "proposal",
            True,
            words="From the capacity report of the week's days. Nothing is changed by itself.",
        ),
    ),
}
LONG_COLUMNS = (
    Column("window_start_ms", "Period", "moment"),
    Column("in_rate", "In", "rate", "/s"),
    Column("in_rate_change_pct", "Change", "points", "%", note="of what comes in, against the period before"),
    Column("produced", "Produced", unit="msgs", is_summed=True),
    Column("time_lag_p95_ms", "Time lag p95", "optional_duration", note="of the median day"),
    Column("time_lag_max_ms", "Time lag max", "optional_duration", is_summed=True),
    Column("good_pct", "Kept", "percent2", note="share of the watched time in which no message was late"),
    Column("breach_ms", "In breach", "optional_duration", is_summed=True),
    Column("lost", "Lost", unit="msgs", priority=2, is_summed=True),
    Column("days", "Of days", note="days of the period that were computed; the others are unknown, not zero"),
    COVERAGE,
)
LONG_WORDS = (
    "Made of the daily rows that are kept. ≥: not all days of the period were computed, or it is not over."
)


def _long(grain: str, label: str) -> RowsView:
    return RowsView(grain, label, LONG_COLUMNS, "window_start_ms", words=LONG_WORDS)


VIEWS: dict[str, tuple[RowsView, ...]] = {
    **REVIEWS,
    "episodes": (),  # a page of its own
    "capacity": CAPACITY_VIEWS,
    "forecast_scorecard": (
        RowsView("group", "Groups", SCORES, "backlogs"),
        RowsView("cluster", "All together", SCORES, "window_start_ms"),
    ),
    "lag_trend": (_long("month", "Months"), _long("quarter", "Quarters"), _long("year", "Years")),
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
    "lag_day": "Lag of every group, topic and queue per day of the report's zone.",
    "lag_week": "Lag of every group, topic and queue per week, from Monday to Monday of the report's zone.",
    "episodes": "When a group was late, stood still or lost messages, why, and how it ended.",
    "capacity": "What each group can do, what is asked of it, and how much room retention leaves.",
    "topic_traffic": "What came into each topic, message by message, from the brokers’ store files.",
    "dead_letter": "Dead letters from the brokers’ store files: how many, why, how old.",
    "forecast_scorecard": "How good our drain forecasts were.",
    "lag_trend": "How groups did over months, quarters and years of the business time zone.",
}
