from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading

import pytest

from brokerd.remoting.message.queue import MessageQueue
from consumers.consumer.offset_store import LocalFileOffsetStore, OffsetStoreCorrupt, RemoteOffsetStore
from consumers.errors import BrokerUnavailable

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-a", 1)


class MemoryBroker:
    """An OffsetPort that keeps offsets in memory, and can be away."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, MessageQueue], int] = {}
        self.is_away = False

    async def query_consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        if self.is_away:
            raise BrokerUnavailable("127.0.0.1:1", "away")
        return self.offsets.get((group, queue))

    async def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        if self.is_away:
            raise BrokerUnavailable("127.0.0.1:1", "away")
        self.offsets[group, queue] = offset


@pytest.fixture(params=["remote", "local"])
def store(request, tmp_path):
    if request.param == "remote":
        return RemoteOffsetStore("billing", MemoryBroker())
    return LocalFileOffsetStore("billing", "client", tmp_path)


async def test_it_reads_back_what_it_persisted(store):
    store.update_offset(QUEUE, 5, increase_only=True)
    assert await store.read_store(QUEUE) is None
    await store.persist([QUEUE])
    assert await store.read_store(QUEUE) == 5
    assert await store.read_store(OTHER) is None


async def test_it_never_goes_back_unless_told(store):
    store.update_offset(QUEUE, 5, increase_only=True)
    store.update_offset(QUEUE, 3, increase_only=True)
    assert store.read_memory(QUEUE) == 5
    store.update_offset(QUEUE, 3, increase_only=False)
    assert store.read_memory(QUEUE) == 3


async def test_it_persists_only_the_queues_it_is_given(store):
    store.update_offset(QUEUE, 5, increase_only=True)
    store.update_offset(OTHER, 6, increase_only=True)
    await store.persist([OTHER])
    assert await store.read_store(QUEUE) is None
    assert await store.read_store(OTHER) == 6


async def test_it_forgets_a_queue(store):
    store.update_offset(QUEUE, 5, increase_only=True)
    store.remove_offset(QUEUE)
    assert store.read_memory(QUEUE) is None
    assert store.offsets() == {}


async def test_it_lists_offsets_of_a_topic(store):
    store.update_offset(QUEUE, 5, increase_only=True)
    store.update_offset(MessageQueue("clicks", "broker-a", 0), 6, increase_only=True)
    assert store.offsets("orders") == {QUEUE: 5}


async def test_it_survives_a_broker_that_is_away(caplog):
    broker = MemoryBroker()
    store = RemoteOffsetStore("billing", broker)
    store.update_offset(QUEUE, 5, increase_only=True)
    broker.is_away = True
    with caplog.at_level(logging.WARNING):
        await store.persist([QUEUE])
    assert "offset not persisted group=billing topic=orders queue_id=0 offset=5" in caplog.text
    with pytest.raises(BrokerUnavailable):
        await store.read_store(QUEUE)
    broker.is_away = False
    await store.persist([QUEUE])
    assert broker.offsets == {("billing", QUEUE): 5}


async def saved(tmp_path, *offsets: int) -> LocalFileOffsetStore:
    store = LocalFileOffsetStore("billing", "client", tmp_path)
    for offset in offsets:
        store.update_offset(QUEUE, offset, increase_only=True)
        await store.persist([QUEUE])
    return store


async def test_it_writes_the_file_as_java_does(tmp_path):
    store = await saved(tmp_path, 5)
    assert store.path == tmp_path / "client" / "billing" / "offsets.json"
    assert (
        store.path.read_bytes()
        == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:5}}'
    )


async def test_it_loads_a_file_that_java_wrote(tmp_path):
    store = LocalFileOffsetStore("billing", "client", tmp_path)
    store.path.parent.mkdir(parents=True)
    store.path.write_bytes(
        b'{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"orders"\n\t\t}:123\n\t}\n}'
    )
    store.load()
    assert await store.read_store(QUEUE) == 123


async def test_two_that_persist_at_once_do_not_write_one_draft(tmp_path, monkeypatch):
    """The rebalance gives a queue up while the timed save is on the disk."""
    store = LocalFileOffsetStore("billing", "client", tmp_path)
    second_wrote, calls, fsync = threading.Event(), itertools.count(), os.fsync

    def slow_disk(descriptor: int) -> None:
        fsync(descriptor)
        if next(calls):
            second_wrote.set()
        else:
            second_wrote.wait(0.3)  # for ever, where the second waits for the first

    monkeypatch.setattr("consumers.consumer.offset_store.os.fsync", slow_disk)
    store.update_offset(QUEUE, 5, increase_only=True)
    store.update_offset(OTHER, 7, increase_only=True)
    await asyncio.gather(store.persist([QUEUE]), store.persist([OTHER]))
    again = LocalFileOffsetStore("billing", "client", tmp_path)
    again.load()
    assert (await again.read_store(QUEUE), await again.read_store(OTHER)) == (5, 7)


async def test_one_that_is_cancelled_leaves_no_write_behind(tmp_path, monkeypatch):
    """A consumer that is closed cancels its timed save, and saves once more."""
    store = LocalFileOffsetStore("billing", "client", tmp_path)
    go_on, entered, fsync = threading.Event(), threading.Event(), os.fsync

    def slow_disk(descriptor: int) -> None:
        fsync(descriptor)
        entered.set()
        go_on.wait(30)

    monkeypatch.setattr("consumers.consumer.offset_store.os.fsync", slow_disk)
    store.update_offset(QUEUE, 5, increase_only=True)
    timed = asyncio.create_task(store.persist([QUEUE]))
    await asyncio.to_thread(entered.wait, 30)
    timed.cancel()
    store.update_offset(QUEUE, 6, increase_only=True)
    last = asyncio.create_task(store.persist([QUEUE]))
    await asyncio.sleep(0)
    go_on.set()
    await last
    again = LocalFileOffsetStore("billing", "client", tmp_path)
    again.load()
    assert await again.read_store(QUEUE) == 6


async def test_what_the_disk_refused_is_tried_again(tmp_path, monkeypatch):
    store = LocalFileOffsetStore("billing", "client", tmp_path)
    store.update_offset(QUEUE, 5, increase_only=True)
    with monkeypatch.context() as full:
        full.setattr(store, "_save", lambda data: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            await store.persist([QUEUE])
    await store.persist([QUEUE])
    again = LocalFileOffsetStore("billing", "client", tmp_path)
    again.load()
    assert await again.read_store(QUEUE) == 5


async def test_it_falls_back_to_the_backup(tmp_path):
    store = await saved(tmp_path, 5, 6)
    store.path.write_bytes(b'{"offsetTable":{{"bro')
    again = LocalFileOffsetStore("billing", "client", tmp_path)
    again.load()
    assert await again.read_store(QUEUE) == 5


async def test_it_refuses_to_start_when_both_files_are_damaged(tmp_path):
    store = await saved(tmp_path, 5, 6)
    store.path.write_bytes(b"")
    store.path.with_name("offsets.json.bak").write_bytes(b"[]")
    with pytest.raises(OffsetStoreCorrupt):
        LocalFileOffsetStore("billing", "client", tmp_path).load()


def test_it_starts_without_a_file(tmp_path):
    store = LocalFileOffsetStore("billing", "client", tmp_path)
    store.load()
    assert store.offsets() == {}
