"""The event stream over a real server: the frames of the pages' socket, for tokens and browsers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from channels.db import database_sync_to_async
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from api import stream
from console.access import services
from console.access.models import ApiToken, Grant
from console.asgi import application
from console.cluster.models import Cluster
from console.live import hub as live
from console.live import reader
from console.process.programs import Options, web_program
from tests.api.conftest import problem
from tests.support.ports import free_port
from tests.support.shown import Browser

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.one_database("frames and connections; the live hub's tests ask the same of the database"),
]

PATIENCE_S = 60
# Makes a database with a person and prints the key of their token.
PREPARE = """
from django.contrib.auth.models import User
from console.access.services import create_token
from tests.support import migrated
migrated.migrate()
print(create_token(owner=User.objects.create_superuser("root"), name="script", scopes=["VIEW"])[1])
"""
NOW_MS = 1_790_000_000_000


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[int]:
    """The console in uvicorn, as the product runs it; yields its port."""
    config = uvicorn.Config(application, port=0, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await task


class Script:
    """A connection that reads events, as curl does."""

    def __init__(
        self, lines: asyncio.StreamReader, out: asyncio.StreamWriter, status: int, head: str
    ) -> None:
        self.lines, self.out, self.status, self.head = lines, out, status, head
        self.unread = b""

    @classmethod
    async def open(cls, port: int, query: str, *headers: str, limit: int = 2**20) -> Script:
        lines, out = await asyncio.open_connection("127.0.0.1", port, limit=limit)
        wanted = [f"GET /api/v1/stream?{query} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers]
        out.write(("\r\n".join(wanted) + "\r\n\r\n").encode())
        head = (await asyncio.wait_for(lines.readuntil(b"\r\n\r\n"), PATIENCE_S)).decode()
        return cls(lines, out, int(head.split()[1]), head)

    async def line(self) -> str:
        """The next line that is not empty; "" at the end of the stream."""
        while True:
            text, found, rest = self.unread.partition(b"\n")
            if found:
                self.unread = rest
                if text:
                    return text.decode()
                continue
            size = int((await asyncio.wait_for(self.lines.readline(), PATIENCE_S)).strip() or b"0", 16)
            if size == 0:
                return ""
            self.unread += (await asyncio.wait_for(self.lines.readexactly(size + 2), PATIENCE_S))[:-2]

    async def data(self) -> Any:
        """The next event."""
        while not (text := await self.line()).startswith("data: "):
            assert text, "the stream ended"
        return json.loads(text.removeprefix("data: "))

    async def rows(self) -> Any:
        """The next event with rows."""
        while "rows" not in (event := await self.data()):
            pass
        return event

    async def leave(self) -> None:
        self.out.close()
        with contextlib.suppress(OSError):
            await self.out.wait_closed()


def token_of(user: User, **kwargs: Any) -> str:
    _, key = services.create_token(owner=user, name="script", scopes=["VIEW"], **kwargs)
    return f"Authorization: Bearer {key}"


@database_sync_to_async
def somebody(name: str, pattern: str = "*") -> tuple[User, str]:
    """A person who may view names of cluster local, and the header of their script."""
    services.ensure_first_person()
    Cluster.objects.get_or_create(name="local", namesrv_addrs="127.0.0.1:1")
    user = User.objects.create_user(name)
    services.grant(role="viewer", user=user, cluster_pattern="local", name_pattern=pattern)
    return user, token_of(user)


@database_sync_to_async
def change(call: Callable[[], object]) -> None:
    call()


async def test_a_script_gets_what_a_page_gets(redis_url: str) -> None:
    live.publish("c/local/groups", {"billing": {"lag": 1}}, now_ms=NOW_MS)
    _, header = await somebody("alice")
    async with served() as port:
        script = await Script.open(port, "subject=c/local/groups&subject=c/local/collector", header)
        assert script.status == 200
        assert "content-type: text/event-stream" in script.head.lower()
        assert "no-store" in script.head and "content-encoding" not in script.head.lower()
        assert await script.line() == "retry: 3000"
        first = {row["subject"]: row for row in (await script.data(), await script.data())}
        assert first["c/local/groups"]["full"] is True
        assert first["c/local/groups"]["rows"] == {"billing": {"lag": 1}}
        live.publish("c/local/groups", {"billing": {"lag": 2}, "old": None}, now_ms=NOW_MS + 9)
        assert await script.data() == {
            "subject": "c/local/groups",
            "seq": NOW_MS + 2,
            "at_ms": NOW_MS + 9,
            "full": False,
            "rows": {"billing": {"lag": 2}, "old": None},
        }
        await script.leave()
        while live.client_count():
            await asyncio.sleep(0.01)


async def test_a_browser_gets_it_by_its_session(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "RECHECK_EVERY_S", 0.1)

    def sign_in() -> str:
        browser = Browser()
        browser.force_login(User.objects.create_superuser("root"))
        return str(browser.cookies["tidemark_session"].value)

    key = await database_sync_to_async(sign_in)()
    async with served() as port:
        script = await Script.open(port, "subject=jobs", f"Cookie: tidemark_session={key}")
        assert (await script.data())["full"] is True
        cookie = {"cookie": f"tidemark_session={key}"}
        await change(lambda: Client(headers=cookie).post("/sign-out"))
        assert await script.data() == {"error": "signed out"}
        assert await script.line() == ""


async def test_rows_of_other_names_are_left_out(redis_url: str) -> None:
    rows: dict[str, object] = {"orders-eu": {"lag": 1}, "billing": {"lag": 7}}
    live.publish("c/local/groups", rows, now_ms=NOW_MS)
    _, header = await somebody("bob", "orders-*")
    async with served() as port:
        script = await Script.open(port, "subject=c/local/groups", header)
        assert (await script.data())["rows"] == {"orders-eu": {"lag": 1}}
        live.publish("c/local/groups", {"billing": {"lag": 8}}, now_ms=NOW_MS)
        live.publish("c/local/groups", {"orders-eu": {"lag": 2}}, now_ms=NOW_MS)
        assert (await script.data())["rows"] == {"orders-eu": {"lag": 2}}
        await script.leave()


@pytest.mark.parametrize(
    ("subject", "status"),
    [
        ("c/local/groups", 200),
        ("c/nope/groups", 404),
        ("c/local/nonsense", 404),
        ("c/local/topic/orders", 404),
    ],
)
def test_it_waits_for_no_rows_that_never_come(
    subject: str, status: int, client_of: Callable[..., APIClient], redis_url: str
) -> None:
    """An administrator may see every name, also those that nothing has."""
    root = User.objects.create_superuser("root")
    Cluster.objects.create(name="local", namesrv_addrs="127.0.0.1:1")
    assert client_of(root, "VIEW").head(f"/api/v1/stream?subject={subject}").status_code == status


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("subject=", 404),
        ("subject=c/other/groups", 404),
        ("subject=c/local/groups&subject=c/other/groups", 404),
        ("subject=c/local/group/billing", 404),
        ("subject=users", 404),
        ("subject=c/local/groups%0d%0aX-Evil:%201", 400),
        ("subject=" + "x" * 601, 400),
        ("&".join(f"subject=jobs{number}" for number in range(51)), 400),
        ("subject=jobs&keys=a", 400),
    ],
)
async def test_it_refuses_before_it_begins(query: str, status: int, redis_url: str) -> None:
    _, header = await somebody("bob", "orders-*")
    async with served() as port:
        script = await Script.open(port, query, header)
        assert script.status == status
        await script.leave()


async def test_strangers_get_nothing(redis_url: str) -> None:
    user, header = await somebody("alice")
    await change(lambda: User.objects.filter(pk=user.pk).update(is_active=False))
    async with served() as port:
        for headers in ([], ["Authorization: Bearer tm_guess"], [header], ["Cookie: tidemark_session=x"]):
            script = await Script.open(port, "subject=c/local/groups", *headers)
            assert script.status == 401
            await script.leave()


async def test_a_token_without_the_cluster_sees_nothing_of_it(redis_url: str) -> None:
    user, _ = await somebody("alice")
    header = await database_sync_to_async(token_of)(user, cluster_pattern="test-*")
    async with served() as port:
        script = await Script.open(port, "subject=c/local/groups", header)
        assert script.status == 404
        await script.leave()


async def test_a_right_taken_away_ends_its_subject(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "RECHECK_EVERY_S", 0.1)
    user, header = await somebody("alice")
    async with served() as port:
        script = await Script.open(port, "subject=c/local/groups&subject=jobs", header)
        assert {(await script.data())["subject"], (await script.data())["subject"]} == {
            "c/local/groups",
            "jobs",
        }
        await change(lambda: Grant.objects.filter(user=user).delete())
        assert await script.data() == {"subject": "c/local/groups", "error": "forbidden"}
        live.publish("c/local/groups", {"billing": {"lag": 1}}, now_ms=NOW_MS)
        live.publish("jobs", {"job-1": None}, now_ms=NOW_MS)
        assert (await script.data())["subject"] == "jobs"
        await script.leave()


async def test_the_last_right_taken_away_ends_the_stream(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "RECHECK_EVERY_S", 0.1)
    user, header = await somebody("alice")
    async with served() as port:
        script = await Script.open(port, "subject=c/local/groups", header)
        await script.data()
        await change(lambda: Grant.objects.filter(user=user).delete())
        assert await script.data() == {"subject": "c/local/groups", "error": "forbidden"}
        assert await script.line() == ""


async def test_a_revoked_token_ends_its_stream(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "RECHECK_EVERY_S", 0.1)
    _, header = await somebody("alice")
    async with served() as port:
        script = await Script.open(port, "subject=c/local/groups", header)
        await script.data()
        await change(lambda: services.revoke_token(prefix=ApiToken.objects.get().prefix))
        assert await script.data() == {"error": "signed out"}
        assert await script.line() == ""
        again = await Script.open(port, "subject=c/local/groups", header)
        assert again.status == 401
        await again.leave()


@pytest.mark.both_databases("the rows of jobs as a stream that begins reads them")
async def test_an_idle_stream_has_heartbeats(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PING_EVERY_S", 0.05)
    _, header = await somebody("alice")
    async with served() as port:
        script = await Script.open(port, "subject=jobs", header, "Last-Event-ID: 17")
        assert await script.line() == "retry: 3000"
        assert (await script.data())["full"] is True  # nothing is resumed: all rows
        assert [await script.line(), await script.line()] == [": alive", ": alive"]
        await script.leave()


async def test_one_person_has_a_limited_number_of_streams(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "STREAMS_MAX", 2)
    user, header = await somebody("alice")
    other_token = await database_sync_to_async(token_of)(user)
    _, other_person = await somebody("bob")
    async with served() as port:
        first, second = [await Script.open(port, "subject=jobs", header) for _ in range(2)]
        third = await Script.open(port, "subject=jobs", other_token)
        assert (first.status, second.status, third.status) == (200, 200, 429)
        bobs = await Script.open(port, "subject=jobs", other_person)
        assert bobs.status == 200
        await first.leave()
        while (again := await Script.open(port, "subject=jobs", header)).status == 429:
            await again.leave()
            await asyncio.sleep(0.05)
        assert again.status == 200
        for script in (second, third, bobs, again):
            await script.leave()


async def test_a_reader_that_takes_nothing_is_cut_off_and_delays_no_other(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "STALL_LIMIT_S", 1.0)
    _, header = await somebody("alice")
    row = {"text": "x" * 200_000}
    async with served() as port:
        stalled = await Script.open(port, "subject=c/local/groups", header, limit=1024)
        stalled.out.transport.pause_reading()  # type: ignore[attr-defined]
        busy = await Script.open(port, "subject=c/local/groups", header)
        await busy.data()
        for number in range(100):
            live.publish("c/local/groups", {"a": {**row, "n": number}}, now_ms=NOW_MS)
            assert (await busy.data())["rows"]["a"]["n"] == number
        while live.client_count() > 1:  # 20 MB on, nothing read for 1 s
            await asyncio.sleep(0.05)
        live.publish("c/local/groups", {"a": {"n": 100}}, now_ms=NOW_MS)
        assert (await busy.data())["rows"]["a"] == {"n": 100}
        stalled.out.transport.abort()
        await busy.leave()


def test_head_opens_no_stream(alice: User, client_of: Callable[..., APIClient], redis_url: str) -> None:
    answer = client_of(alice).head("/api/v1/stream?subject=jobs")
    assert answer.status_code == 200 and not answer.streaming


def test_an_unknown_parameter_is_refused(alice: User, client_of: Callable[..., APIClient]) -> None:
    answer = client_of(alice).get("/api/v1/stream?subject=jobs&since=1")
    assert "This address accepts subject." in problem(answer, 400, "invalid")["detail"]


async def test_it_ends_with_its_server(redis_url: str, tmp_path: Path) -> None:
    """A stream left open must not delay the stop, nor end as an error of the server."""
    options = Options(tmp_path, "127.0.0.1", free_port(), 0, 0, demo=False)
    environment = {**os.environ, "TIDEMARK_DATA": str(tmp_path), "REDIS_URL": redis_url}
    environment["DJANGO_SETTINGS_MODULE"] = "console.settings"
    for name in ("DATABASE_URL", "METRICS_DATABASE_URL"):
        environment.pop(name, None)

    made = await asyncio.create_subprocess_exec(
        sys.executable, "manage.py", "shell", "-c", PREPARE, env=environment, stdout=subprocess.PIPE
    )
    key = (await made.communicate())[0].decode().split()[-1]
    program = web_program(options)
    server = await asyncio.create_subprocess_exec(*program.command, env=environment, stderr=subprocess.PIPE)
    try:
        assert program.probe is not None
        while not await program.probe():
            assert server.returncode is None
            await asyncio.sleep(0.1)
        script = await Script.open(options.port, "subject=jobs", f"Authorization: Bearer {key}")
        assert (await script.rows())["full"] is True
        begun = asyncio.get_running_loop().time()
        server.send_signal(signal.SIGTERM)
        assert await script.line() == ""
        await script.leave()
        await asyncio.wait_for(server.wait(), PATIENCE_S)
        took_s = asyncio.get_running_loop().time() - begun
    finally:
        if server.returncode is None:
            server.kill()
    assert server.stderr is not None
    errors = (await server.stderr.read()).decode()
    assert took_s < 0.9, f"it waited {took_s:.1f} s"  # uvicorn cuts off open responses after 1 s
    assert "rror" not in errors, errors
