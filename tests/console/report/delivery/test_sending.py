"""Who is told that a report is done: real HTTP and a mail outbox, each receiver once, failures kept and tried again."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from pytest_django import Settings

from console.access import services as access_services
from console.access.models import Role
from console.report.delivery import sending as delivery
from console.report.models import ReportRun, ReportSchedule
from console.text import Text
from tests.console.report import sample_rows as rows
from tests.console.report.sample_rows import NOW

pytestmark = pytest.mark.django_db


class Hook:
    """A webhook on a real port: answers `status`, keeps what it got."""

    def __init__(self) -> None:
        self.status, self.got = 200, []  # type: int, list[tuple[Any, Any]]
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # noqa: N802  the name is http.server's
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.got.append((self.headers["X-Tidemark-Run"], body))
                self.send_response(hook.status)
                if hook.status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks/secret"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hook(settings: Settings) -> Iterator[Hook]:
    settings.WEBHOOK_HOSTS = ["127.0.0.1"]
    server = Hook()
    yield server
    server.stop()


@pytest.fixture
def run() -> ReportRun:
    done = rows.run(row_count=2, requested_by=None)
    rows.row(done, time_lag_max_ms=90_000)
    return done


def schedule(**fields: Any) -> None:
    ReportSchedule.objects.create(cluster="local", job="lag_hour", cadence="HOURLY", **fields)


def test_it_posts_what_was_found(run: ReportRun, hook: Hook, settings: Settings) -> None:
    settings.PUBLIC_URL = "https://tidemark.example.org/"
    schedule(webhook_url=hook.url)
    (told,) = delivery.deliver(run, now_ms=NOW)
    assert told == ("webhook", hook.url.split("/")[2], True, "", NOW, 1)
    ((run_id, body),) = hook.got
    assert run_id == run.id == body["run"]
    assert body["url"] == "https://tidemark.example.org/c/local/reports/lag_hour"
    assert body["worst"][0]["group"] == "billing"
    assert "billing on orders: time lag up to 1 m 30 s, lag up to 40 messages" in body["text"]


def test_it_tells_each_receiver_once(run: ReportRun, hook: Hook) -> None:
    schedule(webhook_url=hook.url)
    for _ in range(2):
        delivery.deliver(run, now_ms=NOW)
        run.refresh_from_db()
    assert len(hook.got) == 1


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_refusal_is_kept_and_tried_again(run: ReportRun, hook: Hook, status: int) -> None:
    schedule(webhook_url=hook.url)
    hook.status = status
    (failed,) = delivery.deliver(run, now_ms=NOW)
    assert (failed.ok, f"answered {status}" in failed.error) == (False, True)
    assert "secret" not in json.dumps(failed)
    hook.status = 200
    run.refresh_from_db()
    (told,) = delivery.deliver(run, now_ms=NOW + 1)
    assert (told.ok, told.tries) == (True, 2)


def test_nobody_listens(run: ReportRun, settings: Settings) -> None:
    settings.WEBHOOK_HOSTS = ["127.0.0.1"]
    schedule(webhook_url="http://127.0.0.1:1/hooks/secret")
    (failed,) = delivery.deliver(run, now_ms=NOW)
    assert failed.ok is False
    assert "refused" in failed.error.lower()


def test_it_mails_and_says_when_no_server_is_set(run: ReportRun, settings: Settings) -> None:
    schedule(emails=["ops@example.org"])
    settings.EMAIL_HOST = ""
    (failed,) = delivery.deliver(run, now_ms=NOW)
    assert "EMAIL_URL" in failed.error
    settings.EMAIL_HOST = "mail.example.org"
    run.refresh_from_db()
    delivery.deliver(run, now_ms=NOW)
    (message,) = mail.outbox
    assert message.to == ["ops@example.org"]
    assert (
        message.subject == "[Tidemark] Hourly lag of local, 2024-10-04 00:00 to 2024-10-04 09:00 UTC: ready"
    )
    assert "billing on orders" in message.body
    ((html, kind),) = message.alternatives
    assert kind == "text/html" and "time lag up to 1 m 30 s" in html and "<script" not in html


class Smtp:
    """A mail server on a real port that answers every recipient with `rcpt`, and keeps what it took."""

    def __init__(self, rcpt: str = "250 taken") -> None:
        self.rcpt, self.took = rcpt, []  # type: str, list[str]
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            with client, client.makefile("rwb") as file:
                self._talk(file)

    def _talk(self, file: Any) -> None:
        def say(text: str) -> None:
            file.write(text.encode() + b"\r\n")
            file.flush()

        say("220 here")
        for line in file:
            word = line[:4].upper()
            if word == b"DATA":
                say("354 go on")
                lines = list(iter(file.readline, b".\r\n"))
                self.took.append(b"".join(lines).decode())
            say(self.rcpt if word == b"RCPT" else "221 bye" if word == b"QUIT" else "250 ok")

    def stop(self) -> None:
        self.server.close()


@pytest.mark.parametrize(
    ("rcpt", "error"), [("250 taken", ""), ("550 no such user", "refused the address: 550 no such user")]
)
def test_it_talks_to_a_mail_server(run: ReportRun, settings: Settings, rcpt: str, error: str) -> None:
    server = Smtp(rcpt)
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
    schedule(emails=["ops@example.org"])
    (told,) = delivery.deliver(run, now_ms=NOW)
    server.stop()
    assert told.error.endswith(error) and told.ok is (not error)
    assert [f"X-Tidemark-Run: {run.id}" in each for each in server.took] == [True] * (not error)


def test_a_mail_server_that_is_away_is_named(run: ReportRun, settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    schedule(emails=["ops@example.org"])
    (told,) = delivery.deliver(run, now_ms=NOW)
    assert told.error == "127.0.0.1:1: Connection refused"


def narrow(name: str, email: str = "", names: str = "bill*") -> User:
    person = User.objects.create_user(name, email)
    role, _ = Role.objects.get_or_create(name="reader", defaults={"verbs": ["VIEW"]})
    access_services.grant(role=role.name, user=person, cluster_pattern="local", name_pattern=names)
    return person


def test_a_receiver_reads_what_its_account_may_see(run: ReportRun, settings: Settings) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    rows.row(run, group="analytics", time_lag_max_ms=150_000)
    narrow("nadia", "nadia@example.org")
    schedule(emails=["Nadia@example.org", "list@example.org"])
    assert [each.ok for each in delivery.deliver(run, now_ms=NOW)] == [True, True]
    own, everything = (message.body for message in mail.outbox)
    assert "billing on orders" in own and "analytics" not in own
    assert "It has 1 row; only groups and topics that you may view are included." in own
    assert "analytics on orders" in everything


def test_a_webhook_reads_what_may_see_who_set_it(run: ReportRun, hook: Hook) -> None:
    rows.row(run, group="analytics", time_lag_max_ms=150_000)
    setter = narrow("nadia")
    schedule(webhook_url=hook.url, receivers_by=setter)
    delivery.deliver(run, now_ms=NOW)
    ((_, body),) = hook.got
    assert [row["group"] for row in body["worst"]] == ["billing"] and "analytics" not in json.dumps(body)
    assert (body["rows"], body["only_some_names"]) == (1, True)
    User.objects.filter(pk=setter.pk).update(is_active=False)
    ReportRun.objects.filter(pk=run.pk).update(deliveries=[])
    run.refresh_from_db()
    (failed,) = delivery.deliver(run, now_ms=NOW)
    assert failed.error.startswith("nadia may no longer view local; set the receivers again")
    assert len(hook.got) == 1


def test_a_run_before_its_window_is_over_says_so(hook: Hook) -> None:
    schedule(webhook_url=hook.url)
    run = rows.run(to_ms=NOW + 60_000, requested_by=None)
    delivery.deliver(run, now_ms=NOW)
    ((_, body),) = hook.got
    assert body["is_partial"] is True and "the figures are incomplete" in body["text"]


def test_a_failed_run_is_news_too(hook: Hook) -> None:
    schedule(webhook_url=hook.url)
    run = rows.run(state=ReportRun.State.FAILED, error=Text("Java is missing"), requested_by=None)
    delivery.deliver(run, now_ms=NOW)
    assert "Java is missing" in hook.got[0][1]["text"]


INNER = [
    "http://127.0.0.1:6379/",
    "http://localhost/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://169.254.169.254/latest/",
    "http://100.100.100.200/",
    "http://0.0.0.0/",
]


def test_a_name_that_leads_to_this_machine_is_not_posted_to(
    run: ReportRun, hook: Hook, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_HOSTS = []
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _, *rest: real("127.0.0.1", *rest))
    schedule(webhook_url=hook.url.replace("127.0.0.1", "chat.example.org"))
    (failed,) = delivery.deliver(run, now_ms=NOW)
    assert (failed.ok, "an internal address" in failed.error) == (False, True)
    assert hook.got == []


def test_only_named_hosts_are_posted_to(settings: Settings) -> None:
    settings.WEBHOOK_HOSTS = ["*.example.org"]
    assert delivery.valid_webhook("https://Chat.example.org/x")
    with pytest.raises(ValueError, match="WEBHOOK_HOSTS"):
        delivery.valid_webhook("https://example.com/x")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/y",
        "chat.example.org",
        "https://",
        "https://user:word@host/x",
        "file:///etc",
        "http://[",
        "http://h:99999/",
        "http://h/a\r\nX: y",
        *INNER,
    ],
)
def test_it_refuses_what_is_no_webhook(url: str) -> None:
    with pytest.raises(ValueError, match="webhook|user"):
        delivery.valid_webhook(url)


@pytest.mark.parametrize(
    "address", ["", "ops", "ops@", "Ops <ops@example.org>", "a@b@c", "a b@example.org", "a@b\nBcc: c@d"]
)
def test_it_refuses_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="not an e-mail address"):
        delivery.valid_email(address)
