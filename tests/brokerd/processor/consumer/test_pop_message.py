"""POP over a socket: what is popped is invisible until it is acknowledged or its time is over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brokerd.pop import revive_state
from brokerd.remoting.codes import RequestCode
from tests.brokerd.popping import ack, messages_of, pop, pop_fields
from tests.brokerd.processor.send.test_send_message import create
from tests.brokerd.running import RawClient, running, send_fields

V2 = RequestCode.SEND_MESSAGE_V2
POP = RequestCode.POP_MESSAGE


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revive_state, "GRACE_MS", 0)


async def send(
    client: RawClient, topic: str, *bodies: bytes, queue_id: int = 0, properties: str = ""
) -> None:
    for body in bodies:
        answer = await client.ask(V2, send_fields(topic, queue_id=queue_id, properties=properties), body)
        assert answer.code == 0, answer.remark


async def test_a_message_is_popped_once_and_acknowledged(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 2)
        await send(client, "T", b"a", b"b")
        await send(client, "T", b"c", queue_id=1)
        popped = await pop(client, "g", "T")
        assert sorted(message.body for message in popped) == [b"a", b"b", b"c"]
        assert await pop(client, "g", "T") == []
        assert await pop(client, "other", "T", maxMsgNums="2") != []
        await ack(client, "g", *popped)
        assert {(queue.group, count) for queue, count in broker.broker.pops.in_flight.items()} <= {
            ("other", 2),
            ("other", 1),
        }


async def test_what_is_not_acknowledged_comes_back_by_the_retry_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 1)
        await send(client, "T", b"a", b"b", properties="TAGS\x01red\x02k\x01v\x02")
        first = await pop(client, "g", "T", invisibleTime="100")
        await ack(client, "g", first[0])
        again = await pop(client, "g", "T", pollTime="10000", exp="red")
        assert [(m.body, m.record.reconsume_times, m.record.topic) for m in again] == [(b"b", 1, "T")]
        assert again[0].handle.split(" ")[4:7] == ["1", "broker-a", "0"]
        assert again[0].record.properties["k"] == "v"
        assert again[0].record.properties["1ST_POP_TIME"] == first[1].handle.split(" ")[1]
        assert broker.broker.topics.get("%RETRY%g_T") is not None
        await ack(client, "g", *again)
        assert not broker.broker.pops.in_flight


async def test_a_held_pop_is_answered_by_an_arrival(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client, producer = await broker.client(), await broker.client()
        await create(client, "T", 4)
        held = asyncio.create_task(client.ask(POP, pop_fields("g", "T", pollTime="20000")))
        while not broker.broker.pops.polls.count:
            await asyncio.sleep(0.01)
        await send(producer, "T", b"x", queue_id=3)
        answer = await held
        assert [message.body for message in messages_of(answer)] == [b"x"]
        assert broker.broker.pops.polls.count == 0


async def test_a_held_pop_ends_with_polling_timeout(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 1)
        answer = await client.ask(POP, pop_fields("g", "T", pollTime="200"))
        assert (answer.code, answer.remark) == (210, "NO_MESSAGE_IN_QUEUE")
        assert answer.ext_fields["invisibleTime"] == "60000"
        assert answer.ext_fields["msgOffsetInfo"] == answer.ext_fields["startOffsetInfo"] == ""
