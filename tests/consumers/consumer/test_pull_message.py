from __future__ import annotations

import zlib

import pytest

from brokerd.remoting.message.queue import MessageQueue
from consumers.config import MessageModel, PushConsumerConfig
from consumers.consumer.process_queue import ProcessQueue
from consumers.consumer.pull_message import PullHold, hold_delay_ms, hold_pull, prepare_message
from tests.consumers.records import record

CONFIG = PushConsumerConfig()


def queue_of(*offsets: int, body: bytes = b"x") -> ProcessQueue:
    queue = ProcessQueue(MessageQueue("orders", "broker-a", 0), now_ms=0)
    queue.put_messages([record(offset, body) for offset in offsets])
    return queue


def hold(queue: ProcessQueue, config: PushConsumerConfig = CONFIG, **changed: bool) -> PullHold | None:
    flags = {"orderly": False, "suspended": False} | changed
    return hold_pull(queue, config, orderly=flags["orderly"], suspended=flags["suspended"], now_ms=0)


def test_it_pulls_an_empty_queue():
    assert hold(queue_of()) is None


def test_it_holds_a_suspended_consumer():
    assert hold(queue_of(), suspended=True) is PullHold.SUSPENDED


def test_it_holds_at_more_than_1000_messages():
    assert hold(queue_of(*range(1000))) is None
    assert hold(queue_of(*range(1001))) is PullHold.MESSAGES


def test_it_holds_at_more_than_100_mib():
    mib = b"x" * (1024 * 1024)
    assert hold(queue_of(*range(100), body=mib)) is None
    assert hold(queue_of(*range(101), body=mib)) is PullHold.BYTES


def test_a_limit_of_the_topic_is_that_of_each_of_its_queues_in_equal_parts():
    config = PushConsumerConfig(topic_threshold_messages=10, topic_threshold_bytes=100)
    assert config.thresholds(3) == (3, 33)
    assert config.thresholds(0) == (10, 100)
    assert config.thresholds(1_000) == (1, 1)
    assert PushConsumerConfig().thresholds(3) == (1_000, 100 * 1024 * 1024)
    for offsets, of_three in ((range(3), None), (range(4), PullHold.MESSAGES)):
        queue = queue_of(*offsets)
        flags = {"orderly": False, "suspended": False, "now_ms": 0}
        assert hold_pull(queue, config, **flags, topic_queues=3) is of_three
        assert hold_pull(queue, config, **flags, topic_queues=2) is None
    assert hold_pull(queue_of(0, body=b"x" * 51), config, **flags, topic_queues=2) is PullHold.BYTES


def test_it_holds_a_span_of_more_than_2000_unless_orderly():
    assert hold(queue_of(0, 2000)) is None
    assert hold(queue_of(0, 2001)) is PullHold.SPAN
    locked = queue_of(0, 2001)
    locked.lock_ms = 0
    assert hold(locked, orderly=True) is None


def test_it_holds_an_orderly_queue_without_a_lock():
    assert hold(queue_of(), orderly=True) is PullHold.NOT_LOCKED
    broadcasting = PushConsumerConfig(message_model=MessageModel.BROADCASTING)
    assert hold(queue_of(), broadcasting, orderly=True) is None


@pytest.mark.parametrize(
    ("reason", "delay_ms"),
    [
        (PullHold.SUSPENDED, 1_000),
        (PullHold.MESSAGES, 50),
        (PullHold.BYTES, 50),
        (PullHold.SPAN, 50),
        (PullHold.NOT_LOCKED, 1_000),
    ],
)
def test_it_waits_as_long_as_the_reason_asks(reason, delay_ms):
    assert hold_delay_ms(reason, CONFIG) == delay_ms


def test_it_shows_a_repetition_under_its_first_topic():
    repeated = record(1, topic="%RETRY%billing", properties={"RETRY_TOPIC": "orders"})
    assert prepare_message(repeated, "billing").topic == "orders"
    assert prepare_message(repeated, "other").topic == "%RETRY%billing"


def test_it_decompresses_the_body():
    compressed = record(1, zlib.compress(b"hello"), sys_flag=1 | 3 << 8)
    prepared = prepare_message(compressed, "billing")
    assert prepared.body == b"hello"
    assert prepared.sys_flag == 0


def test_it_gives_a_body_that_does_not_decompress_as_it_is():
    broken = record(1, b"no zlib", sys_flag=1 | 3 << 8)
    assert prepare_message(broken, "billing") == broken
