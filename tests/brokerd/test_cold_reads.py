"""A consumer that is far behind: the disk is read in threads, and no page fault stops the event loop."""

from __future__ import annotations

import asyncio
import gc
import resource
from pathlib import Path

import pytest

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import decode_records
from brokerd.store import cold_pages
from brokerd.store.files import mapped_file
from brokerd.store.message_store import MessageStore
from tests.brokerd.running import RunningBroker, pull_fields, running, send_fields
from tests.brokerd.store.stores import NOW_MS, open_store, put_all

BODY = bytes(9_000)
COUNT = 300
SETTINGS = {"mappedFileSizeCommitLog": str(1 << 20), "mappedFileSizeConsumeQueue": "6000000"}


async def stored(root: Path) -> None:
    """A broker's store whose pages the kernel has dropped."""
    async with running(root, **SETTINGS) as broker:
        client = await broker.client()
        for number in range(COUNT):
            tag = f"TAGS\x01{'rare' if number % 50 == 0 else 'often'}\x02"
            fields = send_fields("T", properties=f"{tag}KEYS\x01k{number} all\x02")
            assert (await client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"%d " % number + BODY)).code == 0


def drop(root: Path, *, with_index: bool = False) -> None:
    gc.collect()  # the maps of the broker before hold their pages
    files = [*(root / "commitlog").iterdir(), *(root / "consumequeue").rglob("0" * 20)]
    if with_index:  # nothing is put after that
        files += (root / "index").iterdir()
    for path in files:
        mapped_file.drop_cached_pages(path)


