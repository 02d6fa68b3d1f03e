"""Notices the broker sends to clients: their group changed, their offsets were reset.

Source: protocol §1.3, §6.3, §3.13 (`Broker2Client.java`).
"""

from __future__ import annotations

from brokerd.clients.consumer_manager import BROADCASTING, ConsumerGroupInfo
from brokerd.connections.channel import Channel
from brokerd.processor.broker import Broker
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand

NOTIFY_AFTER_MS = 50  # a client needs a few to take in the answer to its heartbeat


def notify_consumer_ids_changed(channel: Channel, group: str) -> None:
    """Request a rebalance from one client (40, one-way)."""
    channel.send(
        RemotingCommand.request(
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}, oneway=True
        )
    )


class ChangeNotifier:
    """Tells the members of changed groups to rebalance: a moment later, and once for all changes of that moment.

    Java's broker sends it while it still handles the heartbeat. A joining Java client may then finish its rebalance
    before that heartbeat's answer, skip the next one because "lock heartBeat, but failed", and be refused every
    pull as SUBSCRIPTION_NOT_LATEST until its next rebalance, 20 s later.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._changed: dict[str, None] = {}

    def group_changed(self, info: ConsumerGroupInfo) -> None:
        if not self._changed:
            self._broker.later(NOTIFY_AFTER_MS, self._notify)
        self._changed[info.group] = None

    def _notify(self) -> None:
        changed, self._changed = self._changed, {}
        for group in changed:
            info = self._broker.consumers.get(group)
            if info is not None:
                notify_group(self._broker, info)


def notify_group(broker: Broker, info: ConsumerGroupInfo) -> None:
    """Notify every member, unless the broker's or the group's settings forbid it or all members get all queues."""
    config = broker.groups.get(info.group)
    if not broker.config.broker.notify_consumer_ids_changed_enable or info.message_model == BROADCASTING:
        return
    if config is not None and not config.notify_consumer_ids_changed_enable:
        return
    for channel in list(info.members):
        notify_consumer_ids_changed(channel, info.group)
