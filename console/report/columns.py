"""What the tables of `ReportRow` show: views of the rows of a report and the columns of each.

A column is a key of `ReportRow.figures`, or `group`, `topic`, `broker_name`, `window_start_ms` of the row itself. Kinds
are those of `console.templatetags.cells.CELLS`, and `moment`, `percent` and `percent2` (the value is per cent, with
one or two digits behind the point), `budget` (per cent that are left, with a bar), `points`, `size` (bytes), `shift`
(a week against the one before: the figures that begin with the key), `ranked` (of `by`), and words.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from console.report.row_codes import CODE_WORDS, EPISODE_WORDS, EVENT_WORDS
from console.text import Text, figures


def _utc(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


TIMES_FROM_PCT = 900
# The figure that rows of `topn` are ranked by, and its format.
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
    """Format a change: `+12.5 %`; beyond a factor of ten `× 341`."""
    return f"{signed(change_pct)} %" if change_pct < TIMES_FROM_PCT else f"× {1 + change_pct / 100:,.0f}"


class Row(Protocol):
    """A row of a report: `LagRow` or `ReportRow`."""

    def value(self, key: str) -> Any:
        """Return the row's value of a column; None for what is unknown or does not apply."""


def shift_text(row: Row, key: str) -> str:
    """Return `+188.2 %, higher`, `+4.0 %, no clear change`; "" where neither week is known."""
    verdict, change = row.value(f"{key}_verdict"), row.value(f"{key}_change_pct")
    if verdict is None:
        return ""
    return str(verdict) if change is None else f"{changed(change)}, {verdict}"


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
    "code": lambda code: CODE_WORDS.get(code, code),
    "kept": lambda kept: "kept" if kept else "broken",
    "size": figures.size,
    "moment": _utc,
    "text": lambda text: text,
    "episode": lambda kind: EPISODE_WORDS.get(kind, kind),
}
OWN_COLUMNS = frozenset(("group", "topic", "broker_name", "window_start_ms", "kind"))
QUEUES = frozenset(("worst_queue", "skew_offender", "queue"))  # `broker-a · 2`
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
    label: Text
    kind: str = "optional"
    unit: Text | str = ""
    priority: int = 1
    note: Text = Text()
    is_summed: bool = False  # a lower bound in a row with `is_lower_bound`
    is_of_offsets: bool = False  # an upper bound in a row with `offset_is_not_count`

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def order_field(self) -> str:
        if self.kind == "shift":
            return f"figures__{self.key}_change_pct"
        return self.key if self.key in OWN_COLUMNS else f"figures__{self.key}"

    def text(self, row: Row) -> str:
        """Return the cell in plain English; "" for what is unknown or does not apply."""
        if self.kind == "shift":
            return shift_text(row, self.key)
        value = row.value(self.key)
        if value is None or value == "":
            return ""
        text = RANKED[row.value("by")](value) if self.kind == "ranked" else TEXTS[self.kind](value)
        if self.is_of_offsets and row.value("offset_is_not_count"):
            return f"≤ {text}"
        return f"≥ {text}" if self.is_bound(row) else text

    def is_bound(self, row: Row) -> bool:
        """Return whether the figure of a row is a lower bound."""
        return self.is_summed and bool(row.value("is_lower_bound"))

    @property
    def css(self) -> str:
        words = ["num"] if self.is_number and self.kind not in ("moment", "budget") else []
        words += ["nowrap"] if self.kind in ("moment", "budget") or self.key in QUEUES else []
        return " ".join([*words, *([f"p{self.priority}"] if self.priority > 1 else [])])


@dataclass(frozen=True, slots=True)
class RowsView:
    """One table of a report: the rows of a grain, their columns, and their order.

    `where` selects some of the rows (conditions on `figures`); such a view has a `name` of its own in the address.
    `words` describe the table.
    """

    grain: str
    label: Text
    columns: tuple[Column, ...]
    sort: str
    ascending: bool = False
    name: str = ""
    where: tuple[tuple[str, Any], ...] = ()
    words: Text = Text()

    @property
    def key(self) -> str:
        return self.name or self.grain

    def column(self, key: str) -> Column | None:
        return next((column for column in self.columns if column.key == key), None)


