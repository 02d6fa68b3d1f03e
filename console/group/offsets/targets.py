"""The targets of an offset change, one row each: how to read it, its parameter, its words, how to compute it.

To add one: its row in `TARGETS`; a field of `OffsetChangeForm`, `TargetRequest` and the REST serializer where its
value is of a new kind.
"""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from django.core.management.base import CommandError

from console.brokers.mqadmin import MessageQueue
from console.group.offsets.change import is_by_time
from console.group.offsets.source import clone, file_fit, past
from console.group.offsets.state import (
    GroupSource,
    GroupState,
    offsets_at_times,
    offsets_by_broker,
    read_group_state,
)
from console.group.offsets.stored import FileOrigin, OffsetParams, QueueOffset
from console.group.offsets.target_request import Known, Parameter, Standing, Target, TargetRequest
from console.operation.command_line import time_ms
from console.operation.errors import PlanRejected
from console.operation.plan.params import Given
from console.operation.plan.places import QueuePlace, read_place
from console.text import Names, Text

OFFSET_MAX = 2**63 - 1
Wanted = tuple[int | None, Text]


# --- Parameters ---------------------------------------------------------------------------------------------


def read_params(given: Given) -> OffsetParams:
    """Read the parameters of a plan request; raises PlanRejected naming the field."""
    target = TARGETS.get(str(given.get("target")))
    if target is None:
        raise PlanRejected(
            Text("Choose a target: %(names)s. There is no default.", names=Names(TARGETS)), field="target"
        )
    topics = given.get("topics") or None
    if topics is not None and not all(isinstance(topic, str) and topic for topic in topics):
        raise PlanRejected(Text("%(field)s must be a list of names.", field="Topics"), field="topics")
    parameter = target.parameter
    value = {} if parameter is None else {parameter.name: parameter.read(given.get(parameter.name))}
    return OffsetParams(
        accept_without=given.accepted_without(),
        target=target.name,
        topics=None if topics is None else tuple(topics),
        queues=tuple(read_place(QueuePlace, each, "queues") for each in given.get("queues") or ()),
        origin=_origin(given.get("origin")) if target.name == "file" else None,
        **value,
    )


def request_of(params: OffsetParams) -> TargetRequest:
    """Return the request of these parameters."""
    queues = frozenset(each.queue for each in params.offsets or params.queues)
    topics = params.topics
    if queues and topics is None:
        topics = tuple(sorted({queue.topic for queue in queues}))
    return TargetRequest(
        TARGETS[params.target],
        None if topics is None else list(topics),
        queues or None,
        time_ms=params.time_ms,
        offset=params.offset,
        shift=params.shift,
        like_group=params.like_group,
        undo_plan=params.undo_plan,
        clone_of=params.clone_of,
        offsets={each.queue: each for each in params.offsets},
        origin=params.origin,
    )


# A parameter → what callers of REST and the command line name it.
NAMES = {"time_ms": "time"}


def _integer(value: object, field: str, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= OFFSET_MAX:
        raise PlanRejected(_wrong_integer(value, field, minimum), field=field)
    return value


def _wrong_integer(value: object, field: str, minimum: int) -> Text:
    if value is None:
        return Text("Enter a value for this target: %(field)s.", field=NAMES.get(field, field))
    if minimum < 0:
        return Text("%(field)s must be a whole number.", field=field)
    return Text("%(field)s must be a whole number from %(minimum)s.", field=field, minimum=minimum)


def _shift(value: object) -> int:
    shift = _integer(value, "shift", -OFFSET_MAX)
    if shift == 0:
        raise PlanRejected(Text("A shift by 0 changes nothing."), field="shift")
    return shift


def _name(value: object, field: str, missing: Text) -> str:
    name = str(value or "")
    if not name:
        raise PlanRejected(missing, field=field)
    return name


def _exact(value: Any) -> tuple[QueueOffset, ...]:
    found = tuple(
        QueueOffset.at(
            read_place(QueuePlace, each, "offsets"),
            _integer(each.get("offset"), "offset", 0),
            bool(each.get("or_beyond")),
        )
        for each in value or ()
    )
    if not found:
        raise PlanRejected(Text("An exact target needs an offset for each queue."), field="offsets")
    return found


def _origin(value: object) -> FileOrigin | None:
    try:
        return None if value is None else msgspec.convert(value, FileOrigin)
    except msgspec.ValidationError as error:
        words = Text("An origin has cluster, group and read_at_ms.")
        raise PlanRejected(words, field="origin") from error


# --- Words of the command line ------------------------------------------------------------------------------


def queue_of_word(word: str) -> QueuePlace:
    """Parse ``orders/broker-a/3``; raises CommandError."""
    parts = word.split("/")
    if len(parts) != 3 or not all(parts) or not parts[2].isdecimal():
        raise CommandError(f"{word}: a queue is TOPIC/BROKER/QUEUE, such as orders/broker-a/3.")
    return QueuePlace(topic=parts[0], broker_name=parts[1], queue_id=int(parts[2]))


def _offset_of_word(word: str) -> QueueOffset:
    place, equals, offset = word.rpartition("=")
    if not equals or not offset.isdecimal():
        raise CommandError(f"{word}: give the offset too, such as orders/broker-a/3=1204.")
    return QueueOffset.at(queue_of_word(place), int(offset))


def _offset_words(offsets: Sequence[QueueOffset]) -> list[str]:
    return [f"{each.word}={each.offset}" for each in offsets]


def _time_words(at_ms: int) -> list[str]:
    at = datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)
    return [at.isoformat(timespec="milliseconds").replace("+00:00", "Z")]


