"""What is typed to create a group or to change its configuration. Each field says what RocketMQ allows there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from console.group import settings_config
from console.group.settings_config import FIELDS, MEANING
from console.operation.errors import PlanRejected

CHOICES = [("", "stays as it is"), ("true", "true"), ("false", "false")]


class GroupChangeForm(forms.Form):
    """One field per key of SubscriptionGroupConfig, named by it; empty stays as it is."""

    empty_word = "stays as it is"

    def __init__(self, brokers: Sequence[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.broker_names = list(brokers)
        for name, (key, lowest, highest) in FIELDS.items():
            if lowest is None:
                self.fields[name] = forms.ChoiceField(
                    label=key,
                    required=False,
                    choices=[("", self.empty_word), *CHOICES[1:]],
                    help_text=MEANING[name],
                )
            else:
                self.fields[name] = forms.IntegerField(
                    label=key,
                    required=False,
                    min_value=lowest,
                    max_value=highest,
                    help_text=MEANING[name],
                    error_messages={"invalid": "Write a whole number."},
                )
        self.fields["brokers"] = forms.MultipleChoiceField(
            label="Brokers", required=False, choices=[(name, name) for name in brokers]
        )

    @property
    def settings_fields(self) -> list[tuple[forms.BoundField, bool]]:
        """(field, whether it is a choice) of every key."""
        return [(self[name], lowest is None) for name, (_, lowest, _) in FIELDS.items()]

    def clean_brokers(self) -> list[str]:
        chosen: list[str] = self.cleaned_data["brokers"]
        if self.broker_names and not chosen:
            raise forms.ValidationError("Choose at least one broker.")
        return chosen

    def params(self) -> dict[str, Any]:
        """Parameters of group_change; brokers only where not all are chosen."""
        found: dict[str, Any] = {}
        for name, (_, lowest, _) in FIELDS.items():
            value = self.cleaned_data[name]
            if value not in (None, ""):
                found[name] = value == "true" if lowest is None else value
        chosen = self.cleaned_data["brokers"]
        return found if set(chosen) == set(self.broker_names) else {**found, "brokers": chosen}


class GroupCreateForm(GroupChangeForm):
    """The same with a name; what is left empty gets RocketMQ's default."""

    empty_word = "RocketMQ's default"
    name = forms.CharField(
        label="Name",
        max_length=settings_config.NAME_LENGTH_MAX,
        help_text=f"letters, digits, % | - and _, at most {settings_config.NAME_LENGTH_MAX}",
    )

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        try:
            settings_config.check_new_name(name)
        except PlanRejected as refusal:
            raise forms.ValidationError(str(refusal)) from refusal
        return name
