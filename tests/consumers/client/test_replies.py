from __future__ import annotations

import zlib

import pytest

from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand
from consumers.client.replies import Replies


def pushed(correlation_id: str, body: bytes = b"pong", sys_flag: int = 0) -> RemotingCommand:
    fields = {
        "producerGroup": "repliers", "topic": "c_REPLY_TOPIC", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
        "queueId": "0", "sysFlag": str(sys_flag), "bornTimestamp": "1", "flag": "7", "bornHost": "127.0.0.1:2",
        "storeHost": "127.0.0.1:3", "storeTimestamp": "4", "properties": f"CORRELATION_ID\x01{correlation_id}\x02",
    }  # fmt: skip
    return RemotingCommand.request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, body)


@pytest.mark.parametrize("sys_flag", [0x301, 0x001])
async def test_a_reply_reaches_the_request_that_waits(sys_flag: int) -> None:
    replies = Replies()
    with replies.expected() as (first_id, first), replies.expected() as (second_id, second):
        assert first_id != second_id
        answer = await replies.receive(pushed(second_id, zlib.compress(b"pong"), sys_flag), "broker:1")
        assert answer.code == 0
        assert (second.result().body, second.result().topic, second.result().flag) == (
            b"pong",
            "c_REPLY_TOPIC",
            7,
        )
        assert not first.done()


async def test_a_late_or_second_reply_is_confirmed_and_dropped() -> None:
    replies = Replies()
    with replies.expected() as (correlation_id, reply):
        await replies.receive(pushed(correlation_id, b"one"), "broker:1")
        assert (await replies.receive(pushed(correlation_id, b"two"), "broker:1")).code == 0
        assert reply.result().body == b"one"
    assert (await replies.receive(pushed(correlation_id), "broker:1")).code == 0
