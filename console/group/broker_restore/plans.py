"""Restore the offsets of all groups on brokers that lost them: a plan for each group, so that each is judged alone.

The plans for the same brokers and the same moment belong together, also those of other users: a repeated request finds
those that are open, running or done, and makes only what is missing.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection
from typing import Any

from django.utils import timezone
from msgspec import Struct, structs

from console.access.services import actor_name
from console.brokers.mqadmin import MQBrokerError, MQClientError
from console.group.broker_restore.compared import ComparedGroup, Offsets, compared_groups
from console.group.offsets.stored import OffsetParams
from console.operation import selectors, services
from console.operation.errors import ConfirmationMissing, OperationError, PlanBlocked
from console.operation.models import FINAL_STATES, Job, JobState, Plan, PlanState
from console.operation.plan.places import QueuePlace
from console.operation.rules import APPROVED, UNAPPROVED, fingerprint, shown_plan
from console.text import Text, text_of
from console.text.stored import as_json

KIND, TARGET = "offset_change", "as_of"
# Which queues of a group go back: those without an offset now, or every recorded one.
LOST, ALL = SCOPES = ("lost", "all")
# Plans that nothing hinders, unless they are blocked.
READY = (PlanState.DRAFT, APPROVED)
# Plans of which nothing will come.
DEAD = (PlanState.EXPIRED, PlanState.DISCARDED)
# Made by one request of a page or of REST; a plan reads every broker. The next request makes the others.
PLANS_MAX = 100


class GroupRestore(Struct, frozen=True, kw_only=True):
    """A group: what became of its offsets, its newest plan for the moment if any, and why the last action failed."""

    compared: ComparedGroup
    plan: Plan | None = None
    refusal: Text = Text()

    @property
    def group(self) -> str:
        return self.compared.group

    @property
    def job(self) -> Job | None:
        return None if self.plan is None else getattr(self.plan, "job", None)

    @property
    def is_done(self) -> bool:
        """Return whether its plan was carried out."""
        return self.job is not None and self.job.state == JobState.SUCCEEDED

    @property
    def words(self) -> Text:
        """Return what its plan does, did or was refused for; empty without one."""
        plan = self.plan
        if plan is None:
            return Text()
        if self.job is not None and self.job.error:
            return self.job.error
        return selectors.plan_kind(KIND).done_words(plan) if self.is_done else plan.blocked or plan.summary

    @property
    def shown_plan(self) -> str:
        """Return the state that pages show of its plan; empty without one."""
        return "" if self.plan is None else shown_plan(self.plan, timezone.now())

    def is_open(self, now: datetime.datetime) -> bool:
        """Return whether its plan can be applied, or is being applied."""
        if self.job is not None:
            return self.job.state not in FINAL_STATES
        return self.can_apply(now) or self.waits_for_approval(now)

    def can_apply(self, now: datetime.datetime) -> bool:
        """Return whether its plan waits to be applied, and nothing hinders it."""
        plan = self.plan
        return plan is not None and not plan.blocked and shown_plan(plan, now) in READY

    def waits_for_approval(self, now: datetime.datetime) -> bool:
        """Return whether a second person has to approve its plan."""
        return self.plan is not None and shown_plan(self.plan, now) == UNAPPROVED

    def is_blocked(self, now: datetime.datetime) -> bool:
        """Return whether its plan cannot be applied, as the plan says."""
        plan = self.plan
        return plan is not None and shown_plan(plan, now) == PlanState.DRAFT and bool(plan.blocked)

    def to_move(self, scope: str, now: datetime.datetime) -> Collection[Any]:
        """Return the queues that a new plan moves; none where there is nothing to do, or a plan that does it."""
        if self.is_open(now):
            return ()
        if scope == LOST or self.is_done:
            return self.compared.lost
        return self.compared.recorded if self.compared.moves else ()


def restores(
    cluster: str, brokers: Collection[str], at_ms: int, offsets: Offsets | None
) -> list[GroupRestore]:
    """Return every group with its plan for these brokers and this moment, by name. Raises PlanRejected."""
    made = _plans(cluster, brokers, at_ms)
    return [
        GroupRestore(compared=each, plan=made.get(each.group))
        for each in compared_groups(cluster, brokers, at_ms, offsets)
    ]


def make_plans(
    cluster: str,
    brokers: Collection[str],
    at_ms: int,
    offsets: Offsets,
    actor: Any,
    *,
    scope: str,
    most: int | None = None,
    remote_addr: str = "",
) -> list[GroupRestore]:
    """Make the plans that are missing, at most ``most``, and return all groups. Changes nothing on brokers.

    Queues of other brokers stay: they have moved on since. Raises PlanRejected where nothing is recorded.
    """
    found, left = [], most
    for each in restores(cluster, brokers, at_ms, offsets):
        queues = each.to_move(scope, timezone.now())
        if queues and left != 0:
            each = _planned(each, cluster, at_ms, queues, actor, remote_addr)
            left = None if left is None else left - 1
        found.append(each)
    return found


def _planned(
    each: GroupRestore,
    cluster: str,
    at_ms: int,
    queues: Collection[Any],
    actor: Any,
    remote_addr: str,
) -> GroupRestore:
    """Return the group with a new plan, or with why there is none. A blocked plan of before is discarded."""
    places = tuple(
        QueuePlace(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)
        for queue in queues
    )
    params = OffsetParams(target=TARGET, time_ms=at_ms, queues=places)
    # The same request twice at once makes one plan.
    replaced = each.plan.id if each.plan is not None else ""
    key = fingerprint({"restore": at_ms, "cluster": cluster, "group": each.group, "instead_of": replaced})
    try:
        if each.plan is not None and each.is_blocked(timezone.now()):
            services.discard_plan(each.plan.id, actor, remote_addr=remote_addr)
        plan = services.create_plan(
            KIND, cluster, each.group, as_json(params), actor, idempotency_key=key, remote_addr=remote_addr
        )
    except (OperationError, MQClientError, MQBrokerError) as refusal:
        return structs.replace(each, refusal=text_of(refusal))
    return structs.replace(each, plan=plan, refusal=text_of(plan.blocked))


def apply_plans(
    cluster: str,
    found: Collection[GroupRestore],
    actor: Any,
    *,
    confirm_text: str,
    reason: str = "",
    remote_addr: str = "",
) -> list[GroupRestore]:
    """Apply every plan that can be applied; a refused one does not stop the others.

    Raises ConfirmationMissing unless the cluster's name is given, and PlanBlocked where no plan can be applied.
    """
    now = timezone.now()
    if confirm_text != cluster:
        raise ConfirmationMissing(
            Text("Every group is moved: type the name %(name)s to confirm.", name=repr(cluster))
        )
    if not any(each.can_apply(now) for each in found):
        raise PlanBlocked(Text("There is no plan that can be applied: make the plans first."))
    applied = []
    for each in found:
        plan = each.plan
        if plan is not None and each.can_apply(now):
            try:
                services.apply_plan(plan.id, actor, plan.confirm_text, reason, remote_addr=remote_addr)
            except (OperationError, MQClientError, MQBrokerError) as refusal:
                each = structs.replace(each, refusal=text_of(refusal))
            each = structs.replace(each, plan=selectors.plan(plan.id))
        applied.append(each)
    return applied


def approve_plans(
    found: Collection[GroupRestore], actor: Any, *, remote_addr: str = ""
) -> list[GroupRestore]:
    """Approve, as the second person, every plan that waits for one and that the actor did not make."""
    now, name = timezone.now(), actor_name(actor)
    approved = []
    for each in found:
        plan = each.plan
        if plan is not None and plan.created_by != name and each.waits_for_approval(now):
            try:
                services.approve_plan(plan.id, actor, remote_addr=remote_addr)
            except OperationError as refusal:
                each = structs.replace(each, refusal=text_of(refusal))
            each = structs.replace(each, plan=selectors.plan(plan.id))
        approved.append(each)
    return approved


def _plans(cluster: str, brokers: Collection[str], at_ms: int) -> dict[str, Plan]:
    """Return the plan of each group that restores this moment on these brokers only: the newest, or an applied one.

    A newer one that was not applied in time, or was discarded, does not hide that the group was restored.
    """
    found: dict[str, Plan] = {}
    for plan in selectors.plans_with(cluster, KIND, target=TARGET, time_ms=at_ms):
        places = OffsetParams.of(plan).queues
        if not places or not {place.broker_name for place in places} <= set(brokers):
            continue
        newer = found.setdefault(plan.subject, plan)
        if plan.state == PlanState.APPLIED and shown_plan(newer, timezone.now()) in DEAD:
            found[plan.subject] = plan
    return found
