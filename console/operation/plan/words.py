"""What a plan's page says and which part shows its rows, by kind; a kind without an entry gets the
plain form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext_noop

from console.operation.models import Plan

KIND_WORDS: Mapping[str, str] = {  # every kind as people say it
    "offset_change": gettext_noop("Offset change"),
    "dead_letter_replay": gettext_noop("Dead-letter replay"),
    "dlq_readable": gettext_noop("Readable dead letters"),
    "topic_create": gettext_noop("New topic"),
    "topic_change": gettext_noop("Topic change"),
    "topic_quarantine": gettext_noop("Topic quarantine"),
    "topic_release": gettext_noop("Topic release"),
    "topic_delete": gettext_noop("Topic deletion"),
    "topic_force_delete": gettext_noop("Topic deletion without quarantine"),
    "group_create": gettext_noop("New group"),
    "group_change": gettext_noop("Group change"),
    "group_quarantine": gettext_noop("Group quarantine"),
    "group_release": gettext_noop("Group release"),
    "group_delete": gettext_noop("Group deletion"),
    "group_force_delete": gettext_noop("Group deletion without quarantine"),
    "group_pause": gettext_noop("Pause of a group"),
    "group_resume": gettext_noop("Resumption of a group"),
    "group_mode": gettext_noop("Consume mode of a group"),
    "broker_config_change": gettext_noop("Broker configuration"),
    "broker_drain": gettext_noop("Broker drain"),
    "message_send": gettext_noop("Message send"),
}
CONFIG_DEEDS: Mapping[
    str, str
] = {  # kinds that change configuration broker by broker → label of their button
    "topic_create": "Create the topic",
    "topic_change": "Change the topic",
    "topic_quarantine": "Put it in quarantine",
    "topic_release": "Release it",
    "topic_delete": "Delete the topic",
    "topic_force_delete": "Delete the topic without quarantine",
    "group_create": "Create the group",
    "group_change": "Change the group",
    "group_quarantine": "Put it in quarantine",
    "group_release": "Release it",
    "group_delete": "Delete the group",
    "group_force_delete": "Delete the group without quarantine",
    "group_pause": "Pause reading",
    "group_resume": "Resume reading",
    "group_mode": "Set the consume mode",
    "broker_config_change": "Change the key",
    "dlq_readable": "Allow reading it",
}
DIFF_TEMPLATES: Mapping[str, str] = {
    "offset_change": "operation/_diff_offsets.html",
    "dead_letter_replay": "operation/_diff_dead_letters.html",
    "broker_drain": "broker/_diff_drain.html",
    "message_send": "message/_diff_message.html",
    **dict.fromkeys(CONFIG_DEEDS, "operation/_diff_config.html"),
}
JOB_TEMPLATES: Mapping[str, str] = {
    "offset_change": "operation/_job_offsets.html",
    "dead_letter_replay": "operation/_job_replay.html",
    "broker_drain": "broker/_job_drain.html",
    "message_send": "message/_job_message.html",
    **dict.fromkeys(CONFIG_DEEDS, "operation/_job_config.html"),
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
    if plan.params.get("target") == "nowhere":
        return f"Mark {_plural(plan.messages, 'dead letter')} as handled"
    if plan.params.get("target") == "client":
        return "Give it to the client"
    return f"Replay {_plural(plan.messages, 'dead letter')}"


def _drain_deed(plan: Plan) -> str:
    return (
        f"Drain {plan.subject}" if plan.params.get("direction") == "drain" else f"Offer {plan.subject} again"
    )


DEEDS: Mapping[str, Callable[[Plan], str]] = {
    "broker_drain": _drain_deed,
    "offset_change": _offset_deed,
    "message_send": lambda plan: "Send the message",
    "dead_letter_replay": _replay_deed,
}


def deed(plan: Plan) -> str:
    """The label of the button that applies the plan: the consequence, not "OK"."""
    if plan.kind in CONFIG_DEEDS:
        return "Put it back" if "exact" in plan.params else CONFIG_DEEDS[plan.kind]
    words = DEEDS.get(plan.kind)
    return words(plan) if words else "Apply the plan"


def offset_sums(plan: Plan) -> dict[str, Any]:
    """Sums under the columns of an offset plan. Where the lag of some queue is not known, as that of one that was never
    committed, the others' is the least it can be (`…_lower_bound`); None where no queue's is known.
    """
    moving = [row for row in plan.diff if row.get("moves")]
    found: dict[str, Any] = {
        "queues": len(plan.diff),
        "moving": len(moving),
        "delta": sum(row["delta"] or 0 for row in moving),
    }
    for name in ("lag_before", "lag_after"):
        known = [row[name] for row in plan.diff if row.get(name) is not None]
        found[name] = sum(known) if known else None
        found[f"{name}_lower_bound"] = bool(known) and len(known) < len(plan.diff)
    return found


ROW_ORDER = ("failed", "waiting", "applied", "passed", "verified")


def worst_rows(rows: Sequence[Mapping[str, Any]], most: int) -> Sequence[Mapping[str, Any]]:
    """Rows of a result for a page: all in their order, or of very many those that need a look first."""
    if len(rows) <= most:
        return rows
    place = {state: number for number, state in enumerate(ROW_ORDER)}
    return sorted(rows, key=lambda row: place.get(row.get("state", ""), len(place)))[:most]


INSTEAD: Mapping[str, tuple[str, str, bool]] = {
    # kind → (URL name, words, whether the address names the subject): where to wish for something else
    "offset_change": ("offset-change", "Choose another target", True),
    "dead_letter_replay": ("dead-letter-group", "Choose other letters, target or rate", True),
    "topic_create": ("topic-create", "Fill in the form again", False),
    "topic_change": ("topic-change", "Change something else", True),
    "group_create": ("group-create", "Fill in the form again", False),
    "group_change": ("group-settings", "Change something else", True),
    "group_pause": ("group-settings", "Stop the whole group (consumeEnable)", True),
    "group_resume": ("group-pause", "Choose other topics or brokers", True),
    "group_mode": ("group-mode", "Choose another topic or mode", True),
}


def instead(plan: Plan) -> dict[str, str] | None:
    """{url, words} of the page where another plan of this kind is made; None where there is none."""
    found = INSTEAD.get(plan.kind)
    if found is None:
        return None
    name, words, has_subject = found
    return {
        "url": reverse(name, args=[plan.cluster, plan.subject] if has_subject else [plan.cluster]),
        "words": words,
    }


def is_harmless(plan: Plan) -> bool:
    """Whether a plan takes nothing away: its button is no danger."""
    return (
        plan.kind in ("topic_create", "topic_release", "group_create", "group_release", "group_resume")
        and "exact" not in plan.params
    )
