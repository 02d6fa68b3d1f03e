"""Record which member of a group owned which queue, and when; each sweep writes what changed.

Ownership is what members report. A queue has an owner while exactly one connected member reports that it holds it; a
member that does not answer, and a broker whose members are hidden leave the owner unknown. While several report it in
the same sweeps, each has a claim and none owns it: claims of a queue overlap, owners do not.
Members of a broadcasting group all read every queue, and any member may pop a queue: there no queue has an owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q

from console.brokers.mqadmin import is_retry_topic
from console.lag.models import ClientRow, GroupMembers, QueueOwner
from console.lag.round.series import QueueKey
from console.lag.rows import broadcast
from spark.lag.folds.owners import Tenure

# Groups and clients take turns: of 10,000 groups and of 1,280 clients each one is read this often.
KNOWN_MS = 10 * 60_000
BATCH_ROWS = 500


class Owner(NamedTuple):
    """Identify a member of a group and its host."""

    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class Swept:
    """Hold a sweep's members of a group, None when unknown, and the time of the sweep before."""

    group: str
    clients: Sequence[ClientRow] | None
    model: str
    before_ms: int | None


def host_of(client: ClientRow) -> str:
    """Return the host of a member's connection, without its port; else the one in its client id."""
    return client.address.rpartition(":")[0].strip("[]") or client.client_id.partition("@")[0]


def claims(clients: Iterable[ClientRow], now_ms: int) -> dict[QueueKey, tuple[Owner, ...]]:
    """Return who reports each queue; newer reports beat older ones, those of one sweep stand side by side. Pure."""
    found: dict[QueueKey, tuple[int, tuple[Owner, ...]]] = {}
    for client in clients:
        if now_ms - client.read_at_ms > KNOWN_MS:
            continue
        owner = Owner(client.client_id, host_of(client))
        for queue in client.queues or ():
            if "popped" in queue or is_retry_topic(queue["topic"]):
                continue
            key = QueueKey(client.group, queue["topic"], queue["broker_name"], queue["queue_id"])
            known_ms, owners = found.get(key, (-1, ()))
            if client.read_at_ms > known_ms:
                found[key] = client.read_at_ms, (owner,)
            elif client.read_at_ms == known_ms:
                found[key] = known_ms, (*owners, owner)
    return {key: owners for key, (_, owners) in found.items()}


class Tenant(NamedTuple):
    """Hold who owned a queue, or claimed it, in [from_ms, to_ms)."""

    topic: str
    broker_name: str
    queue_id: int
    client_id: str
    host: str
    from_ms: int
    to_ms: int
    is_claim: bool


class _Held(NamedTuple):
    """Say who holds a queue, alone or with a claim beside others."""

    queue: QueueKey
    owner: Owner
    is_claim: bool


def record(cluster: str, groups: Sequence[Swept], now_ms: int) -> None:
    """Record the owners and claims that ended and those that began since the sweep before.

    A group that was not swept for `KNOWN_MS` had no known owners from then on.
    """
    rows = QueueOwner.objects.filter(
        cluster=cluster, to_ms__isnull=True, group__in=[one.group for one in groups]
    )
    now: set[_Held] = set()
    for swept in groups:
        if swept.clients is not None and swept.model != broadcast.BROADCASTING:
            for queue, owners in claims(swept.clients, now_ms).items():
                now |= {_Held(queue, owner, len(owners) > 1) for owner in owners}
    before_ms = {one.group: one.before_ms for one in groups}
    ended, stays = [], set()
    for row in rows:
        queue = QueueKey(row.group, row.topic, row.broker_name, row.queue_id)
        held = _Held(queue, Owner(row.client_id, row.host), row.is_claim)
        until_ms = known_until(row.from_ms, row.to_ms, before_ms[row.group])
        if until_ms >= now_ms and held in now:
            stays.add(held)
            continue
        row.to_ms = max(row.from_ms, min(until_ms, now_ms))
        ended.append(row)
    begun = [
        QueueOwner(
            cluster=cluster,
            **held.queue._asdict(),
            **held.owner._asdict(),
            from_ms=now_ms,
            is_claim=held.is_claim,
        )
        for held in sorted(now - stays)
    ]
    if ended or begun:
        with transaction.atomic():
            QueueOwner.objects.bulk_update(ended, ["to_ms"], batch_size=BATCH_ROWS)
            QueueOwner.objects.bulk_create(begun, batch_size=BATCH_ROWS)


def known_until(from_ms: int, to_ms: int | None, swept_ms: int | None) -> int:
    """Return until when an owner is known if its group was last swept at `swept_ms`."""
    return to_ms if to_ms is not None else max(from_ms, swept_ms or 0) + KNOWN_MS


def between(
    cluster: str,
    group: str,
    from_ms: int,
    to_ms: int,
    *,
    with_claims: bool = False,
    only_claims: bool = False,
    topic: str | None = None,
) -> list[Tenant]:
    """Return the owners of a group's queues in [from_ms, to_ms), each with the end up to which it is known.

    `with_claims`: also who held a queue beside others; those overlap. `only_claims`: no others.
    """
    touching = Q(to_ms__isnull=True) | Q(to_ms__gt=from_ms)
    rows = QueueOwner.objects.filter(touching, cluster=cluster, group=group, from_ms__lt=to_ms)
    if topic is not None:
        rows = rows.filter(topic=topic)
    if only_claims or not with_claims:
        rows = rows.filter(is_claim=only_claims)
    swept_ms = _swept_ms(cluster, [group]).get(group)
    found = []
    # tuples: a group may have 10,000 queues
    for *who, begun_ms, ended_ms, is_claim in rows.order_by("from_ms", "pk").values_list(*Tenant._fields):
        until_ms = known_until(begun_ms, ended_ms, swept_ms)
        if until_ms > max(begun_ms, from_ms):
            found.append(Tenant._make((*who, begun_ms, until_ms, is_claim)))
    return found


def tenures(rows: Iterable[Tenant], *, by_host: bool = False) -> list[Tenure]:
    """Return rows as tenures for a fold, by client id or by host."""
    return [
        Tenure(
            (row.topic, row.broker_name, row.queue_id),
            row.host if by_host else row.client_id,
            row.from_ms,
            row.to_ms,
        )
        for row in rows
    ]


def delete_expired(before_ms: int, now_ms: int) -> None:
    """Delete owners that ended before a moment; end unknown ones, of groups that are no longer swept."""
    lasting = QueueOwner.objects.filter(to_ms__isnull=True, from_ms__lt=now_ms - KNOWN_MS)
    for cluster, group in lasting.values_list("cluster", "group").distinct():
        swept_ms = _swept_ms(cluster, [group]).get(group)
        if (swept_ms or 0) + KNOWN_MS < now_ms:
            rows = list(lasting.filter(cluster=cluster, group=group))
            for row in rows:
                row.to_ms = known_until(row.from_ms, row.to_ms, swept_ms)
            QueueOwner.objects.bulk_update(rows, ["to_ms"], batch_size=BATCH_ROWS)
    QueueOwner.objects.filter(to_ms__lt=before_ms).delete()


def _swept_ms(cluster: str, groups: Sequence[str]) -> Mapping[str, int]:
    rows = GroupMembers.objects.filter(cluster=cluster, group__in=groups)
    return dict(rows.values_list("group", "read_at_ms"))
