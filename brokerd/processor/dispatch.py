"""The way from bytes to handlers and back: `Dispatcher.process` is the seam behind every connection.

All complete frames of one read are handled together: hot codes by the fast path, the others by a table. Consume-queue
units and long-poll wake-ups follow once per read (hot-path rule 21), then the replies go out in one write.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Generic, Protocol, TypeVar

from brokerd.clock import STEADY_OFFSET_MS, steady_ms, wall_ms
from brokerd.connections.channel import Channel, address_text
from brokerd.processor.broker import Answer, Broker, Saved
from brokerd.processor.not_served import refusal
from brokerd.remoting.codes import RequestCode, ResponseCode
from brokerd.remoting.command import LENGTH, RemotingCommand, decode_frame
from brokerd.remoting.connection import FRAME_BYTES_MAX
from brokerd.remoting.errors import MQBrokerError, RemotingCommandError, RemotingError
from brokerd.store.errors import NotReady, StoreError
from brokerd.store.queue.consume_queue_table import QueueMissing
from brokerd.tables.table_file import TableWriter

logger = logging.getLogger(__name__)

# One turn answers no more than this before it writes: a read can hold a thousand pulls of a MiB each.
REPLY_BYTES_A_TURN = 2 * 1024 * 1024
TURN_NS_MAX = 5_000_000  # and handles no more requests once it took that long
# Properties of 32 KiB, with every character escaped; a pull's expression has 16 KiB.
HEADER_BYTES_MAX = 256 * 1024
WAITING_BYTES_MAX = 64 * 1024 * 1024  # of requests that wait for pages
INSIDE = "request %d failed inside the broker; see its log"
FRAME_BYTES_MIN = 4  # the word that holds the header's form and length


# What a body may have, by what clients send: the rest has none, or a few names. Messages are limited by the store.
OTHER_BODY_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX: Mapping[int, int] = {
    RequestCode.SEND_MESSAGE: FRAME_BYTES_MAX,
    RequestCode.SEND_MESSAGE_V2: FRAME_BYTES_MAX,
    RequestCode.SEND_BATCH_MESSAGE: FRAME_BYTES_MAX,
    RequestCode.SEND_REPLY_MESSAGE: FRAME_BYTES_MAX,
    RequestCode.SEND_REPLY_MESSAGE_V2: FRAME_BYTES_MAX,
    RequestCode.HEART_BEAT: 1024 * 1024,
    RequestCode.LOCK_BATCH_MQ: 512 * 1024,  # 5,000 queues
    RequestCode.UNLOCK_BATCH_MQ: 512 * 1024,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: 1024 * 1024,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: 1024 * 1024,
    RequestCode.TIDEMARK_PUT_ASSIGNMENT: 1024 * 1024,
    RequestCode.REGISTER_BROKER: 8 * 1024 * 1024,  # 50,000 topics of another broker
}


def is_header_too_long(data: bytes, position: int) -> bool:
    """Return whether the header of the frame at `position` has more than HEADER_BYTES_MAX."""
    return int.from_bytes(data[position + 5 : position + 8], "big") > HEADER_BYTES_MAX


class HasTables(Protocol):
    """What the dispatcher itself needs of its handlers' context."""

    tables: TableWriter


Context = TypeVar("Context", bound=HasTables)


class Peer(Channel, Protocol):
    """A channel as the dispatcher sees it."""

    last_read_ms: int

    def answered(self, response: RemotingCommand) -> None: ...

    def wait(self) -> None:
        """Keep the requests that were read until `go_on`."""

    def go_on(self) -> None: ...


# (data, position, address of the peer, now_ms) → where what it handled ends, and the answers to it.
Run = Callable[[bytes, int, tuple[str, int], int], tuple[int, list[bytes]]]


