"""Owns the way from bytes to handlers and back: `Dispatcher.process` is the seam behind every connection.

All complete frames of one read are handled together: hot codes by the fast path, the others by a table. Consume-queue
units and long-poll wake-ups follow once per read (hot-path rule 21), then the replies go out in one write.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from brokerd.channel import Channel, address_text
from brokerd.processor.broker import Answer, Saved
from brokerd.remoting.codes import ResponseCode
from brokerd.remoting.command import LENGTH, RemotingCommand, decode_frame
from brokerd.remoting.connection import FRAME_BYTES_MAX
from brokerd.remoting.errors import MQBrokerError, RemotingCommandError, RemotingError
from brokerd.store.errors import StoreError
from brokerd.table_file import TableWriter

logger = logging.getLogger(__name__)

# One turn answers no more than this before it writes: a read can hold a thousand pulls of a MiB each.
REPLY_BYTES_A_TURN = 8 * 1024 * 1024
FRAME_BYTES_MIN = 4  # the word that holds the header's form and length


class HasTables(Protocol):
    """What the dispatcher itself needs of its handlers' context."""

    tables: TableWriter


Context = TypeVar("Context", bound=HasTables)


class Peer(Channel, Protocol):
    """A channel as the dispatcher sees it."""

    last_read_ms: int

    def answered(self, response: RemotingCommand) -> None: ...


class FastPath(Protocol):
    """Handles a hot frame; None when the frame is not for it. `b""`: handled, nothing to write now."""

    @property
    def is_turn_over(self) -> bool:
        """Enough work was done since the last after_read: what is left waits. Asked only where None was answered."""

    def try_frame(self, data: bytes, start: int, end: int, peer: Channel, now_ms: int) -> bytes | None: ...

    def before_plain(self) -> None: ...

    def after_read(self, peer: Channel, replies: list[bytes], now_ms: int) -> list[bytes]: ...


class Dispatcher(Generic[Context]):
    """Turns what a connection received into what it is to send."""

    def __init__(
        self,
        context: Context,
        handlers: Mapping[int, Callable[[Context, Channel, RemotingCommand, int], Answer]],
        fast_path: FastPath | None = None,
    ) -> None:
        self._context = context
        self._handlers = handlers
        self._fast_path = fast_path

    def process(self, data: bytes, peer: Peer) -> tuple[int, list[bytes]]:
        """Handle the complete frames of `data`; (bytes used, frames to write). A malformed frame closes `peer`.

        Frames beyond REPLY_BYTES_A_TURN of answers, or behind as much filtering as one turn does, stay unused: the
        caller comes again when the peer has read and others had their turn.
        """
        now_ms = peer.last_read_ms = time.time_ns() // 1_000_000
        fast_path = self._fast_path
        try_frame = fast_path.try_frame if fast_path is not None else None
        position, end = 0, len(data)
        unpack_length = LENGTH.unpack_from
        replies: list[bytes] = []
        reply_bytes = 0
        while end - position >= 4 and reply_bytes < REPLY_BYTES_A_TURN:
            (length,) = unpack_length(data, position)
            if not FRAME_BYTES_MIN <= length <= FRAME_BYTES_MAX:
                self._malformed(peer, f"frame length {length} is not within 4 and {FRAME_BYTES_MAX}")
                position = end
                break
            frame_end = position + 4 + length
            if frame_end > end:
                break
            reply = try_frame(data, position, frame_end, peer, now_ms) if try_frame is not None else None
            if reply is None:
                if fast_path is not None:
                    if fast_path.is_turn_over:
                        break
                    fast_path.before_plain()
                try:
                    reply = self._answer(decode_frame(data[position + 4 : frame_end]), peer, now_ms)
                except RemotingCommandError as error:
                    self._malformed(peer, str(error))
                    position = end
                    break
            if reply:
                replies.append(reply)
                reply_bytes += len(reply)
            position = frame_end
        if fast_path is not None:
            replies = fast_path.after_read(peer, replies, now_ms)
        return position, replies

    @staticmethod
    def _malformed(peer: Channel, reason: str) -> None:
        logger.warning("malformed frame peer=%s: %s; closing", address_text(peer.remote_address), reason)
        peer.close("malformed frame")

    def _answer(self, command: RemotingCommand, peer: Peer, now_ms: int) -> bytes:
        if command.is_response:
            peer.answered(command)
            return b""
        answer = self.handle(command, peer, now_ms)
        if answer is None or command.is_oneway:
            return b""
        if isinstance(answer, Saved):
            self._answer_when_saved(answer.response, command, peer)
            return b""
        return answer if isinstance(answer, bytes) else answer.encode()

    def _answer_when_saved(self, response: RemotingCommand, command: RemotingCommand, peer: Peer) -> None:
        def answer(error: Exception | None) -> None:
            if error is None:
                peer.send(response)
                return
            peer.send(
                command.response(
                    ResponseCode.SYSTEM_ERROR,
                    f"changed, but not saved: {error}. It is written as soon as that works; a restart before "
                    "brings the state before it back",
                )
            )

        self._context.tables.when_saved(answer)

    def handle(self, command: RemotingCommand, peer: Channel, now_ms: int) -> Answer:
        """Run one request's handler; every failure becomes a response code and a remark."""
        handler = self._handlers.get(command.code)
        if handler is None:
            return command.response(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
            )
        try:
            return handler(self._context, peer, command, now_ms)
        except MQBrokerError as error:
            return command.response(error.code, error.remark)
        except StoreError as error:
            logger.warning("request failed code=%d: %s", command.code, error)
            return command.response(ResponseCode.SYSTEM_ERROR, str(error))
        except (RemotingError, ValueError, OverflowError) as error:
            return command.response(ResponseCode.SYSTEM_ERROR, f"request {command.code}: {error}")
        except OSError as error:
            logger.error("request failed code=%d: %s", command.code, error)  # noqa: TRY400
            return command.response(ResponseCode.SYSTEM_ERROR, f"the broker cannot save this: {error}")
        except Exception:
            logger.exception(
                "request failed code=%d peer=%s", command.code, address_text(peer.remote_address)
            )
            return command.response(
                ResponseCode.SYSTEM_ERROR, f"request {command.code} failed inside the broker; see its log"
            )
