"""Live rows as server-sent events: the frames that pages get on their socket."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import renderers
from rest_framework.exceptions import APIException, NotFound, ValidationError
from rest_framework.request import Request

from api.rest.resource import Resource
from console.cluster.models import Cluster
from console.live.event_stream import CONTENT_TYPE, EventStream
from console.live.reader import RECHECK_EVERY_S, STALL_LIMIT_S, SUBJECTS_MAX, Reader, Viewer
from console.live.request import SUBJECT_LENGTH_MAX
from console.routing import SessionViewer, TokenViewer, view_of
from console.text.locale import Locale
from console.web import quota

# Of one person with all their tokens, in all processes.
STREAMS_MAX = 10
# What a problem or a refusal is written in; events are English, as all of REST.
ENGLISH = Locale("en")


class EventRenderer(renderers.JSONRenderer):
    """Accept the media type of a stream; refusals are JSON nevertheless."""

    media_type = CONTENT_TYPE
    format = "events"


class TooManyStreams(APIException):
    """The person reads as many streams as allowed."""

    status_code = 429
    default_code = "too_many_streams"


class Stream(Resource):
    """Live rows as server-sent events, the same JSON as on the pages' socket, one object an event.

    Subjects: `c/<cluster>/groups`, `…/topics`, `…/brokers`, `…/collector`, `…/counts`, `…/reports`,
    `c/<cluster>/group/<name>`, `jobs`, `job/<id>`, `approvals`. First all rows (`"full": true`), then changed rows;
    null removes one. `seq` grows, with jumps: a slow reader gets several changes as one.

    There is nothing to resume: every connection begins with all rows, and Last-Event-ID is ignored. A comment comes
    every 20 s without events. `{"redis": "away"}` and `"back"`: updates are interrupted, and sent anew.
    """

    __doc__ += (
        f"\n    Rights are checked again every {RECHECK_EVERY_S:.0f} s: a subject taken away ends with"
        ' `{"subject": …, "error": "forbidden"}`, the stream with its last one. A reader that takes nothing for'
        f" {STALL_LIMIT_S:.0f} s is disconnected. At most {STREAMS_MAX} streams a person.\n    "
    )

    verbs: ClassVar[dict[str, str]] = {"GET": "VIEW"}
    renderer_classes = (EventRenderer, renderers.JSONRenderer)

    @extend_schema(
        operation_id="stream",
        tags=["stream"],
        parameters=[
            OpenApiParameter(
                "subject",
                str,
                many=True,
                required=True,
                description=f"may be repeated, at most {SUBJECTS_MAX}",
            ),
        ],
        responses={(200, CONTENT_TYPE): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponseBase:
        subjects = _subjects(request)
        for subject in subjects:
            if view_of(request.user, subject) is None or not _has_rows(subject):
                raise NotFound(f"There is no subject {subject}, or none that you may see.")
        if request.method == "HEAD":
            return HttpResponse(content_type=CONTENT_TYPE)
        held = ExitStack()
        place = quota.place(f"streams:{request.user.pk}", most=STREAMS_MAX)
        if not held.enter_context(place):
            raise TooManyStreams(f"You read {STREAMS_MAX} streams already: close one of them first.")
        events = EventStream(Reader(_viewer(request), ENGLISH), subjects, held)
        answer = StreamingHttpResponse(events, content_type=CONTENT_TYPE)
        answer["Cache-Control"] = "no-store"
        answer["X-Accel-Buffering"] = "no"  # a proxy must not buffer it
        return answer


def _subjects(request: Request) -> Sequence[str]:
    found = list(dict.fromkeys(request.query_params.getlist("subject")))
    if not found:
        raise ValidationError({"subject": ["Name one, such as c/local/groups."]})
    if len(found) > SUBJECTS_MAX:
        raise ValidationError({"subject": [f"At most {SUBJECTS_MAX} of them."]})
    if any(not subject.isprintable() or len(subject) > SUBJECT_LENGTH_MAX for subject in found):
        raise ValidationError({"subject": [f"At most {SUBJECT_LENGTH_MAX} printable characters."]})
    return found


def _has_rows(subject: str) -> bool:
    """Return whether a subject can have rows: a stream of one that never will would wait for ever."""
    kind, *rest = subject.split("/", 3)
    return kind != "c" or ("topic" not in rest[1:2] and Cluster.objects.filter(name=rest[0]).exists())


def _viewer(request: Request) -> Viewer:
    token_id = getattr(request.auth, "pk", None)
    if token_id is not None:
        return TokenViewer(token_id)
    return SessionViewer(request.session.session_key)


urlpatterns = [path("stream", Stream.as_view(), name="api-stream")]
