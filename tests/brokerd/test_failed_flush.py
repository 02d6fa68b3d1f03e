"""A disk that fails: senders, request 28 and the log get the reason, with SYNC_FLUSH those who wait too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brokerd.remoting.body.broker import KVTable
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.store.files import mapped_file
from tests.brokerd.running import pull_fields, running, send_fields
from tests.brokerd.store.stores import failing_disk
from tests.consumers.fake_broker import wait_until

REASON = "the commit log could not be flushed ([Errno 5] Input/output error)"


@pytest.mark.parametrize("binary", [False, True])
async def test_sync_flush_senders_get_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binary: bool
) -> None:
    async with running(tmp_path, flushDiskType="SYNC_FLUSH") as broker:
        client = await broker.client()
        stored = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"safe", binary=binary)
        assert stored.code == 0
        monkeypatch.setattr(mapped_file, "sync_pages", failing_disk)
        refused = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"lost?", binary=binary)
        assert (refused.code, refused.ext_fields.get("msgId")) == (ResponseCode.SERVICE_NOT_AVAILABLE, None)
        assert REASON in (refused.remark or "")
        monkeypatch.undo()
        later = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"refused", binary=binary)
        assert later.code == ResponseCode.SERVICE_NOT_AVAILABLE and REASON in (later.remark or "")
        pulled = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0))
        assert pulled.code == 0 and b"safe" in pulled.body and b"lost?" not in pulled.body
        heartbeat = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert REASON in KVTable.from_body(heartbeat.body).table["storeRefusal"]


async def test_async_flush_refuses_from_the_failure_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        assert (await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body.find(b"storeRefusal") < 0
        monkeypatch.setattr(mapped_file, "sync_pages", failing_disk)
        sent = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), bytes(20_000))
        assert sent.code == 0
        await wait_until(lambda: broker.broker.store.refusal != "")
        refused = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE and REASON in (refused.remark or "")
        await asyncio.sleep(1.1)
    failures = [each for each in caplog.records if "flush failed" in each.message]
    assert len(failures) == 1, "said once, not at every try"
