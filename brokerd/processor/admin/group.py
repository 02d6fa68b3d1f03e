"""Group administration: settings and connected members.

Source: protocol §3.12, §3.13 (`AdminBrokerProcessor.java`).
"""

from __future__ import annotations

from brokerd.connections.channel import Channel, address_text
from brokerd.processor.admin.attributes import GROUP_ATTRIBUTES, altered
from brokerd.processor.broker import Broker, BrokerHandler, Saved
from brokerd.remoting.body.client import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    QuerySubscriptionResponseBody,
)
from brokerd.remoting.body.group import (
    GroupForbidden,
    GroupList,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
)
from brokerd.remoting.body.topic import TopicList
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.group import (
    ConsumerGroupRequestHeader,
    DeleteGroupRequestHeader,
    GroupForbiddenRequestHeader,
    GroupRequestHeader,
    ProducerGroupRequestHeader,
    QuerySubscriptionRequestHeader,
)
from brokerd.remoting.header.topic import TopicRequestHeader
from brokerd.remoting.message.names import validate_group, validate_topic

RETRY_TIMES_MAX = 100_000


def update_group(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200). As in Java the name's characters are not judged, blank is."""
    config = SubscriptionGroupConfig.from_request(command.body)
    take_group(broker, config)
    broker.groups.put(config, now_ms)
    return Saved(command.response(ResponseCode.SUCCESS))


def take_group(broker: Broker, config: SubscriptionGroupConfig) -> None:
    """Check it and work its attributes' words into what is stored. Raises MQBrokerError naming what is wrong."""
    if not config.group_name or not config.group_name.strip():
        raise error_for(ResponseCode.INVALID_PARAMETER, "groupName must not be blank")
    if not 0 <= config.retry_queue_nums <= 1024:
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"retryQueueNums {config.retry_queue_nums} is not within 0 and 1024",
        )
    if not -1 <= config.retry_max_times <= RETRY_TIMES_MAX:
        raise error_for(
            ResponseCode.INVALID_PARAMETER,
            f"retryMaxTimes {config.retry_max_times} is not within -1 and {RETRY_TIMES_MAX}",
        )
    known = broker.groups.get(config.group_name)
    current = None if known is None else known.attributes
    config.attributes = altered(current, config.attributes, GROUP_ATTRIBUTES)


def update_groups(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225): all or none."""
    configs = SubscriptionGroupList.from_request(command.body).group_config_list
    for config in configs:
        take_group(broker, config)
    for config in configs:
        broker.groups.put(config, now_ms)
    return Saved(command.response(ResponseCode.SUCCESS))


def delete_group(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """DELETE_SUBSCRIPTIONGROUP (207). Idempotent; its retry and dead-letter topics are separate deletions."""
    header = DeleteGroupRequestHeader.from_ext_fields(command.ext_fields)
    group = header.group_name
    broker.groups.delete(group, now_ms)
    if header.clean_offset:
        broker.offsets.remove_group(group)
        broker.offsets.save()
    broker.assignments.remove_group(group)
    broker.pops.drop(group=group)
    broker.stats.remove_group(group)
    return Saved(command.response(ResponseCode.SUCCESS))


def get_all_groups(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    return command.response(ResponseCode.SUCCESS, body=broker.groups.body())


def get_group(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """GET_SUBSCRIPTIONGROUP_CONFIG (352): a missing group is made when groups may be made on first use."""
    group = GroupRequestHeader.from_ext_fields(command.ext_fields).group
    config = broker.groups.find_or_create(group, now_ms)
    if config is None:
        raise error_for(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {group}")
    return command.response(ResponseCode.SUCCESS, body=config.to_body())


def update_forbidden(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> Saved:
    """UPDATE_AND_GET_GROUP_FORBIDDEN (353): without ``readable`` it only reads.

    As in Java neither group nor topic need exist; illegal names are refused here. Java drops every topic of a
    group when one is allowed again, and saves that only with the next change: here the others stay, and it is
    saved.
    """
    header = GroupForbiddenRequestHeader.from_ext_fields(command.ext_fields)
    group, topic = header.group, header.topic
    try:
        validate_group(group)
        validate_topic(topic)
    except ValueError as error:
        raise error_for(ResponseCode.INVALID_PARAMETER, str(error)) from error
    if header.readable is not None:
        broker.groups.set_readable(group, topic, header.readable, now_ms)
    body = GroupForbidden(topic, group, readable=not broker.groups.is_read_forbidden(group, topic))
    return Saved(command.response(ResponseCode.SUCCESS, "", body=body.to_body()))


def get_consumer_connection(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_CONSUMER_CONNECTION_LIST (203)."""
    group = ConsumerGroupRequestHeader.from_ext_fields(command.ext_fields).consumer_group
    info = broker.consumers.get(group)
    if info is None:
        raise error_for(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
    body = ConsumerConnection(
        connection_set=[
            Connection(
                client_id=member.client_id,
                client_addr=address_text(member.channel.remote_address),
                language=member.language,
                version=member.version,
            )
            for member in info.members.values()
        ],
        subscription_table=dict(info.subscriptions),
        consume_type=info.consume_type,
        message_model=info.message_model,
        consume_from_where=info.consume_from_where,
    )
    return command.response(ResponseCode.SUCCESS, body=body.to_body())


def get_producer_connection(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """GET_PRODUCER_CONNECTION_LIST (204)."""
    group = ProducerGroupRequestHeader.from_ext_fields(command.ext_fields).producer_group
    members = broker.producers.groups.get(group)
    if not members:
        raise error_for(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
    body = ProducerConnection(
        connection_set=[
            Connection(
                client_id=producer.client_id,
                client_addr=address_text(producer.channel.remote_address),
                language=producer.language,
                version=producer.version,
            )
            for producer in members.values()
        ]
    )
    return command.response(ResponseCode.SUCCESS, body=body.to_body())


def query_topic_consume_by_who(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """QUERY_TOPIC_CONSUME_BY_WHO (300): groups that subscribe now or have offsets."""
    topic = TopicRequestHeader.from_ext_fields(command.ext_fields).topic
    groups: set[str] = set()
    if broker.topics.get(topic) is not None:
        groups.update(broker.consumers.groups_of_topic(topic), broker.offsets.groups_of_topic(topic))
    return command.response(ResponseCode.SUCCESS, body=GroupList(group_list=sorted(groups)).to_body())


def query_topics_by_consumer(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """QUERY_TOPICS_BY_CONSUMER (343): topics the group has offsets on."""
    header = GroupRequestHeader.from_ext_fields(command.ext_fields)
    topics = broker.offsets.topics_of_group(header.group)
    body = TopicList(topic_list=topics, broker_addr=broker.address)
    return command.response(ResponseCode.SUCCESS, body=body.to_body())


def query_subscription(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345)."""
    header = QuerySubscriptionRequestHeader.from_ext_fields(command.ext_fields)
    group, topic = header.group, header.topic or ""
    info = broker.consumers.get(group)
    body = QuerySubscriptionResponseBody(
        group=group, topic=topic, subscription_data=info.subscriptions.get(topic) if info else None
    )
    return command.response(ResponseCode.SUCCESS, body=body.to_body())


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: update_group,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: update_groups,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: delete_group,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: get_all_groups,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: get_group,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: update_forbidden,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: get_consumer_connection,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: get_producer_connection,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: query_topic_consume_by_who,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: query_topics_by_consumer,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: query_subscription,
}
