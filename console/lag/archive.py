"""From the log to hour files, from hour files to day files, and out again: what happens to history after it is durable.

A file exists when its row in `HistoryFile` commits, and a row changes only when its file is as the row says:

    log segments (5 min)   ->  hour file  ->  day file (hours of a series side by side)  ->  deleted
       kept 48 h                kept until its day is merged, and `GRACE_MS`              after HISTORY_DAYS

Every step may be the last one before a crash; running it again ends the same. A file that turns out to be damaged is
moved beside the history, its row says why, and everything else goes on; an hour whose segments still exist is made
again from them.
"""

import hashlib
import logging
import os
import posixpath
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

import fsspec
import pyarrow as pa
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from console.lag.history import HOUR_MS, Kind, State, file_location, quarantine
from console.lag.models import HistoryFile, HistoryGap, LagEvent
from spark.lag import chunk, compaction, wal
from spark.lag.chunk import Written
from spark.lag.compaction import DayMerge, MergeInput
from spark.lag.snapshot import Snapshot

logger = logging.getLogger(__name__)

DAY_MS = 24 * HOUR_MS
COMPACT_AFTER_MS = 60_000  # a round that began in an hour is on disk a minute after it
MERGE_AFTER_MS = 15 * 60_000  # the last hour of a day is made by then
WAL_KEPT_MS = 48 * HOUR_MS  # lag.md 3.3
GRACE_MS = HOUR_MS  # a reader that listed a file before it was superseded has finished
ROWS_KEPT_MS = 30 * DAY_MS  # rows of deleted files, for whoever asks where a file went
EVENTS_KEPT_MS = 400 * DAY_MS  # with their reports; a year and a month
BLOCK_BYTES = 4 * 1024 * 1024
# A day of more than twice this is cut into buckets (lag.md 3.3: 64 to 256 MB a file): who asks for one group reads the
# footer of one of them.
BUCKET_BYTES = 128 * 1024 * 1024
MERGED_SHARE = 0.8  # of its hour files is about a day: rows of a series side by side are smaller
UNREADABLE = (pa.ArrowException, wal.WalError, OSError, EOFError)


def clusters_with_history() -> list[str]:
    """Return the clusters that have files to look after, removed ones too."""
    rows = HistoryFile.objects.filter(state=State.LIVE)
    return sorted(rows.order_by("cluster").values_list("cluster", flat=True).distinct())


def hours_to_compact(cluster: str, now_ms: int) -> list[int]:
    """Return the hours that are over and still have log segments of their own."""
    over_ms = now_ms - COMPACT_AFTER_MS
    rows = HistoryFile.objects.filter(cluster=cluster, kind=Kind.WAL, state=State.LIVE)
    starts = rows.values_list("ts_lo_ms", flat=True)
    return sorted(
        {start - start % HOUR_MS for start in starts if start - start % HOUR_MS + HOUR_MS <= over_ms}
    )


def compact_hour(cluster: str, hour_ms: int, *, interval_ms: int, now_ms: int) -> HistoryFile | None:
    """Make the hour's log into one chunk.

    1. Read every segment of the hour, superseded ones too. 2. Write the chunk under the next generation's name and
    read it back. 3. In one transaction: insert its manifest row, mark the segments and older generations superseded.
    Until 3 readers use the segments. Returns None when the hour holds nothing.
    """
    rows = HistoryFile.objects.filter(cluster=cluster, ts_lo_ms__gte=hour_ms, ts_hi_ms__lte=hour_ms + HOUR_MS)
    segments = list(rows.filter(kind=Kind.WAL, state__in=[State.LIVE, State.SUPERSEDED]).order_by("ts_lo_ms"))
    snapshots: list[Snapshot] = []
    names: wal.SegmentState | None = None  # segment after segment mostly names the same series
    for row in segments:
        segment = _segment(row, names)
        if segment is not None:
            names = segment.state
            snapshots += segment.snapshots
    made = None
    if snapshots:
        previous = _last_before(cluster, hour_ms)
        made = _written(
            _chunk_row(cluster, Kind.CHUNK_HOUR, hour_ms, now_ms),
            lambda sink: compaction.write_hour(snapshots, sink, interval_ms=interval_ms, previous=previous),
        )
    with transaction.atomic():
        _supersede(rows.filter(kind=Kind.CHUNK_HOUR), now_ms)
        _supersede(HistoryFile.objects.filter(pk__in=[row.pk for row in segments]), now_ms)
        if made is not None:
            made.save(force_insert=True)
    logger.info("compacted cluster=%s hour_ms=%d snapshots=%d", cluster, hour_ms, len(snapshots))
    return made


