"""What the message browser is asked for: a topic and how to look into it. All of it stands in the address."""

from __future__ import annotations

from typing import Any

from django import forms

from console.cluster.moment_field import MomentField

READS = (
    # (value, label): how to look; the first is what a topic alone means.
    ("newest", "Newest"),
    ("time", "From time"),
    ("key", "Key"),
    ("id", "Message id"),
)
CURSOR_LENGTH_MAX = 20_000  # a base64 JSON of one offset per queue; 500 queues are about 16 kB


class BrowseForm(forms.Form):
    """`?topic=…&read=newest|time|key|id&queue=broker:3&tag=…&from=…&key=…&id=…`."""

    topic = forms.CharField(required=False, max_length=255)
    read = forms.ChoiceField(choices=READS, required=False)
    queue = forms.CharField(required=False, max_length=255)
    tag = forms.CharField(required=False, max_length=255)
    since = MomentField(required=False)
    key = forms.CharField(required=False, max_length=255)
    id = forms.CharField(required=False, max_length=64)
    cursor = forms.CharField(required=False, max_length=CURSOR_LENGTH_MAX)

    def clean_read(self) -> str:
        return self.cleaned_data["read"] or "newest"

    def clean_queue(self) -> tuple[str, int] | None:
        text = self.cleaned_data["queue"].strip()
        if not text:
            return None
        name, _, number = text.rpartition(":")
        if not name or not number.isdigit():
            raise forms.ValidationError("Write a queue as broker name, colon, number: broker-a:3.")
        return name, int(number)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        read = cleaned.get("read")
        needed = {"time": ("since", "a time"), "key": ("key", "a key"), "id": ("id", "an id")}.get(read or "")
        if needed and not cleaned.get(needed[0]) and needed[0] not in self.errors:
            self.add_error(needed[0], f"This search needs {needed[1]}.")
        if read != "id" and not cleaned.get("topic") and self.data.get("read"):
            self.add_error("topic", "Name a topic.")
        return cleaned
