"""Forms and buttons that make plans of topics; only the one-click release changes anything."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from console.access.models import Verb
from console.access.name_scope import NameScope, view_scope
from console.cluster.admission import admit, admit_to_list
from console.cluster.models import Cluster
from console.lag.last_seen import may_lie_on_silent
from console.lag.models import TopicRow
from console.lag.selectors import broker_rows
from console.lists.query import ListQuery
from console.operation.config.row import TOPIC
from console.operation.config.table import read_table
from console.operation.config.views import (
    broker_names,
    form_context,
    quarantine_context,
    submitted_form,
    submitted_step,
)
from console.operation.plan_request import apply_at_once
from console.text import Text
from console.topic import selectors
from console.topic.forms import TopicChangeForm, TopicCreateForm
from console.topic.topic_config import KEY_MEANINGS, READ, WRITE
from console.web.page_context import PageContext

NEIGHBOURS = 12  # topics beside the form of a new one: as tall as the form and the brokers together


@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest, cluster: str) -> HttpResponse:
    """Show the form to create a topic; POST makes the plan and redirects to it."""
    here, scope = admit_to_list(request, cluster)
    brokers = broker_names(here.name)
    form = TopicCreateForm(brokers, request.POST or None, initial={"name": request.GET.get("name", "")[:127]})
    made = submitted_form(request, here, TOPIC, "create", form)
    if isinstance(made, HttpResponse):
        return made
    context = form_context(request, here, TOPIC, form, made, brokers)
    busiest = ListQuery(sort="in_rate", descending=True, per_page=NEIGHBOURS)
    context |= {
        "neighbours": selectors.topic_page(here.name, busiest, scope=scope).rows,
        # what a broker does as a whole is for readers of the whole cluster
        "masters": [row for row in broker_rows(here.name) if not row.broker_id and scope.is_everything],
    }
    return render(request, "topic/create.html", context, status=422 if form.errors or made else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """Show the form to change a topic, with what each broker has now; POST makes the plan."""
    here = admit(request, cluster, Verb.CONFIGURE, topic)
    row = known(here.name, topic)
    form = TopicChangeForm(row.brokers, request.POST or None)
    made = submitted_form(request, here, TOPIC, "change", form, topic)
    if isinstance(made, HttpResponse):
        return made
    context = form_context(request, here, TOPIC, form, made, row.brokers)
    context |= {"row": row, "table": read_table(here, TOPIC, topic, KEY_MEANINGS)}
    return render(request, "topic/change.html", context, status=422 if form.errors or made else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """Show the steps to delete a topic: quarantine, watch, delete; POST plans the step ``action``."""
    here = admit(request, cluster, Verb.CONFIGURE, topic)
    made = submitted_step(request, here, TOPIC, topic)
    if isinstance(made, HttpResponse):
        return made
    row = known(here.name, topic)
    context = {
        "cluster": here,
        "row": row,
        "used_by": used_by(here.name, topic, view_scope(request.user, here.name)),
        "problem": made,
        "section": "topics",
        **topic_quarantine(request, here, row),
    }
    return render(request, "topic/delete.html", context, status=422 if made else 200)


@require_POST
def release(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """End the quarantine: plan and apply in one, since it only restores permissions."""
    here = admit(request, cluster, Verb.CONFIGURE, topic)
    return apply_at_once(request, here, "topic_release", topic, redirect("topic", here.name, topic))


def used_by(cluster: str, topic: str, scope: NameScope) -> Text:
    """Return who reads the topic, in words; groups outside of ``scope`` are counted and not named."""
    groups = selectors.topic_groups(cluster, topic)
    if not groups:
        return Text("no group reads it")
    online = [group for group in groups if group.clients]
    if not online:
        return Text("%(groups)s group(s), none online", groups=len(groups))
    named = [group for group in online if scope.covers(group.group)]
    names = [
        Text("%(name)s (%(number)s)", name=group.group, number=group.clients or 0) for group in named[:5]
    ]
    if len(named) < len(online):
        names.append(Text("%(number)s that you may not view", number=len(online) - len(named)))
    return Text(
        "%(number)s of %(total)s group(s) online: %(names)s",
        number=len(online),
        total=len(groups),
        names=Text.of_list(names),
    )


def known(cluster: str, topic: str) -> TopicRow:
    """Return the topic's row; raises Http404."""
    row = selectors.topic(cluster, topic)
    if row is None:
        unknown = Text(
            "%(cluster)s has no topic %(topic)s; if it was just created, the next round will show it.",
            cluster=cluster,
            topic=topic,
        )
        raise Http404(Text.of_parts([unknown, may_lie_on_silent(cluster)]))
    return row


def topic_quarantine(request: HttpRequest, here: Cluster, row: TopicRow) -> PageContext:
    """Return what pages show of a topic's quarantine: whether it is closed, and still written."""
    found = quarantine_context(request, here, TOPIC, row.topic)
    quarantine = found["quarantine"]
    return found | {
        "is_closed": not row.perm & (READ | WRITE),
        "written_since": quarantine is not None and quarantine.has_traffic(row.last_write_ms),
    }
