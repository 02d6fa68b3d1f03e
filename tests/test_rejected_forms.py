"""A form that is refused comes back with all that was typed, and marks what is wrong.

Every form of a page that has a field to type in is sent with values that no field takes. One that is not in `FORMS`
fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.db import connections, router
from django.test import Client

from console.access.models import AuditEvent
from console.cluster.models import Cluster
from console.web import quota
from tests.support.access_table import PAGES
from tests.support.people import signed_in
from tests.test_access_of_routes import address_of, world

__all__ = ["world"]
pytestmark = [
    pytest.mark.django_db(databases=["default", "metrics"]),
]

TYPED = {"text", "number", "search", "email", "url", "datetime-local", "textarea"}
# Page → the fields one types in, of each of its forms.
FORMS = {
    "tokens": ["name cluster_pattern days"],
    "clusters": ["name namesrv_addrs access_key tls_ca tls_certificate tls_key"],
    "connection": ["namesrv_addrs access_key tls_ca tls_certificate tls_key"],
    "broker-config": ["key value"],
    "acl-change": ["name topic_perms group_perms white_remote_address"],
    "acl-white-addresses": ["addresses"],
    "topic-create": ["name write_queues read_queues"],
    "topic-change": ["write_queues read_queues"],
    "offset-change": ["time as_of offset shift like_group"],
    "offset-import": ["content brokers", "clone_of"],
    "group-create": ["name retry_max_times retry_queues consume_timeout_minutes"],
    "group-settings": ["retry_max_times retry_queues consume_timeout_minutes"],
    "message-send": ["topic queue tags keys properties body"],
    "message-schema": ["message_type"],
    "group-report": ["seconds target_pct"],
    "report": ["start end", "hour minute emails webhook_url zone"],
}
# Secrets are never put back into a page.
SECRETS = {"tls_key", "webhook_url"}
# The sample's brokers are away: the refusal is about them, above the form.
WITHOUT_WRONG_FIELD = {"acl-white-addresses"}

# Field → not wrong by itself, or marked at another one.
UNMARKED = {
    # Any text is right; what else the form requires was left empty.
    *(
        "tokens name",
        "tokens cluster_pattern",
        "clusters access_key",
        "message-send tags",
        "message-send keys",
    ),
    *("message-send body", "acl-change name", "broker-config value"),
    # Compared with one another, with a file or with a broker, once each by itself is right.
    *("clusters tls_ca", "clusters tls_certificate", "clusters tls_key", "message-schema message_type"),
    "acl-change white_remote_address",
    # One of a pair without the other: the empty one is marked.
    *("connection tls_key", "connection access_key"),
    # The sample's brokers are away: the refusal is about them, above the form.
    *("acl-white-addresses addresses", "offset-change like_group"),
}


@dataclass
class Field:
    kind: str
    value: str
    is_wrong: bool
    is_sent: bool


@dataclass
class Form:
    method: str
    action: str
    fields: dict[str, list[Field]] = field(default_factory=dict)

    @property
    def typed(self) -> list[str]:
        return [name for name, found in self.fields.items() if found[0].kind in TYPED]

    @property
    def wrong(self) -> list[str]:
        return [name for name, found in self.fields.items() if any(one.is_wrong for one in found)]

    def sent(self) -> dict[str, list[str]]:
        """What a browser sends of it."""
        return {
            name: [one.value for one in found if one.is_sent]
            for name, found in self.fields.items()
            if any(one.is_sent for one in found)
        }


class Forms(HTMLParser):
    """The forms of a page that are posted."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._open: Form | None = None
        self._area: Field | None = None
        self._select: Field | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, pairs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in pairs}
        if tag == "form":
            self._open = Form(given.get("method", "get").lower(), given.get("action", ""))
            if self._open.method == "post":
                self.found.append(self._open)
        elif tag in ("input", "textarea", "select") and self._open is not None and given.get("name"):
            kind = given.get("type", "text") if tag == "input" else tag
            is_sent = kind not in ("submit", "file") and (
                kind not in ("checkbox", "radio") or "checked" in given
            )
            made = Field(kind, given.get("value", ""), given.get("aria-invalid") == "true", is_sent)
            self._open.fields.setdefault(given["name"], []).append(made)
            self._area = made if tag == "textarea" else self._area
            self._select = made if tag == "select" else self._select
        elif tag == "option" and self._select is not None and "selected" in given:
            self._select.value = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        self._area = None if tag == "textarea" else self._area
        self._select = None if tag == "select" else self._select

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._area.value += data


def forms_of(client: Client, name: str) -> Iterator[tuple[str, Form]]:
    """Forms of a page with a field to type in, each with the address that it is sent to."""
    quota.clear_local()  # all by one person: limits per minute have tests of their own
    address = address_of(name)
    answer = client.get(address)
    if answer.status_code == 200 and not answer.streaming:
        for form in Forms(answer.content.decode()).found:
            if form.typed:
                yield urljoin(address, form.action), form


def test_every_form_is_in_the_table(world: Cluster) -> None:
    client = signed_in()
    pages = [name for name, route in PAGES.items() if "GET" in route.methods() and name != "set-password"]
    found = {name: [" ".join(form.typed) for _, form in forms_of(client, name)] for name in pages}
    assert {name: forms for name, forms in found.items() if forms} == FORMS


def test_a_refused_form_keeps_what_was_typed_and_marks_what_is_wrong(world: Cluster) -> None:
    client, wrong = signed_in(), {}
    for name in FORMS:
        for address, form in forms_of(client, name):
            typed = {each: f"ü wrong {each} ?" for each in form.typed}
            quota.clear_local()
            answer = client.post(address, form.sent() | typed)
            back = [one for one in Forms(answer.content.decode()).found if one.typed == form.typed]
            kept = back[0].sent() if back else {}
            lost = [each for each, value in typed.items() if kept.get(each) != [value]]
            is_marked = bool(back and back[0].wrong) or name in WITHOUT_WRONG_FIELD
            if answer.status_code != 422 or set(lost) != SECRETS & set(typed) or not is_marked:
                wrong[address] = (answer.status_code, lost, is_marked)
    assert wrong == {}


def test_each_wrong_field_is_marked_and_nothing_is_stored(world: Cluster) -> None:
    """One field after the other, also beside others that are left empty."""
    client, unmarked, changed = signed_in(), set(), {}
    for name in FORMS:
        for address, form in forms_of(client, name):
            before = stored()
            for each in form.typed:
                quota.clear_local()
                answer = client.post(address, form.sent() | {each: f"ü wrong {each} ?"})
                assert answer.status_code == 422, (address, each)
                after = stored()
                new = [table for table, rows in after.items() if rows != before[table]]
                changed |= {f"{name} {each}": new} if new else {}
                before = after
                (back,) = (one for one in Forms(answer.content.decode()).found if one.typed == form.typed)
                unmarked |= set() if each in back.wrong else {f"{name} {each}"}
    assert changed == {}
    assert unmarked == UNMARKED


def stored() -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, but of the sessions and of the audit, which keeps refusals."""
    found = {}
    for model in apps.get_models():
        if model not in (Session, AuditEvent):
            table = model._meta.db_table
            with connections[router.db_for_read(model)].cursor() as cursor:
                cursor.execute(f"SELECT * FROM {table} ORDER BY 1")
                found[table] = cursor.fetchall()
    return found
