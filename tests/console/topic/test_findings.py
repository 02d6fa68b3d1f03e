"""What is wrong with a topic: no reader allowed, one queue with most of the traffic."""

from __future__ import annotations

from console.lag.models import TopicRow
from console.lag.rows.queue_row import TopicQueueRow
from console.topic.findings import findings


def queue(queue_id: int, in_rate: float | None, broker_name: str = "broker-a") -> TopicQueueRow:
    return TopicQueueRow(topic="orders", broker_name=broker_name, queue_id=queue_id, in_rate=in_rate)


def test_a_healthy_topic_has_none() -> None:
    assert findings(TopicRow(perm=6), [queue(0, 5.0), queue(1, 5.0)]) == []


def test_a_topic_that_no_client_may_read_comes_first() -> None:
    found = findings(TopicRow(perm=2), [queue(0, 9.0), queue(1, 1.0)])
    assert [one.status for one in found] == ["STOPPED", "FALLING_BEHIND"]
    assert found[1].title == "broker-a · 0 takes 90 % of the traffic"


def test_queues_of_a_silent_broker_do_not_count() -> None:
    queues = [queue(0, 5.0), queue(1, 5.0), queue(0, 90.0, "broker-b")]
    assert len(findings(TopicRow(perm=6), queues)) == 1
    assert findings(TopicRow(perm=6), queues, {"broker-b"}) == []
