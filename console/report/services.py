"""The life of a report: requested, computed by Spark in its own process, its rows replaced period by period.

Spark never starts inside the web or Celery process: a run is `python -m spark.jobs.<job>` with a JobSpec on its
input. One run per report and cluster is open at a time (enforced by the database), REPORTS_AT_ONCE of them are
computed on a machine at a time (lock files), and a run whose worker died is taken again once its lease is over.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from django.conf import settings
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import F
from redis.exceptions import RedisError

from console.access import services as access_services
from console.cluster import selectors as cluster_selectors
from console.cluster.models import Cluster
from console.lag.collect.filter_sampling import samples_between
from console.lag.history.chronicle import client_counts
from console.lag.history.log import Kind, job_location
from console.lag.models import HistoryFile
from console.lag.past.history_reads import hour_contents
from console.live import hub as live
from console.operation.job import worker_queue
from console.report import process, selectors
from console.report.jobs import JOBS, LAG_JOBS, PERIODS_MS, STORE_JOBS, TREND_JOB
from console.report.kept_rows import output, queue_files, retention
from console.report.models import (
    OPEN_STATES,
    LagRow,
    QueueRowFile,
    ReportRow,
    ReportRun,
    ReportSchedule,
    Stamp,
)
from console.report.process import HourFiles, JobResult, JobSpec, ReportFailed
from console.report.rules import (
    ATTEMPTS_MAX,
    LEASE_MS,
    LEASE_RENEWED_EVERY_MS,
    ReportRejected,
    Window,
)
from console.report.rules import window as whole_window
from console.report.runs import kept_episodes, long_trend
from console.report.runs.missing import hours_of, lost_hours, missing, nothing_readable, unread
from console.report.runs.replacement import Produced, replace_rows
from console.text import Names, Text, text_of
from spark.lag.history.buckets import joined_path
from spark.lag.local_time import HOUR_MS, periods, starts_in_hour

logger = logging.getLogger(__name__)
RowMaker = Callable[..., int]

DELIVER_TASK = "console.report.tasks.deliver"
RUN_REPORT_TASK = "console.report.tasks.run_report"  # by name: tasks import services, not the other way round
RUN_TIMEOUT_S = 20 * 60
# Reports that need no Spark: made of what is in the database.
ROW_MAKERS: dict[str, RowMaker] = {
    kept_episodes.JOB: kept_episodes.replace_rows,
    TREND_JOB: long_trend.replace_rows,
}
WAITING, RUNNING = ReportRun.State.QUEUED, ReportRun.State.RUNNING


class ReportAlreadyRunning(Exception):
    """The same report of the same cluster is waiting or running; `run` is that run."""

    def __init__(self, run: ReportRun) -> None:
        super().__init__(
            Text(
                "%(name)s of %(cluster)s is already being computed (%(id)s).",
                name=JOBS[run.job],
                cluster=run.cluster,
                id=run.id,
            )
        )
        self.run = run


class RunLost(Exception):
    """The run's lease was over, and another worker has taken it."""


def no_report(job: str) -> Text:
    """Return the refusal of an unknown report."""
    return Text("There is no report %(name)s. Reports: %(names)s.", name=job, names=Names(JOBS))


# --- Requesting a run ---------------------------------------------------------------------------------------


def request_run(
    *, job: str, cluster: str, window: Window, actor: Any, now_ms: int, remote_addr: str = ""
) -> ReportRun:
    """Make one run that waits for a worker; the caller then calls `enqueue`.

    `actor`: a person, a token, or None for the system itself. The window grows to whole periods of the report.
    Raises ReportRejected, ReportAlreadyRunning.
    """
    if job not in JOBS:
        raise ReportRejected("job", no_report(job))
    zone = selectors.zone_of(cluster, job)
    until_ms = cluster_selectors.until_ms(cluster, now_ms)
    window = whole_window(window.from_ms, window.to_ms, now_ms=until_ms, period_ms=PERIODS_MS[job], zone=zone)
    release_dead_runs(now_ms=now_ms)
    try:
        with transaction.atomic():
            run = ReportRun.objects.create(
                id=f"report-{secrets.token_hex(5)}",
                job=job,
                cluster=cluster,
                from_ms=window.from_ms,
                to_ms=window.to_ms,
                zone=zone,
                requested_by_id=getattr(actor, "pk", None),
                requested_at_ms=now_ms,
                step=Text("waiting for a worker"),
            )
    except IntegrityError:
        other = ReportRun.objects.filter(job=job, cluster=cluster, state__in=OPEN_STATES).first()
        if other is None:
            raise
        raise ReportAlreadyRunning(other) from None
    if actor is not None:
        requested = {"run": run.id, "from_ms": run.from_ms, "to_ms": run.to_ms}
        access_services.record_audit(
            actor=actor,
            verb="run report",
            cluster=cluster,
            subject=job,
            after=requested,
            remote_addr=remote_addr,
        )
    _publish(run.id, now_ms)
    return run


