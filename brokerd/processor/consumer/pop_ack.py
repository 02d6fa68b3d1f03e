"""ACK_MESSAGE (200051), BATCH_ACK_MESSAGE (200151), CHANGE_MESSAGE_INVISIBLETIME (200053).

Source: `AckMessageProcessor.java`, `ChangeInvisibleTimeProcessor.java`, semantics §15.
"""

from __future__ import annotations

from brokerd.connections.channel import Channel, address_text
from brokerd.pop.checkpoint import Ack, Checkpoint, CheckpointKey, GroupQueue
from brokerd.pop.order_info import OffsetUnknown
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.consumer.pop_message import INVISIBLE_MAX_MS
from brokerd.processor.route import FAQ
from brokerd.remoting.body.pop import BatchAck, BatchAckMessageRequestBody
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand
from brokerd.remoting.errors import HeaderFieldError, MQBrokerError, error_for
from brokerd.remoting.header.headers import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    PopMessageResponseHeader,
)
from brokerd.remoting.header.send_header import ACK_BEGINNING, decode_ack_head, done_reply
from brokerd.remoting.message.names import REVIVE_QUEUES
from brokerd.remoting.message.pop_handle import (
    ORDER_REVIVE_QUEUE,
    PARTS_MIN,
    Handle,
    parse_handle,
    topic_of_flag,
)
from brokerd.store.errors import NotReady, PutRefused

RUN_MAX = 256  # requests that are acknowledged by one record


