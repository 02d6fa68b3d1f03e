"""Answer failed requests: 503 when the database is away or outdated, 500 for internal errors, 413 for too large ones.

Nothing here calls the database or Redis: they may be what is away.
"""

import io
import json
import logging
import re
import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import cast

from django.core.exceptions import SuspiciousOperation
from django.core.handlers.asgi import ASGIRequest
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.middleware.security import SecurityMiddleware
from django.template.loader import render_to_string

from console.text.locale import ReaderLocaleMiddleware
from console.web.disk_room import no_room
from console.web.outage import ADVICE, OLD_SCHEMA, is_old_schema, why_away
from console.web.problem import CONTENT_TYPE, problem_body
from console.web.request_limit import REQUEST_BYTES_MAX
from console.web.reverse_proxy import Scope
from console.web.security import API_PREFIX, ContentSecurityPolicyMiddleware

logger = logging.getLogger(__name__)

# A restart of PostgreSQL, or a long write to SQLite.
RETRY_AFTER_S = 10
AWAY = (OperationalError, InterfaceError)
CSRF_FIELD = "csrfmiddlewaretoken"
SECRET = re.compile("password|secret|token|tls_", re.I)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer exceptions that no view caught (Django's handler500)."""
    error = sys.exc_info()[1]
    is_old = is_old_schema(error)
    is_away = is_old or isinstance(error, AWAY)
    status = HTTPStatus.SERVICE_UNAVAILABLE if is_away else HTTPStatus.INTERNAL_SERVER_ERROR
    if is_away:
        logger.error("database away path=%s reason=%s", request.path, error)
    reason = " ".join(str(error).split())[:300] if is_away else ""
    if request.path.startswith(API_PREFIX):
        answer = HttpResponse(
            _problem(request, status, error if is_away else None),
            content_type=CONTENT_TYPE,
            status=status,
        )
    else:
        name = "503.html" if is_away else "500.html"
        context = {
            "request": request,
            "reason": reason,
            "advice": ADVICE if is_old else no_room(),
            "is_old": is_old,
            "typed": typed(request),
        }
        answer = HttpResponse(render_to_string(name, context), status=status)
    if is_away:
        answer["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def typed(request: HttpRequest) -> Sequence[tuple[str, str]]:
    """Return the fields of a form that can be sent once more; none with a file, or a secret, which no page repeats."""
    if request.method != "POST":
        return ()
    try:
        fields = [(name, str(value)) for name, values in request.POST.lists() for value in values]
        files = len(request.FILES)
    except (SuspiciousOperation, MultiPartParserError, OSError):
        return ()
    has_secret = any(SECRET.search(name) for name, _ in fields if name != CSRF_FIELD)
    return () if files or has_secret else fields


def too_large(scope: Scope) -> HttpResponse:
    """Answer a request that is refused before Django: problem details for REST, else a page in the reader's language.

    It passes the middleware that needs neither a session nor a database.
    """
    request = ASGIRequest({**scope, "method": "GET"}, io.BytesIO())
    in_language = cast(Callable[[HttpRequest], HttpResponse], ReaderLocaleMiddleware(_too_large))
    answer = cast(HttpResponse, SecurityMiddleware(ContentSecurityPolicyMiddleware(in_language))(request))
    answer.headers["Connection"] = "close"  # the rest is not read
    return answer


def _too_large(request: HttpRequest) -> HttpResponse:
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    most = f"{REQUEST_BYTES_MAX:,}"
    if not request.path.startswith(API_PREFIX):
        return HttpResponse(render_to_string("413.html", {"request": request, "most": most}), status=status)
    detail = f"The request is larger than {most} bytes. Nothing was changed. Send a smaller one."
    body = problem_body(status, "too_large", "The request is too large", detail, request.path)
    return HttpResponse(json.dumps(body), status=status, content_type=CONTENT_TYPE)


def _problem(request: HttpRequest, status: HTTPStatus, away: BaseException | None) -> bytes:
    if away is None:
        code, title = "internal_error", "Internal error"
        detail = title
    elif is_old_schema(away):
        code, title = OLD_SCHEMA
        detail = f"{why_away(away)}. Nothing was changed."
    else:
        code, title = "database_unavailable", "The console's database does not answer"
        detail = f"{why_away(away)}. Nothing was changed; try again in {RETRY_AFTER_S} s."
    return json.dumps(problem_body(status, code, title, detail, request.path)).encode()
