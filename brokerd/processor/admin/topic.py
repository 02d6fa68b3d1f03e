"""Topic administration: create, delete, list, statistics and offsets of a topic's queues.

Source: protocol §3.6, §3.11 (`AdminBrokerProcessor.java`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from brokerd.connections.channel import Channel
from brokerd.processor.admin.attributes import TOPIC_ATTRIBUTES, altered, words_of
from brokerd.processor.broker import Broker, BrokerHandler, Saved
from brokerd.processor.dispatch import answer_later
from brokerd.remoting.body.topic import (
    CreateTopicListRequestBody,
    TopicConfig,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.topic import (
    CreateTopicRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    TopicRequestHeader,
)
from brokerd.remoting.message.names import is_broker_topic, is_light, validate_topic
from brokerd.remoting.message.pop_handle import both_retry_topics
from brokerd.remoting.message.queue import MessageQueue
from brokerd.store.cold_pages import gathered
from brokerd.store.results import BoundaryType
from brokerd.tables.topic_config import QUEUE_NUMS_MAX

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


def create_topic(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """UPDATE_AND_CREATE_TOPIC (17). Idempotent."""
    header = CreateTopicRequestHeader.from_ext_fields(command.ext_fields)
    known = broker.topics.get(header.topic)
    config = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type or "SINGLE_TAG",
        topic_sys_flag=header.topic_sys_flag or 0,
        order=header.order or False,
        attributes=attributes_after(known, words_of(header.attributes or "")),
    )
    refuse_bad_topic(broker, config)
    if config != known:
        broker.topics.put(config, now_ms)
    return Saved(command.response(ResponseCode.SUCCESS))


def create_topics(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """UPDATE_AND_CREATE_TOPIC_LIST (18): all or none. Attributes are words too: `{"+message.type": "FIFO"}`."""
    configs = list(CreateTopicListRequestBody.from_request(command.body).topic_config_list)
    for config in configs:
        refuse_bad_topic(broker, config)
        config.attributes = attributes_after(broker.topics.get(config.topic_name), config.attributes)
    broker.topics.put_all(configs, now_ms)
    return Saved(command.response(ResponseCode.SUCCESS))


def refuse_bad_topic(broker: Broker, config: TopicConfig) -> None:
    """Raise INVALID_PARAMETER naming what is wrong."""
    name = config.topic_name
    try:
        validate_topic(name)
    except ValueError as error:
        raise error_for(ResponseCode.INVALID_PARAMETER, str(error)) from error
    refuse_system_topic(broker, name)
    for field_name in ("read_queue_nums", "write_queue_nums"):
        value = getattr(config, field_name)
        if not 0 < value <= QUEUE_NUMS_MAX:
            raise error_for(
                ResponseCode.INVALID_PARAMETER, f"{field_name} {value} is not within 1 and {QUEUE_NUMS_MAX}"
            )
    known = broker.topics.get(name)
    wanted = config.write_queue_nums - (0 if known is None else known.write_queue_nums)
    if wanted > broker.store.table.room:
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"topic[{name}] needs {wanted} more queues, this system has room for {broker.store.table.room}: "
            "use fewer queues, delete topics, or raise its limits of open files and maps (ulimit -n, vm.max_map_count)",
        )
    if not 0 <= config.perm <= 15:
        raise error_for(ResponseCode.INVALID_PARAMETER, f"perm {config.perm} is not within 0 and 15")
    if config.topic_filter_type not in FILTER_TYPES:
        raise error_for(
            ResponseCode.INVALID_PARAMETER, f"topicFilterType {config.topic_filter_type!r}: {FILTER_TYPES}"
        )


def refuse_system_topic(broker: Broker, name: str) -> None:
    if is_broker_topic(name) or name in broker.topics.system_topics:
        raise error_for(ResponseCode.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")


def attributes_after(known: TopicConfig | None, words: Mapping[str, str]) -> dict[str, str]:
    """Raise MQBrokerError(1) for a word or value of no use here."""
    return altered(None if known is None else known.attributes, words, TOPIC_ATTRIBUTES)


def delete_topic(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> None:
    """DELETE_TOPIC_IN_BROKER (215): settings, offsets, queues; the commit log keeps the records until they expire.

    The topics of its POP retries go with it. Files are removed in a thread, and the answer follows.
    """
    name = TopicRequestHeader.from_ext_fields(command.ext_fields).topic
    if not name.strip():
        raise error_for(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    refuse_system_topic(broker, name)
    if reason := broker.topics.unserved.get(name):
        raise error_for(ResponseCode.NO_PERMISSION, reason)
    groups = broker.offsets.groups_of_topic(name)
    for each in (name, *(retry for group in groups for retry in both_retry_topics(name, group))):
        if broker.topics.delete(each, now_ms) or is_light(each):
            drop_topic_data(broker, each)
            broker.offsets.save()

    async def remove() -> Saved:
        await broker.queue_files.remove_dropped()
        return Saved(command.response(ResponseCode.SUCCESS))

    answer_later(broker, channel, command, remove())


def drop_topic_data(broker: Broker, topic: str) -> None:
    """Drop what is kept of a topic beside its settings; `queue_files.remove_dropped` must follow."""
    broker.offsets.remove_topic(topic)
    broker.assignments.remove_topic(topic)
    broker.pops.drop(topic=topic)
    broker.timer.metrics.drop_topic(topic)
    broker.store.drop_topic(topic)
    broker.stats.remove(topic)


def get_all_topic_config(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    return command.response(ResponseCode.SUCCESS, body=broker.topics.body())


def get_topic_config(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_TOPIC_CONFIG (351)."""
    config = existing_topic(broker, TopicRequestHeader.from_ext_fields(command.ext_fields).topic)
    return command.response(ResponseCode.SUCCESS, body=config.to_body())


