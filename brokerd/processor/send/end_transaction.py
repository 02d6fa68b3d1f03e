"""The end of transactions: END_TRANSACTION (37), and RESUME_CHECK_HALF_MESSAGE (323) for those given up.

Source: protocol §3.7 (`EndTransactionProcessor.java`, `AdminBrokerProcessor.java`).
"""

from __future__ import annotations

import logging

from brokerd.connections.channel import Channel, address_text
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.processor.send.send_message import PUT_CODES
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import HeaderFieldError, MQBrokerError, error_for
from brokerd.remoting.header.headers import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from brokerd.remoting.header.send_header import EndTransactionFields
from brokerd.remoting.message.ids import decode_offset_message_id
from brokerd.remoting.message.names import SysFlag
from brokerd.store.errors import PutRefused

logger = logging.getLogger(__name__)

UNDECIDED = 0
DECISIONS = (SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK)


def end_transaction(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand | None:
    header = EndTransactionRequestHeader.from_ext_fields(command.ext_fields)
    try:
        is_answered = end(broker, header, now_ms)
    except MQBrokerError as error:
        # Most clients request it one-way: this line is all that shows why a message stays invisible.
        logger.warning(
            "transaction not ended group=%s peer=%s half_offset=%d: %s",
            header.producer_group, address_text(channel.remote_address), header.tran_state_table_offset, error.remark,
        )  # fmt: skip
        raise
    except PutRefused as error:
        broker.stats.put_failed_total += 1
        raise error_for(PUT_CODES.get(error.status, ResponseCode.SYSTEM_ERROR), str(error)) from error
    return command.response(ResponseCode.SUCCESS) if is_answered else None


def end(broker: Broker, header: EndTransactionRequestHeader | EndTransactionFields, now_ms: int) -> bool:
    """Commit or roll back; False for a state that is unknown yet, which is never answered.

    Raises HeaderFieldError, MQBrokerError, PutRefused, NotReady; nothing has changed then.
    """
    if header.commit_or_rollback == UNDECIDED:
        return False
    if header.commit_or_rollback not in DECISIONS:
        raise HeaderFieldError("commitOrRollback", str(header.commit_or_rollback), "takes 0, 8 or 12")
    committed = broker.transactions.end(header, now_ms)
    if committed is not None:
        broker.sender.count_put(committed.topic, committed.size_bytes)
    return True


def resume_check_half_message(
    broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    """Let a message's producers be asked anew, as often as at first."""
    header = ResumeCheckHalfMessageRequestHeader.from_ext_fields(command.ext_fields)
    try:
        _, _, commit_log_offset = decode_offset_message_id(header.msg_id)
    except ValueError as error:
        raise HeaderFieldError("msgId", header.msg_id, str(error)) from error
    try:
        broker.transactions.resume(commit_log_offset, now_ms)
    except PutRefused as error:
        raise error_for(PUT_CODES.get(error.status, ResponseCode.SYSTEM_ERROR), str(error)) from error
    return command.response(ResponseCode.SUCCESS)


HANDLERS: dict[int, BrokerHandler] = {
    RequestCode.END_TRANSACTION: end_transaction,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: resume_check_half_message,
}
