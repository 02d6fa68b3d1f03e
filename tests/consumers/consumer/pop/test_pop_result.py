"""Requests of POP beside those of Java's client, and answers that cannot be read."""

from __future__ import annotations

import pytest

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import BodyError, HeaderFieldError, MQBrokerError
from brokerd.remoting.message.pop_handle import parse_handle
from brokerd.remoting.message.queue import MessageQueue
from consumers import ConsumeFromWhere, PushConsumerConfig
from consumers.client.subscription import build_subscription
from consumers.consumer.pop.pop_result import (
    PoppedMessage,
    PopStatus,
    ack_request,
    change_invisible_time_request,
    pop_request,
    pop_result,
)
from tests.brokerd.remoting.golden_frames import golden_frames
from tests.consumers.records import record

CONFIG = PushConsumerConfig(
    consume_from_where=ConsumeFromWhere.FIRST_OFFSET, pop_invisible_time_ms=10_000, pop_batch_nums=32
)


def golden(code: RequestCode) -> dict[str, str]:
    """The header of Java's push consumer in POP mode."""
    frames = [frame for frame in golden_frames() if frame.version == "5.3.3" and frame.code == code]
    frame = next(one for one in frames if one.is_request and one.header["extFields"].get("bname"))
    return dict(frame.header["extFields"])


def test_a_pop_is_that_of_java() -> None:
    theirs = golden(RequestCode.POP_MESSAGE)
    queue = MessageQueue(theirs["topic"], theirs["bname"], int(theirs["queueId"]))
    ours = pop_request(
        queue,
        theirs["consumerGroup"],
        build_subscription(queue.topic, "*", 1),
        CONFIG,
        int(theirs["bornTime"]),
    )
    assert ours.ext_fields == {key: theirs[key] for key in ours.ext_fields}
    assert set(theirs) - set(ours.ext_fields) <= {"attemptId"}


@pytest.mark.parametrize("code", [RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME])
def test_what_is_sent_of_a_popped_message_is_that_of_java(code: RequestCode) -> None:
    theirs = golden(code)
    handle = parse_handle(theirs["extraInfo"])
    message = PoppedMessage(record(int(theirs["offset"]), queue_id=int(theirs["queueId"])), handle)
    if code == RequestCode.ACK_MESSAGE:
        ours = ack_request(message, theirs["topic"], theirs["consumerGroup"])
    else:
        times = int(theirs["invisibleTime"])
        ours = change_invisible_time_request(message, theirs["topic"], theirs["consumerGroup"], times)
    assert ours.ext_fields == {key: theirs[key] for key in ours.ext_fields}


def answer(code: int, **fields: str) -> RemotingCommand:
    return RemotingCommand.request(RequestCode.POP_MESSAGE, {}).response(code, "why", ext_fields=fields)


@pytest.mark.parametrize(
    "code, status",
    [(19, PopStatus.NOT_FOUND), (210, PopStatus.NOT_FOUND), (209, PopStatus.POLLING_FULL)],
)
def test_answers_without_messages_need_no_header(code: int, status: PopStatus) -> None:
    assert pop_result(answer(code), "broker-a").status is status


def test_a_refusal_is_the_brokers_error() -> None:
    with pytest.raises(MQBrokerError, match="why") as refused:
        pop_result(answer(16), "broker-a")
    assert refused.value.code == 16


def test_a_wrong_header_is_named() -> None:
    with pytest.raises(HeaderFieldError, match="popTime"):
        pop_result(answer(0, popTime="soon"), "broker-a")
    with pytest.raises(BodyError, match="startOffsetInfo='0 x 1'"):
        pop_result(answer(0, startOffsetInfo="0 x 1"), "broker-a")
