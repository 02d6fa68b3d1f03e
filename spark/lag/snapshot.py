"""One collection round of a cluster: queues, committed offsets, and how the round judged them.

Every series that is known is in every snapshot, from its first one to its tombstone (`codes.ABSENT`): a queue of a
silent broker has its last offsets and the status UNKNOWN. Committed offsets are read before max offsets, so
`max_offset - committed` over-states the lag by what arrived in between and is never negative by a race (lag.md 1.1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark.lag.codes import ABSENT, NO_FLAGS, OK_CODE, UNKNOWN_CODE, ByteArray

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

UNKNOWN_OFFSET = -1  # RocketMQ offsets are never negative
UNKNOWN_TIME = -1  # neither are time lags and store times


TENTH_MS = 100


def in_tenths(ms: Int64Array) -> Int64Array:
    """Return times as history keeps them, in 0.1 s rounded up: a time lag of 0 means that nothing waits."""
    return np.where(ms < 0, UNKNOWN_TIME, -(-ms // TENTH_MS))


def from_tenths(tenths: Int64Array) -> Int64Array:
    """Return milliseconds of what `in_tenths` made."""
    return np.where(tenths < 0, UNKNOWN_TIME, tenths * TENTH_MS)


class HeadKey(NamedTuple):
    """A queue. `incarnation` grows when a topic of the same name is deleted and made again."""

    topic: str
    broker_name: str
    queue_id: int
    incarnation: int = 0


class CommitKey(NamedTuple):
    """A queue as one group consumes it."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    incarnation: int = 0

    @property
    def head(self) -> HeadKey:
        """Return the queue itself."""
        return HeadKey(self.topic, self.broker_name, self.queue_id, self.incarnation)


class BrokerRead(NamedTuple):
    """How one broker answered. Times are the collector's clock; `error` is empty when `answered`."""

    broker_name: str
    answered: bool
    read_committed_ms: int
    read_max_ms: int
    rpc_ms: int
    error: str = ""


def no_offsets() -> Int64Array:
    """Return an empty array of offsets."""
    return np.empty(0, dtype=np.int64)


def no_codes() -> ByteArray:
    """Return an empty array of statuses or flags."""
    return np.empty(0, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One collection round. Arrays run parallel to their keys; `ts_ms` is when the round began.

    `committed` is `UNKNOWN_OFFSET` where the group never committed, `pulled` where only the table of committed offsets
    (43) was read. `time_lag_ms` is the age of the first unread message. `oldest_ms` is the store time up to which
    retention deletes: of a queue's oldest message, or, while the queue has lost none, now less what its broker is
    configured to keep. Both are by the collector's clock, `UNKNOWN_TIME` where not known; files keep 0.1 s of them.
    `status` and `head_status` are `codes.CODE_OF`; a head that was read is OK. `flags` are of `codes.SampleFlag`. What
    is judged may be left out: then queues were read, and the state of groups is unknown.
    """

    ts_ms: int
    number: int
    brokers: Sequence[BrokerRead] = ()
    head_keys: Sequence[HeadKey] = ()
    max_offset: Int64Array = field(default_factory=no_offsets)
    min_offset: Int64Array = field(default_factory=no_offsets)
    commit_keys: Sequence[CommitKey] = ()
    committed: Int64Array = field(default_factory=no_offsets)
    pulled: Int64Array = field(default_factory=no_offsets)
    time_lag_ms: Int64Array = field(default_factory=no_offsets)
    status: ByteArray = field(default_factory=no_codes)
    flags: ByteArray = field(default_factory=no_codes)
    head_status: ByteArray = field(default_factory=no_codes)
    oldest_ms: Int64Array = field(default_factory=no_offsets)

    def __post_init__(self) -> None:
        assert len(self.head_keys) == len(self.max_offset) == len(self.min_offset)
        assert len(self.commit_keys) == len(self.committed) == len(self.pulled)
        for name, keys, default in (
            ("time_lag_ms", self.commit_keys, UNKNOWN_TIME),
            ("status", self.commit_keys, UNKNOWN_CODE),
            ("flags", self.commit_keys, NO_FLAGS),
            ("head_status", self.head_keys, OK_CODE),
            ("oldest_ms", self.head_keys, UNKNOWN_TIME),
        ):
            column = getattr(self, name)
            if len(column) != len(keys):
                assert len(column) == 0, name
                object.__setattr__(self, name, np.full(len(keys), default, dtype=column.dtype))

    def read_part(self) -> "Snapshot":
        """Return only what was read: queues, and offsets that groups committed."""
        heads = self.head_status == OK_CODE
        commits = (self.status != UNKNOWN_CODE) & (self.status != ABSENT) & (self.committed != UNKNOWN_OFFSET)
        if heads.all() and commits.all():
            return self
        at, own = np.flatnonzero(heads), np.flatnonzero(commits)
        return Snapshot(
            self.ts_ms,
            self.number,
            self.brokers,
            [self.head_keys[one] for one in at.tolist()],
            self.max_offset[at],
            self.min_offset[at],
            [self.commit_keys[one] for one in own.tolist()],
            self.committed[own],
            self.pulled[own],
            self.time_lag_ms[own],
            self.status[own],
            self.flags[own],
            self.head_status[at],
            self.oldest_ms[at],
        )

    def heads(self) -> dict[HeadKey, tuple[int, int]]:
        """Return {queue: (min offset, max offset)}, for tests and small readers."""
        pairs = zip(self.min_offset.tolist(), self.max_offset.tolist(), strict=True)
        return dict(zip(self.head_keys, pairs, strict=True))

    def commits(self) -> dict[CommitKey, int]:
        """Return {queue of a group: committed offset}, for tests and small readers."""
        return dict(zip(self.commit_keys, self.committed.tolist(), strict=True))
