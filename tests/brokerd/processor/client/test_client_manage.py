"""Heartbeats, leaving, membership notices, orderly locks, committed offsets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from brokerd.clients.consumer_manager import ClientChannelInfo
from brokerd.clients.producer_manager import GROUPS_A_CHANNEL_MAX
from brokerd.processor.client.client_notify import NOTIFY_AFTER_MS
from brokerd.remoting.body.assignment import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from brokerd.remoting.body.client import (
    CheckClientRequestBody,
    ConsumerListBody,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.queue import MessageQueue
from brokerd.tables.topic_config import topic_config
from tests.brokerd.processor.consumer.test_pull_message import filled
from tests.brokerd.running import heartbeat, running, send_fields

LIST = RequestCode.GET_CONSUMER_LIST_BY_GROUP
NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


async def test_it_makes_group_and_retry_topic_at_the_first_heartbeat(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "T"))
        assert answer.ext_fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
        assert answer.version == 479
        assert broker.broker.groups.groups["g"].retry_max_times == 16
        assert broker.broker.topics.topics["%RETRY%g"].read_queue_nums == 1
        assert broker.controller.routes.route("%RETRY%g") is not None


async def test_it_skips_a_group_it_may_not_make(tmp_path: Path) -> None:
    async with running(tmp_path, autoCreateSubscriptionGroup="false") as broker:
        client = await broker.client()
        assert (await client.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "T"))).code == 0
        assert broker.broker.consumers.groups == {}
        assert "%RETRY%g" not in broker.broker.topics.topics


async def test_it_tells_every_member_when_one_comes_leaves_or_breaks_off(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        first = await broker.consumer("c1", "g", "T")
        assert (await first.pushed()).ext_fields == {"consumerGroup": "g"}
        second = await broker.consumer("c2", "g", "T")
        for member in (first, second):
            assert (await member.pushed()).code == NOTIFY
        answer = await first.ask(LIST, {"consumerGroup": "g"})
        assert ConsumerListBody.from_body(answer.body).consumer_id_list == ["c1", "c2"]

        await second.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c2", "consumerGroup": "g"})
        assert (await first.pushed()).code == NOTIFY
        third = await broker.consumer("c3", "g", "T")
        assert (await first.pushed()).code == NOTIFY
        await third.close()
        assert (await first.pushed()).code == NOTIFY
        answer = await first.ask(LIST, {"consumerGroup": "g"})
        assert ConsumerListBody.from_body(answer.body).consumer_id_list == ["c1"]


async def test_it_answers_a_heartbeat_before_it_tells_the_member_to_rebalance(tmp_path: Path) -> None:
    """The other way round a Java client may lose the heartbeat after its rebalance and wait 20 s."""
    async with running(tmp_path) as broker:
        member = await broker.client()
        await member.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "T"))
        assert (await member.pushed()).code == NOTIFY
        assert [command.is_response for command in member.received] == [True, False]


async def test_it_tells_members_once_of_all_changes_of_a_moment(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        members = [await broker.client() for _ in range(5)]
        for member in members:  # an answer: the broker has taken the connection in
            await member.ask(LIST, {"consumerGroup": "g"})
        consumers, joined = broker.broker.consumers, heartbeat("c", "g", "T")
        data = HeartbeatData.from_body(joined).consumer_data_set[0]
        channels = list(broker.controller._broker_server.connections)
        broker.broker.groups.find_or_create("g", 0)
        for number, channel in enumerate(channels):  # within one turn of the event loop
            consumers.register(data, ClientChannelInfo(channel, f"c{number}", "JAVA", 479, 0))
        for member in members:
            assert (await member.pushed()).code == NOTIFY
        await asyncio.sleep(3 * NOTIFY_AFTER_MS / 1000)
        assert all(member._pushed.empty() for member in members)


async def test_it_is_quiet_about_a_heartbeat_that_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        member = await broker.consumer("c1", "g", "T")
        await member.pushed()
        await member.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "T"))
        await member.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "T", "T2"))
        assert (await member.pushed()).code == NOTIFY  # of the second one only
        await asyncio.sleep(3 * NOTIFY_AFTER_MS / 1000)
        assert member._pushed.empty()
        assert sorted(broker.broker.consumers.groups["g"].subscriptions) == ["T", "T2"]


async def test_it_says_that_a_group_has_no_members(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(LIST, {"consumerGroup": "nobody"})
        assert (answer.code, answer.remark) == (1, "no consumer for this group, nobody")


async def test_it_expires_members_without_heartbeat(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.consumer("c1", "g", "T")
        (info,) = broker.broker.consumers.groups.values()
        (member,) = info.members.values()
        expired = broker.broker.consumers.expired
        assert expired(member.last_update_ms + 120_000, 120_000) == []
        assert expired(member.last_update_ms + 120_001, 120_000) == [("g", member)]
        await client.close()


async def test_it_registers_producers(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        body = HeartbeatData(client_id="p1", producer_data_set=[ProducerData(group_name="pg")]).to_body()
        await client.ask(RequestCode.HEART_BEAT, body=body)
        answer = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "pg"})
        assert b'"clientId":"p1"' in answer.body
        await client.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "p1", "producerGroup": "pg"})
        answer = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "pg"})
        assert (answer.code, answer.remark) == (1, "the producer group[pg] not exist")


@pytest.mark.parametrize(
    ("kind", "expression", "allowed", "code", "says"),
    [
        ("TAG", "a || b", False, 0, ""),
        ("SQL92", "a > 5", False, 1, "does not support consumer to filter message by SQL92"),
        ("SQL92", "a = = 3", False, 1, "filter message by SQL92"),
        ("SQL92", "a > 5", True, 0, ""),
        ("SQL92", "a = = 3", True, 23, "line 1, column 5: expected"),
        ("SQL92", "", True, 23, "found the end"),
        ("Regex", ".*", True, 1, "filter message by Regex"),
    ],
)
async def test_it_checks_a_consumers_filter(
    tmp_path: Path, kind: str, expression: str, allowed: bool, code: int, says: str
) -> None:
    async with running(tmp_path, enablePropertyFilter=str(allowed).lower()) as broker:
        client = await broker.client()
        subscription = SubscriptionData(topic="T", sub_string=expression, expression_type=kind)
        body = CheckClientRequestBody(client_id="c", group="g", subscription_data=subscription).to_body()
        answer = await client.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer.remark


async def test_it_locks_queues_for_one_member(tmp_path: Path) -> None:
    queue = MessageQueue("T", "broker-a", 0)

    def body(kind: type[LockBatchRequestBody | UnlockBatchRequestBody], client_id: str) -> bytes:
        return kind(consumer_group="g", client_id=client_id, mq_set=[queue]).to_body()

    async with running(tmp_path) as broker:
        client = await filled(broker)
        answer = await client.ask(RequestCode.LOCK_BATCH_MQ, body=body(LockBatchRequestBody, "one"))
        assert LockBatchResponseBody.from_body(answer.body).lock_ok_mq_set == [queue]
        answer = await client.ask(RequestCode.LOCK_BATCH_MQ, body=body(LockBatchRequestBody, "two"))
        assert LockBatchResponseBody.from_body(answer.body).lock_ok_mq_set == []
        await client.ask(RequestCode.UNLOCK_BATCH_MQ, body=body(UnlockBatchRequestBody, "one"))
        answer = await client.ask(RequestCode.LOCK_BATCH_MQ, body=body(LockBatchRequestBody, "two"))
        assert LockBatchResponseBody.from_body(answer.body).lock_ok_mq_set == [queue]


async def test_it_locks_only_queues_that_it_has(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker)
        queues = [
            MessageQueue(*place) for place in (("T", "broker-a", 9), ("U", "broker-a", 0), ("T", "other", 0))
        ]
        body = LockBatchRequestBody(consumer_group="g", client_id="one", mq_set=queues).to_body()
        answer = await client.ask(RequestCode.LOCK_BATCH_MQ, body=body)
        assert LockBatchResponseBody.from_body(answer.body).lock_ok_mq_set == []


async def test_it_takes_in_so_many_producer_groups_of_one_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        groups = [ProducerData(group_name=f"p{i}") for i in range(GROUPS_A_CHANNEL_MAX + 5)]
        for part in (groups[:600], groups[600:]):
            body = HeartbeatData(client_id="c", producer_data_set=part).to_body()
            assert (await client.ask(RequestCode.HEART_BEAT, body=body)).code == 0
        assert len(broker.broker.producers.groups) == GROUPS_A_CHANNEL_MAX


async def test_it_starts_a_new_group_at_zero_while_the_first_message_is_recent(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a", "b")
        fields = {"consumerGroup": "new", "topic": "T", "queueId": "0"}
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)).ext_fields == {"offset": "0"}
        fields["setZeroIfNotFound"] = "false"
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)).code == 22
        empty = {"consumerGroup": "new", "topic": "TBW102", "queueId": "0"}
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, empty)).code == 22


async def test_it_refuses_commits_of_unknown_groups_and_topics(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, "a")
        update = RequestCode.UPDATE_CONSUMER_OFFSET
        fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
        assert (await client.ask(update, fields)).code == 26
        broker.broker.groups.find_or_create("g", 1)
        assert (await client.ask(update, {**fields, "topic": "Missing"})).code == 17
        assert (await client.ask(update, {"consumerGroup": "g", "topic": "T", "queueId": "0"})).code == 29
        assert (await client.ask(update, fields)).code == 0
        assert (await client.ask(update, {**fields, "commitOffset": "0"})).code == 0
        assert broker.broker.offsets.committed("g", "T", 0) == 0


@pytest.mark.parametrize(
    ("queue_id", "offset", "code"),
    [
        ("0", str(2**63), 1),
        (str(2**64), "0", 1),
        ("0", "9" * 5000, 1),
        ("-1", "0", 29),
        ("100000", "0", 29),
        ("0", str(2**63 - 1), 0),
    ],
)
async def test_it_saves_offsets_whatever_a_client_commits(
    tmp_path: Path, queue_id: str, offset: str, code: int
) -> None:
    """A number that JSON cannot hold would keep the offsets of every group from being saved."""
    async with running(tmp_path) as broker:
        client = await broker.consumer("c", "g", "T")
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"x")
        commit = {"consumerGroup": "g", "topic": "T", "queueId": "1", "commitOffset": "7"}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        absurd = {**commit, "queueId": queue_id, "commitOffset": offset}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, absurd)).code == code
        document = b"".join(broker.broker.offsets.file.take())
        assert json.loads(document)["offsetTable"]["T@g"]["1"] == 7


async def test_it_stores_offsets_of_queues_that_can_have_messages(tmp_path: Path) -> None:
    """Queues may be taken away under a consumer; a client that errs must not fill memory with others."""
    async with running(tmp_path) as broker:
        client = await broker.consumer("c", "g", "T")
        broker.broker.topics.put(topic_config("T", 8, 6), 0)
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T", queue_id=6), b"x")
        broker.broker.topics.put(topic_config("T", 4, 6), 0)

        async def commit(queue_id: int) -> int:
            fields = {"consumerGroup": "g", "topic": "T", "queueId": str(queue_id), "commitOffset": "7"}
            return (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code

        assert [await commit(queue_id) for queue_id in (0, 3, 6)] == [0, 0, 0]
        assert [await commit(queue_id) for queue_id in (-1, 4, 5, 7, 60_000)] == [29] * 5
        assert sorted(broker.broker.offsets.offsets["T", "g"]) == [0, 3, 6]
