from __future__ import annotations

from brokerd.remoting.body.consume_queue import ConsumeQueueData, QueryConsumeQueueResponseBody


def test_it_writes_units_as_java_does() -> None:
    body = QueryConsumeQueueResponseBody(queue_data=[ConsumeQueueData(5, 6, 7)], max_queue_index=2)
    assert body.to_body() == (
        b'{"maxQueueIndex":2,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":5,"physicSize":6,"tagsCode":7}]}'
    )
