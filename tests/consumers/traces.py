"""Read back what clients have traced."""

from __future__ import annotations

from brokerd.remoting.message.trace import TraceRecord, decode_traces
from consumers import ConsumeFromWhere, PullConsumer, PullConsumerConfig


async def read_traces(namesrv: str, topic: str) -> list[TraceRecord]:
    """Return all records of the topic, oldest first in each queue."""
    config = PullConsumerConfig(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    records: list[TraceRecord] = []
    async with PullConsumer(None, namesrv, config=config) as consumer:
        queues = await consumer.queues(topic)
        ends = await consumer.end_offsets(queues)
        await consumer.assign(queues)
        for queue in queues:
            await consumer.seek_to_begin(queue)
        while any(consumer.position(queue) < ends[queue] for queue in queues):
            for message in await consumer.poll():
                records += decode_traces(message.body.decode())
    return records
