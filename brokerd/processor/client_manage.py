"""Owns how clients come and go: heartbeats, unregistering, the check of a consumer's filter.

Source: protocol §6.1 (`ClientManageProcessor.java`).
"""

from __future__ import annotations

from brokerd.channel import Channel
from brokerd.consumer_manager import ClientChannelInfo
from brokerd.filter.sql_parser import compile_expression
from brokerd.filter.sql_tokens import ExpressionError
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.ext_fields import optional, required
from brokerd.processor.pull_message import TAG_TYPES, check_expression_type
from brokerd.producer_manager import ProducerChannelInfo
from brokerd.remoting.bodies import CheckClientRequestBody, ConsumerData, HeartbeatData
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.message import retry_topic


def heart_beat(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> RemotingCommand:
    """HEART_BEAT (34). Every heartbeat is taken as V1: complete, and answered as changed."""
    data = HeartbeatData.from_body(command.body)
    language, version = str(command.language), command.version
    for consumer in data.consumer_data_set:
        if ensure_group(broker, consumer, now_ms):
            client = ClientChannelInfo(channel, data.client_id, language, version, now_ms)
            broker.consumers.register(consumer, client)
    for producer in data.producer_data_set:
        broker.producers.register(
            producer.group_name, ProducerChannelInfo(channel, data.client_id, language, version, now_ms)
        )
    return command.response(
        ResponseCode.SUCCESS, ext_fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    )


def ensure_group(broker: Broker, consumer: ConsumerData, now_ms: int) -> bool:
    """Make the group and its retry topic if need be; False when the group cannot be made (it is skipped)."""
    group = consumer.group_name
    config = broker.groups.find_or_create(group, now_ms)
    if config is None:
        return False
    configs = (broker.topics.get(s.topic) for s in consumer.subscription_data_set)
    is_orderly = any(topic is not None and topic.order for topic in configs)
    if config.retry_queue_nums > 0:
        broker.topics.create_for_send_back(
            retry_topic(group), config.retry_queue_nums, now_ms, order=is_orderly
        )
    return True


def unregister_client(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    required(command, "clientID")
    producer_group, consumer_group = optional(command, "producerGroup"), optional(command, "consumerGroup")
    if producer_group:
        broker.producers.unregister(producer_group, channel)
    if consumer_group:
        broker.consumers.unregister(consumer_group, channel)
    return command.response(ResponseCode.SUCCESS)


def check_client_config(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """CHECK_CLIENT_CONFIG (46): a consumer with a filter that is no tag list asks before it starts."""
    subscription = CheckClientRequestBody.from_body(command.body).subscription_data
    if subscription is not None and subscription.expression_type not in TAG_TYPES:
        check_expression_type(broker, subscription.expression_type)
        try:
            compile_expression(subscription.sub_string)
        except ExpressionError as error:
            raise error_for(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error
    return command.response(ResponseCode.SUCCESS)


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.HEART_BEAT: heart_beat,
    RequestCode.UNREGISTER_CLIENT: unregister_client,
    RequestCode.CHECK_CLIENT_CONFIG: check_client_config,
}
