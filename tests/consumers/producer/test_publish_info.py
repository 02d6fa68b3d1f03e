from __future__ import annotations

from brokerd.remoting.body.route import TopicRouteData
from brokerd.remoting.message.queue import MessageQueue
from consumers.producer.publish_info import TopicPublishInfo, next_queue, queue_for_key
from consumers.producer.send_template import SendTemplate

QUEUES = [MessageQueue("orders", broker, queue_id) for broker in ("a", "b") for queue_id in (0, 1)]


def test_it_goes_round() -> None:
    assert [next_queue(QUEUES, index, None) for index in range(5)] == [*QUEUES, QUEUES[0]]


def test_it_avoids_the_broker_that_failed() -> None:
    assert next_queue(QUEUES, 0, "a") == MessageQueue("orders", "b", 0)
    assert next_queue(QUEUES, 3, "a") == MessageQueue("orders", "b", 1)


def test_it_takes_the_failed_broker_if_there_is_no_other() -> None:
    assert next_queue(QUEUES[:2], 1, "a") == MessageQueue("orders", "a", 1)


def test_it_keeps_a_key_in_one_queue() -> None:
    # Java: "acc-1".hashCode() == 92624370, "hello".hashCode() == 99162322
    assert queue_for_key(QUEUES, "hello") == QUEUES[99162322 % 4]
    assert queue_for_key(QUEUES, "") == QUEUES[0]


def test_sends_and_repeated_attempts_share_the_turns() -> None:
    templates = [SendTemplate(queue, "orders", "shop", "TBW102", 4) for queue in QUEUES]
    info = TopicPublishInfo("orders", TopicRouteData(broker_datas=[], queue_datas=[]), QUEUES, templates)
    first = QUEUES.index(info.next())
    taken = [info.next_template().queue, info.next(), info.next_template().queue]
    assert taken == [QUEUES[(first + step) % 4] for step in (1, 2, 3)]
    assert info.next("a").broker_name == "b"
    assert info.next(None, lambda broker_name: broker_name == "b").broker_name == "b"
