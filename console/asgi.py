"""The ASGI application: probes first, as plain functions; then sockets; then Django's pages.

``/healthz`` (the process answers), ``/readyz`` (its parts answer) and ``/metrics`` (Prometheus) are requested every few
seconds by machines, under addresses that are not in ALLOWED_HOSTS: they pass no middleware.
"""

import gc
import hmac
import json
import logging
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured
from django.urls import get_resolver

try:
    django_application: Any = get_asgi_application()  # loads the apps, which everything below needs
except ImproperlyConfigured as error:
    raise SystemExit(f"The settings are wrong. {error}") from None

from console import celery, health  # noqa: E402  (celery: current application for every sender of a task)
from console.routing import websocket_application  # noqa: E402
from console.web.outage import why_away  # noqa: E402
from console.web.request_limit import Limited, Receive, Send, announces_too_much  # noqa: E402
from console.web.reverse_proxy import Scope, is_this_machine, with_client  # noqa: E402
from console.web.unavailable import AWAY, too_large  # noqa: E402

__all__ = ["application", "celery"]

# Looking for garbage in all that was imported, every page included, took a third of the time of those with 10,000 rows.
list(get_resolver().url_patterns)  # imports every page
gc.freeze()
# What such a page makes is in use until it is answered: looking through it after each 700 objects took a quarter more,
# after each 10,000 a sixth.
gc.set_threshold(50_000)

logger = logging.getLogger(__name__)

TRY_AGAIN_LATER = 1013  # RFC 6455's registry of close codes


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Route one connection."""
    if scope["type"] in ("http", "websocket"):
        scope = with_client(scope, settings.TRUSTED_PROXIES)
    if scope["type"] == "websocket":
        try:
            await websocket_application(scope, receive, send)
        except AWAY as error:  # a browser connects again by itself
            logger.warning("socket ended without the database path=%s", scope["path"], exc_info=error)
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})
    elif scope["type"] == "http" and scope["path"] in PROBES and scope["method"] in ("GET", "HEAD"):
        await PROBES[scope["path"]](scope, send)
    elif scope["type"] == "http" and announces_too_much(scope["headers"]):
        await _refuse_size(scope, send)
    elif scope["type"] == "http":
        limited = Limited(receive, send)
        await django_application(scope, limited.receive, limited.send)
        if limited.is_refused:
            await _refuse_size(scope, send)


async def _refuse_size(scope: Scope, send: Send) -> None:
    """Answer 413: a page for browsers, problem details for REST."""
    answer = await sync_to_async(too_large)(scope)
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.items()]
    body: bytes = answer.content
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def healthz(scope: Scope, send: Send) -> None:
    """Answer 200 while this process can answer at all; checks nothing else."""
    await _answer(send, 200, b"text/plain; charset=utf-8", b"ok\n")


async def readyz(scope: Scope, send: Send) -> None:
    """Answer 200 "ready" or 503 "unready"; callers that may read /metrics get a reason per part, as JSON."""
    if not _may_scrape(scope):
        is_ready = await sync_to_async(health.was_ready)()
        word = b"ready\n" if is_ready else b"unready\n"
        await _answer(send, 200 if is_ready else 503, b"text/plain; charset=utf-8", word)
        return
    report = await sync_to_async(health.readiness)()
    body = json.dumps(report.as_json(), indent=1).encode() + b"\n"
    await _answer(send, 200 if report.ready else 503, b"application/json", body)


async def metrics(scope: Scope, send: Send) -> None:
    """Return metrics in Prometheus' text format, to this machine or the bearer of METRICS_TOKEN."""
    if not _may_scrape(scope):
        await _answer(send, 403, b"text/plain; charset=utf-8", b"send METRICS_TOKEN as a bearer token\n")
        return
    try:
        body = await sync_to_async(health.metrics_text)()
    except AWAY as error:
        reason = f"the console's database does not answer: {why_away(error)}\n"
        await _answer(send, 503, b"text/plain; charset=utf-8", reason.encode())
        return
    await _answer(send, 200, health.METRICS_CONTENT_TYPE, body)


def _may_scrape(scope: Scope) -> bool:
    if not settings.METRICS_TOKEN:
        return is_this_machine(scope)
    wanted = f"Bearer {settings.METRICS_TOKEN}".encode()
    return any(
        name == b"authorization" and hmac.compare_digest(value, wanted) for name, value in scope["headers"]
    )


async def _answer(send: Send, status: int, content_type: bytes, body: bytes) -> None:
    headers = [
        (b"content-type", content_type),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


PROBES = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
