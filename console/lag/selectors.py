"""What pages and REST read about collection, brokers and the past. No function here asks a broker."""

from collections.abc import Mapping, Sequence
from typing import Any

from console.cluster.models import Cluster
from console.lag import past
from console.lag.models import BrokerRow, Round
from console.lag.past import OffsetThen
from console.mqadmin import MessageQueue

DEFAULT_INTERVAL_MS = 5_000


def broker_rows(cluster_name: str) -> Sequence[BrokerRow]:
    """Return every broker known to the cluster, silent ones included, by name and id."""
    return list(BrokerRow.objects.filter(cluster=cluster_name).order_by("broker_name", "broker_id"))


def silent_brokers(cluster_name: str) -> Sequence[BrokerRow]:
    """Return the brokers that did not answer the last round, with `since_ms` and `reason`."""
    rows = BrokerRow.objects.filter(cluster=cluster_name, answered=False)
    return list(rows.order_by("broker_name", "broker_id"))


def last_round(cluster_name: str) -> Round | None:
    """Return the newest collection round, or None before the first."""
    return Round.objects.filter(cluster=cluster_name).order_by("-number").first()


def rounds(cluster_name: str, *, limit: int = 120) -> Sequence[Round]:
    """Return the newest rounds, newest first, for the collector's health."""
    return list(Round.objects.filter(cluster=cluster_name).order_by("-number")[:limit])


def collect_interval_ms(cluster_name: str) -> int:
    """Return the collector's period, for charts and reports to state it."""
    found = Cluster.objects.filter(name=cluster_name).values_list("poll_interval_s", flat=True).first()
    return DEFAULT_INTERVAL_MS if found is None else found * 1000


def history_files(cluster_name: str, from_ms: int, to_ms: int) -> list[str]:
    """Return the history files that overlap [from_ms, to_ms): paths or URLs for
    `spark.lag.chunk.load_window`.
    """
    return past.history_paths(cluster_name, from_ms, to_ms)


def lag_history(cluster_name: str, group: str, from_ms: int, to_ms: int, points: int = 600) -> dict[str, Any]:
    """Return a group's lag and time lag over time for a chart; see `console.lag.past.lag_series`."""
    interval_ms = collect_interval_ms(cluster_name)
    return past.lag_series(cluster_name, group, from_ms, to_ms, points, interval_ms=interval_ms)


def committed_offsets_at(cluster_name: str, group: str, at_ms: int) -> Mapping[MessageQueue, int]:
    """Return the group's committed offsets as they were at a moment; queues of which that is unknown are left
    out.
    """
    return {queue: then.offset for queue, then in committed_offsets_then(cluster_name, group, at_ms).items()}


def committed_offsets_then(cluster_name: str, group: str, at_ms: int) -> Mapping[MessageQueue, OffsetThen]:
    """Return the same with the time each was read, which is at or before `at_ms`."""
    interval_ms = collect_interval_ms(cluster_name)
    return past.offsets_at(cluster_name, group, at_ms, interval_ms=interval_ms)
