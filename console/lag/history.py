"""The history on disk: appending to the log, reading it back, making hour files, deleting old ones.

The log lies in `DATA_DIR/history/wal/<cluster>/<start in ms>.wal`, hour files under `HISTORY_URL`. The table
`HistoryFile` says which files exist; a log segment that a crash left unregistered is registered by the next
writer.
"""

import fcntl
import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import fsspec
import pyarrow as pa
from django.conf import settings
from django.db import transaction

from console.lag.models import HistoryFile
from spark.lag import chunk, wal
from spark.lag.snapshot import Snapshot

logger = logging.getLogger(__name__)

HOUR_MS = 3_600_000
COMPACT_AFTER_MS = 60_000  # a round that began in an hour is on disk a minute after it
WAL_KEPT_MS = 48 * HOUR_MS  # lag.md 3.3
CHUNKS_KEPT_MS = 90 * 24 * HOUR_MS

Kind, State = HistoryFile.Kind, HistoryFile.State


class HistoryMoved(Exception):
    """Somebody else wrote to the log meanwhile: this round's lease was lost, its snapshot is not written."""


def wal_folder(cluster: str) -> Path:
    """Return where a cluster's log segments lie."""
    return Path(settings.DATA_DIR) / "history" / "wal" / cluster


def file_location(path: str, kind: str) -> str:
    """Return what `chunk.load_window` opens for a manifest row: a local path or an fsspec URL."""
    if kind == Kind.WAL:
        return str(Path(settings.DATA_DIR) / "history" / path)
    base = str(settings.HISTORY_URL).rstrip("/")
    return f"{base.removeprefix('file://')}/{path}"


