from __future__ import annotations

import pytest

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.offset import (
    ConsumerOffsetWrapper,
    ResetOffsetBody,
    consumers_in,
)
from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.queue import MessageQueue

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def test_it_reads_the_list_form_of_resets_that_c_clients_get() -> None:
    body = b'{"offsetTable":[{"brokerName":"broker-a","offset":13,"queueId":1,"topic":"T"}]}'
    assert ResetOffsetBody.from_body(body) == ResetOffsetBody({Q1: 13})


def test_it_keys_consumer_offsets_by_topic_and_group() -> None:
    data = b'{"offsetTable":{"T@G":{0:5,1:7},"%RETRY%G@G":{0:1}}}'
    body = ConsumerOffsetWrapper.from_body(data)
    assert body.offset_table == {("T", "G"): {0: 5, 1: 7}, ("%RETRY%G", "G"): {0: 1}}
    assert ConsumerOffsetWrapper.from_body(body.to_body()) == body
    assert b'"T@G":{0:5,1:7}' in body.to_body()


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{}}',
        b'{"offsetTable":{"T@G":{0:5,1:7},"%RETRY%G@G":{0:1}}}',
        b'{"dataVersion":{"counter":3,"timestamp":7},"offsetTable":{"T@G":{0:5},"U@G":{}}}',
        b'{"offsetTable":{"T@G":{0:5}},"dataVersion":{"counter":3}}',
        b'{"offsetTable":{"T@G@c1":{0:5},"nothing":{0:1}},"groupTopicMap":{"a":["b"]}}',
        b'{"offsetTable":{"T@G":{0:5},"T@G":{0:6}}}',
        b'{"offsetTable":{"T@G":{"0":5},"U@G":{1:-1}}}',
        b'{"offsetTable":{"T@G":{0:5}, "U@G":{1:6}}}',
        b'{"offsetTable":{"T@G":{0:5},"U@\\u0047":{1:6}}}',
        b'{"offsetTable":{"T@G":{0:9223372036854775807}}}',
        b'{"more":{"offsetTable":{"T@G":{0:5}}},"offsetTable":{"U@G":{0:6}}}',
        '{"offsetTable":{"主题@G":{0:5}}}'.encode(),
        b"{}",
    ],
)
def test_consumer_offsets_are_cut_as_they_are_parsed(body: bytes) -> None:
    parsed = ConsumerOffsetWrapper.from_value(fastjson.loads(body))
    assert ConsumerOffsetWrapper.from_body(body) == parsed
    topics, groups = consumers_in(body)
    assert topics >= {topic for topic, _ in parsed.offset_table}
    assert groups >= {group for _, group in parsed.offset_table}


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{"T@G":{0:5}',
        b'{"offsetTable":{"T@G":{0:5}}}}',
        b'{"offsetTable":{"T@G":{0:5},}}',
        b'{"offsetTable":{"T@G":{0:5,}}}',
        b'{"offsetTable":{"T@G":{0:5:1,2}}}',
        b'{"offsetTable":{"T@G":{0:5}"U@G":{0:5}}}',
    ],
)
def test_consumer_offsets_that_are_no_body_are_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        ConsumerOffsetWrapper.from_body(body)
