"""Export a group's offsets as a file: those of the last round, or those recorded at a moment."""

from __future__ import annotations

from console.group import selectors
from console.group.offset_file.layout import (
    COMMITTED,
    LAST_KNOWN,
    NEVER_COMMITTED,
    UNKNOWN,
    FileQueue,
    OffsetFile,
)
from console.lag.past import history_reads
from console.lag.rows import queues
from console.lag.rows.queue_row import QueueRow
from console.operation.errors import PlanRejected
from console.text import Moment, Text
from spark.lag.round.status import LagStatus


def exported(cluster: str, group: str, now_ms: int, at_ms: int | None = None) -> OffsetFile:
    """Return the offsets of all topics of a group, its retry topics included.

    Each queue has the time it was read: on a silent broker that is its last answer. Raises PlanRejected where there is
    nothing to export.
    """
    if at_ms is None:
        found = tuple(_of_round(row) for row in selectors.group_queues(cluster, group))
        missing = Text("The last round has no queue of %(group)s; export a time instead.", group=group)
    else:
        found = _of_history(cluster, group, at_ms)
        missing = Text(
            "The history has no offsets of %(group)s for %(time)s.", group=group, time=Moment(at_ms)
        )
    if not found:
        raise PlanRejected(missing, "group" if at_ms is None else "time_ms")
    read_at_ms = max(queue.read_at_ms or 0 for queue in found)
    return OffsetFile(cluster=cluster, group=group, read_at_ms=read_at_ms, at_ms=now_ms, queues=found)


def _of_round(row: QueueRow) -> FileQueue:
    state = LAST_KNOWN if row.status == LagStatus.UNKNOWN.value else COMMITTED
    if row.committed_offset is None:
        state = NEVER_COMMITTED if row.status == queues.NEVER_COMMITTED else UNKNOWN
    return FileQueue(
        topic=row.topic,
        broker_name=row.broker_name,
        queue_id=row.queue_id,
        offset=row.committed_offset,
        state=state,
        min_offset=row.min_offset,
        max_offset=row.max_offset,
        read_at_ms=row.read_at_ms or None,
    )


def _of_history(cluster: str, group: str, at_ms: int) -> tuple[FileQueue, ...]:
    then = history_reads.offsets_at(cluster, group, at_ms)
    return tuple(
        FileQueue(
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            offset=reading.offset,
            state=COMMITTED,
            read_at_ms=reading.read_at_ms,
        )
        for queue, reading in sorted(then.items())
    )
