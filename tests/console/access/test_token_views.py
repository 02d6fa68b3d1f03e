"""API tokens in the browser: made, shown once, listed with their last use, revoked."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.access import rules, services
from console.access.models import ApiToken, AuditEvent
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
WISH: dict[str, Any] = {
    "name": "deploy",
    "scopes": ["VIEW", "RESET"],
    "cluster_pattern": "prod-*",
    "days": "30",
}


def text_of(client: Client) -> str:
    answer = client.get("/tokens")
    assert answer.status_code == 200
    return answer.content.decode()


def test_it_asks_strangers_to_sign_in(client: Client) -> None:
    assert client.get("/tokens").status_code == 302


def test_it_makes_a_token_and_shows_its_key_once() -> None:
    client = signed_in("some", verbs=("VIEW",))
    answer = client.post("/tokens", WISH)
    found = re.search(r"<pre>(tm_[\w-]+)</pre>", answer.content.decode())
    assert found is not None
    token = ApiToken.objects.get()
    assert (token.owner.username, token.scopes, token.cluster_pattern) == (
        "some",
        ["VIEW", "RESET"],
        "prod-*",
    )
    assert token.expires_at is not None
    assert (token.expires_at - token.created_at).days in (29, 30)
    assert found[1] not in text_of(client)
    assert "never used" in text_of(client)
    services.authenticate_token(found[1])
    assert re.search(r"used <time [^>]*>0 s</time> ago", text_of(client))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"name": ""}, "This field is required."),
        ({"scopes": []}, "Choose at least one."),
        ({"scopes": ["FLY"]}, "not one of the available choices"),
        ({"days": "0"}, "Enter at least 1."),
        ({"days": "soon"}, "Enter a whole number."),
    ],
)
def test_it_says_which_field_is_wrong(wrong: dict[str, Any], reason: str) -> None:
    answer = signed_in("some", verbs=("VIEW",)).post("/tokens", {**WISH, **wrong})
    assert answer.status_code == 422
    assert reason in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_it_shows_everybodys_tokens_to_administrators_only() -> None:
    other = signed_in("other", verbs=("VIEW",))
    other.post("/tokens", WISH)
    prefix = ApiToken.objects.get().prefix
    assert prefix not in text_of(signed_in("some", verbs=("VIEW", "CONFIGURE")))
    assert prefix in text_of(other)
    assert prefix in text_of(signed_in("admin"))


def test_it_asks_before_a_token_is_revoked() -> None:
    some = signed_in("some", verbs=("VIEW",))
    some.post("/tokens", WISH)
    token = ApiToken.objects.get()
    page = text_of(some)
    assert f'data-target="revoke-{token.pk}"' in page
    before, dialog = page.split(f'<dialog class="dialog" id="revoke-{token.pk}"')
    assert f"/tokens/{token.prefix}/revoke" not in before
    assert f"/tokens/{token.prefix}/revoke" in dialog and "Its key was never used." in dialog


def test_it_revokes_ones_own_and_an_administrator_everybodys() -> None:
    other = signed_in("other", verbs=("VIEW",))
    for _ in range(2):
        other.post("/tokens", WISH)
    first, second = ApiToken.objects.order_by("pk")
    some = signed_in("some", verbs=("VIEW",))
    assert "No valid token" in some.post(f"/tokens/{first.prefix}/revoke", follow=True).content.decode()
    assert some.get(f"/tokens/{first.prefix}/revoke").status_code == 405
    assert "is revoked" in other.post(f"/tokens/{first.prefix}/revoke", follow=True).content.decode()
    assert (
        "is revoked"
        in signed_in("admin").post(f"/tokens/{second.prefix}/revoke", follow=True).content.decode()
    )
    assert not ApiToken.objects.filter(revoked_at=None).exists()
    assert AuditEvent.objects.filter(verb="revoke token", actor="admin", subject=second.prefix).exists()


def test_roles_that_could_run_reports_still_may() -> None:
    services.ensure_first_person()
    person = User.objects.create_user("op")
    services.grant(role="operator", user=person)
    assert rules.may(person, "REPORT", "local", "*")
    assert not rules.may(User.objects.create_user("nobody"), "REPORT", "local", "*")
