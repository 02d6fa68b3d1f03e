"""What a plan's page says and which part shows its rows, by kind; a kind without an entry gets the
plain form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from console.operation.models import Plan

DIFF_TEMPLATES: Mapping[str, str] = {
    "offset_change": "operation/_diff_offsets.html",
    "dead_letter_replay": "operation/_diff_dead_letters.html",
}
JOB_TEMPLATES: Mapping[str, str] = {
    "offset_change": "operation/_job_offsets.html",
    "dead_letter_replay": "operation/_job_replay.html",
}
PLAIN_DIFF, PLAIN_JOB = "operation/_diff_plain.html", "operation/_job_plain.html"


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _offset_deed(plan: Plan) -> str:
    moving = [row for row in plan.diff if row.get("moves")]
    again = sum(max(0, -(row["delta"] or 0)) for row in moving)
    past = sum(max(0, row["delta"] or 0) for row in moving)
    if again and not past:
        return f"Replay {_plural(again, 'message')}"
    if past and not again:
        return f"Skip {_plural(past, 'message')}"
    return f"Move {_plural(len(moving), 'offset')}"


def _replay_deed(plan: Plan) -> str:
    return f"Replay {_plural(plan.messages, 'dead letter')}"


DEEDS: Mapping[str, Callable[[Plan], str]] = {
    "offset_change": _offset_deed,
    "dead_letter_replay": _replay_deed,
}


def deed(plan: Plan) -> str:
    """The label of the button that applies the plan: the consequence, not "OK"."""
    words = DEEDS.get(plan.kind)
    return words(plan) if words else "Apply the plan"


def offset_sums(plan: Plan) -> dict[str, int | None]:
    """Sums under the columns of an offset plan; a lag of a queue that was never committed is left out."""
    moving = [row for row in plan.diff if row.get("moves")]
    lags = [row["lag_before"] for row in plan.diff if row.get("lag_before") is not None]
    return {
        "queues": len(plan.diff),
        "moving": len(moving),
        "delta": sum(row["delta"] or 0 for row in moving),
        "lag_before": sum(lags) if lags else None,
        "lag_after": sum(row["lag_after"] or 0 for row in plan.diff if row.get("lag_after") is not None),
    }
