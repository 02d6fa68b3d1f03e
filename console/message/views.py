"""The message browser and the page of one message. Reading moves no offset of any group."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from console.access import rules
from console.access.models import Verb
from console.access.name_scope import view_scope
from console.access.session.visitor import remote_addr
from console.brokers.body_format import FORMAT_NAMES
from console.brokers.body_format import FORMATS as BODY_FORMATS
from console.brokers.message_view import BODY_SHOWN_BYTES, MessageView
from console.brokers.mqadmin import BrokerUnavailable, MQBrokerError, RemotingTimeout
from console.cluster.admission import admit, admit_to_list
from console.cluster.masks import may_unmask, unmasked
from console.cluster.models import Cluster
from console.lag.models import TopicRow
from console.lists.export_size import ExportSize
from console.message import schemas, selectors, services
from console.message.compare import compare
from console.message.forms import LOOKUPS, READS, BrowseForm, place_of
from console.message.life_line.axis import axis_of
from console.message.life_line.events import life_line
from console.message.list_rows import ListRow, hit_rows, list_rows
from console.message.saved_searches import saved_searches
from console.message.search import body_match
from console.message.search.export import FORMATS, export_size
from console.message.search.lanes import Hit
from console.message.search.message_search import open_search, source_of
from console.message.search.query import QueryRefused
from console.text import Text, text_of

BrokerTrouble = (BrokerUnavailable, MQBrokerError, RemotingTimeout)
PAGE_MESSAGES = 50
FILTERS = ("tag", "sql", "find", "queue", "broker")
# How long the page waits for rows; longer searches stream over its socket, or continue with "Continue the search".
FIRST_PAINT_MS = 1_000
PEEK_BYTES = 16 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: rows, how to continue, what could not be read, and why there are none."""

    rows: list[ListRow] = dataclasses.field(default_factory=list)
    page: services.MessagePage | None = None
    hits: Sequence[Hit] = ()
    problem: str = ""
    field: str = ""  # of the form, where the problem is
    status: int = 200

    @property
    def is_streaming(self) -> bool:
        """Return whether the search had not finished when the page was sent: its socket continues."""
        return self.page is not None and self.page.cut


@require_safe
def messages(request: HttpRequest, cluster: str) -> HttpResponse:
    """Show the list of a search; the address is the search."""
    topic = request.GET.get("topic", "").strip()
    here = admit(request, cluster, name=topic) if topic else admit_to_list(request, cluster)[0]
    form = BrowseForm(request.GET)
    is_requested = bool(topic or request.GET.get("id"))
    found = Found()
    if is_requested and form.is_valid():
        if form.cleaned_data["read"] == "id":
            url = reverse("message", args=[here.name, form.cleaned_data["id"].strip()])
            return redirect(f"{url}?{urlencode({'topic': topic})}" if topic else url)
        found = Found(problem=_no_messages(here)) if here.is_generated else _search(here.name, form)
    address = request.GET.copy()
    address.pop("cursor", None)
    read = request.GET.get("read") or "newest"
    facts = selectors.topic_facts(here.name, topic) if topic else None
    context = {
        "cluster": here,
        "form": form,
        "asked": is_requested,
        "rows": found.rows,
        "found": found.page,
        "problem": found.problem,
        "problem_field": found.field,
        "is_streaming": found.is_streaming,
        "nothing": _nothing(form, read),
        "is_tail": is_requested and not form.errors and read == "tail",
        "reads": READS,
        "read": read if read in dict(READS) else "newest",
        "kinds": body_match.KINDS,
        "address": address.urlencode(),
        "searches": saved_searches(request.user, here.name),
        "topic_names": selectors.topic_names(here.name, view_scope(request.user, here.name)),
        "facts": facts,
        "brokers": selectors.queues_by_broker(here.name, topic) if topic else [],
        "queue_text": " ".join(request.GET.getlist("queue")),
        "tail_address": _with(address, read="tail"),
        "exports": _exports(form, found, facts),
        "may_send": bool(topic) and rules.may(request.user, Verb.SEND, here.name, topic),
        "now_ms": int(time.time() * 1000),
    }
    status = 400 if is_requested and form.errors else found.status
    return render(request, "message/messages.html", context, status=status)


