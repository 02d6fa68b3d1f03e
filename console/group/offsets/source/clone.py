"""Where a group of another cluster stands, as times: the store time of the oldest message it has not read, by topic."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from console.brokers.mqadmin import (
    BrokerUnavailable,
    MessageQueue,
    MQBrokerError,
    MQClientError,
    RemotingTimeout,
    with_admin,
)
from console.brokers.queues import BrokerQueue, topic_route
from console.cluster.models import Cluster
from console.group.offsets.state import (
    GroupSource,
    GroupState,
    group_source,
    offsets_at_times,
    read_group_state,
    require_group,
    store_times,
)
from console.group.offsets.target_request import Known, TargetRequest
from console.operation import journal
from console.operation.errors import PlanRejected
from console.operation.plan.coverage import Absent
from console.text import Moment, Text, text_of

FIELD = "clone_of"
TOPICS_NAMED_MAX = 5


class GroupAddress(NamedTuple):
    """A group of a cluster, as ``cluster/group``; the names of clusters have no slash."""

    cluster: str
    group: str


class _There(NamedTuple):
    """The group in its own cluster, ``name``."""

    name: str
    source: GroupSource
    state: GroupState

    def place(self, broker: str) -> str:
        """Return how a plan of another cluster names a broker of this one."""
        return f"{self.name}/{broker}"


class _Unread(NamedTuple):
    """Since when a group has not read a topic; None: unknown, and why."""

    since_ms: int | None
    why: Text = Text()


def address_of(value: object) -> GroupAddress:
    """Parse ``cluster/group``; raises PlanRejected."""
    cluster, _, group = str(value or "").partition("/")
    if not (cluster and group):
        raise PlanRejected(
            Text("Name the cluster and the group to clone, such as main/billing."), field=FIELD
        )
    return GroupAddress(cluster, group)


def topics_there(source: GroupSource, requested: TargetRequest) -> Collection[MessageQueue]:
    """Return the queues that the group has there. Raises PlanRejected where no topic of them is here."""
    there = _read(source, requested).state
    queues = there.queues.keys() | there.lost.keys()
    names = sorted({queue.topic for queue in queues})
    if not any(topic_route(source.admin, name) is not None for name in names):
        raise PlanRejected(_absent_words(source.cluster, names), FIELD)
    return queues


def by_time(source: GroupSource, state: GroupState, requested: TargetRequest) -> Known:
    """Return the first message here of the time at which the group's unread messages begin there, topic by topic.

    Queues of a topic whose time is not known have a note and no offset: also while a broker there is silent, unless the
    plan accepts to do without it.
    """
    there = _read(source, requested)
    accepted = source.coverage.accept_without
    unread = _unread_since(there, accepted)
    times: dict[BrokerQueue, int] = {}
    notes: dict[MessageQueue, Text] = {}
    none = Text(
        "%(group)s of %(cluster)s has no offset of this topic", group=there.state.group, cluster=there.name
    )
    for queue, each in state.queues.items():
        found = unread.get(queue.topic, _Unread(None, none))
        if not requested.covers(queue):
            continue
        if found.since_ms is None:
            notes[queue] = found.why
        else:
            times[each.place] = found.since_ms
    require_group(source, [place.queue for place in times])
    offsets = offsets_at_times(source.admin, times, source.coverage.versions)
    here = {queue.topic for queue in (*state.queues, *state.lost)}
    absent = [] if requested.topics else sorted(unread.keys() - here)
    return Known(
        offsets,
        notes,
        _origin(there, source, unread, absent),
        answering=[there.place(name) for name in there.source.coverage.addrs],
        silent=_silent(there),
    )


def _silent(there: _There) -> dict[str, Absent]:
    """Return the silent brokers that hold queues of the group's topics there, with what is unknown without them."""
    topics: dict[str, set[str]] = {}
    for queue in there.state.lost:
        topics.setdefault(queue.broker_name, set()).add(queue.topic)
    return {
        there.place(name): dataclasses.replace(
            there.source.coverage.absent[name],
            broker_name=there.place(name),
            unknown=Text(
                "since when %(topics)s is unread there", topics=Text.of_names(sorted(names), TOPICS_NAMED_MAX)
            ),
        )
        for name, names in sorted(topics.items())
    }