def existing_topic(broker: Broker, name: str) -> TopicConfig:
    config = broker.topics.get(name)
    if config is None:
        raise error_for(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    return config


def get_topic_stats(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_TOPIC_STATS_INFO (202)."""
    name = TopicRequestHeader.from_ext_fields(command.ext_fields).topic
    config = existing_topic(broker, name)
    store = broker.store

    def offset_of(queue_id: int) -> tuple[MessageQueue, TopicOffset]:
        low, high = max(0, store.min_offset(name, queue_id)), max(0, store.max_offset(name, queue_id))
        last_ms = max(0, store.store_timestamp(name, queue_id, high - 1)) if high > 0 else 0
        return MessageQueue(name, broker.broker_name, queue_id), TopicOffset(
            min_offset=low, max_offset=high, last_update_timestamp=last_ms
        )

    queue_ids = range(max(config.read_queue_nums, config.write_queue_nums))
    table = dict(gathered(partial(offset_of, queue_id) for queue_id in queue_ids))
    body = TopicStatsTable(offset_table=table, topic_put_tps=broker.stats.topic_put_tps(name))
    return command.response(ResponseCode.SUCCESS, body=body.to_body())


def get_system_topics(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305)."""
    body = TopicList(topic_list=sorted(broker.topics.system_topics), broker_addr=broker.address)
    return command.response(ResponseCode.SUCCESS, body=body.to_body())


def search_offset(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """SEARCH_OFFSET_BY_TIMESTAMP (29)."""
    header = SearchOffsetRequestHeader.from_ext_fields(command.ext_fields)
    upper = (header.boundary_type or "").lower() == "upper"
    offset = broker.store.offset_by_time(
        header.topic,
        header.queue_id,
        header.timestamp,
        BoundaryType.UPPER if upper else BoundaryType.LOWER,
    )
    return command.response(ResponseCode.SUCCESS, ext_fields={"offset": str(offset)})


def get_max_offset(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    header = QueueRequestHeader.from_ext_fields(command.ext_fields)
    offset = broker.store.max_offset(header.topic, header.queue_id)
    return command.response(ResponseCode.SUCCESS, ext_fields={"offset": str(max(0, offset))})


def get_min_offset(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    header = QueueRequestHeader.from_ext_fields(command.ext_fields)
    offset = broker.store.min_offset(header.topic, header.queue_id)
    return command.response(ResponseCode.SUCCESS, ext_fields={"offset": str(max(0, offset))})


def get_earliest_store_time(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    header = QueueRequestHeader.from_ext_fields(command.ext_fields)
    timestamp_ms = broker.store.earliest_store_timestamp(header.topic, header.queue_id)
    return command.response(ResponseCode.SUCCESS, ext_fields={"timestamp": str(timestamp_ms)})


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: create_topic,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: create_topics,
    RequestCode.DELETE_TOPIC_IN_BROKER: delete_topic,
    RequestCode.GET_ALL_TOPIC_CONFIG: get_all_topic_config,
    RequestCode.GET_TOPIC_CONFIG: get_topic_config,
    RequestCode.GET_TOPIC_STATS_INFO: get_topic_stats,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: get_system_topics,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: search_offset,
    RequestCode.GET_MAX_OFFSET: get_max_offset,
    RequestCode.GET_MIN_OFFSET: get_min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: get_earliest_store_time,
}
