"""Rows as a collection round would leave them, for tests of pages: one healthy group, one behind, one
unknown.
"""

from __future__ import annotations

from typing import Any

from console.cluster.models import Cluster
from console.lag.models import BrokerRow, ClientRow, GroupRow, Round, TopicRow
from console.lag.rows.queue_row import QueueRow, TopicQueueRow
from console.text import Text
from tests.support import sample_queues

NOW_MS = 1_773_288_374_000  # 2026-03-12 04:06:14 UTC
CLUSTER = "local"
SILENT_SINCE_MS = NOW_MS - 213_000


def cluster(name: str = CLUSTER, **fields: Any) -> Cluster:
    return Cluster.objects.create(
        name=name, namesrv_addrs=fields.pop("namesrv_addrs", "127.0.0.1:1"), **fields
    )


def group_row(group: str, **fields: Any) -> GroupRow:
    made = _group(group, **fields)
    made.save(force_insert=True)
    return made


def _group(group: str, **fields: Any) -> GroupRow:
    values: dict[str, Any] = {
        "cluster": CLUSTER,
        "group": group,
        "status": "OK",
        "model": "CLUSTERING",
        "consume_mode": "CONCURRENTLY",
        "clients": 2,
        "topics": [
            {
                "topic": "orders",
                "queues": 2,
                "lag": 9,
                "lag_lower_bound": False,
                "time_lag_ms": 600,
                "status": "OK",
            }
        ],
        "lag": 9,
        "time_lag_ms": 600,
        "in_rate": 14.2,
        "out_rate": 14.2,
        "drain_ms": 800,
        "dlq_count": 0,
        "retry_lag": 0,
        "trend": [1, 2, None, 4],
        "read_at_ms": NOW_MS - 2_000,
    }
    return GroupRow(**{**values, **fields})


def queue_row(group: str, queue_id: int, *, cluster: str = CLUSTER, **fields: Any) -> QueueRow:
    row = _queue(group, queue_id, **fields)
    sample_queues.save(cluster, row)
    return row


def _queue(group: str, queue_id: int, **fields: Any) -> QueueRow:
    values: dict[str, Any] = {
        "group": group,
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": queue_id,
        "min_offset": 100,
        "max_offset": 2_000,
        "committed_offset": 1_995,
        "lag": 5,
        "time_lag_ms": 600,
        "status": "OK",
        "owner": "10.0.0.1@7",
        "last_commit_ms": NOW_MS - 4_500,
        "read_at_ms": NOW_MS - 2_000,
    }
    return QueueRow(**{**values, **fields})


def client_row(group: str, client_id: str, **fields: Any) -> ClientRow:
    values: dict[str, Any] = {
        "cluster": CLUSTER,
        "address": f"{client_id.partition('@')[0]}:5000",
        "language": "PYTHON",
        "version": "V5_3_3",
        "queues": [{"topic": "orders", "broker_name": "broker-a", "queue_id": 0}],
        "subscription": {"orders": {"expression": "*"}},
        "read_at_ms": NOW_MS - 20_000,
    }
    return ClientRow.objects.create(group=group, client_id=client_id, **{**values, **fields})


def topic_row(topic: str, **fields: Any) -> TopicRow:
    values: dict[str, Any] = {
        "cluster": CLUSTER,
        "topic": topic,
        "kind": "NORMAL",
        "read_queues": 2,
        "write_queues": 2,
        "perm": 6,
        "brokers": ["broker-a"],
        "in_rate": 14.2,
        "out_rate": 28.4,
        "readers": 2,
        "messages": 3_800,
        "worst_group": "analytics",
        "worst_time_lag_ms": 4_320_000,
        "retained_ms": 7_200_000,
        "last_write_ms": NOW_MS - 100,
        "trend": [3, 4, 5],
        "read_at_ms": NOW_MS - 2_000,
    }
    return TopicRow.objects.create(**{**values, **fields})


def sample() -> Cluster:
    """A small cluster: topics orders and %DLQ%notifier; groups billing, analytics, notifier, fraud;
    one silent
    broker."""
    made = cluster(is_embedded=True)
    _brokers()
    _topics()
    _groups()
    sample_queues.save(
        CLUSTER, *(_queue(name, queue_id) for name in ("billing", "analytics") for queue_id in (0, 1))
    )
    client_row("billing", "10.0.0.1@7")
    return made


def _brokers() -> None:
    """Make a round in which broker-a answers and broker-b does not."""
    Round.objects.create(
        cluster=CLUSTER,
        number=41_208,
        started_at_ms=NOW_MS - 2_210,
        duration_ms=210,
        rpcs=24,
        brokers_answered=1,
        brokers_total=2,
    )
    BrokerRow.objects.create(
        cluster=CLUSTER,
        broker_name="broker-a",
        addr="127.0.0.1:10911",
        version="brokerd 0.1",
        in_rate=14.2,
        out_rate=28.4,
        disk_ratio=0.61,
        answered=True,
        since_ms=NOW_MS - 9_000_000,
        rpc_ms=3,
        runtime={"putTps": "14.2"},
        read_at_ms=NOW_MS - 2_000,
    )
    BrokerRow.objects.create(
        cluster=CLUSTER,
        broker_name="broker-b",
        addr="127.0.0.1:10921",
        answered=False,
        since_ms=SILENT_SINCE_MS,
        reason=Text("connection refused"),
        read_at_ms=SILENT_SINCE_MS,
    )


def _topics() -> None:
    topic_row("orders")
    topic_row("%DLQ%notifier", kind="DLQ", messages=312, in_rate=0.0, worst_group="", worst_time_lag_ms=None)
    queues = (
        TopicQueueRow(
            topic="orders",
            broker_name="broker-a",
            queue_id=queue_id,
            min_offset=100,
            max_offset=2_000,
            last_write_ms=NOW_MS - 100,
            in_rate=rate,
            read_at_ms=NOW_MS - 2_000,
        )
        for queue_id, rate in ((0, 13.2), (1, 1.0))
    )
    sample_queues.save(CLUSTER, *queues)


def _groups() -> None:
    """Healthy, behind, with dead letters, unknown, and one of RocketMQ's own."""
    behind = _group(
        "analytics",
        status="FALLING_BEHIND",
        lag=2_931_402,
        time_lag_ms=4_320_000,
        in_rate=1_277.0,
        out_rate=1_094.0,
        drain_ms=None,
        drain_never=True,
        worst_queue="orders · broker-a · 1",
        attention=50,
        since_ms=NOW_MS - 60_000,
    )
    unknown = ("lag", "time_lag_ms", "in_rate", "out_rate", "drain_ms", "dlq_count", "retry_lag", "clients")
    fraud = _group(
        "fraud",
        status="UNKNOWN",
        reason=Text("broker-b: connection refused"),
        unknown_since_ms=SILENT_SINCE_MS,
        attention=40,
        **dict.fromkeys(unknown),
    )
    letters, own = _group("notifier", dlq_count=312, retry_lag=7), _group("TOOLS_CONSUMER", is_system=True)
    GroupRow.objects.bulk_create([_group("billing"), behind, letters, fraud, own])
