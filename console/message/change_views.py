"""Pages that make something: a message to send, an export, a topic's schema, a saved search."""

from __future__ import annotations

import time
from http import HTTPStatus

from django.contrib import messages as notices
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header, urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access.models import Verb
from console.access.session.visitor import remote_addr
from console.cluster.admission import admit, admit_to_list
from console.cluster.masks import masks_of
from console.message import schemas, services
from console.message.forms import LOOKUPS, BrowseForm, place_of, refusals
from console.message.saved_searches import SavedSearchForm, remove_search, save_search
from console.message.search.export import EXPORT_MESSAGES_MAX, EXPORT_MS, FORMATS, export
from console.message.search.lanes import Hit
from console.message.search.message_search import open_search, source_of
from console.message.search.query import QueryRefused
from console.message.search.quota import TooManySearches
from console.message.sending.composer import ENCODINGS, SchemaForm, SendForm, initial_of
from console.message.sending.params import original_place
from console.message.streaming import Streamed
from console.message.views import BrokerTrouble
from console.operation import services as operation_services
from console.operation.errors import OperationError, PlanRejected
from console.text import Names, Text, text_of
from console.text.stored import as_json
from console.web.problem import refused_page


@require_safe
def export_messages(request: HttpRequest, cluster: str) -> HttpResponseBase:
    """Stream all hits of a search as a file: `?format=ndjson|csv|parquet` and the list's own parameters."""
    topic = request.GET.get("topic", "").strip()
    here = admit(request, cluster, name=topic or "*")
    form = BrowseForm(request.GET)
    name = request.GET.get("format", "")
    if not topic or not form.is_valid() or form.cleaned_data["read"] in LOOKUPS or name not in FORMATS:
        needed = Text("An export needs a topic and one of: %(names)s.", names=Names(FORMATS))
        return refused_page(request, HTTPStatus.BAD_REQUEST, refusals(form) or needed)
    _, content_type, writer = FORMATS[name]
    try:
        search = open_search(
            source_of(here.name, topic),
            form.query(),
            limit=EXPORT_MESSAGES_MAX,
            time_ms=EXPORT_MS,
            cursor_text=form.cleaned_data["cursor"],
        )
        pieces = Streamed(request.user.get_username(), lambda: export(search, writer()))
    except (QueryRefused, services.BadCursor) as refusal:
        return refused_page(request, HTTPStatus.BAD_REQUEST, text_of(refusal))
    except services.TopicNotFound as unknown:
        raise Http404(text_of(unknown)) from unknown
    except TooManySearches as busy:
        return refused_page(request, HTTPStatus.TOO_MANY_REQUESTS, text_of(busy))
    except BrokerTrouble as trouble:
        return refused_page(request, HTTPStatus.SERVICE_UNAVAILABLE, text_of(trouble))
    answer = StreamingHttpResponse(pieces, content_type=content_type)
    file_name = f"{topic.replace('%', '_')}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.{name}"
    answer["Content-Disposition"] = content_disposition_header(True, file_name) or "attachment"
    answer["X-Accel-Buffering"] = "no"  # a proxy must not buffer it
    return answer


