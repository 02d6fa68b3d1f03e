"""The list of groups: columns, orders and filters, for page, REST, live rows, files and saved choices."""

from __future__ import annotations

from django.db.models import Q

from console.lag.rows.broadcast import BROADCASTING
from console.lists.spec import MSGS, PER_S, Choice, Column, Filter, ListSpec
from console.text import Text

GROUPS = ListSpec(
    name="groups",
    key="group",
    default="-attention",
    columns=(
        Column("group", Text("Group"), css="", order=("group",), ascending=True, fields=("group",)),
        Column(
            "status",
            Text("Status"),
            css="nowrap",
            order=("status",),
            ascending=True,
            fields=("status",),
            live=("status", "status"),
        ),
        Column(
            "clients", Text("Clients"), order=("clients",), fields=("clients",), live=("clients", "clients")
        ),
        Column(
            "model",
            Text("Model"),
            css="p3 muted",
            order=("model",),
            ascending=True,
            fields=("model", "consume_mode"),
        ),
        Column(
            "time_lag",
            Text("Time lag"),
            order=("time_lag_ms",),
            fields=("time_lag_ms", "time_lag_lower_bound"),
            live=("time_lag_ms", "time_lag"),
        ),
        Column(
            "lag", Text("Lag"), MSGS, order=("lag",), fields=("lag", "lag_lower_bound"), live=("lag", "count")
        ),
        Column(
            "filtered",
            Text("Filtered"),
            css="num p3",
            order=("filtered_lag",),
            fields=("filtered_lag",),
            live=("filtered_lag", "optional"),
        ),
        Column(
            "in_rate", Text("In"), PER_S, order=("in_rate",), fields=("in_rate",), live=("in_rate", "rate")
        ),
        Column(
            "out_rate",
            Text("Out"),
            PER_S,
            order=("out_rate",),
            fields=("out_rate",),
            live=("out_rate", "rate"),
        ),
        Column("trend", Text("1 h"), css="p2", live=("trend", "trend")),
        Column(
            "drain",
            Text("Drains in"),
            css="num p2",
            order=("drain_never", "drain_ms"),
            fields=("drain_ms", "drain_never"),
            live=("drain_ms", "drain"),
        ),
        Column("dlq", Text("DLQ"), order=("dlq_count",), fields=("dlq_count",), live=("dlq_count", "count")),
    ),
    orders={
        "attention": ("attention", "time_lag_ms", "lag"),
        "loss": ("time_to_loss_ms",),
        "retry": ("retry_lag",),
    },
    filters=(
        Filter(
            "members",
            (
                Choice("online", Text("Online"), Q(clients__gt=0)),
                Choice("offline", Text("No client online"), Q(clients=0)),
            ),
        ),
        Filter(
            "model",
            (
                Choice("clustering", Text("Clustering"), Q(model="CLUSTERING")),
                Choice("broadcasting", Text("Broadcasting"), Q(model=BROADCASTING)),
                Choice("orderly", Text("Orderly"), Q(consume_mode="ORDERLY")),
                Choice("pop", Text("POP"), Q(consume_mode="POP")),
            ),
        ),
        Filter(
            "dead_letters",
            (
                Choice("growing", Text("Dead letters growing"), Q(dlq_in_rate__gt=0)),
                Choice("some", Text("With dead letters"), Q(dlq_count__gt=0)),
            ),
        ),
        # Pauses are stored in another database than the rows: `selectors.group_page` adds the condition.
        Filter("reading", (Choice("paused", Text("Paused")),)),
    ),
    file_fields=("partial", "reason", "read_at_ms"),
)
