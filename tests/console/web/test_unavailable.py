"""The database goes away: every page and REST say so with 503, and nothing else is blamed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.db import OperationalError, connections, transaction
from django.http import HttpRequest
from django.test import Client

from console.group import views
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
REASON = "unable to open database file"


@contextmanager
def away(alias: str) -> Iterator[None]:
    """Every statement fails as it does when the server or the file is gone."""

    def fail(*args: Any) -> None:
        raise OperationalError(REASON)

    with connections[alias].execute_wrapper(fail):
        yield


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    client = signed_in()
    client.raise_request_exception = False
    return client


@pytest.mark.parametrize("alias", ["default", "metrics"])
@pytest.mark.parametrize("address", ["/c/local/groups", "/c/local/groups/billing", "/c/local/topics"])
def test_it_says_that_the_database_is_away(admin: Client, alias: str, address: str) -> None:
    with away(alias):
        answer = admin.get(address)
    assert answer.status_code == 503
    assert answer["Retry-After"] == "10"
    text = answer.content.decode()
    assert "The console’s database does not answer" in text
    assert REASON in text
    assert f'href="{address}"' in text
    assert admin.get(address).status_code == 200


@pytest.mark.parametrize("alias", ["default", "metrics"])
def test_it_says_so_over_rest(admin: Client, alias: str) -> None:
    with away(alias):
        answer = admin.get("/api/v1/clusters/local/groups")
    assert answer.status_code == 503
    assert answer["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["code"], problem["status"]) == ("database_unavailable", 503)
    assert REASON in problem["detail"]


@pytest.mark.parametrize("statement", ["SELECT no_such FROM lag_grouprow", "SELECT 1 FROM no_such_table"])
def test_tables_of_another_version_are_no_outage(
    admin: Client, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real statement of each kind: SQLite and PostgreSQL have different classes of errors for it."""

    def outdated(*args: Any, **options: Any) -> None:
        with transaction.atomic(using="metrics"), connections["metrics"].cursor() as cursor:
            cursor.execute(statement)

    monkeypatch.setattr(views.selectors, "group_page", outdated)
    answer = admin.get("/c/local/groups")
    text = answer.content.decode()
    assert answer.status_code == 503
    assert "database is of another version" in text and "manage.py prepare --migrate" in text
    assert "does not answer" not in text and "doctor" not in text
    problem = admin.get("/api/v1/clusters/local/groups").json()
    assert (problem["status"], problem["code"]) == (503, "database_outdated")
    assert "manage.py prepare --migrate" in problem["detail"]


def test_it_calls_our_own_faults_by_their_name(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(request: HttpRequest, *args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(views.selectors, "group_page", broken)
    answer = admin.get("/c/local/groups")
    assert answer.status_code == 500
    assert "The page could not be shown" in answer.content.decode()


@pytest.mark.parametrize("alias", ["default", "metrics"])
def test_a_database_that_is_away_is_named_in_chinese_under_the_policy(admin: Client, alias: str) -> None:
    admin.cookies["tidemark_language"] = "zh-hans"
    with away(alias):
        answer = admin.get("/c/local/groups")
    text = answer.content.decode()
    assert answer.status_code == 503 and '<html lang="zh-hans"' in text
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert not re.search(r"[。；：，]\s+[\u4e00-\u9fff]", text)
    assert "css/tokens.css" in text and "<style" not in text and " style=" not in text


def test_a_form_is_sent_once_more_as_it_was_typed(admin: Client) -> None:
    with away("default"):
        answer = admin.post("/c/local/new-topic?from=list", {"name": 'a "b" <c>', "perm": ["2", "4"]})
    text = answer.content.decode()
    assert answer.status_code == 503
    assert 'method="post" action="/c/local/new-topic?from=list"' in text
    assert '<input type="hidden" name="name" value="a &quot;b&quot; &lt;c&gt;">' in text
    assert re.findall(r'name="perm" value="(\d)"', text) == ["2", "4"]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "eva", "password": "hunter2"},
        {"secret_key": "hunter2"},
        {"body": ContentFile(b"hunter2", "f")},
    ],
)
def test_no_secret_or_file_is_repeated(admin: Client, fields: dict[str, Any]) -> None:
    with away("default"):
        answer = admin.post("/sign-in", fields)
    text = answer.content.decode()
    assert answer.status_code == 503
    assert "hunter2" not in text and "<form" not in text
    assert 'href="/sign-in"' in text
