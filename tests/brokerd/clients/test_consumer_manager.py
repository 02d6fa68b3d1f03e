from __future__ import annotations

from brokerd.clients.consumer_manager import ClientChannelInfo, ConsumerManager
from brokerd.remoting.body.client import ConsumerData, SubscriptionData
from tests.brokerd.fakes import MemoryChannel


def data(*topics: str, version: int = 1) -> ConsumerData:
    return ConsumerData(
        group_name="g",
        subscription_data_set=[SubscriptionData(topic=topic, sub_version=version) for topic in topics],
    )


def member(channel: MemoryChannel, client_id: str = "c1", at_ms: int = 0) -> ClientChannelInfo:
    return ClientChannelInfo(channel, client_id, "JAVA", 479, at_ms)


def test_it_reports_changes_of_members_and_subscriptions_only() -> None:
    consumers, channel, changed = ConsumerManager(), MemoryChannel(), []
    consumers.on_change = lambda info: changed.append(sorted(info.subscriptions))
    assert consumers.register(data("T"), member(channel))
    assert not consumers.register(data("T", version=2), member(channel))
    assert consumers.groups["g"].subscriptions["T"].sub_version == 2
    assert consumers.register(data("U"), member(channel))
    assert (changed, consumers.groups_of_topic("U"), consumers.groups_of_topic("T")) == (
        [["T"], ["U"]],
        ["g"],
        [],
    )


def test_a_closed_connection_leaves_its_groups() -> None:
    consumers, channel, other = ConsumerManager(), MemoryChannel(), MemoryChannel(port=2)
    consumers.register(data("T"), member(channel, "c1", 1_000))
    consumers.register(data("T"), member(other, "c2", 9_000))
    assert [(group, each.client_id) for group, each in consumers.expired(10_000, 5_000)] == [("g", "c1")]
    consumers.channel_closed(channel)
    assert consumers.groups["g"].client_ids() == ["c2"]
    consumers.unregister("g", other)
    assert consumers.get("g") is None


def test_a_member_set_aside_does_not_see_itself_until_it_is_taken_back() -> None:
    consumers, channel = ConsumerManager(), MemoryChannel()
    assert consumers.ask_members("g", channel, 1)
    consumers.set_aside("g", channel)
    assert (consumers.ask_members("g", channel, 7), consumers.queried_ms("g", channel)) == (False, 7)
    consumers.take_back("g", channel)
    assert (consumers.ask_members("g", channel, 8), consumers.is_set_aside("g", channel)) == (True, False)
