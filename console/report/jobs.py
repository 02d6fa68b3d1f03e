"""The reports, and the time that a row of each covers: shared by rules and models."""

from console.text import Text
from spark.lag.local_time import DAY_MS, HOUR_MS, UTC, period_end

JOBS = {
    "lag_hour": Text("Hourly lag"),
    "lag_day": Text("Daily lag"),
    "lag_week": Text("Weekly lag"),
    "episodes": Text("Episodes"),
    "capacity": Text("Capacity"),
    "topic_traffic": Text("Topic traffic"),
    "dead_letter": Text("Dead letters"),
    "forecast_scorecard": Text("Forecast scorecard"),
    "lag_trend": Text("Months, quarters and years"),
}
# What each is about, as a sentence.
WORDS = {
    "lag_hour": Text("Lag of every group, topic and queue per UTC hour."),
    "lag_day": Text("Lag of every group, topic and queue per day of the report's zone."),
    "lag_week": Text(
        "Lag of every group, topic and queue per week, from Monday to Monday of the report's zone."
    ),
    "episodes": Text("When a group was late, stalled or lost messages, why, and how it ended."),
    "capacity": Text(
        "What each group can process, what it has to process, and how much room retention leaves."
    ),
    "topic_traffic": Text(
        "What was written to each topic, message by message, from the brokers’ store files."
    ),
    "dead_letter": Text("Dead letters from the brokers’ store files: how many, why, how old."),
    "forecast_scorecard": Text("How accurate the drain forecasts were."),
    "lag_trend": Text("How each group performed over months, quarters and years of the business time zone."),
}
# Reports whose rows are `LagRow`; those of the others are `ReportRow`.
LAG_JOBS = ("lag_hour", "lag_day", "lag_week")
# Rows cover months, quarters and years, computed from daily rows: a run recomputes those of its days.
TREND_JOB = "lag_trend"
# Reports made from the stores of brokers, not from lag history.
STORE_JOBS = ("topic_traffic", "dead_letter")
# Reports whose days must be the same: the weekly one and the trend are computed from rows of the others.
SAME_DAYS = ("lag_day", "lag_week", "capacity", "lag_trend")
# The usual time that a row covers: an hour of UTC, a day of the report's zone, a week from Monday. A run
# replaces whole periods.
PERIODS_MS = {**dict.fromkeys(JOBS, DAY_MS), "lag_hour": HOUR_MS, "lag_week": 7 * DAY_MS}


def is_so_far(job: str, start_ms: int, end_ms: int, zone: str = UTC) -> bool:
    """Return whether the window of a row was not over when it was computed."""
    return end_ms < period_end(start_ms, PERIODS_MS[job], zone)
