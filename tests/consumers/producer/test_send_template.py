"""The hot path of a send's frame against its plain twin."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerd.remoting.message.message import Message
from brokerd.remoting.message.queue import MessageQueue
from consumers.producer.send_result import send_request
from consumers.producer.send_template import SPECIAL_PROPERTIES, SendTemplate

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
INT32 = st.integers(-(2**31), 2**31 - 1)


def plain(message: Message, body: bytes, queue: MessageQueue, *, opaque: int, **fields: int) -> bytes:
    request = send_request(
        message,
        body,
        queue_id=queue.queue_id,
        broker_name=queue.broker_name,
        producer_group="%100s%b",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        **fields,
    )
    request.opaque = opaque
    return request.encode()


@given(
    topic=TEXT,
    broker_name=TEXT,
    properties=st.dictionaries(TEXT.filter(lambda name: name not in SPECIAL_PROPERTIES), TEXT, max_size=4),
    body=st.binary(max_size=20),
    numbers=st.tuples(INT32, INT32, INT32, INT32),
)
@example("%RETRY%a", "broker-a", {"KEYS": 'a"\\ é'}, b"x", (0, 2**31 - 1, 0, 1))
def test_it_writes_the_frame_of_the_plain_request(
    topic: str, broker_name: str, properties: dict[str, str], body: bytes, numbers: tuple[int, int, int, int]
) -> None:
    flag, opaque, queue_id, sys_flag = numbers
    message = Message(topic, b"not compressed", properties, flag)
    queue = MessageQueue(topic, broker_name, queue_id)
    template = SendTemplate(queue, topic, "%100s%b", "TBW102", 4)
    values = {"sys_flag": sys_flag, "born_timestamp_ms": 1_795_252_423_873, "opaque": opaque}
    assert template.encode(message, body, **values) == plain(message, body, queue, **values)


def test_it_names_the_topic_as_brokers_store_it() -> None:
    template = SendTemplate(MessageQueue("orders", "broker-a", 1), "emea%orders", "shop", "TBW102", 4)
    frame = template.encode(Message("orders", b"x"), b"x", 0, 1, 7)
    assert b'"b":"emea%orders"' in frame
    assert template.queue == MessageQueue("orders", "broker-a", 1)


def test_it_refuses_properties_that_are_no_text() -> None:
    template = SendTemplate(MessageQueue("orders", "broker-a", 1), "orders", "shop", "TBW102", 4)
    with pytest.raises(ValueError, match="properties of the message"):
        template.encode(Message("orders", b"x", {"KEYS": "\ud800"}), b"x", 0, 1, 7)
