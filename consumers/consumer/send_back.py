"""Giving a message back for a later repetition, or to the dead letters.

Source: semantics reference 4.1, 4.2, 4.4.
"""

from __future__ import annotations

import logging

from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for
from brokerd.remoting.header.headers import ConsumerSendMsgBackRequestHeader
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import MessageProperty, retry_topic
from brokerd.remoting.message.record import MessageRecord
from consumers.client.client_instance import ClientInstance
from consumers.client.route import publish_queues
from consumers.clock import system_clock
from consumers.errors import MQBrokerError, MQClientError
from consumers.producer.send_result import send_request, send_result

logger = logging.getLogger(__name__)

SEND_BACK_TIMEOUT_MS = 5_000
INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
# The level of the first repetition when the broker decides: 10 s; each further one goes a level up.
FIRST_RETRY_LEVEL = 3
DELAY_LEVEL_MAX = 18


def send_back_request(
    message: MessageRecord, broker_name: str, group: str, delay_level: int, max_reconsume_times: int
) -> RemotingCommand:
    """CONSUMER_SEND_MSG_BACK (36). `delay_level` 0: the broker decides, below 0: dead letter at once.

    `max_reconsume_times` below 0 is left out, so that the group's own retryMaxTimes counts (Java always sends
    16 then, and so hides what the operator has set).
    """
    header = ConsumerSendMsgBackRequestHeader(
        offset=message.commit_log_offset,
        group=group,
        delay_level=delay_level,
        origin_msg_id=message.message_id,
        origin_topic=message.topic,
        unit_mode=False,
        max_reconsume_times=max_reconsume_times if max_reconsume_times >= 0 else None,
        broker_name=broker_name,
    )
    return RemotingCommand.request(RequestCode.CONSUMER_SEND_MSG_BACK, header.to_ext_fields())


def retry_message(message: MessageRecord, group: str, delay_level: int, max_reconsume_times: int) -> Message:
    """Return the same message as a new one to `%RETRY%group`.

    It is sent when the broker that stores the message cannot take it back.
    """
    properties = {key: value for key, value in message.properties.items() if key not in NOT_REPEATED}
    properties.setdefault(MessageProperty.ORIGIN_MESSAGE_ID, message.message_id)
    properties[MessageProperty.RETRY_TOPIC] = message.topic
    properties[MessageProperty.RECONSUME_TIME] = str(message.reconsume_times + 1)
    if max_reconsume_times >= 0:
        properties[MessageProperty.MAX_RECONSUME_TIMES] = str(max_reconsume_times)
    level = delay_level if delay_level > 0 else FIRST_RETRY_LEVEL + message.reconsume_times
    properties[MessageProperty.DELAY] = str(min(level, DELAY_LEVEL_MAX))
    return Message(topic=retry_topic(group), body=message.body, properties=properties, flag=message.flag)


NOT_REPEATED = frozenset({MessageProperty.TRANSACTION_PREPARED, MessageProperty.DELAY})


async def send_message_back(
    client: ClientInstance,
    message: MessageRecord,
    broker_name: str,
    group: str,
    *,
    delay_level: int,
    max_reconsume_times: int,
) -> None:
    """Send it back to the broker that stores the message; if it cannot, send a copy to the retry topic of any broker.

    Raises the second attempt's MQBrokerError or MQClientError: the message is then still ours.
    """
    try:
        request = send_back_request(message, broker_name, group, delay_level, max_reconsume_times)
        response = await client.invoke_broker(broker_name, request, SEND_BACK_TIMEOUT_MS)
        if response.code == ResponseCode.SUCCESS:
            return
        raise error_for(response.code, response.remark)
    except (MQClientError, MQBrokerError) as error:
        logger.warning(
            "send back failed, sending a copy group=%s topic=%s queue_id=%d offset=%d: %s",
            group,
            message.topic,
            message.queue_id,
            message.queue_offset,
            error,
        )
    await send_to_retry(client, retry_message(message, group, delay_level, max_reconsume_times))


async def send_to_retry(client: ClientInstance, message: Message) -> None:
    """Send to the first writable queue of the retry topic, trying every broker once.

    Raises the last error.
    """
    queues = publish_queues(message.topic, await client.route(message.topic))
    error: Exception = MQClientError(f"no broker takes messages to {message.topic}")
    for queue in {queue.broker_name: queue for queue in queues}.values():
        request = send_request(
            message,
            message.body,
            queue_id=queue.queue_id,
            broker_name=queue.broker_name,
            producer_group=INNER_PRODUCER_GROUP,
            sys_flag=0,
            born_timestamp_ms=system_clock(),
        )
        try:
            response = await client.invoke_broker(queue.broker_name, request, SEND_BACK_TIMEOUT_MS)
            send_result(response, message, queue)
            return
        except (MQClientError, MQBrokerError) as failure:
            error = failure
    raise error
