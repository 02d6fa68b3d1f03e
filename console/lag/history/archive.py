"""Turn the log into hour files, hour files into day files, and delete them: history after it is durable.

A file exists when its row in `HistoryFile` is LIVE, and a row changes only when its file is as the row says:

    log segments (5 min)   ->  hour file  ->  day file (hours of a series side by side)  ->  deleted
       kept 48 h                kept until its day is merged, and `GRACE_MS`              after HISTORY_DAYS

Files are made under the cluster's lease (`history.compaction_lease`), from the log of all hosts as far as this one
can read it; nothing is superseded that was not read. Every step may be the last one before a crash; running it again
gives the same result. A damaged file is moved beside the history, its row has the reason, and everything else goes on;
an hour whose segments still exist is made again from them.
"""

import io
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import IO, Any, cast

import pyarrow as pa
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from console.lag.history import client_positions, compaction_lease, owners, uploads
from console.lag.history.log import (
    HistoryLog,
    Kind,
    State,
    location_of,
    quarantine,
    readable,
    stored_location,
)
from console.lag.models import ClientPosition, HistoryFile, HistoryGap, HistoryLease, LagEvent
from console.text import Text
from console.text.value import Duration
from spark.lag.history import chunk, compaction, files, wal
from spark.lag.history.chunk import Written
from spark.lag.history.compaction import DayMerge, MergeInput
from spark.lag.history.files import StorageError
from spark.lag.local_time import DAY_MS, HOUR_MS
from spark.lag.snapshot import Snapshot

logger = logging.getLogger(__name__)

# A round that began in an hour is on disk a minute after it.
COMPACT_AFTER_MS = 60_000
# The last hour of a day is made by then.
MERGE_AFTER_MS = 15 * 60_000
# lag.md 3.3
WAL_KEPT_MS = 48 * HOUR_MS
# A reader that listed a file before it was superseded has finished by then.
GRACE_MS = HOUR_MS
# Rows of deleted files, to find out where a file went.
ROWS_KEPT_MS = 30 * DAY_MS
# With their reports; a year and a month.
EVENTS_KEPT_MS = 400 * DAY_MS
# If so many files are missing at once, the storage is away; removed by hand they would hardly be.
OTHERS_LOOKED_AT = 10
# A day of more than twice this is cut into buckets (lag.md 3.3: 64 to 256 MB a file): to read one group, the footer of
# one bucket is read.
BUCKET_BYTES = 128 * 1024 * 1024
# Of its hour files is about a day: rows of a series side by side are smaller.
MERGED_SHARE = 0.8
UNREADABLE = (pa.ArrowException, wal.WalError, OSError, EOFError)


class SourcesGone(Exception):
    """Report that an hour would lose rounds if it were made again: segments of some are deleted."""


def clusters_with_history() -> list[str]:
    """Return the clusters that have files to maintain, including removed clusters."""
    rows = HistoryFile.objects.filter(state=State.LIVE)
    return sorted(rows.order_by("cluster").values_list("cluster", flat=True).distinct())


def hours_to_compact(cluster: str, now_ms: int) -> list[int]:
    """Return the hours that are over and have log segments of their own that this host can read.

    An hour waits for the segments that another host is about to upload, not for those of a host that is down.
    """
    over_ms = now_ms - COMPACT_AFTER_MS
    rows = HistoryFile.objects.filter(readable(), cluster=cluster, kind=Kind.WAL, state=State.LIVE)
    awaited = uploads.absent(cluster).filter(uploads.still_awaited(now_ms))
    starts, waiting = (_hours(found) for found in (rows, awaited))
    return sorted(start for start in starts - waiting if start + HOUR_MS <= over_ms)


def _hours(rows: "QuerySet[HistoryFile]") -> set[int]:
    return {start - start % HOUR_MS for start in rows.values_list("ts_lo_ms", flat=True)}


