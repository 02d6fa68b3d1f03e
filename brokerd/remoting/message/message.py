"""A message as producers send it."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.remoting.message.names import MessageProperty


@dataclass(slots=True)
class Message:
    """A message to be sent."""

    topic: str
    body: bytes
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0

    @property
    def tags(self) -> str:
        return self.properties.get(MessageProperty.TAGS, "")

    @property
    def keys(self) -> str:
        """All keys, separated by spaces as RocketMQ keeps them."""
        return self.properties.get(MessageProperty.KEYS, "")
