from __future__ import annotations

from brokerd.remoting.message.queue import MessageQueue


def test_it_orders_by_topic_broker_and_number() -> None:
    queues = [
        MessageQueue("U", "a", 0),
        MessageQueue("T", "b", 0),
        MessageQueue("T", "a", 10),
        MessageQueue("T", "a", 9),
    ]
    assert sorted(queues) == list(reversed(queues))
