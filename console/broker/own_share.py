"""A reader's own part of each broker: sums over the topics and groups they may see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from console.access.name_scope import NameScope
from console.lag.rows import queues
from console.text import Text


@dataclass(frozen=True, slots=True)
class OwnShare:
    """One broker's part in the topics and groups of a scope.

    Rates are in messages per second, lag in messages. A figure is null when no queue reported it, and a lower bound
    when some queues did not. Zero queues of topics: the broker holds none of them.
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
    reason: Text = Text("some of its queues were not read")
    unknown_since_ms: int | None = None
    status: str = ""

    @property
    def partial(self) -> bool:
        """Whether the rate is a lower bound; read by cells."""
        return self.in_rate_lower_bound


def own_shares(cluster_name: str, scope: NameScope) -> Mapping[str, OwnShare]:
    """Return broker name → share; a broker without queues of the scope has an empty one. Two queries."""
    parts: dict[str, dict[str, object]] = defaultdict(dict)
    for broker_name, own in _topics(cluster_name, scope).items():
        rates = [rate for _, rate in own if rate is not None]
        parts[broker_name] |= {
            "topics": len({topic for topic, _ in own}),
            "queues": len(own),
            "in_rate": sum(rates) if rates else None,
            "in_rate_lower_bound": 0 < len(rates) < len(own),
        }
    sums: dict[str, queues.Behind] = defaultdict(queues.Behind)
    groups: dict[str, set[str]] = defaultdict(set)
    covers = cache(scope.covers)
    for broker_name, group, lag, time_lag_ms in queues.every(
        cluster_name, "broker_name", "group", "lag", "time_lag_ms"
    ):
        if covers(group):
            sums[broker_name].add(lag, time_lag_ms)
            groups[broker_name].add(group)
    for broker_name, one in sums.items():
        parts[broker_name] |= {
            "groups": len(groups[broker_name]),
            "lag": one.lag,
            "lag_lower_bound": one.lag_lower_bound,
            "time_lag_ms": one.time_lag_ms,
            "time_lag_lower_bound": one.time_lag_lower_bound,
        }
    return defaultdict(OwnShare, {name: OwnShare(**values) for name, values in parts.items()})  # type: ignore[arg-type]


def _topics(cluster_name: str, scope: NameScope) -> Mapping[str, list[tuple[str, float | None]]]:
    """Return broker name → (topic, rate) of each of its queues in the scope."""
    found: dict[str, list[tuple[str, float | None]]] = defaultdict(list)
    covers = cache(scope.covers)
    for broker_name, topic, rate in queues.every_topic_queue(cluster_name, "broker_name", "topic", "in_rate"):
        if covers(topic):
            found[broker_name].append((topic, rate))
    return found
