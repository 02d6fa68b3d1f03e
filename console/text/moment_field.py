"""A form field for times: local time in the browser's zone, or ISO 8601 with offset. Cleans to epoch ms."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Mapping
from typing import Any

from django import forms

from console.text import Text

# Hidden input that shell.js fills with the browser's zone.
ZONE_INPUT = "zone"


class MomentInput(forms.Widget):
    """Reads the field together with the form's zone."""

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> tuple[str, str]:
        return str(data.get(name) or ""), str(data.get(ZONE_INPUT) or "UTC")


class MomentField(forms.Field):
    """A time field; cleans to epoch ms or None.

    Accepts `2026-03-12T08:20:00` in the form's zone, or `2026-03-12T08:20:00+08:00`.
    """

    widget = MomentInput

    def to_python(self, value: Any) -> int | None:
        text, zone_name = value or ("", "UTC")
        if not text.strip():
            return None
        try:
            moment = dt.datetime.fromisoformat(text.strip())
            zone = zoneinfo.ZoneInfo(zone_name)
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as error:
            raise forms.ValidationError(
                Text(
                    "Enter a time like 2026-03-12 08:20:00, or with its zone like 2026-03-12T08:20:00+08:00."
                )
            ) from error
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        return round(moment.timestamp() * 1000)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(data and data[0])