def _nothing(form: BrowseForm, read: str) -> Text:
    """Return what an empty list means."""
    given = form.data
    topic = given.get("topic", "")
    if read == "key":
        return Text(
            "No message of %(value)s has the key “%(value_2)s” in the index of any broker.",
            value=topic,
            value_2=given.get("key", ""),
        )
    if read == "unique":
        return Text(
            "No message of %(value)s has the unique key “%(value_2)s” in the index of any broker.",
            value=topic,
            value_2=given.get("id", ""),
        )
    if given.get("cursor"):
        return Text("No more messages.")
    if any(given.get(name) for name in FILTERS):
        return Text("No message of %(value)s that was read matches the filters above.", value=topic)
    if read == "time":
        return Text("%(value)s has no readable message from that time on.", value=topic)
    if read == "offset":
        return Text("%(value)s has no readable message from that offset on.", value=topic)
    return Text("%(value)s has no readable message.", value=topic)


def _with(address: QueryDict, **changes: str) -> str:
    changed = address.copy()
    for name, value in changes.items():
        changed[name] = value
    return changed.urlencode()


def _no_messages(cluster: Cluster) -> Text:
    return Text("%(cluster)s is generated data: no broker stores its messages.", cluster=cluster.name)


def _search(cluster: str, form: BrowseForm) -> Found:
    wanted = form.cleaned_data
    try:
        if wanted["read"] in LOOKUPS:
            return Found(list_rows(_looked_up(cluster, form)))
        if wanted["read"] == "tail":
            return Found()
        query = form.query()
        search = open_search(
            source_of(cluster, query.topic),
            query,
            limit=PAGE_MESSAGES,
            time_ms=FIRST_PAINT_MS,
            cursor_text=wanted["cursor"],
        )
        while not search.is_done:
            search.step()
    except services.TopicNotFound as unknown:
        return Found(problem=str(unknown), status=404)
    except QueryRefused as refusal:
        return Found(problem=text_of(refusal).local(), field=refusal.field, status=400)
    except services.BadCursor as refusal:
        return Found(problem=text_of(refusal).local(), status=400)
    except BrokerTrouble as trouble:
        return Found(problem=text_of(trouble).local(), status=503)
    rows = hit_rows(search.picked, query.match, search.protobuf)
    if search.merge.up is query.newest:
        rows.reverse()  # read towards the list's beginning
    return Found(rows, services.page_of(search, has_cursor=bool(wanted["cursor"])), search.picked)


@dataclasses.dataclass(frozen=True, slots=True)
class Export:
    """An export button: the name and label of its format, and the size of its file."""

    name: str
    label: str
    size: ExportSize


def _exports(form: BrowseForm, found: Found, facts: TopicRow | None) -> list[Export]:
    """Return the exports of a search that found messages, or still may.

    A topic has so many messages; how many a filter leaves is not known.
    """
    page = found.page
    if page is None or not (found.rows or found.is_streaming):
        return []
    is_narrowed = any(form.data.get(name) for name in (*FILTERS, "since", "until", "offset", "cursor"))
    rows: int | None
    if not (page.cursor or page.previous or page.cut or page.silent):
        rows, is_most = len(found.rows), False
    elif facts is None or facts.messages is None or facts.messages_lower_bound:
        rows, is_most = None, False
    else:
        rows, is_most = facts.messages, is_narrowed or facts.offset_is_not_count
    scope = Text("the messages that match the search") if is_narrowed else Text("every message of the topic")
    return [
        Export(name, label, export_size(name, found.hits, rows, is_most=is_most, scope=scope))
        for name, (label, _, _) in FORMATS.items()
    ]


def _looked_up(cluster: str, form: BrowseForm) -> list[MessageView]:
    wanted = form.cleaned_data
    if wanted["read"] == "unique":
        return services.by_unique_key(cluster, wanted["topic"], wanted["id"].strip())
    return services.by_key(cluster, wanted["topic"], wanted["key"], limit=PAGE_MESSAGES, limit_bytes=512)


