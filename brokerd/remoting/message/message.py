"""A message as producers send it."""

from __future__ import annotations

import msgspec

from brokerd.remoting.message.names import MessageProperty


class Message(msgspec.Struct, gc=False):
    """A message to be sent."""

    topic: str
    body: bytes
    properties: dict[str, str] = {}  # noqa: RUF012 - each struct gets its own
    flag: int = 0

    @property
    def tags(self) -> str:
        return self.properties.get(MessageProperty.TAGS, "")

    @property
    def keys(self) -> str:
        """All keys, separated by spaces as RocketMQ keeps them."""
        return self.properties.get(MessageProperty.KEYS, "")
