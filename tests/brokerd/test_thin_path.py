"""The life of a message over real sockets: register, route, heartbeat, send, pull, commit, restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.record import decode_records
from tests.brokerd.running import heartbeat, pull_fields, running, send_fields


async def test_it_carries_a_message_from_producer_to_consumer(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        namesrv = await broker.namesrv_client()
        route = await namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
        assert (route.code, "No topic route info" in (route.remark or "")) == (17, True)
        template = await namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
        assert TopicRouteData.from_body(template.body).queue_datas[0].perm == 7

        producer = await broker.client()
        sent = await producer.ask(
            RequestCode.SEND_MESSAGE_V2,
            send_fields("orders", queue_id=1, properties="UNIQ_KEY\x01K1\x02TAGS\x01red\x02"),
            b"hello",
        )
        assert sent.code == 0
        assert sent.ext_fields["queueOffset"] == "0"
        assert sent.ext_fields["transactionId"] == "K1"
        assert sent.ext_fields["MSG_REGION"] == "DefaultRegion"

        route = await namesrv.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
        data = TopicRouteData.from_body(route.body)
        assert (data.queue_datas[0].write_queue_nums, data.queue_datas[0].perm) == (4, 6)
        assert data.broker_datas[0].broker_addrs == {0: broker.controller.address}

        consumer = await broker.consumer("c1", "billing", "orders")
        pulled = await consumer.ask(
            RequestCode.PULL_MESSAGE, pull_fields("billing", "orders", 0, queue_id=1, flags=0)
        )
        (record,) = decode_records(pulled.body)
        assert (record.body, record.tags, record.message_id) == (b"hello", "red", "K1")
        assert record.offset_message_id == sent.ext_fields["msgId"]
        assert record.properties["CLUSTER"] == "DefaultCluster"
        assert pulled.ext_fields["nextBeginOffset"] == "1"

        commit = {"consumerGroup": "billing", "topic": "orders", "queueId": "1", "commitOffset": "1"}
        assert (await consumer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        query = {"consumerGroup": "billing", "topic": "orders", "queueId": "1"}
        answer = await consumer.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)
        assert answer.ext_fields == {"offset": "1"}

    async with running(tmp_path) as broker:
        client = await broker.client()
        answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)
        assert answer.ext_fields == {"offset": "1"}
        pulled = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("billing", "orders", 0, queue_id=1))
        assert [record.body for record in decode_records(pulled.body)] == [b"hello"]


async def test_it_wakes_a_waiting_pull(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        producer = await broker.client()
        await producer.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), b"first")
        consumer = await broker.consumer("c1", "billing", "orders")
        waiting = asyncio.create_task(
            consumer.ask(RequestCode.PULL_MESSAGE, pull_fields("billing", "orders", 1, flags=2))
        )
        await asyncio.sleep(0.1)
        assert not waiting.done()
        # The connection serves other requests meanwhile.
        assert (
            await consumer.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "billing", "orders"))
        ).code == 0
        await producer.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), b"second")
        pulled = await waiting
        assert [record.body for record in decode_records(pulled.body)] == [b"second"]


async def test_it_answers_a_waiting_pull_at_its_deadline(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await broker.client()
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), b"first")
        fields = pull_fields("billing", "orders", 1, flags=6, suspendTimeoutMillis="200")
        pulled = await client.ask(RequestCode.PULL_MESSAGE, fields)
        assert (pulled.code, pulled.remark) == (19, "OFFSET_OVERFLOW_ONE")
        assert pulled.ext_fields["nextBeginOffset"] == "1"