def enqueue(run_id: str) -> None:
    """Hand a run to the workers. Losing this message costs ten seconds, never the run (see recover_runs)."""
    if not worker_queue.send(RUN_REPORT_TASK, run_id):
        ReportRun.objects.filter(pk=run_id, state=WAITING).update(
            step=Text("waiting: the task queue does not answer, check Redis")
        )


def recover_runs(*, now_ms: int) -> None:
    """Beat: release runs whose worker died, and hand those that have waited longest to workers."""
    release_dead_runs(now_ms=now_ms)
    _enqueue_next()


def release_dead_runs(*, now_ms: int) -> None:
    """Requeue runs whose worker's lease has expired; fail them after the last attempt."""
    dead = ReportRun.objects.filter(state=RUNNING, lease_until_ms__lt=now_ms)
    for run in list(dead):
        mine = dead.filter(pk=run.pk, attempts=run.attempts)
        if run.attempts >= ATTEMPTS_MAX:
            changed = mine.update(
                state=ReportRun.State.FAILED,
                error=Text(
                    "The worker stopped %(number)s time(s) before the report was done. No hour or day is "
                    "half-written; choose a shorter window, or check the worker's log.",
                    number=run.attempts,
                ),
                step=Text(),
                finished_at_ms=now_ms,
            )
        else:
            changed = mine.update(
                state=WAITING,
                step=Text("waiting: the worker stopped; the run will be resumed"),
                lease_until_ms=None,
            )
        if changed:
            logger.warning("report's worker died run=%s attempts=%d", run.id, run.attempts)
            _publish(run.id, now_ms)


def _enqueue_next() -> None:
    waiting = ReportRun.objects.filter(state=WAITING).order_by("requested_at_ms")
    for run_id in waiting.values_list("pk", flat=True)[: settings.REPORTS_AT_ONCE]:
        enqueue(run_id)


def drop_cluster(cluster: str) -> None:
    """Delete all runs of a cluster with their rows and files, its folds and its schedules."""
    for run in ReportRun.objects.filter(cluster=cluster):
        output.delete(run)
    output.delete_folds(cluster)
    for model in (LagRow, ReportRow, QueueRowFile, ReportSchedule, ReportRun):
        model._default_manager.filter(cluster=cluster).delete()


# --- Computing it -------------------------------------------------------------------------------------------


def run_report(run_id: str, *, now_ms: int) -> None:
    """Compute one waiting run.

    Does nothing when another worker has it, or while Spark computes as many reports on this machine as it may:
    then the run waits until one of them is done.
    """
    with process.a_place(Path(settings.REPORTS_DIR), settings.REPORTS_AT_ONCE) as is_free:
        if not is_free:
            waiting = ReportRun.objects.filter(pk=run_id, state=WAITING)
            waiting.update(step=Text("waiting: another report is being computed"))
            _publish(run_id, now_ms)
            return
        claimed = ReportRun.objects.filter(pk=run_id, state=WAITING).update(
            state=RUNNING,
            step=Text("starting Spark"),
            started_at_ms=now_ms,
            attempts=F("attempts") + 1,
            lease_until_ms=now_ms + LEASE_MS,
        )
        if claimed != 1:
            return
        _Attempt(ReportRun.objects.get(pk=run_id), now_ms).work()
    _enqueue_next()


