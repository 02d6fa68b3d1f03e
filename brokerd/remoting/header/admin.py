"""The headers of administration (protocol sections 3.11 to 3.14, 5.1): few fields each, many codes."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.remoting.header.fields import HeaderFields, of


@dataclass(slots=True)
class QueryCorrectionOffsetHeader(HeaderFields):
    """QUERY_CORRECTION_OFFSET (308). `filter_groups`: names, comma-separated."""

    topic: str = of("topic", "s")
    compare_group: str = of("compareGroup", "s", "")
    filter_groups: str = of("filterGroups", "s", "")


@dataclass(slots=True)
class QueryConsumeQueueRequestHeader(HeaderFields):
    """QUERY_CONSUME_QUEUE (321): `count` units from `index` on; `consumer_group` adds what its filter does."""

    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    index: int = of("index", "l")
    count: int = of("count", "i")
    consumer_group: str | None = of("consumerGroup", "s", None)


@dataclass(slots=True)
class RegisterTopicRequestHeader(HeaderFields):
    """REGISTER_TOPIC_IN_NAMESRV (217)."""

    topic: str = of("topic", "s")
