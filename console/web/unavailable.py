"""Answer failed requests: 503 with the reason when the database is away, 500 for internal errors.

Nothing here calls the database or Redis: they may be what is away.
"""

import json
import logging
import sys
from http import HTTPStatus

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from console.web.disk_room import no_room, why_away
from console.web.problem import CONTENT_TYPE, problem_body
from console.web.security import API_PREFIX

logger = logging.getLogger(__name__)

# A restart of PostgreSQL, or a long write to SQLite.
RETRY_AFTER_S = 10
AWAY = (OperationalError, InterfaceError)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer exceptions that no view caught (Django's handler500)."""
    error = sys.exc_info()[1]
    is_away = isinstance(error, AWAY)
    status = HTTPStatus.SERVICE_UNAVAILABLE if is_away else HTTPStatus.INTERNAL_SERVER_ERROR
    if is_away:
        logger.error("database away path=%s reason=%s", request.path, error)
    reason = " ".join(str(error).split())[:300] if is_away else ""
    if request.path.startswith(API_PREFIX):
        answer = HttpResponse(
            _problem(request, status, why_away(error) if isinstance(error, AWAY) else ""),
            content_type=CONTENT_TYPE,
            status=status,
        )
    else:
        name = "503.html" if is_away else "500.html"
        answer = HttpResponse(
            render_to_string(name, {"request": request, "reason": reason, "full": no_room()}), status=status
        )
    if is_away:
        answer["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def _problem(request: HttpRequest, status: HTTPStatus, reason: str) -> bytes:
    code = "database_unavailable" if reason else "internal_error"
    title = "The console's database does not answer" if reason else "Internal error"
    detail = f"{reason}. Nothing was changed; try again in {RETRY_AFTER_S} s." if reason else title
    return json.dumps(problem_body(status, code, title, detail, request.path)).encode()
