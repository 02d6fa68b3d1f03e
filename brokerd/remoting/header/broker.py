"""The headers of requests about the running broker and its store (protocol sections 3.13, 3.14)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.remoting.header.fields import HeaderFields, of


@dataclass(slots=True)
class QueryMessageRequestHeader(HeaderFields):
    """QUERY_MESSAGE (12). Times are ms."""

    topic: str = of("topic", "s")
    key: str = of("key", "s")
    max_num: int = of("maxNum", "i")
    begin_timestamp: int = of("beginTimestamp", "l")
    end_timestamp: int = of("endTimestamp", "l")
    is_unique_key: bool | None = of("_UNIQUE_KEY_QUERY", "b", None)


@dataclass(slots=True)
class ViewMessageRequestHeader(HeaderFields):
    """VIEW_MESSAGE_BY_ID (33). `offset` is the commit-log offset."""

    offset: int = of("offset", "l")
    topic: str | None = of("topic", "s", None)


@dataclass(slots=True)
class QueryConsumeQueueRequestHeader(HeaderFields):
    """QUERY_CONSUME_QUEUE (321): `count` units from `index` on; `consumer_group` adds what its filter does."""

    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    index: int = of("index", "l")
    count: int = of("count", "i")
    consumer_group: str | None = of("consumerGroup", "s", None)


@dataclass(slots=True)
class ViewBrokerStatsRequestHeader(HeaderFields):
    """VIEW_BROKER_STATS_DATA (315)."""

    stats_name: str = of("statsName", "s")
    stats_key: str = of("statsKey", "s")


@dataclass(slots=True)
class GetConsumerRunningInfoRequestHeader(HeaderFields):
    """GET_CONSUMER_RUNNING_INFO (307), relayed to the member."""

    consumer_group: str = of("consumerGroup", "s")
    client_id: str = of("clientId", "s")
    jstack_enable: bool | None = of("jstackEnable", "b", None)


@dataclass(slots=True)
class ConsumeMessageDirectlyRequestHeader(HeaderFields):
    """CONSUME_MESSAGE_DIRECTLY (309); the broker relays it with the last four filled in."""

    consumer_group: str = of("consumerGroup", "s")
    client_id: str | None = of("clientId", "s", None)
    msg_id: str | None = of("msgId", "s", None)
    topic: str | None = of("topic", "s", None)
    broker_name: str | None = of("brokerName", "s", None)
    topic_sys_flag: int | None = of("topicSysFlag", "i", None)
    group_sys_flag: int | None = of("groupSysFlag", "i", None)
