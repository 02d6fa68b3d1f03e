"""The hot path of a send request and its answer against the plain header classes."""

from __future__ import annotations

import pytest

from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import RemotingError
from brokerd.remoting.header.headers import SendMessageRequestHeaderV2
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.queue import MessageQueue
from consumers.producer.send_result import SendResult, SendStatus, send_request, send_result

PLACES = {"queue_id": 3, "sys_flag": 1, "born_timestamp_ms": 1_795_252_423_873}


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize(
    "properties", [{}, {"KEYS": "é 1"}, {"RECONSUME_TIME": "2", "MAX_RECONSUME_TIMES": "16", "TAGS": "a"}]
)
def test_it_writes_the_fields_of_the_header_class(properties: dict[str, str], is_batch: bool) -> None:
    message = Message("orders", b"body", properties, flag=7)
    request = send_request(
        message, b"body", broker_name="broker-a", producer_group="billing", is_batch=is_batch, **PLACES
    )
    kept = {name: value for name, value in properties.items() if not name.endswith(("_TIME", "_TIMES"))}
    twin = SendMessageRequestHeaderV2(
        producer_group="billing",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=3,
        sys_flag=1,
        born_timestamp=1_795_252_423_873,
        flag=7,
        properties=encode_properties(kept).decode(),
        reconsume_times=2 if "RECONSUME_TIME" in properties else 0,
        unit_mode=False,
        max_reconsume_times=16 if "RECONSUME_TIME" in properties else None,
        batch=is_batch,
        broker_name="broker-a",
    )
    assert request.ext_fields == twin.to_ext_fields()


def test_it_reads_the_answer_with_and_without_a_unique_key() -> None:
    fields = {"msgId": "7F" * 16, "queueId": "3", "queueOffset": "42", "transactionId": "T1"}
    answer = RemotingCommand(0, ext_fields=fields)
    queue = MessageQueue("orders", "broker-a", 3)
    keyed = send_result(answer, Message("orders", b"", {"UNIQ_KEY": "U1"}), queue)
    assert keyed == SendResult(SendStatus.SEND_OK, "U1", "7F" * 16, queue, 42)
    assert send_result(answer, Message("orders", b""), queue).message_id == "T1"
    elsewhere = MessageQueue("orders", "broker-a", 0)
    assert send_result(answer, Message("orders", b""), elsewhere).queue == queue


@pytest.mark.parametrize("broken", [{"queueOffset": "x"}, {"queueOffset": "-"}, {"queueId": ""}])
def test_it_refuses_an_answer_that_does_not_say_where(broken: dict[str, str]) -> None:
    fields = {"msgId": "7F" * 16, "queueId": "3", "queueOffset": "42"} | broken
    queue = MessageQueue("orders", "broker-a", 3)
    with pytest.raises(RemotingError):
        send_result(RemotingCommand(0, ext_fields=fields), Message("orders", b"", {"UNIQ_KEY": "U1"}), queue)