class HistoryLog:
    """One cluster's log as one process sees it. Caller: whoever holds the cluster's lease."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.folder = wal_folder(cluster)
        self.start_ms = -1
        self.state = wal.SegmentState()

    def catch_up(self, since_ms: int) -> list[Snapshot]:
        """Return the rounds this process has not seen, from `since_ms` at first, then what others appended.

        A torn tail is cut off, so that the next append follows a whole frame.
        """
        if not self.folder.is_dir():
            return []
        snapshots: list[Snapshot] = []
        is_first = self.start_ms < 0
        with self._locked():
            starts = sorted(int(path.stem) for path in self.folder.glob("*.wal"))
            unseen = [start_ms for start_ms in starts if start_ms > self.start_ms]
            for start_ms in starts:
                if start_ms >= self.start_ms and (not is_first or start_ms + wal.SEGMENT_MS > since_ms):
                    snapshots += self._read(start_ms)
        if unseen:
            self._register_unknown(unseen)
        return snapshots

    def append(self, snapshot: Snapshot) -> None:
        """Write a round and make it durable. Raises HistoryMoved when the file is not as this process left
        it.

        After any error the log must be made anew: its idea of the file may be wrong.
        """
        start_ms = snapshot.ts_ms - snapshot.ts_ms % wal.SEGMENT_MS
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            is_new = start_ms != self.start_ms
            if is_new:
                self._begin(start_ms)
            expected = self.state.position
            frame = wal.encode_frame(self.state, snapshot)
            if is_new:
                frame = wal.encode_header(self.cluster, start_ms) + frame
                expected = 0
                self.state.position = len(frame)
            _append_durably(self._path(start_ms), expected, frame)
        if is_new:
            _fsync_folder(self.folder)
            self._register(start_ms)

    def _begin(self, start_ms: int) -> None:
        path = self._path(start_ms)
        if path.exists() and path.stat().st_size:
            raise HistoryMoved(f"{path.name} exists and this process did not write it")
        self.start_ms, self.state = start_ms, self.state.successor()

    def _read(self, start_ms: int) -> list[Snapshot]:
        """Read a segment from where this process left it, and cut a torn tail."""
        path = self._path(start_ms)
        with path.open("r+b") as file:
            if start_ms != self.start_ms:
                data = file.read()
                try:
                    _, _, position = wal.decode_header(data)
                except wal.WalError as error:
                    logger.warning(
                        "log segment emptied cluster=%s path=%s reason=%s", self.cluster, path.name, error
                    )
                    file.truncate(0)
                    return []
                self.start_ms, self.state = start_ms, wal.SegmentState(position=position)
                snapshots = wal.read_frames(data, self.state)
                size = len(data)
            else:
                base = self.state.position
                file.seek(base)
                data = file.read()
                snapshots = wal.read_frames(data, self.state, base=base)
                size = base + len(data)
            if size > self.state.position:
                logger.warning(
                    "torn log cut cluster=%s path=%s offset=%d removed_bytes=%d",
                    self.cluster, path.name, self.state.position, size - self.state.position,
                )  # fmt: skip
                file.truncate(self.state.position)
        return snapshots

    def _register_unknown(self, starts: list[int]) -> None:
        names = {self._name(start_ms): start_ms for start_ms in starts}
        known = set(HistoryFile.objects.filter(path__in=names).values_list("path", flat=True))
        for name, start_ms in names.items():
            if name not in known:
                self._register(start_ms)

    def _register(self, start_ms: int) -> None:
        HistoryFile.objects.get_or_create(
            path=self._name(start_ms),
            defaults={
                "kind": Kind.WAL,
                "cluster": self.cluster,
                "ts_lo_ms": start_ms,
                "ts_hi_ms": start_ms + wal.SEGMENT_MS,
                "created_at_ms": start_ms,
            },
        )

    def _name(self, start_ms: int) -> str:
        return f"wal/{self.cluster}/{start_ms}.wal"

    def _path(self, start_ms: int) -> Path:
        return self.folder / f"{start_ms}.wal"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time reads or writes the log's end; the lock dies with its process."""
        with (self.folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _append_durably(path: Path, expected_bytes: int, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size != expected_bytes:
            raise HistoryMoved(f"{path.name} has {size} bytes, this process knows {expected_bytes}")
        os.lseek(descriptor, 0, os.SEEK_END)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clusters_with_logs() -> list[str]:
    """Return the clusters that have log segments to compact, removed ones too."""
    rows = HistoryFile.objects.filter(kind=Kind.WAL, state=State.LIVE)
    return sorted(set(rows.values_list("cluster", flat=True)))


def hours_to_compact(cluster: str, now_ms: int) -> list[int]:
    """Return the hours that are over and still have log segments of their own."""
    over_ms = now_ms - COMPACT_AFTER_MS
    rows = HistoryFile.objects.filter(cluster=cluster, kind=Kind.WAL, state=State.LIVE)
    starts = rows.values_list("ts_lo_ms", flat=True)
    return sorted(
        {start - start % HOUR_MS for start in starts if start - start % HOUR_MS + HOUR_MS <= over_ms}
    )


def compact_hour(cluster: str, hour_ms: int, *, interval_ms: int, now_ms: int) -> HistoryFile | None:
    """Make the hour's log into one chunk. Repeatable: whatever step a crash hits, running it again ends the
    same.

    1. Read every segment of the hour, superseded ones too. 2. Write the chunk under the next generation's
    name. 3. In one transaction: insert its manifest row, mark the segments and older generations superseded.
    Until 3 readers use the segments. Returns None when the hour holds nothing.
    """
    rows = HistoryFile.objects.filter(cluster=cluster, ts_lo_ms__gte=hour_ms, ts_hi_ms__lte=hour_ms + HOUR_MS)
    segments = list(rows.filter(kind=Kind.WAL).exclude(state=State.DELETED).order_by("ts_lo_ms"))
    snapshots = [one for row in segments for one in _segment_snapshots(row)]
    older = rows.filter(kind=Kind.CHUNK_HOUR).order_by("-generation").first()
    made = None
    if snapshots:
        table = chunk.compact(snapshots, interval_ms=interval_ms, previous=_last_before(cluster, hour_ms))
        generation = 1 if older is None else older.generation + 1
        made = _write_chunk(cluster, hour_ms, table, generation, now_ms)
    with transaction.atomic():
        rows.filter(kind=Kind.CHUNK_HOUR, state=State.LIVE).update(state=State.SUPERSEDED)
        HistoryFile.objects.filter(pk__in=[row.pk for row in segments]).update(state=State.SUPERSEDED)
        if made is not None:
            made.save(force_insert=True)
    logger.info("compacted cluster=%s hour_ms=%d snapshots=%d", cluster, hour_ms, len(snapshots))
    return made


def _write_chunk(cluster: str, hour_ms: int, table: pa.Table, generation: int, now_ms: int) -> HistoryFile:
    hour = datetime.fromtimestamp(hour_ms / 1000, UTC)
    folder = f"kind={Kind.CHUNK_HOUR}/cluster={cluster}/date={hour:%Y-%m-%d}/hour={hour:%H}"
    path = f"{folder}/b=0-g{generation}.parquet"
    location = file_location(path, Kind.CHUNK_HOUR)
    with fsspec.open(location, "wb", auto_mkdir=True) as file:
        chunk.write_chunk(table, file)
    with fsspec.open(location, "rb") as file:
        data = file.read()
    return HistoryFile(
        path=path,
        kind=Kind.CHUNK_HOUR,
        cluster=cluster,
        ts_lo_ms=hour_ms,
        ts_hi_ms=hour_ms + HOUR_MS,
        rows=table.num_rows,
        samples=int(sum(table["n"].to_pylist())),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        generation=generation,
        created_at_ms=now_ms,
    )


def _segment_snapshots(row: HistoryFile) -> list[Snapshot]:
    try:
        return chunk.read_log(Path(file_location(row.path, Kind.WAL)).read_bytes())
    except FileNotFoundError:
        logger.warning("log segment is gone cluster=%s path=%s", row.cluster, row.path)
        return []


def _last_before(cluster: str, hour_ms: int) -> Snapshot | None:
    """Return the last round of the segment that ends where the hour begins."""
    row = (
        HistoryFile.objects.filter(cluster=cluster, kind=Kind.WAL, ts_hi_ms=hour_ms)
        .exclude(state=State.DELETED)
        .first()
    )
    snapshots = [] if row is None else _segment_snapshots(row)
    return snapshots[-1] if snapshots else None


def delete_expired(now_ms: int) -> int:
    """Delete files that outlived their time; return how many. A file is deleted before its row says so, never
    the reverse.
    """
    limits = {Kind.WAL: WAL_KEPT_MS, Kind.CHUNK_HOUR: CHUNKS_KEPT_MS}
    count = 0
    for kind, kept_ms in limits.items():
        expired = HistoryFile.objects.filter(kind=kind, ts_hi_ms__lt=now_ms - kept_ms).exclude(
            state=State.DELETED
        )
        for row in expired.exclude(kind=Kind.WAL, state=State.LIVE):
            _delete_file(row)
            HistoryFile.objects.filter(pk=row.pk).update(state=State.DELETED)
            count += 1
    superseded = HistoryFile.objects.filter(
        kind=Kind.CHUNK_HOUR, state=State.SUPERSEDED, created_at_ms__lt=now_ms - HOUR_MS
    )
    for row in superseded:
        _delete_file(row)
        HistoryFile.objects.filter(pk=row.pk).update(state=State.DELETED)
        count += 1
    return count


def _delete_file(row: HistoryFile) -> None:
    location = file_location(row.path, row.kind)
    filesystem, path = fsspec.core.url_to_fs(location)
    if filesystem.exists(path):
        filesystem.rm(path)
