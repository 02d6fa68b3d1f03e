"""Restore the offsets of all groups on a broker that lost them: choose the moment, look, make the plans, apply them."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from console.access.models import Verb
from console.access.session.visitor import remote_addr
from console.brokers.errors import BROKER_TROUBLE
from console.cluster.admission import admit
from console.cluster.models import Cluster
from console.group.broker_restore.compared import Offsets, moment_before_loss, offsets_now
from console.group.broker_restore.forms import SCOPE_CHOICES, MakeForm, MomentForm
from console.group.broker_restore.plans import (
    PLANS_MAX,
    GroupRestore,
    apply_plans,
    approve_plans,
    make_plans,
    restores,
)
from console.group.broker_restore.progress import progress_of
from console.lag.last_seen import brokers_seen
from console.operation.errors import OperationError, PlanRejected
from console.operation.forms import ConfirmForm
from console.text import Text, text_of

REFUSALS_NAMED_MAX = 5


@require_http_methods(["GET", "HEAD", "POST"])
def page(request: HttpRequest, cluster: str, broker: str) -> HttpResponse:
    """Show what the groups had on a broker at `?time=` and have now, and the plans that restore it.

    POST with ``action`` makes, approves or applies plans and comes back; `?part=1` is the table alone, for renewal.
    """
    here = admit(request, cluster, Verb.RESET)
    if broker not in brokers_seen(here.name):
        raise Http404(Text("%(cluster)s has no broker %(broker)s.", cluster=here.name, broker=broker))
    form = MomentForm(request.GET)
    at_ms = form.cleaned_data["time"] if form.is_valid() else None
    if request.method == "POST" and at_ms is not None:
        return _act(request, here, broker, form, at_ms)
    return _page(request, here, broker, form, at_ms)


def _page(
    request: HttpRequest,
    here: Cluster,
    broker: str,
    form: MomentForm,
    at_ms: int | None,
    refused: Text | None = None,
) -> HttpResponse:
    now_ms = int(time.time() * 1000)
    offsets, problem = _offsets_now(here.name, broker)
    found: Sequence[GroupRestore] = ()
    missing = Text()
    if at_ms is not None:
        try:
            found = restores(here.name, (broker,), at_ms, offsets)
        except PlanRejected as refusal:
            missing = text_of(refusal)
    context = {
        "cluster": here,
        "broker": broker,
        "form": form,
        "at_ms": at_ms,
        "groups": sorted(found, key=_worst_first),
        "progress": progress_of(found, timezone.now(), request.user),
        "problem": problem,
        "missing": missing,
        "refused": refused,
        "scopes": SCOPE_CHOICES,
        "is_known": offsets is not None,
        "plans_max": PLANS_MAX,
        "here_url": _address(here.name, broker, at_ms),
        "section": "brokers",
        "now_ms": now_ms,
    }
    if "part" in request.GET:
        return render(request, "group/_broker_restore.html", context)
    if at_ms is None and offsets is not None:
        found_ms = moment_before_loss(here.name, (broker,), offsets, now_ms)
        context |= {"suggested_ms": found_ms, "suggested_url": _address(here.name, broker, found_ms)}
    status = 422 if form.errors or refused else 200
    return render(request, "group/broker_restore.html", context, status=status)


def _act(request: HttpRequest, here: Cluster, broker: str, form: MomentForm, at_ms: int) -> HttpResponse:
    """Make, approve or apply the plans, then come back to the page of this moment."""
    try:
        found = _acted(request, here.name, broker, at_ms)
    except (OperationError, *BROKER_TROUBLE) as refusal:
        return _page(request, here, broker, form, at_ms, text_of(refusal))
    for each in [each for each in found if each.refusal][:REFUSALS_NAMED_MAX]:
        words = Text("%(group)s: %(reason)s", group=each.group, reason=each.refusal)
        messages.warning(request, words.local())
    return redirect(_address(here.name, broker, at_ms))


def _acted(request: HttpRequest, cluster: str, broker: str, at_ms: int) -> Sequence[GroupRestore]:
    """Do what the form requests. Raises OperationError and BROKER_TROUBLE."""
    action, actor, addr = request.POST.get("action", ""), request.user, remote_addr(request)
    offsets = offsets_now(cluster, (broker,))
    if action == "plan":
        form = MakeForm(request.POST)
        if not form.is_valid():
            raise PlanRejected(Text("Choose which queues go back."), "scope")
        scope = form.cleaned_data["scope"]
        return make_plans(
            cluster, (broker,), at_ms, offsets, actor, scope=scope, most=PLANS_MAX, remote_addr=addr
        )
    found = restores(cluster, (broker,), at_ms, offsets)
    if action == "approve":
        return approve_plans(found, actor, remote_addr=addr)
    confirm = ConfirmForm(request.POST)
    given = confirm.cleaned_data if confirm.is_valid() else {}
    return apply_plans(
        cluster,
        found,
        actor,
        confirm_text=given.get("confirm_text", ""),
        reason=given.get("reason", ""),
        remote_addr=addr,
    )


def _offsets_now(cluster: str, broker: str) -> tuple[Offsets | None, Text]:
    """Return what the broker has now, or why it is not known."""
    try:
        return offsets_now(cluster, (broker,)), Text()
    except BROKER_TROUBLE as trouble:
        return None, text_of(trouble)


def _address(cluster: str, broker: str, at_ms: int | None) -> str:
    path = reverse("broker-restore", args=[cluster, broker])
    if at_ms is None:
        return path
    moment = datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)
    return f"{path}?{urlencode({'time': moment.isoformat(timespec='milliseconds')})}"


def _worst_first(each: GroupRestore) -> tuple[bool, int, str]:
    return not each.compared.lost, -len(each.compared.lost), each.group
