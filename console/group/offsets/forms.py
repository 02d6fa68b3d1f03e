"""The form of an offset change: which queues, and their target. There is no default target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django import forms

from console.group.offsets.stored import OffsetParams
from console.group.offsets.target_request import Target, queue_value
from console.group.offsets.targets import OFFSET_MAX, ROWS, TARGETS
from console.lag.rows.queue_row import QueueRow
from console.operation.plan.places import QueuePlace
from console.text import Text
from console.text.moment_field import MomentField

OFFERED = [target for target in ROWS if target.label]


class OffsetChangeForm(forms.Form):
    """Scope and target; `params()` are the parameters of the plan.

    `topic` selects all queues of a topic (a group with very many queues offers no single ones), `queue`
    single ones.
    """

    topic = forms.MultipleChoiceField(required=False)
    queue = forms.MultipleChoiceField(required=False)
    target = forms.ChoiceField(choices=[(target.name, target.label) for target in OFFERED])
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
        self.fields["target"].error_messages["required"] = Text("Choose a target for the queues.")

    def clean(self) -> None:
        super().clean()
        cleaned = self.cleaned_data
        if (
            not cleaned.get("queue")
            and not cleaned.get("topic")
            and not {"queue", "topic"} & set(self.errors)
        ):
            self.add_error("queue", Text("Choose at least one queue."))
        target = cleaned.get("target")
        field = TARGETS[target].field if target else ""
        if field and field not in self.errors:
            if cleaned.get(field) in (None, ""):
                self.add_error(field, Text("This target needs a value."))
            elif target == "shift" and cleaned[field] == 0:
                self.add_error(field, Text("A shift by 0 changes nothing."))

    def params(self) -> OffsetParams:
        """Return the plan's parameters: whole topics if all their queues are chosen, else single queues."""
        whole = set(self.cleaned_data["topic"])
        ticked = set(self.cleaned_data["queue"])
        chosen = [row for value, row in self.queues.items() if value in ticked or row.topic in whole]
        of_topic: dict[str, int] = defaultdict(int)
        for row in self.queues.values():
            of_topic[row.topic] += 1
        topics = sorted({row.topic for row in chosen})
        queues = [
            QueuePlace(topic=row.topic, broker_name=row.broker_name, queue_id=row.queue_id) for row in chosen
        ]
        target = self.chosen
        parameter = target.parameter
        return OffsetParams(
            target=target.name,
            topics=tuple(topics),
            queues=tuple(queues) if len(chosen) < sum(of_topic[topic] for topic in topics) else (),
            **({} if parameter is None else {parameter.name: self.cleaned_data[target.field]}),
        )

    @property
    def chosen(self) -> Target:
        """The chosen target."""
        return TARGETS[self.cleaned_data["target"]]

    def refuse(self, reason: str, field: str) -> None:
        """Show why the plan was refused beside the field at fault.

        ``time_ms`` is the field of the chosen target, ``queues`` and ``topics`` are the scope.
        """
        named = {
            "time_ms": self.chosen.field,
            "queues": "queue",
            "topics": "queue",
        }
        found = named.get(field, field)
        self.add_error(found if found in self.fields else None, reason)