DAY = Column("window_start_ms", Text("Day"), "moment", "UTC", priority=2)
WEEK = Column("window_start_ms", Text("Week"), "moment", "UTC", priority=2)
HOUR = Column("window_start_ms", Text("Hour"), "moment", priority=2)
CAPACITY = RowsView(
    "group",
    Text("Groups"),
    (
        DAY,
        Column(
            "utilisation_pct",
            Text("Used"),
            "percent",
            note=Text("peak arrival rate divided by the group's capacity"),
        ),
        Column(
            "mu_max",
            Text("Capacity"),
            "rate",
            Text("/s"),
            note=Text("95th percentile of the minutes in which it was behind; –: it was never behind"),
        ),
        Column(
            "lambda_peak", Text("Peak in"), "rate", Text("/s"), note=Text("99th percentile of the minutes")
        ),
        Column("lag_max", Text("Lag max"), unit=Text("msgs"), priority=2),
        Column("queues", Text("Queues"), priority=2),
        Column("clients", Text("Clients"), priority=2),
        Column(
            "consumers_needed",
            Text("Needed"),
            note=Text("clients needed to catch up within the recovery time"),
        ),
        Column("runway_ms", Text("Data loss in"), "optional_duration"),
        Column("skew_offender", Text("Worst queue"), "text", priority=3),
        Column("dead_weight", Text("Unused"), "code"),
    ),
    "utilisation_pct",
)
DAY_OF_MS = 86_400_000
CAPACITY_VIEWS = (
    CAPACITY,
    RowsView(
        "group",
        Text("Retention risk"),
        (
            DAY,
            Column(
                "runway_ms",
                Text("Data loss in"),
                "optional_duration",
                note=Text("until retention reaches the first unread"),
            ),
            Column("lag_max", Text("Lag max"), unit=Text("msgs")),
            Column("utilisation_pct", Text("Used"), "percent"),
            Column("coverage_pct", Text("Coverage"), "percent", priority=2),
        ),
        "runway_ms",
        ascending=True,
        name="retention",
        where=(("figures__runway_ms__lt", DAY_OF_MS),),
        words=Text("Groups that retention could reach within a day, at the rates of the day."),
    ),
    RowsView(
        "group",
        Text("Skew"),
        (
            DAY,
            Column("skew_offender", Text("Worst queue"), "text"),
            Column("skew_share_pct", Text("Worst in"), "percent", note=Text("share of the hours with lag")),
            Column("queues", Text("Queues")),
            Column("lag_max", Text("Lag max"), unit=Text("msgs")),
            Column("coverage_pct", Text("Coverage"), "percent", priority=2),
        ),
        "skew_share_pct",
        name="skew",
        where=(("figures__skew_offender__isnull", False),),
        words=Text(
            "The same queue was worst in at least half of the hours: another key may help, more consumers would not."
        ),
    ),
)
SCORES = (
    DAY,
    Column("backlogs", Text("Backlogs")),
    Column("forecasts", Text("Forecasts")),
    Column("mape_pct", Text("Deviation"), "percent", note=Text("mean of |forecast − actual| / actual")),
    Column(
        "covered_pct", Text("In the band"), "percent", note=Text("share of the bands that held the actual")
    ),
    Column(
        "backlogs_covered_pct", Text("First band"), "percent", note=Text("the first band of each backlog")
    ),
    Column("said_never", Text("Forecast “never”"), priority=2),
    Column("never_wrong", Text("Of these wrong"), priority=2),
    Column(
        "unseen",
        Text("Not judged"),
        priority=2,
        note=Text("their end was not observed: it lies after the day or in a gap"),
    ),
)
TRAFFIC = (
    Column("messages", Text("Messages")),
    Column("size_bytes", Text("Size"), "size"),
    Column("peak_per_s", Text("Peak"), "rate", Text("/s"), note=Text("the busiest minute")),
    Column("body_bytes_mean", Text("Body mean"), "size", priority=2),
    Column("queues", Text("Queues"), priority=2),
    Column(
        "store_delay_p95_ms",
        Text("Store delay p95"),
        "optional_duration",
        priority=2,
        note=Text("by the producer's clock"),
    ),
    Column("resent", Text("Retried"), note=Text("reconsume times above 0")),
    Column(
        "undispatched",
        Text("No queue entry"),
        priority=2,
        note=Text("records that no consume queue points to"),
    ),
    Column("wrong_units", Text("Wrong entries"), priority=3),
)
LETTERS = (
    Column("letters", Text("Dead letters")),
    Column("arrived", Text("Received")),
    Column("peak_per_h", Text("Peak"), unit=Text("/h"), priority=2),
    Column("oldest_ms", Text("Oldest"), "moment"),
    Column("age_p95_ms", Text("Age p95"), "optional_duration", priority=2),
    Column("repeated", Text("Failed again"), note=Text("sent again and failed again")),
    Column("size_bytes", Text("Size"), "size", priority=2),
)
_DISTRIBUTION = (
    Column("time_lag_p50_ms", Text("Time lag p50"), "optional_duration"),
    Column("time_lag_p95_ms", Text("p95"), "optional_duration"),
    Column("time_lag_p99_ms", Text("p99"), "optional_duration"),
    Column("time_lag_max_ms", Text("max"), "optional_duration"),
    Column("lag_max", Text("Lag max"), unit=Text("msgs"), is_of_offsets=True),
    Column("produced", Text("Produced"), unit=Text("msgs"), is_of_offsets=True),
    Column("consumed", Text("Consumed"), unit=Text("msgs"), is_of_offsets=True),
    Column("last_consumed_age_ms", Text("Last consumed"), "optional_duration"),
    Column("drain_by_speed_ms", Text("Drains in"), "optional_duration"),
    Column("skew_cv", Text("Skew"), "rate"),
    Column("time_lag_spread_ms", Text("Time lag spread"), "optional_duration"),
    Column("breach_ms", Text("In breach"), "optional_duration"),
    Column("within_slo_pct", Text("Within SLO"), "percent"),
    Column("burn_rate", Text("Burn"), "rate", "×"),
    Column("coverage_pct", Text("Coverage"), "percent"),
)
# For the HTML download; the page of lag reports has a template of its own.
LAG_VIEWS = (
    RowsView("topic", Text("Groups and topics"), _DISTRIBUTION, "time_lag_max_ms"),
    RowsView("queue", Text("Queues"), _DISTRIBUTION, "time_lag_max_ms"),
)
EPISODES_VIEW = RowsView(
    "episode",
    Text("Episodes"),
    (
        Column("kind", Text("Kind"), "episode"),
        Column("start_ms", Text("Began"), "moment"),
        Column("duration_ms", Text("Lasted"), "optional_duration"),
        Column("peak_time_lag_ms", Text("Peak time lag"), "optional_duration"),
        Column("messages_late", Text("Messages late")),
        Column("lost", Text("Lost"), unit=Text("msgs")),
        Column("cause", Text("First cause"), "code"),
        Column("worst_queue", Text("First on"), "text"),
        Column("forecast_ms", Text("Forecast"), "optional_duration"),
        Column("drained_ms", Text("Drained in"), "optional_duration"),
    ),
    "start_ms",
)
COVERAGE = Column("coverage_pct", Text("Coverage"), "percent", priority=2)
SLO_COLUMNS = (
    Column(
        "good_pct",
        Text("Met"),
        "percent2",
        note=Text("share of the watched time in which no message was late"),
    ),
    Column(
        "budget_left_pct", Text("Budget left"), "budget", note=Text("of the 28 days that end on this day")
    ),
    Column("breach_ms", Text("In breach"), "optional_duration"),
    Column("burn_rate", Text("Burn"), "rate", "×", note=Text("1: just what the target allows")),
    Column("slo_ms", Text("SLO"), "optional_duration"),
    Column("target_pct", Text("Target"), "percent2"),
    Column("within_slo_pct", Text("In time"), "percent2", priority=3, note=Text("share of the messages")),
    Column(
        "budget_days",
        Text("Days computed"),
        note=Text("computed days of the 28; the other days are unknown and use no budget"),
    ),
)
SLO_WORDS = Text("The topic of each group that was worst; SLOs are set on the report of the group.")


