"""Members' requests about their group: the member list, committed offsets, orderly locks.

Source: protocol §3.6, §3.10 and §6.3 (`ConsumerManageProcessor.java`, `AdminBrokerProcessor.java`).
"""

from __future__ import annotations

from brokerd.clock import steady_ms
from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.consumer.offset_reset import member_list_for
from brokerd.remoting.body.assignment import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from brokerd.remoting.body.client import ConsumerListBody
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.group import ConsumerGroupRequestHeader
from brokerd.remoting.header.offset import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import decode_record
from brokerd.tables.topic_config import QUEUE_NUMS_MAX

NOT_FOUND = "Not found, do not set to zero, maybe this group boot first"
NOT_FOUND_BOOT_FIRST = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


def get_consumer_list(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    group = ConsumerGroupRequestHeader.from_ext_fields(command.ext_fields).consumer_group
    client_ids = member_list_for(broker, group, channel, steady_ms())
    if not client_ids:
        raise error_for(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
    body = ConsumerListBody(consumer_id_list=client_ids)
    return command.response(ResponseCode.SUCCESS, body=body.to_body())


def update_consumer_offset(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """UPDATE_CONSUMER_OFFSET (15): unconditional, unless a reset waits for the queue (semantics §6)."""
    header = UpdateConsumerOffsetRequestHeader.from_ext_fields(command.ext_fields)
    group, topic, queue_id, offset = (
        header.consumer_group,
        header.topic,
        header.queue_id,
        header.commit_offset,
    )
    if broker.groups.get(group) is None:
        raise error_for(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}")
    config = broker.topics.get(topic)
    if config is None:
        raise error_for(ResponseCode.TOPIC_NOT_EXIST, f"topic not exist, {topic}")
    if queue_id is None or offset is None:
        raise error_for(ResponseCode.INVALID_PARAMETER, "queueId and commitOffset are required")
    if not may_commit(broker, group, topic, queue_id, max(config.read_queue_nums, config.write_queue_nums)):
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal, topic {topic} has no such queue and never had",
        )
    if broker.offsets.pending_reset(group, topic, queue_id) is not None:
        return command.response(ResponseCode.SUCCESS, "Offset has been previously reset")
    broker.offsets.commit(group, topic, queue_id, offset, now_ms)
    return command.response(ResponseCode.SUCCESS)


def may_commit(broker: Broker, group: str, topic: str, queue_id: int, queues: int) -> bool:
    """Whether the queue can have progress: queues may be taken away under a consumer, and keep their messages."""
    return 0 <= queue_id < QUEUE_NUMS_MAX and (
        queue_id < queues
        or broker.store.max_offset(topic, queue_id) > 0
        or broker.offsets.has(group, topic, queue_id)
    )


def query_consumer_offset(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    header = QueryConsumerOffsetRequestHeader.from_ext_fields(command.ext_fields)
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    offset = broker.offsets.query(group, topic, queue_id)
    if offset is None:
        if header.set_zero_if_not_found is False:
            raise error_for(ResponseCode.QUERY_NOT_FOUND, NOT_FOUND)
        if not starts_in_memory(broker, topic, queue_id):
            raise error_for(ResponseCode.QUERY_NOT_FOUND, NOT_FOUND_BOOT_FIRST)
        offset = 0
    return command.response(ResponseCode.SUCCESS, ext_fields={"offset": str(offset)})


def starts_in_memory(broker: Broker, topic: str, queue_id: int) -> bool:
    """Return whether a queue still holds its very first message, and that one is recent.

    A group without an offset then starts at 0 instead of at the end: messages sent before its first member came are not
    lost (protocol §3.6). Recent is, as in Java, the end of the log that fits in a share of the memory.
    """
    store = broker.store
    if store.min_offset(topic, queue_id) > 0 or store.max_offset(topic, queue_id) == 0:
        return False
    views = store.get_message(topic, queue_id, 0, 1).views
    if not views:
        return False
    commit_log_offset = decode_record(views[0]).commit_log_offset
    return store.commit_log_max_offset - commit_log_offset <= store.in_memory_bytes


def is_here(broker: Broker, queue: MessageQueue) -> bool:
    config = broker.topics.get(queue.topic)
    return (
        config is not None
        and queue.broker_name == broker.broker_name
        and 0 <= queue.queue_id < max(config.read_queue_nums, config.write_queue_nums)
    )


def lock_batch(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """LOCK_BATCH_MQ (41). Only queues of this broker can be locked: names of nothing would stay in memory."""
    request = LockBatchRequestBody.from_request(command.body)
    queues = [queue for queue in request.mq_set if is_here(broker, queue)]
    held = broker.locks.lock(request.consumer_group, queues, request.client_id, steady_ms())
    return command.response(ResponseCode.SUCCESS, body=LockBatchResponseBody(lock_ok_mq_set=held).to_body())


def unlock_batch(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    request = UnlockBatchRequestBody.from_request(command.body)
    broker.locks.unlock(request.consumer_group, request.mq_set, request.client_id)
    return command.response(ResponseCode.SUCCESS)


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: get_consumer_list,
    RequestCode.UPDATE_CONSUMER_OFFSET: update_consumer_offset,
    RequestCode.QUERY_CONSUMER_OFFSET: query_consumer_offset,
    RequestCode.LOCK_BATCH_MQ: lock_batch,
    RequestCode.UNLOCK_BATCH_MQ: unlock_batch,
}
