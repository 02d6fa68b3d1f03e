"""The form that starts a change of one configuration key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from console.access.rules import WILDCARD
from console.broker.config.keys import KEY_LENGTH_MAX, VALUE_LENGTH_MAX, config_key, is_key_name, problem_of
from console.operation.plan.params import RawParams
from console.text import Text


class ConfigForm(forms.Form):
    """Key, value and brokers; one broker makes a plan for that broker, several one for the cluster."""

    key = forms.CharField(max_length=KEY_LENGTH_MAX, error_messages={"required": Text("Enter the key.")})
    value = forms.CharField(max_length=VALUE_LENGTH_MAX, required=False, strip=False)
    brokers = forms.MultipleChoiceField(error_messages={"required": Text("Choose at least one broker.")})

    def __init__(self, names: Sequence[str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["brokers"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(name, name) for name in names]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "key" in cleaned and "value" in cleaned:
            key = config_key(cleaned["key"])
            problem = problem_of(key, cleaned["value"])
            if problem:
                at_key = key.fixed or key.is_secret or not is_key_name(key.name)
                self.add_error("key" if at_key else "value", problem)
        return cleaned

    @property
    def subject(self) -> str:
        """Return the subject of the plan: the caller needs CONFIGURE on it."""
        chosen: list[str] = self.cleaned_data["brokers"]
        return chosen[0] if len(chosen) == 1 else WILDCARD

    def params(self) -> RawParams:
        return {
            "key": self.cleaned_data["key"],
            "value": self.cleaned_data["value"],
            "brokers": self.cleaned_data["brokers"],
        }
