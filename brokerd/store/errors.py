"""The store's errors, in two families: the caller's mistake (refused puts) and the disk's.

StoreError
├── PutRefused            status: the put status in the answer
│   ├── MessageIllegal        too long, or not allowed; do not retry
│   ├── PropertiesSizeExceeded
│   ├── WheelTimerFlowControl     its slot is full; send again later
│   ├── WheelTimerMessageIllegal  its time is no number or too far
│   ├── WheelTimerNotEnable   timerWheelEnable is false
│   ├── LightQueuesExceeded   maxLmqConsumeQueueNum
│   ├── NoRoomForQueue        the system's open files or maps are used up; delete topics or raise its limits
│   └── ServiceNotAvailable   disk full or store not writeable; the producer retries elsewhere
├── FlushFailed           what was written may be lost: the store takes no more until a restart
├── TransferDiverged      what a master sends does not go on where this slave's log ends
├── LookupTooLong         more index entries on the way than the caller allows
├── MemoryTooShort        what was read ahead is gone again before it is used
├── StoreLocked           another process works on this directory
├── StoreFilesInvalid     a file has a size or name the settings do not explain
└── BadRecord             offset: where
    ├── TornRecord            the log ends inside a record; recovery cuts it off
    └── CorruptRecord         a bad record before the tail; the store refuses to open

Beside them NotReady (NotInMemory, QueueMissing): try again when a thread has done what it names.
"""

from __future__ import annotations

from brokerd.store.results import PutMessageStatus


class NotReady(Exception):  # noqa: N818  no error: the caller comes again
    """A thread has to prepare something first; nothing was changed, and the caller is to try again then."""


class StoreError(Exception):
    """Base of everything the store raises on purpose."""


class PutRefused(StoreError):
    """A message was not stored; `status` is the reason in RocketMQ's words."""

    status = PutMessageStatus.UNKNOWN_ERROR


class MessageIllegal(PutRefused):
    status = PutMessageStatus.MESSAGE_ILLEGAL


class PropertiesSizeExceeded(PutRefused):
    status = PutMessageStatus.PROPERTIES_SIZE_EXCEEDED


class WheelTimerMessageIllegal(PutRefused):
    status = PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL


class WheelTimerFlowControl(PutRefused):
    status = PutMessageStatus.WHEEL_TIMER_FLOW_CONTROL


class WheelTimerNotEnable(PutRefused):
    status = PutMessageStatus.WHEEL_TIMER_NOT_ENABLE


class LightQueuesExceeded(PutRefused):
    status = PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED


class ServiceNotAvailable(PutRefused):
    status = PutMessageStatus.SERVICE_NOT_AVAILABLE


class NoRoomForQueue(PutRefused):
    status = PutMessageStatus.CREATE_MAPPED_FILE_FAILED


class FlushFailed(StoreError):
    """The disk did not take what was written, now or before; only a restart can find out what it has.

    The kernel reports a failed write once and counts the pages as clean then: a second flush succeeds without them.
    """


class TransferDiverged(StoreError):
    """What a master sends is not what follows in this slave's log; nothing of it was written.

    The two have different histories (one lost its end, or was replaced), or different sizes of files.
    """


class LookupTooLong(StoreError):
    """A key has more entries on the way to the wanted ones than the caller allows."""


class MemoryTooShort(StoreError):
    """Pages that were read from the disk were dropped before they could be used, again and again."""


class StoreLocked(StoreError):
    """Another process holds the store's lock file."""


class StoreFilesInvalid(StoreError):
    """A file's size or name does not fit the settings; starting would misread it."""


class BadRecord(StoreError):
    """A record that cannot be read at `offset` of the commit log."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"record at commit log offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class TornRecord(BadRecord):
    """The log ends inside a record; recovery cuts it off."""


class CorruptRecord(BadRecord):
    """A bad record before the tail; the store refuses to open."""
