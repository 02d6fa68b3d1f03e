"""MQAdmin against a fake broker: what it asks and how it reads answers. With the real broker:
test_with_brokerd."""

from __future__ import annotations

import asyncio

import pytest

from brokerd.remoting.body.topic import TopicConfig, TopicList, TopicStatsTable
from brokerd.remoting.errors import ConsumerNotOnline, MQBrokerError, TopicNotExist
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.queue import MessageQueue
from consumers.admin.brokers import parse_properties
from consumers.admin.mqadmin import MQAdmin
from consumers.errors import BrokerUnavailable, RemotingTimeout
from tests.consumers.fake_broker import pass_deadlines, wait_until
from tests.consumers.fake_cluster import route_to


@pytest.fixture
async def admin(cluster):
    async with MQAdmin(cluster.broker.addr, timeout_ms=30_000) as made:
        yield made


def refuse(code: int):
    return lambda command: command.response(code, "because")


def test_it_reads_properties():
    text = "# comment\nbrokerName=broker-a\n\nlistenPort = 10911\nempty=\n! old\nurl=a=b\n"
    assert parse_properties(text) == {
        "brokerName": "broker-a",
        "listenPort": "10911",
        "empty": "",
        "url": "a=b",
    }


async def test_it_lists_topics(cluster, admin):
    body = TopicList(["orders", "clicks"]).to_body()
    cluster.broker.answers[206] = lambda command: command.response(0, body=body)
    assert await admin.topic_list() == ["clicks", "orders"]


async def test_it_reads_a_route(cluster, admin):
    cluster.routes["orders"] = route_to("10.0.0.1:10911")
    route = await admin.topic_route("orders")
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    with pytest.raises(TopicNotExist):
        await admin.topic_route("unknown")


async def test_it_reads_statistics_of_many_topics_with_the_errors_of_some(cluster, admin, monkeypatch):
    table = (
        b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:'
        b'{"lastUpdateTimestamp":3,"maxOffset":2,"minOffset":1}}}'
    )

    def answer(command):
        topic = command.ext_fields["topic"]
        if topic == "gone":
            return command.response(17, "no topic")
        if topic == "slow":
            return None
        return command.response(0, body=b"{" if topic == "broken" else table)

    cluster.broker.answers[202] = answer
    reading = asyncio.create_task(
        admin.topic_stats_many(cluster.broker.addr, ["T", "gone", "slow", "broken"])
    )
    await wait_until(lambda: len(cluster.broker.received) == 4)
    await cluster.broker.until_answers_are_read()
    pass_deadlines(monkeypatch)
    outcomes = await reading
    assert isinstance(outcomes["T"], TopicStatsTable)
    assert outcomes["T"].offset_table[MessageQueue("T", "a", 0)].max_offset == 2
    assert isinstance(outcomes["gone"], TopicNotExist)
    assert isinstance(outcomes["slow"], RemotingTimeout)
    assert isinstance(outcomes["broken"], Exception)


async def test_it_says_that_a_broker_is_away(admin):
    with pytest.raises(BrokerUnavailable) as caught:
        await admin.runtime_info("127.0.0.1:1")
    assert caught.value.addr == "127.0.0.1:1"
    outcomes = await admin.topic_stats_many("127.0.0.1:1", ["T"])
    assert isinstance(outcomes["T"], BrokerUnavailable)


async def test_it_knows_no_offset_from_an_offset_of_zero(cluster, admin):
    cluster.offsets["orders", 1] = 0
    assert await admin.query_consumer_offset(cluster.broker.addr, "billing", "orders", 0) is None
    assert await admin.query_consumer_offset(cluster.broker.addr, "billing", "orders", 1) == 0


async def test_it_knows_nobody_online_from_an_error(cluster, admin):
    cluster.broker.answers[203] = refuse(206)
    assert await admin.consumer_connection(cluster.broker.addr, "billing") is None
    cluster.broker.answers[203] = refuse(16)
    with pytest.raises(MQBrokerError):
        await admin.consumer_connection(cluster.broker.addr, "billing")


