"""Access control in front of the handlers. A broker without it has neither of these classes on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from brokerd.acl.access_control import AccessControl
from brokerd.connections.channel import Channel
from brokerd.processor.broker import Answer, Broker, BrokerHandler
from brokerd.processor.dispatch import Run
from brokerd.processor.hot_path import HotPath
from brokerd.processor.send.send_message import Sender
from brokerd.remoting.command import LENGTH, RemotingCommand, decode_frame
from brokerd.remoting.errors import MQBrokerError
from brokerd.remoting.header.send_header import begins_hot

Check = Callable[[RemotingCommand, str], None]


def guarded(handlers: Mapping[int, BrokerHandler], check: Check) -> dict[int, BrokerHandler]:
    """Return the handlers, each behind the check."""
    return {code: partial(_checked, handler, check) for code, handler in handlers.items()}


def _checked(
    handler: BrokerHandler,
    check: Check,
    broker: Broker,
    channel: Channel,
    command: RemotingCommand,
    now_ms: int,
) -> Answer:
    check(command, channel.remote_address[0])
    return handler(broker, channel, command, now_ms)


class GuardedHotPath(HotPath):
    """The fast way, for peers that need no account and for requests that pass the check of the plain handlers."""

    def __init__(self, broker: Broker, sender: Sender, access: AccessControl) -> None:
        super().__init__(broker, sender)
        self._access = access

    def run_for(self, peer: Channel) -> Run | None:
        return super().run_for(peer) if self._access.is_white(peer.remote_address[0]) else None

    def try_frame(self, data: bytes, start: int, end: int, peer: Channel, now_ms: int) -> bytes | None:
        host = peer.remote_address[0]
        if not self._access.is_white(host):
            if not begins_hot(data, start):
                return None
            command = decode_frame(memoryview(data)[start + LENGTH.size : end])
            try:
                self._access.check(command, host)
            except MQBrokerError:
                return None  # the plain handlers refuse it
        return super().try_frame(data, start, end, peer, now_ms)
