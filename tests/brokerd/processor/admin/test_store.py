"""Requests about the files of the store, over a socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokerd.clock import wall_ms
from brokerd.remoting.body.consume_queue import QueryConsumeQueueResponseBody
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.java_hash import tag_code
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.running import running, send_fields

QUEUE = {"topic": "T", "queueId": "0", "index": "1", "count": "2"}
SMALL = {"mappedFileSizeCommitLog": "4096", "mappedFileSizeConsumeQueue": "40"}
DAY_S = 86_400


async def test_it_shows_the_units_of_a_queue_and_a_groups_subscription(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b", "c", "d")
        fields = {"i": "TAGS\x01paid"}
        await client.ask(RequestCode.SEND_MESSAGE_V2, {**send_fields("T"), **fields}, b"x")
        answer = await client.ask(RequestCode.QUERY_CONSUME_QUEUE, QUEUE)
        body = QueryConsumeQueueResponseBody.from_body(answer.body)
        assert (body.min_queue_index, body.max_queue_index, len(body.queue_data)) == (0, 5, 2)
        assert body.queue_data[1].physic_offset == (
            body.queue_data[0].physic_offset + body.queue_data[0].physic_size
        )
        assert b"subscriptionData" not in answer.body
        answer = await client.ask(
            RequestCode.QUERY_CONSUME_QUEUE, {**QUEUE, "index": "4", "count": "1000", "consumerGroup": "g"}
        )
        body = QueryConsumeQueueResponseBody.from_body(answer.body)
        assert [each.tags_code for each in body.queue_data] == [tag_code("paid")]
        assert body.filter_data == "g@T is not online!"
        await broker.consumer("one", "g", "T")
        answer = await client.ask(RequestCode.QUERY_CONSUME_QUEUE, {**QUEUE, "consumerGroup": "g"})
        body = QueryConsumeQueueResponseBody.from_body(answer.body)
        assert body.subscription_data is not None
        assert (body.subscription_data.sub_string, body.filter_data) == ("*", "null")


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"queueId": "7"}, 1, "7@T is not exist!"),
        ({"topic": "Missing"}, 1, "0@Missing is not exist!"),
        ({"index": "90"}, 0, "Index 90 of 0@T is not exist!"),
        ({"count": "0"}, 29, "count 0 is not within 1 and 1000"),
        ({"index": "x"}, 1, "header field index"),
    ],
)
async def test_it_refuses_units_that_are_not_there(
    tmp_path: Path, fields: dict[str, str], code: int, says: str
) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        answer = await client.ask(RequestCode.QUERY_CONSUME_QUEUE, {**QUEUE, **fields})
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer.remark


async def test_it_deletes_expired_files_at_any_hour_and_keeps_numbers(tmp_path: Path) -> None:
    async with running(tmp_path, **SMALL, fileReservedTime="24") as broker:
        client, store = await broker.client(), broker.broker.store
        for _ in range(12):
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), bytes(1000))
        old = [each.path for each in store._log.files.files][:3]
        for path in old:
            os.utime(path, (wall_ms() / 1000 - 2 * DAY_S,) * 2)
        queue = store.table.queues["T", 0]
        files_before = len(queue.files.files)
        assert (await client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == 0
        assert not any(path.exists() for path in old)
        assert store.commit_log_min_offset == 3 * 4096
        assert len(queue.files.files) < files_before
        assert (queue.min_offset, queue.max_offset) == (store.min_offset("T", 0), 12)
        assert queue.min_offset > 0


async def test_it_deletes_files_of_queues_that_point_below_the_log(tmp_path: Path) -> None:
    async with running(tmp_path, **SMALL) as broker:
        client, store = await broker.client(), broker.broker.store
        for _ in range(12):
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), bytes(1000))
        while len(store._log.files.files) > 1:
            store._log.files.delete_first()
        queue = store.table.queues["T", 0]
        assert len(queue.files.files) == 6
        assert (await client.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == 0
        assert len(queue.files.files) < 6
        assert queue.max_offset == 12


async def test_it_forgets_topics_without_settings_and_their_offsets(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        offsets = broker.broker.offsets
        for topic in ("T", "Gone", "rmq_sys_kept"):
            offsets.commit("g", topic, 0, 1, 1)
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Stray"), b"x")
        del broker.broker.topics.topics["Stray"]
        assert (await client.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
        assert offsets.topics_of_group("g") == ["T", "rmq_sys_kept"]
        assert broker.broker.store.queue_counts().keys() >= {"T"}
        assert "Stray" not in broker.broker.store.topics()
        assert not (tmp_path / "consumequeue" / "Stray").exists()
        assert b"Gone" not in (tmp_path / "config" / "consumerOffset.json").read_bytes()


async def test_it_has_pop_records_in_files_always(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert (await (await broker.client()).ask(RequestCode.POP_ROLLBACK)).code == 0
