"""What a person may ask of a report: the window, in the UTC times of the inputs."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import forms

from console.report.rules import ReportRejected, Window, window, yesterday_to_now

MINUTES = "%Y-%m-%dT%H:%M"
FORMATS = [MINUTES, "%Y-%m-%dT%H:%M:%S"]
NOT_A_TIME = "That is no time such as 2026-03-12T08:00."


class RunForm(forms.Form):
    """From and to as `datetime-local` inputs, read as UTC; without both: yesterday to now."""

    start = forms.DateTimeField(required=False, input_formats=FORMATS, error_messages={"invalid": NOT_A_TIME})
    end = forms.DateTimeField(required=False, input_formats=FORMATS, error_messages={"invalid": NOT_A_TIME})

    def __init__(self, *args: Any, now_ms: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._now_ms = now_ms
        self.window: Window | None = None

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if self.errors:
            return values
        default = yesterday_to_now(self._now_ms)
        start, end = values.get("start"), values.get("end")
        try:
            self.window = window(
                default.from_ms if start is None else _ms(start),
                default.to_ms if end is None else _ms(end),
                now_ms=self._now_ms,
            )
        except ReportRejected as refusal:
            self.add_error("start" if refusal.field == "from_ms" else "end", str(refusal))
        return values


def _ms(moment: dt.datetime) -> int:
    return int(moment.replace(tzinfo=dt.UTC).timestamp() * 1000)


def as_input(at_ms: int) -> str:
    """The value of a `datetime-local` input."""
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime(MINUTES)
