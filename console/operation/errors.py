"""Refusals of the operation services. Each has a stable ``code`` that REST returns and pages test for.

OperationError
├── PlanNotFound, JobNotFound              404
├── PlanRejected(field)                    422  the parameters make no plan
├── PlanBlocked                            409  the plan gives the reason
├── PlanDrifted(changes)                   409  the state moved beyond normal progress
├── PlanExpired, PlanAlreadyApplied, PlanDiscarded   409
├── ConfirmationMissing                    422
├── ApprovalMissing, ApprovalBySamePerson  409
├── IllegalTransition                      409  e.g. pause of a finished job
├── UndoImpossible                         409
├── IdempotencyKeyReused                   422
├── NotPermitted                           403
├── TopicGone                                   what a job works on was deleted (ends it as FAILED)
└── VerificationFailed                          the brokers do not show the target (ends a job as FAILED)
"""

from __future__ import annotations

from collections.abc import Sequence

from console.text import Text


class OperationError(Exception):
    """Base of the refusals; ``status`` is the HTTP status of pages and REST."""

    code = "operation_error"
    status = 409

    def __init__(self, reason: Text) -> None:
        super().__init__(reason)


class PlanNotFound(OperationError):
    code, status = "plan_not_found", 404


class JobNotFound(OperationError):
    code, status = "job_not_found", 404


class PlanRejected(OperationError):
    """The parameters make no plan; ``field`` names the one at fault ("" for a combination)."""

    code, status = "plan_rejected", 422

    def __init__(self, reason: Text, field: str = "") -> None:
        super().__init__(reason)
        self.field = field


class PlanBlocked(OperationError):
    code = "plan_blocked"


class PlanDrifted(OperationError):
    """The state has changed since the plan; ``changes``: one sentence for each difference."""

    code = "plan_drifted"

    def __init__(self, changes: Sequence[Text]) -> None:
        moved = Text.of_parts(changes)
        super().__init__(Text("The state changed since the plan was made: %(changes)s", changes=moved))
        self.changes = list(changes)


class PlanExpired(OperationError):
    code = "plan_expired"


class PlanAlreadyApplied(OperationError):
    code = "plan_already_applied"

    def __init__(self, message: Text, job_id: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class PlanDiscarded(OperationError):
    code = "plan_discarded"


class ConfirmationMissing(OperationError):
    code, status = "confirmation_missing", 422


class ApprovalMissing(OperationError):
    code = "approval_missing"


class ApprovalBySamePerson(OperationError):
    code = "approval_by_same_person"


class IllegalTransition(OperationError):
    code = "illegal_transition"


class UndoImpossible(OperationError):
    code = "undo_impossible"


class IdempotencyKeyReused(OperationError):
    code, status = "idempotency_key_reused", 422


class NotPermitted(OperationError):
    code, status = "not_permitted", 403


class TopicGone(OperationError):
    code = "topic_gone"


class VerificationFailed(OperationError):
    code = "verification_failed"
