"""The files that hold the rows of single queues: publishing, maintenance and detection of damage.

An hour of 1,000 groups has a hundred thousand such rows, so they stay in the Parquet files that the job wrote, beside
the history and not in the database. A file is of one window and of a range of groups, sorted by group, topic, broker
and queue, and is never changed or moved. It exists when its row in `QueueRowFile` is LIVE:

    written by a task -> noted as WRITING -> LIVE, in the transaction that replaces the other rows of its window ->
    SUPERSEDED by the next run over the same window -> deleted after GRACE_MS

Every step may be the last one before a crash: files noted and never LIVE are deleted like superseded ones.
Reading the rows: `console.report.kept_rows.queue_rows`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import fsspec
import pyarrow as pa
from django.conf import settings
from django.db.models import Q

from console.report.kept_rows.output import (
    Output,
    Part,
    below_reports_url,
    local_or_url,
    remove_empty_folders,
)
from console.report.models import QueueRowFile, ReportRun
from console.text import Text
from spark.lag.local_time import DAY_MS, HOUR_MS

logger = logging.getLogger(__name__)

State = QueueRowFile.State
GRACE_MS = HOUR_MS  # a reader that listed a file before it was superseded has read it by then
DELETED_AT_ONCE = 2_000  # after one run: a console that was off for long catches up over several
BLOCK_BYTES = 4 * 1024 * 1024
UNREADABLE = (pa.ArrowException, OSError, EOFError, KeyError, ValueError)


def note(run: ReportRun, output: Output, parts: Sequence[Part], now_ms: int) -> list[QueueRowFile]:
    """Record the written files of a run; the caller then calls `publish`. Raises OSError."""
    files = [
        QueueRowFile(
            path=below_reports_url(part),
            run=run,
            job=run.job,
            cluster=run.cluster,
            window_start_ms=part.window_start_ms,
            window_end_ms=part.window_end_ms,
            group_first=part.ends[0],
            group_last=part.ends[1],
            rows=part.rows,
            bytes=part.bytes,
            sha256=_digest(output.files, part.path),
            code_version=settings.CODE_VERSION,
            zone=run.zone,
            created_at_ms=now_ms,
        )
        for part in parts
    ]
    return QueueRowFile.objects.bulk_create(files, batch_size=500)


def publish(files: Sequence[QueueRowFile], is_before: Q, now_ms: int) -> int:
    """Let files replace those that `is_before` selects, in the caller's transaction; return their rows."""
    before = QueueRowFile.objects.filter(is_before, state__in=[State.LIVE, State.DAMAGED])
    before.update(state=State.SUPERSEDED, superseded_at_ms=now_ms)
    for file in files:
        file.state, file.created_at_ms = State.LIVE, now_ms
    QueueRowFile.objects.bulk_update(files, ["state", "created_at_ms"], batch_size=200)
    return sum(file.rows for file in files)


def maintain(cluster: str, now_ms: int) -> int:
    """Delete files that were superseded, never published, or are too old; return how many.

    A file is deleted before its row: after a crash in between, the next run deletes the row.
    """
    unwanted = (
        Q(state=State.SUPERSEDED, superseded_at_ms__lt=now_ms - GRACE_MS)
        | Q(state=State.WRITING, created_at_ms__lt=now_ms - GRACE_MS)
        | Q(job="lag_hour", window_start_ms__lt=now_ms - settings.REPORT_QUEUE_DAYS * DAY_MS)
        | Q(job="lag_day", window_start_ms__lt=now_ms - settings.REPORT_DAY_DAYS * DAY_MS)
        | Q(job="lag_week", window_start_ms__lt=now_ms - settings.REPORT_WEEK_DAYS * DAY_MS)
    )
    files = list(QueueRowFile.objects.filter(unwanted, cluster=cluster)[:DELETED_AT_ONCE])
    for file in files:
        filesystem, path = fsspec.core.url_to_fs(location(file))
        with suppress(FileNotFoundError):
            filesystem.rm(path)
            remove_empty_folders(filesystem, path)
        file.delete()
    return len(files)


def location(file: QueueRowFile) -> str:
    """Return a local path, or an fsspec address."""
    return f"{local_or_url(str(settings.REPORTS_URL))}/{file.path}"


def what_is_wrong(file: QueueRowFile, error: Exception) -> Text:
    """Return why a file could not be read.

    One that is not what its row states is marked as damaged, and not opened again.
    """
    filesystem, path = fsspec.core.url_to_fs(location(file))
    try:
        if not filesystem.exists(path):
            problem = Text("it is gone: it was removed from the storage")
        elif _digest(filesystem, path) != file.sha256:
            problem = Text(
                "it has %(number)s bytes with another checksum than when it was made",
                number=str(filesystem.size(path)),
            )
        else:
            return Text("it cannot be read now (%(why)s)", why=_cut(f"{type(error).__name__}: {error}"))
    except OSError as away:
        return Text("its storage does not answer (%(why)s)", why=_cut(str(away)))
    if QueueRowFile.objects.filter(pk=file.pk, state=State.LIVE).update(state=State.DAMAGED, reason=problem):
        logger.error(
            "report file is damaged cluster=%s job=%s path=%s reason=%s",
            file.cluster, file.job, file.path, problem,
        )  # fmt: skip
    return problem


def _cut(words: str) -> str:
    return words[: QueueRowFile.REASON_LENGTH_MAX]


def _digest(filesystem: Any, path: str) -> str:
    digest = hashlib.sha256()
    with filesystem.open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
