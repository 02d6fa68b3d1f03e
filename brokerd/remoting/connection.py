"""Bytes in, commands out: the framing of one connection, without a socket."""

from brokerd.remoting.command import LENGTH, RemotingCommand, decode_frame
from brokerd.remoting.errors import FrameTooLarge

# com.rocketmq.remoting.frameMaxLength of Java: a larger frame ends the connection there too.
FRAME_BYTES_MAX = 16 * 1024 * 1024
FRAME_BYTES_MIN = 4  # a frame holds at least its header's length


class RemotingConnection:
    """Collects received bytes and cuts them into commands.

    After an error the stream has no known frame boundary any more: the owner must close the connection.
    """

    __slots__ = ("_frame_bytes_max", "_needed_bytes", "_pieces", "buffered_bytes")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._pieces: list[bytes] = []
        self._needed_bytes = 0  # before them there is nothing to be read
        self._frame_bytes_max = frame_bytes_max
        # How much of an unfinished frame is held.
        self.buffered_bytes = 0

    def receive_data(self, data: bytes) -> list[RemotingCommand]:
        """Take in bytes as they came; the commands that are now complete, in order.

        Raises FrameTooLarge, RemotingCommandError.
        """
        if self._pieces:
            self._pieces.append(data)
            self.buffered_bytes += len(data)
            if self.buffered_bytes < self._needed_bytes:
                return []
            data = b"".join(self._pieces)
        commands = []
        position, end = 0, LENGTH.size
        size = len(data)
        try:
            while end <= size:
                (length,) = LENGTH.unpack_from(data, position)
                if not FRAME_BYTES_MIN <= length <= self._frame_bytes_max:
                    raise FrameTooLarge(length, self._frame_bytes_max)
                start = position + LENGTH.size
                end = start + length
                if end > size:
                    break
                commands.append(decode_frame(data, start, end))
                position, end = end, end + LENGTH.size
        finally:
            self._pieces = [data[position:]] if position < size else []
            self.buffered_bytes, self._needed_bytes = size - position, end - position
        return commands
