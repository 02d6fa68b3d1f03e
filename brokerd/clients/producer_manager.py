"""The producers: the live connections of every producer group.

Source: semantics §7, protocol §6.1 (`ProducerManager.java`). Memory only.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass

from brokerd.connections.channel import Channel

logger = logging.getLogger(__name__)

GROUPS_A_CHANNEL_MAX = 1_000  # a client process has a handful


@dataclass(slots=True)
class ProducerChannelInfo:
    channel: Channel
    client_id: str
    language: str
    version: int
    last_update_ms: int


class ProducerManager:
    """The producer table. Single-threaded: the broker's event loop."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[Channel, ProducerChannelInfo]] = {}
        self._groups_of: dict[Channel, set[str]] = {}
        self._channels: dict[str, Channel] = {}  # the newest of each client id
        self._client_ids: dict[Channel, str] = {}  # the newest of each connection

    def register(self, group: str, producer: ProducerChannelInfo) -> None:
        """Record a producer; groups of one connection beyond GROUPS_A_CHANNEL_MAX are not taken in."""
        own = self._groups_of.setdefault(producer.channel, set())
        if group not in own and len(own) >= GROUPS_A_CHANNEL_MAX:
            logger.warning("producer group ignored group=%s: %d on one connection", group, len(own))
            return
        members = self.groups.setdefault(group, {})
        if producer.channel not in members:
            logger.info("producer joined group=%s client_id=%s", group, producer.client_id)
        members[producer.channel] = producer
        self._set_client_id(producer.channel, producer.client_id)
        own.add(group)

    def unregister(self, group: str, channel: Channel) -> None:
        self._groups_of.get(channel, set()).discard(group)
        members = self.groups.get(group, {})
        producer = members.pop(channel, None)
        if producer is None:
            return
        logger.info("producer left group=%s client_id=%s", group, producer.client_id)
        if not members:
            del self.groups[group]
        if not self._groups_of.get(channel):
            self._drop_client_id(channel)

    def available_channel(self, group: str) -> Channel | None:
        """Return the connection of any live producer of the group, None without one."""
        channels = [channel for channel in self.groups.get(group, {}) if channel.is_open]
        return random.choice(channels) if channels else None

    def channel_of(self, client_id: str) -> Channel | None:
        """Return the live connection of a client that is a producer of any group, None without one."""
        channel = self._channels.get(client_id)
        return channel if channel is not None and channel.is_open else None

    def _set_client_id(self, channel: Channel, client_id: str) -> None:
        if self._client_ids.get(channel) != client_id:
            self._drop_client_id(channel)
            self._client_ids[channel] = client_id
        self._channels[client_id] = channel

    def _drop_client_id(self, channel: Channel) -> None:
        client_id = self._client_ids.pop(channel, "")
        if self._channels.get(client_id) is channel:
            del self._channels[client_id]

    def channel_closed(self, channel: Channel) -> None:
        for group in sorted(self._groups_of.get(channel, ())):
            self.unregister(group, channel)
        self._groups_of.pop(channel, None)

    def expired(self, now_ms: int, timeout_ms: int) -> list[ProducerChannelInfo]:
        return [
            producer
            for members in self.groups.values()
            for producer in members.values()
            if now_ms - producer.last_update_ms > timeout_ms
        ]