@require_http_methods(["GET", "HEAD", "POST"])
def message(request: HttpRequest, cluster: str, message_id: str) -> HttpResponse:
    """Show one message with body, properties and its life line; POST: with its masked fields, which is audited.

    `?topic=` is needed for unique keys; `?at=` names broker, queue and offset; `?as=` is a body format;
    `?part=peek` is the part that the list shows below a row.
    """
    topic, place = request.GET.get("topic", "").strip(), place_of(request.GET.get("at", ""))
    here = admit(request, cluster, name=topic) if topic else admit_to_list(request, cluster)[0]
    problem, found = "", None
    try:
        if place and topic:
            found = services.record_at(here.name, topic, *place)
        found = found or services.hit_by_id(here.name, message_id, topic or None)
    except BrokerTrouble as trouble:
        problem = text_of(trouble).local()
    if found is not None and not rules.may(request.user, Verb.VIEW, here.name, found.record.topic):
        if topic:
            raise PermissionDenied(
                Text(
                    "This needs permission to view (VIEW) %(topic)s on %(cluster)s.",
                    topic=found.record.topic,
                    cluster=here.name,
                )
            )
        found = None  # an id alone must not reveal that a hidden topic has it
    if found is None:
        context = {"cluster": here, "message_id": message_id, "topic": topic, "problem": problem}
        return render(request, "message/not_found.html", context, status=503 if problem else 404)
    return _message_page(request, here, found)


def _message_page(request: HttpRequest, here: Cluster, found: Hit) -> HttpResponse:
    wanted = request.GET.get("as", "auto")
    is_peek = request.GET.get("part") == "peek"
    schema = schemas.schema_of(here.name, found.record.topic)
    topic = found.record.topic
    masks = None
    if request.method == "POST":
        masks = unmasked(
            request.user, here.name, topic, found.record.message_id, remote_addr=remote_addr(request)
        )
    shown = services.shown(
        here.name,
        found,
        limit_bytes=PEEK_BYTES if is_peek else BODY_SHOWN_BYTES,
        body_format=wanted if wanted in FORMAT_NAMES else "auto",
        masks=masks,
    )
    now_ms = int(time.time() * 1000)
    context = {
        "cluster": here,
        "message": shown,
        "formats": [
            (value, label) for value, label in BODY_FORMATS if value != "protobuf" or schema is not None
        ],
        "wanted": wanted,
        "schema": schema,
        "may_unmask": may_unmask(request.user, here.name, topic),
        "is_unmasked": masks is not None,
        "may_send": rules.may(request.user, Verb.SEND, here.name, shown.topic),
        "may_configure": rules.may(request.user, Verb.CONFIGURE, here.name, shown.topic),
        "now_ms": now_ms,
    }
    if is_peek:
        return render(request, "message/_peek.html", context)
    even = request.GET.get("axis") == "even"
    life = life_line(here, found, view_scope(request.user, here.name), now_ms=now_ms)
    context |= {"life": life, "axis": axis_of(life, even=even), "is_even": even}
    return render(request, "message/message.html", context)


@require_safe
def compare_messages(request: HttpRequest, cluster: str) -> HttpResponse:
    """Show two messages side by side: `?m=topic:broker:queue:offset`, twice."""
    here, _ = admit_to_list(request, cluster)
    chosen = request.GET.getlist("m")
    context = {"cluster": here, "now_ms": int(time.time() * 1000)}
    problem = Text("Select exactly two messages in a list to compare them.")
    status = 400 if chosen else 200
    if len(chosen) == 2:
        try:
            left, right = (_named(request, here, name) for name in chosen)
        except BrokerTrouble as trouble:
            problem, status = text_of(trouble), 503
        else:
            if left is not None and right is not None:
                return render(request, "message/compare.html", context | {"found": compare(left, right)})
            missing = chosen[0] if left is None else chosen[1]
            problem, status = Text("No broker stores the message %(place)s any more.", place=missing), 404
    return render(request, "message/compare.html", context | {"problem": problem}, status=status)


def _named(request: HttpRequest, here: Cluster, name: str) -> MessageView | None:
    """Return the message at ``topic:broker:queue:offset``; None if it is gone or may not be viewed."""
    topic, _, rest = name.partition(":")
    place = place_of(rest)
    if place is None or not rules.may(request.user, Verb.VIEW, here.name, topic):
        return None
    found = services.record_at(here.name, topic, *place)
    return None if found is None else services.shown(here.name, found)
