"""The headers of requests about topics and their queues (protocol sections 3.6, 3.11)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.remoting.header.fields import HeaderFields, of


@dataclass(slots=True)
class CreateTopicRequestHeader(HeaderFields):
    """UPDATE_AND_CREATE_TOPIC (17). `attributes`: words such as `+message.type=FIFO`, comma-separated."""

    topic: str = of("topic", "s")
    read_queue_nums: int = of("readQueueNums", "i")
    write_queue_nums: int = of("writeQueueNums", "i")
    perm: int = of("perm", "i")
    default_topic: str | None = of("defaultTopic", "s", None)
    topic_filter_type: str | None = of("topicFilterType", "s", None)
    topic_sys_flag: int | None = of("topicSysFlag", "i", None)
    order: bool | None = of("order", "b", None)
    attributes: str | None = of("attributes", "s", None)
    force: bool | None = of("force", "b", None)


@dataclass(slots=True)
class TopicRequestHeader(HeaderFields):
    """202, 215, 217, 300 and 351, which of 5.x has `lo`: for a static topic, of this broker only."""

    topic: str = of("topic", "s")
    lo: bool | None = of("lo", "b", None)


@dataclass(slots=True)
class QueueRequestHeader(HeaderFields):
    """GET_MAX_OFFSET (30), GET_MIN_OFFSET (31), GET_EARLIEST_MSG_STORETIME (32)."""

    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    committed: bool | None = of("committed", "b", None)
    broker_name: str | None = of("bname", "s", None)


@dataclass(slots=True)
class SearchOffsetRequestHeader(HeaderFields):
    """SEARCH_OFFSET_BY_TIMESTAMP (29). `timestamp` is ms; `boundary_type` LOWER or UPPER."""

    topic: str = of("topic", "s")
    queue_id: int = of("queueId", "i")
    timestamp: int = of("timestamp", "l")
    boundary_type: str | None = of("boundaryType", "s", None)
    broker_name: str | None = of("bname", "s", None)
