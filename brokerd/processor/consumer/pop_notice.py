"""Requests about what a pop would find: NOTIFICATION (200054), POLLING_INFO (200055), PEEK_MESSAGE (200052).

Source: `NotificationProcessor.java`, `PollingInfoProcessor.java`, `PeekMessageProcessor.java`.
"""

from __future__ import annotations

from brokerd.clock import steady_ms, wall_ms
from brokerd.connections.channel import Channel
from brokerd.pop.checkpoint import MESSAGES_MAX, GroupQueue
from brokerd.pop.polling import Poll
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.consumer.pop_message import POLL_LEFT_MIN_MS, POLL_MAX_MS
from brokerd.processor.consumer.pop_read import (
    check_group,
    checked_topic,
    next_offset,
    queues_in_order,
    retry_topics,
)
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.headers import (
    PeekMessageRequestHeader,
    PollRequestHeader,
    PopMessageResponseHeader,
)
from brokerd.store.cold_pages import FileRange, NotInMemory


def notification(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand | None:
    """Answer whether there is something to pop, at once or within pollTime."""
    header = PollRequestHeader.from_ext_fields(command.ext_fields)
    checked_topic(broker, channel, header.topic, header.queue_id, "peeking")
    check_group(broker, header.consumer_group, header.topic, now_ms)
    age_ms = max(now_ms - header.born_time, 0) if header.born_time else 0
    deadline_ms = steady_ms() + min(header.poll_time, POLL_MAX_MS) - age_ms
    return notify(broker, channel, command, header, deadline_ms, now_ms, steady_ms())


def notify(
    broker: Broker,
    channel: Channel,
    command: RemotingCommand,
    header: PollRequestHeader,
    deadline_ms: int,
    now_ms: int,
    elapsed_ms: int,
) -> RemotingCommand | None:
    has_message = is_any(broker, header, now_ms)
    is_full = False
    if not has_message and header.poll_time > 0 and deadline_ms - elapsed_ms > POLL_LEFT_MIN_MS:
        group, topic = header.consumer_group, header.topic

        def resume(elapsed_ms: int) -> None:
            again = notify(broker, channel, command, header, deadline_ms, wall_ms(), elapsed_ms)
            if again is not None:
                channel.send(again)

        queue = GroupQueue(topic, group, header.queue_id)
        poll = Poll(channel, queue, None, deadline_ms - POLL_LEFT_MIN_MS, resume)
        if broker.pops.notifications.poll(poll, [topic, *retry_topics(broker, topic, group)]):
            return None
        is_full = True
    fields = {"hasMsg": str(has_message).lower(), "pollingFull": str(is_full).lower()}
    return command.response(ResponseCode.SUCCESS, ext_fields=fields)


def is_any(broker: Broker, header: PollRequestHeader, now_ms: int) -> bool:
    """Whether a pop would find a message; filters are not looked at, as in Java."""
    config = broker.topics.get(header.topic)
    if config is None:
        return False
    queues = queues_in_order(broker, config, header.consumer_group, header.queue_id, is_order=False)
    return any(is_one(broker, header, queue, now_ms) for queue in queues)


def is_one(broker: Broker, header: PollRequestHeader, queue: GroupQueue, now_ms: int) -> bool:
    if header.order and broker.pops.order.blocked_until(queue, header.attempt_id, now_ms) is not None:
        return False
    return broker.store.max_offset(queue.topic, queue.queue_id) > next_offset(broker, queue)


def polling_info(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """Answer how many pops wait. `inFlight` is ours: messages popped and not acknowledged, of any queue with -1."""
    header = PollRequestHeader.from_ext_fields(command.ext_fields)
    checked_topic(broker, channel, header.topic, header.queue_id, "peeking")
    check_group(broker, header.consumer_group, header.topic, now_ms)
    queue = GroupQueue(header.topic, header.consumer_group, header.queue_id)
    fields = {
        "pollingNum": str(broker.pops.polls.count_of(queue)),
        "inFlight": str(broker.pops.in_flight_of(queue)),
    }
    return command.response(ResponseCode.SUCCESS, ext_fields=fields)


def peek_message(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """Answer what a pop would take; nothing is taken. Raises NotInMemory."""
    header = PeekMessageRequestHeader.from_ext_fields(command.ext_fields)
    config = checked_topic(broker, channel, header.topic, header.queue_id, "peeking")
    check_group(broker, header.consumer_group, header.topic, now_ms)
    if header.max_msg_nums > MESSAGES_MAX:
        raise error_for(
            ResponseCode.INVALID_PARAMETER, f"maxMsgNums={header.max_msg_nums}: at most {MESSAGES_MAX}"
        )
    views: list[memoryview] = []
    cold: list[FileRange] = []
    rest = 0
    for queue in queues_in_order(broker, config, header.consumer_group, header.queue_id, is_order=False):
        offset = next_offset(broker, queue)
        rest += max(broker.store.max_offset(queue.topic, queue.queue_id) - offset, 0)
        room = header.max_msg_nums - len(views)
        if room > 0:
            cold += broker.store.cold_pages(queue.topic, queue.queue_id, offset, room)
            result = broker.store.get_message(queue.topic, queue.queue_id, offset, room)
            views += result.views
    if cold:
        raise NotInMemory(cold)
    fields = PopMessageResponseHeader(rest_num=rest).to_ext_fields()
    if not views:
        return command.response(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", fields)
    return command.response(ResponseCode.SUCCESS, "FOUND", fields, b"".join(views))


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.NOTIFICATION: notification,
    RequestCode.POLLING_INFO: polling_info,
    RequestCode.PEEK_MESSAGE: peek_message,
}
