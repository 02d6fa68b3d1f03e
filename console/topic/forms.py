"""Forms to create or change a topic; each field has RocketMQ's limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from console.operation.config.forms import STAYS, TRUE_FALSE, ConfigForm, allowed_name
from console.text import Text
from console.topic import topic_config
from console.topic.topic_config import MESSAGE_TYPES, PERMISSIONS, QUEUES_DEFAULT, QUEUES_MAX, TopicParams

STAY = ("", STAYS)
PERM_CHOICES = [
    (str(perm), Text("%(word)s (%(perm)s)", word=word, perm=perm)) for perm, word in PERMISSIONS.items()
]
NAME_LENGTH_MAX = 127  # RocketMQ's TopicValidator


def _number(label: Text, help_text: Text, initial: int | None) -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        required=False,
        min_value=1,
        max_value=QUEUES_MAX,
        initial=initial,
        help_text=help_text,
        error_messages={"invalid": Text("Enter a whole number.")},
    )


class TopicChangeForm(ConfigForm):
    """Settings of a topic; an empty field leaves the setting unchanged."""

    write_queues = _number(
        Text("Write queues"), Text("on each chosen broker; producers spread messages over them"), None
    )
    read_queues = _number(Text("Read queues"), Text("on each chosen broker; consumers share them"), None)
    perm = forms.ChoiceField(
        label=Text("Permission"),
        required=False,
        choices=[STAY, *PERM_CHOICES],
        help_text=Text("what clients may do"),
    )
    message_type = forms.ChoiceField(
        label=Text("Message type"),
        required=False,
        choices=[STAY, *((each, each) for each in MESSAGE_TYPES)],
        help_text=Text("the attribute message.type of RocketMQ 5"),
    )
    order = forms.ChoiceField(
        label=Text("Order"),
        required=False,
        choices=[STAY, *TRUE_FALSE],
        help_text=Text("clients send messages of one key to one queue"),
    )

    @property
    def selects(self) -> list[forms.BoundField]:
        """The fields with choices."""
        return [self["perm"], self["message_type"], self["order"]]

    def settings(self) -> TopicParams:
        """Return the parameters of topic_change."""
        cleaned = self.cleaned_data
        return TopicParams(
            write_queues=cleaned["write_queues"],
            read_queues=cleaned["read_queues"],
            perm=int(cleaned["perm"]) if cleaned["perm"] else None,
            order=cleaned["order"] == "true" if cleaned["order"] else None,
            message_type=cleaned["message_type"] or None,
        )


class TopicCreateForm(TopicChangeForm):
    """The same form with a name; the usual values are filled in."""

    name = forms.CharField(
        label=Text("Name"),
        max_length=NAME_LENGTH_MAX,
        help_text=Text("letters, digits, %% | - and _, at most %(number)s", number=NAME_LENGTH_MAX),
        error_messages={"max_length": Text("Enter a name of at most 127 characters.")},
    )
    field_order = ("name", "write_queues", "read_queues", "perm", "message_type", "order", "brokers")

    def __init__(self, brokers: Sequence[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(brokers, *args, **kwargs)
        self.fields["write_queues"].initial = self.fields["read_queues"].initial = QUEUES_DEFAULT
        for field, choices, initial in (
            ("perm", PERM_CHOICES, "6"),
            ("message_type", [("", Text("not set")), *((each, each) for each in MESSAGE_TYPES)], ""),
            ("order", TRUE_FALSE, "false"),
        ):
            self.fields[field].choices = choices  # type: ignore[attr-defined]
            self.fields[field].initial = initial
        for field in ("write_queues", "read_queues"):
            self.fields[field].required = True
            self.fields[field].error_messages["required"] = Text(
                "Enter the number of queues; RocketMQ's default is %(number)s.", number=QUEUES_DEFAULT
            )

    def clean_name(self) -> str:
        return allowed_name(self.cleaned_data["name"], topic_config.check_new_name)
