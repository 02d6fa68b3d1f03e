"""Locate the queues of a topic and read their offsets from name servers and brokers, as they are now.

Plans and message search need the current state; pages read the rows of the last round instead
(``console.lag``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from console.brokers.mqadmin import (
    BlockingMQAdmin,
    BrokerUnavailable,
    MessageQueue,
    MQAdmin,
    MQBrokerError,
    MQClientError,
    RemotingTimeout,
    TopicRouteData,
)
from console.text import Text, text_of

K = TypeVar("K")
A = TypeVar("A")
T = TypeVar("T")
MASTER_ID = 0
PERM_READ, PERM_WRITE = 4, 2  # PermName
TOPIC_NOT_EXIST = 17  # ResponseCode.TOPIC_NOT_EXIST
# For one bulk read over all brokers: plans wait for it.
READ_DEADLINE_MS = 10_000
# A page waits no longer for brokers and shows the answers it has.
PAGE_DEADLINE_MS = 3_000


class NameServersSilent(Exception):
    """No name server returned the brokers (`why`); a page then shows what it has."""

    def __init__(self, why: Text) -> None:
        super().__init__(Text("The name servers do not answer: %(why)s", why=why))
        self.why = why


@dataclasses.dataclass(frozen=True, slots=True)
class BrokerQueue:
    """One queue, the address of the master that holds it, and its offsets at the time of the read."""

    queue: MessageQueue
    addr: str
    min_offset: int
    max_offset: int


def ask_each(
    admin: BlockingMQAdmin,
    requests: Mapping[K, A],
    call: Callable[[MQAdmin, A], Awaitable[T]],
    deadline_ms: int = READ_DEADLINE_MS,
) -> dict[K, T | Exception]:
    """Make the same call with each of these arguments, all at once under one deadline. Raises nothing."""

    def bound(argument: A) -> Callable[[MQAdmin], Awaitable[T]]:
        return lambda client: call(client, argument)

    return admin.gather({key: bound(argument) for key, argument in requests.items()}, deadline_ms)


def require_answer(name: str, addr: str, answer: T | Exception, unknown: Text | None = None) -> T:
    """Return a broker's answer. Raises MQBrokerError for its error, BrokerUnavailable for a silent broker.

    A change must not be made without seeing every broker. ``unknown``: what is unknown without this answer.
    """
    if isinstance(answer, MQBrokerError):
        raise answer
    if isinstance(answer, Exception):
        # The new error names the address again.
        why = answer.reason if isinstance(answer, BrokerUnavailable) else answer
        raise BrokerUnavailable(
            addr,
            Text(
                "%(name)s did not answer, so %(unknown)s is unknown: %(answer)s",
                name=name,
                unknown=unknown or Text("its part"),
                answer=text_of(why),
            ),
        ) from answer
    return answer


def masters(admin: BlockingMQAdmin) -> dict[str, str]:
    """Return broker name → address of its master, for every broker that has one now."""
    table = admin.cluster_info().broker_addr_table
    return {
        name: data.broker_addrs[MASTER_ID]
        for name, data in sorted(table.items())
        if MASTER_ID in data.broker_addrs
    }


def page_masters(admin: BlockingMQAdmin) -> dict[str, str]:
    """Return the `masters` for a page. Raises NameServersSilent for any failure."""
    try:
        return masters(admin)
    except (BrokerUnavailable, RemotingTimeout, MQClientError, MQBrokerError) as error:
        raise NameServersSilent(text_of(error)) from error


def topic_route(admin: BlockingMQAdmin, topic: str) -> TopicRouteData | None:
    """Return the topic's route, or None when no name server lists it (17)."""
    try:
        return admin.topic_route(topic)
    except MQBrokerError as error:
        if error.code == TOPIC_NOT_EXIST:
            return None
        raise


def route_queues(route: TopicRouteData, topic: str, *, write: bool = False) -> dict[MessageQueue, str]:
    """Return queue → master address of readable (or writable) queues; without a master they are skipped."""
    addrs = {data.broker_name: data.broker_addrs.get(MASTER_ID) for data in route.broker_datas}
    wanted = PERM_WRITE if write else PERM_READ
    found: dict[MessageQueue, str] = {}
    for data in sorted(route.queue_datas, key=lambda each: each.broker_name):
        addr = addrs.get(data.broker_name)
        if addr is None or not data.perm & wanted:
            continue
        for queue_id in range(data.write_queue_nums if write else data.read_queue_nums):
            found[MessageQueue(topic, data.broker_name, queue_id)] = addr
    return found


def with_offsets(admin: BlockingMQAdmin, queues: dict[MessageQueue, str]) -> list[BrokerQueue]:
    """Add min and max offset to each queue: one call (202) per broker and topic. Raises a broker's error."""
    wanted = sorted({(addr, queue.topic) for queue, addr in queues.items()})
    answers = ask_each(
        admin, {place: place for place in wanted}, lambda client, place: client.topic_stats(*place)
    )
    found: list[BrokerQueue] = []
    for queue, addr in queues.items():
        table = answers[addr, queue.topic]
        if isinstance(table, Exception):
            raise table
        offsets = table.offset_table.get(queue)
        low, high = (0, 0) if offsets is None else (offsets.min_offset, offsets.max_offset)
        found.append(BrokerQueue(queue, addr, low, high))
    return found
