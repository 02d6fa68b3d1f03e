"""The message browser and the page of one message. Reads beside the groups: no offset of any group moves."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from console.access import rules
from console.access.models import Verb
from console.cluster.admission import admit
from console.message import selectors, services
from console.message.forms import READS, BrowseForm
from console.mqadmin import BrokerUnavailable, MQBrokerError, RemotingTimeout
from console.operation.message_view import MessageView

BrokerTrouble = (BrokerUnavailable, MQBrokerError, RemotingTimeout)
PAGE_MESSAGES = 50


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What a search gave: rows, how to go on, what could not be read, and why there is nothing."""

    rows: list[MessageView] = dataclasses.field(default_factory=list)
    cursor: str | None = None
    scanned: int | None = None
    queues: int | None = None
    silent: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cut: bool = False
    problem: str = ""
    status: int = 200


@require_safe
def messages(request: HttpRequest, cluster: str) -> HttpResponse:
    """Newest first, from a time on, by key or by id; the address is the search."""
    wanted_topic = request.GET.get("topic", "").strip()
    here = admit(request, cluster, name=wanted_topic or rules.WILDCARD)
    form = BrowseForm(request.GET)
    asked = bool(wanted_topic or request.GET.get("id"))
    found = Found()
    if asked and form.is_valid():
        if form.cleaned_data["read"] == "id":
            topic = form.cleaned_data["topic"]
            url = reverse("message", args=[here.name, form.cleaned_data["id"].strip()])
            return redirect(f"{url}?{urlencode({'topic': topic})}" if topic else url)
        found = _search(here.name, form.cleaned_data)
    context = {
        "cluster": here,
        "form": form,
        "asked": asked,
        "found": found,
        "reads": READS,
        "read": request.GET.get("read") or "newest",
        "topic_names": selectors.topic_names(here.name),
        "now_ms": int(time.time() * 1000),
    }
    status = 400 if asked and form.errors else found.status
    return render(request, "message/messages.html", context, status=status)


def _search(cluster: str, wanted: Mapping[str, Any]) -> Found:
    topic, is_from_time = wanted["topic"], wanted["read"] == "time"
    try:
        if wanted["read"] == "key":
            return Found(rows=services.by_key(cluster, topic, wanted["key"], limit=PAGE_MESSAGES))
        page = services.browse(
            cluster,
            topic,
            newest=not is_from_time,
            queue=wanted["queue"],
            tag=wanted["tag"] or None,
            from_ms=wanted["since"] if is_from_time else None,
            limit=PAGE_MESSAGES,
            cursor=wanted["cursor"] or None,
        )
    except services.TopicNotFound as unknown:
        return Found(problem=str(unknown), status=404)
    except services.BadCursor as refusal:
        return Found(problem=str(refusal), status=400)
    except BrokerTrouble as trouble:
        return Found(problem=str(trouble), status=503)
    return Found(page.rows, page.cursor, page.scanned, page.queues, page.silent, page.cut)


@require_safe
def message(request: HttpRequest, cluster: str, message_id: str) -> HttpResponse:
    """One message with body, properties and who has read it. `?topic=` helps with unique keys, `?at=`
    is a place.
    """
    topic, place = request.GET.get("topic", "").strip(), _place(request.GET.get("at", ""))
    here = admit(request, cluster, name=topic or rules.WILDCARD)
    problem, found = "", None
    try:
        if place and topic:
            found = services.message_at(here.name, topic, *place)
        found = found or services.message_by_id(here.name, message_id, topic or None)
    except BrokerTrouble as trouble:
        problem = str(trouble)
    if found is None:
        context = {"cluster": here, "message_id": message_id, "topic": topic, "problem": problem}
        return render(request, "message/not_found.html", context, status=503 if problem else 404)
    if not rules.may(request.user, Verb.VIEW, here.name, found.topic):
        raise PermissionDenied(f"This needs the right to look (VIEW) at {found.topic} on {here.name}.")
    context = {
        "cluster": here,
        "message": found,
        "readers": selectors.readers(
            here.name, found.topic, found.broker_name, found.queue_id, found.queue_offset
        ),
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "message/message.html", context)


def _place(text: str) -> tuple[str, int, int] | None:
    """`broker-a:3:88204118` → (broker name, queue id, queue offset)."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not parts[1].isdigit() or not parts[2].isdigit():
        return None
    return parts[0], int(parts[1]), int(parts[2])
