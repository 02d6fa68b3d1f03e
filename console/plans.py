"""Wiring: the table plan kind → its object (``settings.PLAN_KINDS``), the only list of all kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from console.access.activity_list import REPORT_VERBS
from console.access.models import AuditEvent
from console.broker.acl import plans as acl_plans
from console.broker.plans.config import BrokerConfigPlan
from console.broker.plans.drain import BrokerDrainPlan
from console.deadletter.message_events import replays_of
from console.deadletter.plans import DlqReadablePlan, ReplayPlan
from console.group.mode import plans as mode_plans
from console.group.offsets.plans import OffsetChangePlan
from console.group.pause import plans as pause_plans
from console.group.settings import plans as settings_plans
from console.message.sending.plans import MessageSendPlan, copies_of
from console.operation.message_events import EventSource
from console.operation.plan.kinds import AnyPlanKind
from console.operation.selectors import audited_plans
from console.rebalance.placement.plans import GroupPlacementPlan
from console.report.jobs import JOBS
from console.topic import plans as topic_plans

KINDS: tuple[AnyPlanKind, ...] = (
    OffsetChangePlan(),
    ReplayPlan(),
    DlqReadablePlan(),
    topic_plans.TopicCreatePlan(),
    topic_plans.TopicChangePlan(),
    topic_plans.TopicQuarantinePlan(),
    topic_plans.TopicReleasePlan(),
    topic_plans.TopicDeletePlan(),
    topic_plans.TopicForceDeletePlan(),
    settings_plans.GroupCreatePlan(),
    settings_plans.GroupChangePlan(),
    settings_plans.GroupQuarantinePlan(),
    settings_plans.GroupReleasePlan(),
    settings_plans.GroupDeletePlan(),
    settings_plans.GroupForceDeletePlan(),
    pause_plans.GroupPausePlan(),
    pause_plans.GroupResumePlan(),
    mode_plans.GroupModePlan(),
    GroupPlacementPlan(),
    BrokerConfigPlan(),
    BrokerDrainPlan(),
    *acl_plans.PLANS,
    MessageSendPlan(),
)
PLAN_KINDS: Mapping[str, AnyPlanKind] = {kind.kind: kind for kind in KINDS}

# Sources of the console's own events of a message, for its life line (``settings.MESSAGE_EVENTS``).
MESSAGE_EVENTS: Sequence[EventSource] = (replays_of, copies_of)


def describe_events(events: Sequence[AuditEvent]) -> None:
    """Give events the kind of their plan and the title of their report (``settings.DESCRIBE_EVENTS``); one query."""
    plans = audited_plans(event.plan_id for event in events)
    for event in events:
        if event.verb in REPORT_VERBS:
            event.object_words = JOBS.get(event.subject, event.subject)
        if event.plan_id in plans:
            kind = str(plans[event.plan_id].kind)
            event.plan_kind = kind[:1].lower() + kind[1:]
