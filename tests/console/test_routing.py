"""The socket of a signed-in browser, and what of each subject its person may see."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
import websockets.asyncio.client
import websockets.exceptions
from channels.db import database_sync_to_async
from django.contrib.auth.models import AnonymousUser, User
from django.test import Client

from console.access import services
from console.asgi import application
from console.live import hub as live
from console.live import reader
from console.routing import view_of
from tests.support.shown import Browser

PATIENCE_S = 60
NOW_MS = 1_790_000_000_000


def seen(user: Any, subject: str, rows: dict[str, Any]) -> list[str] | None:
    """Keys of the rows that come through; None when the subject is refused."""
    view = view_of(user, subject)
    if view is None:
        return None
    return [key for key, row in rows.items() if view.sees is None or view.sees(key, row)]


@pytest.mark.django_db
def test_it_shows_each_person_their_own_rows() -> None:
    services.ensure_first_person()
    admin = User.objects.get()
    bob = User.objects.create_user("bob")
    services.grant(role="viewer", user=bob, cluster_pattern="prod", name_pattern="orders-*")
    services.grant(role="viewer", user=bob, cluster_pattern="staging")
    groups = {"orders-eu": {}, "billing": {}}
    jobs = {
        "job-1": {"cluster": "prod", "subject": "orders-eu"},
        "job-2": {"cluster": "prod", "subject": "billing"},
        "job-3": {"cluster": "staging", "subject": "billing"},
        "job-4": None,
    }
    assert seen(admin, "c/prod/groups", groups) == ["orders-eu", "billing"]
    assert seen(bob, "c/prod/groups", groups) == ["orders-eu"]
    assert seen(bob, "c/staging/groups", groups) == ["orders-eu", "billing"]
    assert seen(bob, "c/other/groups", groups) is None
    assert seen(bob, "c/prod/group/orders-eu", {"summary": {}}) == ["summary"]
    assert seen(bob, "c/prod/group/billing", {"summary": {}}) is None
    assert seen(bob, "c/prod/collector", {"round": {}}) == ["round"]
    assert seen(bob, "c/other/collector", {"round": {}}) is None
    assert seen(bob, "c/prod/counts", {"groups": {}}) is None
    assert seen(bob, "c/staging/collector", {"round": {}}) == ["round"]
    assert seen(admin, "jobs", jobs) == ["job-1", "job-2", "job-3", "job-4"]
    assert seen(bob, "jobs", jobs) == ["job-1", "job-3", "job-4"]
    assert seen(bob, "job/job-2", {"job": jobs["job-2"]}) == []
    asks = {name: {**jobs["job-1"], "verb": verb} for name, verb in (("op-1", "VIEW"), ("op-2", "RESET"))}
    assert seen(admin, "approvals", asks) == ["op-1", "op-2"]
    assert seen(bob, "approvals", asks) == ["op-1"]


@pytest.mark.django_db
def test_live_topics_name_no_group_of_others() -> None:
    bob = User.objects.create_user("bob")
    services.ensure_first_person()
    services.grant(role="viewer", user=bob, cluster_pattern="prod", name_pattern="orders-*")
    rows = {
        "orders-in": {"worst_group": "billing", "time_to_loss_group": "orders-eu", "in_rate": 1.0},
        "pay-in": {"worst_group": "orders-eu"},
        "orders-old": None,
    }
    view = view_of(bob, "c/prod/topics")
    assert view is not None
    told = live.Update.of("c/prod/topics", 1, NOW_MS, False, rows).only(view).rows
    mine = {"worst_group": None, "time_to_loss_group": "orders-eu", "in_rate": 1.0}
    assert told == {"orders-in": mine, "orders-old": None}


@pytest.mark.django_db
@pytest.mark.parametrize("subject", ["", "c", "c/", "job", "job/", "users", "c/prod"])
def test_it_refuses_subjects_that_do_not_exist_and_strangers(subject: str) -> None:
    assert view_of(User.objects.create_user("bob"), subject) is None
    assert view_of(AnonymousUser(), subject) is None
    assert view_of(AnonymousUser(), "c/prod/groups") is None


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[str]:
    config = uvicorn.Config(
        application, port=0, lifespan="off", log_level="warning", ws_per_message_deflate=False
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await task


def signed_in() -> tuple[User, dict[str, str]]:
    """A person and the header of their browser."""
    user = User.objects.create_superuser("alice")
    client = Browser()
    client.force_login(user)
    return user, {"Cookie": f"tidemark_session={client.cookies['tidemark_session'].value}"}


def connect(host: str, headers: dict[str, str], origin: str | None = "") -> websockets.asyncio.client.connect:
    wanted: Any = f"http://{host}" if origin == "" else origin
    return websockets.asyncio.client.connect(
        f"ws://{host}/ws/live", additional_headers=headers, origin=wanted
    )


@pytest.mark.django_db(transaction=True)
async def test_it_serves_the_browser_of_somebody_who_signed_in(redis_url: str) -> None:
    _, headers = await database_sync_to_async(signed_in)()
    async with served() as host, connect(host, headers) as socket:
        await socket.send('{"subscribe": [{"subject": "c/local/groups"}]}')
        assert json.loads(await asyncio.wait_for(socket.recv(), PATIENCE_S))["full"] is True
        live.publish("c/local/groups", {"billing": {"lag": 7}}, now_ms=NOW_MS)
        assert json.loads(await asyncio.wait_for(socket.recv(), PATIENCE_S))["rows"] == {
            "billing": {"lag": 7}
        }


@pytest.mark.django_db(transaction=True)
async def test_it_refuses_strangers_and_other_sites(redis_url: str) -> None:
    _, headers = await database_sync_to_async(signed_in)()
    async with served() as host:
        refused: list[tuple[dict[str, str], str | None]] = [
            ({}, ""),
            ({"Cookie": "tidemark_session=guess"}, ""),
            (headers, "http://evil.example.org"),
            (headers, None),
        ]
        for its_headers, origin in refused:
            with pytest.raises(websockets.exceptions.InvalidStatus) as refusal:
                async with connect(host, its_headers, origin):
                    pass
            assert refusal.value.response.status_code == 403


@pytest.mark.django_db(transaction=True)
async def test_it_closes_the_socket_when_the_person_signs_out(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "RECHECK_EVERY_S", 0.1)
    _, headers = await database_sync_to_async(signed_in)()
    async with served() as host, connect(host, headers) as socket:
        await socket.send('{"subscribe": [{"subject": "jobs"}]}')
        await asyncio.wait_for(socket.recv(), PATIENCE_S)

        def sign_out() -> None:
            client = Client(headers={"cookie": headers["Cookie"]})
            assert client.post("/sign-out").status_code == 302

        await database_sync_to_async(sign_out)()
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), PATIENCE_S)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401
