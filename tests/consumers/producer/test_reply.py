"""Request-reply between clients of this runtime over a real brokerd."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from brokerd.remoting.message.record import MessageRecord
from consumers import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageNotSent,
    NoReply,
    Producer,
    PushConsumer,
    PushConsumerConfig,
    reply_to,
)
from tests.consumers.records import record
from tests.consumers.test_with_brokerd import create_topic
from tests.support.broker_process import BrokerProcess
from tests.support.documented import example

FROM_FIRST = PushConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
WITHIN_MS = 20_000


def each(
    work: Callable[[MessageRecord], Awaitable[object]],
) -> Callable[[Sequence[MessageRecord], ConsumeContext], Awaitable[ConsumeStatus]]:
    async def handler(messages: Sequence[MessageRecord], context: ConsumeContext) -> ConsumeStatus:
        for message in messages:
            await work(message)
        return ConsumeStatus.CONSUME_SUCCESS

    return handler


async def test_requests_get_their_own_replies(brokerd: BrokerProcess) -> None:
    await create_topic(brokerd, "prices")
    async with (
        Producer("repliers", brokerd.namesrv) as replying,
        Producer("askers", brokerd.namesrv) as asking,
    ):

        async def reply(message: MessageRecord) -> None:
            # The first of them is compressed on its way.
            size = 10_000 if message.body == b"0" else 1
            await replying.send(reply_to(message, message.body.ljust(size, b".")))

        async with PushConsumer("repliers", brokerd.namesrv, each(reply), {"prices": "*"}, config=FROM_FIRST):
            requests = [Message("prices", str(i).encode()) for i in range(20)]
            replies = await asyncio.gather(*[asking.request(each, WITHIN_MS) for each in requests])
    assert [reply.body for reply in replies] == [
        b"0".ljust(10_000, b"."),
        *[str(i).encode() for i in range(1, 20)],
    ]
    assert {reply.topic for reply in replies} == {"DefaultCluster_REPLY_TOPIC"}
    assert all("CORRELATION_ID" not in each.properties for each in requests), "they may be sent again"


async def test_a_request_without_reply_ends_in_time(brokerd: BrokerProcess) -> None:
    await create_topic(brokerd, "prices")
    late: asyncio.Queue[MessageRecord] = asyncio.Queue()
    async with (
        Producer("askers", brokerd.namesrv) as asking,
        Producer("repliers", brokerd.namesrv) as replying,
        PushConsumer("repliers", brokerd.namesrv, each(late.put), {"prices": "*"}, config=FROM_FIRST),
    ):
        # Routes and connections are there: on a busy machine they alone take the time that the request has.
        await asking.send(Message("prices", b"no request"))
        await asyncio.wait_for(late.get(), WITHIN_MS / 1000)
        with pytest.raises(NoReply, match=r"no reply to a message of topic prices within 1 s"):
            await asking.request(Message("prices", b"x"), 1_000)
        request = await asyncio.wait_for(late.get(), WITHIN_MS / 1000)
        await replying.send(reply_to(request, b"too late, and taken"))
        await asking.close()
        with pytest.raises(MessageNotSent, match="channel of <.*> not found"):
            await replying.send(reply_to(request, b"gone"), timeout_ms=WITHIN_MS)


def test_only_a_request_has_a_reply() -> None:
    with pytest.raises(ValueError, match="is not a request"):
        reply_to(record(0), b"x")


async def test_the_example_of_the_documentation_runs(
    brokerd: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    await create_topic(brokerd, "prices")
    await example("consumers.md", "Request-reply")(brokerd.namesrv)
    assert capsys.readouterr().out == "b'price of A-1'\n"