class FastPath(Protocol):
    """Handles a hot frame; None when the frame is not for it. `b""`: handled, nothing to write now."""

    @property
    def is_turn_over(self) -> bool:
        """Enough work was done since the last after_read: what is left waits. Asked only where None was answered."""

    def run_for(self, peer: Channel) -> Run | None:
        """What handles many frames in one call, where this peer's may go that way."""

    def try_frame(self, data: bytes, start: int, end: int, peer: Channel, now_ms: int) -> bytes | None: ...

    def before_plain(self, code: int) -> None: ...

    def after_read(self, peer: Channel, replies: list[bytes], began_ms: int) -> list[bytes]: ...


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
        self._waiting_bytes = 0  # of requests that wait for a thread

    @property
    def is_waiting(self) -> bool:
        """Requests that were read wait for a thread."""
        return self._waiting_bytes > 0

    def process(self, data: bytes, peer: Peer) -> tuple[int, list[bytes]]:
        """Handle the complete frames of `data`; (bytes used, frames to write). A malformed frame closes `peer`.

        Frames beyond REPLY_BYTES_A_TURN of answers, TURN_NS_MAX of work, or as much filtering as one turn does, stay
        unused: the caller comes again when the peer has read and others had their turn.
        """
        now_ms, began_ns = time.time_ns() // 1_000_000, time.monotonic_ns()
        peer.last_read_ms = began_ms = began_ns // 1_000_000 + STEADY_OFFSET_MS
        fast_path = self._fast_path
        try_frame, run = (fast_path.try_frame, fast_path.run_for(peer)) if fast_path else (None, None)
        position, end, reply_bytes = 0, len(data), 0
        unpack_length = LENGTH.unpack_from
        replies: list[bytes] = []
        while end - position >= 4 and reply_bytes < REPLY_BYTES_A_TURN:
            if position and time.monotonic_ns() - began_ns > TURN_NS_MAX:
                break
            if run is not None:
                run_end, answers = run(data, position, peer.remote_address, now_ms)
                if run_end > position:
                    replies += answers
                    position, reply_bytes = run_end, reply_bytes + sum(map(len, answers))
                    continue
            (length,) = unpack_length(data, position)
            frame_end = position + 4 + length
            if not FRAME_BYTES_MIN <= length <= FRAME_BYTES_MAX:
                position = self._malformed(
                    peer, f"frame length {length} is not within 4 and {FRAME_BYTES_MAX}", end
                )
                break
            if frame_end > end:
                break
            if length > HEADER_BYTES_MAX and is_header_too_long(data, position):
                position = self._malformed(peer, f"a header has more than {HEADER_BYTES_MAX} bytes", end)
                break
            try:
                reply = try_frame(data, position, frame_end, peer, now_ms) if try_frame is not None else None
                if reply is None:
                    if fast_path is not None and fast_path.is_turn_over:
                        break
                    command = decode_frame(memoryview(data)[position + 4 : frame_end])
                    reply = self._answer_plain(command, peer, now_ms)
            except RemotingCommandError as error:
                position = self._malformed(peer, str(error), end)
                break
            except Exception as error:  # noqa: BLE001  the other frames of this read get their answers
                reply = self._not_handled(data[position + 4 : frame_end], peer, error)
                if reply is None:
                    break
            if reply:
                replies.append(reply)
                reply_bytes += len(reply)
            position = frame_end
        if fast_path is not None:
            replies = fast_path.after_read(peer, replies, began_ms)
        return position, replies

    def _not_handled(self, frame: bytes, peer: Peer, error: Exception) -> bytes | None:
        """Return the answer to a frame whose handling raised what it should not, or has to wait for a thread.

        None: it stays unused, and those behind it with it, so that they are handled in their order.
        """
        if isinstance(error, QueueMissing):
            self._wait_for_queue(error, peer)
            return None
        if not isinstance(error, NotReady):
            logger.error("a frame was not handled peer=%s", address_text(peer.remote_address), exc_info=error)
        try:
            command = decode_frame(frame)
        except RemotingCommandError:
            return b""
        if isinstance(error, NotReady):
            return self._answer_when_ready(command, len(frame), peer)
        if command.is_response or command.is_oneway:
            return b""
        return command.response(ResponseCode.SYSTEM_ERROR, INSIDE % command.code).encode()

    @staticmethod
    def _malformed(peer: Channel, reason: str, end: int) -> int:
        """Close the connection; return where handling goes on, which is nowhere."""
        logger.warning("malformed frame peer=%s: %s; closing", address_text(peer.remote_address), reason)
        peer.close("malformed frame")
        return end

    def _answer_plain(self, command: RemotingCommand, peer: Peer, now_ms: int) -> bytes:
        if self._fast_path is not None:
            self._fast_path.before_plain(command.code)
        return self._answer(command, peer, now_ms)

    def _answer(self, command: RemotingCommand, peer: Peer, now_ms: int) -> bytes:
        if command.is_response:
            peer.answered(command)
            return b""
        answer = self.handle(command, peer, now_ms)
        if answer is None or command.is_oneway:
            return b""
        if isinstance(answer, Saved):
            answer_when_saved(self._context.tables, answer.response, command, peer)
            return b""
        return answer if isinstance(answer, bytes) else answer.encode()

    def _wait_for_queue(self, missing: QueueMissing, peer: Peer) -> None:
        """Make a queue; the peer's requests wait, others are served meanwhile."""
        broker = self._context
        assert isinstance(broker, Broker)  # a name server has no store
        makes_topic = broker.topics.is_made_by_message

        async def run() -> None:
            await broker.queue_files.make(missing.topic, missing.queue_id)
            # The answer to what made a topic still waits until that is saved.
            broker.topics.is_made_by_message |= makes_topic
            peer.go_on()

        peer.wait()
        broker.spawn(run())

    def _answer_when_ready(self, command: RemotingCommand, frame_bytes: int, peer: Peer) -> bytes:
        """Handle a request anew when a thread has read what it needs; others are served meanwhile."""
        broker = self._context
        assert isinstance(broker, Broker)  # a name server has no store
        # What this request made stays made: its answer waits until that is saved.
        makes_topic = broker.topics.is_made_by_message
        if self._waiting_bytes + frame_bytes > WAITING_BYTES_MAX:
            busy = f"[OVERLOAD]system busy, {self._waiting_bytes} bytes of requests wait for the disk"
            return b"" if command.is_oneway else command.response(ResponseCode.SYSTEM_BUSY, busy).encode()

        def again() -> list[bytes]:
            reply = self._answer_plain(command, peer, wall_ms())
            broker.topics.is_made_by_message |= makes_topic
            replies = [reply] if reply else []
            return self._fast_path.after_read(peer, replies, steady_ms()) if self._fast_path else replies

        async def run() -> None:
            try:
                replies = await broker.queue_files.when_made(partial(broker.cold_reads.when_read, again))
            except (OSError, StoreError, RemotingError) as error:
                replies = [] if command.is_oneway else [failure(command, error, peer).encode()]
            finally:
                self._waiting_bytes -= frame_bytes
            if replies:
                peer.write(b"".join(replies))

        self._waiting_bytes += frame_bytes
        broker.spawn(run())
        return b""

    def handle(self, command: RemotingCommand, peer: Channel, now_ms: int) -> Answer:
        """Run one request's handler; every failure becomes a response code and a remark.

        Raises NotReady: the handler has changed nothing that it may not change twice, and is to be run again.
        """
        handler = self._handlers.get(command.code)
        if handler is None:
            return command.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, refusal(command.code))
        limit = BODY_BYTES_MAX.get(command.code, OTHER_BODY_BYTES_MAX)
        if len(command.body) > limit:
            return command.response(
                ResponseCode.SYSTEM_ERROR,
                f"request {command.code} has a body of {len(command.body)} bytes, this broker takes at most {limit}: "
                "send it in parts",
            )
        try:
            return handler(self._context, peer, command, now_ms)
        except NotReady:
            raise
        except Exception as error:  # noqa: BLE001  every failure is answered, and logged if it is not the client's
            return failure(command, error, peer)


