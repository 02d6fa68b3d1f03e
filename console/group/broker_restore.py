"""Restore the offsets of all groups on brokers that lost them: a plan for each group, so that each is judged alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct

from console.brokers.mqadmin import MQBrokerError, MQClientError, is_system_group
from console.group.offsets.stored import OffsetParams
from console.lag.past import history_reads
from console.operation import services
from console.operation.errors import OperationError, PlanRejected
from console.operation.models import Plan
from console.operation.plan.places import QueuePlace
from console.text import Moment, Text, text_of
from console.text.stored import as_json


class GroupRestore(Struct, frozen=True, kw_only=True):
    """A group with recorded offsets on the brokers: its plan, or why there is none."""

    group: str
    queues: int
    plan: Plan | None
    refusal: Text = Text()


def plans_of_brokers(cluster: str, brokers: Collection[str], at_ms: int) -> Iterator[GroupRestore]:
    """Plan for each group to restore its queues on these brokers as recorded at a time, by name of the group.

    Queues of other brokers stay: they have moved on since. RocketMQ's own groups are left out. Raises PlanRejected
    where nothing of these brokers is recorded for that time.
    """
    by_group: dict[str, list[QueuePlace]] = {}
    for group, queue in sorted(history_reads.committed_at(cluster, at_ms)):
        if queue.broker_name in brokers and not is_system_group(group):
            place = QueuePlace(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)
            by_group.setdefault(group, []).append(place)
    if not by_group:
        raise PlanRejected(
            Text(
                "The history has no offsets on %(names)s for %(time)s.",
                names=Text.of_names(sorted(brokers)),
                time=Moment(at_ms),
            ),
            "time_ms",
        )
    for group, places in by_group.items():
        params = OffsetParams(target="as_of", time_ms=at_ms, queues=tuple(places))
        try:
            plan = services.create_plan("offset_change", cluster, group, as_json(params), None)
        except (OperationError, MQClientError, MQBrokerError) as refusal:
            yield GroupRestore(group=group, queues=len(places), plan=None, refusal=text_of(refusal))
        else:
            yield GroupRestore(group=group, queues=len(places), plan=plan, refusal=text_of(plan.blocked))
