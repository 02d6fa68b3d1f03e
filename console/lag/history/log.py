"""Store the history on disk: locations of files, appending to the log, reading it back.

The log lies in `DATA_DIR/history/wal/<cluster>/<host>/<start in ms>.wal` of the host that ran the rounds, hour files
under `HISTORY_URL`. The table `HistoryFile` lists the files that exist; a log segment that a crash left unregistered is
registered by the next writer. Copies of the log for other hosts: `history.uploads`. What the log is turned into:
`console.lag.history.archive`.
"""

import fcntl
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from console.lag.models import HistoryFile
from console.text import Text
from spark.lag.history import files, wal
from spark.lag.snapshot import Snapshot

logger = logging.getLogger(__name__)


Kind, State = HistoryFile.Kind, HistoryFile.State
# What a damaged file is made from again.
SOURCES: dict[str, str] = {Kind.CHUNK_DAY: Kind.CHUNK_HOUR, Kind.CHUNK_HOUR: Kind.WAL}
AHEAD_SUFFIX = ".ahead"
# The file with the moment before which nothing is appended.
CLOSED = "closed"
# A segment written ahead has room for its rounds: zeros, which frames replace. A sync of bytes that replace others
# waits only for these bytes; one of a file that grew waits for the file system's journal, and so for all else that is
# written on the machine. Measured on a busy disk: 4 ms instead of 22 in the median, half of it in the tail.
# Five minutes of 200,000 series every 5 s are 40 MB.
ROOM_BYTES_MAX = 64 * 1024 * 1024
ZEROS = bytes(1024 * 1024)
# The round before the first one: without any series.
NO_ROUND = Snapshot(-1, -1)


class HistoryMoved(Exception):
    """Report that another process wrote to the log: the lease was lost, this round is not written."""


def wal_folder(cluster: str) -> Path:
    """Return the folder of this host's log segments of a cluster."""
    return Path(settings.DATA_DIR) / "history" / "wal" / cluster / settings.HOST_ID


def file_location(path: str, kind: str) -> str:
    """Return the location of a file that belongs to no other host: a local path or an fsspec URL."""
    if kind == Kind.WAL:
        return str(Path(settings.DATA_DIR) / "history" / path)
    return stored_location(path)


def stored_location(path: str) -> str:
    """Return the location of a file under `HISTORY_URL`: a local path or an fsspec URL."""
    base = str(settings.HISTORY_URL).rstrip("/")
    return f"{base.removeprefix('file://')}/{path}"


def location_of(row: HistoryFile) -> str:
    """Return where this host opens the file of a manifest row; its own log from its own disk."""
    if row.kind == Kind.WAL and row.uploaded_at_ms:
        local = file_location(row.path, row.kind)
        return local if row.host == settings.HOST_ID and os.path.exists(local) else stored_location(row.path)
    return file_location(row.path, row.kind)


def job_location(row: HistoryFile) -> str:
    """Return where any host opens the file of a manifest row, if it lies where all can."""
    return stored_location(row.path) if row.uploaded_at_ms else file_location(row.path, row.kind)


def readable() -> Q:
    """Return which files this host can open: another host's log only once it is uploaded."""
    return ~Q(kind=Kind.WAL) | Q(uploaded_at_ms__gt=0) | Q(host__in=["", settings.HOST_ID])


def quarantine(row: HistoryFile, problem: Text, now_ms: int) -> None:
    """Set a damaged file aside: it is no longer read, and kept for inspection.

    The row goes first: a crash before the file has moved leaves a file that no row lists. What it was made from,
    while it exists, is live again: the hour or day is made anew.
    """
    moved = f"quarantine/{row.pk}/{row.path}"
    places = [file_location] if row.kind != Kind.WAL or row.host in ("", settings.HOST_ID) else []
    places += [lambda path, kind: stored_location(path)] if row.uploaded_at_ms else []
    with transaction.atomic():
        HistoryFile.objects.filter(pk=row.pk).update(
            state=State.QUARANTINED,
            path=moved,
            reason=problem,
            superseded_at_ms=now_ms,
        )
        if row.kind in SOURCES:
            HistoryFile.objects.filter(
                cluster=row.cluster,
                kind=SOURCES[row.kind],
                state=State.SUPERSEDED,
                ts_lo_ms__gte=row.ts_lo_ms,
                ts_hi_ms__lte=row.ts_hi_ms,
            ).update(state=State.LIVE)
    for place in places:
        files.move(place(row.path, row.kind), place(moved, row.kind))
    logger.error("history file set aside cluster=%s path=%s reason=%s", row.cluster, row.path, problem)


