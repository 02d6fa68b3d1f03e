"""Figures of groups, topics and brokers in one round: made, compared, stored and published as the same values.

The fields of `GroupFigures`, `TopicFigures` and `BrokerFigures` are the columns of `GroupRow`, `TopicRow` and
`BrokerRow` (a test compares them), which document them: a new figure is a field here and a column there. Null means
unknown, never zero. The defaults are those of a group without queues, a topic without messages or readers.
"""

from typing import NamedTuple

from msgspec import Struct

from console.text import Text
from spark.lag.local_time import MINUTE_MS
from spark.lag.round.status import LagStatus

NOTHING = Text()
TREND_POINTS = 60


class Trend(NamedTuple):
    """Hold the points of the last hour, one a minute, the last for `trend_minute` (epoch minutes); gaps are null."""

    trend: tuple[float | None, ...] = ()
    trend_minute: int = 0

    def after(self, value: float | None, now_ms: int) -> "Trend":
        """Return the points with the value of this minute."""
        minute = now_ms // MINUTE_MS
        missing = min(max(minute - self.trend_minute, 0), TREND_POINTS) if self.trend else 0
        if missing == 0:
            return Trend((*self.trend[:-1], value), minute)
        points = (*self.trend, *[None] * (missing - 1), value)
        return Trend(points[-TREND_POINTS:], minute)


class GroupTopic(Struct, frozen=True, kw_only=True):
    """One topic of a group. `never_committed_lag`: messages in queues on which it never committed, in no lag.

    The last five are null where the brokers do not have the group's offsets.
    """

    topic: str
    status: str
    queues: int = 0
    partial: bool = False
    lag: int | None = None
    lag_lower_bound: bool = False
    never_committed_lag: int = 0
    offset_is_not_count: bool = False
    time_lag_ms: int | None = None
    time_lag_lower_bound: bool = False
    in_rate: float | None = None
    out_rate: float | None = None
    stall_ms: int | None = None
    time_to_loss_ms: int | None = None
    time_to_loss_never: bool | None = None


class ClientFigures(Struct, frozen=True, kw_only=True):
    """How far one client of a broadcasting group is behind, as it reported at `read_at_ms`."""

    client_id: str
    status: str
    lag: int | None
    lag_lower_bound: bool
    time_lag_ms: int | None
    time_lag_lower_bound: bool
    since_ms: int
    reason: Text
    worst_queue: str
    read_at_ms: int


class Summed(Struct, frozen=True, kw_only=True):
    """Sums and worst cases of a group's queues that its row takes over unchanged."""

    lag: int | None = None
    time_lag_ms: int | None = None
    in_rate: float | None = None
    out_rate: float | None = None
    drain_ms: int | None = None
    drain_never: bool = False
    drain_low_ms: int | None = None
    drain_high_ms: int | None = None
    drain_window_ms: int | None = None
    drain_known_ms: int | None = None
    speed: float | None = None
    queueing_ms: int | None = None
    stall_ms: int | None = None
    lost: int | None = None
    time_to_loss_ms: int | None = None
    time_to_loss_never: bool = False
    time_to_loss_lower_bound: bool = False
    time_to_loss_queue: str = ""
    skew_gini: float | None = None
    skew_max_over_mean: float | None = None
    effective_queues: float | None = None
    retry_lag: int | None = None
    retry_time_lag_ms: int | None = None
    worst_queue: str = ""


class Sums(Summed, frozen=True, kw_only=True):
    """Everything that the queues of a group add up to, before members and the round before are considered."""

    status: LagStatus = LagStatus.NEVER_COMMITTED
    partial: bool = False
    time_lag_lower_bound: bool = False
    since_ms: int = 0
    reason: Text = NOTHING
    unknown: int = 0
    unknown_reason: Text = NOTHING
    queues: int = 0
    in_flight: int | None = None
    available: int | None = None
    offset_is_not_count: bool = False
    topics: tuple[GroupTopic, ...] = ()
    retry_topics: tuple[str, ...] = ()
    read_at_ms: int | None = None
    last_commit_ms: int | None = None