def failure(command: RemotingCommand, error: Exception, peer: Channel) -> RemotingCommand:
    """Return the answer to a request whose handling raised `error`."""
    if isinstance(error, MQBrokerError):
        return command.response(error.code, error.remark)
    if isinstance(error, StoreError):
        logger.warning("request failed code=%d: %s", command.code, error)
        return command.response(ResponseCode.SYSTEM_ERROR, str(error))
    if isinstance(error, RemotingError | ValueError | OverflowError):
        return command.response(ResponseCode.SYSTEM_ERROR, f"request {command.code}: {error}")
    if isinstance(error, OSError):
        logger.error("request failed code=%d: %s", command.code, error)
        return command.response(ResponseCode.SYSTEM_ERROR, f"the broker cannot save this: {error}")
    logger.error(
        "request failed code=%d peer=%s", command.code, address_text(peer.remote_address), exc_info=error
    )
    return command.response(ResponseCode.SYSTEM_ERROR, INSIDE % command.code)


def answer_when_saved(
    tables: TableWriter, response: RemotingCommand, command: RemotingCommand, channel: Channel
) -> None:
    """Send the response when the change that it promises is durable, else an error."""

    def answer(error: Exception | None) -> None:
        if error is None:
            channel.send(response)
            return
        channel.send(
            command.response(
                ResponseCode.SYSTEM_ERROR,
                f"changed, but not saved: {error}. It is written as soon as that works; a restart before "
                "brings the state before it back",
            )
        )

    tables.when_saved(answer)


def answer_later(
    broker: Broker, channel: Channel, command: RemotingCommand, answer: Awaitable[RemotingCommand | Saved]
) -> None:
    """Answer a request over several turns of the event loop; a failure is answered too."""

    async def run() -> None:
        response: RemotingCommand | Saved
        try:
            response = await answer
        except Exception as error:  # noqa: BLE001  every failure is answered, and logged if it is not the client's
            response = failure(command, error, channel)
        if command.is_oneway:
            return
        if isinstance(response, Saved):
            answer_when_saved(broker.tables, response.response, command, channel)
        else:
            channel.send(response)

    broker.spawn(run())