def _read(here: GroupSource, requested: TargetRequest) -> _There:
    """Read the group in its own cluster. Raises PlanRejected naming that cluster."""
    name, group = address_of(requested.clone_of)
    if name == here.cluster:
        raise PlanRejected(
            Text(
                "Enter a group of another cluster. Within a cluster, the target “Same as group” copies "
                "the offsets exactly."
            ),
            FIELD,
        )
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None or cluster.is_generated:
        raise PlanRejected(Text("There is no cluster %(cluster)s with brokers.", cluster=name), FIELD)
    now_ms = journal.now_ms()
    try:
        source = group_source(with_admin(cluster.connection), name, group, now_ms)
        return _There(name, source, read_group_state(source, requested.topics, now_ms, field=FIELD))
    except (BrokerUnavailable, MQBrokerError, MQClientError, RemotingTimeout) as trouble:
        raise PlanRejected(
            Text("%(cluster)s cannot be read: %(why)s", cluster=name, why=text_of(trouble)), FIELD
        ) from trouble


def _unread_since(there: _There, accepted: Collection[str]) -> dict[str, _Unread]:
    """Return topic → since when it is unread. Where all is read, that is just after its newest message.

    ``accepted``: silent brokers whose queues are left out where others have the topic too.
    """
    firsts = {
        queue: each.place.min_offset if each.committed is None else max(each.committed, each.place.min_offset)
        for queue, each in there.state.queues.items()
    }
    places = {queue: each.place for queue, each in there.state.queues.items()}
    wanted = [
        (place, offset) for queue, place in places.items() for offset in (firsts[queue], place.max_offset - 1)
    ]
    stored = store_times(there.source.admin, wanted)
    by_topic: dict[str, list[MessageQueue]] = {}
    for queue in (*places, *there.state.lost):
        by_topic.setdefault(queue.topic, []).append(queue)
    found = {}
    for topic, everywhere in sorted(by_topic.items()):
        read = [
            queue for queue in everywhere if queue in places or there.place(queue.broker_name) not in accepted
        ]
        queues = read or everywhere
        unknown = next((why for queue in queues if (why := _why_unknown(there, queue, firsts, stored))), None)
        if unknown is not None:
            found[topic] = _Unread(None, unknown)
            continue
        unread = [
            stored[queue, firsts[queue]] for queue in queues if firsts[queue] < places[queue].max_offset
        ]
        newest = [
            at for queue in queues if (at := stored.get((queue, places[queue].max_offset - 1))) is not None
        ]
        if unread or newest:
            found[topic] = _Unread(min(unread) if unread else max(newest) + 1)
        else:
            empty = Text(
                "%(topic)s holds no message in %(cluster)s, so no time is known",
                topic=topic,
                cluster=there.name,
            )
            found[topic] = _Unread(None, empty)
    return found


def _why_unknown(
    there: _There,
    queue: MessageQueue,
    firsts: Mapping[MessageQueue, int],
    stored: Mapping[tuple[MessageQueue, int], int],
) -> Text | None:
    """Return why it is unknown since when a queue is unread; None where it is known, or nothing is unread."""
    place = f"{queue.topic} · {queue.broker_name} · {queue.queue_id}"
    each = there.state.queues.get(queue)
    if each is None:
        return Text(
            "unknown: %(broker)s of %(cluster)s does not answer", broker=queue.broker_name, cluster=there.name
        )
    first, high = firsts[queue], each.place.max_offset
    if first > high:
        return Text(
            "unknown: the offset of %(queue)s in %(cluster)s is beyond its end",
            queue=place,
            cluster=there.name,
        )
    # Of a queue that is read, the newest message has to be readable.
    needed = first if first < high else high - 1
    if each.place.min_offset < high and (queue, needed) not in stored:
        return Text(
            "unknown: no message of %(queue)s in %(cluster)s can be read at %(offset)s, so it has no time",
            queue=place,
            cluster=there.name,
            offset=needed,
        )
    return None


def _origin(there: _There, here: GroupSource, unread: Mapping[str, _Unread], absent: Sequence[str]) -> Text:
    """Return where the offsets come from, in words."""
    times = [
        Text("%(topic)s from %(time)s", topic=topic, time=Moment(each.since_ms))
        for topic, each in unread.items()
        if each.since_ms is not None and topic not in absent
    ]
    if len(times) > TOPICS_NAMED_MAX:
        more = Text("and %(number)s more topics", number=len(times) - TOPICS_NAMED_MAX)
        times = [*times[:TOPICS_NAMED_MAX], more]
    parts = [
        Text(
            "Unread by %(group)s in %(cluster)s: %(times)s. Messages stored here before that time are skipped, so the "
            "clocks of both clusters must agree; nothing that is unread there is skipped if they do.",
            group=there.state.group,
            cluster=there.name,
            times=Text.of_list(times),
        )
    ]
    if absent:
        parts.append(_absent_words(here.cluster, absent))
    return Text.of_parts(parts if times else parts[1:])


def _absent_words(cluster: str, topics: Sequence[str]) -> Text:
    return Text(
        "%(cluster)s has no topic %(names)s.", cluster=cluster, names=Text.of_names(topics, TOPICS_NAMED_MAX)
    )
