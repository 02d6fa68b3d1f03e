"""The list of topics: columns and orders, for page, REST, live rows, files and saved choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from console.lag.rows.queue_row import TopicQueueRow
from console.lists.spec import PER_S, Column, ListSpec
from console.text import Text

TOPICS = ListSpec(
    name="topics",
    key="topic",
    default="topic",
    columns=(
        Column("topic", Text("Topic"), css="", order=("topic",), ascending=True, fields=("topic",)),
        Column(
            "kind",
            Text("Kind"),
            css="p2 muted",
            order=("kind", "message_type"),
            ascending=True,
            fields=("kind", "message_type"),
        ),
        Column(
            "queues",
            Text("Queues"),
            Text("r/w"),
            order=("read_queues", "write_queues"),
            fields=("read_queues", "write_queues"),
        ),
        Column(
            "in_rate", Text("In"), PER_S, order=("in_rate",), fields=("in_rate",), live=("in_rate", "rate")
        ),
        Column("trend", Text("1 h"), css="p2", live=("trend", "trend")),
        Column(
            "out_rate",
            Text("Out"),
            PER_S,
            css="num p2",
            order=("out_rate",),
            fields=("out_rate",),
            live=("out_rate", "rate"),
        ),
        Column(
            "worst_time_lag",
            Text("Worst time lag"),
            order=("worst_time_lag_ms",),
            fields=("worst_time_lag_ms", "worst_status"),
            live=("worst_time_lag_ms", "worst_time_lag"),
        ),
        Column(
            "worst_group",
            Text("of group"),
            css="p3",
            order=("worst_group",),
            ascending=True,
            fields=("worst_group",),
            live=("worst_group", "worst_group"),
        ),
        Column(
            "messages",
            Text("Readable"),
            order=("messages",),
            fields=("messages", "messages_lower_bound"),
            live=("messages", "count"),
        ),
        Column(
            "retained",
            Text("Retained"),
            css="num p2",
            order=("retained_ms",),
            fields=("retained_ms",),
            live=("retained_ms", "optional_duration"),
        ),
        Column(
            "last_write",
            Text("Last write"),
            css="num p2",
            order=("last_write_ms",),
            fields=("last_write_ms",),
            live=("last_write_ms", "ago"),
        ),
        Column("perm", Text("Perm"), css="p2", order=("perm",), ascending=True, fields=("perm",)),
        Column(
            "brokers",
            Text("Brokers"),
            css="p3 muted",
            order=("brokers",),
            ascending=True,
            fields=("brokers",),
        ),
    ),
    file_fields=("partial", "reason", "read_at_ms"),
)

QUEUE_ORDERS: Mapping[str, Callable[[TopicQueueRow], Any]] = {
    "queue": lambda row: (row.broker_name, row.queue_id),
    "min": lambda row: row.min_offset,
    "max": lambda row: row.max_offset,
    "messages": lambda row: row.max_offset - row.min_offset,
    "in_rate": lambda row: row.in_rate,
    "last_write": lambda row: row.last_write_ms,
}
TOPIC_QUEUES = ListSpec(
    name="topic-queues",
    key="queue",
    default="queue",
    columns=(),
    orders=QUEUE_ORDERS,
    file_fields=(
        "broker_name",
        "queue_id",
        "min_offset",
        "max_offset",
        "last_write_ms",
        "in_rate",
        "read_at_ms",
    ),
    searched=("broker_name",),
)

TOPIC_GROUPS = ListSpec(
    name="topic-groups",
    key="group",
    default="-time_lag",
    columns=(),
    orders={
        "group": lambda one: one.group,
        "status": lambda one: one.status,
        "clients": lambda one: one.clients,
        "queues": lambda one: one.queues,
        "lag": lambda one: one.lag,
        "time_lag": lambda one: one.time_lag_ms,
    },
    file_fields=(
        "group",
        "status",
        "partial",
        "clients",
        "queues",
        "lag",
        "lag_lower_bound",
        "time_lag_ms",
    ),
    searched=("group", "status"),
)
