"""Results of the store; status names are RocketMQ's.

Source: `PutMessageStatus.java`, `GetMessageStatus.java`, `BoundaryType.java`, reference semantics §2.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class PutMessageStatus(StrEnum):
    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    WHEEL_TIMER_FLOW_CONTROL = "WHEEL_TIMER_FLOW_CONTROL"
    WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


class GetMessageStatus(StrEnum):
    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class BoundaryType(StrEnum):
    """Which offset a time means: LOWER = the smallest with store time ≥ t, UPPER = the largest with ≤ t."""

    LOWER = "lower"
    UPPER = "upper"


# (body, encoded properties, flag): a plain tuple, as one is made per message of a batch.
BatchMessage = tuple[bytes | memoryview, bytes, int]


class PutResult(NamedTuple):
    """A stored message: a tuple, as one is made per message (a frozen dataclass costs 0.5 µs more)."""

    commit_log_offset: int
    queue_offset: int
    store_timestamp_ms: int
    size_bytes: int

    @property
    def end_offset(self) -> int:
        """The commit log offset after the record: durable once flushed_offset reaches it."""
        return self.commit_log_offset + self.size_bytes


@dataclass(frozen=True, slots=True)
class BatchResult:
    """A stored batch: consecutive records, and queue offsets from `queue_offset` on."""

    queue_offset: int
    commit_log_offsets: list[int]
    store_timestamp_ms: int
    size_bytes: int


@dataclass(slots=True)
class GetMessageResult:
    """The answer to one pull: records as they are stored, one memoryview of the mapped file each."""

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    views: list[memoryview] = field(default_factory=list)
    message_count: int = 0
    size_bytes: int = 0
    suggest_pulling_from_slave: bool = False


@dataclass(frozen=True, slots=True)
class QueryMessageResult:
    """Commit log offsets found by key, ascending. May hold hash collisions: re-check topic and key."""

    commit_log_offsets: list[int]
    index_last_update_timestamp_ms: int
    index_last_update_physic_offset: int


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening the store found and did."""

    clean_shutdown: bool
    commit_log_min_offset: int
    commit_log_max_offset: int
    scan_start_offset: int
    records_scanned: int
    records_dispatched: int
    removed_bytes: int  # of a torn tail
    reason: str  # why the scan stopped before the end of the files, "" if it did not
