"""Running info and, on request, threads of one member, read from it through its broker (307)."""

from __future__ import annotations

import dataclasses
from typing import Any

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MessageQueue,
    MQBrokerError,
    RemotingTimeout,
    with_admin,
)
from console.brokers.queues import ask_each, masters
from console.cluster import selectors as cluster_selectors
from console.text import Text, text_of

STACK_CHARS_MAX = 400_000  # a JVM of 2,000 threads; more is cut


class MemberSilent(Exception):
    """The member is not connected any more, or does not answer; the message says which."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReportedQueue:
    """A queue that the member holds; a popped one has no offset, only messages taken and not acknowledged.

    ``cached``: messages it has and has not consumed, from ``cached_from`` to ``cached_to``.
    """

    topic: str
    broker_name: str
    queue_id: int
    cached: int
    dropped: bool = False
    last_pull_ms: int | None = None
    commit_offset: int | None = None
    cached_from: int | None = None
    cached_to: int | None = None
    locked: bool | None = None
    last_consume_ms: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ReportedTopic:
    """The member's own figures of a topic: times in ms, rates per second."""

    topic: str
    consume_ms: float
    ok_per_s: float
    failed_per_s: float
    failed_last_hour: int
    pull_ms: float
    pulled_per_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class RunningInfo:
    """What a member reports of itself. Times in epoch ms, null: never. ``stack``: its threads, as text."""

    properties: list[tuple[str, str]]
    queues: list[ReportedQueue]
    topics: list[ReportedTopic]
    stack: str | None
    is_stack_cut: bool


def ask_member(cluster: str, group: str, client_id: str, *, with_stack: bool) -> RunningInfo:
    """Read the running info of a member. Raises MemberSilent, BrokerUnavailable, MQClientError."""
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
    return running_info(admin, group, client_id, with_stack=with_stack)


def running_info(admin: BlockingMQAdmin, group: str, client_id: str, *, with_stack: bool) -> RunningInfo:
    """Read the running info of a member. Raises MemberSilent."""
    addrs = masters(admin)
    online = ask_each(admin, addrs, lambda client, addr: client.consumer_connection(addr, group))
    holders = [
        addrs[name]
        for name, answer in online.items()
        if answer is not None
        and not isinstance(answer, Exception)
        and any(each.client_id == client_id for each in answer.connection_set)
    ]
    if not holders:
        raise MemberSilent(
            Text(
                "No broker has a connection of %(client)s for %(group)s now: it has disconnected, or was "
                "never connected.",
                client=client_id,
                group=group,
            )
        )
    try:
        info = admin.consumer_running_info(holders[0], group, client_id, jstack=with_stack)
    except (BrokerUnavailable, RemotingTimeout, MQBrokerError) as error:
        raise MemberSilent(
            Text(
                "%(client)s is connected and did not answer through %(broker)s: %(why)s",
                client=client_id,
                broker=holders[0],
                why=text_of(error),
            )
        ) from error
    stack = info.jstack
    return RunningInfo(
        properties=sorted(info.properties.items()),
        queues=[
            *(_queue(queue, held) for queue, held in sorted(info.mq_table.items())),
            *(_popped(queue, status or {}) for queue, status in sorted(info.mq_pop_table.items())),
        ],
        topics=[
            ReportedTopic(
                topic=topic,
                consume_ms=each.consume_rt,
                ok_per_s=each.consume_ok_tps,
                failed_per_s=each.consume_failed_tps,
                failed_last_hour=each.consume_failed_msgs,
                pull_ms=each.pull_rt,
                pulled_per_s=each.pull_tps,
            )
            for topic, each in sorted(info.status_table.items())
        ],
        stack=None if stack is None else stack[:STACK_CHARS_MAX],
        is_stack_cut=stack is not None and len(stack) > STACK_CHARS_MAX,
    )


def _popped(queue: MessageQueue, status: Any) -> ReportedQueue:
    return ReportedQueue(
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        cached=int(status.get("waitAckCount") or 0),
        dropped=bool(status.get("droped")),
        last_pull_ms=status.get("lastPopTimestamp") or None,
    )


def _queue(queue: MessageQueue, held: Any) -> ReportedQueue:
    return ReportedQueue(
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        commit_offset=held.commit_offset if held.commit_offset >= 0 else None,  # -1: none stored yet
        cached=held.cached_msg_count,
        cached_from=held.cached_msg_min_offset if held.cached_msg_count else None,
        cached_to=held.cached_msg_max_offset if held.cached_msg_count else None,
        locked=held.locked,
        dropped=held.dropped,
        last_pull_ms=held.last_pull_timestamp or None,
        last_consume_ms=held.last_consume_timestamp or None,
    )
