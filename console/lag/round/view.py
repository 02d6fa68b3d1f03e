"""Everything the rows of one round are made from, as values: the answers, the window, and what was known
before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from console.brokers.mqadmin import GroupRefusals
from console.lag.round.broker_reads import BrokerAnswers, TopicFacts
from console.lag.round.keyed_columns import KeyedColumns
from console.lag.round.series import QueueKey, RoundColumns, RoundSeries, TopicQueueKey
from console.text import Text
from spark.lag.round.filter_ratio import FilterSample
from spark.lag.round.window import LagWindow
from spark.lag.snapshot import BoolArray

RowDict = dict[str, Any]
FORGET_BROKER_MS = 24 * 3_600_000  # silent and unknown to every name server for so long: gone


class Silence(NamedTuple):
    """A broker that did not answer: since when, and why."""

    since_ms: int
    reason: Text


@dataclass(frozen=True, slots=True)
class Popped:
    """Messages by topic that a group's members said they hold, at the sweep of `at_ms` or later. `is_whole`: there are
    members and every one told it. `since_ms`: since then the sum has not become less, null while it is none.
    """

    by_topic: Mapping[str, int] = field(default_factory=dict)
    at_ms: int | None = None
    is_whole: bool = False
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ClientProgress:
    """How far a member of a broadcasting group has read, by its own word: `queues` as `broadcast` keeps them."""

    client_id: str
    queues: Sequence[RowDict] = ()

    @property
    def read_at_ms(self) -> int:
        """When it last told it; 0: never."""
        return max((one["samples"][-1][0] for one in self.queues if one["samples"]), default=0)


@dataclass(frozen=True, slots=True)
class Members:
    """A group's connected clients at the last sweep; `clients` null while no sweep has answered."""

    clients: int | None = None
    model: str = ""
    consume_mode: str = ""
    topics: Sequence[str] = ()
    offline_since_ms: int | None = None
    popped: Popped = Popped()
    progress: Sequence[ClientProgress] = ()


@dataclass(frozen=True, slots=True)
class SampledFilter:
    """How much of a group's backlog passed its filter when that was last looked at."""

    sample: FilterSample
    at_ms: int


@dataclass(frozen=True, slots=True)
class RoundView:
    """One round. `previous_*` are the rows of the round before; `owners` who said it holds a queue.

    `topics` and `groups` are the newest tables of every broker that ever answered; `blind` names silent
    brokers of which nothing is known at all: they may hold queues of any group.
    """

    cluster: str
    now_ms: int
    window: LagWindow
    answers: Sequence[BrokerAnswers]
    series: RoundSeries
    columns: RoundColumns
    silences: Mapping[str, Silence] = field(default_factory=dict)
    blind: frozenset[str] = frozenset()
    topics: Mapping[str, Mapping[str, TopicFacts]] = field(default_factory=dict)  # broker → topic → facts
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    refusals: Mapping[str, GroupRefusals] = field(default_factory=dict)  # broker → what it gives to nobody
    members: Mapping[str, Members] = field(default_factory=dict)
    owners: Mapping[QueueKey, str] = field(default_factory=dict)
    filters: Mapping[str, SampledFilter] = field(default_factory=dict)
    previous_queues: KeyedColumns[QueueKey] = field(default_factory=KeyedColumns.nothing)
    previous_groups: Mapping[str, RowDict] = field(default_factory=dict)
    previous_topics: Mapping[str, RowDict] = field(default_factory=dict)
    previous_topic_queues: KeyedColumns[TopicQueueKey] = field(default_factory=KeyedColumns.nothing)
    # which of the groups' queues stand where a change of ours put them, and which it moved ahead since they were read
    set_here: BoolArray | np.bool_ = np.False_
    moved_here: BoolArray | np.bool_ = np.False_
    # groups of which no member is connected, by the brokers' word of this round
    without_members: frozenset[str] = frozenset()
    offset_kinds: Mapping[str, str] = field(default_factory=dict)  # of topics whose offsets are no count
    own_topics: frozenset[str] = frozenset()  # brokers make topics of their own and their cluster's name

    def is_refused(self, group: str, topic: str, broker_name: str) -> bool:
        """Whether somebody paused the group there, as the broker's table of groups said last."""
        told = self.refusals.get(broker_name)
        return told is not None and told.refuse(group, topic)

    def is_forgotten(self, broker_name: str, read_at_ms: int) -> bool:
        """Whether a queue that was read last at `read_at_ms` went with its broker, which is not asked any more."""
        is_asked = any(answer.address.broker_name == broker_name for answer in self.answers)
        return not is_asked and self.now_ms - read_at_ms > FORGET_BROKER_MS

    def silence_text(self, broker_name: str) -> Text:
        """Return why a broker's figures are unknown: since when it has not answered, and why."""
        silence = self.silences.get(broker_name)
        if silence is None:
            return Text("%(broker)s was not asked", broker=broker_name)
        return silence_text(broker_name, silence)


def silence_text(broker_name: str, silence: Silence) -> Text:
    """Return since when a broker has not answered, and why."""
    return Text(
        "%(broker)s has not answered since %(time)s: %(reason)s",
        broker=broker_name,
        time=clock(silence.since_ms),
        reason=silence.reason,
    )


def clock(at_ms: int) -> str:
    """Return a time of day as a reason carries it; pages show times in the reader's own zone beside it."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S} UTC"
