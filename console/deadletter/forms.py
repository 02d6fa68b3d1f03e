"""What is typed to look into dead letters and to replay them."""

from __future__ import annotations

from typing import Any

from django import forms

from console.cluster.moment_field import MomentField
from console.operation.rules import RATE_PER_S_MAX

TARGETS = (("failed_group", "Only this group"), ("original_topic", "The original topic"))
RATE_DEFAULT = 50  # messages per second: slow enough to watch, and to stop in time


class FilterForm(forms.Form):
    """Which dead letters: all fields narrow, all may be empty."""

    since = MomentField(required=False)
    until = MomentField(required=False)
    tag = forms.CharField(required=False, max_length=255)
    key = forms.CharField(required=False, max_length=255)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        since, until = cleaned.get("since"), cleaned.get("until")
        if since is not None and until is not None and since >= until:
            self.add_error("until", "The end must lie after the start.")
        return cleaned

    def filter(self) -> dict[str, Any]:
        """As services and plans want it; without the fields that are empty."""
        wanted = {
            "from_ms": self.cleaned_data["since"],
            "to_ms": self.cleaned_data["until"],
            "tag": self.cleaned_data["tag"].strip(),
            "key": self.cleaned_data["key"].strip(),
        }
        return {name: value for name, value in wanted.items() if value not in (None, "")}


class ReplayForm(FilterForm):
    """A filter and what to do with what matches."""

    target = forms.ChoiceField(choices=TARGETS)
    rate_per_s = forms.IntegerField(required=False, min_value=1, max_value=RATE_PER_S_MAX)
    send_again = forms.BooleanField(required=False)

    def params(self) -> dict[str, Any]:
        """Parameters of the plan."""
        return {
            "target": self.cleaned_data["target"],
            "rate_per_s": self.cleaned_data["rate_per_s"],
            "skip_replayed": not self.cleaned_data["send_again"],
            "filter": self.filter(),
        }
