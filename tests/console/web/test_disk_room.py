"""The data folder's disk is full: who reads what, and where."""

from __future__ import annotations

import collections
import json

import pytest
from django.test import Client

from console import health
from console.web import disk_room
from tests.console.web.test_unavailable import away
from tests.support import sample_rows
from tests.support.people import signed_in

pytestmark = pytest.mark.django_db(databases=["default", "metrics"])
Usage = collections.namedtuple("Usage", "total used free")
GIB = 1 << 30


@pytest.fixture
def admin() -> Client:
    sample_rows.sample()
    client = signed_in()
    client.raise_request_exception = False
    return client


def leave(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    """Only this module looks at a disk this way; filling a real one takes root."""
    monkeypatch.setattr(disk_room.shutil, "disk_usage", lambda folder: Usage(GIB, GIB, free_bytes))


@pytest.mark.parametrize(
    ("free_bytes", "words"),
    [(4 * 1024 * 1024, ""), (2_000_000, "full (1,953 KiB of 1,024 MiB free)"), (0, "full (0 KiB of")],
)
def test_it_says_that_the_disk_is_full(monkeypatch: pytest.MonkeyPatch, free_bytes: int, words: str) -> None:
    leave(monkeypatch, free_bytes)
    assert bool(disk_room.no_room()) is (words != "")
    assert words in disk_room.no_room()


def test_every_page_of_a_cluster_says_so(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "KiB of" not in admin.get("/c/local/groups").content.decode()
    leave(monkeypatch, 0)
    for address in ("/c/local/", "/c/local/groups", "/c/local/reports/lag_hour"):
        page = admin.get(address).content.decode()
        assert (
            "is full (0 KiB of 1,024 MiB free). Free some space; everything else continues automatically"
            in page
        )
        assert "nothing is recorded" in page
    admin.cookies["tidemark_language"] = "zh-hans"
    assert "0 KiB of" not in admin.get("/c/local/groups").content.decode()


def test_it_stands_beside_what_the_database_said(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(monkeypatch, 0)
    with away("metrics"):
        page = admin.get("/c/local/groups")
        problem = admin.get("/api/v1/clusters/local/groups").json()
    assert page.status_code == 503
    assert "is full (0 KiB of 1,024 MiB free)" in page.content.decode()
    assert "is full (0 KiB of" in problem["detail"]
    assert "it said: unable to open database file" in problem["detail"]
    assert json.dumps(health.readiness().as_json()).count("is full (0 KiB of") == 1
