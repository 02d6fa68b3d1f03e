"""What becomes of a popped message: acknowledged, given more time, a dead letter, left to others."""

from __future__ import annotations

import pytest

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.message.queue import MessageQueue
from consumers import ConsumeStatus, PushConsumerConfig, RebalanceMode
from consumers.consumer.pop.consume_pop import comes_again_after_ms
from tests.consumers.fake_broker import wait_until
from tests.consumers.records import record

QUEUE = MessageQueue("orders", "broker-a", -1)
CONFIG = PushConsumerConfig(rebalance_mode=RebalanceMode.SERVER, pull_delay_when_exception_ms=50)
HELD_MS = 30


async def test_what_waited_too_long_is_left_to_others(popped, started) -> None:
    popped.give(record(8, b"late", queue_id=2), age_ms=60_001)
    popped.give(record(9, b"good", queue_id=2))
    seen = await started()
    await wait_until(lambda: popped.sent(RequestCode.ACK_MESSAGE) != [])
    assert seen == [b"good"]
    assert [one.ext_fields["offset"] for one in popped.sent(RequestCode.ACK_MESSAGE)] == ["9"]


async def test_a_failure_comes_again_at_a_later_time(popped, started) -> None:
    popped.give(record(8, b"bad", queue_id=2, reconsume_times=2))
    await started(status=ConsumeStatus.RECONSUME_LATER)
    await wait_until(lambda: popped.sent(RequestCode.CHANGE_MESSAGE_INVISIBLETIME) != [])
    (change,) = popped.sent(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
    assert change.ext_fields["invisibleTime"] == "60000"
    assert popped.sent(RequestCode.ACK_MESSAGE) == []


@pytest.mark.parametrize("times, level, expected_s", [(0, 0, 10), (15, 0, 7200), (99, 0, 7200), (9, 1, 30)])
def test_the_time_follows_the_repetitions_or_the_handler(times: int, level: int, expected_s: int) -> None:
    assert comes_again_after_ms(times, level) == expected_s * 1_000


async def test_a_message_that_failed_too_often_becomes_a_dead_letter(cluster, popped, started) -> None:
    answers = [lambda command: command.response(1, "disk full"), lambda command: command.response(0)]
    cluster.broker.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda command: answers.pop(0)(command)
    for offset in (8, 9):
        popped.give(record(offset, b"bad", queue_id=2, reconsume_times=16))
    await started(status=ConsumeStatus.RECONSUME_LATER)
    await wait_until(lambda: popped.sent(RequestCode.ACK_MESSAGE) != [])
    backs = popped.sent(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert [back.ext_fields["delayLevel"] for back in backs] == ["-1", "-1"]
    # The one that no broker took comes again when its time is over.
    assert len(popped.sent(RequestCode.ACK_MESSAGE)) == 1