def compact_hour(cluster: str, hour_ms: int, *, interval_ms: int, now_ms: int) -> HistoryFile | None:
    """Make the hour's log into one chunk.

    1. Close this host's segments, upload them. 2. Read every segment of the hour that can be read, superseded ones too.
    3. Write the chunk under the next generation's name and read it back. 4. In one transaction: confirm the lease, list
    the chunk, mark the segments that were read and older generations superseded. Until 4 readers use the segments.
    Returns None when the hour holds nothing. Raises LeaseTaken, LeaseLost.
    """
    with compaction_lease.held(cluster, now_ms) as lease:
        _clear_abandoned(cluster)
        HistoryLog(cluster).close_before(hour_ms + HOUR_MS)
        uploads.upload_closed(cluster, now_ms)
        rows = HistoryFile.objects.filter(
            cluster=cluster, ts_lo_ms__gte=hour_ms, ts_hi_ms__lte=hour_ms + HOUR_MS
        )
        segments = _segments_of(rows, lease)
        made = None
        if any(segments.values()):
            snapshots = _in_order(segments.values())
            previous = _last_before(cluster, hour_ms)
            made = _written(
                _reserved(cluster, Kind.CHUNK_HOUR, hour_ms, now_ms),
                lambda sink: compaction.write_hour(
                    snapshots, sink, interval_ms=interval_ms, previous=previous
                ),
                lease,
            )
        with _unlisted_on_error([] if made is None else [made]), transaction.atomic():
            lease.confirm()
            _supersede(rows.filter(kind=Kind.CHUNK_HOUR), now_ms)
            _supersede(HistoryFile.objects.filter(pk__in=segments), now_ms)
            if made is not None:
                _list(made)
    count = sum(map(len, segments.values()))
    logger.info("compacted cluster=%s hour_ms=%d snapshots=%d", cluster, hour_ms, count)
    return made


def keep_hour(
    cluster: str,
    hour_ms: int,
    snapshots: Sequence[Snapshot],
    *,
    interval_ms: int,
    previous: Snapshot | None,
    now_ms: int,
) -> HistoryFile:
    """List an hour of rounds that were in no log as a chunk; `previous` is the last round before them.

    Raises LeaseTaken, LeaseLost.
    """
    with compaction_lease.held(cluster, now_ms) as lease:
        _clear_abandoned(cluster)
        made = _written(
            _reserved(cluster, Kind.CHUNK_HOUR, hour_ms, now_ms),
            lambda sink: compaction.write_hour(snapshots, sink, interval_ms=interval_ms, previous=previous),
            lease,
        )
        with _unlisted_on_error([made]), transaction.atomic():
            lease.confirm()
            _list(made)
    return made


def drop_cluster(cluster: str, *, now_ms: int) -> None:
    """Delete all files of a cluster, then their rows, events and gaps. Raises LeaseTaken."""
    with compaction_lease.held(cluster, now_ms) as lease:
        rows = HistoryFile.objects.filter(cluster=cluster)
        for row in rows.exclude(state=State.DELETED):
            lease.renew_if_due()
            files.remove(location_of(row))
        for kind in (Kind.CHUNK_HOUR, Kind.CHUNK_DAY):
            files.remove_folder(stored_location(_folder(kind, cluster)))
        for model in (HistoryFile, HistoryGap, LagEvent, ClientPosition):
            model._default_manager.filter(cluster=cluster).delete()
    HistoryLease.objects.filter(cluster=cluster, until_ms=0).delete()


def _folder(kind: HistoryFile.Kind, cluster: str) -> str:
    return f"kind={kind.value}/cluster={cluster}"


def _segments_of(
    rows: "QuerySet[HistoryFile]", lease: compaction_lease.CompactionLease
) -> dict[int, list[Snapshot]]:
    """Return the rounds of each segment of an hour that can be read, by the row's key.

    Raises SourcesGone when that would take rounds out of the history: a chunk has them, and their segments are gone.
    """
    found: dict[int, list[Snapshot]] = {}
    logs = rows.filter(readable(), kind=Kind.WAL)
    gone = logs.filter(state=State.DELETED).count()
    names: wal.SegmentState | None = None  # segment after segment mostly names the same series
    for row in logs.filter(state__in=[State.LIVE, State.SUPERSEDED]).order_by("ts_lo_ms", "pk"):
        lease.renew_if_due()
        was_live = row.state == State.LIVE
        segment = _segment(row, names)
        found[row.pk] = [] if segment is None else segment.snapshots
        if segment is not None:
            names = segment.state
        elif not was_live and not files.exists(location_of(row)):
            gone += 1
    if gone and _is_in_chunk(rows):
        raise SourcesGone(f"{gone} segments of the hour are gone, and a file that was made of them is not")
    return found


