"""Replies over the wire: what the requester's client and the replier get, and what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokerd.processor.send import reply_message
from brokerd.remoting.body.client import HeartbeatData, ProducerData
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.properties import parse_properties
from brokerd.remoting.message.record import MessageRecord, decode_records
from tests.brokerd.running import RawClient, RunningBroker, pull_fields, running, send_fields

TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY = (
    "MSG_TYPE\x01reply\x02CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01requester@1\x02TTL\x013000\x02"
    "UNIQ_KEY\x01U1\x02"
)
# Field names of SEND_MESSAGE by those of SEND_MESSAGE_V2 (protocol §3.3).
LONG_NAMES = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
    "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode",
}  # fmt: skip


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running(tmp_path) as broker:
        yield broker


async def requester(broker: RunningBroker, client_id: str = "requester@1") -> RawClient:
    """A client that has sent its heartbeat as a producer."""
    client = await broker.client()
    heartbeat = HeartbeatData(client_id=client_id, producer_data_set=[ProducerData(group_name="requesters")])
    assert (await client.ask(RequestCode.HEART_BEAT, body=heartbeat.to_body())).code == 0
    return client


def reply_to(
    client: RawClient, body: bytes = b"pong", properties: str = REPLY, **fields: str
) -> asyncio.Task[RemotingCommand]:
    return asyncio.create_task(
        client.ask(
            RequestCode.SEND_REPLY_MESSAGE_V2, send_fields(TOPIC, properties=properties, **fields), body
        )
    )


async def stored(client: RawClient) -> list[MessageRecord]:
    answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("readers", TOPIC, 0))
    return decode_records(answer.body) if answer.code == 0 else []


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2])
@pytest.mark.parametrize("binary", [False, True])
async def test_a_reply_reaches_its_requester(broker: RunningBroker, code: RequestCode, binary: bool) -> None:
    asking, replying = await requester(broker), await broker.client()
    fields = send_fields(TOPIC, properties=REPLY, f="1", h="7")
    if code == RequestCode.SEND_REPLY_MESSAGE:
        fields = {LONG_NAMES[name]: value for name, value in fields.items()}
    answering = asyncio.create_task(replying.ask(code, fields, b"pong", binary=binary))
    pushed = await asking.pushed()
    assert (pushed.code, pushed.body, pushed.is_oneway) == (326, b"pong", False)
    sent = dict(pushed.ext_fields)
    properties = parse_properties(sent.pop("properties"))
    assert int(properties.pop("PUSH_REPLY_TIME")) == pytest.approx(int(sent.pop("storeTimestamp")), abs=1000)
    assert properties == parse_properties(REPLY)
    host, _, port = sent.pop("bornHost").rpartition(":")
    assert (host, port.isdecimal()) == ("127.0.0.1", True)
    assert sent == {
        "producerGroup": "producers", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
        "queueId": "0", "sysFlag": "1", "bornTimestamp": "1700000000000", "flag": "7", "reconsumeTimes": "0",
        "unitMode": "false", "storeHost": broker.broker.address,
    }  # fmt: skip
    assert not answering.done(), "the answer waits for the requester's client"
    asking.respond(pushed.response(ResponseCode.SUCCESS))
    answer = await answering
    assert (answer.code, answer.remark) == (0, None)
    (record,) = await stored(replying)
    assert (record.body, record.properties["CORRELATION_ID"], record.sys_flag) == (b"pong", "c-1", 1)
    assert "PUSH_REPLY_TIME" not in record.properties
    assert (answer.ext_fields["msgId"], answer.ext_fields["queueOffset"]) == (record.offset_message_id, "0")
    assert (answer.ext_fields["MSG_REGION"], answer.ext_fields["TRACE_ON"]) == ("DefaultRegion", "true")


async def test_nothing_is_stored_when_that_is_switched_off(tmp_path: Path) -> None:
    async with running(tmp_path, storeReplyMessageEnable="false") as broker:
        asking, replying = await requester(broker), await broker.client()
        answering = reply_to(replying)
        asking.respond((await asking.pushed()).response(ResponseCode.SUCCESS))
        answer = await answering
        assert (answer.code, answer.ext_fields["msgId"], answer.ext_fields["queueOffset"]) == (0, "0", "0")
        assert await stored(replying) == []
        gone = await reply_to(replying, properties=REPLY.replace("requester@1", "other"))
        assert (gone.code, "msgId" in gone.ext_fields) == (1, False)


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        (REPLY.replace("requester@1", "gone"), "push reply message fail, channel of <gone> not found."),
        ("MSG_TYPE\x01reply\x02", "reply message properties[REPLY_TO_CLIENT] is null"),
    ],
)
async def test_a_reply_without_requester_is_stored_and_answered_1(
    broker: RunningBroker, properties: str, remark: str
) -> None:
    replying = await broker.client()
    answer = await reply_to(replying, properties=properties)
    assert (answer.code, answer.remark, answer.ext_fields["queueOffset"]) == (1, remark, "0")
    assert [record.body for record in await stored(replying)] == [b"pong"]


async def test_a_requester_that_refuses_leaves_or_is_silent_fails_the_reply(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = (1, "push reply message to requester@1fail.")
    asking, replying = await requester(broker), await broker.client()
    answering = reply_to(replying)
    asking.respond((await asking.pushed()).response(ResponseCode.SYSTEM_ERROR, "no"))
    answer = await answering
    assert (answer.code, answer.remark) == failed
    monkeypatch.setattr(reply_message, "PUSH_TIMEOUT_MS", 50)
    answer = await reply_to(replying)
    assert (answer.code, answer.remark) == failed
    monkeypatch.setattr(reply_message, "PUSH_TIMEOUT_MS", 60_000)
    answering = reply_to(replying)
    while len([each for each in asking.received if each.code == 326]) < 3:
        await asking.pushed()
    await asking.close()
    answer = await answering
    assert (answer.code, answer.remark) == failed
    answer = await reply_to(replying)
    assert answer.remark == "push reply message fail, channel of <requester@1> not found."
    assert broker.broker.pushed_reply_bytes == 0


@pytest.mark.parametrize(
    ("fields", "body", "code"),
    [
        ({"b": "SELF_TEST_TOPIC"}, b"pong", ResponseCode.NO_PERMISSION),
        ({"b": "none", "c": ""}, b"pong", ResponseCode.TOPIC_NOT_EXIST),
        ({"e": "9"}, b"pong", ResponseCode.INVALID_PARAMETER),
        ({}, b"x" * 1025, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_what_is_refused_is_neither_stored_nor_pushed(
    tmp_path: Path, fields: dict[str, str], body: bytes, code: int
) -> None:
    async with running(tmp_path, maxMessageSize="1024") as broker:
        asking, replying = await requester(broker), await broker.client()
        answer = await reply_to(replying, body, **fields)
        assert (answer.code, answer.ext_fields["MSG_REGION"]) == (code, "DefaultRegion")
        assert await stored(replying) == []
        assert all(command.is_response for command in asking.received)


async def test_a_reply_that_cannot_be_stored_is_pushed_still(broker: RunningBroker) -> None:
    asking, replying = await requester(broker), await broker.client()
    answering = reply_to(replying, properties=f"{REPLY}TIMER_DELAY_SEC\x01soon\x02")
    asking.respond((await asking.pushed()).response(ResponseCode.SUCCESS))
    answer = await answering
    assert (answer.code, answer.ext_fields["msgId"]) == (0, "0")
    assert await stored(replying) == []


async def test_replies_that_wait_for_requesters_are_limited(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_message, "PUSHED_BYTES_MAX", 4096)
    asking, replying = await requester(broker), await broker.client()
    first = reply_to(replying)
    pushed = await asking.pushed()
    refused = await reply_to(replying)
    assert (refused.code, "[OVERLOAD]system busy" in (refused.remark or "")) == (2, True)
    asking.respond(pushed.response(ResponseCode.SUCCESS))
    assert (await first).code == 0
    third = reply_to(replying)
    asking.respond((await asking.pushed()).response(ResponseCode.SUCCESS))
    assert (await third).code == 0
