"""The order of a stop: no client is led here any more, what was read is answered, then connections are closed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from brokerd.remoting.codes import RequestCode
from brokerd.store.files import mapped_file
from tests.brokerd.running import running, send_fields
from tests.consumers.fake_broker import wait_until


async def test_a_stop_unregisters_then_answers_then_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    sync = mapped_file.sync_pages

    def slow(*arguments: Any) -> None:
        assert go_on.wait(10)
        sync(*arguments)

    async with running(tmp_path / "ns", brokerName="ns") as other:
        elsewhere = other.controller.namesrv_address
        async with running(
            tmp_path / "b", brokerName="b", namesrvAddr=elsewhere, flushDiskType="SYNC_FLUSH"
        ) as broker:
            client, routes = await broker.client(), other.controller.routes
            assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"first")).code == 0
            await wait_until(lambda: "b" in routes.brokers)
            monkeypatch.setattr(mapped_file, "sync_pages", slow)
            written = broker.broker.store.written_bytes
            sent = asyncio.ensure_future(client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"second"))
            await wait_until(lambda: broker.broker.store.written_bytes > written)
            stop = asyncio.ensure_future(broker.controller.stop())
            monkeypatch.setattr(broker, "stop", lambda: stop)  # once
            await wait_until(lambda: "b" not in routes.brokers)
            await asyncio.sleep(0.1)
            assert not sent.done()
            assert not client.is_closed.is_set()
            go_on.set()
            assert (await sent).code == 0
            await stop
            assert client.is_closed.is_set()
