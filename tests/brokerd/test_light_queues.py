"""Light queues and inner batches over the wire: what clients see, where they are served and where not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.batch import encode_batch
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.record import MessageRecord, decode_records
from tests.brokerd.popping import pop_fields
from tests.brokerd.processor.send.test_end_transaction import COMMIT, HALF, end
from tests.brokerd.running import RawClient, pull_fields, running, send_fields

ON = {"enableLmq": "true", "enableMultiDispatch": "true", "maxLmqConsumeQueueNum": "20"}
NAMED = "TAGS\x01red\x02INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"
SEND = RequestCode.SEND_MESSAGE_V2


async def send(client: RawClient, properties: str, topic: str = "T", **fields: str) -> RemotingCommand:
    return await client.ask(SEND, send_fields(topic, properties=properties, **fields), b"body")


async def pulled(client: RawClient, topic: str, group: str = "%LMQ%g", **fields: str) -> list[MessageRecord]:
    answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields(group, topic, 0, **fields))
    return decode_records(answer.body) if answer.code == 0 else []


async def range_of(client: RawClient, topic: str) -> tuple[str, str]:
    fields = {"topic": topic, "queueId": "0"}
    low = await client.ask(RequestCode.GET_MIN_OFFSET, fields)
    high = await client.ask(RequestCode.GET_MAX_OFFSET, fields)
    return low.ext_fields["offset"], high.ext_fields["offset"]


async def test_clients_read_light_queues_as_topics_of_one_queue(tmp_path: Path) -> None:
    async with running(tmp_path, **ON) as broker:
        client, waiting = await broker.client(), await broker.client()
        held = asyncio.create_task(pulled(waiting, "%LMQ%a", flags="6"))
        await asyncio.sleep(0.05)
        sent = await send(client, NAMED)
        assert (sent.code, sent.ext_fields["queueOffset"]) == (0, "0")
        await send(client, "TAGS\x01blue\x02INNER_MULTI_DISPATCH\x01%LMQ%a")
        (first,) = await held
        assert (first.topic, first.queue_offset, first.body) == ("T", 0, b"body")
        assert first.properties["INNER_MULTI_QUEUE_OFFSET"] == "0,0"
        assert [record.tags for record in await pulled(client, "%LMQ%a")] == ["red", "blue"]
        assert [record.tags for record in await pulled(client, "%LMQ%a", subscription="blue")] == ["blue"]
        assert [record.queue_offset for record in await pulled(client, "T")] == [0, 1]
        assert [await range_of(client, f"%LMQ%{name}") for name in "abc"] == [
            ("0", "2"), ("0", "1"), ("0", "0"),
        ]  # fmt: skip
        commit = {"consumerGroup": "%LMQ%g", "topic": "%LMQ%a", "queueId": "0", "commitOffset": "2"}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        del commit["commitOffset"]
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, commit)).ext_fields["offset"] == "2"
        config = await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "%LMQ%a"})
        assert config.code == 0 and b'"readQueueNums":1' in config.body
        for lists in (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
            assert b"%LMQ%" not in (await client.ask(lists)).body, "neither has settings"
        assert {"%LMQ%a", "%LMQ%b"} <= set(broker.broker.store.topics())
        assert (await client.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
        assert await range_of(client, "%LMQ%a") == ("0", "2")
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%LMQ%a"})).code == 0
        assert await range_of(client, "%LMQ%a") == ("0", "0")
        assert len(await pulled(client, "T")) == 2


async def test_a_message_that_waits_gets_its_light_queues_when_it_is_delivered(tmp_path: Path) -> None:
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        half = await client.ask(SEND, send_fields("T", properties=HALF + NAMED, f="4"), b"half")
        assert (await send(client, NAMED + "DELAY\x011\x02")).code == 0
        assert await range_of(client, "%LMQ%a") == ("0", "0")
        assert (await end(client, half, COMMIT)).code == 0
        assert await range_of(client, "%LMQ%a") == ("0", "1")
        held = await pulled(client, "%LMQ%a", queueOffset="1", flags="6")
        assert [record.properties["INNER_MULTI_QUEUE_OFFSET"] for record in held] == ["1,1"]


async def test_a_batch_and_a_message_sent_to_a_light_queue_itself_are_there_only(tmp_path: Path) -> None:
    async with running(tmp_path, **ON, compiledSends="true") as broker:
        client = await broker.client()
        properties = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "7"}
        batch = encode_batch([Message("T", b"1", properties), Message("T", b"2", properties)])
        for _ in range(2):  # the first makes the topic
            fields = send_fields("T", m="true")
            assert (await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, batch)).code == 0
        assert len(await pulled(client, "T")) == 4
        assert not any(
            "INNER_MULTI_QUEUE_OFFSET" in record.properties for record in await pulled(client, "T")
        )
        assert await range_of(client, "%LMQ%a") == ("0", "0")
        assert (await send(client, "", topic="%LMQ%a")).code == 0
        assert (await send(client, "", topic="%LMQ%a", e="1")).code != 0
        assert (await send(client, NAMED)).code == 0
        assert [record.topic for record in await pulled(client, "%LMQ%a")] == ["%LMQ%a", "T"]


@pytest.mark.parametrize("more", ["", "DELAY\x011\x02", HALF], ids=["plain", "delayed", "half"])
async def test_what_no_light_queue_can_be_is_refused(tmp_path: Path, more: str) -> None:
    many = ",".join(f"%LMQ%{number}" for number in range(21))
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        for names, code, reason in (
            ("T2", 13, "INNER_MULTI_DISPATCH names 'T2'; light queues begin with %LMQ%"),
            ("%LMQ%a/b", 13, "topic '%LMQ%a/b' cannot be stored"),
            (many, 1, "there are 0 light queues already, maxLmqConsumeQueueNum=20"),
        ):
            answer = await send(client, f"INNER_MULTI_DISPATCH\x01{names}\x02{more}")
            assert (answer.code, reason in (answer.remark or "")) == (code, True), answer


async def test_a_light_queue_is_popped_by_its_own_numbers(tmp_path: Path) -> None:
    async with running(tmp_path, **ON) as broker:
        client = await broker.client()
        for _ in range(3):
            await send(client, "")
        await send(client, NAMED)
        await send(client, NAMED)
        answer = await client.ask(RequestCode.POP_MESSAGE, pop_fields("g", "%LMQ%a"))
        assert (answer.code, answer.ext_fields["msgOffsetInfo"]) == (0, "0 0 0,1")
        assert [record.queue_offset for record in decode_records(answer.body)] == [3, 4]
        assert (await client.ask(RequestCode.POP_MESSAGE, pop_fields("g", "%LMQ%a"))).code != 0


async def test_without_both_settings_the_property_means_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As on Apache, where both are off by default."""
    async with running(tmp_path, enableLmq="true") as broker:
        assert "light queues are off: they take both" in caplog.text
        client = await broker.client()
        assert (await send(client, NAMED.replace("%LMQ%b", "x"))).code == 0
        assert len(await pulled(client, "T", "g")) == 1
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "%LMQ%a", 0))
        assert answer.code == 17
        assert broker.broker.store.topics() == ["T"]


@pytest.mark.parametrize("settings", [{}, {"compiledSends": "true"}], ids=["python", "compiled"])
async def test_messages_kept_as_one_are_refused_and_a_batch_is_not(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    async with running(tmp_path, **settings) as broker:
        client = await broker.client()
        batch = encode_batch([Message("T", b"1", {}), Message("T", b"2", {})])
        for flags, code in (("0", 0), ("128", 13), ("192", 13)):
            for is_batch in (True, False):
                request = RequestCode.SEND_BATCH_MESSAGE if is_batch else SEND
                fields = send_fields("T", m=str(is_batch).lower(), f=flags)
                answer = await client.ask(request, fields, batch)
                assert answer.code == code
                assert code == 0 or "queue.type=BatchCQ, which this broker does not serve" in (
                    answer.remark or ""
                )
        assert len(await pulled(client, "T", "g")) == 3
