"""222: a group that is online moves at once, whatever its client's release; an offline group finds the target."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brokerd.processor.consumer.offset_reset import NO_MEMBER
from brokerd.remoting.body.client import ConsumerListBody
from brokerd.remoting.body.offset import GetConsumerStatusBody, ResetOffsetBody
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.queue import MessageQueue
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.running import RawClient, pull_fields, running

RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
Q = MessageQueue("T", "broker-a", 0)


def reset_fields(timestamp: str = "-1", **fields: str) -> dict[str, str]:
    return {
        "topic": "T",
        "group": "g",
        "timestamp": timestamp,
        "isForce": "true",
        "queueId": "-1",
        "offset": "-1",
        **fields,
    }


async def committed(client: RawClient) -> str:
    answer = await client.ask(
        RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    )
    return answer.ext_fields["offset"]


async def commit(client: RawClient, offset: int) -> str | None:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
    answer = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    assert answer.code == 0
    return answer.remark


async def test_it_moves_an_offline_group(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b", "c")
        broker.broker.groups.find_or_create("g", 1)
        await commit(client, 1)
        answer = await client.ask(RESET, reset_fields())
        assert answer.code == 0
        assert ResetOffsetBody.from_body(answer.body).offset_table == {Q: 3}
        assert await committed(client) == "3"
        answer = await client.ask(RESET, reset_fields(timestamp="0"))
        assert ResetOffsetBody.from_body(answer.body).offset_table == {Q: 0}
        assert await committed(client) == "0"


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"topic": "Missing"}, 17, "Topic Missing does not exist"),
        ({"group": "missing"}, 26, "Group missing does not exist"),
        ({"queueId": "0", "offset": "9"}, 1, "Target offset 9 not in consume queue range [0-1]"),
        ({"queueId": "7"}, 29, "Queue 7 of topic T does not exist: it has 1"),
        ({"timestamp": "yesterday"}, 1, "header field timestamp: takes a whole number"),
    ],
)
async def test_it_refuses_what_it_cannot_reset(
    tmp_path: Path, fields: dict[str, str], code: int, says: str
) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        broker.broker.groups.find_or_create("g", 1)
        answer = await client.ask(RESET, reset_fields(**fields))
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer.remark


async def test_it_answers_a_waiting_pull_of_a_5x_client_with_the_target(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b")
        consumer = await broker.consumer("c", "g", "T")
        pull = pull_fields("g", "T", 2, flags=2)
        waiting = asyncio.create_task(consumer.ask(RequestCode.PULL_MESSAGE, pull))
        await asyncio.sleep(0.05)
        await client.ask(RESET, reset_fields(queueId="0", offset="1"))
        answer = await waiting
        assert (answer.code, answer.remark, answer.ext_fields["nextBeginOffset"]) == (21, "OFFSET_RESET", "1")
        # The client took note: its commits count again.
        assert await commit(consumer, 1) is None
        assert await committed(client) == "1"


async def test_it_ignores_commits_until_the_client_took_note(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b")
        consumer = await broker.consumer("c", "g", "T")
        await client.ask(RESET, reset_fields(timestamp="0"))
        assert await commit(consumer, 2) == "Offset has been previously reset"
        await client.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 2, flags=5, commitOffset="2"))
        assert await committed(client) == "0"


async def test_it_makes_a_4x_client_take_its_queues_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b")
        consumer = await broker.consumer("old", "g", "T", version=407)
        assert (await consumer.pushed()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED  # it joined
        await client.ask(RESET, reset_fields(timestamp="0"))
        assert (await consumer.pushed()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        members = {"consumerGroup": "g"}

        async def ids(peer: RawClient) -> list[str]:
            answer = await peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, members)
            return ConsumerListBody.from_body(answer.body).consumer_id_list

        assert await ids(consumer) == [NO_MEMBER]
        assert await ids(client) == ["old"]
        # It gives the queue up: what it commits then is not taken.
        assert await commit(consumer, 2) == "Offset has been previously reset"
        assert (await consumer.pushed()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert await ids(consumer) == ["old"]
        assert await committed(consumer) == "0"
        pulled = await consumer.ask(RequestCode.PULL_MESSAGE, pull_fields("g", "T", 0, flags=0), version=407)
        assert pulled.code == 0
        assert await commit(consumer, 1) is None


async def test_it_pushes_the_targets_when_server_side_reset_is_off(tmp_path: Path) -> None:
    async with running(tmp_path, useServerSideResetOffset="false") as broker:
        client = await filled(broker, "a", "b")
        broker.broker.groups.find_or_create("g", 1)
        assert (await client.ask(RESET, reset_fields())).remark == "THe consumer group <g> not exist"
        await commit(client, 1)
        assert (await client.ask(RESET, reset_fields())).code == 206
        consumer = await broker.consumer("c", "g", "T")
        await consumer.pushed()
        assert (await client.ask(RESET, reset_fields(timestamp="0"))).code == 0
        push = await consumer.pushed()
        assert (push.code, push.is_oneway) == (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, True)
        assert push.ext_fields["timestamp"] == "0"
        assert ResetOffsetBody.from_body(push.body).offset_table == {Q: 0}


async def test_it_asks_every_member_for_its_offsets(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        consumer = await broker.consumer("c", "g", "T")
        await consumer.pushed()
        fields = {"topic": "T", "group": "g"}
        asking = asyncio.create_task(client.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields))
        question = await consumer.pushed()
        assert (question.code, question.ext_fields) == (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields)
        body = GetConsumerStatusBody(message_queue_table={Q: 7}).to_body()
        consumer.respond(question.response(0, body=body))
        answer = await asking
        assert GetConsumerStatusBody.from_body(answer.body).consumer_table == {"c": {Q: 7}}
