"""What a refused request is answered: a page for a browser, RFC 9457 problem details for REST."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.http import url_has_allowed_host_and_scheme

from console.text import JsonObject, Text

CONTENT_TYPE = "application/problem+json"
TITLES = {
    HTTPStatus.BAD_REQUEST: Text("This request is not valid"),
    HTTPStatus.METHOD_NOT_ALLOWED: Text("This address only receives forms"),
    HTTPStatus.UNPROCESSABLE_ENTITY: Text("This file would be too large"),
    HTTPStatus.TOO_MANY_REQUESTS: Text("Too many requests at once"),
    HTTPStatus.SERVICE_UNAVAILABLE: Text("The brokers do not answer"),
}
# The same request may succeed later.
PASSING = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


def refused_page(request: HttpRequest, status: HTTPStatus, reason: Text) -> HttpResponse:
    """Return the page of a refused request: why, and the way back or to another attempt. Reads no database."""
    context = {
        "request": request,
        "title": TITLES[status],
        "reason": reason,
        "again": request.get_full_path() if status in PASSING and request.method == "GET" else "",
        "back": page_before(request),
    }
    return HttpResponse(render_to_string("refused.html", context), status=status)


def page_before(request: HttpRequest) -> str:
    """Return the address of the console's page that led to a request; "" without one."""
    before = request.headers.get("Referer", "")
    here = request.build_absolute_uri()
    is_ours = url_has_allowed_host_and_scheme(before, {request.get_host()}, require_https=request.is_secure())
    return before if is_ours and before != here and "/sign-in" not in before else ""


def problem_body(status: int, code: str, title: str, detail: str, path: str) -> JsonObject:
    """Return the members that every problem document has; ``path`` is that of the request."""
    return {
        "type": f"/api/problems/{code}",
        "title": title,
        "status": int(status),
        "code": code,
        "detail": detail,
        "instance": path,
    }
