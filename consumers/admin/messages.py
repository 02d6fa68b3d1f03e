"""MQAdmin's calls about messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from brokerd.remoting.body.client import (
    SubscriptionData,
)
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord, decode_record, decode_records
from consumers.admin.calls import AdminCalls, checked, outcome
from consumers.client.remoting_client import PIPELINE_WINDOW
from consumers.client.subscription import check_body
from consumers.clock import system_clock
from consumers.consumer.pull_result import PullResult, pull_request, pull_result
from consumers.producer.send_result import SendResult, send_request, send_result

# MixAll.TOOLS_CONSUMER_GROUP: every broker has this group, so that browsing creates none.
TOOLS_CONSUMER_GROUP = "TOOLS_CONSUMER"
# MixAll.CLIENT_INNER_PRODUCER_GROUP
INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
# Long.MAX_VALUE: no upper bound of a time range
END_OF_TIME_MS = 2**63 - 1


class MessageAdmin(AdminCalls):
    """Calls that read, filter and send messages."""

    async def view_message(self, addr: str, commit_log_offset: int) -> MessageRecord:
        """Return the message at this place of the commit log.

        Raises MQBrokerError 1 if none. VIEW_MESSAGE_BY_ID (33).
        """
        fields = {"offset": str(commit_log_offset)}
        return decode_record(memoryview(await self._ask_body(addr, RequestCode.VIEW_MESSAGE_BY_ID, fields)))

    async def query_message(
        self,
        addr: str,
        topic: str,
        key: str,
        max_num: int = 64,
        begin_ms: int = 0,
        end_ms: int = END_OF_TIME_MS,
        unique_key: bool = False,
    ) -> list[MessageRecord]:
        """Return messages with this key (or this unique key), oldest first; hash collisions are removed.

        QUERY_MESSAGE (12).
        """
        fields = {
            "topic": topic,
            "key": key,
            "maxNum": str(max_num),
            "beginTimestamp": str(begin_ms),
            "endTimestamp": str(end_ms),
            "_UNIQUE_KEY_QUERY": "true" if unique_key else "false",
        }
        response = await self._invoke(addr, RequestCode.QUERY_MESSAGE, fields)
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        records = decode_records(checked(response).body)
        if unique_key:
            return [record for record in records if record.message_id == key]
        return [record for record in records if record.topic == topic and key in record.keys.split()]

    async def check_filter(
        self,
        addr: str,
        topic: str,
        expression: str,
        expression_type: str = "SQL92",
        *,
        group: str = TOOLS_CONSUMER_GROUP,
    ) -> None:
        """Check whether the broker can read this filter; a pull with one it cannot read gives every message.

        Raises MQBrokerError: 23 for an invalid expression, 1 where the broker filters by tags only.
        CHECK_CLIENT_CONFIG (46).
        """
        subscription = SubscriptionData(topic=topic, sub_string=expression, expression_type=expression_type)
        body = check_body(group, group, subscription)
        await self._ask(addr, RequestCode.CHECK_CLIENT_CONFIG, body=body)

    async def pull(
        self,
        addr: str,
        topic: str,
        queue_id: int,
        offset: int,
        max_num: int = 32,
        subscription: str = "*",
        *,
        expression_type: str = "TAG",
        group: str = TOOLS_CONSUMER_GROUP,
    ) -> PullResult:
        """Read messages without being a member of a group; answers at once. PULL_MESSAGE (11)."""
        request = pull_request(
            MessageQueue(topic, "", queue_id),
            group,
            offset,
            max_num,
            subscription=subscription,
            expression_type=expression_type,
        )
        return pull_result(await self._remoting.invoke(addr, request, self.timeout_ms))

    async def send(
        self, addr: str, message: Message, *, queue_id: int, producer_group: str = INNER_PRODUCER_GROUP
    ) -> SendResult:
        """Send one message to this queue of this broker, once: no retry, so no duplicate.

        SEND_MESSAGE_V2 (310).
        """
        request = self._send_request(message, queue_id, producer_group)
        response = await self._remoting.invoke(addr, request, self.timeout_ms)
        return send_result(response, message, MessageQueue(message.topic, "", queue_id))

    async def send_many(
        self,
        addr: str,
        messages: Sequence[tuple[Message, int]],
        *,
        producer_group: str = INNER_PRODUCER_GROUP,
        window: int = PIPELINE_WINDOW,
    ) -> list[SendResult | Exception]:
        """Send (message, queue id) pairs, pipelined, `window` of them unanswered at a time, each once.

        Each has its result or its error in its place.

        brokerd stores them in this order; Apache's broker, which works in several threads, in any.
        After RemotingTimeout or BrokerUnavailable that message may be stored or not.
        """
        requests = [self._send_request(message, queue_id, producer_group) for message, queue_id in messages]
        answers = await self._remoting.invoke_many(addr, requests, self.timeout_ms, window=window)
        return [
            outcome(
                answer,
                partial(send_result, message=message, sent_to=MessageQueue(message.topic, "", queue_id)),
            )
            for (message, queue_id), answer in zip(messages, answers, strict=True)
        ]

    def _send_request(self, message: Message, queue_id: int, producer_group: str) -> RemotingCommand:
        return send_request(
            message,
            message.body,
            queue_id=queue_id,
            broker_name="",
            producer_group=producer_group,
            sys_flag=0,
            born_timestamp_ms=system_clock(),
            # A topic that has just been deleted is not created again: this default has no configuration either.
            default_topic=message.topic,
        )
