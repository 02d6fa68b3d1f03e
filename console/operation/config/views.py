"""What the pages that create, change and delete topics and groups share: each only makes a plan."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from django.http import Http404, HttpRequest, HttpResponse

from console.access import rules
from console.access.models import Verb
from console.cluster.models import Cluster
from console.lag import selectors as lag_selectors
from console.operation.config.forms import ConfigForm
from console.operation.config.quarantine import quarantine_hours, quarantine_of
from console.operation.plan_request import plan_or_reason
from console.text import Text
from console.text.stored import as_json
from console.web.page_context import PageContext

# Button → action of the plan.
STEPS = {"quarantine": "quarantine", "delete": "delete", "force": "force_delete"}


def broker_names(cluster: str) -> list[str]:
    """Return the brokers that a new object can be created on."""
    return sorted({row.broker_name for row in lag_selectors.broker_rows(cluster)})


def submitted_form(
    request: HttpRequest, here: Cluster, what: str, action: str, form: ConfigForm, name: str = ""
) -> HttpResponse | str:
    """Make the plan of a submitted form: return the redirect to it, or why there is none.

    Returns "" if nothing was submitted or the error is shown at a field. ``name``: of an existing object; a new
    one's is in the form.
    """
    if request.method != "POST" or not form.is_valid():
        return ""
    subject = name or form.cleaned_data["name"]
    return plan_or_reason(
        request, here, f"{what}_{action}", subject, as_json(form.params()), form, {what: "name"}
    )


def submitted_step(
    request: HttpRequest, here: Cluster, what: str, name: str, options: Collection[str] = ()
) -> HttpResponse | str:
    """Make the plan of a quarantine or deletion, named by the button; return as `submitted_form`.

    ``options``: checkboxes of a deletion.
    """
    if request.method != "POST":
        return ""
    action = STEPS.get(request.POST.get("action", ""))
    if action is None:
        raise Http404(Text("There is no such step."))
    ticked = {option: True for option in options if action != "quarantine" and request.POST.get(option)}
    return plan_or_reason(request, here, f"{what}_{action}", name, ticked)


def form_context(
    request: HttpRequest, here: Cluster, what: str, form: ConfigForm, problem: str, brokers: Sequence[str]
) -> PageContext:
    """Return the template context that all these forms need."""
    return {
        "cluster": here,
        "form": form,
        "problem": problem,
        "chosen": request.POST.getlist("brokers") if request.method == "POST" else brokers,
        "section": f"{what}s",
        "now_ms": int(time.time() * 1000),
    }


def quarantine_context(request: HttpRequest, here: Cluster, what: str, name: str) -> PageContext:
    """Return the template context about an object's quarantine: two queries, no broker request."""
    now_ms = int(time.time() * 1000)
    quarantine = quarantine_of(here.name, what, name)
    return {
        "now_ms": now_ms,
        "quarantine": quarantine,
        "is_closed": quarantine is not None,
        "is_due": quarantine is not None and now_ms >= quarantine.deletable_at_ms,
        "written_since": False,
        "hours": quarantine_hours(),
        "may_force": rules.may(request.user, Verb.ADMIN, here.name, name),
        "may_configure": rules.may(request.user, Verb.CONFIGURE, here.name, name),
    }
