"""Bodies about a broker as a whole: delays, timers, statistics, replication (protocol section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.remoting.body.json_body import JsonBody


@dataclass(slots=True)
class DelayOffsetWrapper(JsonBody):
    """45 and config/delayOffset.json: delay level (from 1) → offset of the next message to deliver.

    A level that never delivered anything may be missing (4.x): that is not "nothing waits".
    """

    offset_table: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class TimerMetric(JsonBody):
    """How many messages of one topic wait in the timer wheel, and when that changed last (ms)."""

    count: int = 0
    time_stamp: int = 0


@dataclass(slots=True)
class TimerMetricsWrapper(JsonBody):
    """61 (5.x): by real topic; RocketMQ's own topics are among them."""

    timing_count: dict[str, TimerMetric] = field(default_factory=dict)


@dataclass(slots=True)
class KVTable(JsonBody):
    """28, 219."""

    table: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class BrokerStatsItem(JsonBody):
    """A statistic over a minute, an hour or a day: average per call, sum, per second."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


@dataclass(slots=True)
class BrokerStatsData(JsonBody):
    """315."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


@dataclass(slots=True)
class HAConnectionInfo(JsonBody):
    """A slave as its master sees it: `diff` bytes behind, `slave_ack_offset` of the commit log."""

    addr: str = ""
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


@dataclass(slots=True)
class HAClientRuntimeInfo(JsonBody):
    """A slave's connection to its master: the end of its log, when it read and wrote (ms)."""

    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    activated: bool = False


@dataclass(slots=True)
class HARuntimeInfo(JsonBody):
    """907: how far the slaves of a master are, or the slave itself."""

    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionInfo] = field(default_factory=list)
    ha_client_runtime_info: HAClientRuntimeInfo = field(default_factory=HAClientRuntimeInfo)


@dataclass(slots=True)
class EpochEntry(JsonBody):
    """Of a controller-managed broker: the part of the log that one master wrote."""

    epoch: int = 0
    start_offset: int = 0
    end_offset: int = 0


@dataclass(slots=True)
class EpochEntryCache(JsonBody):
    """1007: the epochs of a broker, oldest first."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: int = 0
    epoch_list: list[EpochEntry] = field(default_factory=list)
    max_offset: int = 0


@dataclass(slots=True)
class ReplicaIdentity(JsonBody):
    """A replica by the id that the controller gave it."""

    broker_name: str = ""
    broker_id: int = 0
    broker_address: str = ""
    alive: bool | None = None


@dataclass(slots=True)
class ReplicasInfo(JsonBody):
    """The master of one broker name and its replicas, as the controller has them; no master: null."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: int = 0
    sync_state_set_epoch: int = 0
    in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)
    not_in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)


@dataclass(slots=True)
class BrokerReplicasInfo(JsonBody):
    """1006: by broker name."""

    replicas_info_table: dict[str, ReplicasInfo] = field(default_factory=dict)
