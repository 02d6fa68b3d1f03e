"""Bytes in, commands out: the framing of one connection, without a socket."""

from brokerd.remoting.command import RemotingCommand, decode_frame
from brokerd.remoting.errors import FrameTooLarge

# com.rocketmq.remoting.frameMaxLength of Java: a larger frame ends the connection there too.
FRAME_BYTES_MAX = 16 * 1024 * 1024
FRAME_BYTES_MIN = 4  # a frame holds at least its header's length


class RemotingConnection:
    """Collects received bytes and cuts them into commands.

    After an error the stream has no known frame boundary any more: the owner must close the connection.
    """

    __slots__ = ("_buffer", "_frame_bytes_max")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._buffer = bytearray()
        self._frame_bytes_max = frame_bytes_max

    @property
    def buffered_bytes(self) -> int:
        """How much of an unfinished frame is held."""
        return len(self._buffer)

    def receive_data(self, data: bytes) -> list[RemotingCommand]:
        """Take in bytes as they came; the commands that are now complete, in order.

        Raises FrameTooLarge, RemotingCommandError.
        """
        buffer = self._buffer
        buffer += data
        commands = []
        position = 0
        with memoryview(buffer) as view:
            while len(buffer) - position >= 4:
                length = int.from_bytes(view[position : position + 4], "big", signed=True)
                if not FRAME_BYTES_MIN <= length <= self._frame_bytes_max:
                    raise FrameTooLarge(length, self._frame_bytes_max)
                if len(buffer) - position - 4 < length:
                    break
                commands.append(decode_frame(view[position + 4 : position + 4 + length]))
                position += 4 + length
        del buffer[:position]
        return commands
