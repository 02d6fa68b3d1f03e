"""One look at a cluster: what every broker said about its queues and committed offsets in one collection
round.

A snapshot lists only what was read. A queue of a silent broker is absent, never zero; whoever compares two
snapshots sees the gap. Committed offsets are read before max offsets, so `max_offset - committed` over-states
the lag by what arrived in between and is never negative by a race (lag.md 1.1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

UNKNOWN_OFFSET = -1  # RocketMQ offsets are never negative


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
        """The queue itself."""
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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One collection round. Arrays run parallel to their keys; `ts_ms` is when the round began.

    `pulled` is `UNKNOWN_OFFSET` where only the table of committed offsets (43) was read.
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

    def __post_init__(self) -> None:
        assert len(self.head_keys) == len(self.max_offset) == len(self.min_offset)
        assert len(self.commit_keys) == len(self.committed) == len(self.pulled)

    def heads(self) -> dict[HeadKey, tuple[int, int]]:
        """Return {queue: (min offset, max offset)}, for tests and small readers."""
        pairs = zip(self.min_offset.tolist(), self.max_offset.tolist(), strict=True)
        return dict(zip(self.head_keys, pairs, strict=True))

    def commits(self) -> dict[CommitKey, int]:
        """Return {queue of a group: committed offset}, for tests and small readers."""
        return dict(zip(self.commit_keys, self.committed.tolist(), strict=True))
