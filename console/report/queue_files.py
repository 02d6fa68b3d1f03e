"""The files that hold the rows of single queues: how they are published, looked after and found to be damaged.

An hour of 1,000 groups has a hundred thousand such rows, so they stay in the Parquet files that the job wrote, beside
the history and not in the database. A file is of one window and of a range of groups, sorted by group, topic, broker
and queue, and is never changed. It exists when its row in `QueueRowFile` is LIVE:

    noted as WRITING -> brought to its place, made durable -> LIVE, in the transaction that replaces the run's other
    rows -> SUPERSEDED by the next run over the same window -> deleted after GRACE_MS

Every step may be the last one before a crash: what was noted and never became LIVE is deleted like the superseded.
Reading the rows: `console.report.queue_rows`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import posixpath
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from django.conf import settings
from django.db.models import Q
from fsspec.implementations.local import LocalFileSystem

from console.report.jobs import DAY_MS, HOUR_MS, PERIODS_MS
from console.report.models import QueueRowFile, ReportRun

logger = logging.getLogger(__name__)

State = QueueRowFile.State
PARTS = "part-*-queue-*.parquet"  # as `spark.part_files` names them; the order of names is that of windows and groups
GRACE_MS = HOUR_MS  # who listed a file before it was superseded has read it by then
DELETED_AT_ONCE = 2_000  # after one run: a console that was off for long catches up over several
BLOCK_BYTES = 4 * 1024 * 1024
UNREADABLE = (pa.ArrowException, OSError, EOFError, KeyError, ValueError)


def parts_of(folder: Path) -> list[Path]:
    """The files of single queues in the folder of a job's output, in the order of their rows."""
    return sorted(folder.glob(PARTS))


def bring(run: ReportRun, parts: Sequence[Path], now_ms: int) -> list[QueueRowFile]:
    """Note the files of a run and bring them, durably, to where they are read; the caller then calls `publish`. Raises
    OSError and pyarrow's errors.
    """
    files = [_noted(run, number, part, now_ms) for number, part in enumerate(parts)]
    QueueRowFile.objects.bulk_create(files)
    for file, part in zip(files, parts, strict=True):
        file.sha256 = _digest(part)
        _move(part, location(file))
    return files


def publish(run: ReportRun, files: Sequence[QueueRowFile], periods: Sequence[int], now_ms: int) -> int:
    """Let files take the place of what was there of the run's periods; in the caller's transaction. Returns how many
    rows they have.
    """
    before = QueueRowFile.objects.filter(
        cluster=run.cluster, job=run.job, window_start_ms__in=periods, state__in=[State.LIVE, State.DAMAGED]
    )
    before.update(state=State.SUPERSEDED, superseded_at_ms=now_ms)
    for file in files:
        file.state, file.created_at_ms = State.LIVE, now_ms
    QueueRowFile.objects.bulk_update(files, ["state", "created_at_ms", "sha256"], batch_size=200)
    return sum(file.rows for file in files)


def tend(cluster: str, now_ms: int) -> int:
    """Delete files that were superseded, never published, or outlived their time; how many. A file goes before its row:
    a crash in between leaves a row, and the next run deletes it.
    """
    unwanted = (
        Q(state=State.SUPERSEDED, superseded_at_ms__lt=now_ms - GRACE_MS)
        | Q(state=State.WRITING, created_at_ms__lt=now_ms - GRACE_MS)
        | Q(job="lag_hour", window_start_ms__lt=now_ms - settings.REPORT_QUEUE_DAYS * DAY_MS)
    )
    files = list(QueueRowFile.objects.filter(unwanted, cluster=cluster)[:DELETED_AT_ONCE])
    for file in files:
        filesystem, path = fsspec.core.url_to_fs(location(file))
        with suppress(FileNotFoundError):
            filesystem.rm(path)
        file.delete()
    return len(files)


def location(file: QueueRowFile) -> str:
    """A local path, or an fsspec address."""
    return f"{str(settings.REPORTS_URL).rstrip('/').removeprefix('file://')}/{file.path}"


def what_is_wrong(file: QueueRowFile, error: Exception) -> str:
    """Why a file could not be read. One that is not what its row says is marked as damaged, and not opened again."""
    filesystem, path = fsspec.core.url_to_fs(location(file))
    try:
        if not filesystem.exists(path):
            problem = "it is gone: it was removed from the storage"
        elif _digest_at(filesystem, path) != file.sha256:
            problem = f"it has {filesystem.size(path)} bytes with another checksum than when it was made"
        else:
            return f"it cannot be read now ({type(error).__name__}: {error})"[
                : QueueRowFile.REASON_LENGTH_MAX
            ]
    except OSError as away:
        return f"its storage does not answer ({away})"[: QueueRowFile.REASON_LENGTH_MAX]
    if QueueRowFile.objects.filter(pk=file.pk, state=State.LIVE).update(state=State.DAMAGED, reason=problem):
        logger.error(
            "report file is damaged cluster=%s job=%s path=%s reason=%s",
            file.cluster, file.job, file.path, problem,
        )  # fmt: skip
    return problem


def _noted(run: ReportRun, number: int, part: Path, now_ms: int) -> QueueRowFile:
    """What is to be known of a file without opening it; its rows are in order, so the ends say it."""
    with pq.ParquetFile(part) as parquet:
        last = parquet.metadata.num_row_groups - 1
        ends = ["window_start_ms", "window_end_ms", "group"]
        head, tail = (parquet.read_row_group(group, ends) for group in (0, last))
        rows = parquet.metadata.num_rows
    start_ms = head["window_start_ms"][0].as_py()
    start = datetime.fromtimestamp(start_ms / 1000, UTC)
    folder = f"queues/job={run.job}/cluster={run.cluster}/date={start:%Y-%m-%d}"
    folder += f"/hour={start:%H}" if PERIODS_MS[run.job] == HOUR_MS else ""
    return QueueRowFile(
        path=f"{folder}/{run.pk}-{run.attempts}-{number:05}.parquet",
        run=run,
        job=run.job,
        cluster=run.cluster,
        window_start_ms=start_ms,
        window_end_ms=head["window_end_ms"][0].as_py(),
        group_first=head["group"][0].as_py(),
        group_last=tail["group"][-1].as_py(),
        rows=rows,
        bytes=part.stat().st_size,
        code_version=settings.CODE_VERSION,
        created_at_ms=now_ms,
    )


def _move(part: Path, target: str) -> None:
    filesystem, path = fsspec.core.url_to_fs(target)
    folder = posixpath.dirname(path)
    filesystem.makedirs(folder, exist_ok=True)
    if not isinstance(filesystem, LocalFileSystem):
        filesystem.put_file(str(part), path)
        return
    shutil.move(part, path)
    for each in (path, folder):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _digest(part: Path) -> str:
    with part.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_at(filesystem: Any, path: str) -> str:
    digest = hashlib.sha256()
    with filesystem.open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