def days_to_merge(cluster: str, now_ms: int) -> list[int]:
    """Return the days that are over, whose log is in hour files, and that have hour files of their own."""
    hours = HistoryFile.objects.filter(cluster=cluster, kind=Kind.CHUNK_HOUR, state=State.LIVE)
    logs = HistoryFile.objects.filter(cluster=cluster, kind=Kind.WAL, state=State.LIVE)
    logged = {start - start % DAY_MS for start in logs.values_list("ts_lo_ms", flat=True)}
    days = {start - start % DAY_MS for start in hours.values_list("ts_lo_ms", flat=True)}
    return sorted(day for day in days - logged if day + DAY_MS + MERGE_AFTER_MS <= now_ms)


def merge_day(cluster: str, day_ms: int, *, now_ms: int) -> list[HistoryFile]:
    """Put the hour files of a day into one file, sorted by series, or into several, each of some groups.

    The day's files of before come first, so that hours which were made again replace their part of it. The same three
    steps as `compact_hour`; an hour file that cannot be read is set aside and the day made from the rest. Returns the
    new files, none when no file of the day can be read.
    """
    rows = HistoryFile.objects.filter(
        cluster=cluster,
        kind__in=[Kind.CHUNK_HOUR, Kind.CHUNK_DAY],
        state=State.LIVE,
        ts_lo_ms__gte=day_ms,
        ts_hi_ms__lte=day_ms + DAY_MS,
    )
    for row in rows:
        quarantine_if_damaged(row, now_ms, or_gone=True)
    files = sorted(
        rows.all(), key=lambda row: (row.kind != Kind.CHUNK_DAY, row.ts_lo_ms, row.generation, row.bucket)
    )
    if not files:
        return []
    inputs = [
        MergeInput(chunk.opened(file_location(row.path, row.kind)), row.ts_lo_ms, row.ts_hi_ms)
        for row in files
    ]
    buckets = max(1, round(MERGED_SHARE * sum(row.bytes for row in files) / BUCKET_BYTES))
    try:
        made = _written_buckets(cluster, day_ms, now_ms, DayMerge(inputs, buckets))
    finally:
        for one in inputs:
            one.source.close()
    with transaction.atomic():
        _supersede(HistoryFile.objects.filter(pk__in=[row.pk for row in files]), now_ms)
        for row in made:
            row.save(force_insert=True)
    size_bytes = sum(row.bytes for row in made)
    logger.info(
        "merged cluster=%s day_ms=%d files=%d buckets=%d bytes=%d",
        cluster, day_ms, len(files), len(made), size_bytes,
    )  # fmt: skip
    return made


def _written_buckets(cluster: str, day_ms: int, now_ms: int, merge: DayMerge) -> list[HistoryFile]:
    made: list[HistoryFile] = []
    while not made or not merge.is_done:
        row = _chunk_row(cluster, Kind.CHUNK_DAY, day_ms, now_ms, bucket=len(made))

        def write(sink: IO[bytes], row: HistoryFile = row) -> Written:
            bucket = merge.write_bucket(sink)
            row.group_lo, row.group_hi = bucket.group_lo, bucket.group_hi
            return bucket.written

        made.append(_written(row, write))
    return made


