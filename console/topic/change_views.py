"""Forms and buttons that make plans of topics. Nothing is changed here but by the one-click release."""

from __future__ import annotations

import time
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from console.access import rules
from console.access.models import Verb
from console.access.name_scope import NameScope, view_scope
from console.cluster.admission import admit, admit_to_list
from console.cluster.models import Cluster
from console.lag import selectors as lag_selectors
from console.lag.models import TopicRow
from console.operation.config_change import TOPIC, counted
from console.operation.config_table import read_table
from console.operation.plan_request import apply_at_once, plan_or_reason
from console.operation.quarantine import quarantine_hours, quarantine_of
from console.topic import selectors
from console.topic.forms import TopicChangeForm, TopicCreateForm
from console.topic.topic_config import READ, WRITE

FORM_FIELDS = {"topic": "name"}  # parameter of the plan → field of the form, where they differ


@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest, cluster: str) -> HttpResponse:
    """A form; POST makes the plan and shows it. Whether the name is allowed is asked with the name."""
    here, _ = admit_to_list(request, cluster)
    brokers = sorted({row.broker_name for row in lag_selectors.broker_rows(here.name)})
    form = TopicCreateForm(brokers, request.POST or None, initial={"name": request.GET.get("name", "")[:127]})
    problem = ""
    if request.method == "POST" and form.is_valid():
        made = plan_or_reason(
            request, here, "topic_create", form.cleaned_data["name"], form.params(), form, FORM_FIELDS
        )
        if isinstance(made, HttpResponse):
            return made
        problem = made
    chosen = request.POST.getlist("brokers") if request.method == "POST" else brokers
    context = {"cluster": here, "form": form, "problem": problem, "chosen": chosen, "section": "topics"}
    return render(request, "topic/create.html", context, status=422 if form.errors or problem else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """Beside the form stands what each broker has now; POST makes the plan."""
    here = admit(request, cluster, Verb.CONFIGURE, topic)
    row = known(here.name, topic)
    form = TopicChangeForm(row.brokers, request.POST or None)
    problem = ""
    if request.method == "POST" and form.is_valid():
        made = plan_or_reason(request, here, "topic_change", topic, form.params(), form, FORM_FIELDS)
        if isinstance(made, HttpResponse):
            return made
        problem = made
    context = {
        "cluster": here,
        "row": row,
        "form": form,
        "problem": problem,
        "chosen": request.POST.getlist("brokers") if request.method == "POST" else row.brokers,
        "table": read_table(here, TOPIC, topic),
        "section": "topics",
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "topic/change.html", context, status=422 if form.errors or problem else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """The way of a topic out: quarantine, watch, delete. POST plans the step that ``deed`` names."""
    here = admit(request, cluster, Verb.CONFIGURE, topic)
    problem = ""
    if request.method == "POST":
        deeds = {"quarantine": "topic_quarantine", "delete": "topic_delete", "force": "topic_force_delete"}
        kind = deeds.get(request.POST.get("deed", ""))
        if kind is None:
            raise Http404("There is no such step.")
        made = plan_or_reason(request, here, kind, topic, {})
        if isinstance(made, HttpResponse):
            return made
        problem = made
    context = {
        "cluster": here,
        "row": known(here.name, topic),
        "used_by": used_by(here.name, topic, view_scope(request.user, here.name)),
        "problem": problem,
        "section": "topics",
        **quarantine_context(request, here, topic),
    }
    return render(request, "topic/delete.html", context, status=422 if problem else 200)


@require_POST
def release(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """End the quarantine: plan and apply in one, since it only gives back what was taken."""
    here = admit(request, cluster, Verb.CONFIGURE, topic)
    return apply_at_once(request, here, "topic_release", topic, redirect("topic", here.name, topic))


def used_by(cluster: str, topic: str, scope: NameScope) -> str:
    """Who reads the topic, in words; groups outside of ``scope`` are counted and not named."""
    groups = selectors.topic_groups(cluster, topic)
    if not groups:
        return "no group reads it"
    online = [group for group in groups if group.clients]
    if not online:
        return f"{counted(len(groups), 'group')}, none of them online"
    named = [group for group in online if scope.covers(group.group)]
    names = [f"{group.group} ({group.clients})" for group in named[:5]]
    if len(named) < len(online):
        names.append(f"{len(online) - len(named)} that you may not look at")
    return f"{counted(len(online), 'group', 'are')} online of {len(groups)}: {', '.join(names)}"


def known(cluster: str, topic: str) -> TopicRow:
    """The topic's row, or Http404."""
    row = selectors.topic(cluster, topic)
    if row is None:
        raise Http404(f"{cluster} has no topic {topic}; if it was just created, the next round will show it.")
    return row


def quarantine_context(request: HttpRequest, here: Cluster, topic: str) -> dict[str, Any]:
    """What pages say about the quarantine of a topic."""
    now_ms = int(time.time() * 1000)
    row = selectors.topic(here.name, topic)
    closed = row is not None and not row.perm & (READ | WRITE)
    quarantine = quarantine_of(here.name, TOPIC, topic)
    return {
        "now_ms": now_ms,
        "quarantine": quarantine,
        "is_closed": closed,
        "is_due": quarantine is not None and now_ms >= quarantine.deletable_at_ms,
        "written_since": quarantine is not None
        and row is not None
        and quarantine.has_traffic(row.last_write_ms),
        "hours": quarantine_hours(),
        "may_force": rules.may(request.user, Verb.ADMIN, here.name, topic),
        "may_configure": rules.may(request.user, Verb.CONFIGURE, here.name, topic),
    }