def _is_in_chunk(hour: "QuerySet[HistoryFile]") -> bool:
    first = hour.order_by("ts_lo_ms").first()
    if first is None:
        return False
    start_ms = first.ts_lo_ms - first.ts_lo_ms % HOUR_MS
    chunks = HistoryFile.objects.filter(cluster=first.cluster, state=State.LIVE).exclude(kind=Kind.WAL)
    return chunks.filter(ts_lo_ms__lte=start_ms, ts_hi_ms__gt=start_ms).exists()


def _in_order(segments: Iterable[Sequence[Snapshot]]) -> list[Snapshot]:
    """Return rounds of all hosts in time order; of two at one moment the one with the higher number."""
    by_time = {one.ts_ms: one for one in sorted(chain(*segments), key=lambda one: one.number)}
    return [by_time[ts_ms] for ts_ms in sorted(by_time)]


def days_to_merge(cluster: str, now_ms: int) -> list[int]:
    """Return the days that are over, whose log is in hour files, and that have hour files of their own.

    What a silent host has not uploaded is not waited for: it makes new hour files, and they the day again.
    """
    hours = HistoryFile.objects.filter(cluster=cluster, kind=Kind.CHUNK_HOUR, state=State.LIVE)
    logs = HistoryFile.objects.filter(
        readable() | uploads.still_awaited(now_ms), cluster=cluster, kind=Kind.WAL, state=State.LIVE
    )
    logged = {start - start % DAY_MS for start in logs.values_list("ts_lo_ms", flat=True)}
    days = {start - start % DAY_MS for start in hours.values_list("ts_lo_ms", flat=True)}
    return sorted(day for day in days - logged if day + DAY_MS + MERGE_AFTER_MS <= now_ms)


def merge_day(cluster: str, day_ms: int, *, now_ms: int) -> list[HistoryFile]:
    """Put the hour files of a day into one file, sorted by series, or into several, each of some groups.

    Earlier files of the day come first, so that hours which were made again replace their part of it. The steps are
    those of `compact_hour`; an hour file that cannot be read is set aside and the day made from the rest. Returns the
    new files, none when no file of the day can be read. Raises LeaseTaken, LeaseLost.
    """
    with compaction_lease.held(cluster, now_ms) as lease:
        _clear_abandoned(cluster)
        rows = HistoryFile.objects.filter(
            cluster=cluster,
            kind__in=[Kind.CHUNK_HOUR, Kind.CHUNK_DAY],
            state=State.LIVE,
            ts_lo_ms__gte=day_ms,
            ts_hi_ms__lte=day_ms + DAY_MS,
        )
        for row in rows:
            lease.renew_if_due()
            quarantine_if_damaged(row, now_ms, or_gone=True)
        merged = sorted(
            rows.all(), key=lambda row: (row.kind != Kind.CHUNK_DAY, row.ts_lo_ms, row.generation, row.bucket)
        )
        if not merged:
            return []
        inputs = [MergeInput(files.opened(location_of(row)), row.ts_lo_ms, row.ts_hi_ms) for row in merged]
        buckets = max(1, round(MERGED_SHARE * sum(row.bytes for row in merged) / BUCKET_BYTES))
        try:
            made = _written_buckets(cluster, day_ms, now_ms, DayMerge(inputs, buckets), lease)
        finally:
            for one in inputs:
                one.source.close()
        with _unlisted_on_error(made), transaction.atomic():
            lease.confirm()
            _supersede(HistoryFile.objects.filter(pk__in=[row.pk for row in merged]), now_ms)
            for row in made:
                _list(row)
    size_bytes = sum(row.bytes for row in made)
    logger.info(
        "merged cluster=%s day_ms=%d files=%d buckets=%d bytes=%d",
        cluster, day_ms, len(merged), len(made), size_bytes,
    )  # fmt: skip
    return made


