"""The form that changes how members get a topic's messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from console.group.mode.facts import MODES, POP, PULL
from console.group.mode.plans import SHARE_MAX, ModeParams
from console.operation.config.forms import ConfigForm
from console.text import Text

WORDS = {PULL: Text("PULL: each queue has one client"), POP: Text("POP: clients share queues")}


class ModeForm(ConfigForm):
    """One topic, its mode, and over how many members a queue is shared."""

    topic = forms.ChoiceField(label=Text("Topic"))
    mode = forms.ChoiceField(label=Text("Mode"), choices=[(one, WORDS[one]) for one in MODES])
    pop_share_queues = forms.IntegerField(
        label=Text("Shared by"),
        required=False,
        min_value=0,
        max_value=SHARE_MAX,
        help_text=Text("POP only: number of further clients that share a queue; empty or 0: all clients"),
        error_messages={"invalid": Text("Enter a whole number.")},
    )

    def __init__(self, topics: Sequence[str], brokers: Sequence[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(brokers, *args, **kwargs)
        self.fields["topic"].choices = [(name, name) for name in topics]  # type: ignore[attr-defined]

    def settings(self) -> ModeParams:
        """Return the parameters of group_mode."""
        return ModeParams(
            topic=self.cleaned_data["topic"],
            mode=self.cleaned_data["mode"],
            pop_share_queues=self.cleaned_data["pop_share_queues"] or 0,
        )
