"""A push consumer that pops, against a fake cluster: what it does when brokers answer unlike brokerd."""

from __future__ import annotations

import asyncio

import pytest

from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.queue import MessageQueue
from consumers import InvalidClientConfig, PushConsumerConfig, RebalanceMode
from consumers.clock import system_clock
from tests.consumers.fake_broker import wait_until
from tests.consumers.records import record

QUEUE = MessageQueue("orders", "broker-a", -1)
CONFIG = PushConsumerConfig(rebalance_mode=RebalanceMode.SERVER, pull_delay_when_exception_ms=50)
HELD_MS = 30


async def test_the_handle_of_a_message_acknowledges_it(popped, started) -> None:
    popped.give(record(8, b"a", queue_id=2), record(9, b"b", queue_id=2))
    seen = await started()
    await wait_until(lambda: len(popped.sent(RequestCode.ACK_MESSAGE)) == 2)
    assert sorted(seen) == [b"a", b"b"]
    pop, ack = popped.sent(RequestCode.POP_MESSAGE)[0], popped.sent(RequestCode.ACK_MESSAGE)[0]
    assert pop.ext_fields["queueId"] == "-1"
    assert (pop.ext_fields["exp"], pop.ext_fields["initMode"]) == ("*", "1")
    start, _, invisible, *rest, offset = ack.ext_fields["extraInfo"].split(" ")
    assert (start, invisible, rest) == ("7", "60000", ["3", "0", "broker-a", "2"])
    assert (ack.ext_fields["queueId"], ack.ext_fields["offset"]) == ("2", offset)


async def test_a_repetition_is_acknowledged_in_its_retry_topic(popped, started) -> None:
    handle = f"0 {system_clock()} 60000 4 1 broker-a 0 5"
    popped.give(record(5, b"again", topic="%RETRY%billing_orders", properties={"POP_CK": handle}))
    await started()
    await wait_until(lambda: popped.sent(RequestCode.ACK_MESSAGE) != [])
    fields = popped.sent(RequestCode.ACK_MESSAGE)[0].ext_fields
    assert (fields["topic"], fields["extraInfo"]) == ("%RETRY%billing_orders", handle)


async def test_what_only_the_hash_of_a_tag_let_through_is_done_with(popped, started) -> None:
    popped.give(record(8, b"BB", queue_id=2, properties={"TAGS": "BB"}))
    popped.give(record(9, b"Aa", queue_id=2, properties={"TAGS": "Aa"}))
    seen = await started("Aa")
    await wait_until(lambda: len(popped.sent(RequestCode.ACK_MESSAGE)) == 2)
    assert seen == [b"Aa"]


@pytest.mark.parametrize("code", [ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL])
async def test_a_broker_that_holds_no_poll_is_requested_after_a_pause(popped, started, code) -> None:
    popped.waiting = [lambda command: command.response(code)] * 3
    began = asyncio.get_running_loop().time()
    await started()
    await wait_until(lambda: len(popped.sent(RequestCode.POP_MESSAGE)) == 4)
    assert asyncio.get_running_loop().time() - began >= 3 * CONFIG.pull_delay_when_exception_ms / 1_000


async def test_it_pops_again_after_answers_that_cannot_be_read(popped, started) -> None:
    unreadable = {"popTime": "1", "invisibleTime": "1", "reviveQid": "0", "startOffsetInfo": "0 2"}
    popped.waiting = [
        lambda command: command.response(2, "busy"),
        lambda command: command.response(0, ext_fields=unreadable),
    ]
    popped.give(record(8, b"a", queue_id=2))
    seen = await started()
    await wait_until(lambda: seen == [b"a"])


async def test_it_pops_no_more_than_may_wait_for_their_acknowledgement(cluster, popped, started) -> None:
    acknowledged = asyncio.Event()

    async def hold(command: RemotingCommand) -> RemotingCommand:
        await acknowledged.wait()
        return command.response(0)

    cluster.broker.answers[RequestCode.ACK_MESSAGE] = hold
    for first in range(0, 97, 20):
        popped.give(*(record(offset, b"a", queue_id=2) for offset in range(first, first + 20)))
    await started()
    await wait_until(lambda: popped.waiting == [])
    await asyncio.sleep(2 * HELD_MS / 1_000)
    assert len(popped.sent(RequestCode.POP_MESSAGE)) == 5, "100 messages wait, more than 96"
    acknowledged.set()
    await wait_until(lambda: len(popped.sent(RequestCode.POP_MESSAGE)) > 5)


def test_its_settings_have_the_ranges_of_java() -> None:
    with pytest.raises(InvalidClientConfig, match="pop_invisible_time_ms must be 5000 to 300000, not 4999"):
        PushConsumerConfig(pop_invisible_time_ms=4_999)
    with pytest.raises(InvalidClientConfig, match="pop_batch_nums must be 1 to 32, not 33"):
        PushConsumerConfig(pop_batch_nums=33)
