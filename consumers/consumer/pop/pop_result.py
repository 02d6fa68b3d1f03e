"""Requests of POP and the answer to one (protocol 3.9). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from brokerd.remoting.body.client import SubscriptionData
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import BodyError, error_for
from brokerd.remoting.header.headers import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from brokerd.remoting.message.names import MessageProperty
from brokerd.remoting.message.pop_handle import Handle, parse_handle, retry_flag, topic_of_flag
from brokerd.remoting.message.queue import MessageQueue
from brokerd.remoting.message.record import MessageRecord, decode_records
from consumers.config import ConsumeFromWhere, PushConsumerConfig

INIT_MODE_MIN, INIT_MODE_MAX = 0, 1  # ConsumeInitMode


class PopStatus(StrEnum):
    FOUND = "FOUND"
    NOT_FOUND = "NOT_FOUND"
    POLLING_FULL = "POLLING_FULL"


STATUS_OF_CODE: dict[int, PopStatus] = {
    ResponseCode.SUCCESS: PopStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PopStatus.NOT_FOUND,
    ResponseCode.POLLING_TIMEOUT: PopStatus.NOT_FOUND,
    ResponseCode.POLLING_FULL: PopStatus.POLLING_FULL,
}


@dataclass(frozen=True, slots=True)
class PoppedMessage:
    """A message as stored, with what acknowledges it."""

    record: MessageRecord
    handle: Handle

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the broker may have given it to another member."""
        return now_ms - self.handle.pop_time_ms >= self.handle.invisible_ms


@dataclass(frozen=True, slots=True)
class PopResult:
    status: PopStatus
    messages: list[PoppedMessage]


def pop_request(
    queue: MessageQueue,
    group: str,
    subscription: SubscriptionData,
    config: PushConsumerConfig,
    born_ms: int,
) -> RemotingCommand:
    """POP_MESSAGE (200050). `born_ms`: the broker answers too late requests with POLLING_TIMEOUT."""
    is_first = config.consume_from_where is ConsumeFromWhere.FIRST_OFFSET
    header = PopMessageRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        max_msg_nums=config.pop_batch_nums,
        invisible_time=config.pop_invisible_time_ms,
        poll_time=config.broker_suspend_max_ms,
        born_time=born_ms,
        init_mode=INIT_MODE_MIN if is_first else INIT_MODE_MAX,
        exp_type=subscription.expression_type,
        exp=subscription.sub_string,
        order=False,
        broker_name=queue.broker_name,
    )
    return RemotingCommand.request(RequestCode.POP_MESSAGE, header.to_ext_fields())


def pop_result(response: RemotingCommand, broker_name: str) -> PopResult:
    """Read the answer to a pop.

    Raises MQBrokerError for every code that is not a pop status, HeaderFieldError and BodyError for what cannot be
    read.
    """
    status = STATUS_OF_CODE.get(response.code)
    if status is None:
        raise error_for(response.code, response.remark)
    if status is not PopStatus.FOUND:
        return PopResult(status, [])
    header = PopMessageResponseHeader.from_ext_fields(response.ext_fields)
    starts = _start_offsets(header.start_offset_info or "")
    messages = []
    for record in decode_records(response.body):
        text = record.properties.get(MessageProperty.POP_CK)
        handle = parse_handle(text) if text else _handle(record, header, starts, broker_name)
        messages.append(PoppedMessage(record, handle))
    return PopResult(status, messages)


def ack_request(message: PoppedMessage, topic: str, group: str) -> RemotingCommand:
    """ACK_MESSAGE (200051). `topic` is the one that was popped."""
    handle = message.handle
    header = AckMessageRequestHeader(
        consumer_group=group,
        topic=topic_of_flag(topic, group, handle.retry),
        queue_id=handle.queue_id,
        extra_info=handle.text(message.record.queue_offset),
        offset=message.record.queue_offset,
        broker_name=handle.broker_name,
    )
    return RemotingCommand.request(RequestCode.ACK_MESSAGE, header.to_ext_fields())


def change_invisible_time_request(
    message: PoppedMessage, topic: str, group: str, invisible_ms: int
) -> RemotingCommand:
    """CHANGE_MESSAGE_INVISIBLETIME (200053): it comes again `invisible_ms` from now, and is not ours any more."""
    handle = message.handle
    header = ChangeInvisibleTimeRequestHeader(
        consumer_group=group,
        topic=topic_of_flag(topic, group, handle.retry),
        queue_id=handle.queue_id,
        extra_info=handle.text(message.record.queue_offset),
        offset=message.record.queue_offset,
        invisible_time=invisible_ms,
        broker_name=handle.broker_name,
    )
    return RemotingCommand.request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header.to_ext_fields())


def _start_offsets(info: str) -> dict[tuple[str, int], int]:
    """{(retry flag, queue id): offset of the checkpoint}. Raises BodyError."""
    starts = {}
    try:
        for entry in filter(None, info.split(";")):
            flag, queue_id, start = entry.split(" ")
            starts[flag, int(queue_id)] = int(start)
    except ValueError:
        raise BodyError(f"startOffsetInfo={info[:80]!r}: entries are `<retry> <queueId> <offset>`") from None
    return starts


def _handle(
    record: MessageRecord,
    header: PopMessageResponseHeader,
    starts: dict[tuple[str, int], int],
    broker_name: str,
) -> Handle:
    flag = retry_flag(record.topic)
    return Handle(
        start_offset=starts.get((flag, record.queue_id), record.queue_offset),
        pop_time_ms=header.pop_time,
        invisible_ms=header.invisible_time,
        revive_queue_id=header.revive_qid,
        retry=flag,
        broker_name=broker_name,
        queue_id=record.queue_id,
    )