def ack_message(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    header = AckMessageRequestHeader.from_ext_fields(command.ext_fields)
    low, high = offsets_of(broker, channel.remote_address, header.topic, header.queue_id)
    if not low <= header.offset <= high:
        raise error_for(
            ResponseCode.NO_MESSAGE,
            f"offset is illegal, key:{header.topic}@{header.queue_id}, commit:{header.offset}, store:{low}~{high}",
        )
    handle = parse_handle(header.extra_info)
    queue = GroupQueue(header.topic, header.consumer_group, header.queue_id)
    if handle.is_order:
        acknowledge_in_order(broker, queue, header.offset, handle.pop_time_ms, now_ms)
    else:
        check_revive_queue(handle.revive_queue_id)
        broker.pops.need_queue(handle.revive_queue_id)
        acknowledge(broker, queue, handle, (header.offset,), now_ms)
    return command.response(ResponseCode.SUCCESS)


def acknowledge_run(
    broker: Broker, data: bytes, start: int, peer: tuple[str, int], now_ms: int
) -> tuple[int, list[bytes]]:
    """Acknowledge, by one record, messages of one pop whose requests follow each other; (where they end, answers).

    Where that is `start` nothing has changed: what is refused, orderly or unusual is the plain handler's. A client that
    acknowledges one by one mostly has several under way: 7 instead of 35 µs each.
    """
    position, low, high = start, 0, 0
    first: tuple[str, str, int, str] | None = None
    offsets: list[int] = []
    answers: list[bytes] = []
    while data.startswith(ACK_BEGINNING, position + 8) and len(offsets) < RUN_MAX:
        decoded = decode_ack_head(data, position)
        if decoded is None or decoded[0].flag & RESPONSE_FLAG:
            break
        head, end = decoded
        fields = head.extFields
        # Handles of one pop differ in their last part, the message's own offset.
        of_pop, _, _ = fields.extra_info.rpartition(" ")
        pop = (fields.topic, fields.consumer_group, fields.queue_id, of_pop)
        if first is None:
            try:
                low, high = offsets_of(broker, peer, fields.topic, fields.queue_id)
                handle = parse_handle(fields.extra_info)
                check_revive_queue(handle.revive_queue_id)
                broker.pops.need_queue(handle.revive_queue_id)
            except (HeaderFieldError, MQBrokerError, NotReady, OSError):
                break
            first = pop
        if pop != first or not low <= fields.offset <= high or of_pop.count(" ") != PARTS_MIN - 1:
            break
        offsets.append(fields.offset)
        if not head.flag & ONEWAY_FLAG:
            answers.append(done_reply(head.opaque))
        position = end
    if first is None or not offsets:
        return start, []
    try:
        acknowledge(broker, GroupQueue(*first[:3]), handle, tuple(dict.fromkeys(offsets)), now_ms)
    except PutRefused:
        return start, []
    return position, answers


def offsets_of(broker: Broker, peer: tuple[str, int], topic: str, queue_id: int) -> tuple[int, int]:
    """Return the queue's first offset and the one after its last. Raises MQBrokerError."""
    config = broker.topics.get(topic)
    if config is None:
        raise error_for(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please! {FAQ}")
    if not 0 <= queue_id < config.read_queue_nums:
        raise error_for(
            ResponseCode.MESSAGE_ILLEGAL,
            f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:"
            f"[{config.read_queue_nums}] consumer:[/{address_text(peer)}]",
        )
    return broker.store.min_offset(topic, queue_id), broker.store.max_offset(topic, queue_id)


def check_revive_queue(queue_id: int) -> None:
    """Raise MQBrokerError for a handle that this broker did not make."""
    if not 0 <= queue_id < REVIVE_QUEUES:
        raise error_for(
            ResponseCode.MESSAGE_ILLEGAL, f"reviveQid[{queue_id}] is illegal: this broker has {REVIVE_QUEUES}"
        )


def acknowledge(
    broker: Broker, queue: GroupQueue, handle: Handle, offsets: tuple[int, ...], now_ms: int
) -> None:
    """Raises PutRefused."""
    name = handle.broker_name
    key = CheckpointKey(
        queue.topic, queue.group, queue.queue_id, handle.start_offset, handle.pop_time_ms, name
    )
    revive_ms = handle.pop_time_ms + handle.invisible_ms
    broker.pops.acknowledge(handle.revive_queue_id, Ack(key, offsets), revive_ms, now_ms)


def acknowledge_in_order(
    broker: Broker, queue: GroupQueue, offset: int, pop_time_ms: int, now_ms: int
) -> None:
    """Commit as far as every message before is acknowledged. Raises MQBrokerError."""
    committed = broker.offsets.committed(queue.group, queue.topic, queue.queue_id)
    if committed is not None and offset < committed:
        return
    try:
        target = broker.pops.order.acknowledge(queue, offset, pop_time_ms)
    except OffsetUnknown:
        raise error_for(
            ResponseCode.MESSAGE_ILLEGAL,
            f"offset is illegal, key:{queue.topic}@{queue.group}@{queue.queue_id}, old:{committed}, commit:{offset},"
            " next:-1",
        ) from None
    if target is None:
        return
    if broker.offsets.pending_reset(queue.group, queue.topic, queue.queue_id) is None:
        broker.offsets.commit(queue.group, queue.topic, queue.queue_id, target, now_ms)
    if broker.pops.order.blocked_until(queue, None, now_ms) is None:
        broker.pops.polls.wake(queue)


def batch_ack_message(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    if not command.body:
        return command.response(ResponseCode.NO_MESSAGE)
    request = BatchAckMessageRequestBody.from_request(command.body)
    if not request.acks:
        return command.response(ResponseCode.NO_MESSAGE)
    for ack in request.acks:  # all are read before the first is stored
        ack.offsets()
        if ack.revive_queue_id != ORDER_REVIVE_QUEUE:
            check_revive_queue(ack.revive_queue_id)
            broker.pops.need_queue(ack.revive_queue_id)
    for ack in request.acks:
        acknowledge_batch(broker, ack, request.broker_name or broker.broker_name, now_ms)
    return command.response(ResponseCode.SUCCESS)


def acknowledge_batch(broker: Broker, ack: BatchAck, broker_name: str, now_ms: int) -> None:
    """Acknowledge the messages of one checkpoint; offsets that the queue does not have are passed over."""
    topic = topic_of_flag(ack.topic, ack.group, ack.retry)
    queue = GroupQueue(topic, ack.group, ack.queue_id)
    low, high = broker.store.min_offset(topic, ack.queue_id), broker.store.max_offset(topic, ack.queue_id)
    offsets = tuple(offset for offset in ack.offsets() if low <= offset <= high)
    if ack.revive_queue_id == ORDER_REVIVE_QUEUE:
        for offset in offsets:
            acknowledge_in_order(broker, queue, offset, ack.pop_time_ms, now_ms)
    elif offsets:
        handle = Handle(
            ack.start_offset, ack.pop_time_ms, ack.invisible_ms, ack.revive_queue_id, ack.retry, broker_name,
            ack.queue_id,
        )  # fmt: skip
        acknowledge(broker, queue, handle, offsets, now_ms)


def change_invisible_time(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """Give one message another time from now on: a checkpoint of its own, then it is acknowledged in the old one."""
    header = ChangeInvisibleTimeRequestHeader.from_ext_fields(command.ext_fields)
    low, high = offsets_of(broker, channel.remote_address, header.topic, header.queue_id)
    if not low <= header.offset < high:
        raise error_for(
            ResponseCode.NO_MESSAGE, f"no message {header.offset}: the queue holds {low} to {high}"
        )
    if not 0 <= header.invisible_time <= INVISIBLE_MAX_MS:
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"invisibleTime={header.invisible_time}: takes 0 to {INVISIBLE_MAX_MS} ms",
        )
    handle = parse_handle(header.extra_info)
    queue = GroupQueue(header.topic, header.consumer_group, header.queue_id)
    if handle.is_order:
        return change_in_order(broker, queue, header, handle, command, now_ms)
    check_revive_queue(handle.revive_queue_id)
    pops, offset = broker.pops, header.offset
    pops.need_queue(handle.revive_queue_id)
    # With the time of its pop the new checkpoint would have the old one's key, and be acknowledged with it.
    pop_time_ms = now_ms if now_ms != handle.pop_time_ms else now_ms + 1
    key = CheckpointKey(*queue, offset, pop_time_ms, handle.broker_name)
    pops.put_checkpoint(handle.revive_queue_id, Checkpoint(key, header.invisible_time, (offset,)), now_ms)
    acknowledge(broker, queue, handle, (offset,), now_ms)
    return changed(command, pop_time_ms, header.invisible_time, handle.revive_queue_id)


def change_in_order(
    broker: Broker,
    queue: GroupQueue,
    header: ChangeInvisibleTimeRequestHeader,
    handle: Handle,
    command: RemotingCommand,
    now_ms: int,
) -> RemotingCommand:
    """The handle keeps the time of its pop; only how long it holds changes."""
    committed = broker.offsets.committed(queue.group, queue.topic, queue.queue_id)
    if committed is not None and header.offset < committed:
        return changed(command, 0, 0, 0)
    visible_ms = now_ms + header.invisible_time
    broker.pops.order.change_visible(queue, header.offset, handle.pop_time_ms, visible_ms)
    broker.pops.polls.wake(queue)  # what waits looks again at when the queue is free
    return changed(command, handle.pop_time_ms, visible_ms - handle.pop_time_ms, handle.revive_queue_id)


def changed(
    command: RemotingCommand, pop_time_ms: int, invisible_ms: int, revive_queue_id: int
) -> RemotingCommand:
    header = PopMessageResponseHeader(pop_time_ms, invisible_ms, revive_queue_id).to_ext_fields()
    del header["restNum"]
    return command.response(ResponseCode.SUCCESS, ext_fields=header)


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.ACK_MESSAGE: ack_message,
    RequestCode.BATCH_ACK_MESSAGE: batch_ack_message,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: change_invisible_time,
}
