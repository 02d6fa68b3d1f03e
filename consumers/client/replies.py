"""Replies that requests of this client wait for: PUSH_REPLY_MESSAGE_TO_CLIENT (326).

Source: protocol §3.4 (`ClientRemotingProcessor.receiveReplyMessage`, `RequestFutureHolder.java`).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import RemotingCommand
from brokerd.remoting.header.headers import ReplyMessageRequestHeader
from brokerd.remoting.message.compression import decompress
from brokerd.remoting.message.message import Message
from brokerd.remoting.message.names import MessageProperty, SysFlag
from brokerd.remoting.message.properties import parse_properties

logger = logging.getLogger(__name__)

Reply = asyncio.Future[Message]


class Replies:
    """Waiting requests by correlation id. Single-threaded: the event loop of the client instance."""

    def __init__(self) -> None:
        self._waiting: dict[str, Reply] = {}

    @contextmanager
    def expected(self) -> Iterator[tuple[str, Reply]]:
        """Give a new correlation id and the reply to come; behind the block a reply to it is dropped."""
        correlation_id = str(uuid.uuid4())
        reply: Reply = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        try:
            yield correlation_id, reply
        finally:
            del self._waiting[correlation_id]
            reply.cancel()

    async def receive(self, command: RemotingCommand, addr: str) -> RemotingCommand:
        """Take a reply from a broker. One that comes too late is confirmed too: there is nothing to repeat."""
        header = ReplyMessageRequestHeader.from_ext_fields(command.ext_fields)
        properties = parse_properties(header.properties or "")
        body = command.body
        if header.sys_flag & SysFlag.COMPRESSED:
            body = decompress(body, header.sys_flag & SysFlag.COMPRESSION_MASK)
        correlation_id = properties.get(MessageProperty.CORRELATION_ID, "")
        reply = self._waiting.get(correlation_id)
        if reply is None:
            logger.warning("reply dropped, no request waits addr=%s correlation_id=%s", addr, correlation_id)
        elif not reply.done():
            reply.set_result(Message(header.topic, body, properties, header.flag))
        return command.response(ResponseCode.SUCCESS)
