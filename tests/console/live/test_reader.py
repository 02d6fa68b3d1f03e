"""A reader of live subjects: what it may see, and refusals as frames."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from console.live import hub, reader
from console.live.hub import publish
from console.live.reader import Reader
from console.live.update import View
from console.text.locale import Locale

NOW_MS = 1_790_000_000_000


class Viewer:
    """A person whose rights change while they read."""

    def __init__(self) -> None:
        self.subjects = {"s", "t"}
        self.is_signed_in = True

    async def signed_in(self) -> bool:
        return self.is_signed_in

    async def view(self, subject: str) -> View | None:
        return View() if subject in self.subjects else None


async def next_of(one: Reader) -> Any:
    return json.loads(await asyncio.wait_for(one.next_frame(), 30))


async def test_it_reads_what_it_joined_until_it_leaves(redis_url: str) -> None:
    one = Reader(Viewer(), Locale("en"))
    await one.join("s")
    await one.join("closed")
    frames = [await next_of(one), await next_of(one)]
    assert {"subject": "closed", "error": "forbidden"} in frames
    publish("s", {"a": {"n": 1}}, now_ms=NOW_MS)
    assert (await next_of(one))["rows"] == {"a": {"n": 1}}
    assert one.has_subjects and repr(one) == "<Reader of 1 subjects, <Mailbox 0 waiting>>"
    one.close()
    assert not one.has_subjects and hub.client_count() == 0


async def test_it_ends_subjects_that_may_not_be_seen_any_more(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "RECHECK_EVERY_S", 0.01)
    viewer = Viewer()
    one = Reader(viewer, Locale("en"))
    for subject in ("s", "t"):
        await one.join(subject)
        await next_of(one)
    watch = asyncio.create_task(one.watch_rights())
    viewer.subjects = {"t"}
    assert await next_of(one) == {"subject": "s", "error": "forbidden"}
    assert one.has_subjects and not watch.done()
    viewer.is_signed_in = False
    await asyncio.wait_for(watch, 30)
    one.close()