def uploads_of_others(cluster: str, since_ms: int) -> list[Snapshot]:
    """Return the uploaded rounds of other hosts from `since_ms` on, in time order.

    The last segment is included however old it is.
    """
    rows = HistoryFile.objects.filter(
        cluster=cluster, kind=Kind.WAL, state__in=[State.LIVE, State.SUPERSEDED], uploaded_at_ms__gt=0
    )
    uploaded = list(rows.exclude(host__in=["", settings.HOST_ID]).order_by("ts_lo_ms"))
    snapshots: list[Snapshot] = []
    for row in [row for row in uploaded if row.ts_hi_ms > since_ms] or uploaded[-1:]:
        try:
            snapshots += wal.read_segment(files.read(stored_location(row.path))).snapshots
        except (OSError, wal.WalError) as error:
            # What is missing is a gap in the live window; the making of the hour's file decides about the segment.
            logger.warning("log of another host not read path=%s reason=%s", row.path, error)
            if isinstance(error, files.StorageError):
                # It was tried for 20 s: a round is waiting.
                break
    return sorted(snapshots, key=lambda one: one.ts_ms)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Hold the beginning of a segment written ahead: durable, under a name that no reader opens."""

    start_ms: int
    path: Path
    state: wal.SegmentState


class HistoryLog:
    """Read and append one cluster's log in one process, which holds the cluster's lease."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.folder = wal_folder(cluster)
        self.start_ms = -1
        self.state = wal.SegmentState()
        self.last = NO_ROUND
        self._ahead: _Ahead | None = None
        # The segment that has no row yet.
        self._unlisted_ms = -1
        # The segment before, and where its frames end.
        self._ended: tuple[Path, int] | None = None
        self._is_caught_up = False

    def catch_up(self, since_ms: int) -> list[Snapshot]:
        """Return the rounds that this process has not read yet.

        At first those from `since_ms` on, with what other hosts uploaded; then those that other processes of this host
        appended. The last segment is read however old it is: its last round has the list of series. A torn tail is cut
        off, so that the next append follows a whole frame. A file that is no segment is set aside.
        """
        is_first = not self._is_caught_up
        self._is_caught_up = True
        others = uploads_of_others(self.cluster, since_ms) if is_first else []
        if not self.folder.is_dir():
            self.last = others[-1] if others else self.last
            return others
        snapshots: list[Snapshot] = []
        with self._locked():
            if is_first:
                self._settle_ahead()
            starts = sorted(int(path.stem) for path in self.folder.glob("*.wal"))
            unseen = [start_ms for start_ms in starts if start_ms > self.start_ms]
            for start_ms in starts:
                is_wanted = not is_first or start_ms + wal.SEGMENT_MS > since_ms or start_ms == starts[-1]
                if start_ms >= self.start_ms and is_wanted:
                    snapshots += self._read(start_ms)
        self._register_unknown([start_ms for start_ms in unseen if self._path(start_ms).exists()])
        snapshots = sorted([*others, *snapshots], key=lambda one: one.ts_ms)
        if snapshots:
            self.last = snapshots[-1]
        elif is_first:
            self.last = self._newest_round(starts[:-1])
        return snapshots

    def _newest_round(self, starts: list[int]) -> Snapshot:
        """Return the last round of these segments: the one after them was begun and has none."""
        for start_ms in reversed(starts):
            with suppress(FileNotFoundError, wal.WalError):
                if found := wal.read_segment(self._path(start_ms).read_bytes()).snapshots:
                    return found[-1]
        return NO_ROUND

    def append(self, snapshot: Snapshot) -> None:
        """Write a round and make it durable.

        Raises HistoryMoved when the file is not as this process left it, or is closed. After any error the log must be
        made anew: its state may not match the file.
        """
        start_ms = snapshot.ts_ms - snapshot.ts_ms % wal.SEGMENT_MS
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            if start_ms + wal.SEGMENT_MS <= self._closed_ms():
                raise HistoryMoved(f"{start_ms}.wal is closed: its round {snapshot.number} came too late")
            header = self._begin(start_ms) if start_ms != self.start_ms else b""
            expected = self.state.position
            frame = header + wal.encode_frame(self.state, snapshot)
            self.state.position = expected + len(frame)
            _append_durably(self._path(start_ms), expected, frame)
        self.last = snapshot
        if header:
            _fsync_folder(self.folder)
            self._register(start_ms)

    def prepare(self, next_ms: int) -> None:
        """Do the work that can wait until after a round; call it after every round.

        A segment that was begun ahead gets its row, the one before gives back the room it did not need. Where the round
        expected at `next_ms` begins a segment, its beginning is written now: it names every series, which takes as long
        as ten rounds. Without it, or when the round comes at another time, the round names them.
        """
        if self._unlisted_ms >= 0:
            self._register(self._unlisted_ms)
            self._unlisted_ms = -1
        self._give_back_room()
        start_ms = next_ms - next_ms % wal.SEGMENT_MS
        if (
            self.last is NO_ROUND
            or start_ms <= self.start_ms
            or (self._ahead and self._ahead.start_ms == start_ms)
        ):
            return
        self._drop_ahead()
        state = self.state.successor()
        data = wal.encode_beginning(state, self.cluster, start_ms, self.last)
        path = self.folder / f"{start_ms}-{os.getpid()}-{secrets.token_hex(4)}{AHEAD_SUFFIX}"
        self._ahead = _Ahead(start_ms, path, state)
        # As the segment before, and more.
        room_bytes = min(self.state.position * 5 // 4 - len(data), ROOM_BYTES_MAX)
        try:
            _append_durably(path, 0, data, room_bytes=room_bytes)
            _fsync_folder(self.folder)
        except OSError as error:
            logger.warning(
                "log not written ahead cluster=%s path=%s reason=%s", self.cluster, path.name, error
            )
            self._drop_ahead()

    def _give_back_room(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            path, position = ended
            with suppress(FileNotFoundError):
                if path.stat().st_size > position:
                    os.truncate(path, position)

    def _begin(self, start_ms: int) -> bytes:
        """Use what was written ahead; without it return the header to be written before the first frame."""
        path = self._path(start_ms)
        if path.exists() and path.stat().st_size:
            raise HistoryMoved(f"{path.name} exists and this process did not write it")
        if self.start_ms >= 0:
            self._ended = self._path(self.start_ms), self.state.position
        if self._ahead is not None and self._ahead.start_ms == start_ms:
            ahead, self._ahead = self._ahead, None
            # Another process may have removed it as a leftover.
            with suppress(FileNotFoundError):
                # If a crash undoes this, `_settle_ahead` does it again.
                ahead.path.rename(path)
                self.start_ms, self.state, self._unlisted_ms = start_ms, ahead.state, start_ms
                return b""
        self._drop_ahead()
        self.start_ms, self.state = start_ms, self.state.successor()
        return wal.encode_header(self.cluster, start_ms)

    def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.path.unlink(missing_ok=True)

    def _settle_ahead(self) -> None:
        """Use or remove what earlier processes wrote ahead.

        A beginning without a round is removed; one with rounds was in use when the machine stopped, before its new name
        was on the disk.
        """
        for path in self.folder.glob(f"*{AHEAD_SUFFIX}"):
            start_ms = int(path.stem.partition("-")[0])
            with suppress(wal.WalError):
                is_used = bool(wal.read_segment(path.read_bytes()).snapshots)
                if is_used and not self._path(start_ms).exists():
                    path.rename(self._path(start_ms))
                    continue
            path.unlink(missing_ok=True)

    def _read(self, start_ms: int) -> list[Snapshot]:
        """Read a segment from where this process left it, and cut a torn tail."""
        path = self._path(start_ms)
        with path.open("r+b") as file:
            if start_ms != self.start_ms:
                data = file.read()
                try:
                    _, _, position = wal.decode_header(data)
                except wal.CutHeader as error:
                    logger.warning(
                        "log segment emptied cluster=%s path=%s reason=%s", self.cluster, path.name, error
                    )
                    file.truncate(0)
                    return []
                except wal.WalError as error:  # damaged
                    quarantine(self._register(start_ms), Text.foreign(str(error)), start_ms + wal.SEGMENT_MS)
                    return []
                self.start_ms, self.state = start_ms, wal.SegmentState(position=position)
                snapshots = wal.read_frames(data, self.state)
                size = len(data)
            else:
                base = self.state.position
                file.seek(base)
                if not any(file.read(wal.FRAME_HEADER.size)):
                    # Room that is still unused.
                    return []
                file.seek(base)
                data = file.read()
                snapshots = wal.read_frames(data, self.state, base=base)
                size = base + len(data)
            torn = data[self.state.position - size :].rstrip(b"\0") if size > self.state.position else b""
            if torn:
                logger.warning(
                    "torn log cut cluster=%s path=%s offset=%d removed_bytes=%d",
                    self.cluster, path.name, self.state.position, len(torn),
                )  # fmt: skip
                file.truncate(self.state.position)
        return snapshots

    def _register_unknown(self, starts: list[int]) -> None:
        names = {self._name(start_ms): start_ms for start_ms in starts}
        known = set(HistoryFile.objects.filter(path__in=names).values_list("path", flat=True))
        for name, start_ms in names.items():
            if name not in known:
                self._register(start_ms)

    def _register(self, start_ms: int) -> HistoryFile:
        row, _ = HistoryFile.objects.get_or_create(
            path=self._name(start_ms),
            defaults={
                "kind": Kind.WAL,
                "cluster": self.cluster,
                "host": settings.HOST_ID,
                "ts_lo_ms": start_ms,
                "ts_hi_ms": start_ms + wal.SEGMENT_MS,
                "created_at_ms": start_ms,
            },
        )
        return row

    def _name(self, start_ms: int) -> str:
        return f"wal/{self.cluster}/{settings.HOST_ID}/{start_ms}.wal"

    def _path(self, start_ms: int) -> Path:
        return self.folder / f"{start_ms}.wal"

    def close_before(self, at_ms: int) -> None:
        """Close the segments of this host that end at or before a moment: they are about to be read for good.

        A process that was suspended detects it when it appends.
        """
        if self.folder.is_dir():
            with self._locked():
                if at_ms > self._closed_ms():
                    self._set_closed(at_ms)

    def reopen(self, at_ms: int) -> None:
        """Allow appending from a moment on again, after the clock was set back."""
        if self.folder.is_dir():
            with self._locked():
                self._set_closed(min(at_ms, self._closed_ms()))

    def register_all(self) -> None:
        """Register every segment: a crash may have prevented it."""
        if self.folder.is_dir():
            self._register_unknown([int(path.stem) for path in self.folder.glob("*.wal")])

    def _closed_ms(self) -> int:
        with suppress(FileNotFoundError, ValueError):
            return int((self.folder / CLOSED).read_text())
        return 0

    def _set_closed(self, at_ms: int) -> None:
        draft = self.folder / f"{CLOSED}.draft"
        draft.write_text(str(at_ms))
        draft.replace(self.folder / CLOSED)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the log's end for one process at a time; the lock ends with its process."""
        with (self.folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _append_durably(path: Path, expected_bytes: int, data: bytes, *, room_bytes: int = 0) -> None:
    """Write data where the file ends, or where its room begins, then zeros as room for more."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size < expected_bytes or any(os.pread(descriptor, wal.FRAME_HEADER.size, expected_bytes)):
            raise HistoryMoved(f"{path.name} has changed since this process wrote it: {expected_bytes} bytes")
        os.lseek(descriptor, expected_bytes, os.SEEK_SET)
        _write_all(descriptor, data)
        for at in range(0, room_bytes, len(ZEROS)):
            _write_all(descriptor, ZEROS[: room_bytes - at])
        # A new size is made durable with the data, access times are not.
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
