"""Wiring: the table plan kind → its object. The one place that names them all (``settings.PLAN_KINDS``
points here)."""

from __future__ import annotations

from collections.abc import Mapping

from console.deadletter.plans import ReplayPlan
from console.group.plans import OffsetChangePlan
from console.operation.kinds import PlanKind

PLAN_KINDS: Mapping[str, PlanKind] = {kind.kind: kind for kind in (OffsetChangePlan(), ReplayPlan())}