class _Attempt:
    """One worker's attempt at a run. It writes only while the run is still its own."""

    def __init__(self, run: ReportRun, now_ms: int) -> None:
        self.run = run
        self._started_ms = now_ms
        self._offset_ms = now_ms - time.monotonic_ns() // 1_000_000
        self._renewed_ms = now_ms

    def now_ms(self) -> int:
        return self._offset_ms + time.monotonic_ns() // 1_000_000

    def work(self) -> None:
        """Compute the run's periods and let their rows replace those of before.

        1. Ask Spark, whose tasks write the files where they stay. 2. Note those of single queues. 3. Replace the
        rows, a transaction a period, and end the run. A period that failed keeps its rows.
        """
        run = self.run
        _publish(run.id, self.now_ms())
        try:
            if run.job in ROW_MAKERS:
                self._make_from_kept(ROW_MAKERS[run.job])
            else:
                self._compute()
        except RunLost:
            logger.warning("report was taken over run=%s attempt=%d", run.id, run.attempts)
            return
        except (ReportFailed, OSError, pa.ArrowException) as error:
            self._fail(text_of(error))
        except DatabaseError as error:
            logger.exception("report rows not written run=%s", run.id)
            self._fail(
                Text(
                    "Not all rows could be written to the database. No hour or day is half-written; run it again: "
                    "%(error)s",
                    error=str(error),
                )
            )
        except KeyboardInterrupt:
            self._fail(Text("Stopped by a user. No hour or day is half-written."))
            raise
        except Exception:
            logger.exception("report ended in an error run=%s", run.id)
            self._fail(Text("Internal error of the console; see the worker's log."))
        _publish(run.id, self.now_ms())
        if run.requested_by_id is None:  # a person who asked looks at the page
            worker_queue.send(DELIVER_TASK, run.id)
        output.prune(run.job)
        queue_files.maintain(run.cluster, self._started_ms)
        retention.drop_old(run.cluster, run.job, self._started_ms)

    def _compute(self) -> None:
        spec = job_spec(self.run, now_ms=self._started_ms)
        self._write(spec=msgspec.to_builtins(spec), output=spec.output)
        result = process.run_job(
            msgspec.json.encode(spec, order="sorted").decode(),
            on_step=self.show,
            on_beat=self.renew,
            timeout_s=RUN_TIMEOUT_S,
        )
        self.show(Text("writing rows"))
        self._finish(spec, result)

    def _make_from_kept(self, replace_rows: RowMaker) -> None:
        now_ms = self.now_ms()
        count = replace_rows(self.run, self._stamp(now_ms), claim=self._claim, now_ms=now_ms)
        self._succeed(row_count=count)

    def show(self, step: Text) -> None:
        """Show the page the current step."""
        self._write(step=step)
        _publish(self.run.id, self.now_ms())

    def renew(self) -> None:
        """Prolong the lease now and then. Raises RunLost."""
        now_ms = self.now_ms()
        if now_ms - self._renewed_ms >= LEASE_RENEWED_EVERY_MS:
            self._renewed_ms = now_ms
            self._write(lease_until_ms=now_ms + LEASE_MS)

    def _write(self, **values: Any) -> None:
        mine = ReportRun.objects.filter(pk=self.run.pk, state=RUNNING, attempts=self.run.attempts)
        if mine.update(**values) != 1:
            raise RunLost(self.run.pk)

    def _finish(self, spec: JobSpec, result: JobResult) -> None:
        run = self.run
        lost = set(result.lost_ms)
        periods = [start_ms for start_ms in computed_periods(run, spec) if start_ms not in lost]
        if lost and not periods:
            raise ReportFailed(nothing_readable(run.cluster, result))
        generated_at_ms = self.now_ms()
        stamp = self._stamp(generated_at_ms)
        produced = Produced.of(run, result, periods, generated_at_ms)
        row_count = replace_rows(run, produced, periods, stamp, claim=self._claim, now_ms=generated_at_ms)
        unknown = missing(run, [hour.hour_ms for hour in spec.hours], self._started_ms)
        self._succeed(
            row_count=row_count,
            warnings=[*unknown, *unread(spec, result), *map(Text.foreign, result.warnings)],
            spark_version=result.spark_version,
        )

    def _succeed(self, *, row_count: int, **values: Any) -> None:
        self._write(
            state=ReportRun.State.SUCCEEDED,
            step=Text(),
            row_count=row_count,
            finished_at_ms=self.now_ms(),
            **values,
        )
        logger.info("report done run=%s rows=%d", self.run.id, row_count)

    def _stamp(self, generated_at_ms: int) -> Stamp:
        run = self.run
        return Stamp(run.id, run.job, run.zone, generated_at_ms, settings.CODE_VERSION)

    def _claim(self) -> None:
        """Hold the run until the caller's transaction ends, excluding other attempts. Raises RunLost."""
        self._write(lease_until_ms=self.now_ms() + LEASE_MS)

    def _fail(self, error: Text) -> None:
        logger.warning("report failed run=%s reason=%s", self.run.id, error)
        try:
            self._write(state=ReportRun.State.FAILED, error=error, step=Text(), finished_at_ms=self.now_ms())
        except RunLost:
            logger.warning("report was taken over run=%s attempt=%d", self.run.id, self.run.attempts)


