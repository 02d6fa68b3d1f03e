"""Forms that make a plan of offsets; that of an offset change: which queues, and their target, without a default."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import HttpRequest

from console.access.session.visitor import remote_addr
from console.brokers.mqadmin import BrokerUnavailable, MQBrokerError, RemotingTimeout
from console.group.offsets.stored import OffsetParams
from console.group.offsets.target_request import Target, queue_value
from console.group.offsets.targets import OFFSET_MAX, ROWS, TARGETS
from console.lag.rows.queue_row import QueueRow
from console.operation import services
from console.operation.errors import NotPermitted, OperationError, PlanRejected
from console.operation.models import Plan
from console.operation.plan.places import QueuePlace
from console.text import Text, text_of
from console.text.moment_field import MomentField
from console.text.stored import as_json

OFFERED = [target for target in ROWS if target.label]


class OffsetPlanForm(forms.Form):
    """A form that makes a plan of offsets. ``other_group``: the field that names a group besides that of the page."""

    other_group = ""

    def shown_at(self) -> Mapping[str, str]:
        """Return parameter → the field beside which its refusal is shown, where the two have other names."""
        return {}

    def params(self) -> OffsetParams:
        """Return the parameters of the plan of a valid form."""
        raise NotImplementedError

    def refuse(self, reason: str, parameter: str) -> None:
        """Show why the plan was refused beside the field at fault, above the form where there is none."""
        found = self.shown_at().get(parameter, parameter)
        self.add_error(found if found in self.fields else None, reason)

    def plan(self, request: HttpRequest, cluster: str, group: str) -> Plan | None:
        """Make the plan of a valid form; None where it was refused, as the form shows then."""
        try:
            return services.create_plan(
                "offset_change",
                cluster,
                group,
                as_json(self.params()),
                request.user,
                remote_addr=remote_addr(request),
            )
        except PlanRejected as refusal:
            self.refuse(text_of(refusal).local(), refusal.field)
        except NotPermitted as refusal:
            self.refuse(text_of(refusal).local(), self.other_group)
        except (BrokerUnavailable, MQBrokerError, RemotingTimeout, OperationError) as trouble:
            self.add_error(None, text_of(trouble).local())
        return None


class OffsetChangeForm(OffsetPlanForm):
    """Scope and target; `params()` are the parameters of the plan.

    `topic` selects all queues of a topic (a group with very many queues offers no single ones), `queue`
    single ones.
    """

    other_group = "like_group"

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
                self.add_error(field, Text("Enter a value for this target."))
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

    def shown_at(self) -> Mapping[str, str]:
        """Return the fields of the scope, and that of the chosen target's time."""
        return {"time_ms": self.chosen.field, "queues": "queue", "topics": "queue"}

    @property
    def chosen(self) -> Target:
        """The chosen target."""
        return TARGETS[self.cleaned_data["target"]]
