"""What the requests of POP have in common: their checks, the queues they look at, where each goes on.

Source: `PopMessageProcessor.java`, `NotificationProcessor.java`, `PeekMessageProcessor.java`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from brokerd.connections.channel import Channel, address_text
from brokerd.pop.checkpoint import GroupQueue
from brokerd.processor.broker import Broker
from brokerd.processor.consumer.consumer_manage import starts_in_memory
from brokerd.processor.route import FAQ
from brokerd.remoting.body.topic import TopicConfig
from brokerd.remoting.codes import Permission, ResponseCode
from brokerd.remoting.errors import error_for
from brokerd.remoting.message.names import RETRY_TOPIC_PREFIX
from brokerd.remoting.message.pop_handle import pop_retry_topic

INIT_MIN, INIT_MAX = 0, 1  # ConsumeInitMode.java
ANY_QUEUE = -1


def checked_topic(broker: Broker, channel: Channel, topic: str, queue_id: int, verb: str) -> TopicConfig:
    """Return a topic that may be read, in Java's order of checks. Raises MQBrokerError."""
    if not broker.config.broker.broker_permission & Permission.READ:
        raise error_for(
            ResponseCode.NO_PERMISSION, f"the broker[{broker.address}] {verb} message is forbidden"
        )
    config = broker.topics.get(topic)
    if config is None:
        raise error_for(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please! {FAQ}")
    if not config.perm & Permission.READ:
        raise error_for(ResponseCode.NO_PERMISSION, f"the topic[{topic}] {verb} message is forbidden")
    if reason := broker.topics.unserved.get(topic):
        raise error_for(ResponseCode.NO_PERMISSION, reason)
    if not ANY_QUEUE <= queue_id < config.read_queue_nums:
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:"
            f"[{config.read_queue_nums}] consumer:[/{address_text(channel.remote_address)}]",
        )
    return config


def check_group(broker: Broker, group: str, topic: str, now_ms: int) -> None:
    """Raise MQBrokerError for a group that does not exist, or may not consume."""
    config = broker.groups.find_or_create(group, now_ms)
    if config is None:
        raise error_for(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{group}] does not exist, {FAQ.strip()}",
        )
    if not config.consume_enable:
        raise error_for(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
    if broker.groups.is_read_forbidden(group, topic):
        raise error_for(
            ResponseCode.NO_PERMISSION, f"the consumer group[{group}] is forbidden for topic[{topic}]"
        )


def retry_topics(broker: Broker, topic: str, group: str) -> list[str]:
    """Return where messages of topic and group come back: as configured, and as was configured before."""
    settings = broker.config.broker
    names = [pop_retry_topic(topic, group, is_v2=settings.enable_retry_topic_v2)]
    if settings.enable_retry_topic_v2 and settings.retrieve_message_from_pop_retry_topic_v1:
        names.append(pop_retry_topic(topic, group, is_v2=False))
    return names


def retry_queues(broker: Broker, topic: str, group: str) -> Iterator[GroupQueue]:
    for name in retry_topics(broker, topic, group):
        config = broker.topics.get(name)
        for queue_id in range(0 if config is None else config.read_queue_nums):
            yield GroupQueue(name, group, queue_id)


def queues_in_order(
    broker: Broker, config: TopicConfig, group: str, queue_id: int, *, is_order: bool
) -> list[GroupQueue]:
    """Return the queues to look at: those of the topic from a random one on; retries sometimes first, else last."""
    topic, count = config.topic_name, config.read_queue_nums
    if queue_id == ANY_QUEUE:
        first = random.randrange(max(count, 1))
        numbers: Iterable[int] = ((first + number) % count for number in range(count))
    else:
        numbers = (queue_id,)
    queues = [GroupQueue(topic, group, number) for number in numbers]
    if is_order:
        return queues
    retries = list(retry_queues(broker, topic, group))
    is_first = random.randrange(100) < broker.config.broker.pop_from_retry_probability
    return retries + queues if is_first else queues + retries


def first_offset(broker: Broker, queue: GroupQueue, init_mode: int) -> int:
    """Return where a group begins. Raises NotInMemory."""
    topic, queue_id = queue.topic, queue.queue_id
    if init_mode == INIT_MIN or topic.startswith(RETRY_TOPIC_PREFIX):
        return broker.store.min_offset(topic, queue_id)
    if broker.config.broker.init_pop_offset_by_check_msg_in_mem and starts_in_memory(broker, topic, queue_id):
        return 0
    return max(broker.store.max_offset(topic, queue_id) - 1, 0)


def next_offset(broker: Broker, queue: GroupQueue, init_mode: int = INIT_MIN) -> int:
    """Return where the next pop of a queue goes on; changes nothing. Raises NotInMemory."""
    pending = broker.offsets.pending_reset(queue.group, queue.topic, queue.queue_id)
    if pending is not None:
        return pending
    offset = broker.pops.progress.next_offset(queue)
    return first_offset(broker, queue, init_mode) if offset is None else offset
