"""The consumers: the live members of every group, their connections and subscriptions.

Source: semantics §7, protocol §6 (`ConsumerManager.java`, `ConsumerGroupInfo.java`). Memory only: clients send a
heartbeat every 30 s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from brokerd.connections.channel import Channel
from brokerd.remoting.body.client import ConsumerData, SubscriptionData

logger = logging.getLogger(__name__)

BROADCASTING = "BROADCASTING"


@dataclass(slots=True)
class ClientChannelInfo:
    """One member: a connection and what its heartbeat reported."""

    channel: Channel
    client_id: str
    language: str
    version: int
    last_update_ms: int
    nudged_ms: int = 0  # when a rebalance was last requested because its heartbeat lags behind its pulls


@dataclass(slots=True)
class ConsumerGroupInfo:
    """A group with at least one live member. The latest heartbeat decides type, model and start."""

    group: str
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    members: dict[Channel, ClientChannelInfo] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)

    def client_ids(self) -> list[str]:
        """Return one entry per connection, in order of joining (two connections may share a client id)."""
        return [member.client_id for member in self.members.values()]

    def versions(self) -> dict[str, int]:
        """Return client id → MQVersion ordinal of its heartbeat."""
        return {member.client_id: member.version for member in self.members.values()}

    def find(self, client_id: str) -> ClientChannelInfo | None:
        return next((m for m in self.members.values() if m.client_id == client_id), None)


class ConsumerManager:
    """The group table. Single-threaded: the broker's event loop."""

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroupInfo] = {}
        self._groups_of: dict[Channel, set[str]] = {}
        self._set_aside: dict[
            tuple[str, Channel], int
        ] = {}  # → when it last requested the members, 0 = not yet
        # Called with a group and its present members whenever members or subscriptions changed.
        self.on_change: Callable[[ConsumerGroupInfo], None] = lambda _: None

    def register(self, data: ConsumerData, client: ClientChannelInfo) -> bool:
        """Take in one group of a heartbeat; True (and on_change) when a member or a subscription is new.

        A heartbeat's subscriptions replace the group's: members that subscribe differently make the table flip,
        which is RocketMQ's only broker-side sign of that mistake.
        """
        info = self.groups.get(data.group_name)
        if info is None:
            info = self.groups[data.group_name] = ConsumerGroupInfo(data.group_name)
        info.consume_type = data.consume_type
        info.message_model = data.message_model
        info.consume_from_where = data.consume_from_where
        member = info.members.get(client.channel)
        is_new = member is None or member.client_id != client.client_id
        info.members[client.channel] = client
        self._groups_of.setdefault(client.channel, set()).add(data.group_name)
        changed = self._update_subscriptions(info, data.subscription_data_set)
        if is_new:
            logger.info("member joined group=%s client_id=%s", info.group, client.client_id)
        if is_new or changed:
            self.on_change(info)
        return is_new or changed

    def _update_subscriptions(
        self, info: ConsumerGroupInfo, subscriptions: Iterable[SubscriptionData]
    ) -> bool:
        changed = False
        wanted = {subscription.topic: subscription for subscription in subscriptions}
        for topic, subscription in wanted.items():
            known = info.subscriptions.get(topic)
            if known is None:
                changed = True
                info.subscriptions[topic] = subscription
            elif subscription.sub_version > known.sub_version:
                info.subscriptions[topic] = subscription
        for topic in [topic for topic in info.subscriptions if topic not in wanted]:
            del info.subscriptions[topic]
            changed = True
        return changed

    def unregister(self, group: str, channel: Channel) -> None:
        """Remove a member and notify the others."""
        self._groups_of.get(channel, set()).discard(group)
        info = self.groups.get(group)
        member = info.members.pop(channel, None) if info is not None else None
        if info is None or member is None:
            return
        logger.info("member left group=%s client_id=%s", group, member.client_id)
        if not info.members:
            del self.groups[group]
        self.on_change(info)

    def channel_closed(self, channel: Channel) -> None:
        for group in sorted(self._groups_of.get(channel, ())):
            self.unregister(group, channel)
        self._groups_of.pop(channel, None)
        for key in [key for key in self._set_aside if key[1] is channel]:
            del self._set_aside[key]

    def set_aside(self, group: str, channel: Channel) -> None:
        """Let a member see itself outside of its group for a moment.

        So it gives its queues up and requests its offsets anew. Caller: offset reset, for clients that follow
        no other notice.
        """
        self._set_aside[(group, channel)] = 0

    def ask_members(self, group: str, channel: Channel, now_ms: int) -> bool:
        """Record that a member requested the members of its group; False when it is set aside."""
        if not self._set_aside or (group, channel) not in self._set_aside:
            return True
        self._set_aside[(group, channel)] = now_ms
        return False

    def is_set_aside(self, group: str, channel: Channel) -> bool:
        return (group, channel) in self._set_aside

    def queried_ms(self, group: str, channel: Channel) -> int:
        return self._set_aside.get((group, channel), 0)

    def take_back(self, group: str, channel: Channel) -> None:
        self._set_aside.pop((group, channel), None)

    def expired(self, now_ms: int, timeout_ms: int) -> list[tuple[str, ClientChannelInfo]]:
        """Return members whose last heartbeat is too old, for the caller to close."""
        return [
            (info.group, member)
            for info in self.groups.values()
            for member in info.members.values()
            if now_ms - member.last_update_ms > timeout_ms
        ]

    def get(self, group: str) -> ConsumerGroupInfo | None:
        return self.groups.get(group)

    def groups_of_topic(self, topic: str) -> list[str]:
        return sorted(info.group for info in self.groups.values() if topic in info.subscriptions)
