"""What a slave refuses: everything that writes to the log, whose only author is the master.

Source: semantics §1.10, protocol §4 (`SendMessageProcessor.rejectRequest`, `EndTransactionProcessor.java`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.errors import error_for

REASON = "this broker is a slave: send to its master"
REFUSED: Mapping[int, ResponseCode] = {
    RequestCode.SEND_MESSAGE: ResponseCode.SYSTEM_BUSY,
    RequestCode.SEND_MESSAGE_V2: ResponseCode.SYSTEM_BUSY,
    RequestCode.SEND_BATCH_MESSAGE: ResponseCode.SYSTEM_BUSY,
    RequestCode.CONSUMER_SEND_MSG_BACK: ResponseCode.SYSTEM_BUSY,
    RequestCode.SEND_REPLY_MESSAGE: ResponseCode.SERVICE_NOT_AVAILABLE,
    RequestCode.SEND_REPLY_MESSAGE_V2: ResponseCode.SERVICE_NOT_AVAILABLE,
    RequestCode.END_TRANSACTION: ResponseCode.SLAVE_NOT_AVAILABLE,
    RequestCode.RECALL_MESSAGE: ResponseCode.SLAVE_NOT_AVAILABLE,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: ResponseCode.SYSTEM_ERROR,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResponseCode.SYSTEM_ERROR,
    RequestCode.POP_MESSAGE: ResponseCode.SYSTEM_ERROR,
    RequestCode.ACK_MESSAGE: ResponseCode.SYSTEM_ERROR,
    RequestCode.BATCH_ACK_MESSAGE: ResponseCode.SYSTEM_ERROR,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: ResponseCode.SYSTEM_ERROR,
}


def refuse(broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int) -> NoReturn:
    response_code = REFUSED[command.code]
    busy = "[REJECTREQUEST]" if response_code == ResponseCode.SYSTEM_BUSY else ""
    raise error_for(response_code, f"{busy}{REASON}")


def handlers_of_slave(handlers: Mapping[int, BrokerHandler]) -> dict[int, BrokerHandler]:
    return {**handlers, **dict.fromkeys(REFUSED, refuse)}
