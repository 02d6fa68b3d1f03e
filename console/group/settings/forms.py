"""Forms to create a group or change its configuration; each field has RocketMQ's limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from console.group.settings import config as settings_config
from console.group.settings.config import FIELDS, MEANING, GroupParams
from console.operation.config.forms import STAYS, TRUE_FALSE, ConfigForm, allowed_name
from console.text import Text


class GroupChangeForm(ConfigForm):
    """One field per key of SubscriptionGroupConfig; an empty field leaves the setting unchanged."""

    empty_word = STAYS

    def __init__(self, brokers: Sequence[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(brokers, *args, **kwargs)
        for name, (key, lowest, highest) in FIELDS.items():
            if lowest is None:
                self.fields[name] = forms.ChoiceField(
                    label=key,
                    required=False,
                    choices=[("", self.empty_word), *TRUE_FALSE],
                    help_text=MEANING[name],
                )
            else:
                self.fields[name] = forms.IntegerField(
                    label=key,
                    required=False,
                    min_value=lowest,
                    max_value=highest,
                    help_text=MEANING[name],
                    error_messages={"invalid": Text("Enter a whole number.")},
                )

    def settings(self) -> GroupParams:
        """Return the parameters of group_change."""
        given = {
            name: self.cleaned_data[name] for name in FIELDS if self.cleaned_data[name] not in (None, "")
        }
        return GroupParams(
            **{name: value == "true" if FIELDS[name][1] is None else value for name, value in given.items()}
        )


class GroupCreateForm(GroupChangeForm):
    """The same form with a name; empty fields get RocketMQ's defaults."""

    empty_word = Text("RocketMQ's default")
    name = forms.CharField(
        label=Text("Name"),
        max_length=settings_config.NAME_LENGTH_MAX,
        help_text=Text(
            "letters, digits, %% | - and _, at most %(number)s", number=settings_config.NAME_LENGTH_MAX
        ),
    )

    def clean_name(self) -> str:
        return allowed_name(self.cleaned_data["name"], settings_config.check_new_name)
