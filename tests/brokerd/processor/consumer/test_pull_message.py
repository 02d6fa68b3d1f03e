"""Pulls over a real socket: the checks in order, statuses and codes, filters, long polling, piggyback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brokerd.processor.consumer import pull_message
from brokerd.processor.consumer.pull_message import codes_of_expression
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError
from brokerd.remoting.message.java_hash import tag_code
from brokerd.remoting.message.record import decode_records
from tests.brokerd.processor.send.test_send_message import create
from tests.brokerd.running import RawClient, RunningBroker, heartbeat, pull_fields, running, send_fields

PULL = RequestCode.PULL_MESSAGE
RESPONSE_FIELDS = {
    "suggestWhichBrokerId",
    "nextBeginOffset",
    "minOffset",
    "maxOffset",
    "topicSysFlag",
    "groupSysFlag",
}


async def filled(broker: RunningBroker, *tags: str) -> RawClient:
    """Topic T with one queue and a message per tag."""
    client = await broker.client()
    await create(client, "T")
    for i, tag in enumerate(tags):
        properties = f"TAGS\x01{tag}\x02" if tag else ""
        await client.ask(
            RequestCode.SEND_MESSAGE_V2, send_fields("T", properties=properties), str(i).encode()
        )
    return client


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [record.body for record in decode_records(answer.body)]


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"topic": "Missing"}, 17, "topic[Missing] not exist"),
        ({"queueId": "7"}, 29, "queueId[7] is illegal"),
        ({"queueId": "-1"}, 29, "queueId[-1] is illegal"),
        ({"topic": "WriteOnly"}, 16, "the topic[WriteOnly] pulling message is forbidden"),
        ({"consumerGroup": "closed"}, 16, "subscription group no permission, closed"),
        ({"sysFlag": "0"}, 24, "the consumer's group info not exist"),
        ({"expressionType": "SQL92", "subscription": "a > 1"}, 1, "filter message by SQL92"),
        ({"subscription": "||"}, 23, "parse the consumer's subscription failed"),
        ({"consumerGroup": "bad group!"}, 26, "subscription group [bad group!] does not exist"),
    ],
)
async def test_it_refuses_with_the_references_code(
    tmp_path: Path, fields: dict[str, str], code: int, says: str
) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        await create(client, "WriteOnly", perm="2")
        await client.ask(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            body=b'{"groupName":"closed","consumeEnable":false}',
        )
        answer = await client.ask(PULL, {**pull_fields("g", "T", 0), **fields})
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer.remark


@pytest.mark.parametrize(
    ("offset", "code", "remark", "next_offset"),
    [
        (-1, 21, "OFFSET_TOO_SMALL", "0"),
        (0, 0, "FOUND", "3"),
        (3, 19, "OFFSET_OVERFLOW_ONE", "3"),
        (9, 21, "OFFSET_OVERFLOW_BADLY", "3"),
    ],
)
async def test_it_answers_by_the_stores_status(
    tmp_path: Path, offset: int, code: int, remark: str, next_offset: str
) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b", "c")
        answer = await client.ask(PULL, pull_fields("g", "T", offset))
        assert (answer.code, answer.remark) == (code, remark)
        assert answer.ext_fields.keys() == RESPONSE_FIELDS
        assert answer.ext_fields["nextBeginOffset"] == next_offset
        assert (answer.ext_fields["minOffset"], answer.ext_fields["maxOffset"]) == ("0", "3")


async def test_it_tells_an_empty_queue_by_the_offset(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker)
        assert (await client.ask(PULL, pull_fields("g", "T", 0))).code == 19
        answer = await client.ask(PULL, pull_fields("g", "T", 5))
        assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (21, "0")


async def test_it_filters_by_the_tags_of_the_request(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "red", "green", "", "blue", "green")
        answer = await client.ask(PULL, pull_fields("g", "T", 0, subscription="green || blue"))
        assert (bodies(answer), answer.ext_fields["nextBeginOffset"]) == ([b"1", b"3", b"4"], "5")
        none = await client.ask(PULL, pull_fields("g", "T", 0, subscription="pink"))
        assert (none.code, none.remark, none.ext_fields["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "5")


async def test_it_filters_by_the_tags_of_the_heartbeat(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "red", "green")
        code = str(tag_code("green")).encode()
        body = heartbeat("c", "g", "T", tags="green", version=5).replace(
            b'"codeSet":[]', b'"codeSet":[' + code + b"]"
        )
        assert (await client.ask(RequestCode.HEART_BEAT, body=body)).code == 0
        answer = await client.ask(PULL, pull_fields("g", "T", 0, flags=0, subscription="", subVersion="5"))
        assert bodies(answer) == [b"1"]
        late = await client.ask(PULL, pull_fields("g", "T", 0, flags=0, subVersion="6"))
        assert (late.code, late.remark) == (25, "the consumer's subscription not latest")
        other = await client.ask(PULL, pull_fields("g", "TBW102", 0, flags=0))
        assert (other.code, "subscription not exist" in (other.remark or "")) == (24, True)


async def test_it_asks_a_member_whose_heartbeat_is_behind_to_rebalance_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_message, "NUDGE_EVERY_MS", 3_600_000)  # the three pulls fall into one span
    async with running(tmp_path) as broker:
        await filled(broker, "a")
        member = await broker.consumer("c1", "g", "T")
        await member.pushed()  # it joined
        other = await broker.consumer("c2", "g", "T")
        await other.pushed()
        await member.pushed()
        for _ in range(3):
            late = await member.ask(PULL, pull_fields("g", "T", 0, flags=0, subVersion="6"))
            assert late.code == 25
        assert (await member.pushed()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        pushes = [command for command in member.received if not command.is_response]
        assert len(pushes) == 3  # of the three late pulls only the first
        assert len([command for command in other.received if not command.is_response]) == 1


async def test_it_commits_the_offset_a_pull_brings(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        await client.ask(PULL, pull_fields("g", "T", 1, flags=5, commitOffset="1"))
        assert broker.broker.offsets.committed("g", "T", 0) == 1
        assert broker.broker.offsets.pulled("g", "T", 0) == 1


async def test_it_wakes_only_pulls_whose_tags_match(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        waiting = asyncio.create_task(
            client.ask(PULL, pull_fields("g", "T", 1, flags=6, subscription="green"))
        )
        producer = await broker.client()
        for tag in ("red", "green"):
            await asyncio.sleep(0.05)
            assert not waiting.done()
            fields = send_fields("T", properties=f"TAGS\x01{tag}\x02")
            await producer.ask(RequestCode.SEND_MESSAGE_V2, fields, tag.encode())
        assert bodies(await waiting) == [b"green"]


async def test_it_wakes_a_pull_that_waits_for_a_topics_first_message(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker)
        waiting = asyncio.create_task(client.ask(PULL, pull_fields("g", "T", 0, flags=6)))
        await asyncio.sleep(0.05)
        producer = await broker.client()
        await producer.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"first")
        assert bodies(await waiting) == [b"first"]


async def test_it_serves_lite_pulls_the_same_way(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        answer = await client.ask(RequestCode.LITE_PULL_MESSAGE, pull_fields("g", "T", 0, flags=20))
        assert bodies(answer) == [b"0"]


async def test_it_does_not_hold_longer_than_a_second_without_long_polling(tmp_path: Path) -> None:
    async with running(tmp_path, longPollingEnable="false", shortPollingTimeMills="100") as broker:
        client = await filled(broker, "a")
        assert (await client.ask(PULL, pull_fields("g", "T", 1, flags=6))).code == 19


def test_it_reads_tag_expressions() -> None:
    assert codes_of_expression("*") is None
    assert codes_of_expression("") is None
    assert codes_of_expression(" TagA ||b|| ") == frozenset({2598919, 98})
    with pytest.raises(MQBrokerError):
        codes_of_expression(" || ")


async def test_a_connection_with_too_many_waiting_pulls_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerd.clients.pull_request_hold.HELD_A_CONNECTION_MAX", 2)
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        for _ in range(2):
            client.send(RemotingCommand.request(11, pull_fields("g", "T", 1, flags=6)))
        answer = await client.ask(11, pull_fields("g", "T", 1, flags=6))
        assert (answer.code, (answer.remark or "")[:33]) == (2, "too many pulls wait for messages:")
        assert (await client.ask(11, pull_fields("g", "T", 0, flags=6))).code == 0


async def test_a_slave_is_suggested_for_messages_that_left_the_memory(tmp_path: Path) -> None:
    async with running(tmp_path, accessMessageInMemoryMaxRatio="0") as broker:
        client = await filled(broker, "a", "b")

        async def suggested() -> str:
            answer = await client.ask(PULL, pull_fields("g", "T", 0, maxMsgNums="1"))
            return answer.ext_fields["suggestWhichBrokerId"]

        assert await suggested() == "0"
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"slaveReadEnable=true")
        assert await suggested() == "1"
        in_memory = b"accessMessageInMemoryMaxRatio=40"
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=in_memory)
        assert await suggested() == "0"
