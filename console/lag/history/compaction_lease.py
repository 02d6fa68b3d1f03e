"""Let one process at a time make files of a cluster's history, on whichever host it runs.

A lease is a row with an end. Its holder renews it while it works; a holder that was suspended for longer loses it, and
detects that in the transaction in which it would list its file: nothing is listed then.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db.models import Q

from console.lag.models import HistoryLease

# A host that died in the middle delays the next compaction by this much.
LEASE_MS = 120_000
RENEWED_EVERY_S = 20.0


class LeaseTaken(Exception):
    """Report that another process makes files of this cluster now."""


class LeaseLost(Exception):
    """Report that the lease expired and another process took it: the file is not listed."""


class CompactionLease:
    """Give the holder access to its lease."""

    def __init__(self, cluster: str, owner: str, now_ms: int) -> None:
        self.cluster = cluster
        self._owner = owner
        self._offset_ms = now_ms - _monotonic_ms()
        self._renewed_s = time.monotonic()

    def renew_if_due(self) -> None:
        """Extend the lease if it is time; call it while the work goes on. Raises LeaseLost."""
        if time.monotonic() - self._renewed_s >= RENEWED_EVERY_S:
            self.confirm()

    def confirm(self) -> None:
        """Extend the lease. Raises LeaseLost.

        Inside a transaction the row stays locked until it commits: another process takes the lease before or after.
        """
        until_ms = self._offset_ms + _monotonic_ms() + LEASE_MS
        if (
            HistoryLease.objects.filter(cluster=self.cluster, owner=self._owner).update(until_ms=until_ms)
            != 1
        ):
            raise LeaseLost(f"history of {self.cluster}: another process has taken the lease")
        self._renewed_s = time.monotonic()


@contextmanager
def held(cluster: str, now_ms: int) -> Iterator[CompactionLease]:
    """Hold the lease of a cluster. Raises LeaseTaken.

    A lease that ends too far ahead for any lease is ignored: the clock was set back.
    """
    HistoryLease.objects.get_or_create(cluster=cluster)
    owner = uuid.uuid4().hex
    is_free = Q(until_ms__lte=now_ms) | Q(until_ms__gt=now_ms + 2 * LEASE_MS)
    claimed = HistoryLease.objects.filter(is_free, cluster=cluster).update(
        owner=owner, host=settings.HOST_ID, until_ms=now_ms + LEASE_MS
    )
    if claimed != 1:
        raise LeaseTaken(cluster)
    try:
        yield CompactionLease(cluster, owner, now_ms)
    finally:
        HistoryLease.objects.filter(cluster=cluster, owner=owner).update(until_ms=0)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
