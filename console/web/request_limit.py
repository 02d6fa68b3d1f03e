"""Limit the size of requests while they arrive, before sign-in and before Django.

Django would write uploads of any size to disk and pass JSON of any size to REST.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# The largest requests are a Protobuf descriptor set or a replay filter's plan: a MB or two.
REQUEST_BYTES_MAX = 8 * 1024 * 1024
TOO_LARGE = f"The request is larger than {REQUEST_BYTES_MAX:,} bytes. Send a smaller one.\n".encode()


class Limited:
    """Wraps receive and send of one HTTP request for the application.

    A request that is too large ends as if the client had disconnected, and `finish` answers it with 413.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._size = 0
        self._is_answered = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self._size > REQUEST_BYTES_MAX else message

    async def send(self, message: Message) -> None:
        self._is_answered = True
        await self._send(message)

    async def finish(self) -> None:
        """Answer a request that was refused while it arrived."""
        if self._size > REQUEST_BYTES_MAX and not self._is_answered:
            await refuse(self._send)


def announces_too_much(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether Content-Length exceeds the limit."""
    lengths = [value for name, value in headers if name == b"content-length"]
    return any(value.isdigit() and int(value[:20]) > REQUEST_BYTES_MAX for value in lengths)


async def refuse(send: Send) -> None:
    """Send 413 and close the connection: the rest is not read."""
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(TOO_LARGE)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": TOO_LARGE})
