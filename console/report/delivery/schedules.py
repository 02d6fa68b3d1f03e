"""Report schedules per cluster and report: read by beat, changed by people."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from django.conf import settings
from django.db import transaction

from console.access import services as access_services
from console.cluster import selectors as cluster_selectors
from console.lag.episode_state import Promised
from console.lag.models import GroupSlo
from console.lag.promise_versions import promises_of
from console.lists.spec import ListSpec
from console.report import selectors, services
from console.report.jobs import JOBS, PERIODS_MS, SAME_DAYS, STORE_JOBS
from console.report.models import ReportSchedule
from console.report.rules import (
    DEFAULT_SCHEDULES,
    GRACE_MS,
    HOURLY,
    Window,
    last_due_ms,
    last_period,
    last_two_hours,
)
from console.report.services import ReportAlreadyRunning
from console.text import JsonObject, Text, text_of

logger = logging.getLogger(__name__)

SLO_VERSIONS_MAX = 200  # of a group: every job that judges its past contains them
REQUESTED = Text("requested")


SCHEDULES = ListSpec(
    name="schedules",
    key="report",
    default="report",
    columns=(),
    orders={
        "report": lambda schedule: list(JOBS).index(schedule.job),
        "cadence": lambda schedule: schedule.cadence,
        "due": lambda schedule: schedule.last_due_ms,
    },
    searched=("job", "cadence", "emails"),
)


def schedules(cluster: str, *, now_ms: int) -> Sequence[ReportSchedule]:
    """Return a cluster's schedules in the order of JOBS; one that is not stored yet is its default."""
    known = {
        one.job: one
        for one in ReportSchedule.objects.filter(cluster=cluster).select_related("last_run", "receivers_by")
    }
    return [known.get(job) or _default(cluster, job, now_ms) for job in JOBS]


def stored_schedules(cluster: str, *, now_ms: int) -> Sequence[ReportSchedule]:
    """Return the same, after the defaults of missing ones are stored."""
    found = schedules(cluster, now_ms=now_ms)
    missing = [one for one in found if one.pk is None]
    if not missing:
        return found
    ReportSchedule.objects.bulk_create(missing, ignore_conflicts=True)
    return schedules(cluster, now_ms=now_ms)


def _default(cluster: str, job: str, now_ms: int) -> ReportSchedule:
    """Make a schedule not due before its next moment: a new cluster has no past to report on."""
    cadence, hour, minute = DEFAULT_SCHEDULES[job]
    made = ReportSchedule(cluster=cluster, job=job, cadence=cadence, hour=hour, minute=minute)
    made.last_due_ms = _due_ms(made, now_ms)
    return made


def _due_ms(schedule: ReportSchedule, now_ms: int) -> int:
    return last_due_ms(
        schedule.cadence,
        schedule.weekday,
        schedule.hour,
        schedule.minute,
        now_ms,
        schedule.time_zone,
    )


def fire_due(*, now_ms: int) -> int:
    """Request the reports that are due and return how many; beat calls it every 20 s.

    Two beats request a report only once.
    """
    fired = 0
    for cluster in cluster_selectors.live_clusters():
        for schedule in stored_schedules(cluster.name, now_ms=now_ms):
            due_ms = _due_ms(schedule, now_ms)
            if not schedule.is_on or due_ms <= schedule.last_due_ms:
                continue
            mine = ReportSchedule.objects.filter(pk=schedule.pk, last_due_ms=schedule.last_due_ms)
            if mine.update(last_due_ms=due_ms) == 1:
                _fire(schedule, due_ms, now_ms)
                fired += 1
    return fired


def _fire(schedule: ReportSchedule, due_ms: int, now_ms: int) -> None:
    window = window_of(schedule, now_ms)
    if now_ms - due_ms > GRACE_MS[schedule.cadence]:
        outcome, run = Text("missed: the console was not running then"), None
    elif not _has_input(schedule, window):
        outcome, run = Text("no data in its window"), None
    else:
        try:
            run = services.request_run(
                job=schedule.job, cluster=schedule.cluster, window=window, actor=None, now_ms=now_ms
            )
            outcome = REQUESTED
            services.enqueue(run.id)
        except ReportAlreadyRunning as error:
            why = text_of(error)
            outcome, run = Text("skipped because the previous run has not ended: %(why)s", why=why), None
    logger.info("schedule due cluster=%s job=%s outcome=%s", schedule.cluster, schedule.job, outcome)
    changed = ReportSchedule.objects.filter(pk=schedule.pk)
    changed.update(last_outcome=outcome, **({"last_run": run} if run else {}))


def window_of(schedule: ReportSchedule, now_ms: int) -> Window:
    """Return the window of a run now: the last full hours for an hourly report, else the last full period."""
    period_ms = PERIODS_MS[schedule.job]
    if schedule.cadence == HOURLY:
        return last_two_hours(now_ms, period_ms, schedule.time_zone)
    return last_period(now_ms, period_ms, schedule.time_zone)


