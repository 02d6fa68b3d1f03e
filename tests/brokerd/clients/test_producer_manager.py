from __future__ import annotations

import pytest

from brokerd.clients import producer_manager
from brokerd.clients.producer_manager import ProducerChannelInfo, ProducerManager
from tests.brokerd.fakes import MemoryChannel


def producer(channel: MemoryChannel, at_ms: int = 0) -> ProducerChannelInfo:
    return ProducerChannelInfo(channel, "c1", "JAVA", 479, at_ms)


def test_it_keeps_a_group_while_a_connection_is_in_it() -> None:
    producers, channel, other = ProducerManager(), MemoryChannel(), MemoryChannel(port=2)
    producers.register("g", producer(channel, 1_000))
    producers.register("g", producer(other, 5_000))
    assert [each.channel for each in producers.expired(10_000, 5_000)] == [channel]
    producers.channel_closed(channel)
    assert list(producers.groups["g"]) == [other]
    producers.unregister("g", other)
    producers.unregister("g", other)
    assert producers.groups == {}


def test_it_takes_in_a_limited_number_of_groups_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_manager, "GROUPS_A_CHANNEL_MAX", 2)
    producers, channel = ProducerManager(), MemoryChannel()
    for group in ("a", "b", "c", "b"):
        producers.register(group, producer(channel))
    assert sorted(producers.groups) == ["a", "b"]


def test_it_finds_a_live_connection_of_a_group() -> None:
    producers, channel, other = ProducerManager(), MemoryChannel(), MemoryChannel(port=2)
    assert producers.available_channel("g") is None
    for each in (channel, other):
        producers.register("g", producer(each))
    assert {producers.available_channel("g") for _ in range(100)} == {channel, other}
    channel.is_open = False
    assert {producers.available_channel("g") for _ in range(100)} == {other}
    other.is_open = False
    assert producers.available_channel("g") is None


def test_it_finds_the_newest_live_connection_of_a_client() -> None:
    producers, channel, other = ProducerManager(), MemoryChannel(), MemoryChannel(port=2)
    assert producers.channel_of("c1") is None
    producers.register("g", producer(channel))
    producers.register("h", producer(channel))
    producers.unregister("g", channel)
    assert producers.channel_of("c1") is channel
    producers.register("g", producer(other))
    assert producers.channel_of("c1") is other
    producers.channel_closed(channel)
    assert producers.channel_of("c1") is other
    other.is_open = False
    assert producers.channel_of("c1") is None
    other.is_open = True
    producers.channel_closed(other)
    assert producers.channel_of("c1") is None


def test_a_connection_has_one_client_id() -> None:
    producers, channel = ProducerManager(), MemoryChannel()
    producers.register("g", producer(channel))
    producers.register("h", ProducerChannelInfo(channel, "c2", "JAVA", 479, 0))
    assert (producers.channel_of("c1"), producers.channel_of("c2")) == (None, channel)
    producers.unregister("g", channel)
    assert producers.channel_of("c2") is channel
    producers.unregister("h", channel)
    assert producers.channel_of("c2") is None
