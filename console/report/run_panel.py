"""What every report page says of its runs: the last one, the running one, and the form that asks for another."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from console.access import rules as access_rules
from console.access.models import Verb
from console.cluster.models import Cluster
from console.report import selectors, services
from console.report.forms import RunForm, as_input
from console.report.rules import JOBS, yesterday_to_now

RUNS_SHOWN = 10
# A run changes no broker but takes every core of this machine for a while: more than looking.
RUN_VERB = Verb.CONFIGURE


def context(request: HttpRequest, here: Cluster, job: str, form: RunForm, now_ms: int) -> dict[str, Any]:
    """The context of the parts `report/_state.html` and `report/_run.html`."""
    runs = selectors.runs(here.name, job, limit=RUNS_SHOWN)
    latest = runs[0] if runs else None
    default = yesterday_to_now(now_ms)
    return {
        "cluster": here,
        "job": job,
        "name": JOBS[job],
        "done": selectors.last_success(here.name, job),
        "latest": latest,
        "active": latest if latest is not None and not latest.is_final else None,
        "runs": runs,
        "form": form,
        "start": request.POST.get("start") or as_input(default.from_ms),
        "end": request.POST.get("end") or as_input(now_ms),
        "may_run": access_rules.may(request.user, RUN_VERB, here.name),
        "java_problem": services.java_problem(),
    }