def _written_buckets(
    cluster: str, day_ms: int, now_ms: int, merge: DayMerge, lease: compaction_lease.CompactionLease
) -> list[HistoryFile]:
    made: list[HistoryFile] = []
    generation = _next_generation(cluster, Kind.CHUNK_DAY, day_ms)
    with _unlisted_on_error(made):
        while not made or not merge.is_done:
            row = _reserved(cluster, Kind.CHUNK_DAY, day_ms, now_ms, bucket=len(made), generation=generation)

            def write(sink: IO[bytes], row: HistoryFile = row) -> Written:
                bucket = merge.write_bucket(sink)
                row.group_lo, row.group_hi = bucket.group_lo, bucket.group_hi
                return bucket.written

            made.append(_written(row, write, lease))
    return made


def _supersede(rows: "QuerySet[HistoryFile]", now_ms: int) -> None:
    rows.filter(state=State.LIVE).update(state=State.SUPERSEDED, superseded_at_ms=now_ms)


def _next_generation(cluster: str, kind: HistoryFile.Kind, start_ms: int) -> int:
    older = HistoryFile.objects.filter(cluster=cluster, kind=kind, ts_lo_ms=start_ms).order_by("-generation")
    newest = older.values_list("generation", flat=True).first()
    return 1 if newest is None else newest + 1


def _reserved(
    cluster: str,
    kind: HistoryFile.Kind,
    start_ms: int,
    now_ms: int,
    *,
    bucket: int = 0,
    generation: int | None = None,
) -> HistoryFile:
    """Reserve the name of a file to be made; return its row.

    A new generation has a new name, so no file is ever changed. The row reserves it, so that a process which lost its
    lease in the middle cannot write a file that another process lists.
    """
    span_ms = HOUR_MS if kind == Kind.CHUNK_HOUR else DAY_MS
    generation = generation or _next_generation(cluster, kind, start_ms)
    start = datetime.fromtimestamp(start_ms / 1000, UTC)
    folder = f"{_folder(kind, cluster)}/date={start:%Y-%m-%d}"
    folder += f"/hour={start:%H}" if kind == Kind.CHUNK_HOUR else ""
    row = HistoryFile(
        path=f"{folder}/b={bucket}-g{generation}.parquet",
        bucket=bucket,
        kind=kind,
        cluster=cluster,
        ts_lo_ms=start_ms,
        ts_hi_ms=start_ms + span_ms,
        generation=generation,
        state=State.WRITING,
        created_at_ms=now_ms,
    )
    row.save(force_insert=True)
    return row


def _written(
    row: HistoryFile, write: Callable[[IO[bytes]], Written], lease: compaction_lease.CompactionLease
) -> HistoryFile:
    """Write the file of a row and fill in its size, checksum and counts."""

    def renewing(sink: IO[bytes]) -> Written:
        return write(cast(IO[bytes], _RenewingSink(sink, lease)))

    with _unlisted_on_error([row]):
        made, row.bytes, row.sha256 = files.write_new(stored_location(row.path), renewing)
    row.rows, row.samples = made.rows, made.samples
    return row


class _RenewingSink(io.RawIOBase):
    """Renew the lease while a large file is written."""

    def __init__(self, sink: IO[bytes], lease: compaction_lease.CompactionLease) -> None:
        self._sink = sink
        self._lease = lease

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._lease.renew_if_due()
        return self._sink.write(data)

    def tell(self) -> int:
        return self._sink.tell()


def _list(row: HistoryFile) -> None:
    row.state = State.LIVE
    row.save(force_update=True)


@contextmanager
def _unlisted_on_error(rows: Sequence[HistoryFile]) -> Iterator[None]:
    """Release the names of files that were not listed, and remove what was written of them."""
    try:
        yield
    except Exception:
        for row in rows:
            with suppress(OSError):
                files.remove(stored_location(row.path))
            HistoryFile.objects.filter(pk=row.pk, state=State.WRITING).delete()
        raise


def _clear_abandoned(cluster: str) -> None:
    """Remove files of processes that died while they wrote. Called by the lease's holder before it writes.

    The name stays reserved: a process that was only suspended may still write there.
    """
    for row in HistoryFile.objects.filter(cluster=cluster, state=State.WRITING):
        files.remove(stored_location(row.path))
        HistoryFile.objects.filter(pk=row.pk, state=State.WRITING).update(
            state=State.DELETED, reason=Text("its writer stopped before the file was complete")
        )


