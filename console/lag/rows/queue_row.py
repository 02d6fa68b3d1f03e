"""Describe a queue in the last round: as one group consumes it (`QueueRow`), by itself (`TopicQueueRow`).

Null means unknown, never zero. Counts are messages, rates messages per second, times epoch milliseconds of the
collector's clock, durations milliseconds. The fields are the columns in which a round computes queues
(`round.keyed_columns`) and in which they are stored (`rows.sheets`): a new figure is a field here and a column there.
"""

from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any, get_args

from console.text import Text

NO_REASON = Text()


def _described(text: str, default: Any = None) -> Any:
    """Return a field with its help text for the OpenAPI document."""
    return field(default=default, metadata={"help_text": text})


@dataclass(slots=True)
class QueueRow:
    """One queue as one group consumes it. `committed_offset` null means never committed; see `status`, `reason`."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    min_offset: int | None = None
    max_offset: int | None = None
    committed_offset: int | None = None
    pulled_offset: int | None = None
    lag: int | None = None
    lag_lower_bound: bool = _described(
        "members of a POP group hold messages that the offset has passed", False
    )
    offset_is_not_count: bool = _described("there are at most as many messages as the lag says", False)
    in_flight: int | None = None
    available: int | None = None
    out_rate: float | None = _described("messages a second confirmed in the last minute")
    time_lag_ms: int | None = None
    time_lag_lower_bound: bool = False
    queueing_ms: int | None = _described("wait of the oldest message that nobody has pulled")
    speed: float | None = _described("seconds of messages read in a second, over 2 min")
    drain_ms: int | None = None
    drain_never: bool = False
    drain_low_ms: int | None = None
    drain_high_ms: int | None = None
    drain_window_ms: int | None = None
    time_to_loss_ms: int | None = None
    time_to_loss_never: bool = False
    time_to_loss_lower_bound: bool = False
    lost: int | None = _described("deleted unread since this console watches the queue")
    status: str = ""
    since_ms: int = 0
    owner: str = ""
    last_commit_ms: int | None = _described("when the committed offset was last seen to move")
    reset_pending: bool = _described(
        "somebody set the committed offset, and no member has committed since: a target, no progress", False
    )
    reset_at_ms: int | None = _described("when it was last seen to be set, by this console or somebody else")
    moved: bool = _described("the committed offset was set, not consumed, since the reading before", False)
    paused: bool = _described("the broker gives the group nothing of this topic", False)
    read_at_ms: int = 0
    reason: Text = NO_REASON
    missed_rounds: int = _described("rounds since its broker, which answers, last listed it", 0)


@dataclass(slots=True)
class TopicQueueRow:
    """One queue of a topic, whichever groups consume it."""

    topic: str
    broker_name: str
    queue_id: int
    min_offset: int = 0
    max_offset: int = 0
    last_write_ms: int | None = None
    in_rate: float | None = None
    read_at_ms: int = 0


def kinds_of(row: type[Any]) -> dict[str, type]:
    """Return field → type: int, float, bool, str or Text; only int and float may be null."""
    return {
        one.name: next(kind for kind in get_args(one.type) or (one.type,) if kind is not NoneType)
        for one in fields(row)
    }
