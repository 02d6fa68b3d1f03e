"""What the manifest holds of a stretch of time: files that can be read, files that cannot, and time that has none.

A hole in the history and a storage that is away look the same to a reader that opens what it finds. For a report they
are opposites: of the first it states what is missing, with the second it fails and leaves its old rows alone.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.db.models import Q

from console.lag import past, uploads
from console.lag.history import HOUR_MS, State, job_location, readable
from console.lag.models import HistoryFile, HistoryGap
from spark.lag import files

LOOKUPS_AT_ONCE = 8  # a request to object storage takes 20 to 100 ms, a month has up to a hundred files
NOTHING_RECORDED = "no round was recorded"


@dataclass(frozen=True, slots=True)
class Hole:
    """Time without history, and why: nothing will bring it, or its host must."""

    from_ms: int
    to_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that the manifest lists and that cannot be read; `reason` says why and what to do."""

    file: HistoryFile
    reason: str


@dataclass(frozen=True, slots=True)
class HistoryWindow:
    """A stretch of time as the manifest and the storage have it. `files` and `unreadable` share no file."""

    files: tuple[HistoryFile, ...]
    unreadable: tuple[Unreadable, ...]
    holes: tuple[Hole, ...]


def history_window(cluster: str, from_ms: int, to_ms: int, *, now_ms: int) -> HistoryWindow:
    """Return the files of [from_ms, to_ms) as every host can open them, each looked up in the storage, and the holes
    between them, hour by hour.
    """
    live = HistoryFile.objects.filter(
        cluster=cluster, state=State.LIVE, ts_lo_ms__lt=to_ms, ts_hi_ms__gt=from_ms
    )
    listed = list(live.filter(readable()).order_by("ts_lo_ms", "bucket", "pk"))
    with ThreadPoolExecutor(LOOKUPS_AT_ONCE) as pool:
        problems = list(pool.map(_problem, listed))
    good = tuple(row for row, problem in zip(listed, problems, strict=True) if not problem)
    bad = tuple(Unreadable(row, problem) for row, problem in zip(listed, problems, strict=True) if problem)
    absent = uploads.absent(cluster).filter(ts_lo_ms__lt=to_ms, ts_hi_ms__gt=from_ms).order_by("ts_lo_ms")
    holes = [Hole(row.ts_lo_ms, row.ts_hi_ms, uploads.why_absent(row)) for row in absent]
    lost = past.lost_files(cluster, from_ms, to_ms)
    holes += [Hole(row.ts_lo_ms, row.ts_hi_ms, f"a history file was set aside: {row.reason}") for row in lost]
    explained = [*listed, *absent, *lost]
    holes += _unexplained(cluster, explained, from_ms - from_ms % HOUR_MS, min(to_ms, now_ms))
    return HistoryWindow(good, bad, tuple(sorted(holes, key=lambda hole: (hole.from_ms, hole.to_ms))))


def _problem(row: HistoryFile) -> str:
    """Return why a file cannot be read, "" when it is there in its size."""
    location = job_location(row)
    try:
        size = files.size_of(location)
    except FileNotFoundError:
        return f"{location} is not there, and the manifest lists it: mount or correct HISTORY_URL, or restore the file"
    except OSError as error:
        return str(error)
    if row.bytes and size != row.bytes:
        return f"{location} has {size} bytes instead of {row.bytes}: it is damaged, restore the file"
    return ""


def _unexplained(cluster: str, known: Sequence[HistoryFile], from_ms: int, to_ms: int) -> Iterator[Hole]:
    """Yield the hours that no file tells of, those that follow each other for the same reason as one."""
    gaps = HistoryGap.objects.filter(
        Q(to_ms__isnull=True) | Q(to_ms__gt=from_ms), cluster=cluster, broker_name="", from_ms__lt=to_ms
    )
    reasons = [(gap.from_ms, gap.to_ms or to_ms, gap.reason) for gap in gaps]
    open_hole: Hole | None = None
    for hour_ms in range(from_ms, to_ms, HOUR_MS):
        end_ms = min(hour_ms + HOUR_MS, to_ms)
        if any(row.ts_lo_ms < end_ms and row.ts_hi_ms > hour_ms for row in known):
            continue
        reason = next((text for start, end, text in reasons if start < end_ms and end > hour_ms), "")
        hole = Hole(hour_ms, end_ms, reason or NOTHING_RECORDED)
        if open_hole is not None and (open_hole.to_ms, open_hole.reason) == (hour_ms, hole.reason):
            open_hole = Hole(open_hole.from_ms, end_ms, hole.reason)
            continue
        if open_hole is not None:
            yield open_hole
        open_hole = hole
    if open_hole is not None:
        yield open_hole
