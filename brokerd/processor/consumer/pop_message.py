"""POP_MESSAGE (200050): take messages of any queue for some time, or wait for one.

    1. checks  2. what is not in memory is read first  3. each queue in turn: its next messages, a checkpoint of them,
    the offset moves on  4. nothing found: held until something arrives, at most pollTime

Source: `PopMessageProcessor.java`, semantics §15. Messages count as taken when their checkpoint is in the log.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from brokerd.broker_stats import GROUP_GET_NUMS, GROUP_GET_SIZE
from brokerd.clock import steady_ms, wall_ms
from brokerd.connections.channel import Channel
from brokerd.pop.checkpoint import MESSAGES_MAX, Checkpoint, CheckpointKey, GroupQueue
from brokerd.pop.polling import Poll
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.client.expression_type import TAG_TYPES
from brokerd.processor.consumer.pop_read import (
    check_group,
    checked_topic,
    first_offset,
    next_offset,
    queues_in_order,
    retry_topics,
)
from brokerd.processor.consumer.pull_message import PullFilter, codes_of_expression, filter_of_request
from brokerd.processor.dispatch import failure
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import MQBrokerError, RemotingError, error_for
from brokerd.remoting.header.headers import PopMessageRequestHeader, PopMessageResponseHeader
from brokerd.remoting.message.hosts import encode_host
from brokerd.remoting.message.names import RETRY_TOPIC_PREFIX, MessageProperty, is_light
from brokerd.remoting.message.pop_handle import (
    ORDER_REVIVE_QUEUE,
    Handle,
    message_offset_info,
    retry_flag,
    start_offset_info,
)
from brokerd.remoting.message.properties import encode_properties
from brokerd.remoting.message.record import MessageRecord, decode_record
from brokerd.store.cold_pages import FileRange, NotInMemory, gathered
from brokerd.store.errors import NotReady, StoreError
from brokerd.store.log.record import encode_record, encode_topic, read_properties
from brokerd.store.queue.light_queues import number_in
from brokerd.store.results import GetMessageResult, GetMessageStatus

INVISIBLE_MAX_MS = 3 * 24 * 3_600_000  # timerMaxDelaySec, within which Apache's broker can revive
LATE_MAX_MS = 500  # PopMessageRequestHeader.isTimeoutTooMuch
POLL_MAX_MS = 60_000  # clients request 15 s and give up after 30 s
POLL_LEFT_MIN_MS = 50  # a poll with less is not worth holding (PopRequest.isTimeout)
QUEUE_OFFSET = struct.Struct(">q")
QUEUE_OFFSET_AT = 20  # of a stored record
NO_MESSAGE, FOUND = "NO_MESSAGE_IN_QUEUE", "FOUND"
MOVED = (
    GetMessageStatus.OFFSET_TOO_SMALL,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY,
    GetMessageStatus.OFFSET_FOUND_NULL,
)
PASSED = (
    GetMessageStatus.NO_MATCHED_MESSAGE,
    GetMessageStatus.OFFSET_FOUND_NULL,
    GetMessageStatus.MESSAGE_WAS_REMOVING,
)


@dataclass(slots=True)
class Pop:
    """A checked request, ready to be run again when it was held."""

    command: RemotingCommand
    header: PopMessageRequestHeader
    filter: PullFilter
    deadline_ms: int  # by the steady clock

    @property
    def is_order(self) -> bool:
        return bool(self.header.order)

    @property
    def queue(self) -> GroupQueue:
        return GroupQueue(self.header.topic, self.header.consumer_group, self.header.queue_id)


@dataclass(slots=True)
class Popped:
    """What one pop has taken so far."""

    pop_time_ms: int
    revive_queue_id: int
    views: list[memoryview | bytes] = field(default_factory=list)
    rest: int = 0
    start_offsets: list[str] = field(default_factory=list)
    message_offsets: list[str] = field(default_factory=list)
    order_counts: list[str] = field(default_factory=list)
    blocked_until_ms: int | None = None  # the first orderly queue that can be popped again, by the wall clock


def handle(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand | None:
    """Answer a pop; None while it is held. Raises NotReady."""
    header = PopMessageRequestHeader.from_ext_fields(command.ext_fields)
    try:
        pop = checked(broker, channel, header, command, now_ms)
        return attempt(broker, channel, pop, now_ms, steady_ms())
    except MQBrokerError as error:
        # Clients read this header whatever the code.
        return command.response(error.code, error.remark, PopMessageResponseHeader().to_ext_fields())


def checked(
    broker: Broker, channel: Channel, header: PopMessageRequestHeader, command: RemotingCommand, now_ms: int
) -> Pop:
    """Raise MQBrokerError."""
    age_ms = now_ms - header.born_time if header.born_time else 0
    if age_ms - header.poll_time > LATE_MAX_MS:
        raise error_for(
            ResponseCode.POLLING_TIMEOUT, f"the broker[{broker.address}] pop message is timeout too much"
        )
    if header.max_msg_nums > MESSAGES_MAX:
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"the broker[{broker.address}] pop message's num is greater than {MESSAGES_MAX}",
        )
    if not 0 < header.invisible_time <= INVISIBLE_MAX_MS:
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"invisibleTime={header.invisible_time}: takes 1 to {INVISIBLE_MAX_MS} ms",
        )
    checked_topic(broker, channel, header.topic, header.queue_id, "pop")
    check_group(broker, header.consumer_group, header.topic, now_ms)
    poll_ms = min(header.poll_time, POLL_MAX_MS) - max(age_ms, 0)
    return Pop(command, header, filter_of(broker, header), steady_ms() + poll_ms)


def filter_of(broker: Broker, header: PopMessageRequestHeader) -> PullFilter:
    """Raise MQBrokerError for an expression that cannot be read."""
    if not header.exp:
        return PullFilter()
    if header.exp_type in TAG_TYPES:
        return PullFilter(codes_of_expression(header.exp))
    return filter_of_request(broker, str(header.exp_type), header.exp)


def attempt(
    broker: Broker, channel: Channel, pop: Pop, now_ms: int, elapsed_ms: int
) -> RemotingCommand | None:
    """Take messages, or hold the request. Raises NotReady before anything is changed, MQBrokerError."""
    popped = take(broker, pop, now_ms)
    if popped.views:
        if popped.rest > 0:
            broker.pops.polls.wake(pop.queue)
        return found(pop, popped)
    code = hold(broker, channel, pop, popped, now_ms, elapsed_ms)
    return None if code is None else answer(pop, popped, code, NO_MESSAGE)


def hold(
    broker: Broker, channel: Channel, pop: Pop, popped: Popped, now_ms: int, elapsed_ms: int
) -> ResponseCode | None:
    """Keep the request until something arrives; the code to answer when it cannot be kept."""
    if pop.header.poll_time <= 0 or pop.deadline_ms - elapsed_ms <= POLL_LEFT_MIN_MS:
        return ResponseCode.POLLING_TIMEOUT
    wake_ms = pop.deadline_ms - POLL_LEFT_MIN_MS
    if popped.blocked_until_ms is not None:
        wake_ms = min(wake_ms, elapsed_ms + popped.blocked_until_ms - now_ms)
    poll = Poll(channel, pop.queue, pop.filter.tags_codes, wake_ms, partial(resume, broker, channel, pop))
    header = pop.header
    topics = [header.topic, *retry_topics(broker, header.topic, header.consumer_group)]
    return None if broker.pops.polls.poll(poll, topics) else ResponseCode.POLLING_FULL


def resume(broker: Broker, channel: Channel, pop: Pop, elapsed_ms: int) -> None:
    """Run a held request again: something arrived, or its time is over."""
    try:
        response = attempt_again(broker, channel, pop, wall_ms(), elapsed_ms)
    except NotReady:
        broker.spawn(resume_when_ready(broker, channel, pop))
        return
    if response is not None:
        channel.send(response)


def attempt_again(
    broker: Broker, channel: Channel, pop: Pop, now_ms: int, elapsed_ms: int
) -> RemotingCommand | None:
    """As attempt; a failure is answered. Raises NotReady."""
    header = pop.header
    try:
        checked_topic(broker, channel, header.topic, header.queue_id, "pop")
        check_group(broker, header.consumer_group, header.topic, now_ms)
        return attempt(broker, channel, pop, now_ms, elapsed_ms)
    except NotReady:
        raise
    except (RemotingError, StoreError, OSError) as error:
        response = failure(pop.command, error, channel)
        response.ext_fields = PopMessageResponseHeader().to_ext_fields()
        return response


async def resume_when_ready(broker: Broker, channel: Channel, pop: Pop) -> None:
    """Resume a request when threads have read or made what it needs; others are served meanwhile."""

    def again() -> RemotingCommand | None:
        return attempt_again(broker, channel, pop, wall_ms(), steady_ms())

    try:
        response = await broker.queue_files.when_made(partial(broker.cold_reads.when_read, again))
    except (OSError, StoreError) as error:
        response = failure(pop.command, error, channel)
    if response is not None:
        channel.send(response)


def take(broker: Broker, pop: Pop, now_ms: int) -> Popped:
    """Take messages of each queue in turn. Raises NotReady before anything is changed, PutRefused."""
    header = pop.header
    config = broker.topics.get(header.topic)
    assert config is not None, header.topic  # it was checked in this turn
    queues = queues_in_order(broker, config, header.consumer_group, header.queue_id, is_order=pop.is_order)
    need_memory(broker, pop, queues)
    revive_queue_id = ORDER_REVIVE_QUEUE if pop.is_order else broker.pops.take_revive_queue()
    popped = Popped(now_ms, revive_queue_id)
    if broker.pops.has_room:
        for queue in queues:
            take_of_queue(broker, pop, queue, popped)
    return popped


def need_memory(broker: Broker, pop: Pop, queues: Sequence[GroupQueue]) -> None:
    """Raise NotInMemory with what a pop would have to wait for the disk for."""
    cold: list[FileRange] = []
    count = pop.header.max_msg_nums
    offsets = gathered(partial(next_offset, broker, queue, pop.header.init_mode) for queue in queues)
    for queue, offset in zip(queues, offsets, strict=True):
        available = broker.store.max_offset(queue.topic, queue.queue_id) - offset
        if available > 0 and count > 0:
            cold += broker.store.cold_pages(queue.topic, queue.queue_id, offset, count, *pop.filter)
            if pop.filter == PullFilter():
                count -= available
    if cold:
        raise NotInMemory(cold)


def take_of_queue(broker: Broker, pop: Pop, queue: GroupQueue, popped: Popped) -> None:
    """Take what one queue has, up to the number requested."""
    header, store, pops = pop.header, broker.store, broker.pops
    now_ms = popped.pop_time_ms
    offset = begin_of(broker, queue, header.init_mode, now_ms)
    if pop.is_order:
        blocked_ms = pops.order.blocked_until(queue, header.attempt_id, now_ms)
        if blocked_ms is not None:
            before = popped.blocked_until_ms
            popped.blocked_until_ms = blocked_ms if before is None else min(before, blocked_ms)
            return
    room = header.max_msg_nums - len(popped.views)
    if room <= 0:
        popped.rest += max(store.max_offset(queue.topic, queue.queue_id) - offset, 0)
        return
    result = read(broker, pop, queue, offset, room)
    if result.status in MOVED:
        pops.progress.move_to(queue, result.next_begin_offset, now_ms)
        offset = result.next_begin_offset
        result = read(broker, pop, queue, offset, room)
    if result.views:
        keep(broker, pop, queue, offset, result, popped)
    elif result.status in PASSED and result.next_begin_offset > offset:
        pops.popped(queue, result.next_begin_offset)
    popped.rest += max(result.max_offset - result.next_begin_offset, 0)


def begin_of(broker: Broker, queue: GroupQueue, init_mode: int, now_ms: int) -> int:
    """Return where a queue goes on, after its reset if one waits; a new group has an offset from here on."""
    target = broker.pops.take_reset(queue, now_ms)
    if target is not None:
        return target
    offset = broker.pops.progress.next_offset(queue)
    if offset is None:
        offset = first_offset(broker, queue, init_mode)
        broker.offsets.commit(queue.group, queue.topic, queue.queue_id, offset, now_ms)
    return offset


def read(broker: Broker, pop: Pop, queue: GroupQueue, offset: int, count: int) -> GetMessageResult:
    tags_codes, properties_filter = pop.filter
    result = broker.store.get_message(
        queue.topic, queue.queue_id, offset, count, tags_codes=tags_codes, record_filter=properties_filter
    )
    if properties_filter is not None:
        broker.filtered_entries += max(0, result.next_begin_offset - offset)
    return result


def keep(
    broker: Broker, pop: Pop, queue: GroupQueue, start: int, result: GetMessageResult, popped: Popped
) -> None:
    """Make durable who has the messages, move on, and add them to the answer. Raises PutRefused."""
    header, pops = pop.header, broker.pops
    pop_time_ms, invisible_ms = popped.pop_time_ms, header.invisible_time
    offsets = tuple(offset_in(queue.topic, view) for view in result.views)
    if pop.is_order:
        popped.order_counts += pops.order.pop(queue, header.attempt_id, pop_time_ms, invisible_ms, offsets)
    else:
        name = broker.broker_name
        key = CheckpointKey(queue.topic, queue.group, queue.queue_id, start, pop_time_ms, name)
        checkpoint = Checkpoint(key, invisible_ms, offsets)
        pops.put_checkpoint(popped.revive_queue_id, checkpoint, pop_time_ms)
        pops.popped(queue, result.next_begin_offset)
    popped.start_offsets.append(start_offset_info(queue.topic, queue.queue_id, start))
    popped.message_offsets.append(message_offset_info(queue.topic, queue.queue_id, offsets))
    is_renamed = queue.topic.startswith(RETRY_TOPIC_PREFIX) and queue.topic != header.topic
    if is_renamed and not broker.config.broker.pop_response_return_actual_retry_topic:
        handle_of = Handle(
            start, pop_time_ms, invisible_ms, popped.revive_queue_id, retry_flag(queue.topic),
            broker.broker_name, queue.queue_id,
        )  # fmt: skip
        popped.views += [renamed(decode_record(view), header.topic, handle_of) for view in result.views]
    else:
        popped.views += result.views
    count_found(broker, queue, result)


def offset_in(topic: str, view: memoryview) -> int:
    """Return a popped record's number in its queue; a light queue has its own beside that in the record."""
    number = number_in(topic, read_properties(view)) if is_light(topic) else None
    offset: int = QUEUE_OFFSET.unpack_from(view, QUEUE_OFFSET_AT)[0]
    return offset if number is None else number


