"""How large a request may be, checked while it arrives: before anybody is asked to sign in, and before Django, which
would write uploads of any size to disk and hand JSON of any size to REST.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# The largest thing that is sent here is a Protobuf descriptor set or a replay filter's plan: a MB or two.
REQUEST_BYTES_MAX = 8 * 1024 * 1024
TOO_LARGE = f"A request has at most {REQUEST_BYTES_MAX:,} bytes.\n".encode()


class Limited:
    """The two ends of one HTTP request for the application behind: what is too large ends as if the caller had left,
    and is answered 413 by `finish`.
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
        """Answer what was refused while it arrived."""
        if self._size > REQUEST_BYTES_MAX and not self._is_answered:
            await refuse(self._send)


def announces_too_much(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether Content-Length says so before anything is read."""
    lengths = [value for name, value in headers if name == b"content-length"]
    return any(value.isdigit() and int(value[:20]) > REQUEST_BYTES_MAX for value in lengths)


async def refuse(send: Send) -> None:
    """413, and the connection closes: the rest is not read."""
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(TOO_LARGE)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": TOO_LARGE})
