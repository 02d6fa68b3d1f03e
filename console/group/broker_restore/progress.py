"""How far a restore of a broker's offsets is: its plans and jobs counted. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from console.access.services import actor_name
from console.group.broker_restore.plans import GroupRestore
from console.operation.models import FINAL_STATES


class Progress(Struct, frozen=True, kw_only=True):
    """Groups by what became of them; ``lacking`` have lost offsets and no plan that is open or done."""

    groups: int
    lost_queues: int
    lacking: int
    blocked: int
    to_approve: int
    approvable: int
    to_apply: int
    running: int
    done: int
    failed: int


def progress_of(found: Collection[GroupRestore], now: datetime.datetime, reader: Any) -> Progress:
    """Count groups; ``approvable``: plans that wait for a second person, who may be the reader."""
    waiting = [each.plan for each in found if each.plan is not None and each.waits_for_approval(now)]
    jobs = [each.job for each in found if each.job is not None]
    return Progress(
        groups=len(found),
        lost_queues=sum(len(each.compared.lost) for each in found),
        lacking=sum(
            bool(each.compared.lost) and not each.is_open(now) and not each.is_done for each in found
        ),
        blocked=sum(each.is_blocked(now) for each in found),
        to_approve=len(waiting),
        approvable=sum(plan.created_by != actor_name(reader) for plan in waiting),
        to_apply=sum(each.can_apply(now) for each in found),
        running=sum(job.state not in FINAL_STATES for job in jobs),
        done=sum(each.is_done for each in found),
        failed=sum(job.state in FINAL_STATES for job in jobs) - sum(each.is_done for each in found),
    )
