"""The smaller plots of a group's report, from its hourly rows.

Lag against catch-up speed, the number of queues that share the backlog, and retries and dead letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from console.report import selectors
from spark.lag.local_time import HOUR_MS

TOPICS_SHOWN = 6  # of the small multiples: the topics with the longest waits
COLUMNS = (
    "topic", "window_start_ms", "time_lag_last_ms", "time_lag_max_ms", "catch_up_speed", "effective_queues", "queues",
    "consumed", "retry_in", "dead_letter_in",
)  # fmt: skip
Row = dict[str, Any]


def plots(cluster: str, group: str, from_ms: int, to_ms: int) -> dict[str, Any]:
    """Return {"phase", "skew", "ways"}, each None if there is nothing to draw."""
    found = selectors.group_hours(cluster, group, from_ms, to_ms)
    rows = list(found.order_by("window_start_ms", "topic").values(*COLUMNS))
    return {"phase": phase(rows), "skew": skew(rows), "ways": ways(rows)}


def phase(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return time lag at the end of each hour against catch-up speed, for hours with waiting messages.

    Lists of one length, in the order of time: "times", "topics", "lag_ms", "speed".
    """
    known = [
        row
        for row in rows
        if row["time_lag_max_ms"]
        and row["catch_up_speed"] is not None
        and row["time_lag_last_ms"] is not None
    ]
    if not known:
        return None
    return {
        "times": [row["window_start_ms"] for row in known],
        "topics": [row["topic"] for row in known],
        "lag_ms": [row["time_lag_last_ms"] for row in known],
        "speed": [row["catch_up_speed"] for row in known],
    }


def skew(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return over how many queues the backlog of each hour was spread, and of how many.

    {"times", "topics": [{"topic", "effective", "queues"}], "total"}; None if nothing waited or was observed.
    Topics with one queue have no skew.
    """
    own: dict[str, dict[int, Row]] = {}
    for row in rows:
        if row["queues"] > 1:
            own.setdefault(row["topic"], {})[row["window_start_ms"]] = row
    waited = {
        topic: max((row["time_lag_max_ms"] or 0 for row in hours.values()), default=0)
        for topic, hours in own.items()
        if any(row["effective_queues"] is not None for row in hours.values())
    }
    if not waited:
        return None
    shown = sorted(waited, key=lambda topic: (-waited[topic], topic))[:TOPICS_SHOWN]
    first, last = min(min(own[topic]) for topic in shown), max(max(own[topic]) for topic in shown)
    times = list(range(first, last + HOUR_MS, HOUR_MS))
    return {
        "times": times,
        "topics": [
            {
                "topic": topic,
                "effective": [_of(own[topic].get(at), "effective_queues") for at in times],
                "queues": [_of(own[topic].get(at), "queues") for at in times],
            }
            for topic in shown
        ],
        "total": len(waited),
    }


def _of(row: Row | None, name: str) -> Any:
    return None if row is None else row[name]


def ways(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return {"consumed", "retried", "dead", "hours"}; None if retries were not collected.

    Messages confirmed on the group's topics, sent back for a retry (each try counts), and ended as dead letters;
    "hours" is the number of observed hours. Every topic's row of an hour has the whole group's retries and dead
    letters, so an hour counts them once.
    """
    retried: dict[int, int] = {}
    dead: dict[int, int] = {}
    for row in rows:
        at = row["window_start_ms"]
        if row["retry_in"] is not None:
            retried[at] = max(retried.get(at, 0), row["retry_in"])
        if row["dead_letter_in"] is not None:
            dead[at] = max(dead.get(at, 0), row["dead_letter_in"])
    if not retried:
        return None
    return {
        "consumed": sum(row["consumed"] for row in rows if row["window_start_ms"] in retried),
        "retried": sum(retried.values()),
        "dead": sum(dead[at] for at in dead if at in retried) if dead else None,
        "hours": len(retried),
    }
