from __future__ import annotations

import pytest

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import HeaderFieldError, MQBrokerError
from brokerd.remoting.header.headers import PullMessageRequestHeader
from brokerd.remoting.message.queue import MessageQueue
from consumers.consumer.pull_result import PullStatus, pull_request, pull_result
from tests.consumers.records import record
from tests.support.plain_record import encode_record

QUEUE = MessageQueue("orders", "broker-a", 3)
FIELDS = {"suggestWhichBrokerId": "0", "nextBeginOffset": "8", "minOffset": "0", "maxOffset": "9"}


def answer(code: int, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
    return RemotingCommand(code, opaque=1, flag=1, remark="why", ext_fields=fields, body=body)


@pytest.mark.parametrize(
    ("arguments", "sys_flag"),
    [({}, "0"), ({"commit_offset": 5}, "1"), ({"suspend_ms": 100}, "2"), ({"subscription": "*"}, "4")],
)
def test_it_sets_the_flags_of_what_a_pull_carries(arguments: dict[str, object], sys_flag: str) -> None:
    command = pull_request(QUEUE, "g", 7, 32, **arguments)  # type: ignore[arg-type]
    assert (command.code, command.ext_fields["sysFlag"], command.ext_fields["queueId"]) == (11, sys_flag, "3")


@pytest.mark.parametrize("subscription", [None, "paid || settled"])
def test_it_writes_the_fields_of_the_header_class(subscription: str | None) -> None:
    command = pull_request(
        QUEUE, "g", 7, 32, subscription=subscription, sub_version=5, commit_offset=6, suspend_ms=100
    )
    twin = PullMessageRequestHeader(
        consumer_group="g",
        topic="orders",
        queue_id=3,
        queue_offset=7,
        max_msg_nums=32,
        sys_flag=3 if subscription is None else 7,
        commit_offset=6,
        suspend_timeout_millis=100,
        sub_version=5,
        subscription=subscription,
        expression_type="TAG",
        broker_name="broker-a",
    )
    assert command.ext_fields == twin.to_ext_fields()


def test_it_reads_messages_and_offsets() -> None:
    found = pull_result(answer(0, FIELDS, encode_record(record(7))))
    assert (found.status, [m.queue_offset for m in found.messages], found.next_begin_offset) == (
        PullStatus.FOUND,
        [7],
        8,
    )
    moved = pull_result(answer(21, FIELDS))
    assert (moved.status, moved.messages, moved.max_offset) == (PullStatus.OFFSET_ILLEGAL, [], 9)


def test_it_raises_for_other_answers() -> None:
    with pytest.raises(MQBrokerError, match="why"):
        pull_result(answer(24, FIELDS))
    with pytest.raises(HeaderFieldError, match="nextBeginOffset"):
        pull_result(answer(0, {"suggestWhichBrokerId": "0"}))