def _has_input(schedule: ReportSchedule, window: Window) -> bool:
    if schedule.job in STORE_JOBS:
        return any(one["cluster"] == schedule.cluster for one in settings.STORE_FOLDERS)
    return bool(selectors.history_files(schedule.cluster, window.from_ms, window.to_ms))


@dataclass(frozen=True, slots=True)
class Change:
    """What to change of a schedule; None stays as it is."""

    is_on: bool | None = None
    cadence: str | None = None
    minute: int | None = None
    hour: int | None = None
    weekday: int | None = None
    zone: str | None = None
    emails: Sequence[str] | None = None
    webhook_url: str | None = None

    def apply(self, schedule: ReportSchedule) -> set[str]:
        """Set the given fields; return their names."""
        names = {field.name for field in fields(self) if getattr(self, field.name) is not None}
        for name in names:
            setattr(schedule, name, getattr(self, name))
        return names


def change(
    schedule: ReportSchedule, wanted: Change, *, actor: Any, now_ms: int, remote_addr: str = ""
) -> None:
    """Change a schedule.

    A new time counts from now on: it does not fire for a moment already past. A new zone of one of SAME_DAYS is the
    zone of all of them.
    """
    with transaction.atomic():
        _change(schedule, wanted, actor, now_ms, remote_addr)
        if wanted.zone is not None and schedule.job in SAME_DAYS:
            others = ReportSchedule.objects.filter(cluster=schedule.cluster, job__in=SAME_DAYS)
            for other in others.exclude(zone=wanted.zone):
                _change(other, Change(zone=wanted.zone), actor, now_ms, remote_addr)


def _change(schedule: ReportSchedule, wanted: Change, actor: Any, now_ms: int, remote_addr: str) -> None:
    before = as_row(schedule)
    changed = wanted.apply(schedule) | {"last_due_ms"}
    if before["emails"] != schedule.emails or wanted.webhook_url:
        schedule.receivers_by_id = getattr(actor, "pk", None)
        changed.add("receivers_by")
    schedule.last_due_ms = max(schedule.last_due_ms, _due_ms(schedule, now_ms))
    schedule.save(update_fields=changed)
    access_services.record_audit(
        actor=actor,
        verb="change schedule",
        cluster=schedule.cluster,
        subject=schedule.job,
        before=before,
        after=as_row(schedule),
        remote_addr=remote_addr,
    )


def as_row(schedule: ReportSchedule) -> JsonObject:
    """Return what REST and the audit show: of the webhook only whether it is set, and its host."""
    return {
        "job": schedule.job,
        "cluster": schedule.cluster,
        "is_on": schedule.is_on,
        "cadence": schedule.cadence,
        "minute": schedule.minute,
        "hour": schedule.hour,
        "weekday": schedule.weekday,
        "zone": schedule.zone,
        "time_zone": schedule.time_zone,
        "emails": schedule.emails,
        "webhook_host": host_of(schedule.webhook_url),
        "last_due_ms": schedule.last_due_ms,
        "last_outcome": schedule.last_outcome,
        "last_run": schedule.last_run_id,
    }


def host_of(url: str) -> str:
    return url.split("/")[2] if url.count("/") >= 2 else ""


# --- Promises -----------------------------------------------------------------------------------------------


def slo_of(cluster: str, group: str) -> Promised:
    """Return the newest version of the group's promise."""
    own = promises_of(cluster, [group])
    return own.versions[group][-1] if group in own.versions else own.default


def slo_versions(cluster: str, group: str) -> Sequence[GroupSlo]:
    """Return all versions of a group's promise, newest first; without figures: the installation's."""
    return list(GroupSlo.objects.filter(cluster=cluster, group=group).order_by("-from_ms"))


def set_slo(
    cluster: str,
    group: str,
    slo_ms: int | None,
    target: float | None,
    *,
    actor: Any,
    now_ms: int,
    remote_addr: str = "",
) -> None:
    """Start a new version of a group's promise; without figures the installation's applies again.

    Time before now stays judged by the versions of then.
    """
    before = slo_of(cluster, group)
    with transaction.atomic():
        versions = slo_versions(cluster, group)
        is_own = slo_ms is not None and target is not None
        wanted = (slo_ms, target) if is_own else (None, None)
        if wanted == ((versions[0].slo_ms, versions[0].target) if versions else (None, None)):
            return
        GroupSlo.objects.create(
            cluster=cluster,
            group=group,
            slo_ms=wanted[0],
            target=wanted[1],
            # The clock may have been set back.
            from_ms=max(now_ms, versions[0].from_ms + 1) if versions else now_ms,
            set_by=access_services.actor_name(actor),
        )
        too_old = [one.pk for one in versions[SLO_VERSIONS_MAX - 1 :]]
        GroupSlo.objects.filter(pk__in=too_old).delete()
        access_services.record_audit(
            actor=actor,
            verb="change SLO",
            cluster=cluster,
            subject=group,
            before=_audited(before),
            after=_audited(slo_of(cluster, group)),
            remote_addr=remote_addr,
        )


def _audited(promise: Promised) -> dict[str, float]:
    return {"slo_ms": promise.slo_ms, "target": promise.target}
