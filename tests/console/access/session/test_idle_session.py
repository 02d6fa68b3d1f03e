"""A browser that was left alone is signed out: pages, REST and sockets."""

from __future__ import annotations

import time

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from console.routing import SessionViewer
from tests.support.shown import Browser

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
TIMER = {"HTTP_X_TIDEMARK_TIMER": "1"}


@pytest.fixture
def browser(settings: Settings) -> Client:
    settings.SESSION_IDLE_S = 3_600
    User.objects.create_superuser("lin.wei", password="correct horse battery")
    client = Browser()
    client.post("/sign-in", {"username": "lin.wei", "password": "correct horse battery"})
    return client


def used_before(client: Client, seconds: int) -> None:
    session = client.session
    session["used_at_s"] = int(time.time()) - seconds
    session.save()


def test_use_keeps_a_session_alive(browser: Client) -> None:
    used_before(browser, 3_500)
    assert browser.get("/clusters").status_code == 200
    assert time.time() - browser.session["used_at_s"] < 60


@pytest.mark.parametrize("address", ["/clusters", "/api/v1/clusters"])
def test_an_idle_session_ends(browser: Client, address: str) -> None:
    used_before(browser, 3_601)
    assert browser.get(address).status_code == (302 if address == "/clusters" else 401)
    used_before(browser, 0)
    assert browser.get("/clusters").status_code == 302  # it does not come back


def test_what_a_page_asks_by_itself_is_no_use(browser: Client) -> None:
    used_before(browser, 3_000)
    assert browser.get("/clusters", **TIMER).status_code == 200
    assert time.time() - browser.session["used_at_s"] > 2_900


def test_a_session_starts_to_count_at_the_sign_in(browser: Client) -> None:
    assert time.time() - browser.session["used_at_s"] < 60


def test_no_limit_is_a_limit_of_zero(browser: Client, settings: Settings) -> None:
    settings.SESSION_IDLE_S = 0
    used_before(browser, 10**6)
    assert browser.get("/clusters").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_sockets_of_an_idle_session_are_closed(browser: Client) -> None:
    viewer = SessionViewer.of_socket({"session": browser.session})
    assert async_to_sync(viewer.signed_in)()
    used_before(browser, 3_601)
    assert not async_to_sync(viewer.signed_in)()
