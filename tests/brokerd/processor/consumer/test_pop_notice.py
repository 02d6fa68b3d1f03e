"""What a pop would find, asked without taking anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

from brokerd.clock import wall_ms
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import decode_records
from tests.brokerd.popping import pop, pop_fields
from tests.brokerd.processor.consumer.test_pop_message import send
from tests.brokerd.processor.send.test_send_message import create
from tests.brokerd.running import running

NOTIFICATION, POLLING_INFO, PEEK = (
    RequestCode.NOTIFICATION,
    RequestCode.POLLING_INFO,
    RequestCode.PEEK_MESSAGE,
)


def fields(poll_ms: int = 0, **others: str) -> dict[str, str]:
    return {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "-1",
        "pollTime": str(poll_ms),
        "bornTime": str(wall_ms()),
        **others,
    }


async def test_a_notification_waits_for_a_message(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client, producer = await broker.client(), await broker.client()
        await create(client, "T", 2)
        answer = await client.ask(NOTIFICATION, fields())
        assert answer.ext_fields == {"hasMsg": "false", "pollingFull": "false"}
        held = asyncio.create_task(client.ask(NOTIFICATION, fields(20_000)))
        while not broker.broker.pops.notifications.count:
            await asyncio.sleep(0.01)
        await send(producer, "T", b"a", queue_id=1)
        assert (await held).ext_fields["hasMsg"] == "true"
        assert (await client.ask(NOTIFICATION, fields())).ext_fields["hasMsg"] == "true"
        assert len(await pop(client, "g", "T")) == 1
        assert (await client.ask(NOTIFICATION, fields(100))).ext_fields["hasMsg"] == "false"
        assert (await client.ask(NOTIFICATION, fields(topic="Missing"))).code == 17


async def test_polling_info_counts_held_pops_and_messages_in_flight(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client, other = await broker.client(), await broker.client()
        await create(client, "T", 2)
        await send(client, "T", b"a", b"b")
        await pop(client, "g", "T")
        held = asyncio.create_task(other.ask(RequestCode.POP_MESSAGE, pop_fields("g", "T", pollTime="1000")))
        while not broker.broker.pops.polls.count:
            await asyncio.sleep(0.01)
        answer = await client.ask(POLLING_INFO, fields())
        assert answer.ext_fields == {"pollingNum": "1", "inFlight": "2"}
        answer = await client.ask(POLLING_INFO, fields(queueId="1"))
        assert answer.ext_fields == {"pollingNum": "0", "inFlight": "0"}
        assert (await held).code == 210


async def test_a_peek_takes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T", 1)
        request = {"consumerGroup": "g", "topic": "T", "queueId": "0", "maxMsgNums": "2"}
        answer = await client.ask(PEEK, request)
        assert (answer.code, answer.remark) == (19, "NO_MESSAGE_IN_QUEUE")
        await send(client, "T", b"a", b"b", b"c")
        for _ in range(2):
            answer = await client.ask(PEEK, request)
            assert [record.body for record in decode_records(answer.body)] == [b"a", b"b"]
            assert answer.ext_fields == {
                "popTime": "0",
                "invisibleTime": "0",
                "reviveQid": "0",
                "restNum": "3",
            }
        assert (await client.ask(PEEK, {**request, "maxMsgNums": "33"})).code == 29
