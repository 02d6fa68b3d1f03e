"""The unobserved part of a run's window: hours without history, files set aside. Never filled in."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from console.lag.history import uploads
from console.lag.history.log import Kind
from console.lag.past import history_reads
from console.report.jobs import PERIODS_MS
from console.report.models import ReportRun
from console.report.process import JobResult, JobSpec
from console.text import Span, Text
from spark.lag.local_time import HOUR_MS, period_end

SENTENCES_MAX = 50


def hours_of(from_ms: int, to_ms: int) -> range:
    """Return the hours of UTC that have some of a window, which may begin inside of one."""
    return range(from_ms - from_ms % HOUR_MS, to_ms, HOUR_MS)


def lost_hours(cluster: str, from_ms: int, to_ms: int) -> set[int]:
    """Return the hours whose only file was set aside, which their day's file lacks too."""
    return {
        row.ts_lo_ms
        for row in history_reads.lost_files(cluster, from_ms, to_ms)
        if row.kind == Kind.CHUNK_HOUR
    }


def missing(run: ReportRun, hours: Collection[int], now_ms: int) -> list[Text]:
    """Return a line for everything of the window that no row could be made of.

    That is each file that was set aside, each log that its host has not uploaded, and each stretch of hours
    without history.

    `hours`: the ones that were computed, epoch ms of their start; none: a report that is not made of history.
    """
    if not hours:
        return []
    lost = history_reads.lost_files(run.cluster, run.from_ms, run.to_ms)
    sentences = [
        Text(
            "%(span)s: a history file was set aside, %(reason)s (%(path)s)",
            span=Span(row.ts_lo_ms, row.ts_hi_ms),
            reason=row.reason,
            path=row.path,
        )
        for row in lost
    ]
    marked = {row.ts_lo_ms for row in lost if row.kind == Kind.CHUNK_HOUR}
    absent = uploads.absent(run.cluster).filter(ts_lo_ms__lt=run.to_ms, ts_hi_ms__gt=run.from_ms)
    sentences += [
        Text("%(span)s: %(reason)s", span=Span(row.ts_lo_ms, row.ts_hi_ms), reason=uploads.why_absent(row))
        for row in absent.order_by("ts_lo_ms")[:SENTENCES_MAX]
    ]
    unknown = [
        hour_ms
        for hour_ms in hours_of(run.from_ms, min(run.to_ms, now_ms))
        if hour_ms not in hours and hour_ms not in marked
    ]
    sentences += [
        Text("%(span)s: no history", span=Span(first_ms, last_ms + HOUR_MS))
        for first_ms, last_ms in _stretches(unknown)
    ]
    return sorted(sentences)[:SENTENCES_MAX]


def unread(spec: JobSpec, result: JobResult) -> list[Text]:
    """Return a line for each history file that the job could not read, and for each period that keeps its rows."""
    period_ms, zone = PERIODS_MS[spec.job], spec.zone
    hours: dict[str, list[int]] = {}
    for hour in spec.hours:
        for path in hour.files:
            hours.setdefault(path, []).append(hour.hour_ms)
    sentences = [
        Text(
            "%(span)s: nothing could be read, earlier rows are kept",
            span=Span(start_ms, period_end(start_ms, period_ms, zone)),
        )
        for start_ms in result.lost_ms
    ]
    for file in result.unread:
        own = hours.get(file.path)
        line = Text(
            "a history file could not be read, %(reason)s (%(path)s)", reason=file.reason, path=file.path
        )
        if own:
            line = Text("%(span)s: %(reason)s", span=Span(min(own), max(own) + HOUR_MS), reason=line)
        sentences.append(line)
    return sorted(sentences)[:SENTENCES_MAX]


def nothing_readable(cluster: str, result: JobResult) -> Text:
    """Return why a run of which no period could be read has failed."""
    first = result.unread[0]
    return Text(
        "None of the %(number)s history files of %(cluster)s could be read; earlier rows are kept. The "
        "first: %(reason)s (%(path)s). Check that HISTORY_URL can be reached with its credentials, and "
        "run the report again.",
        number=len(result.unread),
        cluster=cluster,
        reason=first.reason,
        path=first.path,
    )


def _stretches(hours: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of hours that follow each other."""
    first_ms = before_ms = -1
    for hour_ms in hours:
        if first_ms >= 0 and hour_ms != before_ms + HOUR_MS:
            yield first_ms, before_ms
            first_ms = -1
        first_ms, before_ms = (hour_ms if first_ms < 0 else first_ms), hour_ms
    if first_ms >= 0:
        yield first_ms, before_ms
