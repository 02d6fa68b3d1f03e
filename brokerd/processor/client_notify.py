"""Owns what the broker tells clients unasked: that their group changed, that their offsets were reset.

Source: protocol §1.3, §6.3, §3.13 (`Broker2Client.java`).
"""

from __future__ import annotations

from brokerd.channel import Channel
from brokerd.consumer_manager import BROADCASTING, ConsumerGroupInfo
from brokerd.processor.broker import Broker
from brokerd.remoting.codes import RequestCode
from brokerd.remoting.command import RemotingCommand


def notify_consumer_ids_changed(channel: Channel, group: str) -> None:
    """Ask one client to rebalance now (40, one-way)."""
    channel.send(
        RemotingCommand.request(
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}, oneway=True
        )
    )


def notify_group(broker: Broker, info: ConsumerGroupInfo) -> None:
    """Tell every member, unless the broker's or the group's settings say no or all members get all queues."""
    config = broker.groups.get(info.group)
    if not broker.config.broker.notify_consumer_ids_changed_enable or info.message_model == BROADCASTING:
        return
    if config is not None and not config.notify_consumer_ids_changed_enable:
        return
    for channel in list(info.members):
        notify_consumer_ids_changed(channel, info.group)
