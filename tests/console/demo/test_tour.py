"""The tour of the demo: which pages show which step, and to whom."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from console.cluster.models import Cluster
from console.demo.tour import STOPS
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


@pytest.fixture
def demo(settings: Settings) -> Cluster:
    settings.DEMO = True
    return Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1", is_embedded=True)


def page(browser: Client, url: str) -> str:
    return browser.get(url).content.decode()


def test_every_step_leads_to_the_next_one(demo: Cluster) -> None:
    browser = signed_in()
    for number, stop in enumerate(STOPS, start=1):
        if stop.page == "group":
            continue  # a group that no broker has is a page without a tour
        text = page(browser, stop.url("local"))
        assert f"step {number} of {len(STOPS)}" in text
        assert str(stop.title) in text
        if number < len(STOPS):
            assert f'href="{STOPS[number].url("local")}"' in text


def test_the_last_step_opens_the_reports_that_are_full(demo: Cluster) -> None:
    link = 'href="/c/week/reports">Reports of the generated week'
    browser = signed_in()
    assert link not in page(browser, "/c/local/reports")
    Cluster.objects.create(name="week", namesrv_addrs="127.0.0.1:2", generated_to_ms=1)
    assert link in page(browser, "/c/local/reports")
    assert link not in page(browser, "/c/local/groups")


def test_only_its_own_pages_show_a_step(demo: Cluster) -> None:
    browser = signed_in()
    for url in ("/c/local/", "/c/local/topics", "/c/local/dead-letters", "/clusters"):
        assert 'class="tour"' not in page(browser, url)


def test_it_is_shown_on_the_demo_only(demo: Cluster, settings: Settings) -> None:
    browser = signed_in()
    Cluster.objects.create(name="prod", namesrv_addrs="127.0.0.1:2")
    assert 'class="tour"' in page(browser, "/c/local/groups")
    assert 'class="tour"' not in page(browser, "/c/prod/groups")
    settings.DEMO = False
    assert 'class="tour"' not in page(browser, "/c/local/groups")
    assert "Try a broker failure" not in page(browser, "/c/local/")


def test_it_stays_closed_for_the_person_who_closed_it(demo: Cluster) -> None:
    first, second = signed_in("first"), signed_in("second")
    assert str(STOPS[0].title) in page(first, "/c/local/")
    for _ in range(2):
        assert first.post("/demo/tour/close").status_code == 302
    assert 'class="tour"' not in page(first, "/c/local/groups")
    assert str(STOPS[0].title) not in page(first, "/c/local/")
    assert 'class="tour"' in page(second, "/c/local/groups")
