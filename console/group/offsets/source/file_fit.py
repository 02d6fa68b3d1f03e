"""Whether the offsets of a file fit the queues of a group here: what does not is named, before anything is planned."""

from __future__ import annotations

from collections.abc import Iterable

from console.brokers.mqadmin import MessageQueue
from console.group.offsets.state import GroupSource, GroupState, require_group
from console.group.offsets.target_request import Known, TargetRequest
from console.operation.errors import PlanRejected
from console.text import Moment, Names, Text

NAMED_MAX = 3
FIELD = "offsets"


def fitting(source: GroupSource, state: GroupState, requested: TargetRequest) -> Known:
    """Return where the offsets come from, in words.

    An offset below the oldest stored message is moved up to it by the plan, with a warning. Raises PlanRejected for
    brokers and queues that do not exist here, and for offsets beyond the end of their queue: such a queue does not hold
    the messages that the file means. Also for brokers that do not have the group.
    """
    brokers, unknown, short = set(), [], []
    for queue, each in sorted(requested.offsets.items()):
        here = state.queues.get(queue)
        if queue in state.lost:
            continue
        if queue.broker_name not in source.coverage.addrs:
            brokers.add(queue.broker_name)
        elif here is None:
            unknown.append(queue)
        elif each.offset > here.place.max_offset:
            short.append((queue, each.offset, here.place.max_offset))
    found = [*_no_brokers(source, brokers), *_no_queues(unknown), *_too_short(short)]
    if found:
        raise PlanRejected(Text.of_parts(found), FIELD)
    require_group(source, [queue for queue in requested.offsets if queue in state.queues])
    return Known(sampled=_origin(requested))


def _no_brokers(source: GroupSource, names: Iterable[str]) -> Iterable[Text]:
    absent = sorted(names)
    if absent:
        yield Text(
            "%(cluster)s has no broker %(names)s: name the broker that has its queues now (brokers here: %(known)s).",
            cluster=source.cluster,
            names=Text.of_names(absent, NAMED_MAX),
            known=Names(sorted(source.coverage.addrs)),
        )


def _no_queues(queues: list[MessageQueue]) -> Iterable[Text]:
    if queues:
        names = [_name(queue) for queue in queues]
        yield Text(
            "%(number)s queue(s) of the file {does|do} not exist here: %(names)s.",
            number=len(names),
            names=Text.of_names(names, NAMED_MAX),
        )


def _too_short(queues: list[tuple[MessageQueue, int, int]]) -> Iterable[Text]:
    if queues:
        names = [f"{_name(queue)} ({offset:,} > {high:,})" for queue, offset, high in queues]
        yield Text(
            "%(number)s queue(s) {ends|end} before the offset of the file: %(names)s. These hold other messages than "
            "the file means: leave them out, or go to a time instead.",
            number=len(names),
            names=Text.of_names(names, NAMED_MAX),
        )


def _origin(requested: TargetRequest) -> Text:
    origin = requested.origin
    if origin is None:
        return Text()
    read = Text(
        "From a file of %(group)s in %(cluster)s, read at %(time)s.",
        group=origin.group,
        cluster=origin.cluster,
        time=Moment(origin.read_at_ms),
    )
    if not origin.without_offset:
        return read
    return Text.of_parts(
        [
            read,
            Text(
                "%(number)s queue(s) of it {has|have} no offset and {stays|stay} unchanged.",
                number=origin.without_offset,
            ),
        ]
    )


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} · {queue.broker_name} · {queue.queue_id}"
