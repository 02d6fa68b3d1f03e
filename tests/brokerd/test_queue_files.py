"""Files of new queues are made, and those of deleted topics removed, beside the event loop."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import decode_records
from brokerd.store.files import mapped_file
from brokerd.store.queue import consume_queue_table
from brokerd.store.queue.consume_queue import ConsumeQueue
from tests.brokerd.running import RawClient, RunningBroker, pull_fields, running, send_fields
from tests.brokerd.store.stores import failing_disk

SEND = RequestCode.SEND_MESSAGE_V2


class Gate:
    """Holds up the making of queues' files until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[str] = []
        self._open = threading.Event()
        make_room = ConsumeQueue.make_room

        def slow(queue: ConsumeQueue) -> None:
            self.threads.append(threading.current_thread().name)
            assert self._open.wait(10)
            make_room(queue)

        monkeypatch.setattr(ConsumeQueue, "make_room", slow)

    def open(self) -> None:
        self._open.set()


async def bodies(client: RawClient, topic: str, queue_id: int) -> list[bytes]:
    answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", topic, 0, queue_id=queue_id))
    return [record.body for record in decode_records(answer.body, check_crc=True)] if answer.code == 0 else []


async def asked(client: RawClient, body: bytes, queue_id: int) -> None:
    assert (await client.ask(SEND, send_fields("T", queue_id=queue_id), body)).code == 0


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_others_are_served_while_a_queue_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: str
) -> None:
    async with running(tmp_path, flushDiskType=flush) as broker:
        first, other = await broker.client(), await broker.client()
        await asked(other, b"0", 0)
        gate = Gate(monkeypatch)
        waiting = [
            asyncio.create_task(asked(first, b"a", 1)),
            asyncio.create_task(asked(first, b"b", 1)),
            asyncio.create_task(asked(first, b"1", 0)),  # behind them, on the same connection
        ]
        await asyncio.sleep(0.05)
        await asked(other, b"2", 0)
        assert not any(task.done() for task in waiting)
        gate.open()
        await asyncio.gather(*waiting)
        assert await bodies(other, "T", 1) == [b"a", b"b"], "in the order in which they were sent"
        assert await bodies(other, "T", 0) == [b"0", b"2", b"1"]
        assert len(gate.threads) == 1
        assert gate.threads[0].startswith("queue-files")


async def test_two_connections_share_a_queue_that_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        clients = [await broker.client() for _ in range(3)]
        gate = Gate(monkeypatch)
        waiting = [asyncio.create_task(asked(client, b"x", 2)) for client in clients]
        await asyncio.sleep(0.05)
        gate.open()
        await asyncio.gather(*waiting)
        assert await bodies(clients[0], "T", 2) == [b"x"] * 3
        assert len(gate.threads) == 1


async def test_a_message_that_makes_topic_and_queue_is_answered_when_the_topic_is_saved(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        assert (await client.ask(SEND, send_fields("New"), b"x")).code == 0
        assert "New" in (tmp_path / "config" / "topics.json").read_text()


async def test_a_queue_whose_file_cannot_be_made_refuses_later_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        with monkeypatch.context() as full:
            full.setattr(ConsumeQueue, "make_room", failing_disk)
            await asked(client, b"in the log", 0)
            answer = await client.ask(SEND, send_fields("T"), b"refused")
            assert (answer.code, "cannot be written" in (answer.remark or "")) == (14, True)
        async with asyncio.timeout(10):
            while await bodies(client, "T", 0) != [b"in the log"]:  # noqa: ASYNC110  tried again every second
                await asyncio.sleep(0.05)
        await asked(client, b"taken", 0)


async def test_a_delayed_message_makes_its_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, messageDelayLevel="1s") as broker:
        client = await broker.client()
        fields = send_fields("T", queue_id=3, properties="DELAY\x011\x02")
        assert (await client.ask(SEND, fields, b"late")).code == 0
        gate = Gate(monkeypatch)
        gate.open()
        async with asyncio.timeout(10):
            while await bodies(client, "T", 3) != [b"late"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert gate.threads[0].startswith("queue-files")


async def delete(client: RawClient) -> None:
    assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0


async def test_files_of_a_deleted_topic_are_removed_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def slow(folder: Path, **more: Any) -> None:
        assert go_on.wait(10)
        shutil_rmtree(folder, **more)

    shutil_rmtree = shutil.rmtree
    async with running(tmp_path) as broker:
        client, other = await broker.client(), await broker.client()
        await asked(client, b"dead", 0)
        monkeypatch.setattr(consume_queue_table.shutil, "rmtree", slow)
        deleting = asyncio.create_task(delete(client))
        await asyncio.sleep(0.05)
        await asked(other, b"anew", 0)  # the topic is made again under the name
        assert await bodies(other, "T", 0) == [b"anew"]
        assert not deleting.done(), "the answer says that the topic does not come back"
        go_on.set()
        await deleting
        assert await bodies(other, "T", 0) == [b"anew"]
        assert list((tmp_path / "deletedqueues").iterdir()) == []
        await killed(broker)
    async with running(tmp_path) as broker:
        assert await bodies(await broker.client(), "T", 0) == [b"anew"]


async def killed(broker: RunningBroker) -> None:
    """What the store writes down at a clean stop does not count."""
    broker.broker.store._flusher.failure = "killed"


async def test_a_deletion_is_durable_before_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await asked(client, b"dead", 0)
        synced: list[str] = []
        fsync = mapped_file.fsync_directory
        monkeypatch.setattr(
            "brokerd.store.files.durable_file.fsync_directory",
            lambda folder: (synced.append(threading.current_thread().name), fsync(folder)),
        )
        await delete(client)
        assert any(name.startswith("queue-removal") for name in synced)
        assert "MainThread" not in synced
        assert '"T"' in (tmp_path / "deletedtopics.json").read_text()
