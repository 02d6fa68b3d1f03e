"""The name of a queue: the unit of ordering, ownership and progress."""

import msgspec


class MessageQueue(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Orders as Java's does: topic, broker name, queue id (MessageQueue.compareTo).

    A struct, not a dataclass: it is the key of most tables, and is made, hashed and compared with each message.
    """

    topic: str
    broker_name: str
    queue_id: int
