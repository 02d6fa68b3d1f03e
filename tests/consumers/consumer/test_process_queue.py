from __future__ import annotations

from brokerd.remoting.message.queue import MessageQueue
from consumers.consumer.process_queue import ProcessQueue, ProcessQueueTable
from tests.consumers.records import record

QUEUE = MessageQueue("orders", "broker-a", 0)


def filled(*offsets: int) -> ProcessQueue:
    queue = ProcessQueue(QUEUE, now_ms=0)
    queue.put_messages([record(offset) for offset in offsets])
    return queue


def test_it_commits_up_to_the_oldest_message_that_is_not_done():
    queue = filled(10, 11, 12)
    assert queue.remove_messages([record(11)]) == 10
    assert queue.remove_messages([record(10)]) == 12
    assert queue.remove_messages([record(12)]) == 13


def test_it_commits_nothing_when_nothing_was_cached():
    assert filled().remove_messages([record(10)]) is None
    queue = filled(10)
    assert queue.remove_messages([record(10)]) == 11
    assert queue.remove_messages([record(10)]) is None


def test_it_counts_messages_bytes_and_span():
    queue = filled(10, 11, 30)
    assert (queue.cached_count, queue.cached_bytes, queue.max_span) == (3, 12, 20)
    queue.remove_messages([record(10)])
    assert (queue.cached_count, queue.cached_bytes, queue.max_span) == (2, 8, 19)
    queue.remove_messages([record(11), record(30)])
    assert (queue.cached_count, queue.cached_bytes, queue.max_span) == (0, 0, 0)


def test_it_counts_a_repeated_offset_once():
    queue = filled(10)
    queue.put_messages([record(10, b"longer body")])
    assert (queue.cached_count, queue.cached_bytes) == (1, 11)


def test_it_finds_messages_whose_handler_hangs():
    queue = filled(10, 11, 12)
    queue.start_messages([record(10), record(11)], now_ms=1_000)
    assert queue.expired_messages(timeout_ms=500, now_ms=1_500) == []
    assert [m.queue_offset for m in queue.expired_messages(timeout_ms=500, now_ms=1_501)] == [10, 11]
    assert [m.queue_offset for m in queue.expired_messages(timeout_ms=500, now_ms=1_501, limit=1)] == [10]


def test_it_stops_looking_for_hanging_messages_at_the_first_that_is_not():
    queue = filled(10, 11)
    queue.start_messages([record(11)], now_ms=0)
    assert queue.expired_messages(timeout_ms=500, now_ms=9_999) == []


def test_it_replaces_a_message_only_while_it_is_cached():
    queue = filled(10)
    assert queue.replace_message(record(10, reconsume_times=1)) is True
    assert queue.replace_message(record(11, reconsume_times=1)) is False


def test_it_gives_messages_in_order_and_commits_what_was_taken():
    queue = filled(10, 11, 12)
    assert [m.queue_offset for m in queue.take_messages(2, now_ms=5)] == [10, 11]
    assert queue.cached_count == 3
    assert queue.commit_taken() == 12
    assert (queue.cached_count, queue.cached_bytes) == (1, 4)
    assert queue.commit_taken() is None


def test_it_drops_what_is_polled():
    queue = filled(10, 11, 12)
    assert [m.queue_offset for m in queue.pop_messages(2, now_ms=5)] == [10, 11]
    assert (queue.cached_count, queue.cached_bytes, queue.last_consume_ms) == (1, 4, 5)
    assert [m.queue_offset for m in queue.pop_messages(2, now_ms=6)] == [12]
    assert (queue.cached_count, queue.cached_bytes, queue.pop_messages(2, now_ms=7)) == (0, 0, [])


def test_it_gives_a_message_that_was_put_back_first_again():
    queue = filled(10, 11, 12)
    first, second = queue.take_messages(2, now_ms=5)
    queue.put_back([second, first])
    assert [m.queue_offset for m in queue.take_messages(3, now_ms=6)] == [10, 11, 12]
    assert (queue.min_offset, queue.max_offset, queue.cached_bytes) == (10, 12, 12)


def test_it_gives_nothing_more_when_it_ends_or_is_dropped():
    ending, dropped = filled(10), filled(10)
    ending.end(now_ms=1)
    dropped.drop()
    assert ending.take_messages(1, now_ms=2) == []
    assert dropped.take_messages(1, now_ms=2) == []


def test_it_trusts_a_lock_for_30_seconds():
    queue = filled()
    assert not queue.is_locked(0)
    queue.lock_ms = 1_000
    assert queue.is_locked(31_000)
    assert not queue.is_locked(31_001)


def table_of(*queue_ids: int) -> ProcessQueueTable:
    table = ProcessQueueTable()
    for queue_id in queue_ids:
        table.add(ProcessQueue(MessageQueue("orders", "broker-a", queue_id), now_ms=0))
    return table


def queues(*queue_ids: int) -> list[MessageQueue]:
    return [MessageQueue("orders", "broker-a", queue_id) for queue_id in queue_ids]


def test_it_drops_and_adds_what_an_allocation_changes():
    change = table_of(0, 1).compare("orders", queues(1, 2, 3), now_ms=0)
    assert change.drop == queues(0)
    assert change.add == queues(2, 3)


def test_it_changes_nothing_for_the_same_allocation():
    assert not table_of(0, 1).compare("orders", queues(1, 0), now_ms=120_000)


def test_it_leaves_other_topics_alone():
    table = table_of(0)
    table.add(ProcessQueue(MessageQueue("clicks", "broker-a", 0), now_ms=0))
    change = table.compare("orders", [], now_ms=0)
    assert change.drop == queues(0)


def test_it_begins_a_queue_anew_that_lost_its_pull_loop():
    change = table_of(0).compare("orders", queues(0), now_ms=120_001)
    assert (change.drop, change.add) == (queues(0), queues(0))


def test_it_begins_a_queue_anew_that_was_ending():
    table = table_of(0)
    process_queue = table.get(queues(0)[0])
    assert process_queue is not None
    process_queue.end(now_ms=1)
    change = table.compare("orders", queues(0), now_ms=2)
    assert (change.drop, change.add) == (queues(0), queues(0))


def test_it_drops_a_queue_that_is_removed():
    table = table_of(0)
    removed = table.remove(queues(0)[0])
    assert removed is not None
    assert removed.is_dropped
    assert len(table) == 0


def test_it_finds_queues_of_topics_that_are_not_subscribed_any_more():
    table = table_of(0)
    assert table.unsubscribed(["orders"]) == []
    assert table.unsubscribed(["clicks"]) == queues(0)


def test_it_describes_itself_for_the_running_info():
    queue = filled(10, 11)
    queue.take_messages(1, now_ms=7)
    info = queue.info(commit_offset=10, now_ms=8)
    assert (info.commit_offset, info.cached_msg_min_offset, info.cached_msg_max_offset) == (10, 10, 11)
    assert (info.cached_msg_count, info.transaction_msg_count, info.last_consume_timestamp) == (2, 1, 7)
    assert not info.dropped
    queue.end(now_ms=9)
    assert queue.info(commit_offset=10, now_ms=9).dropped, "it gives nothing more, as a dropped one of Java's"