def _slo(window: Column, change: Text) -> RowsView:
    last = Column("good_change_points", Text("Difference"), "points", Text("points"), priority=3, note=change)
    return RowsView(
        "slo", Text("SLO"), (window, *SLO_COLUMNS, last, COVERAGE), "budget_left_pct", True, words=SLO_WORDS
    )


def _top(by: str, label: Text, head: Text, note: Text = Text()) -> RowsView:
    columns = (
        Column("rank", Text("Rank")),
        HOUR,
        Column("value", head, "ranked", note=note),
        Column("worst_queue", Text("Worst queue"), "text", priority=2),
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
        Text("The worst 50 of each hour."),
    )


REVIEWS: dict[str, tuple[RowsView, ...]] = {
    "lag_hour": (
        _top("time_lag", Text("Top: time lag"), Text("Time lag max")),
        _top("burn", Text("Top: burn"), Text("Burn"), Text("1: just what the target allows")),
        _top("time_to_loss", Text("Top: data loss"), Text("Data loss in")),
        _top("growth", Text("Top: growth"), Text("Lag grew by")),
    ),
    "lag_day": (
        _slo(DAY, Text("against the day before")),
        RowsView(
            "event",
            Text("Resets and losses"),
            (
                Column("at_ms", Text("When"), "moment"),
                Column("kind", Text("What"), "event"),
                Column("messages", Text("Messages")),
                Column("queues", Text("Queues"), priority=2),
                Column("queue", Text("Most of it on"), "text", priority=2),
                Column("from_offset", Text("From"), priority=3),
                Column("to_offset", Text("To"), priority=3),
                Column("by", Text("By"), "text"),
            ),
            "at_ms",
            words=Text(
                "Moves of committed offsets that are no progress, beside what was done here at that time."
            ),
        ),
        RowsView(
            "dead_weight",
            Text("Unused"),
            (
                DAY,
                Column("why", Text("Why"), "code"),
                Column("since_ms", Text("Offline since"), "moment"),
                Column("still_days", Text("Days without progress")),
                Column("lag", Text("Lag"), unit=Text("msgs")),
                Column("messages", Text("Messages kept"), priority=2),
                Column("last_write_ms", Text("Last write"), "moment", priority=2),
            ),
            "why",
            True,
            words=Text("Groups and topics that appear unused, as of the time of the report."),
        ),
        RowsView(
            "collector",
            Text("Collector"),
            (
                DAY,
                Column(
                    "watched_pct",
                    Text("Watched"),
                    "percent2",
                    note=Text("share of the time in which it answered"),
                ),
                Column("gaps", Text("Gaps")),
                Column("away_ms", Text("Away"), "optional_duration"),
                Column("longest_ms", Text("Longest"), "optional_duration"),
                Column(
                    "coverage_least_pct",
                    Text("Least coverage"),
                    "percent",
                    note=Text("of any row of the day"),
                ),
                Column("damaged_files", Text("Damaged files"), priority=2),
                Column("reason", Text("Last reason"), "text"),
            ),
            "watched_pct",
            True,
            words=Text(
                "How complete the day's data are: the collector itself, and every broker that was silent."
            ),
        ),
    ),
    "lag_week": (
        _slo(WEEK, Text("against the week before")),
        RowsView(
            "trend",
            Text("Week over week"),
            (
                WEEK,
                Column("in", Text("In"), "shift"),
                Column("out", Text("Out"), "shift"),
                Column("time_lag_p95", Text("Time lag p95"), "shift"),
                Column("skew", Text("Skew"), "shift", priority=2),
                Column(
                    "late_message_hours",
                    Text("Cost"),
                    "rate",
                    Text("msg·h"),
                    note=Text("messages times the hours they waited beyond the SLO"),
                ),
                Column("days", Text("Days"), priority=2, note=Text("computed days of the week")),
                COVERAGE,
            ),
            "late_message_hours",
            words=Text(
                "Day by day against the week before; a change is clear when chance explains it in at most one case "
                "in twenty."
            ),
        ),
        RowsView(
            "change",
            Text("Change points"),
            (
                Column("at_ms", Text("From"), "moment"),
                Column("what", Text("What"), "code"),
                Column("before", Text("Before"), "rate"),
                Column("after", Text("After"), "rate"),
                Column("change_pct", Text("Difference"), "points", "%"),
                Column(
                    "p",
                    Text.foreign("p"),
                    "p_value",
                    priority=2,
                    note=Text("probability that chance alone explains it"),
                ),
                Column("days", Text("Days computed"), priority=2),
            ),
            "at_ms",
            words=Text(
                "Days of the week from which a rate (messages a second) or the skew (Gini) has another level."
            ),
        ),
        RowsView(
            "proposal",
            Text("Proposals"),
            (
                WEEK,
                Column("proposal", Text("Proposal"), "code"),
                Column("proposed", Text("Proposed")),
                Column("now", Text("Now")),
                Column("evidence", Text("Evidence"), "code"),
                Column("runway_ms", Text("Data loss in"), "optional_duration"),
                Column("on_days", Text("On days"), note=Text("days that support it")),
                Column("days", Text("Days computed")),
            ),
            "proposal",
            True,
            words=Text("From the capacity report of the week's days. Nothing is changed automatically."),
        ),
    ),
}
LONG_COLUMNS = (
    Column("window_start_ms", Text("Period"), "moment"),
    Column("in_rate", Text("In"), "rate", Text("/s")),
    Column(
        "in_rate_change_pct",
        Text("Difference"),
        "points",
        "%",
        note=Text("of what comes in, against the period before"),
    ),
    Column("produced", Text("Produced"), unit=Text("msgs"), is_summed=True),
    Column("time_lag_p95_ms", Text("Time lag p95"), "optional_duration", note=Text("of the median day")),
    Column("time_lag_max_ms", Text("Time lag max"), "optional_duration", is_summed=True),
    Column(
        "good_pct",
        Text("Met"),
        "percent2",
        note=Text("share of the watched time in which no message was late"),
    ),
    Column("breach_ms", Text("In breach"), "optional_duration", is_summed=True),
    Column("lost", Text("Lost"), unit=Text("msgs"), priority=2, is_summed=True),
    Column(
        "days",
        Text("Days"),
        note=Text("computed days of the period; the others are unknown, not zero"),
    ),
    COVERAGE,
)
LONG_WORDS = Text(
    "Computed from the stored daily rows. ≥: some days of the period are not computed, or it has not ended."
)


def _long(grain: str, label: Text) -> RowsView:
    return RowsView(grain, label, LONG_COLUMNS, "window_start_ms", words=LONG_WORDS)


VIEWS: dict[str, tuple[RowsView, ...]] = {
    **REVIEWS,
    "episodes": (),  # a page of its own
    "capacity": CAPACITY_VIEWS,
    "forecast_scorecard": (
        RowsView("group", Text("Groups"), SCORES, "backlogs"),
        RowsView("cluster", Text("Total"), SCORES, "window_start_ms"),
    ),
    "lag_trend": (
        _long("month", Text("Months")),
        _long("quarter", Text("Quarters")),
        _long("year", Text("Years")),
    ),
    "topic_traffic": (
        RowsView("topic", Text("By day"), (DAY, *TRAFFIC), "messages"),
        RowsView("hour", Text("By hour"), (Column("hour_ms", Text("Hour"), "moment"), *TRAFFIC), "hour_ms"),
    ),
    "dead_letter": (
        RowsView("group", Text("Groups"), (DAY, *LETTERS), "letters"),
        RowsView("cause", Text("Causes"), (DAY, Column("cause", Text("Cause"), "text"), *LETTERS), "letters"),
    ),
}
