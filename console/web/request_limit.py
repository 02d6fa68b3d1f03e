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


class Limited:
    """Wraps receive and send of one HTTP request for the application.

    A request that is too large ends as if the client had disconnected; the caller answers it if `is_refused`.
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

    @property
    def is_refused(self) -> bool:
        """Whether the request was too large and has no answer yet."""
        return self._size > REQUEST_BYTES_MAX and not self._is_answered


def announces_too_much(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether Content-Length exceeds the limit."""
    lengths = [value for name, value in headers if name == b"content-length"]
    return any(value.isdigit() and int(value[:20]) > REQUEST_BYTES_MAX for value in lengths)