TIME = Parameter(
    "time_ms",
    "--time",
    "ISO 8601 with zone, for the targets time and as_of",
    lambda value: _integer(value, "time_ms", 0),
    time_ms,
    _time_words,
)
OFFSET = Parameter(
    "offset", "--offset", "for the target offset", lambda value: _integer(value, "offset", 0), int
)
SHIFT = Parameter("shift", "--shift", "messages; negative goes back", _shift, int)
LIKE_GROUP = Parameter(
    "like_group",
    "--like",
    "the group to stand like",
    lambda value: _name(value, "like_group", Text("Name the group whose offsets are copied.")),
)
UNDO_PLAN = Parameter(
    "undo_plan",
    "--plan",
    "the applied plan to take back, for the target undo",
    lambda value: _name(value, "undo_plan", Text("Name the plan to undo.")),
)
OFFSETS = Parameter(
    "offsets",
    "--set",
    "TOPIC/BROKER/QUEUE=OFFSET, for the targets exact and file; repeat it",
    _exact,
    _offset_of_word,
    _offset_words,
    repeats=True,
)
CLONE_OF = Parameter(
    "clone_of",
    "--clone-of",
    "CLUSTER/GROUP to stand like by time, for the target clone",
    lambda value: "/".join(clone.address_of(value)),
)
PARAMETERS = (TIME, OFFSET, SHIFT, LIKE_GROUP, UNDO_PLAN, OFFSETS, CLONE_OF)


# --- Target offset of a queue ------------------------------------------------------------------------------


def _shifted(requested: TargetRequest, at: Standing) -> Wanted:
    if at.committed is None:
        return None, Text("never committed: there is no offset to shift")
    return at.committed + (requested.shift or 0), Text()


def _given(requested: TargetRequest, at: Standing) -> Wanted:
    exact = requested.offsets[at.queue]
    if exact.or_beyond and at.committed is not None and at.committed >= exact.offset:
        return None, Text("has already reached or passed %(offset)s", offset=exact.offset)
    return exact.offset, Text()


def _named(source: GroupSource, requested: TargetRequest) -> Collection[MessageQueue]:
    return requested.offsets.keys()


def _looked_up(requested: TargetRequest, at: Standing) -> Wanted:
    found = at.known.offsets.get(at.queue)
    nothing_known = Text("no target offset is known") if found is None else Text()
    return found, at.known.notes.get(at.queue, nothing_known)


def _from_time_index(source: GroupSource, state: GroupState, requested: TargetRequest) -> Known:
    """Look up offsets in the brokers' time indexes."""
    scope = [queue for queue in state.queues if requested.covers(queue)]
    at_ms = requested.time_ms or 0
    places = [state.queues[queue].place for queue in scope]
    exact = offsets_at_times(source.admin, dict.fromkeys(places, at_ms), source.coverage.versions)
    by_time = [state.queues[queue].place for queue in scope if is_by_time(state, queue)]
    nearest = offsets_by_broker(source.admin, by_time, at_ms)
    notes = {
        queue: Text(
            "this release moves to the nearest message; the first at that time is %(offset)s",
            offset=exact[queue],
        )
        for queue, offset in nearest.items()
        if offset != exact[queue]
    }
    return Known({**exact, **nearest}, notes)