async def test_it_resets_by_time(cluster, admin):
    body = b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"orders"}:13}}'
    cluster.broker.answers[222] = lambda command: command.response(0, body=body)
    result = await admin.reset_offset(cluster.broker.addr, "billing", "orders", 1_700_000_000_000)
    assert result.offset_table == {MessageQueue("orders", "a", 0): 13}
    assert cluster.broker.received[-1].ext_fields == {
        "topic": "orders",
        "group": "billing",
        "timestamp": "1700000000000",
        "isForce": "true",
        "queueId": "-1",
        "offset": "-1",
    }


async def test_it_says_that_an_old_broker_cannot_reset_offline(cluster, admin):
    cluster.broker.answers[222] = refuse(206)
    with pytest.raises(ConsumerNotOnline):
        await admin.reset_offset(cluster.broker.addr, "billing", "orders", -1)


async def test_it_creates_a_topic(cluster, admin):
    cluster.broker.answers[17] = lambda command: command.response(0)
    config = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=2, perm=6, order=True)
    await admin.create_topic(cluster.broker.addr, config)
    assert cluster.broker.received[-1].ext_fields == {
        "topic": "orders",
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "2",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "true",
        "attributes": "",
        "force": "false",
    }


async def test_it_sends_many_and_reports_each(cluster, admin):
    def answer(command):
        if command.body == b"bad":
            return command.response(13, "illegal")
        fields = {"msgId": "ID", "queueId": command.ext_fields["e"], "queueOffset": "9"}
        return command.response(0, ext_fields=fields)

    cluster.broker.answers[310] = answer
    messages = [(Message("orders", b"good", {"UNIQ_KEY": "U"}), 3), (Message("orders", b"bad", {}), 0)]
    good, bad = await admin.send_many(cluster.broker.addr, messages, producer_group="replay")
    assert (good.message_id, good.queue.queue_id, good.queue_offset) == ("U", 3, 9)
    assert isinstance(bad, MQBrokerError)
    assert {command.ext_fields["a"] for command in cluster.broker.received} == {"replay"}


async def test_it_finds_no_message_where_there_is_none(cluster, admin):
    cluster.broker.answers[12] = refuse(22)
    assert await admin.query_message(cluster.broker.addr, "orders", "A-1") == []


async def test_it_reads_what_a_pull_says(cluster, admin):
    fields = {"nextBeginOffset": "7", "minOffset": "3", "maxOffset": "9", "suggestWhichBrokerId": "0"}
    cluster.broker.answers[11] = lambda command: command.response(21, ext_fields=fields)
    result = await admin.pull(cluster.broker.addr, "orders", 0, 1)
    assert (result.status, result.next_begin_offset, result.min_offset, result.max_offset) == (
        "OFFSET_ILLEGAL",
        7,
        3,
        9,
    )
    request = cluster.broker.received[-1].ext_fields
    assert (request["consumerGroup"], request["sysFlag"], request["subscription"]) == (
        "TOOLS_CONSUMER",
        "4",
        "*",
    )


async def test_it_asks_an_old_broker_for_one_topic_through_all_topics(cluster, admin):
    table = (
        b'{"dataVersion":{"counter":1,"timestamp":2},"topicConfigTable":{"orders":{"topicName":"orders",'
        b'"readQueueNums":4,"writeQueueNums":4,"perm":6,"order":false,"topicFilterType":"SINGLE_TAG","topicSysFlag":0}}}'
    )
    cluster.broker.answers[21] = lambda command: command.response(0, body=table)
    assert (await admin.topic_config(cluster.broker.addr, "orders")).read_queue_nums == 4
    with pytest.raises(TopicNotExist):
        await admin.topic_config(cluster.broker.addr, "unknown")


async def test_it_finds_no_extensions_at_apache(cluster, admin):
    assert await admin.capabilities(cluster.broker.addr) == frozenset()
    cluster.broker.answers[75002] = lambda c: c.response(0, ext_fields={"capabilities": "assignment, more"})
    assert await admin.capabilities(cluster.broker.addr) == {"assignment", "more"}