def _supersede(rows: "QuerySet[HistoryFile]", now_ms: int) -> None:
    rows.filter(state=State.LIVE).update(state=State.SUPERSEDED, superseded_at_ms=now_ms)


def _chunk_row(
    cluster: str, kind: HistoryFile.Kind, start_ms: int, now_ms: int, *, bucket: int = 0
) -> HistoryFile:
    """Return the row of a file to be made; a new generation has a new name, so that no file is ever changed."""
    span_ms = HOUR_MS if kind == Kind.CHUNK_HOUR else DAY_MS
    older = HistoryFile.objects.filter(cluster=cluster, kind=kind, ts_lo_ms=start_ms).order_by("-generation")
    newest = older.values_list("generation", flat=True).first()
    generation = 1 if newest is None else newest + 1
    start = datetime.fromtimestamp(start_ms / 1000, UTC)
    folder = f"kind={kind.value}/cluster={cluster}/date={start:%Y-%m-%d}"
    folder += f"/hour={start:%H}" if kind == Kind.CHUNK_HOUR else ""
    return HistoryFile(
        path=f"{folder}/b={bucket}-g{generation}.parquet",
        bucket=bucket,
        kind=kind,
        cluster=cluster,
        ts_lo_ms=start_ms,
        ts_hi_ms=start_ms + span_ms,
        generation=generation,
        created_at_ms=now_ms,
    )


def _written(row: HistoryFile, write: Callable[[IO[bytes]], Written]) -> HistoryFile:
    """Write the file of a row, make it durable, read it back, and fill in what it turned out to be."""
    location = file_location(row.path, row.kind)
    filesystem, path = fsspec.core.url_to_fs(location)
    filesystem.makedirs(posixpath.dirname(path), exist_ok=True)
    with filesystem.open(path, "wb") as file:
        made = write(file)
        if isinstance(filesystem, fsspec.implementations.local.LocalFileSystem):
            file.flush()
            os.fsync(file.fileno())
    row.rows, row.samples = made.rows, made.samples
    row.bytes, row.sha256 = _digest(filesystem, path)
    return row


def _digest(filesystem: Any, path: str) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with filesystem.open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()


def quarantine_if_damaged(row: HistoryFile, now_ms: int, *, or_gone: bool = False) -> bool:
    """Look at a file; when it is not what its row says, set it aside and say why. Returns whether it was.

    A file that is gone is no damage for a reader: it was superseded or expired meanwhile. Whoever looks after the files
    (`or_gone`) knows better: it was removed by hand.
    """
    filesystem, path = fsspec.core.url_to_fs(file_location(row.path, row.kind))
    if not filesystem.exists(path):
        if or_gone:
            quarantine(row, "it is gone: the manifest lists it and the storage does not have it", now_ms)
        return or_gone
    problem = ""
    try:
        if row.sha256:
            size, digest = _digest(filesystem, path)
            if digest != row.sha256:
                problem = f"has {size} bytes with another checksum than when it was made"
            with filesystem.open(path, "rb") as file:
                chunk.check_format(file)
        else:
            with filesystem.open(path, "rb") as file:
                wal.decode_header(file.read(wal.HEADER_BYTES_MAX))
    except UNREADABLE as error:
        problem = problem or f"{type(error).__name__}: {error}"
    if problem:
        quarantine(row, problem, now_ms)
    return bool(problem)


def _segment(row: HistoryFile, names: wal.SegmentState | None = None) -> wal.Segment | None:
    """Return a segment that holds something; what is wrong with it is noted in its row."""
    path = Path(file_location(row.path, Kind.WAL))
    try:
        data = path.read_bytes()
        if len(data) < wal.SEGMENT_HEADER.size:
            return None
        segment = wal.read_segment(data, names)
    except FileNotFoundError:
        logger.warning("log segment is gone cluster=%s path=%s", row.cluster, row.path)
        return None
    except UNREADABLE as error:
        quarantine(row, f"{type(error).__name__}: {error}", row.ts_hi_ms)
        return None
    if segment.damaged:
        reason = f"damaged at byte {segment.state.position} of {len(data)}: the rounds behind it are lost"
        HistoryFile.objects.filter(pk=row.pk).update(reason=reason)
        logger.error("log segment is damaged cluster=%s path=%s reason=%s", row.cluster, row.path, reason)
    return segment


