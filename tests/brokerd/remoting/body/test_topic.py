from __future__ import annotations

import pytest

from brokerd.remoting.body import fastjson
from brokerd.remoting.body.topic import TopicStatsTable, queue_ranges
from brokerd.remoting.errors import BodyError

ENTRY = b'{"brokerName":"b","queueId":%d,"topic":"T"}:{"lastUpdateTimestamp":3,"maxOffset":2,"minOffset":-1}'


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{}}',
        b'{"offsetTable":{},"topicPutTps":1.5}',
        b'{"offsetTable":{%b}}' % (ENTRY % 0),
        b'{"offsetTable":{%b,%b},"topicPutTps":0}' % (ENTRY % 0, ENTRY % 1),
        b'{"offsetTable":{%b},"more":{"a":1}}' % (ENTRY % 0),  # as a later release may print it
        b'{"offsetTable":{%b, %b}}' % (ENTRY % 0, ENTRY % 1),
        b'{"topicPutTps":2.0,"offsetTable":{%b}}' % (ENTRY % 0),
        b'{"offsetTable":{{"topic":"T","brokerName":"b","queueId":0}:{"maxOffset":2}}}',
        '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"主题"}:{"maxOffset":2}}}'.encode(),
        b"{}",
    ],
)
def test_topic_stats_are_cut_as_they_are_parsed(body: bytes) -> None:
    parsed = TopicStatsTable.from_value(fastjson.loads(body))
    assert TopicStatsTable.from_body(body) == parsed
    assert queue_ranges(body) == sorted(
        (queue.queue_id, one.min_offset, one.max_offset, one.last_update_timestamp)
        for queue, one in parsed.offset_table.items()
    )


@pytest.mark.parametrize("tail", [b",}}", b"}", b"}}}", b"%b}}" % (ENTRY % 1), b'},"topicPutTps":}'])
def test_topic_stats_that_are_no_body_are_refused(tail: bytes) -> None:
    with pytest.raises(BodyError):
        TopicStatsTable.from_body(b'{"offsetTable":{' + ENTRY % 0 + tail)
    with pytest.raises(BodyError):
        queue_ranges(b'{"offsetTable":{' + ENTRY % 0 + tail)
