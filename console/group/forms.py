"""What is typed to change offsets: which queues, and where they shall stand. There is no default target."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django import forms

from console.cluster.moment_field import MomentField
from console.lag.models import QueueRow

OFFSET_MAX = 2**63 - 1
TARGETS = (
    # (value, label, what it means), as the page shows them
    ("earliest", "Earliest", "the oldest message still stored"),
    ("latest", "Latest", "skip all that is not handled"),
    ("time", "Time", "the first message stored at or after it"),
    ("offset", "Offset", "one number for every chosen queue"),
    ("shift", "Shift by n", "back or forth from where each queue is"),
    ("like_group", "Like group …", "stand where another group stands"),
    ("as_of", "As it was at …", "offsets recorded at a time"),
)


class OffsetChangeForm(forms.Form):
    """Scope and target; `params()` is what the plan is asked for."""

    queue = forms.TypedMultipleChoiceField(required=False)
    target = forms.ChoiceField(choices=[(value, label) for value, label, _ in TARGETS])
    time = MomentField(required=False)
    as_of = MomentField(required=False)
    offset = forms.IntegerField(required=False, min_value=0, max_value=OFFSET_MAX)
    shift = forms.IntegerField(required=False, min_value=-OFFSET_MAX, max_value=OFFSET_MAX)
    like_group = forms.CharField(required=False, max_length=255)

    def __init__(self, queues: Sequence[QueueRow], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.queues = {queue_value(row): row for row in queues}
        self.fields["queue"].choices = [(value, value) for value in self.queues]  # type: ignore[attr-defined]
        self.fields["target"].error_messages["required"] = "Choose where the queues shall stand."

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not cleaned.get("queue") and "queue" not in self.errors:
            self.add_error("queue", "Choose at least one queue.")
        target = cleaned.get("target")
        if target in ("time", "as_of", "offset", "shift", "like_group") and target not in self.errors:
            if cleaned.get(target) in (None, ""):
                self.add_error(target, "This target needs a value.")
            elif target == "shift" and cleaned[target] == 0:
                self.add_error(target, "A shift by 0 changes nothing.")
        return cleaned

    def params(self) -> dict[str, Any]:
        """Parameters of the plan: whole topics where every queue of them is chosen, single queues
        otherwise.
        """
        chosen = [self.queues[value] for value in self.cleaned_data["queue"]]
        of_topic: dict[str, int] = defaultdict(int)
        for row in self.queues.values():
            of_topic[row.topic] += 1
        topics = sorted({row.topic for row in chosen})
        params: dict[str, Any] = {"target": self.cleaned_data["target"], "topics": topics}
        if len(chosen) < sum(of_topic[topic] for topic in topics):
            params["queues"] = [
                {"topic": row.topic, "broker_name": row.broker_name, "queue_id": row.queue_id}
                for row in chosen
            ]
        target = self.cleaned_data["target"]
        if target in ("time", "as_of"):
            params["time_ms"] = self.cleaned_data[target]
        elif target in ("offset", "shift", "like_group"):
            params[target] = self.cleaned_data[target]
        return params


def queue_value(row: QueueRow) -> str:
    """How a queue stands in the form: JSON, since topic names may hold any separator but quotes."""
    return json.dumps([row.topic, row.broker_name, row.queue_id], separators=(",", ":"))
