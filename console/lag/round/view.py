"""Hold everything the rows of one round are made from: the answers, the window, and the state before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from console.brokers.mqadmin import GroupRefusals
from console.lag.round.broker_reads import BrokerAnswers, TopicFacts
from console.lag.round.figures import GroupFigures, TopicFigures
from console.lag.round.keyed_columns import KeyedColumns
from console.lag.round.series import QueueKey, RoundColumns, RoundSeries, TopicQueueKey
from console.text import Moment, Text
from spark.lag.round.filter_ratio import FilterSample
from spark.lag.round.window import LagWindow
from spark.lag.snapshot import BoolArray

# A broker silent and missing at every name server for so long is gone.
DROP_BROKER_AFTER_MS = 24 * 3_600_000


class Silence(NamedTuple):
    """Describe a broker that did not answer: since when, and why."""

    since_ms: int
    reason: Text


@dataclass(frozen=True, slots=True)
class Popped:
    """Hold messages by topic that a group's members reported to hold, at the sweep of `at_ms` or later.

    `is_whole`: there are members and all of them reported. `since_ms`: since then the sum has not decreased, null while
    it is zero.
    """

    by_topic: Mapping[str, int] = field(default_factory=dict)
    at_ms: int | None = None
    is_whole: bool = False
    since_ms: int | None = None


class Sample(NamedTuple):
    """Where a broadcasting member was in a queue at a time: `position` is the next message it has to consume."""

    at_ms: int
    low: int
    high: int
    position: int


class QueueProgress(Struct, frozen=True):
    """The progress of a broadcasting member in one queue, the last ten minutes of it, as `ClientRow` stores it."""

    topic: str
    broker_name: str
    queue_id: int
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientProgress:
    """Hold a broadcasting member's reported progress."""

    client_id: str
    queues: Sequence[QueueProgress] = ()

    @property
    def read_at_ms(self) -> int:
        """Return when it last reported; 0: never."""
        return max((one.samples[-1].at_ms for one in self.queues if one.samples), default=0)


@dataclass(frozen=True, slots=True)
class Members:
    """Hold a group's connected clients at the last sweep; `clients` null while no sweep has answered."""

    clients: int | None = None
    model: str = ""
    consume_mode: str = ""
    topics: Sequence[str] = ()
    offline_since_ms: int | None = None
    popped: Popped = Popped()
    progress: Sequence[ClientProgress] = ()


@dataclass(frozen=True, slots=True)
class SampledFilter:
    """Hold how much of a group's backlog passed its filter at the last sample."""

    sample: FilterSample
    at_ms: int


@dataclass(frozen=True, slots=True)
class RoundView:
    """Hold one round. `previous_*` are the rows of the round before; `owners` the reported holders of queues.

    `topics` and `groups` are the newest tables of every broker that ever answered; `blind` names silent brokers without
    any reading: they may hold queues of any group.
    """

    cluster: str
    now_ms: int
    window: LagWindow
    answers: Sequence[BrokerAnswers]
    series: RoundSeries
    columns: RoundColumns
    silences: Mapping[str, Silence] = field(default_factory=dict)
    blind: frozenset[str] = frozenset()
    # Broker → topic → facts.
    topics: Mapping[str, Mapping[str, TopicFacts]] = field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    # Broker → groups and topics that it refuses to serve.
    refusals: Mapping[str, GroupRefusals] = field(default_factory=dict)
    members: Mapping[str, Members] = field(default_factory=dict)
    owners: Mapping[QueueKey, str] = field(default_factory=dict)
    filters: Mapping[str, SampledFilter] = field(default_factory=dict)
    previous_queues: KeyedColumns[QueueKey] = field(default_factory=KeyedColumns.nothing)
    previous_groups: Mapping[str, GroupFigures] = field(default_factory=dict)
    previous_topics: Mapping[str, TopicFigures] = field(default_factory=dict)
    previous_topic_queues: KeyedColumns[TopicQueueKey] = field(default_factory=KeyedColumns.nothing)
    # Which of the groups' queues are where this console put them, and which it moved ahead since the last reading.
    set_here: BoolArray | np.bool_ = np.False_
    moved_here: BoolArray | np.bool_ = np.False_
    # ... and which are not comparable with the last reading (`SampleFlag.SWITCHED`).
    switched: BoolArray | np.bool_ = np.False_
    # Groups without a connected member by the brokers' answers of this round.
    without_members: frozenset[str] = frozenset()
    # Of topics whose offsets do not count messages.
    offset_kinds: Mapping[str, str] = field(default_factory=dict)
    # Topics that brokers make with their own and their cluster's name.
    own_topics: frozenset[str] = frozenset()

    def is_refused(self, group: str, topic: str, broker_name: str) -> bool:
        """Return whether the group is paused there, by the broker's last table of groups."""
        refusals_of_broker = self.refusals.get(broker_name)
        return refusals_of_broker is not None and refusals_of_broker.refuse(group, topic)

    def is_dropped(self, broker_name: str, read_at_ms: int) -> bool:
        """Return whether a queue last read at `read_at_ms` went with its broker, which is no longer read."""
        is_read = any(answer.address.broker_name == broker_name for answer in self.answers)
        return not is_read and self.now_ms - read_at_ms > DROP_BROKER_AFTER_MS

    def silence_text(self, broker_name: str) -> Text:
        """Return why a broker's figures are unknown: since when it has not answered, and why."""
        silence = self.silences.get(broker_name)
        if silence is None:
            return Text("%(broker)s was not queried", broker=broker_name)
        return silence_text(broker_name, silence)


def silence_text(broker_name: str, silence: Silence) -> Text:
    """Return since when a broker has not answered, and why."""
    return Text(
        "%(broker)s has not answered since %(time)s: %(reason)s",
        broker=broker_name,
        time=Moment(silence.since_ms),
        reason=silence.reason,
    )
