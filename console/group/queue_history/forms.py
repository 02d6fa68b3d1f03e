"""The form of a queue's history: which queue, from when to when, in which steps."""

from __future__ import annotations

from django import forms

from console.brokers.mqadmin import MessageQueue
from console.group.queue_history.readings import STEPS_MS, refusal, usual_step_ms
from console.text import Duration, Text
from console.text.moment_field import MomentField
from spark.lag.local_time import HOUR_MS

QUEUE_ID_MAX = 2**31 - 1
STEPS = [("", Text("automatic")), *((str(ms), Text("%(span)s", span=Duration(ms))) for ms in STEPS_MS)]


class QueueHistoryForm(forms.Form):
    """`?topic=…&broker=…&queue=3&since=…&until=…&step=60000`; the last hour without times."""

    topic = forms.CharField(max_length=255)
    broker = forms.CharField(max_length=255)
    queue = forms.IntegerField(min_value=0, max_value=QUEUE_ID_MAX)
    since = MomentField(required=False)
    until = MomentField(required=False)
    step = forms.ChoiceField(choices=STEPS, required=False)

    def read(self, now_ms: int, interval_ms: int) -> bool:
        """Return whether the form is valid, with the range and step to show."""
        if not self.is_valid():
            return False
        cleaned = self.cleaned_data
        self.to_ms: int = now_ms if cleaned["until"] is None else cleaned["until"]
        self.from_ms: int = max(0, self.to_ms - HOUR_MS) if cleaned["since"] is None else cleaned["since"]
        usual_ms = usual_step_ms(self.to_ms - self.from_ms, interval_ms)
        self.step_ms: int = max(interval_ms, int(cleaned["step"] or usual_ms))
        words = refusal(self.from_ms, self.to_ms, self.step_ms)
        if words is not None:
            self.add_error("until", words.local())
        return words is None

    @property
    def message_queue(self) -> MessageQueue:
        """Return the queue of a valid form."""
        cleaned = self.cleaned_data
        return MessageQueue(cleaned["topic"], cleaned["broker"], cleaned["queue"])
