"""Administration over a socket: topics, groups, progress, messages by key and id, runtime, relayed questions."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import decode_records
from tests.brokerd.processor.send.test_send_message import create
from tests.brokerd.running import running, send_fields


async def test_it_finds_messages_by_key_and_id(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T")
        for i in range(3):
            fields = send_fields("T", properties=f"KEYS\x01order-{i % 2} all\x02UNIQ_KEY\x01U{i}\x02")
            sent = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, str(i).encode())
        query = {"topic": "T", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "9999999999999"}

        async def found(key: str, **more: str) -> list[bytes]:
            answer = await client.ask(RequestCode.QUERY_MESSAGE, {**query, "key": key, **more})
            assert answer.ext_fields.keys() == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
            assert answer.code == (0 if answer.body else 22)
            return [record.body for record in decode_records(answer.body)]

        assert await found("order-0") == [b"0", b"2"]
        assert await found("all", maxNum="2") == [b"1", b"2"]
        assert await found("U1", _UNIQUE_KEY_QUERY="true") == [b"1"]
        assert await found("nothing") == []
        offset = int(sent.ext_fields["msgId"][16:], 16)
        answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
        assert [record.body for record in decode_records(answer.body)] == [b"2"]
        missing = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "999999"})
        assert (missing.code, missing.remark) == (1, "can not find message by the offset, 999999")


async def test_it_answers_with_the_newest_messages_that_fit_one_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerd.processor.query_message.ANSWER_BYTES_MAX", 5_000)
    async with running(tmp_path) as broker:
        client = await broker.client()
        for i in range(4):
            body = str(i).encode() * 2_000
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T", properties="KEYS\x01k\x02"), body)
        query = {"topic": "T", "key": "k", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**60)}
        answer = await client.ask(RequestCode.QUERY_MESSAGE, query)
        assert [record.body[:1] for record in decode_records(answer.body)] == [b"2", b"3"]


async def test_it_looks_up_a_key_of_very_many_messages_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerd.processor.query_message.VISITS_AT_ONCE", 3)
    async with running(tmp_path) as broker:
        client = await broker.client()
        for i in range(5):
            body = str(i).encode()
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T", properties="KEYS\x01k\x02"), body)
        query = {"topic": "T", "key": "k", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**60)}
        threads = set()
        look_up = broker.broker.store.query_by_key

        def noted(*arguments: object, **options: object) -> object:
            threads.add(threading.current_thread())
            return look_up(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(type(broker.broker.store), "query_by_key", lambda _, *a, **o: noted(*a, **o))
        answers = await asyncio.gather(*(client.ask(RequestCode.QUERY_MESSAGE, query) for _ in range(8)))
        assert [[record.body for record in decode_records(answer.body)] for answer in answers] == [
            [b"0", b"1", b"2", b"3", b"4"]
        ] * 8
        assert len(threads - {threading.main_thread()}) >= 1
        assert broker.broker.long_lookups == 0
        broker.broker.long_lookups = 8
        busy = await client.ask(RequestCode.QUERY_MESSAGE, query)
        assert (busy.code, "[OVERLOAD]" in (busy.remark or "")) == (2, True)
        broker.broker.long_lookups = 0
        none = await client.ask(RequestCode.QUERY_MESSAGE, {**query, "endTimestamp": "5"})
        assert none.code == 22
