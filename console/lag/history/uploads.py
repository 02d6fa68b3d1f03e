"""Share this host's log with all others: a finished segment is closed, copied to `HISTORY_URL`, then listed.

Where the history lies in this host's own data folder nothing is copied. Each step may be the last one before a crash:

    closed (nothing is appended any more) -> copied under its final name -> `uploaded_at_ms` in its row

A copy without that mark in its row is written again, the same bytes under the same name.
"""

import logging
import os
from pathlib import Path

from django.conf import settings
from django.db.models import Q, QuerySet

from console.lag.history.log import (
    HistoryLog,
    Kind,
    State,
    file_location,
    quarantine,
    readable,
    stored_location,
    wal_folder,
)
from console.lag.models import HistoryFile
from console.text import Text
from spark.lag.history import files, wal
from spark.lag.local_time import HOUR_MS

logger = logging.getLogger(__name__)

# A round that began in a segment is on disk a minute after it.
CLOSED_AFTER_MS = 60_000
# A host that did not upload for so long is not waited for.
DEAD_AFTER_MS = 2 * wal.SEGMENT_MS


def is_shared() -> bool:
    """Return whether the history lies elsewhere than the log of this host."""
    stored = stored_location("")
    return "://" in stored or Path(stored).resolve() != Path(file_location("", Kind.WAL)).resolve()


def upload_closed(cluster: str, now_ms: int) -> int:
    """Copy the finished segments of this host; return how many. Raises StorageError.

    Includes segments without a row because of a crash.
    """
    if not is_shared():
        return 0
    log = HistoryLog(cluster)
    log.close_before(now_ms - CLOSED_AFTER_MS)
    log.register_all()
    waiting = HistoryFile.objects.filter(
        cluster=cluster,
        kind=Kind.WAL,
        host=settings.HOST_ID,
        uploaded_at_ms=0,
        state__in=[State.LIVE, State.SUPERSEDED],
        ts_hi_ms__lte=now_ms - CLOSED_AFTER_MS,
    )
    return sum(_upload(row, now_ms) for row in waiting.order_by("ts_lo_ms"))


def _upload(row: HistoryFile, now_ms: int) -> bool:
    try:
        data = Path(file_location(row.path, Kind.WAL)).read_bytes()
    except FileNotFoundError:
        gone = Text("it is gone from the disk of %(host)s and was not uploaded before", host=row.host)
        quarantine(row, gone, now_ms)
        return False
    row.bytes, row.sha256 = files.write_bytes(stored_location(row.path), data)
    row.uploaded_at_ms = now_ms
    row.save(update_fields=["bytes", "sha256", "uploaded_at_ms"])
    logger.info("log segment uploaded cluster=%s path=%s bytes=%d", row.cluster, row.path, row.bytes)
    return True


def maintain_own(now_ms: int) -> int:
    """Upload this host's segments of every cluster and delete local copies no row needs; return how many.

    A cluster or storage that fails does not delay the others: the error is logged and the next run tries again.
    """
    count = 0
    for folder in sorted(wal_folder("*").parent.parent.glob(f"*/{settings.HOST_ID}")):
        cluster = folder.parent.name
        try:
            count += upload_closed(cluster, now_ms)
        except OSError:
            logger.exception("log not uploaded cluster=%s", cluster)
        _delete_expired_copies(cluster)
    return count


def _delete_expired_copies(cluster: str) -> None:
    """Delete local segments whose row is deleted: another host deleted what lay under `HISTORY_URL`."""
    local = {
        str(path.relative_to(file_location("", Kind.WAL))): path for path in wal_folder(cluster).glob("*.wal")
    }
    deleted = HistoryFile.objects.filter(path__in=list(local), state=State.DELETED)
    for name in deleted.values_list("path", flat=True):
        local[name].unlink(missing_ok=True)


def hosts(now_ms: int) -> list[str]:
    """Return the hosts that ran rounds within a day; a host that starts again later uploads by itself."""
    found = HistoryFile.objects.filter(kind=Kind.WAL, ts_hi_ms__gt=now_ms - 24 * HOUR_MS).exclude(host="")
    return sorted(found.order_by("host").values_list("host", flat=True).distinct())


def absent(cluster: str) -> "QuerySet[HistoryFile]":
    """Return the segments that this host cannot read: their own host has not uploaded them."""
    return HistoryFile.objects.filter(~readable(), cluster=cluster, kind=Kind.WAL, state=State.LIVE)


def why_absent(row: HistoryFile) -> Text:
    """Return why this host cannot read a segment, and how to make it available."""
    return Text(
        "the log of %(host)s is not uploaded yet: that takes six minutes while the host runs; if it is down, start it "
        "again with its data folder",
        host=row.host,
    )


def still_awaited(now_ms: int) -> Q:
    """Return the condition for `absent` rows whose host has not been silent for long."""
    return Q(ts_hi_ms__gt=now_ms - DEAD_AFTER_MS - CLOSED_AFTER_MS)


def remove_copies(row: HistoryFile) -> None:
    """Remove a file wherever this host can reach it."""
    if row.kind != Kind.WAL:
        files.remove(stored_location(row.path))
        return
    if row.uploaded_at_ms:
        files.remove(stored_location(row.path))
    if row.host in ("", settings.HOST_ID) and os.path.exists(file_location(row.path, Kind.WAL)):
        os.remove(file_location(row.path, Kind.WAL))
