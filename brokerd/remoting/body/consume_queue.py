"""Bodies about the files of consume queues (protocol section 3.14)."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.remoting.body.client import SubscriptionData
from brokerd.remoting.body.json_body import JsonBody


@dataclass(slots=True)
class ConsumeQueueData(JsonBody):
    """A unit of a consume queue: where a record lies, its size, and what its tags hash to."""

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    eval: bool = False


@dataclass(slots=True)
class QueryConsumeQueueResponseBody(JsonBody):
    """321. `subscription_data` and `filter_data`: of the group that the request names."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] = field(default_factory=list)
    max_queue_index: int = 0
    min_queue_index: int = 0
