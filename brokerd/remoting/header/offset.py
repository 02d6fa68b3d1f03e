"""The headers of requests about the progress of groups (protocol sections 3.6, 3.13)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.remoting.header.fields import HeaderFields, of


@dataclass(slots=True)
class QueryConsumerOffsetRequestHeader(HeaderFields):
    """QUERY_CONSUMER_OFFSET (14)."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    set_zero_if_not_found: bool | None = of("setZeroIfNotFound", "b", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class UpdateConsumerOffsetRequestHeader(HeaderFields):
    """UPDATE_CONSUMER_OFFSET (15). Queue and offset are required, by an answer of their own (29)."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str = of("topic", "s")
    queue_id: int | None = of("queueId", "i", None)
    commit_offset: int | None = of("commitOffset", "l", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class ResetOffsetRequestHeader(HeaderFields):
    """INVOKE_BROKER_TO_RESET_OFFSET (222). `timestamp` is ms, -1 the end."""

    topic: str = of("topic", "s")
    group: str = of("group", "s")
    timestamp: int = of("timestamp", "l")
    is_force: bool | None = of("isForce", "b", None)
    queue_id: int | None = of("queueId", "i", None)
    offset: int | None = of("offset", "l", None)


@dataclass(slots=True)
class GetConsumerStatusRequestHeader(HeaderFields):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223). A blank `client_addr` stands for all members."""

    topic: str = of("topic", "s")
    group: str = of("group", "s")
    client_addr: str | None = of("clientAddr", "s", None)


@dataclass(slots=True)
class GetConsumeStatsRequestHeader(HeaderFields):
    """GET_CONSUME_STATS (208). `topic_list`: names with semicolons between."""

    consumer_group: str = of("consumerGroup", "s")
    topic: str | None = of("topic", "s", None)
    topic_list: str | None = of("topicList", "s", None)


@dataclass(slots=True)
class GetBrokerConsumeStatsRequestHeader(HeaderFields):
    """GET_BROKER_CONSUME_STATS (317)."""

    is_order: bool | None = of("isOrder", "b", None)


@dataclass(slots=True)
class CloneGroupOffsetRequestHeader(HeaderFields):
    """CLONE_GROUP_OFFSET (314). Without a topic: all of them."""

    src_group: str = of("srcGroup", "s")
    dest_group: str = of("destGroup", "s")
    topic: str | None = of("topic", "s", None)
    offline: bool | None = of("offline", "b", None)


@dataclass(slots=True)
class QueryCorrectionOffsetRequestHeader(HeaderFields):
    """QUERY_CORRECTION_OFFSET (308). `filter_groups`: names, comma-separated."""

    topic: str = of("topic", "s")
    compare_group: str | None = of("compareGroup", "s", None)
    filter_groups: str | None = of("filterGroups", "s", None)
