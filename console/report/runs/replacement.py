"""The rows of a run take the place of those of before: period by period, each in one transaction.

With them go rows that overlap: those of a day of another zone, which would count the same hours twice. A period is
replaced only when the run produced it. One that could not be read keeps its rows, and one whose transaction
fails keeps them too; periods before it have the new ones, and running the report again ends the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from django.db import transaction

from console.report.jobs import LAG_JOBS
from console.report.kept_rows import queue_files
from console.report.kept_rows.insert import insert_lag_rows, insert_report_rows
from console.report.kept_rows.output import Output, Part
from console.report.models import LagRow, QueueRowFile, ReportRow, ReportRun, Stamp, of_period
from console.report.process import JobResult
from console.report.runs.reviews import replace_reviews

TOPN = "topn"


@dataclass(frozen=True, slots=True)
class Produced:
    """The rows that a run produced: files by window, and tables of reports with few rows."""

    output: Output
    topics: dict[int, list[Part]]
    queues: dict[int, list[QueueRowFile]]
    table: pa.Table | None

    @classmethod
    def of(cls, run: ReportRun, result: JobResult, periods: Sequence[int], now_ms: int) -> Produced:
        """Read the output and record the files of single queues. Raises ReportFailed if rows are missing."""
        output = Output(result.output)
        topics: dict[int, list[Part]] = {}
        queues: dict[int, list[QueueRowFile]] = {}
        if run.job not in LAG_JOBS:
            table = output.table()
            output.require_rows(result.rows, 0 if table is None else table.num_rows)
            return cls(output, topics, queues, table)
        parts = output.parts()
        output.require_rows(result.rows, sum(part.rows for part in parts))
        own = [part for part in parts if part.window_start_ms in set(periods)]
        for part in own:
            if part.grain == LagRow.Grain.TOPIC:
                topics.setdefault(part.window_start_ms, []).append(part)
        queue_parts = [part for part in own if part.grain == LagRow.Grain.QUEUE]
        for file in queue_files.note(run, output, queue_parts, now_ms):
            queues.setdefault(file.window_start_ms, []).append(file)
        return cls(output, topics, queues, output.table(TOPN))

    def table_of(self, start_ms: int) -> pa.Table | None:
        """Return the few rows of one window."""
        if self.table is None:
            return None
        return self.table.filter(pc.equal(self.table["window_start_ms"], start_ms))


def replace_rows(
    run: ReportRun,
    produced: Produced,
    periods: Sequence[int],
    stamp: Stamp,
    *,
    claim: Callable[[], None],
    now_ms: int,
) -> int:
    """Replace the rows of the periods, earliest first, and what is derived from them; return how many.

    `claim` is called in every transaction and raises when the run belongs to another worker.
    """
    count = 0
    for start_ms in periods:
        with transaction.atomic():
            claim()
            count += _replace_period(run, produced, start_ms, stamp, now_ms)
    if run.job in LAG_JOBS:
        count += replace_reviews(run, periods, stamp, claim=claim, now_ms=now_ms)
    return count


def _replace_period(run: ReportRun, produced: Produced, start_ms: int, stamp: Stamp, now_ms: int) -> int:
    is_own = of_period(run, start_ms)
    few = ReportRow.objects.filter(is_own)
    if run.job not in LAG_JOBS:
        few.delete()
        return insert_report_rows(produced.table_of(start_ms), stamp)
    few.filter(grain=TOPN).delete()
    insert_report_rows(produced.table_of(start_ms), stamp)
    LagRow.objects.filter(is_own).delete()
    count = queue_files.publish(produced.queues.get(start_ms, []), is_own, now_ms)
    for part in produced.topics.get(start_ms, []):
        with produced.output.open(part.path) as parquet:
            count += insert_lag_rows(parquet, stamp)
    return count
