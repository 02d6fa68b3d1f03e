"""What is wrong with a topic: what, evidence, next step. Pure; worst first."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from console.lag.models import TopicRow
from console.lag.rows.queue_row import TopicQueueRow
from console.text import Text
from console.text.figures import percent

SKEWED = 2.0  # times an even share: a hash key that one customer dominates
SKEW_RATE_MIN = 1.0  # messages per second below which a share means nothing


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a topic."""

    status: str
    title: Text
    text: Text


def findings(row: TopicRow, queues: Sequence[TopicQueueRow], silent: Collection[str] = ()) -> list[Finding]:
    """Return what is wrong with the topic, worst first; queues of `silent` brokers have no rates of now."""
    queues = [queue for queue in queues if queue.broker_name not in silent]
    found = []
    if not row.perm & 4:
        found.append(
            Finding(
                status="STOPPED",
                title=Text("No client may read this topic"),
                text=Text(
                    "Its permission has no read bit (4): consumers and this console get NO_PERMISSION."
                ),
            )
        )
    busiest = max(queues, key=lambda queue: queue.in_rate or 0.0, default=None)
    total = sum(queue.in_rate or 0.0 for queue in queues)
    if busiest and busiest.in_rate and total >= SKEW_RATE_MIN and len(queues) > 1:
        share = busiest.in_rate / total
        even = 1 / len(queues)
        if share >= min(SKEWED * even, (1 + even) / 2):
            found.append(
                Finding(
                    status="FALLING_BEHIND",
                    title=Text(
                        "%(queue)s takes %(share)s of the traffic",
                        queue=f"{busiest.broker_name} · {busiest.queue_id}",
                        share=percent(share),
                    ),
                    text=Text(
                        "An even share of %(number)s queues is %(share)s. Producers that choose queues "
                        "by key send a large part to this one, and the client that reads it sets the lag.",
                        number=len(queues),
                        share=percent(even),
                    ),
                )
            )
    return found
