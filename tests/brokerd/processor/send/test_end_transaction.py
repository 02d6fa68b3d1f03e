"""Transactions over the wire: what clients see of half messages, ends and checks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokerd.clock import wall_ms
from brokerd.remoting.body.client import HeartbeatData, ProducerData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand, decode_frame
from brokerd.remoting.message.names import CHECK_MAX_TIME_TOPIC
from brokerd.remoting.message.record import MessageRecord, decode_records
from tests.brokerd.fakes import MemoryChannel
from tests.brokerd.running import RawClient, RunningBroker, pull_fields, running, send_fields

COMMIT, ROLLBACK, UNKNOWN = "8", "12", "0"
HALF = "PGROUP\x01producers\x02TRAN_MSG\x01true\x02TAGS\x01red\x02UNIQ_KEY\x01U1\x02"
QUICK = {"transactionTimeOut": "100", "transactionCheckInterval": "500", "transactionCheckMax": "2"}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running(tmp_path) as broker:
        yield broker


async def send_half(client: RawClient, topic: str = "Paid", **fields: str) -> RemotingCommand:
    return await client.ask(
        RequestCode.SEND_MESSAGE_V2,
        send_fields(topic, queue_id=2, properties=HALF, f="4", g=str(wall_ms()), **fields),
        b"payload",
    )


def end_fields(sent: RemotingCommand, decision: str, **fields: str) -> dict[str, str]:
    return {
        "producerGroup": "producers",
        "tranStateTableOffset": sent.ext_fields["queueOffset"],
        "commitLogOffset": str(int(sent.ext_fields["msgId"][-16:], 16)),
        "commitOrRollback": decision,
        "fromTransactionCheck": "false",
        "msgId": "U1",
        **fields,
    }


async def end(client: RawClient, sent: RemotingCommand, decision: str, **fields: str) -> RemotingCommand:
    return await client.ask(RequestCode.END_TRANSACTION, end_fields(sent, decision, **fields))


async def pulled(client: RawClient, topic: str = "Paid", queue_id: int = 2) -> list[MessageRecord]:
    answer = await client.ask(
        RequestCode.PULL_MESSAGE, pull_fields("readers", topic, 0, queue_id=queue_id, sysFlag="4")
    )
    return decode_records(answer.body) if answer.code == 0 else []


async def test_a_half_message_is_seen_when_it_is_committed(broker: RunningBroker) -> None:
    client = await broker.client()
    sent = await send_half(client)
    assert (sent.code, sent.ext_fields["queueId"], sent.ext_fields["queueOffset"]) == (0, "2", "0")
    assert sent.ext_fields["transactionId"] == "U1"
    assert await pulled(client) == []
    assert (await end(client, sent, COMMIT)).code == 0
    (message,) = await pulled(client)
    assert (message.body, message.tags, message.sys_flag & 0xC, message.queue_id) == (b"payload", "red", 8, 2)
    assert message.properties["__transactionId__"] == "U1"
    assert (await end(client, sent, COMMIT)).code == 1
    assert len(await pulled(client)) == 1


async def test_what_follows_an_end_in_one_read_sees_its_message(broker: RunningBroker) -> None:
    client = await broker.client()
    sent = await send_half(client)
    broker.broker.store.table.makes_files_in_thread = False
    limits = {"topic": "Paid", "queueId": "2"}
    requests = [
        RemotingCommand.request(RequestCode.END_TRANSACTION, end_fields(sent, COMMIT)),
        RemotingCommand.request(RequestCode.GET_MAX_OFFSET, limits),
    ]
    channel = MemoryChannel()
    _, replies = broker.controller._dispatcher.process(b"".join(each.encode() for each in requests), channel)
    ended, end_of_queue = (decode_frame(reply[4:]) for reply in replies)
    assert (ended.code, end_of_queue.ext_fields["offset"]) == (0, "1")


async def test_a_rolled_back_one_is_never_seen(broker: RunningBroker) -> None:
    client = await broker.client()
    sent = await send_half(client)
    assert (await end(client, sent, ROLLBACK)).code == 0
    assert (await end(client, sent, COMMIT)).code == 1
    assert await pulled(client) == []


async def test_an_unknown_state_is_not_answered(broker: RunningBroker) -> None:
    client = await broker.client()
    sent = await send_half(client)
    client.send(RemotingCommand.request(RequestCode.END_TRANSACTION, end_fields(sent, UNKNOWN)))
    assert (await end(client, sent, COMMIT)).code == 0
    assert [command.opaque for command in client.received] == [1, 3]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"producerGroup": "others"}, "The producer group wrong"),
        ({"tranStateTableOffset": "7"}, "The transaction state table offset wrong"),
        ({"commitLogOffset": "99999999"}, "Find prepared transaction message failed"),
        ({"commitOrRollback": "5"}, "takes 0, 8 or 12"),
    ],
)
async def test_it_refuses_what_does_not_fit_the_half_message(
    broker: RunningBroker, fields: dict[str, str], says: str
) -> None:
    client = await broker.client()
    sent = await send_half(client)
    answer = await end(client, sent, **{"decision": COMMIT} | fields)
    assert answer.code == 1
    assert says in (answer.remark or "")
    assert await pulled(client) == []


async def test_it_refuses_half_messages_when_it_is_set_to(tmp_path: Path) -> None:
    async with running(tmp_path, rejectTransactionMessage="true") as broker:
        answer = await send_half(await broker.client())
        assert (answer.code, "sending transaction message is forbidden" in (answer.remark or "")) == (
            16,
            True,
        )


async def test_one_that_is_sent_back_is_no_transaction(broker: RunningBroker) -> None:
    """Clients before 4.6.1 leave the property in what they send to a retry topic."""
    client = await broker.client()
    properties = f"{HALF}DELAY\x011\x02"
    answer = await client.ask(
        RequestCode.SEND_MESSAGE_V2, send_fields("Plain", properties=properties, f="4", j="1"), b"again"
    )
    assert answer.code == 0
    (waiting,) = await pulled(client, "SCHEDULE_TOPIC_XXXX", 0)
    assert waiting.sys_flag & 0xC == 0


async def test_it_asks_producers_and_gives_up(tmp_path: Path) -> None:
    async with running(tmp_path, **QUICK) as broker:
        client = await broker.client()
        heartbeat = HeartbeatData(client_id="c1", producer_data_set=[ProducerData(group_name="producers")])
        assert (await client.ask(RequestCode.HEART_BEAT, body=heartbeat.to_body())).code == 0
        await send_half(client)
        checks = [await client.pushed() for _ in range(2)]
        assert [check.code for check in checks] == [RequestCode.CHECK_TRANSACTION_STATE] * 2
        assert [decode_records(check.body)[0].topic for check in checks] == ["Paid", "Paid"]
        store = broker.broker.store
        while not store.max_offset(CHECK_MAX_TIME_TOPIC, 0):
            await client.ask(RequestCode.GET_BROKER_CONFIG)
        (given_up,) = await pulled(client, CHECK_MAX_TIME_TOPIC, 0)
        fields = {"msgId": given_up.offset_message_id}
        assert (await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, fields)).code == 0
        again = await client.pushed()
        fields = {
            "producerGroup": "producers",
            "tranStateTableOffset": again.ext_fields["tranStateTableOffset"],
            "commitLogOffset": again.ext_fields["commitLogOffset"],
            "commitOrRollback": COMMIT,
            "fromTransactionCheck": "true",
        }
        assert (await client.ask(RequestCode.END_TRANSACTION, fields)).code == 0
        (message,) = await pulled(client)
        assert message.body == b"payload"


@pytest.mark.parametrize("message_id", ["x", "7F00000100007CA70000000000000000"])
async def test_it_resumes_only_half_messages(broker: RunningBroker, message_id: str) -> None:
    client = await broker.client()
    await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Plain"), b"plain")
    answer = await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})
    assert answer.code == 1
    assert len(broker.broker.transactions.waiting) == 0
