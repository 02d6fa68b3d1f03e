"""What of each broker belongs to somebody who may look at some names only: sums over their own topics and groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Max, Sum

from console.access.name_scope import NameScope
from console.lag.models import QueueRow, TopicQueueRow


@dataclass(frozen=True, slots=True)
class OwnShare:
    """One broker's part in the topics and groups of a scope. Rates in messages per second, lag in messages.

    A figure is null when no queue told it, and a lower bound when some queues did not. Zero queues of topics: the
    broker holds none of them.
    """

    topics: int = 0
    queues: int = 0
    in_rate: float | None = None
    in_rate_lower_bound: bool = False
    groups: int = 0
    lag: int | None = None
    lag_lower_bound: bool = False
    time_lag_ms: int | None = None
    time_lag_lower_bound: bool = False
    reason: str = "some queues of it were not read"
    unknown_since_ms: int | None = None
    status: str = ""

    @property
    def partial(self) -> bool:
        """What cells read to know that a rate is a lower bound."""
        return self.in_rate_lower_bound


def own_shares(cluster_name: str, scope: NameScope) -> Mapping[str, OwnShare]:
    """Broker name → share; a broker without any queue of the scope has an empty one. Two queries."""
    topics = scope.filter(TopicQueueRow.objects.filter(cluster=cluster_name), "topic")
    written = topics.values("broker_name").annotate(
        topics=Count("topic", distinct=True),
        queues=Count("pk"),
        known=Count("in_rate"),
        in_rate=Sum("in_rate"),
    )
    groups = scope.filter(QueueRow.objects.filter(cluster=cluster_name), "group")
    read = groups.values("broker_name").annotate(
        groups=Count("group", distinct=True),
        read_queues=Count("pk"),
        known=Count("lag"),
        timed=Count("time_lag_ms"),
        lag=Sum("lag"),
        time_lag_ms=Max("time_lag_ms"),
    )
    parts: dict[str, dict[str, object]] = defaultdict(dict)
    for row in written.order_by():
        parts[row["broker_name"]] |= {
            "topics": row["topics"],
            "queues": row["queues"],
            "in_rate": row["in_rate"],
            "in_rate_lower_bound": 0 < row["known"] < row["queues"],
        }
    for one in read.order_by():
        parts[one["broker_name"]] |= {
            "groups": one["groups"],
            "lag": one["lag"],
            "lag_lower_bound": 0 < one["known"] < one["read_queues"],
            "time_lag_ms": one["time_lag_ms"],
            "time_lag_lower_bound": 0 < one["timed"] < one["read_queues"],
        }
    return defaultdict(OwnShare, {name: OwnShare(**values) for name, values in parts.items()})  # type: ignore[arg-type]
