"""What the forms of topics and groups have in common: the chosen brokers and the name of a new object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django import forms
from msgspec import structs

from console.operation.errors import PlanRejected
from console.operation.plan.params import Params
from console.text import Text, text_of

STAYS = Text("stays as it is")
TRUE_FALSE = [("true", "true"), ("false", "false")]


class ConfigForm(forms.Form):
    """Settings of one object on some brokers; `params()` are the parameters of the plan."""

    brokers = forms.MultipleChoiceField(label=Text("Brokers"), required=False)

    def __init__(self, brokers: Sequence[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.broker_names = list(brokers)
        self.fields["brokers"].choices = [(name, name) for name in brokers]  # type: ignore[attr-defined]

    def settings(self) -> Params:
        """Return the settings that are filled in, as parameters of the plan."""
        raise NotImplementedError

    def params(self) -> Params:
        """Return the settings, and the brokers unless all are chosen."""
        chosen = self.cleaned_data["brokers"]
        found = self.settings()
        if set(chosen) == set(self.broker_names):
            return found
        return structs.replace(found, brokers=tuple(chosen))

    def clean_brokers(self) -> list[str]:
        chosen: list[str] = self.cleaned_data["brokers"]
        if self.broker_names and not chosen:
            raise forms.ValidationError(Text("Choose at least one broker.").local())
        return chosen


def allowed_name(name: str, check: Callable[[str], None]) -> str:
    """Check the name of a new object; errors of ``check`` become errors of the field."""
    try:
        check(name)
    except PlanRejected as refusal:
        raise forms.ValidationError(text_of(refusal).local()) from refusal
    return name