def faults() -> int:
    """Of this thread, that waited for a disk."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt


async def pulled(broker: RunningBroker, **fields: str) -> list[bytes]:
    client = await broker.client()
    found: list[bytes] = []
    offset = 0
    while offset < COUNT:
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", offset, **fields))
        if answer.code == 0:
            found += [record.body.split(b" ")[0] for record in decode_records(answer.body, check_crc=True)]
        assert int(answer.ext_fields["nextBeginOffset"]) > offset, answer
        offset = int(answer.ext_fields["nextBeginOffset"])
    return found


@pytest.mark.parametrize(("subscription", "step"), [("*", 1), ("rare", 50)])
async def test_cold_messages_are_read_in_threads(tmp_path: Path, subscription: str, step: int) -> None:
    await stored(tmp_path)
    async with running(tmp_path, **SETTINGS) as broker:
        drop(tmp_path)
        if not broker.broker.store.cold_pages("T", 0, 0, 32):
            pytest.skip("this file system keeps its files in memory")
        before = faults()
        assert await pulled(broker, subscription=subscription) == [b"%d" % i for i in range(0, COUNT, step)]
        assert faults() - before == 0


async def test_others_are_served_while_the_disk_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(tmp_path)
    async with running(tmp_path, **SETTINGS) as broker:
        slow, go_on = await broker.client(), asyncio.Event()
        real = broker.broker.cold_reads.read

        async def slow_disk(ranges: list[cold_pages.FileRange]) -> None:
            await go_on.wait()
            await real(ranges)

        monkeypatch.setattr(broker.broker.cold_reads, "read", slow_disk)
        monkeypatch.setattr(mapped_file.MappedFile, "is_resident", lambda *_: go_on.is_set())
        waiting = asyncio.create_task(slow.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0)))
        other = await broker.client()
        assert (await other.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"new")).code == 0
        assert not waiting.done()
        go_on.set()
        assert (await waiting).code == 0


async def test_what_the_disk_cannot_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await stored(tmp_path)
    async with running(tmp_path, **SETTINGS) as broker:
        client = await broker.client()

        def broken(*_: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(mapped_file.MappedFile, "is_resident", lambda *_: False)
        monkeypatch.setattr(mapped_file.MappedFile, "read_ahead", broken)
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0))
        assert (answer.code, "cannot read this" in (answer.remark or "")) == (1, True)
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"new")).code == 0


KEY = {"topic": "T", "key": "k7", "maxNum": "9", "beginTimestamp": "0", "endTimestamp": str(2**62)}
GROUP = {"group": "g", "topic": "T"}
# Request → its fields, and words of the answer: what reads old messages, other than pulls.
ASKS: dict[RequestCode, tuple[dict[str, str], bytes]] = {
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: ({"topic": "T", "queueId": "0", "timestamp": "1000"}, b""),
    RequestCode.GET_TOPIC_STATS_INFO: ({"topic": "T"}, b'"maxOffset":300'),
    RequestCode.GET_CONSUME_STATS: ({"consumerGroup": "g"}, b'"consumerOffset":5'),
    RequestCode.GET_BROKER_CONSUME_STATS: ({"isOrder": "false"}, b'"consumerOffset":5'),
    RequestCode.QUERY_CONSUME_TIME_SPAN: (GROUP, b'"minTimeStamp"'),
    RequestCode.GET_EARLIEST_MSG_STORETIME: ({"topic": "T", "queueId": "0"}, b""),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (
        {**GROUP, "timestamp": "1000", "isForce": "true"},
        b'"queueId":0,"topic":"T"}:0',
    ),
    RequestCode.QUERY_MESSAGE: (KEY, b"7 \0\0"),
    RequestCode.VIEW_MESSAGE_BY_ID: ({"offset": "0"}, b"0 \0\0"),
    RequestCode.GET_BROKER_RUNTIME_INFO: ({}, b'"earliestMessageTimeStamp"'),
    RequestCode.CONSUMER_SEND_MSG_BACK: ({"offset": "0", "group": "g", "delayLevel": "0"}, b""),
}


async def joined(broker: RunningBroker) -> None:
    client = await broker.consumer("c", "g", "T")
    offset = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "5"}
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, offset)).code == 0


@pytest.mark.parametrize("code", ASKS)
async def test_what_else_reads_old_messages_reads_them_in_threads(tmp_path: Path, code: RequestCode) -> None:
    await stored(tmp_path)
    async with running(tmp_path, **SETTINGS) as broker:
        await joined(broker)
        client = await broker.client()
        drop(tmp_path, with_index=code is RequestCode.QUERY_MESSAGE)
        if not broker.broker.store.cold_pages("T", 0, 0, 32):
            pytest.skip("this file system keeps its files in memory")
        fields, expected = ASKS[code]
        # It writes too, where pages are cold after `drop` only.
        if code is RequestCode.CONSUMER_SEND_MSG_BACK:
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("%RETRY%g"), b"x")
        before = faults()
        answer = await client.ask(code, fields)
        assert faults() - before == 0
        assert answer.code == 0, answer.remark
        assert expected in answer.body
        if code is RequestCode.CONSUMER_SEND_MSG_BACK:
            assert broker.broker.store.commit_log_max_offset > COUNT * len(BODY), "stored once"


@pytest.mark.parametrize("code", ASKS)
async def test_others_are_served_while_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: RequestCode
) -> None:
    await stored(tmp_path)
    async with running(tmp_path, **SETTINGS) as broker:
        await joined(broker)
        slow, other, go_on = await broker.client(), await broker.client(), asyncio.Event()

        async def slow_disk(ranges: list[cold_pages.FileRange]) -> None:
            await go_on.wait()

        monkeypatch.setattr(broker.broker.cold_reads, "read", slow_disk)
        monkeypatch.setattr(mapped_file.MappedFile, "is_resident", lambda *_: go_on.is_set())
        waiting = asyncio.create_task(slow.ask(code, ASKS[code][0]))
        await asyncio.sleep(0.02)
        assert (await other.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"new")).code == 0
        assert not waiting.done()
        go_on.set()
        assert (await waiting).code == 0


async def test_what_no_request_can_keep_in_memory_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(tmp_path)
    async with running(tmp_path, **SETTINGS) as broker:
        client = await broker.client()
        monkeypatch.setattr(mapped_file.MappedFile, "is_resident", lambda *_: False)
        answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"})
        assert (answer.code, "add memory" in (answer.remark or "")) == (1, True)


async def test_keys_of_very_many_messages_are_looked_up_in_a_thread_that_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerd.processor.query_message.VISITS_AT_ONCE", 1)
    await stored(tmp_path)
    async with running(tmp_path, **SETTINGS) as broker:
        client = await broker.client()
        drop(tmp_path, with_index=True)
        before = faults()
        answer = await client.ask(RequestCode.QUERY_MESSAGE, {**KEY, "key": "all"})
        assert faults() - before == 0
        records = [record.body.split(b" ")[0] for record in decode_records(answer.body, check_crc=True)]
        assert records == [b"%d" % number for number in range(COUNT - 9, COUNT)]


def test_new_messages_are_not_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    put_all(store, [b"x"] * 30)

    def unexpected(*_: object) -> bool:
        raise AssertionError("a system call for what was just written")

    monkeypatch.setattr(mapped_file.MappedFile, "is_resident", unexpected)
    assert store.cold_pages("TopicTest", 0, 0, 32) == []
    assert store.cold_pages("TopicTest", 0, 30, 32) == store.cold_pages("Missing", 0, 0, 32) == []
    store.close(NOW_MS)


def test_a_block_is_looked_up_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20)
    put_all(store, [b"x"] * 30)
    store.close(NOW_MS)
    again = MessageStore(store.config)
    again.open(NOW_MS)
    looked: list[int] = []
    monkeypatch.setattr(
        mapped_file.MappedFile, "is_resident", lambda *arguments: looked.append(arguments[1]) or True
    )
    for offset in range(5):
        assert again.cold_pages("TopicTest", 0, offset, 5) == []
    assert looked == [0, 0], "a block of units, and the block of the log they point to"
    again.close(NOW_MS)
