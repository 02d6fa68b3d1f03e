"""The runs on every report page: the last one, the running one, and the form that requests another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import reverse

from console.access import rules as access_rules
from console.access.models import Verb
from console.cluster.models import Cluster
from console.lists.export_size import ExportSize
from console.lists.page import Page
from console.report import selectors, services
from console.report.columns import LAG_VIEWS, VIEWS
from console.report.delivery import schedules
from console.report.forms import RunForm, ScheduleForm, as_input
from console.report.jobs import JOBS, LAG_JOBS
from console.report.models import Delivery, ReportSchedule
from console.report.pages import exports
from console.report.rules import yesterday_to_now
from console.text import Text
from console.web.page_context import PageContext

RUNS_SHOWN = 10
# A run changes no broker but takes every core of this machine for a while: it needs more than VIEW.
RUN_VERB = Verb.REPORT


def context(
    request: HttpRequest,
    here: Cluster,
    job: str,
    form: RunForm,
    now_ms: int,
    schedule_form: ScheduleForm | None = None,
) -> PageContext:
    """The context of the parts `report/_state.html`, `_run.html` and `_schedule.html`."""
    (schedule,) = (one for one in schedules.schedules(here.name, now_ms=now_ms) if one.job == job)
    runs = selectors.runs(here.name, job, limit=RUNS_SHOWN)
    latest = runs[0] if runs else None
    default = yesterday_to_now(now_ms, schedule.time_zone)
    return {
        "cluster": here,
        "job": job,
        "name": JOBS[job],
        "tabs": [(view.key, view.label) for view in (*LAG_VIEWS * (job in LAG_JOBS), *VIEWS[job])],
        "done": selectors.last_success(here.name, job),
        "latest": latest,
        "active": latest if latest is not None and not latest.is_final else None,
        "runs": runs,
        "form": form,
        "start": request.POST.get("start") or as_input(default.from_ms),
        "end": request.POST.get("end") or as_input(now_ms),
        "may_run": access_rules.may(request.user, RUN_VERB, here.name),
        "may_schedule": access_rules.may(request.user, Verb.CONFIGURE, here.name),
        "java_problem": services.java_problem(),
        "schedule": schedule,
        "schedule_form": schedule_form or ScheduleForm.of(schedule),
        "webhook_host": schedules.host_of(schedule.webhook_url),
        "receivers": len(schedule.emails) + bool(schedule.webhook_url),
        "outcome": outcome_of(schedule),
    }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a schedule's last moment: why it made no report, and who was notified of it."""

    left_out: Text | str
    deliveries: Sequence[Delivery]

    @property
    def undelivered(self) -> int:
        return sum(not each.ok for each in self.deliveries)


def outcome_of(schedule: ReportSchedule) -> Outcome:
    """Return the outcome of the schedule's last moment, for `report/_told.html`."""
    is_made = schedule.last_outcome in ("", schedules.REQUESTED)
    run = schedule.last_run
    return Outcome("" if is_made else schedule.last_outcome, [] if run is None else run.tried())


class Download(NamedTuple):
    """A file of the rows that match the page's filter."""

    label: str
    url: str
    size: ExportSize


def downloads(request: HttpRequest, here: Cluster, job: str, page: Page[Any]) -> list[Download]:
    """Return a download for each format."""
    query = f"?{request.GET.urlencode()}" if request.GET else ""
    return [
        Download(
            form.label,
            reverse("report-download", args=[here.name, job, name]) + query,
            exports.export_size(name, page),
        )
        for name, form in exports.FORMATS.items()
    ]
