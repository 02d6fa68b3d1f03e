"""Settings of the message store: sizes, intervals and limits, under RocketMQ's names.

Source of names and defaults: `store/.../config/MessageStoreConfig.java`. The RocketMQ key of a field is in
its metadata (`key`), so that a broker.conf written for a Java broker can be read; others are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
TIMER_PRECISIONS_MS = (100, 200, 500, 1_000)
# What UPDATE_BROKER_CONFIG (25) may change while the store is open: read from its config at every use.
STORE_HOT_KEYS = frozenset(
    {
        "maxMessageSize",
        "fileReservedTime",
        "deleteWhen",
        "deleteFileBatchMax",
        "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio",
        "diskSpaceWarningLevelRatio",
        "cleanFileForciblyEnable",
        "flushIntervalCommitLog",
        "flushCommitLogLeastPages",
        "flushCommitLogThoroughInterval",
        "flushIntervalConsumeQueue",
        "flushConsumeQueueLeastPages",
        "flushConsumeQueueThoroughInterval",
        "maxFilterMessageSize",
        "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInMemory",
        "maxTransferBytesOnMessageInDisk",
        "maxTransferCountOnMessageInDisk",
        "accessMessageInMemoryMaxRatio",
        "maxMsgsNumBatch",
        "checkCRCOnRecover",
        "timerStopEnqueue",
        "timerStopDequeue",
        "timerCongestNumEachSlot",
    }
)
# The least that each of these can work with; a ratio is a percentage.
LEAST = {
    "max_message_size": 1,
    "file_reserved_time_h": 0,
    "delete_file_batch_max": 1,
    "flush_interval_commit_log_ms": 0,
    "flush_commit_log_least_pages": 0,
    "flush_commit_log_thorough_interval_ms": 0,
    "flush_interval_consume_queue_ms": 0,
    "flush_consume_queue_least_pages": 0,
    "flush_consume_queue_thorough_interval_ms": 0,
    "max_filter_message_size": 20,
    "max_transfer_bytes_on_message_in_memory": 1,
    "max_transfer_count_on_message_in_memory": 1,
    "max_transfer_bytes_on_message_in_disk": 1,
    "max_transfer_count_on_message_in_disk": 1,
    "access_message_in_memory_max_ratio": 0,
    "max_msgs_num_batch": 1,
    "timer_congest_num_each_slot": 0,
    "max_lmq_consume_queue_num": 0,
}
RATIOS = (
    "disk_max_used_space_ratio",
    "disk_space_clean_forcibly_ratio",
    "disk_space_warning_level_ratio",
)
ROLES = ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")
HA_TRANSFER_BYTES_MAX = 2 * 1024 * 1024  # a slave of Apache reads into 4 MiB
UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class MessageStoreConfig:
    """Where the files are, how large they are, when they are flushed and deleted.

    Raises ValueError for a size or mode the store cannot work with.
    """

    store_path_root_dir: Path = field(metadata={"key": "storePathRootDir"})
    # None means <root>/commitlog.
    store_path_commit_log: Path | None = field(default=None, metadata={"key": "storePathCommitLog"})

    mapped_file_size_commit_log: int = field(default=1 << 30, metadata={"key": "mappedFileSizeCommitLog"})
    mapped_file_size_consume_queue: int = field(
        default=300_000 * 20, metadata={"key": "mappedFileSizeConsumeQueue"}
    )
    max_hash_slot_num: int = field(default=5_000_000, metadata={"key": "maxHashSlotNum"})
    max_index_num: int = field(default=20_000_000, metadata={"key": "maxIndexNum"})
    message_index_enable: bool = field(default=True, metadata={"key": "messageIndexEnable"})

    # Compiled twins of what ordinary sends cost most (brokerd/compiled), where set-up built them.
    compiled_sends: bool = field(default=False, metadata={"key": "compiledSends"})

    flush_disk_type: str = field(default="ASYNC_FLUSH", metadata={"key": "flushDiskType"})
    flush_interval_commit_log_ms: int = field(default=500, metadata={"key": "flushIntervalCommitLog"})
    flush_commit_log_least_pages: int = field(default=4, metadata={"key": "flushCommitLogLeastPages"})
    flush_commit_log_thorough_interval_ms: int = field(
        default=10_000, metadata={"key": "flushCommitLogThoroughInterval"}
    )
    flush_interval_consume_queue_ms: int = field(default=1_000, metadata={"key": "flushIntervalConsumeQueue"})
    flush_consume_queue_least_pages: int = field(default=2, metadata={"key": "flushConsumeQueueLeastPages"})
    flush_consume_queue_thorough_interval_ms: int = field(
        default=60_000, metadata={"key": "flushConsumeQueueThoroughInterval"}
    )

    max_message_size: int = field(default=4 * 1024 * 1024, metadata={"key": "maxMessageSize"})
    check_crc_on_recover: bool = field(default=True, metadata={"key": "checkCRCOnRecover"})
    message_delay_level: str = field(default=DEFAULT_DELAY_LEVELS, metadata={"key": "messageDelayLevel"})

    mapped_file_size_timer_log: int = field(
        default=100 * 1024 * 1024, metadata={"key": "mappedFileSizeTimerLog"}
    )
    timer_precision_ms: int = field(default=1_000, metadata={"key": "timerPrecisionMs"})
    timer_roll_window_slot: int = field(default=172_800, metadata={"key": "timerRollWindowSlot"})
    timer_flush_interval_ms: int = field(default=1_000, metadata={"key": "timerFlushIntervalMs"})

    timer_stop_enqueue: bool = field(default=False, metadata={"key": "timerStopEnqueue"})
    timer_stop_dequeue: bool = field(default=False, metadata={"key": "timerStopDequeue"})
    timer_congest_num_each_slot: int = field(default=2**31 - 1, metadata={"key": "timerCongestNumEachSlot"})

    # One pull: entries examined (bytes of consume queue), then bytes and messages handed out.
    max_filter_message_size: int = field(default=16_000, metadata={"key": "maxFilterMessageSize"})
    max_transfer_bytes_on_message_in_memory: int = field(
        default=256 * 1024, metadata={"key": "maxTransferBytesOnMessageInMemory"}
    )
    max_transfer_count_on_message_in_memory: int = field(
        default=32, metadata={"key": "maxTransferCountOnMessageInMemory"}
    )
    max_transfer_bytes_on_message_in_disk: int = field(
        default=64 * 1024, metadata={"key": "maxTransferBytesOnMessageInDisk"}
    )
    max_transfer_count_on_message_in_disk: int = field(
        default=8, metadata={"key": "maxTransferCountOnMessageInDisk"}
    )
    access_message_in_memory_max_ratio: int = field(
        default=40, metadata={"key": "accessMessageInMemoryMaxRatio"}
    )
    max_msgs_num_batch: int = field(default=64, metadata={"key": "maxMsgsNumBatch"})

    file_reserved_time_h: int = field(default=72, metadata={"key": "fileReservedTime"})
    delete_when: str = field(default="04", metadata={"key": "deleteWhen"})
    delete_file_batch_max: int = field(default=10, metadata={"key": "deleteFileBatchMax"})
    disk_max_used_space_ratio: int = field(default=75, metadata={"key": "diskMaxUsedSpaceRatio"})
    disk_space_clean_forcibly_ratio: int = field(default=85, metadata={"key": "diskSpaceCleanForciblyRatio"})
    disk_space_warning_level_ratio: int = field(default=90, metadata={"key": "diskSpaceWarningLevelRatio"})
    clean_file_forcibly_enable: bool = field(default=True, metadata={"key": "cleanFileForciblyEnable"})

    # Light queues, which take both.
    enable_lmq: bool = field(default=False, metadata={"key": "enableLmq"})
    enable_multi_dispatch: bool = field(default=False, metadata={"key": "enableMultiDispatch"})
    max_lmq_consume_queue_num: int = field(default=20_000, metadata={"key": "maxLmqConsumeQueueNum"})

    broker_role: str = field(default="ASYNC_MASTER", metadata={"key": "brokerRole"})
    ha_listen_port: int = field(default=0, metadata={"key": "haListenPort"})  # 0: listenPort + 1
    ha_send_heartbeat_interval_ms: int = field(default=5_000, metadata={"key": "haSendHeartbeatInterval"})
    ha_housekeeping_interval_ms: int = field(default=20_000, metadata={"key": "haHousekeepingInterval"})
    ha_transfer_batch_size: int = field(default=32 * 1024, metadata={"key": "haTransferBatchSize"})
    ha_max_gap_not_in_sync: int = field(default=256 * 1024 * 1024, metadata={"key": "haMaxGapNotInSync"})
    # How long a SYNC_MASTER waits for its slave.
    sync_flush_timeout_ms: int = field(default=5_000, metadata={"key": "syncFlushTimeout"})
    # Instead of what the name server knows of the master.
    ha_master_address: str = field(default="", metadata={"key": "haMasterAddress"})

    # Ours. Blocks and pages of the commit log are made ready this far ahead of the writer, in a thread: an
    # append then costs 0.5 µs instead of a page fault, and a full disk is an error instead of a SIGBUS.
    # 16 MiB is half a second of 100,000 small messages a second.
    prefault_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        if self.flush_disk_type not in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            raise ValueError(f"flushDiskType {self.flush_disk_type!r}: ASYNC_FLUSH or SYNC_FLUSH")
        if self.broker_role not in ROLES:
            raise ValueError(f"brokerRole={self.broker_role}: takes {', '.join(ROLES)}")
        if not 0 <= self.ha_listen_port <= 65_535:
            raise ValueError(f"haListenPort={self.ha_listen_port}: takes a port from 0 to 65535")
        if not 1 <= self.ha_transfer_batch_size <= HA_TRANSFER_BYTES_MAX:
            raise ValueError(
                f"haTransferBatchSize={self.ha_transfer_batch_size}: takes 1 to {HA_TRANSFER_BYTES_MAX}"
            )
        if self.mapped_file_size_commit_log < 4096:
            raise ValueError(f"mappedFileSizeCommitLog {self.mapped_file_size_commit_log} is below 4096")
        if self.mapped_file_size_consume_queue < 20 or self.mapped_file_size_consume_queue % 20:
            raise ValueError(
                f"mappedFileSizeConsumeQueue {self.mapped_file_size_consume_queue} is not a multiple of 20"
            )
        if self.max_hash_slot_num < 1 or self.max_index_num < 2:
            raise ValueError("maxHashSlotNum must be at least 1 and maxIndexNum at least 2")
        if self.prefault_bytes < 4096:
            raise ValueError(f"prefault_bytes {self.prefault_bytes} is below one page of 4096")
        if self.mapped_file_size_timer_log < 4096:
            raise ValueError(f"mappedFileSizeTimerLog {self.mapped_file_size_timer_log} is below 4096")
        if self.timer_precision_ms not in TIMER_PRECISIONS_MS:
            raise ValueError(f"timerPrecisionMs {self.timer_precision_ms}: 100, 200, 500 or 1000")
        if self.timer_flush_interval_ms < 1:
            raise ValueError(f"timerFlushIntervalMs {self.timer_flush_interval_ms} is below 1")
        self._check_numbers()
        parse_delay_levels(self.message_delay_level)
        parse_delete_when(self.delete_when)

    def _check_numbers(self) -> None:
        for key, name in self.keys().items():
            value = getattr(self, name)
            if name in LEAST and value < LEAST[name]:
                raise ValueError(f"{key}={value}: takes {LEAST[name]} or more")
            if name in RATIOS and not 1 <= value <= 100:
                raise ValueError(f"{key}={value}: takes a percentage from 1 to 100")

    @property
    def commit_log_dir(self) -> Path:
        return self.store_path_commit_log or self.store_path_root_dir / "commitlog"

    @property
    def consume_queue_dir(self) -> Path:
        return self.store_path_root_dir / "consumequeue"

    @property
    def index_dir(self) -> Path:
        return self.store_path_root_dir / "index"

    @property
    def is_slave(self) -> bool:
        return self.broker_role == "SLAVE"

    @property
    def has_light_queues(self) -> bool:
        return self.enable_lmq and self.enable_multi_dispatch

    @property
    def is_sync_flush(self) -> bool:
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """Delay of level 1, 2, … in milliseconds."""
        return parse_delay_levels(self.message_delay_level)

    @classmethod
    def keys(cls) -> dict[str, str]:
        """RocketMQ's key of every field that has one → the field's name."""
        return {each.metadata["key"]: each.name for each in fields(cls) if "key" in each.metadata}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """`"1s 5s 1m"` → (1000, 5000, 60000). Raises ValueError (ScheduleMessageService.parseDelayLevel)."""
    levels = []
    for word in text.split():
        if word[-1] not in UNIT_MS or not word[:-1].isdecimal():
            raise ValueError(f"messageDelayLevel {text!r}: {word!r} is not a number with unit s, m, h or d")
        levels.append(int(word[:-1]) * UNIT_MS[word[-1]])
    if not levels:
        raise ValueError("messageDelayLevel is empty")
    return tuple(levels)


def parse_delete_when(text: str) -> frozenset[int]:
    """`"04;16"` → the local hours in which expired files are deleted. Raises ValueError."""
    try:
        hours = frozenset(int(word) for word in text.split(";") if word.strip())
    except ValueError:
        raise ValueError(f"deleteWhen {text!r}: hours separated by ';'") from None
    if not hours or not all(0 <= hour <= 23 for hour in hours):
        raise ValueError(f"deleteWhen {text!r}: hours from 00 to 23")
    return hours
