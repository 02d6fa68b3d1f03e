"""Keep how far members of broadcasting groups were: no broker stores their offsets, and a member takes them along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from django.db.models import Max

from console.lag.models import ClientPosition, ClientRow
from console.lag.round.view import ClientProgress, QueueProgress
from spark.lag.local_time import DAY_MS, MINUTE_MS

# Of a member that stays; the last report of one that left is kept in any case. 100 queues are 5 KB.
EVERY_MS = 15 * MINUTE_MS
KEPT_MS = 31 * DAY_MS
ROWS_MAX = 200  # reports for a page: two days of one member


class KeptQueue(msgspec.Struct, frozen=True, array_like=True):
    """One queue as a member reported it; ``committed_offset`` is the next message it has to consume."""

    topic: str
    broker_name: str
    queue_id: int
    min_offset: int
    max_offset: int
    committed_offset: int


def record(cluster: str, before: Iterable[ClientRow], after: Iterable[ClientRow], now_ms: int) -> None:
    """Keep what members reported: each quarter of an hour, and the last report of those that left."""
    stays = {(row.group, row.client_id): row for row in after if row.progress}
    left = {(row.group, row.client_id): row for row in before if row.progress}
    members = left | stays
    if not members:
        return
    groups = {group for group, _ in members}
    rows = ClientPosition.objects.filter(cluster=cluster, group__in=groups).values_list("group", "client_id")
    kept_ms = {(group, client_id): at_ms for group, client_id, at_ms in rows.annotate(Max("at_ms"))}
    made = []
    for key, row in members.items():
        progress = ClientProgress(row.client_id, msgspec.convert(row.progress, list[QueueProgress]))
        at_ms, last_ms = progress.read_at_ms, kept_ms.get(key, 0)
        if at_ms > last_ms and (key not in stays or now_ms - last_ms >= EVERY_MS):
            queues = msgspec.to_builtins(_reported(progress))
            made.append(
                ClientPosition(
                    cluster=cluster, group=row.group, client_id=row.client_id, at_ms=at_ms, queues=queues
                )
            )
    ClientPosition.objects.bulk_create(made)


def _reported(progress: ClientProgress) -> list[KeptQueue]:
    """Return the queues of its last report."""
    return [
        KeptQueue(each.topic, each.broker_name, each.queue_id, last.low, last.high, last.position)
        for each in progress.queues
        if each.samples and (last := each.samples[-1]).at_ms == progress.read_at_ms
    ]


def between(
    cluster: str, group: str, from_ms: int, to_ms: int, client_id: str = ""
) -> Sequence[ClientPosition]:
    """Return what was kept of [from_ms, to_ms), the newest ROWS_MAX reports; of one member if named."""
    found = ClientPosition.objects.filter(cluster=cluster, group=group, at_ms__gte=from_ms, at_ms__lt=to_ms)
    if client_id:
        found = found.filter(client_id=client_id)
    return list(found.order_by("-at_ms", "client_id")[:ROWS_MAX])


def queues_of(position: ClientPosition) -> list[KeptQueue]:
    """Return the queues of a report."""
    return msgspec.convert(position.queues, list[KeptQueue])


def delete_expired(now_ms: int) -> None:
    """Delete reports older than a month."""
    ClientPosition.objects.filter(at_ms__lt=now_ms - KEPT_MS).delete()
