"""The page of one member: what it reports, and its queues as of the last round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.utils.translation import gettext

from console.brokers.mqadmin import is_retry_topic
from console.group.clients.member import ReportedQueue, RunningInfo
from console.lag.models import ClientRow
from console.lag.round.figures import ClientFigures
from console.lag.rows.queue_row import QueueRow


@dataclass(frozen=True, slots=True)
class HeldQueue:
    """A queue that the member holds.

    `reported`: the figures it reports, null when it did not answer; `row`: the group's figures of the last round,
    null when there are none; `other_owner`: another member that the last sweep found to hold it, "" for none.
    """

    topic: str
    broker_name: str
    queue_id: int
    reported: ReportedQueue | None
    row: QueueRow | None
    other_owner: str = ""


@dataclass(frozen=True, slots=True)
class ClientSums:
    """Sums over the queues a member holds; figures that only it can report are null. Lag in messages."""

    queues: int
    cached: int | None
    lag: int | None
    lag_lower_bound: bool
    time_lag_ms: int | None
    time_lag_lower_bound: bool
    ok_per_s: float | None
    failed_per_s: float | None
    reason: str
    unknown_since_ms: int | None = None
    status: str = ""
    partial: bool = False


def held_queues(
    client_id: str, info: RunningInfo | None, client: ClientRow | None, rows: Sequence[QueueRow]
) -> list[HeldQueue]:
    """Return the member's queues from its answer, else from the last sweep; retry topics come last."""
    known = {(row.topic, row.broker_name, row.queue_id): row for row in rows}
    swept = (client.queues or []) if client is not None else []
    held: list[tuple[tuple[str, str, int], ReportedQueue | None]] = (
        [((each.topic, each.broker_name, each.queue_id), each) for each in info.queues]
        if info is not None
        else [((each["topic"], each["broker_name"], each["queue_id"]), None) for each in swept]
    )
    found = []
    for place, reported in held:
        row = known.get(place)
        owner = row.owner if row is not None else ""
        found.append(HeldQueue(*place, reported, row, other_owner=owner if owner != client_id else ""))
    return sorted(
        found,
        key=lambda one: (is_retry_topic(one.topic), one.topic, one.broker_name, one.queue_id),
    )


def sums(
    queues: Sequence[HeldQueue], info: RunningInfo | None, progress: ClientFigures | None = None
) -> ClientSums:
    """Return the sums at the top of the page.

    `progress`: of a member of a broadcasting group, from the row of its group.
    """
    if progress is not None:
        return replace(
            sums(queues, info),
            lag=progress.lag,
            lag_lower_bound=progress.lag_lower_bound,
            time_lag_ms=progress.time_lag_ms,
            time_lag_lower_bound=progress.time_lag_lower_bound,
            reason=progress.reason,
            status=progress.status,
        )
    rows = [one.row for one in queues if one.row is not None]
    lags = [row.lag for row in rows if row.lag is not None]
    ages = [row.time_lag_ms for row in rows if row.time_lag_ms is not None]
    reasons = sorted({row.reason for row in rows if row.lag is None and row.reason})
    return ClientSums(
        queues=len(queues),
        cached=None if info is None else sum(one.cached for one in info.queues),
        lag=sum(lags) if lags or not queues else None,
        lag_lower_bound=bool(lags) and len(lags) < len(queues),
        time_lag_ms=max(ages, default=None if queues else 0),
        time_lag_lower_bound=bool(ages) and len(ages) < len(queues),
        ok_per_s=None if info is None else sum(one.ok_per_s for one in info.topics),
        failed_per_s=None if info is None else sum(one.failed_per_s for one in info.topics),
        reason=gettext("; ").join(reasons) or gettext("the last round did not read these queues"),
    )


def subscriptions(client: ClientRow | None) -> list[tuple[str, str, str]]:
    """Return (topic, expression, TAG or SQL92) of the member's subscriptions, without its retry topic."""
    reported = client.subscription if client is not None else {}
    return [
        (topic, (value or {}).get("expression") or "*", (value or {}).get("type") or "TAG")
        for topic, value in sorted(reported.items())
        if not is_retry_topic(topic)
    ]


def properties(info: RunningInfo) -> list[tuple[str, str, str]]:
    """Return (words, RocketMQ's name, value) of the member's properties; known ones first."""
    words = {
        "PROP_CLIENT_VERSION": gettext("Version"),
        "PROP_CONSUME_TYPE": gettext("Messages received by"),
        "PROP_CONSUMEORDERLY": gettext("Consumes in order"),
        "PROP_THREADPOOL_CORE_SIZE": gettext("Threads"),
        "PROP_CONSUMER_START_TIMESTAMP": gettext("Started"),
        "PROP_NAMESERVER_ADDR": gettext("Name servers"),
    }
    values = {
        "CONSUME_PASSIVELY": gettext("push"),
        "CONSUME_ACTIVELY": gettext("pull"),
        "CONSUME_POP": gettext("POP"),
        "true": gettext("yes"),
        "false": gettext("no"),
    }
    reported = dict(info.properties)
    known = [
        (words[name], name, values.get(reported[name], reported[name])) for name in words if name in reported
    ]
    return [*known, *(("", name, value) for name, value in info.properties if name not in words)]
