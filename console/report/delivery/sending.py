"""Send a scheduled report by e-mail and webhook, at least once, without rows the receiver may not see.

A receiver that gets it twice (the worker died between sending and recording it) can recognise the run by its id.

A webhook's address is typed by a person who may configure a cluster, and requested by this machine: it must not
reach what only this machine may reach. See `valid_webhook` and `_refuse_inner`.
"""

from __future__ import annotations

import json
import logging
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from email.utils import parseaddr
from fnmatch import fnmatchcase
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMultiAlternatives

from console.access.name_scope import EVERYTHING, NameScope, view_scope
from console.report.delivery import notice
from console.report.delivery.notice import Notice
from console.report.delivery.schedules import host_of
from console.report.models import Delivery, ReportRun, ReportSchedule
from console.text import Names, Text, text_of
from console.web.inner_address import is_inner

logger = logging.getLogger(__name__)

WEBHOOK_TIMEOUT_S = 10
ANSWER_BYTES_MAX = 1_000
EMAILS_MAX = 20
ERROR_LENGTH_MAX = 300


class NotDelivered(Exception):
    """A receiver could not be reached; the text gives the reason."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse redirects: the address was entered by an authorised person, its redirect target was not."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def valid_webhook(url: str) -> str:
    """Return the address, or raise ValueError with what is wrong with it.

    With WEBHOOK_HOSTS only those hosts; without, any host whose address is not inner (a host that is an address is
    checked now, a name when it is connected to).
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(Text("This is not the address of a webhook: %(why)s.", why=str(error))) from error
    if parts.scheme not in ("https", "http") or not host:
        raise ValueError(Text("A webhook is an address that begins with https:// or http://."))
    if parts.username or parts.password:
        raise ValueError(Text("No user or password in the address; put a secret into the path."))
    if any(ord(letter) <= 32 or ord(letter) > 126 for letter in url):
        raise ValueError(
            Text("The address of a webhook is ASCII without spaces; write others as %%20, xn--….")
        )
    if settings.WEBHOOK_HOSTS:
        if not any(fnmatchcase(host, pattern.lower()) for pattern in settings.WEBHOOK_HOSTS):
            allowed = Names(settings.WEBHOOK_HOSTS)
            raise ValueError(
                Text("A webhook of this installation goes to: %(names)s (WEBHOOK_HOSTS).", names=allowed)
            )
    elif is_inner(host):
        raise ValueError(_inner(host))
    return url


def _inner(host: str) -> Text:
    return Text(
        "A webhook to %(host)s would reach an internal address; WEBHOOK_HOSTS can allow it.", host=host
    )


def _refuse_inner(connection: HTTPConnection) -> None:
    """Check the connected address before a byte of HTTP is sent; raise OSError.

    A name may resolve to another address each time.
    """
    if not settings.WEBHOOK_HOSTS and is_inner(connection.sock.getpeername()[0]):
        connection.close()
        raise OSError(_inner(connection.host))


class _Plain(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _refuse_inner(self)


class _Tls(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _refuse_inner(self)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Plain, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Tls, req, context=ssl.create_default_context())


def _opener(scheme: str) -> urllib.request.OpenerDirector:
    """Return the opener; a proxy (HTTPS_PROXY, HTTP_PROXY) decides by itself which hosts it allows."""
    if scheme in urllib.request.getproxies():
        return urllib.request.build_opener(_NoRedirect)
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), _Http, _Https, _NoRedirect)


def valid_email(address: str) -> str:
    """Return the bare address, or raise ValueError."""
    name, bare = parseaddr(address)
    is_one = bare.count("@") == 1 and all(bare.split("@")) and bare.isprintable() and " " not in bare
    if name or bare != address or not is_one:
        raise ValueError(
            Text(
                "%(address)s is not an e-mail address. Enter one like ops@example.org.", address=repr(address)
            )
        )
    return bare