def job_spec(run: ReportRun, *, now_ms: int) -> JobSpec:
    """Return everything the job depends on.

    Hours without history are left out: earlier results for them stay. Raises ReportFailed when there is nothing to
    compute from.
    """
    try:
        cluster = cluster_selectors.cluster_by_name(run.cluster)
    except Cluster.DoesNotExist:
        raise ReportFailed(
            Text("The cluster %(cluster)s was removed in the meantime.", cluster=run.cluster)
        ) from None
    is_of_stores = run.job in STORE_JOBS
    return JobSpec(
        job=run.job,
        job_id=run.id,
        from_ms=run.from_ms,
        to_ms=run.to_ms,
        zone=run.zone,
        as_of_ms=now_ms,
        hours=[] if is_of_stores else _hours(run, now_ms),
        stores=_stores(run) if is_of_stores else [],
        output=output.output_url(run),
        slo_ms=settings.LAG_SLO_MS,
        slo_target=settings.LAG_SLO_TARGET,
        slos=selectors.slos(run.cluster),
        interval_ms=cluster.poll_interval_s * 1000,
        lookback_ms=settings.REPORT_LOOKBACK_MS,
        recovery_ms=settings.REPORT_RECOVERY_MS,
        clients=selectors.members(run.cluster) if run.job == "capacity" else {},
        client_changes=client_counts(run.cluster, run.from_ms, run.to_ms) if run.job in LAG_JOBS else {},
        filter_samples=samples_between(run.cluster, run.from_ms, run.to_ms) if run.job in LAG_JOBS else {},
        code_version=settings.CODE_VERSION,
        folds=output.folds_url() if run.job in LAG_JOBS else "",
        remote=settings.SPARK_REMOTE,
        master=settings.SPARK_MASTER,
        reuse=settings.SPARK_LOCAL_CONNECT_REUSE,
    )


def _hours(run: ReportRun, now_ms: int) -> Sequence[HourFiles]:
    """Return the hours that have history, with their files and those of the time before."""
    back_ms = settings.REPORT_LOOKBACK_MS
    known = selectors.history_files(run.cluster, run.from_ms - HOUR_MS - back_ms, run.to_ms)
    lost = lost_hours(run.cluster, run.from_ms, run.to_ms)
    contents = hour_contents(run.cluster, run.from_ms - HOUR_MS, run.to_ms)
    hours = []
    for hour_ms in hours_of(run.from_ms, min(run.to_ms, now_ms)):
        near = [
            file for file in known if file.ts_lo_ms < hour_ms + HOUR_MS and file.ts_hi_ms > hour_ms - back_ms
        ]
        own = _locations([file for file in near if file.ts_hi_ms > hour_ms])
        older = _locations([file for file in near if file.ts_hi_ms <= hour_ms])
        if own and hour_ms not in lost:
            hours.append(HourFiles(run.cluster, hour_ms, own, older, contents.get(hour_ms, "")))
    if not hours:
        raise ReportFailed(
            Text(
                "There is no history of %(cluster)s in this window. The collector writes it from its "
                "first round on; choose a later window.",
                cluster=run.cluster,
            )
        )
    return hours


def _locations(files: Sequence[HistoryFile]) -> list[str]:
    """Return addresses that any host can open; the buckets of a day are one (`spark.lag.history.buckets`)."""
    days: dict[tuple[str, int, str], list[HistoryFile]] = {}
    for file in files:
        whole = file.path if file.kind == Kind.WAL else str(file.generation)
        days.setdefault((file.kind, file.ts_lo_ms, whole), []).append(file)
    found = []
    for own in days.values():
        paths = [job_location(one) for one in sorted(own, key=lambda one: one.bucket)]
        found.append(paths[0] if len(paths) == 1 else joined_path(paths))
    return found


def _stores(run: ReportRun) -> Sequence[Mapping[str, str]]:
    """Return the folders of broker files that this machine may read. Raises ReportFailed without one."""
    stores = [one for one in settings.STORE_FOLDERS if one["cluster"] == run.cluster]
    if not stores:
        raise ReportFailed(
            Text(
                "%(job)s needs the files of a broker's store, and no store of %(cluster)s is configured. Set "
                "STORE_FOLDERS=cluster:broker=folder to a store on this machine, or to a copy of one.",
                job=JOBS[run.job],
                cluster=run.cluster,
            )
        )
    return stores


def computed_periods(run: ReportRun, spec: JobSpec) -> list[int]:
    """Return the starts of the periods that a run computed, whose rows it replaces."""
    period_ms = PERIODS_MS[run.job]
    until_ms = min(run.to_ms, spec.as_of_ms)
    if not spec.hours:
        return [start_ms for start_ms, _ in periods(run.from_ms, until_ms, period_ms, run.zone)]
    starts = (starts_in_hour(hour.hour_ms, run.from_ms, until_ms, period_ms, run.zone) for hour in spec.hours)
    return sorted(set().union(*starts))


def _publish(run_id: str, now_ms: int) -> None:
    """Send the newest run to the browsers.

    A failure of Redis must not stop a run: pages read the database anyway.
    """
    run = selectors.run(run_id)
    try:
        live.publish(f"c/{run.cluster}/reports", {run.job: run.as_row()}, now_ms=now_ms)
    except (RedisError, OSError) as error:
        logger.warning("report not published run=%s reason=%s", run_id, error)


def java_problem() -> Text | None:
    """Return why no report can be computed on this machine, with the remedy; None if it can."""
    if settings.SPARK_REMOTE:
        return None
    return process.java_problem()
