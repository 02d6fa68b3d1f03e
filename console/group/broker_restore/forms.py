"""The forms of a restore of a broker's offsets: which moment, and which queues go back."""

from __future__ import annotations

from django import forms

from console.group.broker_restore.plans import ALL, LOST
from console.text import Text
from console.text.moment_field import MomentField

SCOPE_CHOICES = (
    (LOST, Text("Only queues that have no offset now")),
    (ALL, Text("All recorded queues, also those whose offset has moved since")),
)


class MomentForm(forms.Form):
    """`?time=…`: the last round at or before it is restored."""

    time = MomentField(required=False)


class MakeForm(forms.Form):
    """Which queues go back."""

    scope = forms.ChoiceField(choices=SCOPE_CHOICES, initial=LOST)