def renamed(record: MessageRecord, topic: str, handle_of: Handle) -> bytes:
    """Return a message of a retry topic under the name of the topic that was popped, with its handle."""
    properties = dict(record.properties)
    properties.setdefault(MessageProperty.POP_CK, handle_of.text(record.queue_offset))
    return encode_record(
        encode_topic(topic),
        record.queue_id,
        record.queue_offset,
        record.commit_log_offset,
        record.body,
        encode_properties(properties),
        record.flag,
        record.sys_flag,
        record.born_timestamp_ms,
        encode_host(record.born_host),
        record.store_timestamp_ms,
        encode_host(record.store_host),
        record.reconsume_times,
        record.prepared_transaction_offset,
    )


def count_found(broker: Broker, queue: GroupQueue, result: GetMessageResult) -> None:
    key = f"{queue.topic}@{queue.group}"
    broker.stats.item(GROUP_GET_NUMS, key).add(result.message_count)
    broker.stats.item(GROUP_GET_SIZE, key).add(result.size_bytes)
    broker.stats.broker_get.add(result.message_count)
    broker.stats.get_found_times += 1


def found(pop: Pop, popped: Popped) -> RemotingCommand:
    response = answer(pop, popped, ResponseCode.SUCCESS, FOUND)
    response.body = b"".join(popped.views)
    return response


def answer(pop: Pop, popped: Popped, code: ResponseCode, remark: str) -> RemotingCommand:
    header = PopMessageResponseHeader(
        pop_time=popped.pop_time_ms,
        invisible_time=pop.header.invisible_time,
        revive_qid=popped.revive_queue_id,
        rest_num=popped.rest,
        start_offset_info=";".join(popped.start_offsets),
        msg_offset_info=";".join(popped.message_offsets),
        order_count_info=";".join(popped.order_counts) if pop.is_order else None,
    )
    return pop.command.response(code, remark, header.to_ext_fields())


HANDLERS: dict[int, BrokerHandler] = {RequestCode.POP_MESSAGE: handle}
