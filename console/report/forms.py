"""Forms of reports: the window of a run, a schedule, a promise."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import forms
from django.utils import timezone

from console.report.delivery import sending as delivery
from console.report.delivery.schedules import Change
from console.report.models import WEEKDAYS, ZONE_LENGTH_MAX, ReportSchedule
from console.report.rules import ReportRejected, Window, window, yesterday_to_now
from console.text import Text, text_of
from spark.lag.local_time import UTC, zone_problem

MINUTES = "%Y-%m-%dT%H:%M"
FORMATS = [MINUTES, "%Y-%m-%dT%H:%M:%S"]
NOT_A_TIME = Text("Enter a time like 2026-03-12T08:00.")


class UtcTimeField(forms.DateTimeField):
    """A time of UTC, whatever the reader's zone."""

    def to_python(self, value: Any) -> dt.datetime | None:
        with timezone.override(dt.UTC):
            return super().to_python(value)


class RunForm(forms.Form):
    """From and to as `datetime-local` inputs, read as UTC; without both: yesterday to now."""

    start = UtcTimeField(required=False, input_formats=FORMATS, error_messages={"invalid": NOT_A_TIME})
    end = UtcTimeField(required=False, input_formats=FORMATS, error_messages={"invalid": NOT_A_TIME})

    def __init__(self, *args: Any, now_ms: int, zone: str = UTC, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._now_ms = now_ms
        self._zone = zone
        self.window: Window | None = None

    def clean(self) -> None:
        super().clean()
        if self.errors:
            return
        default = yesterday_to_now(self._now_ms, self._zone)
        start, end = self.cleaned_data.get("start"), self.cleaned_data.get("end")
        try:
            self.window = window(
                default.from_ms if start is None else _ms(start),
                default.to_ms if end is None else _ms(end),
                now_ms=self._now_ms,
            )
        except ReportRejected as refusal:
            self.add_error("start" if refusal.field == "from_ms" else "end", text_of(refusal))


class ScheduleForm(forms.Form):
    """When a report is made, on the wall clock of its zone, and who is notified.

    An empty webhook field keeps the one that is set; `no_webhook` removes it. The address is never shown.
    """

    is_on = forms.BooleanField(required=False, label=Text("On"))
    cadence = forms.ChoiceField(choices=ReportSchedule.Cadence.choices, label=Text("Repeats"))
    weekday = forms.TypedChoiceField(
        choices=list(enumerate(WEEKDAYS)), coerce=int, label=Text("On"), initial=0
    )
    hour = forms.IntegerField(min_value=0, max_value=23, label=Text("Hour"), initial=0)
    minute = forms.IntegerField(min_value=0, max_value=59, label=Text("Minute"))
    zone = forms.CharField(
        required=False,
        max_length=ZONE_LENGTH_MAX,
        label=Text("Time zone"),
        help_text=Text(
            "Empty: the time zone of the installation. Daily lag, weekly lag, capacity, and months, "
            "quarters and years share one time zone."
        ),
    )
    emails = forms.CharField(required=False, max_length=2_000, label=Text("Mail to"))
    webhook_url = forms.CharField(required=False, max_length=500, label=Text("Webhook"))
    no_webhook = forms.BooleanField(required=False, label=Text("Remove the webhook"))

    @classmethod
    def of(cls, schedule: ReportSchedule) -> ScheduleForm:
        """Return the form with the schedule's values."""
        names = ("is_on", "cadence", "weekday", "hour", "minute", "zone")
        values = {name: getattr(schedule, name) for name in names}
        return cls(initial={**values, "emails": ", ".join(schedule.emails)})

    def clean_zone(self) -> str:
        zone = str(self.cleaned_data["zone"]).strip()
        if zone and zone_problem(zone):
            raise forms.ValidationError(
                Text(
                    "%(name)s is no time zone; use a name of the IANA list such as Europe/Berlin or Asia/Kolkata.",
                    name=repr(zone),
                )
            )
        return zone

    def clean_emails(self) -> list[str]:
        words = [word.strip() for word in self.cleaned_data["emails"].replace("\n", ",").split(",")]
        found = [word for word in words if word]
        if len(found) > delivery.EMAILS_MAX:
            raise forms.ValidationError(
                Text("At most %(number)s addresses; use a list address.", number=delivery.EMAILS_MAX)
            )
        try:
            return [delivery.valid_email(word) for word in found]
        except ValueError as error:
            raise forms.ValidationError(text_of(error)) from None

    def clean_webhook_url(self) -> str:
        url = str(self.cleaned_data["webhook_url"]).strip()
        if not url:
            return ""
        try:
            return delivery.valid_webhook(url)
        except ValueError as error:
            raise forms.ValidationError(text_of(error)) from None

    def changes(self) -> Change:
        """Return what to change, once the form is valid."""
        values = self.cleaned_data
        keeps_webhook = not values["no_webhook"] and not values["webhook_url"]
        return Change(
            is_on=values["is_on"],
            cadence=values["cadence"],
            minute=values["minute"],
            hour=values["hour"],
            weekday=values["weekday"],
            zone=values["zone"],
            emails=values["emails"],
            webhook_url=None if keeps_webhook else "" if values["no_webhook"] else values["webhook_url"],
        )


class SloForm(forms.Form):
    """A group's promise: seconds a message may wait, and per cent of the time.

    Both empty: the installation's.
    """

    seconds = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=7 * 86_400,
        label=Text("No message waits longer than, in seconds"),
    )
    target_pct = forms.FloatField(
        required=False, min_value=50, max_value=99.999, label=Text("for this share of the time, in per cent")
    )

    def clean(self) -> None:
        super().clean()
        values = self.cleaned_data
        if not self.errors and (values.get("seconds") is None) != (values.get("target_pct") is None):
            empty = "seconds" if values.get("seconds") is None else "target_pct"
            self.add_error(empty, Text("Enter both, or leave both empty to use the SLO of the installation."))


def _ms(moment: dt.datetime) -> int:
    return int(moment.replace(tzinfo=dt.UTC).timestamp() * 1000)


def as_input(at_ms: int) -> str:
    """Return the value of a `datetime-local` input."""
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime(MINUTES)