class ClientSums(Summed, frozen=True, kw_only=True):
    """What the clients of a broadcasting group add up to: columns of its row."""

    status: str
    partial: bool
    lag_lower_bound: bool
    time_lag_lower_bound: bool
    since_ms: int
    reason: Text
    clients_told: int | None
    client_progress: tuple[ClientFigures, ...]
    topics: tuple[GroupTopic, ...]
    read_at_ms: int
    attention: int


class GroupFigures(Summed, frozen=True, kw_only=True):
    """One consumer group in one round."""

    group: str
    status: str
    partial: bool = False
    offset_is_not_count: bool = False
    model: str = ""
    consume_mode: str = ""
    clients: int | None = None
    offline_since_ms: int | None = None
    topics: tuple[GroupTopic, ...] = ()
    lag_lower_bound: bool = False
    time_lag_lower_bound: bool = False
    in_flight: int | None = None
    in_flight_at_ms: int | None = None
    available: int | None = None
    consumers_needed: int | None = None
    filter_ratio: float | None = None
    filter_ratio_low: float | None = None
    filter_ratio_high: float | None = None
    filter_sampled: int | None = None
    filter_sampled_at_ms: int | None = None
    filtered_lag: int | None = None
    dlq_count: int | None = None
    dlq_in_rate: float | None = None
    retry_in_rate: float | None = None
    coverage_pct: float | None = None
    clients_told: int | None = None
    client_progress: tuple[ClientFigures, ...] = ()
    trend: tuple[float | None, ...] = ()
    trend_minute: int = 0
    reason: Text = NOTHING
    unknown_since_ms: int | None = None
    since_ms: int = 0
    known_lag: int | None = None
    known_at_ms: int | None = None
    is_system: bool = False
    attention: int = 0
    read_at_ms: int = 0


class Stored(NamedTuple):
    """What the queues of a topic hold together."""

    in_rate: float | None = None
    messages: int | None = None
    retained_ms: int | None = None
    last_write_ms: int | None = None
    read_at_ms: int = 0


class Consumed(NamedTuple):
    """What the groups that read a topic amount to."""

    out_rate: float | None = None
    readers: int = 0
    worst_group: str = ""
    worst_status: str = ""
    worst_time_lag_ms: int | None = None
    time_to_loss_ms: int | None = None
    time_to_loss_group: str = ""


class TopicFigures(Struct, frozen=True, kw_only=True):
    """One topic in one round."""

    topic: str
    kind: str
    message_type: str = ""
    read_queues: int = 0
    write_queues: int = 0
    perm: int = 0
    brokers: tuple[str, ...] = ()
    in_rate: float | None = None
    out_rate: float | None = None
    messages: int | None = None
    messages_lower_bound: bool = False
    offset_is_not_count: bool = False
    offset_kind: str = ""
    readers: int | None = None
    worst_group: str = ""
    worst_status: str = ""
    worst_time_lag_ms: int | None = None
    retained_ms: int | None = None
    time_to_loss_ms: int | None = None
    time_to_loss_group: str = ""
    last_write_ms: int | None = None
    trend: tuple[float | None, ...] = ()
    trend_minute: int = 0
    partial: bool = False
    reason: Text = NOTHING
    read_at_ms: int = 0


class BrokerKey(NamedTuple):
    """Identify an address of a broker."""

    broker_name: str
    broker_id: int


class BrokerFigures(Struct, frozen=True, kw_only=True):
    """One broker address in one round."""

    broker_name: str
    broker_id: int
    addr: str
    version: str = ""
    in_rate: float | None = None
    out_rate: float | None = None
    disk_ratio: float | None = None
    answered: bool = False
    since_ms: int = 0
    reason: Text = NOTHING
    rpc_ms: int | None = None
    clock_offset_ms: int | None = None
    capabilities: tuple[str, ...] = ()
    runtime: dict[str, str] = {}
    boot_ms: int | None = None
    read_at_ms: int = 0
