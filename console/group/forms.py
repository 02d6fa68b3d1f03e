"""What is typed to change offsets: which queues, and where they shall stand. There is no default target."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django import forms

from console.cluster.moment_field import MomentField
from console.lag.rows.queue_row import QueueRow
from console.text import Text

OFFSET_MAX = 2**63 - 1
TARGETS = (
    # (value, label, what it means), as the page shows them
    ("earliest", Text("Earliest"), Text("the oldest message still stored")),
    ("latest", Text("Latest"), Text("skip all that is not handled")),
    ("time", Text("Time"), Text("the first message stored at or after it")),
    ("offset", Text("Offset"), Text("one number for every chosen queue")),
    ("shift", Text("Shift by n"), Text("back or forth from where each queue is")),
    ("like_group", Text("Like group …"), Text("stand where another group stands")),
    ("as_of", Text("As it was at …"), Text("offsets recorded at a time")),
    ("undo", Text("Undo of a plan"), Text("back to before it was applied")),
)
VALUE_FIELDS = {
    # target → the field of the form that holds its value
    "time": "time",
    "as_of": "as_of",
    "offset": "offset",
    "shift": "shift",
    "like_group": "like_group",
    "undo": "undo_plan",
}


class OffsetChangeForm(forms.Form):
    """Scope and target; `params()` is what the plan is asked for.

    `topic` ticks all queues of a topic (a group of very many queues shows no single ones), `queue` single ones.
    """

    topic = forms.MultipleChoiceField(required=False)
    queue = forms.MultipleChoiceField(required=False)
    target = forms.ChoiceField(choices=[(value, label) for value, label, _ in TARGETS])
    time = MomentField(required=False)
    as_of = MomentField(required=False)
    offset = forms.IntegerField(required=False, min_value=0, max_value=OFFSET_MAX)
    shift = forms.IntegerField(required=False, min_value=-OFFSET_MAX, max_value=OFFSET_MAX)
    like_group = forms.CharField(required=False, max_length=255)
    undo_plan = forms.CharField(required=False, max_length=20)

    def __init__(self, queues: Sequence[QueueRow], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.queues = {queue_value(row): row for row in queues}
        topics = sorted({row.topic for row in queues})
        self.fields["queue"].choices = [(value, value) for value in self.queues]  # type: ignore[attr-defined]
        self.fields["topic"].choices = [(topic, topic) for topic in topics]  # type: ignore[attr-defined]
        self.fields["target"].error_messages["required"] = Text("Choose where the queues shall stand.")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if (
            not cleaned.get("queue")
            and not cleaned.get("topic")
            and not {"queue", "topic"} & set(self.errors)
        ):
            self.add_error("queue", Text("Choose at least one queue."))
        target = cleaned.get("target")
        field = VALUE_FIELDS.get(target or "")
        if field and field not in self.errors:
            if cleaned.get(field) in (None, ""):
                self.add_error(field, Text("This target needs a value."))
            elif target == "shift" and cleaned[field] == 0:
                self.add_error(field, Text("A shift by 0 changes nothing."))
        return cleaned

    def params(self) -> dict[str, Any]:
        """Parameters of the plan: whole topics where every queue of them is chosen, single queues
        otherwise.
        """
        whole = set(self.cleaned_data["topic"])
        ticked = set(self.cleaned_data["queue"])
        chosen = [row for value, row in self.queues.items() if value in ticked or row.topic in whole]
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
        elif target in VALUE_FIELDS:
            params[VALUE_FIELDS[target]] = self.cleaned_data[VALUE_FIELDS[target]]
        return params

    def refuse(self, reason: str, field: str) -> None:
        """Show what the plan was refused for beside the field that it is about: ``time_ms`` is the chosen target's
        own field, ``queues`` and ``topics`` are the scope."""
        named = {
            "time_ms": VALUE_FIELDS.get(self.cleaned_data["target"]),
            "queues": "queue",
            "topics": "queue",
        }
        found = named.get(field, field)
        self.add_error(found if found in self.fields else None, reason)


def queue_value(row: QueueRow) -> str:
    """How a queue stands in the form: JSON, since topic names may hold any separator but quotes."""
    return json.dumps([row.topic, row.broker_name, row.queue_id], separators=(",", ":"))
