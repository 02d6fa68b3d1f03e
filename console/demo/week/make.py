"""Make the demo's sample cluster: a generated week of history, judged by the collector's code, and its reports.

    no note, no cluster     it is made
    no note, a cluster      a process died while it made it: what it left is removed, and it is made again
    a note                  it was made, or deleted by a person: it is not made again

Every hour it is checked that the cluster was not deleted meanwhile.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

from django.conf import settings

from console.cluster.models import Cluster
from console.demo.week import purge
from console.demo.week.shop import DAYS, INTERVAL_MS, PROMISES, ShopWeek
from console.lag.collect.given_rounds import GivenRounds
from console.lag.history import archive
from console.lag.history.compaction_lease import LeaseTaken
from console.lag.models import GroupSlo
from console.process.programs import week_note
from console.report import services as report_services
from console.report.models import ReportRun
from console.report.rules import Window
from spark.lag.local_time import DAY_MS, HOUR_MS

logger = logging.getLogger(__name__)

NAME = "sample-week"
# No address of a broker, and none that any network has (RFC 2606).
NO_ADDRESS = "generated.invalid:9876"
# Cheapest first, so that pages fill early; the weekly one is made of rows of the others.
REPORTS = ("episodes", "lag_hour", "lag_day", "lag_week", "capacity", "forecast_scorecard", "lag_trend")
POLL_S = 0.5


class Deleted(Exception):
    """The sample cluster was deleted while it was made."""


def note() -> Path:
    """Return the file that keeps the sample cluster from being made again."""
    return week_note(settings.DATA_DIR)


def make(now_ms: int) -> bool:
    """Make the sample cluster unless it was made before; return whether it was made."""
    if note().exists():
        return False
    left = Cluster.objects.filter(name=NAME).first()
    if left is not None and not left.is_generated:
        logger.warning("no sample week: a cluster %s exists", NAME)
        return False
    if left is not None:
        left.delete()
    purge.purge(NAME, now_ms=now_ms)
    end_ms = now_ms - now_ms % HOUR_MS
    cluster = Cluster.objects.create(
        name=NAME,
        namesrv_addrs=NO_ADDRESS,
        poll_interval_s=INTERVAL_MS // 1000,
        generated_to_ms=end_ms,
    )
    try:
        _make_history(cluster, end_ms, now_ms)
        _make_reports(cluster, end_ms)
    except Deleted:
        purge.purge(NAME, now_ms=_now_ms())
        return False
    note().write_text("made\n")
    return True


def _make_history(cluster: Cluster, end_ms: int, now_ms: int) -> None:
    GroupSlo.objects.bulk_create(
        GroupSlo(cluster=cluster.name, group=group, slo_ms=slo_ms, target=target)
        for group, (slo_ms, target) in PROMISES.items()
    )
    rounds = GivenRounds(cluster.name, INTERVAL_MS)
    for _ in rounds.keep(ShopWeek(end_ms).rounds(), now_ms=now_ms):
        _require(cluster)
    rounds.finish()
    try:
        for day_ms in archive.days_to_merge(cluster.name, now_ms):
            archive.merge_day(cluster.name, day_ms, now_ms=_now_ms())
    except LeaseTaken:
        # A worker merges them just then.
        logger.info("days are merged by a worker cluster=%s", cluster.name)
    logger.info("history made cluster=%s", cluster.name)


def _make_reports(cluster: Cluster, end_ms: int) -> None:
    for job in REPORTS:
        _require(cluster)
        run = report_services.request_run(
            job=job,
            cluster=cluster.name,
            window=Window(end_ms - DAYS * DAY_MS, end_ms),
            actor=None,
            now_ms=_now_ms(),
        )
        while not run.is_final:
            report_services.run_report(run.pk, now_ms=_now_ms())
            _require(cluster)
            run = ReportRun.objects.get(pk=run.pk)
            if not run.is_final:
                # Another report is being computed, or a worker has this one.
                time.sleep(POLL_S)
        logger.info("report made cluster=%s job=%s state=%s", cluster.name, job, run.state)


def _require(cluster: Cluster) -> None:
    if not Cluster.objects.filter(pk=cluster.pk).exists():
        raise Deleted


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
