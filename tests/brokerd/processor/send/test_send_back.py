"""36 and delays: a failed message waits its level, comes back, and ends in the dead-letter topic."""

from __future__ import annotations

import asyncio
from pathlib import Path

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import MessageRecord, decode_records
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.running import RawClient, pull_fields, running

BACK = RequestCode.CONSUMER_SEND_MSG_BACK


async def next_retry(client: RawClient, offset: int) -> MessageRecord:
    """The next message of the group's retry topic, as a held pull gets it."""
    fields = pull_fields("g", "%RETRY%g", offset, flags=6, suspendTimeoutMillis="4000")
    answer = await client.ask(RequestCode.PULL_MESSAGE, fields)
    assert answer.code == 0, answer.remark
    return decode_records(answer.body)[0]


def back_fields(offset: int, **fields: str) -> dict[str, str]:
    return {
        "offset": str(offset),
        "group": "g",
        "delayLevel": "1",
        "originMsgId": "ORIGIN",
        "maxReconsumeTimes": "2",
        **fields,
    }


async def test_it_redelivers_after_the_level_and_then_keeps_as_dead_letter(tmp_path: Path) -> None:
    async with running(tmp_path, messageDelayLevel="1s") as broker:
        client = await filled(broker, "a")
        consumer = await broker.consumer("c", "g", "T")
        offset = 0
        for times in (1, 2):
            assert (await client.ask(BACK, back_fields(offset))).code == 0
            record = await next_retry(consumer, times - 1)
            assert (record.reconsume_times, record.body) == (times, b"0")
            assert record.properties["RETRY_TOPIC"] == "T"
            assert record.properties["ORIGIN_MESSAGE_ID"] == "ORIGIN"
            offset = record.commit_log_offset
        assert (await client.ask(BACK, back_fields(offset))).code == 0
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("dlq", "%DLQ%g", 0))
        (dead,) = decode_records(answer.body)
        assert (dead.reconsume_times, dead.body, dead.properties["DELAY"]) == (3, b"0", "0")
        assert broker.broker.topics.topics["%DLQ%g"].perm == 6


async def test_it_sends_to_dead_letters_at_once_when_told(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        assert (await client.ask(BACK, back_fields(0, delayLevel="-1"))).code == 0
        assert broker.broker.store.max_offset("%DLQ%g", 0) == 1


async def test_it_chooses_the_level_by_the_number_of_tries(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        assert (await client.ask(BACK, back_fields(0, delayLevel="0"))).code == 0
        assert broker.broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1


async def test_it_refuses_an_offset_where_no_message_is(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        for offset in (99_999, 7, -1):
            answer = await client.ask(BACK, back_fields(offset))
            assert (answer.code, answer.remark) == (1, f"look message by offset failed, {offset}")


async def test_it_delivers_what_became_due_while_it_was_down(tmp_path: Path) -> None:
    async with running(tmp_path, messageDelayLevel="1s") as broker:
        client = await filled(broker, "a")
        await client.ask(BACK, back_fields(0))
    await asyncio.sleep(1.0)
    async with running(tmp_path, messageDelayLevel="1s") as broker:
        consumer = await broker.consumer("c", "g", "T")
        assert (await next_retry(consumer, 0)).body == b"0"
    # Delivered once: its progress is saved.
    async with running(tmp_path, messageDelayLevel="1s") as broker:
        await asyncio.sleep(0.3)
        assert broker.broker.store.max_offset("%RETRY%g", 0) == 1
        assert broker.broker.schedule.offsets == {1: 1}
