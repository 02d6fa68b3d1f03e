"""Dead letters for tests: made by a member that fails, or written as a broker writes them."""

from __future__ import annotations

from console.brokers.mqadmin import Message
from tests.console.operation.live_cluster import LiveCluster, wait_for

GROUP, TOPIC = "billing", "orders"
DLQ, RETRY = "%DLQ%billing", "%RETRY%billing"


def group_with_topics(live: LiveCluster) -> None:
    """Topic, group, retry topic, and a dead-letter topic of one queue, as a broker would have made them."""
    live.create_topic(TOPIC, queues=2)
    live.create_group(GROUP)
    live.create_topic(RETRY, queues=1)
    live.create_topic(DLQ, queues=1)


def write_letters(live: LiveCluster, count: int, start: int = 0) -> None:
    """Letters ``k<n>`` as CONSUMER_SEND_MSG_BACK leaves them in the dead-letter queue."""
    messages = []
    for number in range(start, start + count):
        properties = {
            "KEYS": f"k{number}",
            "TAGS": "even" if number % 2 == 0 else "odd",
            "UNIQ_KEY": f"7F000001{number:024d}",
            "RETRY_TOPIC": TOPIC,
            "ORIGIN_MESSAGE_ID": f"7F00000100002A9F{number:016d}",
            "DELAY": "0",
            "WAIT": "false",
            "colour": "red",
        }
        messages.append((Message(DLQ, b"letter %d" % number, properties), 0))
    for position in range(0, count, 1_000):
        for result in live.admin.send_many(live.addr, messages[position : position + 1_000]):
            assert not isinstance(result, Exception), result


def end(live: LiveCluster, topic: str) -> int:
    """Messages ever written to all queues of a topic."""
    return sum(each.max_offset for each in live.admin.topic_stats(live.addr, topic).offset_table.values())


def die(live: LiveCluster, count: int) -> None:
    """``count`` messages of the topic fail in a real member and end as dead letters."""
    live.send(TOPIC, 0, [b"order %d" % number for number in range(count)], TAGS="paid", KEYS="o1")
    with live.member(GROUP, TOPIC, lambda message: False, max_reconsume_times=0):
        wait_for(lambda: live.has_route(DLQ) and end(live, DLQ) >= count)
