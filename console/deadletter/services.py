"""Sample a group's dead letters and prune the ledger; replays are plans (``plans.py``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from django.conf import settings

from console.brokers.mqadmin import MessageQueue, MessageRecord, with_admin
from console.cluster import selectors as cluster_selectors
from console.cluster.masks import masks_of
from console.deadletter import selectors
from console.deadletter.dead_letters import Filter, Sieve, sample_letters, topic_of
from console.deadletter.letter_view import DeadLetterView, letter_view
from console.deadletter.models import ReplayLedger
from spark.lag.local_time import DAY_MS

SAMPLE_MAX = 100
PRUNE_CHUNK = 5_000  # rows per statement, so that a running replay never waits long for the database


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """The newest matching dead letters, decoded; ``problem`` says why none can be read, "" otherwise."""

    rows: list[DeadLetterView]
    scanned: int
    problem: str


class SampleWithRecords(NamedTuple):
    """A sample, and its letters with their broker names and whole bodies, masked."""

    sample: Sample
    records: Sequence[tuple[str, MessageRecord]]


def sample(cluster: str, group: str, wanted: Filter | None = None, limit: int = 20) -> Sample:
    """Return the newest matching dead letters of a group.

    Raises PlanRejected for a bad filter, BrokerUnavailable and MQBrokerError.
    """
    return sample_with_records(cluster, group, wanted, limit).sample


def sample_with_records(
    cluster: str, group: str, wanted: Filter | None = None, limit: int = 20
) -> SampleWithRecords:
    """Return what ``sample`` returns, with the letters as they are exported."""
    sieve = Sieve((wanted or Filter()).checked(), masks_of(cluster))
    admin = with_admin(cluster_selectors.cluster_by_name(cluster).connection)
    found = sample_letters(admin, topic_of(group), sieve, max(1, min(limit, SAMPLE_MAX)))
    places: dict[MessageQueue, dict[int, str]] = {}
    for broker_name, record in found.records:
        queue = MessageQueue(record.topic, broker_name, record.queue_id)
        places.setdefault(queue, {})[record.queue_offset] = record.message_id
    sent = {queue: selectors.sent_before(cluster, queue, ids) for queue, ids in places.items()}
    rows = [
        letter_view(
            record,
            name,
            sieve.masks,
            sent[MessageQueue(record.topic, name, record.queue_id)].get(record.queue_offset, ""),
        )
        for name, record in found.records
    ]
    records = [(name, sieve.masks.masked(record)) for name, record in found.records]
    return SampleWithRecords(Sample(rows, found.scanned, found.problem), records)


def prune_ledger(*, now_ms: int) -> int:
    """Delete rows of finished replays older than LEDGER_RETENTION_DAYS; return how many.

    Plans and jobs stay, with the sums. The rows of a letter's newest replay are deleted too: by then the
    broker has deleted the letter.
    """
    old = ReplayLedger.objects.filter(
        updated_at_ms__lt=now_ms - settings.LEDGER_RETENTION_DAYS * DAY_MS,
        plan__job__finished_at__isnull=False,
    )
    total = 0
    while True:
        ids = list(old.order_by("id").values_list("id", flat=True)[:PRUNE_CHUNK])
        if not ids:
            return total
        deleted, _ = old.filter(id__lte=ids[-1]).delete()
        total += deleted
