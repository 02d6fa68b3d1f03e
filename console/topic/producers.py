"""Who produces to a topic, as far as RocketMQ reports it.

A broker lists its connected producers, not what they send; messages carry the address of their producer
(bornHost). Together they show who is connected to the topic's brokers and whose address is in its newest
messages.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

from console.brokers.mqadmin import MessageRecord, with_admin
from console.brokers.queues import PAGE_DEADLINE_MS, NameServersSilent, ask_each, page_masters
from console.cluster.models import Cluster
from console.lag.rows.queue_row import TopicQueueRow
from console.text import Text, text_of

QUEUES_SAMPLED_MAX = 16  # the busiest ones
MESSAGES_PER_QUEUE = 16
INNER_GROUPS = frozenset({"CLIENT_INNER_PRODUCER"})  # every consumer has one, to send messages back


@dataclasses.dataclass(frozen=True, slots=True)
class Sender:
    """A connected producer; ``messages``: how many of the sampled ones came from its address.

    Of those, null without any: ``mean_bytes`` as they are stored, ``mean_delay_ms`` from born (by the clock of the
    producer) to stored.
    """

    group: str
    client_id: str
    address: str
    language: str
    version: int
    brokers: tuple[str, ...]
    heartbeat_ms: int
    messages: int
    mean_bytes: float | None
    mean_delay_ms: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Senders:
    """Producers of a topic; ``others``: address → sampled messages of producers not connected now."""

    senders: tuple[Sender, ...]
    others: Mapping[str, int]
    sampled: int
    unread: tuple[Text, ...]
    read_at_ms: int


def senders_of(
    cluster: Cluster, brokers: Sequence[str], topic: str, queues: Sequence[TopicQueueRow]
) -> Senders:
    """Read producers and newest messages from the topic's brokers. Raises nothing: see ``unread``."""
    admin, now_ms = with_admin(cluster.connection), time.time_ns() // 1_000_000
    try:
        addrs = {name: addr for name, addr in page_masters(admin).items() if name in brokers}
    except NameServersSilent as error:
        return Senders((), {}, 0, (Text("the name servers do not answer: %(why)s", why=error.why),), now_ms)
    tables = ask_each(admin, addrs, lambda client, addr: client.producers(addr), PAGE_DEADLINE_MS)
    busiest = sorted(queues, key=lambda queue: (-(queue.in_rate or 0.0), -(queue.last_write_ms or 0)))
    requests = {
        (queue.broker_name, queue.queue_id): (
            addrs[queue.broker_name],
            topic,
            queue.queue_id,
            max(queue.min_offset, queue.max_offset - MESSAGES_PER_QUEUE),
            MESSAGES_PER_QUEUE,
        )
        for queue in busiest[:QUEUES_SAMPLED_MAX]
        if queue.broker_name in addrs and queue.max_offset > queue.min_offset
    }
    pulls = ask_each(admin, requests, lambda client, arguments: client.pull(*arguments), PAGE_DEADLINE_MS)
    sample = [
        record for pull in pulls.values() if not isinstance(pull, Exception) for record in pull.messages
    ]
    born: dict[str, list[MessageRecord]] = {}
    for record in sample:
        born.setdefault(record.born_host[0], []).append(record)
    unread = [
        Text("producers of %(name)s: %(why)s", name=name, why=text_of(answer))
        for name, answer in tables.items()
        if isinstance(answer, Exception)
    ]
    unread += [
        Text("%(name)s: %(reason)s", name=f"{name} · {queue}", reason=text_of(answer))
        for (name, queue), answer in pulls.items()
        if isinstance(answer, Exception)
    ]
    found = _senders(tables, born)
    hosts = {host_of(sender.address) for sender in found}
    return Senders(
        senders=tuple(sorted(found, key=lambda one: (-one.messages, one.group, one.client_id))),
        others={
            host: len(sent)
            for host, sent in sorted(born.items(), key=lambda item: -len(item[1]))
            if host not in hosts
        },
        sampled=len(sample),
        unread=tuple(unread),
        read_at_ms=now_ms,
    )


def _senders(tables: Mapping[str, object], born: Mapping[str, Sequence[MessageRecord]]) -> list[Sender]:
    """`born`: the sampled messages by the host that sent them."""
    merged: dict[tuple[str, str], Sender] = {}
    for broker, table in tables.items():
        if not isinstance(table, dict):
            continue
        for group, members in table.items():
            for one in members if group not in INNER_GROUPS else ():
                seen = merged.get((group, one.client_id))
                sent = born.get(host_of(one.remote_ip), [])
                merged[group, one.client_id] = Sender(
                    group=group,
                    client_id=one.client_id,
                    address=one.remote_ip,
                    language=one.language,
                    version=one.version,
                    brokers=(*(seen.brokers if seen else ()), broker),
                    heartbeat_ms=max(one.last_update_timestamp, seen.heartbeat_ms if seen else 0),
                    messages=len(sent),
                    mean_bytes=_mean([record.store_size_bytes for record in sent]),
                    mean_delay_ms=_mean(
                        [record.store_timestamp_ms - record.born_timestamp_ms for record in sent]
                    ),
                )
    return list(merged.values())


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None


def host_of(address: str) -> str:
    """Return the address without its port: brokers write ``10.0.0.9`` or ``10.0.0.9:53180``."""
    host, colon, port = address.rpartition(":")
    return host.strip("[]/") if colon and port.isdigit() and host.count(":") != 7 else address.strip("/")