def quarantine_if_damaged(row: HistoryFile, now_ms: int, *, or_gone: bool = False) -> bool:
    """Check a file; if it does not match its row, set it aside with the reason. Returns whether it was.

    A missing file is no damage for a reader: it was superseded or expired meanwhile. The maintenance of files
    (`or_gone`) treats it as removed by hand. A storage that does not answer proves nothing: StorageError.
    """
    location = location_of(row)
    try:
        problem = _damage(row, location)
    except FileNotFoundError:
        if or_gone and not _is_storage_away(row):
            gone = Text("it is gone: the manifest lists it and the storage does not have it")
            quarantine(row, gone, now_ms)
        elif or_gone:
            raise StorageError(
                f"{location} and other files of the history are not there: mount or correct HISTORY_URL"
            ) from None
        return or_gone
    if problem:
        quarantine(row, problem, now_ms)
    return bool(problem)


def _damage(row: HistoryFile, location: str) -> Text:
    """Return why a file does not match its row, empty if it does. Raises FileNotFoundError, StorageError."""
    try:
        if row.kind == Kind.WAL:
            wal.decode_header(files.read(location)[: wal.HEADER_BYTES_MAX])
            return Text()
        size, digest = files.digest(location)
        if row.sha256 and digest != row.sha256:
            return Text("has %(number)s bytes with another checksum than when it was made", number=str(size))
        with files.opened(location) as file:
            chunk.check_format(file)
    except (FileNotFoundError, StorageError):
        raise
    except UNREADABLE as error:
        return Text.foreign(f"{type(error).__name__}: {error}")
    return Text()


def _is_storage_away(row: HistoryFile) -> bool:
    """Return whether other files are missing too: a volume that is not mounted, another bucket."""
    others = HistoryFile.objects.filter(state=State.LIVE).exclude(kind=Kind.WAL).exclude(pk=row.pk)
    sample = list(others.order_by("-ts_lo_ms")[:OTHERS_LOOKED_AT])
    return bool(sample) and not any(files.exists(stored_location(one.path)) for one in sample)


def _segment(row: HistoryFile, names: wal.SegmentState | None = None) -> wal.Segment | None:
    """Return a segment that is not empty; damage is recorded in its row. Raises StorageError."""
    try:
        data = files.read(location_of(row))
        if len(data) < wal.SEGMENT_HEADER.size:
            return None
        segment = wal.read_segment(data, names)
    except FileNotFoundError:
        if row.uploaded_at_ms and _is_storage_away(row):
            raise StorageError(
                f"{location_of(row)} and other files are not there: correct HISTORY_URL"
            ) from None
        logger.warning("log segment is gone cluster=%s path=%s", row.cluster, row.path)
        return None
    except StorageError:
        raise
    except UNREADABLE as error:
        quarantine(row, Text.foreign(f"{type(error).__name__}: {error}"), row.ts_hi_ms)
        return None
    if segment.damaged:
        reason = Text(
            "damaged at byte %(position)s of %(bytes)s: the rounds behind it are lost",
            position=str(segment.state.position),
            bytes=str(len(data)),
        )
        HistoryFile.objects.filter(pk=row.pk).update(reason=reason)
        logger.error("log segment is damaged cluster=%s path=%s reason=%s", row.cluster, row.path, reason)
    return segment


def _last_before(cluster: str, hour_ms: int) -> Snapshot | None:
    """Return the last round before the hour that is in a segment, however old."""
    rows = HistoryFile.objects.filter(
        readable(),
        cluster=cluster,
        kind=Kind.WAL,
        ts_hi_ms__lte=hour_ms,
        state__in=[State.LIVE, State.SUPERSEDED],
    )
    found: Snapshot | None = None
    for row in rows.order_by("-ts_hi_ms"):
        if found is not None and row.ts_hi_ms <= found.ts_ms:
            break
        segment = _segment(row)
        if segment is not None and segment.snapshots:
            found = max([*filter(None, [found]), segment.snapshots[-1]], key=lambda one: one.ts_ms)
    return found