def deliver(run: ReportRun, *, now_ms: int) -> Sequence[Delivery]:
    """Notify every receiver of the run's schedule not notified yet; return all deliveries of the run."""
    schedule = ReportSchedule.objects.filter(cluster=run.cluster, job=run.job).first()
    deliveries = run.tried()
    if schedule is None or not run.is_final:
        return deliveries
    tried = {each.receiver: each for each in deliveries}
    receivers = [("email", address, partial(send_email, address)) for address in schedule.emails[:EMAILS_MAX]]
    if schedule.webhook_url:
        receivers.append(("webhook", host_of(schedule.webhook_url), partial(post, schedule.webhook_url)))
    for kind, to, send in receivers:
        before = tried.get((kind, to))
        if before is not None and before.ok:
            continue
        error = Text()
        try:
            scope = scope_of(schedule, to if kind == "email" else "")
            send(notice.of(run, scope))
        except NotDelivered as failure:
            error = text_of(failure)
            logger.warning("report not delivered run=%s kind=%s to=%s reason=%s", run.id, kind, to, error)
        tries = 1 if before is None else before.tries + 1
        deliveries = [each for each in deliveries if each.receiver != (kind, to)]
        deliveries.append(Delivery(kind, to, not error, error, now_ms, tries))
        kept = [each._asdict() for each in deliveries]
        ReportRun.objects.filter(pk=run.pk).update(deliveries=kept)
    return deliveries


def scope_of(schedule: ReportSchedule, address: str) -> NameScope:
    """Return the names that a receiver may read; raise NotDelivered if there are none.

    An e-mail address of an account: what that account may see. An address without one, and a webhook: what the
    person who set them may see. Receivers without a recorded person: everything.
    """
    accounts = User.objects.filter(email__iexact=address) if address else User.objects.none()
    people = list(accounts) or ([schedule.receivers_by] if schedule.receivers_by else [])
    if not people:
        return EVERYTHING
    scopes = [view_scope(person, schedule.cluster) for person in people]
    found = NameScope(tuple(dict.fromkeys(pattern for scope in scopes for pattern in scope.patterns)))
    if not found.patterns:
        names = Names(person.get_username() for person in people)
        raise NotDelivered(
            Text(
                "%(names)s may no longer view %(cluster)s; set the receivers again, or remove this one.",
                names=names,
                cluster=schedule.cluster,
            )
        )
    return found


def send_email(to: str, report: Notice) -> None:
    """Send one mail, as text and as HTML. Raises NotDelivered."""
    if not settings.EMAIL_HOST:
        raise NotDelivered(Text("No mail server is set: EMAIL_URL=smtp://user:password@host:587."))
    mail = EmailMultiAlternatives(
        notice.subject(report), notice.as_text(report), to=[to], headers={"X-Tidemark-Run": report.run}
    )
    mail.attach_alternative(notice.as_html(report), "text/html")
    try:
        mail.send()
    except OSError as error:  # smtplib's errors are OSErrors
        server = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
        raise NotDelivered(_of_server(server, _reason(error))) from error


def _of_server(server: str, why: Text) -> Text:
    return Text("%(server)s: %(why)s", server=server, why=why)


def _reason(error: OSError) -> Text:
    """Return the cause, without the error number and, for SMTP, with the server's own words."""
    code, words = getattr(error, "smtp_code", None), getattr(error, "smtp_error", b"")
    if code is not None:
        text = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
        return Text("it answered %(words)s", words=f"{code} {text}"[:ERROR_LENGTH_MAX])
    refused = getattr(error, "recipients", None)
    if refused:
        code, words = next(iter(refused.values()))
        text = f"{code} {words.decode(errors='replace')}"
        return Text("it refused the address: %(words)s", words=text[:ERROR_LENGTH_MAX])
    return Text.foreign(error.strerror or f"{type(error).__name__}: {error}")


def post(url: str, report: Notice) -> None:
    """Post JSON once; `text` serves chat webhooks. Raises NotDelivered for anything but 2xx."""
    body = json.dumps({"text": notice.as_text(report)} | report.as_json()).encode()
    headers = {"Content-Type": "application/json", "X-Tidemark-Run": report.run}
    try:
        request = urllib.request.Request(valid_webhook(url), data=body, headers=headers, method="POST")  # noqa: S310
        with _opener(request.type).open(request, timeout=WEBHOOK_TIMEOUT_S) as answer:
            answer.read(ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        raise NotDelivered(
            Text("%(server)s answered %(words)s", server=host_of(url), words=str(error.code))
        ) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        why = text_of(reason) if isinstance(reason, Exception) else Text.foreign(str(reason))
        raise NotDelivered(_of_server(host_of(url), why)) from error
