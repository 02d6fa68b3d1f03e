"""Tables in files: coalesced writes off the loop, answers that wait for them, errors that are said and retried."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import pytest

from brokerd.remoting.body.client import ConsumerData, HeartbeatData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.tables import config_manager, table_file
from brokerd.tables.table_file import TableFile, TableWriter
from tests.brokerd.running import RawClient, running, send_fields
from tests.support.broker_process import BrokerProcess


class Written:
    """What reaches the disk, and a disk that can be full or slow."""

    def __init__(self) -> None:
        self.documents: list[tuple[str, bytes]] = []
        self.error: OSError | None = None
        self.takes_s = 0.0

    def __call__(self, path: Path, pieces: Iterable[bytes], is_private: bool = False) -> None:
        time.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        self.documents.append((path.name, b"".join(pieces)))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    disk = Written()
    monkeypatch.setattr(config_manager, "write_pieces", disk)
    return disk


@pytest.fixture
async def writer(written: Written) -> AsyncIterator[TableWriter]:
    writer = TableWriter()
    task = asyncio.create_task(writer.run())
    yield writer
    task.cancel()
    writer.close()


def table_of(writer: TableWriter, content: list[bytes]) -> TableFile:
    table = TableFile(Path("table.json"), lambda: iter(list(content)))
    writer.add(table)
    return table


async def test_changes_of_a_moment_share_one_write(writer: TableWriter, written: Written) -> None:
    content: list[bytes] = []
    table = table_of(writer, content)
    for number in range(100):
        content.append(b"%d," % number)
        table.changed()
        await asyncio.sleep(0)
    while not written.documents:
        await asyncio.sleep(0.01)
    assert written.documents == [("table.json", b"".join(b"%d," % number for number in range(100)))]


async def test_a_promise_starts_the_write_at_once(
    writer: TableWriter, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_pause_ms", 60_000)
    table = table_of(writer, [b"x"])
    table.changed()
    saved: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    writer.when_saved(saved.set_result)
    assert await asyncio.wait_for(saved, 10) is None
    assert written.documents == [("table.json", b"x")]


async def test_a_promise_waits_for_a_write_that_began_after_it(writer: TableWriter, written: Written) -> None:
    written.takes_s = 0.1
    content = [b"old"]
    table = table_of(writer, content)
    table.changed()
    first: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    writer.when_saved(first.set_result)
    await asyncio.sleep(0.03)  # the first write runs
    content[:] = [b"new"]
    table.changed()
    second: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    writer.when_saved(second.set_result)
    await first
    assert not second.done()
    await asyncio.wait_for(second, 10)
    assert [document for _, document in written.documents] == [b"old", b"new"]


async def test_an_error_is_said_and_the_write_tried_again(
    writer: TableWriter, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_file, "RETRY_AFTER_MS", 10)
    written.error = OSError(28, "No space left on device")
    table = table_of(writer, [b"x"])
    table.changed()
    saved: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    writer.when_saved(saved.set_result)
    assert str(await asyncio.wait_for(saved, 10)) == "[Errno 28] No space left on device"
    written.error = None
    while not written.documents:
        await asyncio.sleep(0.01)
    assert written.documents == [("table.json", b"x")]


async def test_what_is_changed_last_is_written_at_the_stop(writer: TableWriter, written: Written) -> None:
    table = table_of(writer, [b"last"])
    table.changed()
    writer.close()
    assert written.documents == [("table.json", b"last")]


def groups_heartbeat(client_id: str, groups: Iterable[str]) -> bytes:
    return HeartbeatData(
        client_id=client_id, consumer_data_set=[ConsumerData(group_name=group) for group in groups]
    ).to_body()


async def test_new_groups_do_not_hold_up_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 groups join and another client is answered while the disk takes no table at all."""
    real = config_manager.write_pieces
    disk_works = threading.Event()
    blocked: list[Path] = []

    def stuck(path: Path, pieces: Iterable[bytes], is_private: bool = False) -> None:
        if not disk_works.wait(10):
            blocked.append(path)  # a write in the event loop: nothing could come before it
        real(path, pieces, is_private)

    async with running(tmp_path) as broker:
        monkeypatch.setattr(config_manager, "write_pieces", stuck)
        joining, other = await broker.client(), await broker.client()
        for number in range(20):
            groups = [f"g{number}_{i}" for i in range(100)]
            body = groups_heartbeat(f"c{number}", groups)
            assert (await joining.ask(RequestCode.HEART_BEAT, body=body)).code == 0
        assert (await other.ask(RequestCode.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": "0"})).code == 0
        disk_works.set()
    assert blocked == []
    saved = json.loads((tmp_path / "config" / "subscriptionGroup.json").read_bytes())
    assert {"g0_0", "g19_99"} <= saved["subscriptionGroupTable"].keys()
    topics = json.loads((tmp_path / "config" / "topics.json").read_bytes())["topicConfigTable"]
    assert topics["%RETRY%g19_99"]["writeQueueNums"] == 1


async def test_the_answer_of_a_send_waits_for_the_topic_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Made"), b"x")).code == 0
        saved = json.loads((tmp_path / "config" / "topics.json").read_bytes())
        assert saved["topicConfigTable"]["Made"]["writeQueueNums"] == 4

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as disk:
            disk.setattr(config_manager, "write_pieces", full)
            refused = await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Full"), b"x")
            assert (refused.code, "topic cannot be saved" in (refused.remark or "")) == (14, True)


async def test_a_change_that_is_not_saved_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as disk:
            disk.setattr(config_manager, "write_pieces", full)
            answer = await client.ask(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"later"}'
            )
            assert answer.code == 1
            assert (answer.remark or "").startswith(
                "changed, but not saved: [Errno 28] No space left on device."
            )
        assert broker.broker.groups.get("later") is not None
    saved = json.loads((tmp_path / "config" / "subscriptionGroup.json").read_bytes())
    assert "later" in saved["subscriptionGroupTable"]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "store")
    yield broker
    broker.stop()


def test_kill_9_keeps_every_acknowledged_change(process: BrokerProcess) -> None:
    """Topics and groups are created, changed and deleted until the kill; all that was answered is there again."""
    process.start()

    async def change() -> tuple[set[str], set[str]]:
        client = await RawClient.connect(process.address)
        topics, groups = set(), set()
        for number in range(20):
            fields = {"topic": f"T{number}", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
            asked = [
                client.send(RemotingCommand.request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)),
                client.send(
                    RemotingCommand.request(
                        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"g%d"}' % number
                    )
                ),
            ]
            assert [(await answer).code for answer in asked] == [0, 0]
            topics.add(f"T{number}")
            groups.add(f"g{number}")
            if number % 3 == 2:
                answer = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"T{number - 1}"})
                assert answer.code == 0
                topics.remove(f"T{number - 1}")
        process.kill()
        return topics, groups

    topics, groups = asyncio.run(change())
    process.start()

    async def read() -> tuple[set[str], set[str]]:
        client = await RawClient.connect(process.address)
        all_topics = json.loads((await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
        all_groups = json.loads((await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
        return set(all_topics["topicConfigTable"]), set(all_groups["subscriptionGroupTable"])

    found_topics, found_groups = asyncio.run(read())
    assert {name for name in found_topics if name.startswith("T") and name[1:].isdigit()} == topics
    assert groups <= found_groups
