"""The placement in force on a topic of a group: what it is, and the plan that put it there. No broker is called."""

from __future__ import annotations

from dataclasses import dataclass

from console.operation import selectors as operation_selectors
from console.operation.journal import moment
from console.operation.models import FINAL_STATES, Job
from console.rebalance.models import ServerSideGroup
from console.rebalance.rules import KeptPlacement
from console.text.stored import of_json

KIND = "group_placement"


@dataclass(frozen=True, slots=True)
class InForce:
    """A placement and who set it when; "" and null where its plan is no longer kept."""

    placement: KeptPlacement
    placed_at_ms: int
    plan_id: str = ""
    placed_by: str = ""
    can_undo: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the strategy alone decides: a placement was taken back."""
        return self.placement == KeptPlacement()


def placement_in_force(row: ServerSideGroup | None) -> InForce | None:
    """Return the placement of a topic of a group; None where there never was one."""
    if row is None or not row.placed_at_ms:
        return None
    placement = of_json(KeptPlacement, row.placement)
    jobs = Job.objects.filter(
        kind=KIND,
        cluster=row.cluster,
        subject=row.group,
        plan__params__topic=row.topic,
        created_at__lte=moment(row.placed_at_ms),
    )
    job = jobs.select_related("plan").order_by("-created_at").first()
    if job is None:
        return InForce(placement, row.placed_at_ms)
    return InForce(
        placement,
        row.placed_at_ms,
        job.plan_id,
        job.created_by,
        can_undo=job.state in FINAL_STATES
        and operation_selectors.plan_kind(KIND).undo_params(job.plan, job) is not None,
    )
