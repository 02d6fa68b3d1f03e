"""SQL92 filters in pulls over a real socket: from requests and heartbeats, refused, held, and a little at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brokerd.clock import steady_ms
from brokerd.processor import hot_path
from brokerd.processor.dispatch import Dispatcher
from brokerd.processor.handlers import BROKER_HANDLERS
from brokerd.remoting.body.client import ConsumerData, HeartbeatData, SubscriptionData
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand, decode_frame
from tests.brokerd.fakes import MemoryChannel
from tests.brokerd.processor.consumer.test_pull_message import PULL, bodies
from tests.brokerd.processor.send.test_send_message import create
from tests.brokerd.processor.test_hot_path import frame
from tests.brokerd.running import RawClient, RunningBroker, pull_fields, running, send_fields
from tests.consumers.fake_broker import wait_until

SQL_ON = {"enablePropertyFilter": "true"}


def sql(expression: str, offset: int = 0, *, topic: str = "T", flags: int = 4) -> dict[str, str]:
    return pull_fields(
        "g", topic, offset, flags=flags, subscription=expression, expressionType="SQL92", subVersion="7"
    )


async def put(client: RawClient, *values: int, topic: str = "T") -> None:
    for value in values:
        properties = f"n\x01{value}\x02TAGS\x01{'even' if value % 2 == 0 else 'odd'}\x02"
        answer = await client.ask(
            RequestCode.SEND_MESSAGE_V2, send_fields(topic, properties=properties), b"%d" % value
        )
        assert answer.code == 0


async def filled(broker: RunningBroker, *values: int) -> RawClient:
    client = await broker.client()
    await create(client, "T")
    await put(client, *values)
    return client


async def join(client: RawClient, expression: str, version: int = 7) -> None:
    subscription = SubscriptionData(
        topic="T", sub_string=expression, expression_type="SQL92", sub_version=version
    )
    data = ConsumerData(group_name="g", subscription_data_set=[subscription])
    body = HeartbeatData(client_id="c", consumer_data_set=[data]).to_body()
    assert (await client.ask(RequestCode.HEART_BEAT, body=body)).code == 0


async def test_it_filters_by_the_expression_of_the_request(tmp_path: Path) -> None:
    async with running(tmp_path, **SQL_ON) as broker:
        client = await filled(broker, *range(10))
        answer = await client.ask(PULL, sql("n > 3 AND TAGS = 'even' OR n = 1"))
        assert (bodies(answer), answer.ext_fields["nextBeginOffset"]) == ([b"1", b"4", b"6", b"8"], "10")
        none = await client.ask(PULL, sql("n > 99"))
        assert (none.code, none.remark, none.ext_fields["nextBeginOffset"]) == (
            20,
            "NO_MATCHED_MESSAGE",
            "10",
        )
        binary = await client.ask(PULL, sql("n = 5"), binary=True)
        assert bodies(binary) == [b"5"]


async def test_it_filters_by_the_expression_of_the_heartbeat(tmp_path: Path) -> None:
    async with running(tmp_path, **SQL_ON) as broker:
        client = await filled(broker, 1, 2, 3)
        await join(client, "n BETWEEN 2 AND 9")
        answer = await client.ask(PULL, sql("ignored", flags=0))
        assert bodies(answer) == [b"2", b"3"]
        await join(client, "n = 1", version=8)
        assert bodies(await client.ask(PULL, sql("", flags=0))) == [b"1"]


async def test_it_filters_retried_messages_by_their_properties(tmp_path: Path) -> None:
    async with running(tmp_path, **SQL_ON) as broker:
        client = await filled(broker)
        await create(client, "%RETRY%g")
        await put(client, 1, 2, topic="%RETRY%g")
        assert bodies(await client.ask(PULL, sql("n = 2", topic="%RETRY%g"))) == [b"2"]


async def test_it_says_what_is_wrong_with_an_expression(tmp_path: Path) -> None:
    async with running(tmp_path, **SQL_ON) as broker:
        client = await filled(broker, 1)
        inline = await client.ask(PULL, sql("n = = 1"))
        assert (inline.code, "line 1, column 5" in (inline.remark or "")) == (23, True)
        await join(client, "n LIKE 'x'")
        answer = await client.ask(PULL, sql("", flags=0))
        assert (answer.code, "line 1, column 3" in (answer.remark or "")) == (27, True)


async def test_an_operator_allows_it_while_the_broker_runs(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await filled(broker, 1)
        await join(client, "n = 1")
        for fields in (sql("n = 1"), sql("", flags=0)):
            refused = await client.ask(PULL, fields)
            assert (refused.code, refused.remark) == (
                1,
                "The broker does not support consumer to filter message by SQL92",
            )
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"enablePropertyFilter=true")
        for fields in (sql("n = 1"), sql("", flags=0)):
            assert bodies(await client.ask(PULL, fields)) == [b"1"]


async def held(broker: RunningBroker, client: RawClient) -> asyncio.Task[RemotingCommand]:
    """A pull for n > 5 that waits behind the first message."""
    waiting = asyncio.create_task(client.ask(PULL, sql("n > 5", 1, flags=6)))
    await wait_until(lambda: broker.broker.hold.count == 1)
    return waiting


async def test_a_held_pull_waits_for_a_message_that_matches(tmp_path: Path) -> None:
    async with running(tmp_path, **SQL_ON) as broker:
        waiting = await held(broker, await filled(broker, 1))
        producer = await broker.client()
        await put(producer, 2, 3)
        assert broker.broker.hold.count == 1, "it looked and waits on"
        await put(producer, 6)
        answer = await waiting
        assert (bodies(answer), answer.ext_fields["nextBeginOffset"]) == ([b"6"], "4")


async def test_a_held_pull_tells_at_its_end_how_far_it_looked(tmp_path: Path) -> None:
    async with running(tmp_path, **SQL_ON) as broker:
        waiting = await held(broker, await filled(broker, 1))
        await put(await broker.client(), 2, 3)
        in_an_hour_ms = steady_ms() + 3_600_000
        broker.broker.hold.take_due(in_an_hour_ms)
        broker.broker.hold.run_ready(in_an_hour_ms)
        answer = await waiting
        assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (19, "3")


async def test_it_looks_at_fewer_entries_for_a_longer_expression(tmp_path: Path) -> None:
    async with running(tmp_path, **SQL_ON) as broker:
        client = await filled(broker)
        await asyncio.gather(*(put(client, n) for n in range(70)))
        answer = await client.ask(PULL, sql(" OR ".join(["n = 99"] * 200)))
        assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (20, "32")


async def test_one_turn_does_so_much_filtering_and_leaves_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot_path, "FILTERED_ENTRIES_A_TURN", 8)
    async with running(tmp_path, **SQL_ON) as broker:
        client = await filled(broker, *range(5))
        process, channel = broker.controller._dispatcher.process, MemoryChannel()
        pull = frame(11, sql("n > 3"), b"")
        odd = frame(11, sql("n > 3"), b"", code_first=False)  # the plain way
        data = pull + odd + pull + pull
        consumed, replies = process(data, channel)
        assert (consumed, len(replies)) == (len(pull + odd), 2)
        consumed, replies = process(data[consumed:], channel)
        assert (consumed, len(replies)) == (2 * len(pull), 2)
        answers = await asyncio.gather(*(client.ask(PULL, sql("n > 3")) for _ in range(9)))
        assert [bodies(answer) for answer in answers] == [[b"4"]] * 9, "the connection goes on by itself"


async def test_the_fast_way_answers_as_the_plain_one(tmp_path: Path) -> None:
    async with running(tmp_path, **SQL_ON) as broker:
        await filled(broker, *range(5))
        fast, channel = broker.controller._dispatcher, MemoryChannel()
        plain = Dispatcher(broker.broker, BROKER_HANDLERS)
        for expression in ("n > 3", "n > 9", "n = = 1", ""):
            data = frame(11, sql(expression), b"")
            answers = [each.process(data, channel)[1] for each in (fast, plain)]
            assert answers[0] == answers[1] != []
            assert decode_frame(answers[0][0][4:]).code in (0, 20, 23)
