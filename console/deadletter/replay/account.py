"""Sums of a replay from the ledger's counts, and the checks of them at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.deadletter import selectors
from console.deadletter.models import LedgerState, ReplayLedger
from console.operation.errors import VerificationFailed
from console.operation.job.runner import JobRun
from console.operation.models import Plan
from console.text import Text

GIVEN_UP = Text("the job failed before the broker's answer was known: it may have been sent")
SUMS = ("matched", "sent", "skipped", "failed", "unknown", "handled", "pending")


def figures(counts: Mapping[str, int], plan: Plan) -> dict[str, int]:
    """Return the sums of a replay.

    matched = sent + skipped + failed (+ pending while a batch is in flight); unknown is the part of failed
    that may have arrived, handled the part of skipped that was marked as handled.
    """
    sent, handled = counts[LedgerState.SENT], counts[LedgerState.HANDLED]
    skipped = counts[LedgerState.SKIPPED] + handled
    unknown, pending = counts[LedgerState.UNKNOWN], counts[LedgerState.PENDING]
    failed = counts[LedgerState.FAILED] + unknown
    matched = sent + skipped + failed + pending
    return {
        "matched": matched,
        "sent": sent,
        "skipped": skipped,
        "failed": failed,
        "unknown": unknown,
        "handled": handled,
        "pending": pending,
        "done": sent + skipped + failed,
        "total": max(matched, int(plan.before.get("matched") or 0)),
    }


def verify_sums(plan: Plan, progress: Mapping[str, Any], counts: Mapping[str, int]) -> None:
    """Check that the ledger has one outcome for each letter of the plan, and that the job's sums agree.

    Raises VerificationFailed.
    """
    found = figures(counts, plan)
    if found["pending"]:
        raise VerificationFailed(Text("%(number)s sends have no outcome", number=found["pending"]))
    wrong = [name for name in SUMS if progress.get(name) != found[name]]
    if wrong:
        name = wrong[0]
        raise VerificationFailed(
            Text(
                "The job counted %(number)s %(what)s, its ledger has %(kept)s",
                number=str(progress.get(name)),
                what=name,
                kept=found[name],
            )
        )
    counted, is_complete = plan.before["counted"], plan.before["matched"] is not None
    if found["matched"] < counted:
        raise VerificationFailed(
            Text(
                "The plan counted %(counted)s dead letters, the replay decided %(matched)s: %(number)s "
                "were deleted by their broker or left out. Make a new plan for the rest.",
                counted=counted,
                matched=found["matched"],
                number=counted - found["matched"],
            )
        )
    if is_complete and found["matched"] > counted:
        raise VerificationFailed(
            Text(
                "The plan counted %(counted)s dead letters, the replay decided %(matched)s: the topic "
                "changed under it. The ledger names every letter.",
                counted=counted,
                matched=found["matched"],
            )
        )


def close_open_letters(run: JobRun) -> None:
    """Mark letters without an outcome as UNKNOWN and update the job's sums. Call inside a transaction."""
    still_open = ReplayLedger.objects.filter(plan=run.plan, state=LedgerState.PENDING)
    still_open.update(state=LedgerState.UNKNOWN, reason=GIVEN_UP, updated_at_ms=run.now_ms())
    found = figures(selectors.ledger_counts(run.plan.id), run.plan)
    run.progress |= found
    run.result |= {name: found[name] for name in SUMS}
