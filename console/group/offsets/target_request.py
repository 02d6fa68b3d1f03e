"""The request of an offset change: the scope, the target and its value."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from console.brokers.mqadmin import MessageQueue
from console.group.offsets.state import GroupSource, GroupState
from console.group.offsets.stored import FileOrigin, QueueOffset
from console.lag.rows.queue_row import QueueRow
from console.operation.plan.coverage import Absent
from console.text import Text


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """The value of a target: its name in plans, REST, form and command line, and how to read it.

    ``read`` checks what is given and returns the value in `OffsetParams`; it raises PlanRejected. ``of_word`` and
    ``to_words`` are for the command line; with ``repeats`` the option is given once for each part of the
    value.
    """

    name: str  # in the parameters of a plan and in REST
    option: str
    help: str
    read: Callable[[object], Any]
    of_word: Callable[[str], Any] = str
    to_words: Callable[[Any], Sequence[str]] = lambda value: [str(value)]
    repeats: bool = False

    def option_words(self, value: Any) -> list[str]:
        """Return the value as options of the command; ``--shift=-100`` where it begins with a dash."""
        pairs = [
            [f"{self.option}={word}"] if word[0] == "-" else [self.option, word]
            for word in self.to_words(value)
        ]
        return [word for pair in pairs for word in pair]


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """Target offsets looked up in the brokers' time index, another group, or the history.

    ``notes`` explain a queue's offset, or why it has none; ``sampled`` is a sentence about the origin of
    recorded offsets. ``answering`` and ``silent``: brokers of another cluster that were read, as cluster/broker.
    """

    offsets: Mapping[MessageQueue, int | None] = dataclasses.field(default_factory=dict)
    notes: Mapping[MessageQueue, Text] = dataclasses.field(default_factory=dict)
    sampled: Text = Text()
    answering: Collection[str] = ()
    silent: Mapping[str, Absent] = dataclasses.field(default_factory=dict)


class Standing(NamedTuple):
    """A queue whose target is computed. ``known``: what `Target.look_up` found."""

    queue: MessageQueue
    committed: int | None
    low: int
    high: int
    known: Known


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """One target.

    ``label`` and ``meaning`` are the form's; without a label the form does not offer it. ``field``: the
    form's field with the value. ``wanted`` computes (offset, or None to leave the queue alone; why);
    ``look_up`` reads first what it needs. ``is_time``: 4.x brokers can send it to members (222 by time).
    """

    name: str
    wanted: Callable[[TargetRequest, Standing], tuple[int | None, Text]]
    label: Text = Text()
    meaning: Text = Text()
    parameter: Parameter | None = None
    field: str = ""
    look_up: Callable[[GroupSource, GroupState, TargetRequest], Known] = lambda source, state, requested: (
        Known()
    )
    is_time: bool = False
    # Of the banner with `Known.sampled`.
    sampled_title: Text = Text("Offsets as this console recorded them")
    # Queues that the group had offsets on, by another source than the brokers: it may have lost them there.
    recorded: Callable[[GroupSource, TargetRequest], Collection[MessageQueue]] = lambda source, requested: ()


@dataclasses.dataclass(frozen=True, slots=True)
class TargetRequest:
    """Checked parameters of an offset change."""

    target: Target
    topics: list[str] | None
    queues: frozenset[MessageQueue] | None  # None: all queues of the topics
    time_ms: int | None = None
    offset: int | None = None
    shift: int | None = None
    like_group: str = ""
    undo_plan: str = ""
    clone_of: str = ""
    offsets: Mapping[MessageQueue, QueueOffset] = dataclasses.field(default_factory=dict)
    origin: FileOrigin | None = None

    def covers(self, queue: MessageQueue) -> bool:
        """Return whether a queue of the topics is in scope."""
        return self.queues is None or queue in self.queues


def queue_value(row: QueueRow) -> str:
    """Return the value of a queue in the form: JSON, since topic names may hold any separator but quotes."""
    return json.dumps([row.topic, row.broker_name, row.queue_id], separators=(",", ":"))