def delete_expired(now_ms: int) -> int:
    """Delete expired files, then old rows, events and gaps; return how many files.

    A file is deleted before its row is marked, never the reverse.
    """
    history_ms = settings.HISTORY_DAYS * DAY_MS
    files = HistoryFile.objects.exclude(state=State.DELETED)
    old = files.filter(ts_hi_ms__lt=now_ms - history_ms).exclude(kind=Kind.WAL, state=State.LIVE)
    logs = files.filter(kind=Kind.WAL, state=State.SUPERSEDED, ts_hi_ms__lt=now_ms - WAL_KEPT_MS)
    replaced = files.exclude(kind=Kind.WAL).filter(
        state=State.SUPERSEDED, superseded_at_ms__lt=now_ms - GRACE_MS
    )
    given_up = old_logs_elsewhere(now_ms - history_ms)
    count = sum(_delete(rows) for rows in (old, logs, replaced))
    given_up.update(state=State.DELETED, reason=Text("its host never uploaded it"))
    HistoryFile.objects.filter(state=State.DELETED, ts_hi_ms__lt=now_ms - history_ms - ROWS_KEPT_MS).delete()
    LagEvent.objects.filter(at_ms__lt=now_ms - EVENTS_KEPT_MS).delete()
    HistoryGap.objects.filter(to_ms__lt=now_ms - EVENTS_KEPT_MS).delete()
    owners.delete_expired(now_ms - EVENTS_KEPT_MS, now_ms)
    client_positions.delete_expired(now_ms)
    return count


def old_logs_elsewhere(before_ms: int) -> "QuerySet[HistoryFile]":
    """Return segments that ended before a moment and that this host could never read."""
    return HistoryFile.objects.filter(
        ~readable(), kind=Kind.WAL, state__in=[State.LIVE, State.SUPERSEDED], ts_hi_ms__lt=before_ms
    )


def _delete(rows: "QuerySet[HistoryFile]") -> int:
    """Delete files and mark their rows.

    A segment stays while another one of its hour is in no hour file yet: the hour is then made again from all of them.
    """
    awaited = {
        (row.cluster, row.ts_lo_ms - row.ts_lo_ms % HOUR_MS)
        for row in HistoryFile.objects.filter(kind=Kind.WAL, state=State.LIVE)
    }
    count = 0
    for row in rows:
        if row.kind == Kind.WAL and (row.cluster, row.ts_lo_ms - row.ts_lo_ms % HOUR_MS) in awaited:
            continue
        uploads.remove_copies(row)
        HistoryFile.objects.filter(pk=row.pk).update(state=State.DELETED)
        count += 1
    return count


def maintain(cluster: str, *, interval_ms: int, now_ms: int) -> int:
    """Make the hours and days that are due; return how many hours.

    One that fails does not delay the others: the error is logged and the next run tries again. An unreachable storage
    fails all of them, each after 20 s: the first failure ends the run.
    """
    made = 0
    try:
        for hour_ms in hours_to_compact(cluster, now_ms):
            work = partial(compact_hour, cluster, hour_ms, interval_ms=interval_ms, now_ms=now_ms)
            made += _is_done(f"cluster={cluster} hour_ms={hour_ms}", work)
        for day_ms in days_to_merge(cluster, now_ms):
            _is_done(f"cluster={cluster} day_ms={day_ms}", partial(merge_day, cluster, day_ms, now_ms=now_ms))
    except StorageError:
        logger.exception("history was not tended cluster=%s", cluster)
    return made


def _is_done(what: str, work: Callable[[], object]) -> bool:
    try:
        work()
    except compaction_lease.LeaseTaken:
        logger.info("history is being tended by another process %s", what)
        return False
    except StorageError:
        raise
    # Such as a full disk.
    except (*UNREADABLE, compaction_lease.LeaseLost, SourcesGone):
        logger.exception("history was not tended %s", what)
        return False
    return True


def set_aside_future(cluster: str, now_ms: int) -> None:
    """Quarantine this host's log segments that end after now: its clock was ahead, their times are wrong."""
    HistoryLog(cluster).reopen(now_ms - now_ms % wal.SEGMENT_MS)
    own = HistoryFile.objects.filter(host__in=["", settings.HOST_ID])
    rows = own.filter(cluster=cluster, kind=Kind.WAL, state=State.LIVE, ts_hi_ms__gt=now_ms)
    for row in rows:
        ahead_s = (row.ts_hi_ms - now_ms) // 1000
        ahead = Text(
            "ends %(time)s after now: it was written while the clock was ahead", time=Duration(1000 * ahead_s)
        )
        quarantine(row, ahead, now_ms)
