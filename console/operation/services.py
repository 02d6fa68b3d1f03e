"""The life of every change: plan → (approve) → apply → undo. Of its job: `job.control` and `job.runner`.

Every function may be called from a page, REST, a command or a test; each checks the actor's rights, writes by
conditional update, audits, and notifies the browsers. Brokers are read outside of transactions.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from console.access.models import Verb
from console.access.services import actor_name
from console.cluster import selectors as cluster_selectors
from console.operation import journal, operation_list, selectors
from console.operation.errors import (
    ApprovalBySamePerson,
    ApprovalMissing,
    ConfirmationMissing,
    IdempotencyKeyReused,
    PlanAlreadyApplied,
    PlanBlocked,
    PlanDiscarded,
    PlanDrifted,
    PlanExpired,
    PlanRejected,
    UndoImpossible,
)
from console.operation.job import worker_queue
from console.operation.models import Confirm, Job, Plan, PlanState
from console.operation.plan import coverage
from console.operation.plan.kinds import AnyPlanKind, B, Draft, Equivalent, Need, P, PlanKind, PlanWarning, R
from console.operation.plan.params import Given, RawParams
from console.operation.rules import (
    PLAN_LIFE_MS,
    confirmation,
    fingerprint,
    require,
)
from console.text import Moment, Text
from console.text.stored import as_json, of_json

logger = logging.getLogger(__name__)

# Where `Draft.needs` are kept in a plan's state before.
NEEDS = "needs"


def create_plan(
    kind: str,
    cluster: str,
    subject: str,
    params: RawParams,
    actor: Any,
    *,
    idempotency_key: str = "",
    remote_addr: str = "",
    now_ms: int | None = None,
) -> Plan:
    """Compute a plan of a form, a request body or a command line. Raises as `make_plan`, and PlanRejected."""
    handler = selectors.plan_kind(kind)
    require(actor, handler.verb, cluster, subject)
    return make_plan(
        handler,
        cluster,
        subject,
        handler.read_params(Given(params)),
        actor,
        idempotency_key=idempotency_key,
        remote_addr=remote_addr,
        now_ms=now_ms,
    )


def make_plan(
    handler: PlanKind[P, B, R],
    cluster: str,
    subject: str,
    params: P,
    actor: Any,
    *,
    idempotency_key: str = "",
    undo_of: Plan | None = None,
    remote_addr: str = "",
    now_ms: int | None = None,
) -> Plan:
    """Compute a plan and keep it for ten minutes. Changes nothing.

    Raises PlanRejected, NotPermitted, IdempotencyKeyReused, and the brokers' errors (BrokerUnavailable, MQBrokerError).
    """
    at_ms = journal.now_ms() if now_ms is None else now_ms
    require(actor, handler.verb, cluster, subject)
    if refusal := cluster_selectors.why_unchangeable(cluster):
        raise PlanRejected(refusal)
    for name in handler.also_reads(params):
        require(actor, Verb.VIEW, cluster, name)
    for elsewhere, name in handler.also_reads_elsewhere(params):
        require(actor, Verb.VIEW, elsewhere, name)
    request_hash = fingerprint(
        {"kind": handler.kind, "cluster": cluster, "subject": subject, "params": as_json(params)}
    )
    earlier = _plan_of_key(actor, idempotency_key, request_hash)
    if earlier is not None:
        return earlier
    draft = handler.compute(cluster, subject, params, at_ms)
    _require_further(actor, cluster, draft.needs)
    plan = _plan_row(handler, cluster, subject, params, draft, actor, at_ms)
    plan.undo_of_id = undo_of.pk if undo_of else draft.undo_of or None
    plan.idempotency_key, plan.request_hash = idempotency_key, request_hash
    try:
        with transaction.atomic():
            plan.save(force_insert=True)
            journal.audit(actor=actor, verb="plan", plan=plan, after=plan.summary, remote_addr=remote_addr)
    except IntegrityError:
        # The same request arrived twice at once.
        earlier = _plan_of_key(actor, idempotency_key, request_hash)
        if earlier is None:
            raise
        return earlier
    journal.publish_plan(plan, handler.verb, at_ms=at_ms)
    logger.info("plan made plan=%s kind=%s group=%s messages=%d", plan.id, plan.kind, subject, plan.messages)
    return plan


def _plan_of_key(actor: Any, idempotency_key: str, request_hash: str) -> Plan | None:
    if not idempotency_key:
        return None
    found = Plan.objects.filter(created_by=actor_name(actor), idempotency_key=idempotency_key).first()
    if found is not None and found.request_hash != request_hash:
        raise IdempotencyKeyReused(Text("This idempotency key was used for another request."))
    return found


def _plan_row(
    handler: PlanKind[P, B, R],
    cluster: str,
    subject: str,
    params: P,
    draft: Draft[P, B, R],
    actor: Any,
    at_ms: int,
) -> Plan:
    limits, cover = cluster_selectors.cluster_by_name(cluster), draft.coverage
    kept = params if draft.params is None else draft.params
    before = as_json(draft.before)
    if draft.needs:
        before[NEEDS] = as_json(draft.needs)
    if cover is not None:
        before[coverage.KeptCoverage.key] = as_json(cover.kept())
    warned = [] if cover is None else [PlanWarning(*note) for note in cover.notes]
    plan = Plan(
        kind=handler.kind,
        cluster=cluster,
        subject=subject,
        params=as_json(kept),
        diff=as_json(draft.diff),
        summary=draft.summary,
        warnings=[{"level": w.level, "title": w.title, "text": w.text} for w in [*warned, *draft.warnings]],
        before=before,
        state_hash=fingerprint(before),
        blocked=(cover.blocked if cover is not None else Text())
        or draft.blocked
        or _held_by_another(handler, cluster, subject),
        confirm=confirmation(
            draft.messages,
            typed_from=limits.typed_confirm_messages,
            second_person_from=limits.second_person_messages,
            typed=draft.typed,
        ),
        confirm_text=draft.confirm_text or subject,
        messages=draft.messages,
        created_by=actor_name(actor),
        created_at=journal.moment(at_ms),
        expires_at=journal.moment(at_ms + PLAN_LIFE_MS),
    )
    confirm = "" if plan.confirm == Confirm.INLINE else f" --confirm {shlex.quote(plan.confirm_text)}"
    equivalent = Equivalent(
        rest=f"POST /api/v1/plans/{plan.id}/apply",
        command=f"manage.py {handler.program} apply {plan.id}{confirm}" if handler.program else "",
        made_by=handler.same_plan(cluster, subject, kept if draft.repeat_with is None else draft.repeat_with),
    )
    plan.equivalent = as_json(equivalent)
    return plan


def approve_plan(plan_id: str, actor: Any, *, remote_addr: str = "", now_ms: int | None = None) -> Plan:
    """Approve a plan as the second person. Raises ApprovalBySamePerson, NotPermitted, PlanExpired."""
    at_ms = journal.now_ms() if now_ms is None else now_ms
    plan = selectors.plan(plan_id)
    verb = selectors.plan_kind(plan.kind).verb
    require(actor, verb, plan.cluster, plan.subject)
    _require_draft(plan, at_ms)
    name = actor_name(actor)
    if name == plan.created_by:
        raise ApprovalBySamePerson(Text("A second person must approve this plan; you made it yourself."))
    requested = Plan.objects.filter(pk=plan.pk, state=PlanState.DRAFT, approved_by="")
    with transaction.atomic():
        agreed = requested.update(approved_by=name, approved_at=journal.moment(at_ms))
        if agreed == 1:
            journal.audit(actor=actor, verb="approve", plan=plan, remote_addr=remote_addr)
    found = selectors.plan(plan_id)
    if agreed == 1:
        journal.publish_plan(found, verb, at_ms=at_ms)
    else:
        # Another person was faster: an approval is as good; after a discard or an apply this raises.
        _require_draft(found, at_ms)
    return found


def discard_plan(plan_id: str, actor: Any, *, remote_addr: str = "", now_ms: int | None = None) -> Plan:
    """Discard a plan before it is applied."""
    at_ms = journal.now_ms() if now_ms is None else now_ms
    plan = selectors.plan(plan_id)
    verb = selectors.plan_kind(plan.kind).verb
    require(actor, verb, plan.cluster, plan.subject)
    _require_draft(plan, at_ms)
    with transaction.atomic():
        if Plan.objects.filter(pk=plan.pk, state=PlanState.DRAFT).update(state=PlanState.DISCARDED) == 1:
            journal.audit(actor=actor, verb="discard", plan=plan, remote_addr=remote_addr)
    found = selectors.plan(plan_id)
    journal.publish_plan(found, verb, at_ms=at_ms)
    return found


def apply_plan(
    plan_id: str,
    actor: Any,
    confirm_text: str = "",
    reason: str = "",
    idempotency_key: str = "",
    *,
    remote_addr: str = "",
    now_ms: int | None = None,
) -> Job:
    """Start the job of a plan, after reading the brokers once more.

    Raises PlanDrifted, PlanExpired, PlanDiscarded, PlanBlocked, PlanAlreadyApplied, ConfirmationMissing,
    ApprovalMissing, NotPermitted. Repeating the idempotency key returns the same job.
    """
    at_ms = journal.now_ms() if now_ms is None else now_ms
    plan = selectors.plan(plan_id)
    handler = selectors.plan_kind(plan.kind)
    require(actor, handler.verb, plan.cluster, plan.subject)
    if _is_applied_with(plan, idempotency_key):
        return plan.job
    _require_draft(plan, at_ms)
    if plan.blocked:
        raise PlanBlocked(plan.blocked)
    _require_confirmation(plan, confirm_text)
    _require_further(actor, plan.cluster, of_json(tuple[Need, ...], plan.before.get(NEEDS, ())))
    with journal.refusal_recorded(plan, actor, remote_addr):
        held = _held_by_another(handler, plan.cluster, plan.subject)
        changes = [] if held else handler.drift(plan, at_ms)
        # What moved may be this plan, applied from another tab since it was read.
        if (held or changes) and (quicker := _applied_meanwhile(plan.id, idempotency_key, at_ms)):
            return quicker
        if held:
            raise PlanBlocked(held)
        if changes:
            raise PlanDrifted(changes)
        try:
            job = _start(handler, plan, actor, reason, idempotency_key, remote_addr, at_ms)
        except IntegrityError:
            # Another plan for the same subject was applied at the same moment.
            held = _held_by_another(handler, plan.cluster, plan.subject)
            raise PlanBlocked(held or Text("Another job has just ended: apply again.")) from None
    journal.publish(job, at_ms=at_ms)
    journal.publish_plan(selectors.plan(plan_id), handler.verb, at_ms=at_ms)
    return job


def _start(
    handler: AnyPlanKind,
    plan: Plan,
    actor: Any,
    reason: str,
    idempotency_key: str,
    remote_addr: str,
    at_ms: int,
) -> Job:
    """Write plan, job, event and audit in one transaction.

    Raises IntegrityError when another job holds the same subject.
    """
    left_out = coverage.verdict(plan, plan.created_by)
    with transaction.atomic():
        claimed = Plan.objects.filter(pk=plan.pk, state=PlanState.DRAFT)
        is_claimed = claimed.update(state=PlanState.APPLIED, reason=reason) == 1
        if not is_claimed and (quicker := _applied_meanwhile(plan.id, idempotency_key, at_ms)):
            return quicker
        job = Job.objects.create(
            plan=plan,
            kind=plan.kind,
            cluster=plan.cluster,
            subject=plan.subject,
            rate_per_s=handler.rate_per_s(plan),
            created_by=actor_name(actor),
            created_at=journal.moment(at_ms),
            idempotency_key=idempotency_key,
            holds=handler.holds(plan.cluster, plan.subject) or None,
            result={} if left_out is None else {coverage.Verdict.key: as_json(left_out)},
        )
        journal.audit(
            actor=actor, verb="apply", plan=plan, before=plan.before, after=reason, remote_addr=remote_addr
        )
        journal.note(
            job,
            Text(
                "Applied by %(person)s: the state was read again and had not changed", person=job.created_by
            ),
            at_ms=at_ms,
        )
        transaction.on_commit(lambda: worker_queue.enqueue(job.id))
    return job


def _held_by_another(handler: AnyPlanKind, cluster: str, subject: str) -> Text:
    """Return why a job of this kind cannot start: another one holds the same subject. Empty if it can."""
    held = handler.holds(cluster, subject)
    job = Job.objects.filter(holds=held).first() if held else None
    if job is None:
        return Text()
    return Text(
        "%(job)s of %(person)s on %(name)s is not finished: wait until it ends, or cancel it.",
        job=job.id,
        person=job.created_by,
        name=subject,
    )


def _applied_meanwhile(plan_id: str, idempotency_key: str, at_ms: int) -> Job | None:
    """Return the job of the same request, which arrived twice at once.

    Raises as `_require_draft` where another request was quicker.
    """
    now = selectors.plan(plan_id)
    if _is_applied_with(now, idempotency_key):
        return now.job
    _require_draft(now, at_ms)
    return None


def _is_applied_with(plan: Plan, idempotency_key: str) -> bool:
    """Return whether the same request has applied the plan before."""
    return (
        plan.state == PlanState.APPLIED
        and bool(idempotency_key)
        and plan.job.idempotency_key == idempotency_key
    )


def undo(
    plan_id: str,
    actor: Any,
    *,
    accept_without: Sequence[str] = (),
    idempotency_key: str = "",
    remote_addr: str = "",
    now_ms: int | None = None,
) -> Plan:
    """Make a plan that restores the state recorded when ``plan_id`` was applied.

    ``accept_without``: silent brokers that it may leave out. Raises NotPermitted, UndoImpossible, also for what an undo
    has restored or restores now.
    """
    found = selectors.plan(plan_id)
    handler = selectors.plan_kind(found.kind)
    require(actor, handler.verb, found.cluster, found.subject)
    plan, params = selectors.undo_params(plan_id)
    done = operation_list.undone_by(plan_id).first()
    is_repeated = done is not None and idempotency_key and done.idempotency_key == idempotency_key
    if done is not None and not is_repeated:
        raise UndoImpossible(Text("%(id)s is undone by %(undo)s.", id=plan.id, undo=done.id))
    return make_plan(
        handler,
        plan.cluster,
        plan.subject,
        handler.leaving_out(params, accept_without) if accept_without else params,
        actor,
        idempotency_key=idempotency_key,
        undo_of=plan,
        remote_addr=remote_addr,
        now_ms=now_ms,
    )


def _require_draft(plan: Plan, at_ms: int) -> None:
    """Raise unless the plan can still be applied; mark an overdue one EXPIRED."""
    if plan.state == PlanState.APPLIED:
        raise PlanAlreadyApplied(Text("%(id)s was applied already.", id=plan.id), job_id=plan.job.id)
    if plan.state == PlanState.DISCARDED:
        raise PlanDiscarded(Text("%(id)s was discarded.", id=plan.id))
    if plan.state == PlanState.EXPIRED or plan.expires_at <= journal.moment(at_ms):
        Plan.objects.filter(pk=plan.pk, state=PlanState.DRAFT).update(state=PlanState.EXPIRED)
        raise PlanExpired(
            Text(
                "%(id)s expired at %(time)s; make a new plan.",
                id=plan.id,
                time=Moment(round(plan.expires_at.timestamp() * 1000)),
            )
        )


def _require_confirmation(plan: Plan, confirm_text: str) -> None:
    if plan.confirm == Confirm.INLINE:
        return
    if confirm_text != plan.confirm_text:
        touched = (
            Text("affects %(number)s messages", number=plan.messages)
            if plan.messages
            else Text("cannot be undone directly")
        )
        raise ConfirmationMissing(
            Text(
                "This change %(what)s: type the name %(name)s to confirm.",
                what=touched,
                name=repr(plan.confirm_text),
            )
        )
    if plan.confirm == Confirm.SECOND_PERSON and not plan.approved_by:
        raise ApprovalMissing(
            Text(
                "This change affects %(number)s messages: a second person must approve it.",
                number=plan.messages,
            )
        )


def expire_plans(*, now_ms: int) -> int:
    """Mark drafts whose ten minutes are over; return how many."""
    return Plan.objects.filter(state=PlanState.DRAFT, expires_at__lte=journal.moment(now_ms)).update(
        state=PlanState.EXPIRED
    )


def _require_further(actor: Any, cluster: str, needs: Iterable[Need]) -> None:
    """Check the rights on other names that the plan needs."""
    for need in needs:
        require(actor, need.verb, cluster, need.name)
