"""`manage.py report run|list|export`: reports from a shell; page and REST show the same run ids.

Exit codes: 0 done, 1 refused (the text gives the reason), 4 the run failed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError

from console.operation.command_line import add_cluster, cluster_name
from console.report import selectors, services
from console.report.jobs import JOBS, LAG_JOBS
from console.report.models import LagRow, ReportRun
from console.report.rules import ReportRejected, Window, window, yesterday_to_now
from console.report.services import ReportAlreadyRunning

REFUSED, RUN_FAILED = 1, 4
POLL_S = 0.5


class Command(BaseCommand):
    help = "Compute, list and export reports."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        running = actions.add_parser("run", help="compute a report now, in this process")
        running.add_argument(
            "--from",
            dest="start",
            metavar="ISO",
            help="from this time (default: yesterday 00:00 in the zone of the report)",
        )
        running.add_argument("--to", dest="end", metavar="ISO", help="until this time (default: now)")
        listing = actions.add_parser("list", help="list the newest runs")
        exporting = actions.add_parser("export", help="write rows as CSV to standard output")
        exporting.add_argument(
            "--grain",
            help="lag reports: topic (default) or queue; other reports: one of their tables (default: all)",
        )
        exporting.add_argument(
            "--from", dest="start", metavar="ISO", help="rows that begin at this time or later"
        )
        exporting.add_argument("--to", dest="end", metavar="ISO", help="rows that begin before this time")
        for action in (running, listing, exporting):
            action.add_argument("job", choices=sorted(JOBS))
            add_cluster(action)  # type: ignore[arg-type]  # a subparser is a CommandParser here

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = cluster_name(options["cluster"])
        if options["action"] == "run":
            self._run(cluster, options["job"], _span(**options), options["format"])
        elif options["action"] == "list":
            self._show(selectors.runs(cluster, options["job"]), options["format"])
        else:
            try:
                for line in _csv_lines(cluster, options["job"], options["grain"], _span(**options)):
                    self.stdout.write(line, ending="")
            except BrokenPipeError:
                # `| head` has closed the pipe; Python's final flush must not fail either.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _run(self, cluster: str, job: str, span: Span, form: str) -> None:
        now_ms = time.time_ns() // 1_000_000
        try:
            run = services.request_run(
                job=job,
                cluster=cluster,
                window=_window(span, selectors.zone_of(cluster, job), now_ms),
                actor=None,
                now_ms=now_ms,
            )
        except ReportRejected as refusal:
            raise CommandError(str(refusal), returncode=REFUSED) from None
        except ReportAlreadyRunning as refusal:
            self.stderr.write(f"{refusal} Waiting for that one.")
            run = refusal.run
        run = self._follow(run)
        self._show([run], form)
        if run.state != ReportRun.State.SUCCEEDED:
            raise CommandError(f"{run.id} failed: {run.error}", returncode=RUN_FAILED)

    def _follow(self, run: ReportRun) -> ReportRun:
        """Compute the run here, or wait for the worker that has it, until it ends."""
        shown = ""
        while True:
            services.run_report(run.id, now_ms=time.time_ns() // 1_000_000)
            run = selectors.run(run.id)
            if run.is_final:
                return run
            if run.step != shown and self.stderr.isatty():
                self.stderr.write(run.step)
            shown = run.step
            time.sleep(POLL_S)
            services.release_dead_runs(now_ms=time.time_ns() // 1_000_000)

    def _show(self, runs: Sequence[ReportRun], form: str) -> None:
        if form == "json":
            self.stdout.write(json.dumps([run.as_row() for run in runs], indent=1, ensure_ascii=False))
            return
        for run in runs:
            took = "" if run.duration_ms is None else f" in {run.duration_ms / 1000:.1f} s"
            span = f"{_iso(run.from_ms)} to {_iso(run.to_ms)}"
            self.stdout.write(f"{run.id}  {run.state:9}  {span}  {run.row_count:,} rows{took}")
            for warning in run.warnings:
                self.stdout.write(f"  not read whole: {warning}")


class Span(NamedTuple):
    """What --from and --to name, epoch milliseconds; None where they were left out."""

    from_ms: int | None
    to_ms: int | None


def _span(*, start: str | None, end: str | None, **_: Any) -> Span:
    return Span(_ms(start) if start else None, _ms(end) if end else None)


def _csv_lines(cluster: str, job: str, grain: str | None, span: Span) -> Iterator[str]:
    if job not in LAG_JOBS:
        return selectors.csv_lines(selectors.report_rows(cluster, job, grain=grain or "", **span._asdict()))
    grain = grain or str(LagRow.Grain.TOPIC)
    if grain not in LagRow.Grain.values:
        known = ", ".join(LagRow.Grain.values)
        raise CommandError(f"{job} has no grain {grain}; it has: {known}.", returncode=REFUSED)
    return selectors.csv_lines(selectors.rows_of_grain(grain, cluster, job=job, **span._asdict()))


def _window(span: Span, zone: str, now_ms: int) -> Window:
    default = yesterday_to_now(now_ms, zone)
    start = default.from_ms if span.from_ms is None else span.from_ms
    end = default.to_ms if span.to_ms is None else span.to_ms
    return window(start, end, now_ms=now_ms)


def _ms(text: str) -> int:
    """Parse an ISO time; without a zone it is UTC, as the report's hours are. Raises CommandError."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"{text} is no ISO 8601 time such as 2026-03-12T08:00.", returncode=REFUSED
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def _iso(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).isoformat(timespec="minutes")