def _last_before(cluster: str, hour_ms: int) -> Snapshot | None:
    """Return the last round of the segment that ends where the hour begins."""
    row = HistoryFile.objects.filter(
        cluster=cluster, kind=Kind.WAL, ts_hi_ms=hour_ms, state__in=[State.LIVE, State.SUPERSEDED]
    ).first()
    segment = None if row is None else _segment(row)
    return segment.snapshots[-1] if segment is not None and segment.snapshots else None


def delete_expired(now_ms: int) -> int:
    """Delete files that outlived their time; return how many. A file is deleted before its row says so, never the
    reverse. Old rows, events and gaps go too.
    """
    history_ms = settings.HISTORY_DAYS * DAY_MS
    files = HistoryFile.objects.exclude(state=State.DELETED)
    old = files.filter(ts_hi_ms__lt=now_ms - history_ms).exclude(kind=Kind.WAL, state=State.LIVE)
    logs = files.filter(kind=Kind.WAL, state=State.SUPERSEDED, ts_hi_ms__lt=now_ms - WAL_KEPT_MS)
    replaced = files.exclude(kind=Kind.WAL).filter(
        state=State.SUPERSEDED, superseded_at_ms__lt=now_ms - GRACE_MS
    )
    count = sum(_delete(rows) for rows in (old, logs, replaced))
    HistoryFile.objects.filter(state=State.DELETED, ts_hi_ms__lt=now_ms - history_ms - ROWS_KEPT_MS).delete()
    LagEvent.objects.filter(at_ms__lt=now_ms - EVENTS_KEPT_MS).delete()
    HistoryGap.objects.filter(to_ms__lt=now_ms - EVENTS_KEPT_MS).delete()
    return count


def _delete(rows: "QuerySet[HistoryFile]") -> int:
    count = 0
    for row in rows:
        filesystem, path = fsspec.core.url_to_fs(file_location(row.path, row.kind))
        with suppress(FileNotFoundError):
            filesystem.rm(path)
        HistoryFile.objects.filter(pk=row.pk).update(state=State.DELETED)
        count += 1
    return count


def tend(cluster: str, *, interval_ms: int, now_ms: int) -> int:
    """Make the hours and days that are due; return how many hours. One that fails does not keep the others waiting:
    the log says why, and the next run tries again.
    """
    made = 0
    for hour_ms in hours_to_compact(cluster, now_ms):
        work = partial(compact_hour, cluster, hour_ms, interval_ms=interval_ms, now_ms=now_ms)
        made += _is_done(f"cluster={cluster} hour_ms={hour_ms}", work)
    for day_ms in days_to_merge(cluster, now_ms):
        _is_done(f"cluster={cluster} day_ms={day_ms}", partial(merge_day, cluster, day_ms, now_ms=now_ms))
    return made


def _is_done(what: str, work: Callable[[], object]) -> bool:
    try:
        work()
    except UNREADABLE:  # a full disk, storage that is away
        logger.exception("history was not tended %s", what)
        return False
    return True


def set_aside_future(cluster: str, now_ms: int) -> None:
    """Quarantine log segments that reach beyond now: they were written while the clock was ahead, at wrong times."""
    rows = HistoryFile.objects.filter(cluster=cluster, kind=Kind.WAL, state=State.LIVE, ts_hi_ms__gt=now_ms)
    for row in rows:
        ahead_s = (row.ts_hi_ms - now_ms) // 1000
        quarantine(row, f"ends {ahead_s} s after now: it was written while the clock was ahead", now_ms)
