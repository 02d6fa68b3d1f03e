"""The access app in Django's admin."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.access import services


@pytest.mark.django_db
def test_it_shows_tokens_and_audit_and_lets_nobody_write_the_audit(client: Client) -> None:
    alice = User.objects.create_superuser("alice", password="a long enough one")
    token, key = services.create_token(owner=alice, name="ci", scopes=["VIEW"])
    event = services.record_audit(actor=alice, verb="apply", subject="billing")
    client.force_login(alice)
    page = client.get("/admin/access/apitoken/").content.decode()
    assert token.prefix in page
    assert key not in page
    assert client.get("/admin/access/apitoken/add/").status_code == 403
    assert "billing" in client.get("/admin/access/auditevent/").content.decode()
    assert client.get("/admin/access/auditevent/add/").status_code == 403
    assert client.post(f"/admin/access/auditevent/{event.pk}/delete/", {"post": "yes"}).status_code == 403


@pytest.mark.django_db
def test_it_signs_in_through_the_door_with_a_limit(client: Client) -> None:
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1] == ("/sign-in?next=/admin/", 302)
    assert client.post("/admin/login/", {"username": "alice", "password": "guess"}).status_code == 302


@pytest.mark.django_db
def test_it_refuses_people_who_are_no_staff(client: Client) -> None:
    client.force_login(User.objects.create_user("bob"))
    assert client.get("/admin/", follow=True).status_code == 403
