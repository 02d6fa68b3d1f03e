"""The headers of requests about groups and their members (protocol sections 3.10, 3.12, 3.13)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.remoting.header.fields import HeaderFields, of


@dataclass(slots=True)
class GroupRequestHeader(HeaderFields):
    """QUERY_TOPICS_BY_CONSUMER (343), GET_SUBSCRIPTIONGROUP_CONFIG (352)."""

    group: str = of("group", "s")


@dataclass(slots=True)
class ConsumerGroupRequestHeader(HeaderFields):
    """GET_CONSUMER_LIST_BY_GROUP (38), GET_CONSUMER_CONNECTION_LIST (203)."""

    consumer_group: str = of("consumerGroup", "s")


@dataclass(slots=True)
class ProducerGroupRequestHeader(HeaderFields):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    producer_group: str = of("producerGroup", "s")


@dataclass(slots=True)
class DeleteGroupRequestHeader(HeaderFields):
    """DELETE_SUBSCRIPTIONGROUP (207). `remove_offset` is what mqadmin sends and no broker reads."""

    group_name: str = of("groupName", "s")
    clean_offset: bool | None = of("cleanOffset", "b", None)
    remove_offset: bool | None = of("removeOffset", "b", None)


@dataclass(slots=True)
class GroupForbiddenRequestHeader(HeaderFields):
    """UPDATE_AND_GET_GROUP_FORBIDDEN (353): without `readable` it only reads."""

    group: str = of("group", "s")
    topic: str = of("topic", "s")
    readable: bool | None = of("readable", "b", None)


@dataclass(slots=True)
class QuerySubscriptionRequestHeader(HeaderFields):
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345)."""

    group: str = of("group", "s")
    topic: str | None = of("topic", "s", None)


@dataclass(slots=True)
class ConsumeTimeSpanRequestHeader(HeaderFields):
    """QUERY_CONSUME_TIME_SPAN (303)."""

    topic: str = of("topic", "s")
    group: str = of("group", "s")