@require_http_methods(["GET", "HEAD", "POST"])
def send(request: HttpRequest, cluster: str) -> HttpResponse:
    """Compose a message or an edited copy (`?topic=…&at=broker:queue:offset`); posting makes the plan."""
    topic, place = request.GET.get("topic", "").strip(), place_of(request.GET.get("at", ""))
    here = admit(request, cluster, name=topic) if topic else admit(request, cluster)
    source: Hit | None = None
    problem, is_masked = "", False
    if topic and place:
        try:
            source = services.record_at(here.name, topic, *place)
            problem = "" if source else Text("The original message no longer exists, so it cannot be copied.")
            is_masked = source is not None and masks_of(here.name).hides(source.record)
            if is_masked:
                source, problem = None, Text("This message has masked fields and cannot be copied.")
        except BrokerTrouble as trouble:
            problem = text_of(trouble).local()
    initial = initial_of(source) if source is not None else {"topic": topic, "encoding": "text"}
    form = SendForm(request.POST if request.method == "POST" else None, initial=initial)
    status = 403 if is_masked else 503 if problem and source is None and place else 200
    if request.method == "POST" and not problem and form.is_valid():
        try:
            plan = operation_services.create_plan(
                "message_send",
                here.name,
                form.cleaned_data["topic"],
                as_json(form.params(None if source is None else original_place(source))),
                request.user,
                remote_addr=remote_addr(request),
            )
        except PlanRejected as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, text_of(refusal).local())
        except (OperationError, *BrokerTrouble) as refusal:
            problem, status = text_of(refusal).local(), getattr(refusal, "status", 503)
        else:
            return redirect("plan", here.name, plan.id)
    if form.errors:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    context = {
        "cluster": here,
        "form": form,
        "source": source,
        "problem": problem,
        "encodings": [each for each in ENCODINGS if source is not None or each[0] != "keep"],
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "message/send.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def schema(request: HttpRequest, cluster: str) -> HttpResponse:
    """Upload, change or remove the Protobuf schema of a topic. Needs CONFIGURE; changes no broker."""
    topic = (request.POST.get("topic") or request.GET.get("topic") or "").strip()
    here = admit(request, cluster, Verb.CONFIGURE, topic or "*")
    address = f"{reverse('message-schema', args=[here.name])}?{urlencode({'topic': topic})}"
    if request.method == "POST" and "remove" in request.POST:
        if schemas.delete_schema(
            cluster=here.name, topic=topic, actor=request.user, remote_addr=remote_addr(request)
        ):
            gone = Text("Bodies of %(topic)s are no longer decoded as Protobuf.", topic=topic)
            notices.success(request, gone.local())
        return redirect(address)
    form = SchemaForm(
        request.POST if request.method == "POST" else None, request.FILES or None, initial={"topic": topic}
    )
    if request.method == "POST" and form.is_valid():
        try:
            saved = schemas.save_schema(
                cluster=here.name,
                topic=topic,
                message_type=form.cleaned_data["message_type"],
                descriptor_set=form.cleaned_data["descriptor_set"].read(schemas.DESCRIPTOR_SET_BYTES_MAX + 1),
                actor=request.user,
                remote_addr=remote_addr(request),
            )
        except schemas.SchemaRefused as refusal:
            form.add_error(refusal.field, text_of(refusal))
        else:
            read = Text(
                "Bodies of %(topic)s are now decoded as %(type)s.",
                topic=topic,
                type=saved.message_type,
            )
            notices.success(request, read.local())
            return redirect(address)
    newest, problem = None, Text()
    try:
        newest = services.newest_message(here.name, topic)
    except BrokerTrouble as trouble:
        problem = text_of(trouble)
    context = {
        "cluster": here,
        "form": form,
        "topic": topic,
        "known": schemas.schema_of(here.name, topic),
        "newest": newest,
        "problem": problem,
        "now_ms": int(time.time() * 1000),
    }
    return render(request, "message/schema.html", context, status=422 if form.errors else 200)


@require_POST
def save(request: HttpRequest, cluster: str) -> HttpResponse:
    """Save the search of the list that is shown, or remove one (`remove`: its name); back to the list."""
    here, _ = admit_to_list(request, cluster)
    back = reverse("messages", args=[here.name])
    address = request.POST.get("address", "")
    if name := request.POST.get("remove", ""):
        remove_search(request.user, here.name, name)
        notices.success(request, Text("The search “%(name)s” was removed.", name=name).local())
        return redirect(f"{back}?{address}")
    form = SavedSearchForm(request.POST)
    if not form.is_valid():
        notices.error(request, refusals(form).local())
        return redirect(f"{back}?{address}")
    name, address = form.cleaned_data["name"], form.cleaned_data["address"]
    if problem := save_search(request.user, here.name, name, address):
        notices.error(request, problem.local())
    else:
        notices.success(request, Text("The search was saved as “%(name)s”.", name=name).local())
    return redirect(f"{back}?{address}")