def _from_other_group(source: GroupSource, state: GroupState, requested: TargetRequest) -> Known:
    """Look up the committed offsets of another group."""
    if requested.like_group == state.group:
        raise PlanRejected(Text("A group cannot copy its own offsets: name another group."), "like_group")
    topics = sorted({queue.topic for queue in state.queues})
    other_source = GroupSource(source.admin, source.cluster, requested.like_group, source.coverage)
    other = read_group_state(other_source, topics, state.read_at_ms, field="like_group")
    absent = Text("%(group)s has no committed offset there", group=requested.like_group)
    return Known(
        {queue: each.committed for queue, each in other.queues.items()},
        {queue: absent for queue, each in other.queues.items() if each.committed is None},
    )


def _from_history(source: GroupSource, state: GroupState, requested: TargetRequest) -> Known:
    """Look up the offsets that this console recorded."""
    scope = [queue for queue in state.queues if requested.covers(queue)]
    return past.recorded(source.cluster, state.group, scope, requested.time_ms or 0, state.read_at_ms)


def _in_history(source: GroupSource, requested: TargetRequest) -> Collection[MessageQueue]:
    return past.queues_at(source.cluster, source.group, requested.time_ms or 0)


ROWS = (
    Target(
        "earliest",
        lambda requested, at: (at.low, Text()),
        Text("Earliest"),
        Text("the oldest message still stored"),
        is_time=True,
    ),
    Target(
        "latest",
        lambda requested, at: (at.high, Text()),
        Text("Latest"),
        Text("skip all messages not consumed yet"),
        is_time=True,
    ),
    Target(
        "time",
        _looked_up,
        Text("Time"),
        Text("the first message stored at or after it"),
        TIME,
        "time",
        _from_time_index,
        is_time=True,
    ),
    Target(
        "offset",
        lambda requested, at: (requested.offset, Text()),
        Text("Offset"),
        Text("the same number for every selected queue"),
        OFFSET,
        "offset",
    ),
    Target(
        "shift",
        _shifted,
        Text("Shift by n"),
        Text("back or forward from each queue's offset"),
        SHIFT,
        "shift",
    ),
    Target(
        "like_group",
        _looked_up,
        Text("Same as group …"),
        Text("copy the offsets of another group"),
        LIKE_GROUP,
        "like_group",
        _from_other_group,
    ),
    Target(
        "as_of",
        _looked_up,
        Text("As recorded at …"),
        Text("offsets recorded at a time"),
        TIME,
        "as_of",
        _from_history,
        recorded=_in_history,
    ),
    # a plan stores it as the exact offsets that it means
    Target(
        "undo",
        _given,
        Text("Undo a plan"),
        Text("the offsets from before it was applied"),
        UNDO_PLAN,
        "undo_plan",
    ),
    Target("exact", _given, parameter=OFFSETS, recorded=_named),
    # the offsets of an exported file, where they fit
    Target(
        "file",
        _given,
        parameter=OFFSETS,
        look_up=file_fit.fitting,
        recorded=_named,
        sampled_title=Text("Offsets of an exported file"),
    ),
    # where a group of another cluster stands, by time
    Target(
        "clone",
        _looked_up,
        parameter=CLONE_OF,
        look_up=clone.by_time,
        recorded=clone.topics_there,
        sampled_title=Text("Cloned by time"),
    ),
)
TARGETS: Mapping[str, Target] = {target.name: target for target in ROWS}


def command_line(group: str, cluster: str, params: OffsetParams) -> str:
    """Return ``manage.py offsets plan …`` with the same target and scope, quoted for a shell."""
    words = ["manage.py", "offsets", "plan", group, "--cluster", cluster, "--target", params.target]
    if not params.queues and params.target != "exact":
        words += [word for topic in params.topics or () for word in ("--topic", topic)]
    words += [word for queue in params.queues for word in ("--queue", queue.word)]
    for parameter in PARAMETERS:
        value = getattr(params, parameter.name)
        if value not in (None, "", ()):
            words += parameter.option_words(value)
    words += [word for name in params.accept_without for word in ("--accept-without", name)]
    return shlex.join(words)
