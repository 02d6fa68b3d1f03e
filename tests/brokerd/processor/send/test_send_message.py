"""Sends over a real socket: every check with its code, creation of topics, batches, retry topics, delays."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.processor.send.send_message import read_batch
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.errors import MQBrokerError
from brokerd.remoting.message.batch import encode_batch
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.record import MessageRecord, decode_records
from tests.brokerd.running import RawClient, RunningBroker, pull_fields, running, send_fields

V2 = RequestCode.SEND_MESSAGE_V2


async def stored(client: RawClient, topic: str, queue_id: int = 0, offset: int = 0) -> list[MessageRecord]:
    answer = await client.ask(
        RequestCode.PULL_MESSAGE, pull_fields("reader", topic, offset, queue_id=queue_id)
    )
    return decode_records(answer.body)


async def create(client: RawClient, topic: str, queues: int = 1, **fields: str) -> None:
    answer = await client.ask(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "order": "false",
            **fields,
        },
    )
    assert answer.code == 0, answer.remark


@pytest.mark.parametrize(
    ("fields", "body", "code", "says"),
    [
        ({"b": "bad topic!"}, b"x", 29, "bad topic!"),
        ({"b": "t" * 128}, b"x", 29, "128 characters"),
        (
            {"b": "SCHEDULE_TOPIC_XXXX"},
            b"x",
            16,
            "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.",
        ),
        ({"b": "New", "c": "NoTemplate"}, b"x", 17, "topic[New] not exist, apply first please!"),
        ({"e": "9"}, b"x", 29, "request queueId[9] is illegal"),
        ({}, b"x" * 4_194_305, 13, "4194305 bytes"),
        ({"i": "k\x01" + "v" * 32_768}, b"x", 13, "properties"),
        ({"f": "4"}, b"x", 13, "TRAN_MSG"),
        ({"i": "TIMER_DELAY_SEC\x01259201\x02"}, b"x", 13, "max delay 259200000ms"),
    ],
)
async def test_it_refuses_with_the_references_code(
    tmp_path: Path, fields: dict[str, str], body: bytes, code: int, says: str
) -> None:
    async with running(tmp_path, mappedFileSizeCommitLog="16777216") as broker:
        client = await broker.client()
        await create(client, "T", 4)
        answer = await client.ask(V2, send_fields("T", **fields), body)
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer.remark
        assert answer.ext_fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        assert broker.broker.store.commit_log_max_offset == 0


async def test_it_names_a_field_that_is_no_number(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(V2, send_fields("T", e="many"), b"x")
        assert (answer.code, answer.remark) == (
            1,
            "request 310: header field e: takes a whole number, not 'many'",
        )


async def test_it_creates_topics_from_the_template(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await client.ask(V2, send_fields("Four"), b"x")
        await client.ask(V2, send_fields("Many", d="100"), b"x")
        topics = broker.broker.topics
        assert [topics.topics[t].write_queue_nums for t in ("Four", "Many")] == [4, 8]
        assert topics.topics["Four"].perm == 6


async def test_it_creates_no_topic_when_that_is_off(tmp_path: Path) -> None:
    async with running(tmp_path, autoCreateTopicEnable="false") as broker:
        client = await broker.client()
        assert (await client.ask(V2, send_fields("T"), b"x")).code == 17


async def test_it_chooses_a_queue_when_the_producer_leaves_it_open(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answers = [await client.ask(V2, send_fields("T", queue_id=-1), b"x") for _ in range(40)]
        assert {answer.ext_fields["queueId"] for answer in answers} == {"0", "1", "2", "3"}


async def test_it_adds_its_properties_and_a_unique_key(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        sent = await client.ask(V2, send_fields("T", properties="a\x01b\x02POP_CK\x01x"), b"x")
        await client.ask(V2, send_fields("T"), b"y")
        first, second = await stored(client, "T")
        assert first.properties.keys() == {"a", "UNIQ_KEY", "MSG_REGION", "TRACE_ON", "CLUSTER"}
        assert first.properties["UNIQ_KEY"] == sent.ext_fields["transactionId"]
        assert len(first.properties["UNIQ_KEY"]) == 32
        assert second.properties.keys() == {"UNIQ_KEY", "MSG_REGION", "TRACE_ON", "CLUSTER"}
        assert (first.born_timestamp_ms, first.store_host[1]) == (1700000000000, broker.broker.store_host[1])


async def test_it_stores_a_batch_as_single_messages(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        batch = [Message("T", str(i).encode(), {"UNIQ_KEY": f"K{i}", "TAGS": "t"}) for i in range(3)]
        fields = send_fields("T", m="true", properties="UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02")
        sent = await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch(batch))
        records = await stored(client, "T")
        assert [r.body for r in records] == [b"0", b"1", b"2"]
        assert [r.properties["UNIQ_KEY"] for r in records] == ["K0", "K1", "K2"]
        assert sent.ext_fields["msgId"] == ",".join(r.offset_message_id for r in records)
        assert (sent.ext_fields["queueOffset"], sent.ext_fields["transactionId"]) == ("0", "BATCH")
        assert broker.broker.stats.broker_put.value == 3


@pytest.mark.parametrize(
    "body", [b"", b"\x00\x00", encode_batch([Message("T", b"abc", {})])[:-1], b"\x7f" * 40]
)
async def test_it_refuses_a_malformed_batch_whole(tmp_path: Path, body: bytes) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        good = encode_batch([Message("T", b"abc", {})])
        answer = await client.ask(
            RequestCode.SEND_BATCH_MESSAGE, send_fields("T", m="true"), good + body if body else b""
        )
        assert answer.code == 13
        assert broker.broker.store.commit_log_max_offset == 0


def test_it_reads_batches_with_and_without_a_last_separator() -> None:
    body = encode_batch([Message("T", b"abc", {"a": "b"})])
    assert read_batch(body, "C\x01d\x02") == [(b"abc", b"a\x01b\x02C\x01d\x02", 0)]
    with pytest.raises(MQBrokerError, match="the batch is empty"):
        read_batch(b"", "")


async def test_it_parks_a_delayed_message(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        sent = await client.ask(
            V2, send_fields("T", queue_id=2, properties="DELAY\x013\x02TAGS\x01a\x02"), b"x"
        )
        assert sent.code == 0
        (record,) = await stored(client, "SCHEDULE_TOPIC_XXXX", queue_id=2)
        assert (record.properties["REAL_TOPIC"], record.properties["REAL_QID"]) == ("T", "2")
        capped = await client.ask(V2, send_fields("T", properties="DELAY\x0199\x02"), b"x")
        assert capped.code == 0
        assert len(await stored(client, "SCHEDULE_TOPIC_XXXX", queue_id=17)) == 1


async def test_it_diverts_a_retry_that_was_tried_too_often(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.consumer("c", "g", "T")
        sent = await client.ask(V2, send_fields("%RETRY%g", j="3", l="3"), b"again")
        assert sent.code == 0
        assert [r.body for r in await stored(client, "%RETRY%g")] == [b"again"]
        await client.ask(V2, send_fields("%RETRY%g", j="4", l="3"), b"dead")
        (dead,) = await stored(client, "%DLQ%g")
        assert (dead.body, dead.reconsume_times, dead.queue_id) == (b"dead", 4, 0)


async def test_it_diverts_a_retry_of_an_orderly_group(tmp_path: Path) -> None:
    from brokerd.remoting.message.queue import MessageQueue

    async with running(tmp_path) as broker:
        client = await broker.consumer("c", "g", "T")
        now_ms = broker.controller.broker.stats.boot_timestamp_ms
        broker.broker.locks.lock("g", [MessageQueue("T", "broker-a", 0)], "c", now_ms + 60_000)
        await client.ask(V2, send_fields("%RETRY%g", j="1", l="16"), b"dead")
        assert [r.body for r in await stored(client, "%DLQ%g")] == [b"dead"]


async def test_it_refuses_batches_to_retry_topics(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.consumer("c", "g", "T")
        body = encode_batch([Message("T", b"abc", {})])
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("%RETRY%g", m="true"), body)
        assert answer.code == 13


async def test_it_answers_14_while_the_disk_is_full(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await client.ask(V2, send_fields("T"), b"x")
        broker.broker.store.note_disk_use(0.95)
        answer = await client.ask(V2, send_fields("T"), b"x")
        assert (answer.code, "disk is fuller than 90 %" in (answer.remark or "")) == (14, True)
        broker.broker.store.note_disk_use(0.5)
        assert (await client.ask(V2, send_fields("T"), b"x")).code == 0


async def send_both_ways(broker: RunningBroker, **fields: str) -> tuple[MessageRecord, MessageRecord]:
    """The same send as V1 and as V2 header."""
    client = await broker.client()
    names = {
        "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
        "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode",
    }  # fmt: skip
    short = send_fields("T", properties="UNIQ_KEY\x01K\x02KEYS\x01k1 k2\x02", h="5", **fields)
    await client.ask(V2, short, b"body")
    await client.ask(RequestCode.SEND_MESSAGE, {names[k]: v for k, v in short.items()}, b"body")
    first, second = await stored(client, "T")
    return first, second


async def test_it_takes_long_and_short_names_alike(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        first, second = await send_both_ways(broker)
        assert first.properties == second.properties
        assert (first.flag, first.body, first.born_timestamp_ms) == (second.flag, second.body, 1700000000000)


@pytest.mark.parametrize("binary", [False, True])
async def test_it_needs_a_template_only_for_a_new_topic(tmp_path: Path, binary: bool) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await create(client, "T")
        fields = {k: v for k, v in send_fields("T").items() if k not in ("c", "d")}
        assert (await client.ask(V2, fields, b"x", binary=binary)).code == 0
        missing = await client.ask(V2, {**fields, "b": "New"}, b"x", binary=binary)
        assert (missing.code, broker.broker.topics.get("New")) == (17, None)
        assert [r.body for r in await stored(client, "T")] == [b"x"]


async def test_it_holds_answers_until_flushed_with_sync_flush(tmp_path: Path) -> None:
    async with running(tmp_path, flushDiskType="SYNC_FLUSH") as broker:
        client = await broker.client()
        for i in range(5):
            sent = await client.ask(V2, send_fields("T"), str(i).encode())
            assert sent.code == 0
            store = broker.broker.store
            assert store.flushed_offset == store.commit_log_max_offset > 0
        assert [r.body for r in await stored(client, "T")] == [b"0", b"1", b"2", b"3", b"4"]


async def test_it_takes_a_delay_level_of_thousands_of_digits_for_the_longest(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(V2, send_fields("T", properties="DELAY\x01" + "9" * 5000 + "\x02"), b"x")
        assert answer.code == 0
        assert broker.broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 17) == 1
