"""Refusals of known requests that this broker does not serve yet."""

from __future__ import annotations

from functools import partial

from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker, BrokerHandler
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import RemotingCommand

NOT_YET = {
    RequestCode.RECALL_MESSAGE: "recalling messages",
}


def refuse(
    feature: str, broker: Broker, channel: Channel, command: RemotingCommand, now_ms: int
) -> RemotingCommand:
    return command.response(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        f" request type {command.code} not supported: {feature} is not part of this broker yet",
    )


HANDLERS: dict[int, BrokerHandler] = {code: partial(refuse, feature) for code, feature in NOT_YET.items()}
