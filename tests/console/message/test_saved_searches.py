"""Saved searches of one person."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict

from console.message import saved_searches
from console.message.saved_searches import SavedSearchForm, save_search
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])


def test_it_keeps_the_search_and_not_where_the_list_was_left() -> None:
    form = SavedSearchForm(
        {"name": "paid", "address": "topic=orders&tag=paid&queue=a:1&queue=a:2&cursor=x&page=9"}
    )
    assert form.is_valid()
    kept = QueryDict(form.cleaned_data["address"])
    assert dict(kept.lists()) == {"topic": ["orders"], "tag": ["paid"], "queue": ["a:1", "a:2"]}


@pytest.mark.parametrize("address", ["", "tag=paid", "topic=orders&read=time", "topic=orders&offset=x"])
def test_it_refuses_what_cannot_be_run(address: str) -> None:
    assert not SavedSearchForm({"name": "paid", "address": address}).is_valid()


def test_a_person_has_a_search_once_and_not_too_many(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_searches, "SEARCHES_MAX", 1)
    assert save_search(alice, "test", "paid", "topic=a") == ""
    assert save_search(alice, "test", "paid", "topic=b") == ""
    assert [each.address for each in saved_searches.saved_searches(alice, "test")] == ["topic=b"]
    assert "1 saved searches, the most" in save_search(alice, "test", "other", "topic=a")


def test_the_page_saves_opens_and_removes_ones_own() -> None:
    sample_rows.cluster("test")
    client, other = signed_in("some"), signed_in("other")
    client.post("/c/test/messages/save", {"name": "paid", "address": "topic=orders&tag=paid"})
    page = client.get("/c/test/messages").content.decode()
    assert 'href="/c/test/messages?topic=orders&amp;tag=paid">paid</a>' in page
    assert ">paid</a>" not in other.get("/c/test/messages").content.decode()
    other.post("/c/test/messages/save", {"remove": "paid", "address": ""})
    assert ">paid</a>" in client.get("/c/test/messages").content.decode()
    client.post("/c/test/messages/save", {"remove": "paid", "address": ""})
    assert ">paid</a>" not in client.get("/c/test/messages").content.decode()
