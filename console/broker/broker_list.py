"""The list of brokers: its columns, orders and filter, for the page, REST, files and saved choices."""

from __future__ import annotations

from console.lists.spec import MSGS, PER_S, Choice, Column, Filter, ListSpec
from console.text import Text

_NAME = Column(
    "broker",
    Text("Broker"),
    css="",
    order=lambda view: view.name,
    ascending=True,
    fields=("row.broker_name",),
)
_STATE = Column(
    "state",
    Text("State"),
    css="",
    order=lambda view: (view.row.answered, not view.is_drained),
    fields=("state",),
)
_ADDRESS = Column("address", Text("Address"), css="p3", fields=("row.addr",))
_VERSION = Column(
    "version",
    Text("Version"),
    css="p2",
    order=lambda view: view.row.version,
    ascending=True,
    fields=("row.version",),
)
_DISK = Column("disk", Text("Disk"), order=lambda view: view.row.disk_ratio, fields=("row.disk_ratio",))
_FULL_IN = Column(
    "full_in",
    Text("Full in"),
    order=lambda view: 0 if view.filling == "FULL" else view.full_in_ms,
    ascending=True,
    fields=("filling", "full_in_ms"),
)
_READ = Column("read", Text("Read"), css="num p2", fields=("row.read_at_ms",))
_STATES = Filter("state", (Choice("silent", Text("Silent")), Choice("drained", Text("Drained"))))

BROKERS = ListSpec(
    name="brokers",
    key="name",
    default="broker",
    columns=(
        _NAME,
        _STATE,
        _ADDRESS,
        _VERSION,
        Column("in_rate", Text("In"), PER_S, order=lambda view: view.row.in_rate, fields=("row.in_rate",)),
        Column(
            "out_rate", Text("Out"), PER_S, order=lambda view: view.row.out_rate, fields=("row.out_rate",)
        ),
        _DISK,
        _FULL_IN,
        Column(
            "put_p99",
            Text("Put p99"),
            css="num p2",
            order=lambda view: view.put_p99_ms,
            fields=("put_p99_ms",),
        ),
        Column("page_cache", Text("Page cache"), css="p2"),
        Column("queues", Text("Queues"), css="num p2", order=lambda view: view.queues, fields=("queues",)),
        Column(
            "answer",
            Text("Response time"),
            css="num p3",
            order=lambda view: view.row.rpc_ms,
            ascending=True,
            fields=("row.rpc_ms",),
        ),
        _READ,
    ),
    filters=(_STATES,),
    file_fields=("reason",),
)

# For those who may see some names only: nothing of the broker's whole traffic, not even by the order.
OWN_BROKERS = ListSpec(
    name="own-brokers",
    key="name",
    default="broker",
    columns=(
        _NAME,
        _STATE,
        _VERSION,
        Column("own_queues", Text("Your queues"), order=lambda view: view.own.queues, fields=("own.queues",)),
        Column(
            "own_in",
            Text("In your topics"),
            PER_S,
            order=lambda view: view.own.in_rate,
            fields=("own.in_rate",),
        ),
        Column("own_lag", Text("Your lag"), MSGS, order=lambda view: view.own.lag, fields=("own.lag",)),
        Column(
            "own_time_lag",
            Text("Your time lag"),
            order=lambda view: view.own.time_lag_ms,
            fields=("own.time_lag_ms",),
        ),
        _DISK,
        _FULL_IN,
        _READ,
    ),
    filters=(_STATES,),
    file_fields=("reason",),
)

NAME_SERVERS = ListSpec(
    name="name-servers",
    key="addr",
    default="addr",
    columns=(),
    orders={
        "addr": lambda server: server.addr,
        "answered": lambda server: server.answered,
        "since": lambda server: server.since_ms,
        "topics": lambda server: server.topic_count,
    },
    searched=("addr",),
)
